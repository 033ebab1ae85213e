"""A formaliser as a critic: it calls a statement right that it could have written itself.

Flows in: problems that ask whether a statement says what the English says. Flows out: answers as a
critic writes them, so that gates, rewards and evaluations take it for one. The formaliser reads the
statement token by token; where a sign or a number is wrong it would have written another. How much
less likely a token is than the likeliest one in its place is its gap, and a statement is as good as
its worst token (token probabilities as an estimate of quality: Fomicheva et al. 2020, arXiv
2005.10608). It is called right if no gap is below ``least``, which is fitted on judged pairs. What
the same weights have sampled is likely to them, right or wrong: another formaliser should judge it.
Not handled here: fitting (``proverrl.formalize.fit``).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from proverrl.errors import UsageError
from proverrl.files.disk import saving
from proverrl.files.lines import write_atomically
from proverrl.lang import find_language
from proverrl.lang.critique.language import CRITIQUE, read_pair, write_answer
from proverrl.policy.base import Exchange
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import render_prompt
from proverrl.types import Completion, Problem, Prompt, Sampling, TokenField

FILE = "critic.json"
"""In the folder of a critic that is a formaliser: whose weights, and the least gap."""
_NOT_GIVEN: tuple[TokenField, ...] = ("prompt_ids", "token_ids", "logprobs")


@dataclass(frozen=True, slots=True)
class Gap:
    """The worst token of a statement: natural logarithm of how much less likely it is than the
    likeliest one there, at most 0; the text of both, and what stands before."""

    size: float
    written: str
    likeliest: str
    before: str

    def describe(self) -> str:
        """In words, for a person and as a critic's reasons."""
        if not self.size:
            return "each word is the likeliest"
        place = f"after {self.before!r}" if self.before else "at the beginning"
        times = math.exp(min(-self.size, 30.0))
        return f"{place} {self.likeliest!r} is {times:.3g} times as likely as {self.written!r}"


@dataclass(frozen=True, slots=True)
class _Reading(Prompt):
    """The formaliser's prompt and then the statement, which begins at token ``start``."""

    start: int = 0


class LikelihoodPolicy:
    """Judges with a formaliser's weights; see the module. Every answer to a prompt is the same."""

    def __init__(self, formaliser: TransformersPolicy, least: float) -> None:
        self.formaliser = formaliser
        self.least = least
        self.version = formaliser.version
        self.layout = formaliser.layout
        self.engine = f"a formaliser as a critic, least gap {least:.4g}, {formaliser.engine}"

    def prompt(self, problem: Problem) -> Prompt:
        """What the formaliser is asked, and the statement as its answer. Raises ``UsageError`` for
        a problem that asks for anything but a judgement on a statement."""
        asked, body = read_pair(problem) if problem.kind == CRITIQUE.name else (problem, "")
        if asked is problem or not find_language(asked.language).asks_statement(asked):
            raise UsageError(
                f"problem {problem.id!r} asks for no judgement on a statement, which is all that a "
                f"folder with {FILE} gives; name the formaliser's own weights to write statements"
            )
        shown = self.formaliser.prompt(asked).token_ids
        ids = (*shown, *self.formaliser.body_ids(asked, body))
        return _Reading(problem.id, render_prompt(asked, self.layout), ids, start=len(shown))

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        """Raises ``UsageError``: a second look gives the same judgement."""
        raise UsageError("a formaliser as a critic takes one turn; set rollout.mode = whole_proof")

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """See ``Policy.generate``; temperature and seed change nothing."""
        written = []
        for prompt in prompts:
            gap = await asyncio.to_thread(self.measure, prompt)
            text = write_answer(gap.size >= self.least, gap.describe())
            empty: dict[str, Any] = dict.fromkeys(_NOT_GIVEN, ())
            answer = Completion(text, **empty, finish_reason="stop", policy_version=self.version,
                                missing=_NOT_GIVEN)  # fmt: skip
            written.append([answer] * n)
        return written

    def measure(self, prompt: Prompt) -> Gap:
        """The worst token of a statement. Raises ``UsageError`` where the model is too short."""
        assert isinstance(prompt, _Reading)
        if len(prompt.token_ids) > self.formaliser.context_tokens:
            raise UsageError(
                f"{prompt.problem_id}: text and statement have {len(prompt.token_ids)} tokens, the "
                f"formaliser reads {self.formaliser.context_tokens}; leave the problem out"
            )
        ids = torch.tensor([prompt.token_ids], device=self.formaliser.device)
        with torch.inference_mode():
            logits = self.formaliser.model(input_ids=ids, use_cache=False).logits[0].float()
        scores = logits[prompt.start - 1 : -1]
        written = ids[0, prompt.start :]
        gaps = scores.gather(1, written[:, None])[:, 0] - scores.max(1).values
        worst = int(gaps.argmin())
        decode = self.formaliser.tokenizer.decode
        before = str(decode(written[:worst].tolist()))
        likeliest = int(scores[worst].argmax())
        said, meant = (str(decode([token])).strip() for token in (int(written[worst]), likeliest))
        return Gap(float(gaps[worst]), said, meant, before[-30:].strip())


def write_critic(folder: Path, formaliser: Path, least: float, about: dict[str, Any]) -> None:
    """Make ``folder`` a critic that judges with the weights in ``formaliser``."""
    row = {"formaliser": str(formaliser.resolve()), "least": least, **about}
    with saving(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / FILE, json.dumps(row, indent=1) + "\n")


def read_critic(folder: str | Path) -> tuple[str, float] | None:
    """The formaliser's folder and the least gap; None for a folder of anything else. Raises
    ``UsageError`` for a file that was not written by ``write_critic``."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    try:
        row = json.loads(path.read_text("utf-8"))
        formaliser, least = str(row["formaliser"]), float(row["least"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is no critic ({error}); write it with proverrl fit-critic"
        ) from error
    if not math.isfinite(least):
        raise UsageError(
            f"{path}: least must be a finite number; write it with proverrl fit-critic"
        )
    return formaliser, least
