"""Hints: the beginning of an answer, or a failed attempt, as exact token ids after a prompt; and
the options of restarts.

Flows in: a problem, a known body for it (or a failed answer with its feedback), a share. Flows out:
a ``Hint``, and prompts that end with one. A beginning is cut from the whole answer's own tokens and
ends where a statement does (``steps``) or anywhere (``tokens``). A hint is not trusted: it is
audited and verified together with what the policy wrote after it. Not handled here: which problem
gets how much (``proverrl.lab.restarts.queue``).
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, model_validator
from transformers import PreTrainedTokenizerBase

from proverrl.config import LayoutName
from proverrl.config.base import Positive, Section
from proverrl.lab.restarts.steps import find_steps
from proverrl.policy.base import Exchange, Policy
from proverrl.problems.prompt import render_body, render_opening
from proverrl.types import Completion, Hint, Problem, Rollout, Status, Verdict

RestartSource = Literal["found", "reference", "failed_prefix", "failed_attempt"]
RestartUnit = Literal["steps", "tokens"]
OpenFraction = Annotated[float, Field(gt=0.0, lt=1.0)]


class RestartOptions(Section):
    """When a problem is tried again from a part of an answer, and how much of it is given."""

    source: RestartSource = "found"
    """``found``, ``reference``, ``failed_prefix`` or ``failed_attempt``"""
    use_references: bool = False
    """must be true for ``source = "reference"``"""
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """the largest share of a draw's groups that are restarts"""
    ratios: Annotated[tuple[OpenFraction, ...], Field(min_length=1)] = (0.25, 0.5, 0.75)
    """shares of an answer's tokens to give, in rising order"""
    unit: RestartUnit = "steps"
    """where a hint ends: ``steps``, at the end of a statement, clause or line, also beyond the
    ratio; ``tokens``, anywhere"""
    patience: Positive = 6
    """restarts of a problem before it is drawn again without a hint"""

    @model_validator(mode="after")
    def _possible(self) -> RestartOptions:
        if self.source == "reference" and not self.use_references:
            raise ValueError(
                'source = "reference" shows references of the training file to the policy; say so '
                "with use_references = true, or choose another source"
            )
        if any(a >= b for a, b in zip(self.ratios, self.ratios[1:], strict=False)):
            raise ValueError("ratios must rise")
        return self


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt. ``token_ids`` and ``text`` are the whole answer's; ``verified`` is the
    number of characters of ``body`` before the step of its first error, 0 when none is in it."""

    body: str
    verified: int
    text: str
    token_ids: tuple[int, ...]
    feedback: str


def cut_opening(
    tokenizer: PreTrainedTokenizerBase,
    problem: Problem,
    body: str,
    layout: LayoutName,
    *,
    ratio: float,
    unit: RestartUnit,
    source: str,
) -> Hint | None:
    """The beginning of the answer that gives ``body``: at least ``ratio`` of its tokens, up to the
    end of a step, never all of it. If no step ends that late, the longest possible one. None when
    it cannot be cut: one step only, or a tokenizer whose tokens are not pieces of text."""
    text = render_body(problem, body, layout)
    ids = _encode(tokenizer, text)
    if unit == "tokens":
        cuts = [max(1, min(len(ids) - 1, round(ratio * len(ids))))]
    else:
        steps = find_steps(problem.language, body)
        openings = [render_opening(problem, body[:end], layout) for end in steps]
        cuts = [_fit(tokenizer, ids, len(o)) for o in openings if text.startswith(o)]
    usable = sorted({cut for cut in cuts if 0 < cut < len(ids)})
    usable = [cut for cut in usable if text.startswith(_decode(tokenizer, ids[:cut]))]
    if not usable:
        return None
    wanted = ratio * len(ids)
    num = next((cut for cut in usable if cut >= wanted), usable[-1])
    return Hint(source, num / len(ids), _decode(tokenizer, ids[:num]), ids[:num])


def verified_opening(
    tokenizer: PreTrainedTokenizerBase, problem: Problem, failure: Failure, layout: LayoutName
) -> Hint | None:
    """A failed answer up to the step of its first error. None when the error stands in its first
    step, or outside the body."""
    opening = render_opening(problem, failure.body[: failure.verified], layout)
    text = render_body(problem, failure.body, layout)
    if not failure.verified or not text.startswith(opening):
        return None
    ids = _encode(tokenizer, text)
    num = _fit(tokenizer, ids, len(opening))
    said = _decode(tokenizer, ids[:num])
    if not num or not text.startswith(said):
        return None
    return Hint("failed_prefix", num / len(ids), said, ids[:num])


def failed_attempt(policy: Policy, problem: Problem, failure: Failure) -> Hint:
    """A whole failed answer and what the verifier said of it (Goedel-Prover-V2, Lin et al. 2025,
    arXiv 2508.03613); the next answer is a new one."""
    zeros = (0.0,) * len(failure.token_ids)
    completion = Completion(failure.text, (), failure.token_ids, zeros, "stop", 0)
    prompt = policy.prompt(problem)
    resumed = policy.resume(prompt, [Exchange(completion, failure.feedback)])
    text, ids = resumed.text[len(prompt.text) :], resumed.token_ids[len(prompt.token_ids) :]
    return Hint("failed_attempt", 1.0, text, ids)


def read_failure(rollout: Rollout, feedback: str) -> Failure | None:
    """The first attempt of a rollout as a failure; None unless it was refused with a candidate."""
    turn = rollout.turns[0]
    if turn.candidate is None or turn.verdict is None or turn.candidate.prelude:
        return None
    if turn.verdict.status not in (Status.REJECTED, Status.EXHAUSTED):
        return None
    hint = rollout.hint if rollout.hint and rollout.hint.opening else None
    return Failure(
        body=turn.candidate.body,
        verified=find_verified(rollout.problem, turn.candidate.body, turn.verdict),
        text=(hint.opening if hint else "") + turn.completion.text,
        token_ids=(hint.token_ids if hint else ()) + turn.completion.token_ids,
        feedback=feedback,
    )


def find_verified(problem: Problem, body: str, verdict: Verdict) -> int:
    """Characters of a body before the step in which its first error stands; 0 without one."""
    places = [
        (d.body_line, d.body_column or 0)
        for d in verdict.diagnostics
        if d.severity == "error" and d.body_line is not None
    ]
    if not places:
        return 0
    line, column = min(places)
    place = sum(len(text) + 1 for text in body.split("\n")[: line - 1]) + column
    steps = find_steps(problem.language, body)
    return max((start for start in steps if start <= place), default=0)


def _encode(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    return tuple(int(i) for i in tokenizer(text, add_special_tokens=False)["input_ids"])


def _decode(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids)))


def _fit(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], length: int) -> int:
    """The most tokens whose text is at most ``length`` characters; texts grow with their tokens."""

    def count(num: int) -> int:
        return len(_decode(tokenizer, ids[:num]))

    return bisect.bisect_right(range(1, len(ids) + 1), length, key=count)
