"""A formaliser as a critic: it calls a statement right that it could have written itself.

Flows in: problems that ask whether a statement says what the English says. Flows out: answers as a
critic writes them, so that gates, rewards and evaluations take it for one. The formaliser reads the
statement token by token; where a sign or a number is wrong it would have written another. How much
likelier the likeliest token in a place is than the one that is written, as a logarithm, is its gap,
and a statement is as good as its worst token (token probabilities as an estimate of quality:
Fomicheva et al. 2020, arXiv 2005.10608). It is called right if no gap is above ``most``, which is
fitted on judged pairs. What the same weights have sampled is likely to them, right or wrong:
another formaliser should judge it. Not handled here: fitting (``fit``).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from proverrl.config import Config, LayoutName
from proverrl.errors import UsageError
from proverrl.files.disk import saving
from proverrl.files.lines import write_atomically
from proverrl.files.strict_json import load_json
from proverrl.lab.beside import open_beside
from proverrl.lab.critics.gate import Critic
from proverrl.lab.critics.language import CRITIQUE, read_pair, write_answer
from proverrl.policy.base import Exchange
from proverrl.policy.engines import name_weights
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import render_prompt, require_layout
from proverrl.types import Completion, Problem, Prompt, Sampling, TokenField

FILE = "critic.json"
"""In the folder of a critic that is a formaliser: whose weights, shown how, and the largest gap."""
_END = "the end"
_SHOWN = 40
"""Characters of what stands before a word."""
_NOT_GIVEN: tuple[TokenField, ...] = ("prompt_ids", "token_ids", "logprobs")


@dataclass(frozen=True, slots=True)
class Gap:
    """The worst token of a statement: natural logarithm of how much likelier another one is there,
    0 for none; the text of both, and what stands before."""

    size: float
    written: str
    likeliest: str
    before: str

    def describe(self) -> str:
        """In words, for a person and as a critic's reasons."""
        if not self.size:
            return "each word is the likeliest"
        place = f"after {self.before!r}" if self.before else "at the beginning"
        times = math.exp(min(self.size, 30.0))
        return f"{place} {self.likeliest!r} is {times:.3g} times as likely as {self.written!r}"


@dataclass(frozen=True, slots=True)
class _Reading(Prompt):
    """The formaliser's prompt and then the statement, which begins at token ``start``."""

    start: int = 0


class LikelihoodPolicy:
    """Judges with a formaliser's weights; see the module. Every answer to a prompt is the same."""

    def __init__(self, formaliser: TransformersPolicy, most: float) -> None:
        self.formaliser = formaliser
        self.most = most
        self.version = formaliser.version
        self.layout = formaliser.layout
        self.before = formaliser.before
        # All that tells it from another, since results name a policy by this.
        weights = name_weights(formaliser)
        self.engine = f"a formaliser as a critic, largest gap {most!r}, weights {weights}"

    def prompt(self, problem: Problem) -> Prompt:
        """The question to the formaliser, and the statement as its answer. Raises ``UsageError``
        for a problem that asks for anything but a judgement on a statement."""
        if problem.kind != CRITIQUE.name:
            raise UsageError(
                f"problem {problem.id!r} asks for no judgement on a statement, which is all that a "
                f"folder with {FILE} gives; name the formaliser's own weights to write statements"
            )
        asked, body = read_pair(problem)
        shown = self.formaliser.prompt(asked).token_ids
        ids = (*shown, *self.formaliser.body_ids(asked, body))
        text = render_prompt(asked, self.layout, self.before)
        return _Reading(problem.id, text, ids, start=len(shown))

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        """Raises ``UsageError``: a second look gives the same judgement."""
        raise UsageError("a formaliser as a critic takes one turn; set rollout.mode = whole_proof")

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """See ``Policy.generate``; temperature and seed change nothing. On what is too long for the
        formaliser there is no judgement."""
        written = []
        for prompt in prompts:
            if len(prompt.token_ids) > self.formaliser.context_tokens:
                text = f"no judgement: {self._say_length(prompt)}"
            else:
                gap = await asyncio.to_thread(self.measure, prompt)
                text = write_answer(gap.size <= self.most, gap.describe())
            empty: dict[str, Any] = dict.fromkeys(_NOT_GIVEN, ())
            answer = Completion(text, **empty, finish_reason="stop", policy_version=self.version,
                                missing=_NOT_GIVEN)  # fmt: skip
            written.append([answer] * n)
        return written

    def measure(self, prompt: Prompt) -> Gap:
        """The worst token of a statement. Raises ``UsageError`` where the model is too short, or
        broken."""
        assert isinstance(prompt, _Reading)
        if len(prompt.token_ids) > self.formaliser.context_tokens:
            raise UsageError(
                f"{prompt.problem_id}: {self._say_length(prompt)}; leave the problem out"
            )
        ids = torch.tensor([prompt.token_ids], device=self.formaliser.device)
        with torch.inference_mode():
            logits = self.formaliser.model(input_ids=ids, use_cache=False).logits[0].float()
        scores = logits[prompt.start - 1 : -1]
        written = ids[0, prompt.start :]
        gaps = scores.max(1).values - scores.gather(1, written[:, None])[:, 0]
        if not bool(gaps.isfinite().all()):
            raise UsageError(f"{prompt.problem_id}: the formaliser's numbers are not finite")
        worst = int(gaps.argmax())
        said, meant = (self._name(int(token)) for token in (written[worst], scores[worst].argmax()))
        before = str(self.formaliser.tokenizer.decode(written[:worst].tolist())).strip()
        if len(before) > _SHOWN:
            before = "... " + before[-_SHOWN:].partition(" ")[2]
        return Gap(float(gaps[worst]), said, meant, before)

    def _say_length(self, prompt: Prompt) -> str:
        num, most = len(prompt.token_ids), self.formaliser.context_tokens
        return f"text and statement have {num} tokens, the formaliser reads {most}"

    def _name(self, token: int) -> str:
        ends = token in self.formaliser.end_ids
        return _END if ends else str(self.formaliser.tokenizer.decode([token])).strip()


@dataclass(frozen=True, slots=True)
class StoredCritic:
    """The content of ``FILE``: the folder of a formaliser, the name of its weights
    (``name_weights``), the layout it reads in, and the largest gap of what is right."""

    formaliser: str
    weights: str
    layout: LayoutName
    most: float


def write_critic(folder: Path, critic: StoredCritic, about: Mapping[str, Any]) -> None:
    """Make ``folder`` a critic; ``about`` says more to people."""
    with saving(folder):
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**asdict(critic), **about}, indent=1)
        write_atomically(folder / FILE, text + "\n")


def read_critic(folder: str | Path) -> StoredCritic | None:
    """The critic that ``write_critic`` wrote; None for a folder of anything else. Raises
    ``UsageError`` for a damaged file."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    try:
        return _build(load_json(path.read_text("utf-8"), unique_keys=True))
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise UsageError(
            f"{path} is no critic ({error!r}); write it anew with proverrl words fit-critic"
        ) from error


def _build(row: Mapping[str, Any]) -> StoredCritic:
    formaliser, weights, layout, most = (row[name] for name in StoredCritic.__slots__)
    if not all(isinstance(name, str) and name for name in (formaliser, weights, layout)):
        raise ValueError("formaliser, weights and layout must be texts")
    if not isinstance(most, float) or not math.isfinite(most):
        raise ValueError("most must be a finite number with a point")
    require_layout(layout)
    return StoredCritic(formaliser, weights, layout, most)


def open_likelihood(config: Config, path: str, key: str) -> LikelihoodPolicy | None:
    """The critic that ``write_critic`` wrote to a folder, in the layout that it was fitted in; None
    where it wrote none. Raises ``UsageError`` that names ``key`` if its formaliser cannot be
    loaded, or has other weights by now."""
    if (stored := read_critic(path)) is None:
        return None
    place = f"{key}, a critic with the weights of"
    policy = open_beside(config, stored.formaliser, stored.layout, place)
    if not isinstance(policy, TransformersPolicy) or name_weights(policy) != stored.weights:
        raise UsageError(
            f"{key}: {stored.formaliser} holds other weights than {path} was fitted for; fit the "
            "critic again with proverrl words fit-critic"
        )
    return LikelihoodPolicy(policy, stored.most)


def open_critic(config: Config, path: str) -> Critic:
    """The frozen policy in ``path``, which judges statements. Raises ``UsageError`` if it cannot be
    loaded."""
    likely = open_likelihood(config, path, "--critic")
    return Critic(likely or open_beside(config, path, "canonical", "--critic"))
