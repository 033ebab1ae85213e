"""Answers that instruct: a frozen policy, the writer, writes the body in place of the policy.

Flows in: problems with what the policy wrote. Flows out: the bodies proposed on it, and what the
policy is told of an attempt. Only the instruction is the policy's completion, so that its own
tokens with their own log-probabilities are what is learned; what the writer wrote is context at
most, through the feedback. PREFACE (Proof2Silicon, arXiv 2509.06239), whose code takes one
next-token distribution for the probability of a whole instruction.
Not handled here: whose weights are trained, verdicts, turns (``self_correct``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from proverrl.config import LayoutName
from proverrl.errors import RunError
from proverrl.lang.records import Extraction
from proverrl.policy.base import Policy
from proverrl.policy.engines import name_weights
from proverrl.problems.prompt import (
    LAYOUTS,
    instruct,
    render_body,
    use_layout_words,
    use_problem_words,
)
from proverrl.rewards.preface import AttemptsFn
from proverrl.rollout.extract import extract, skip_thinking
from proverrl.seeds import derive_seed
from proverrl.types import Problem, Rollout, Sampling


@dataclass(frozen=True, slots=True)
class Writer:
    """A policy whose weights never change. It is shown ``characters[turn]`` of an instruction, the
    last number in all turns after those; what is beyond is cut, and is learned from as the rest.
    ``attempts`` says what an attempt earned, where the reward is one of attempts."""

    policy: Policy
    sampling: Sampling
    characters: tuple[int, ...]
    attempts: AttemptsFn | None = None

    async def write(
        self, answers: Sequence[tuple[Problem, str]], *, layout: LayoutName, turn: int, seed: int
    ) -> list[Extraction]:
        """The body that one completion on each problem proposes, under what an answer in ``layout``
        instructs; without an instruction the writer is shown the problem alone."""
        shown = [
            instruct(problem, self.read_instruction(problem, text, layout=layout, turn=turn))
            for problem, text in answers
        ]
        sampling = replace(self.sampling, seed=derive_seed(seed, "writer"))
        prompts = [self.policy.prompt(problem) for problem in shown]
        written = await self.policy.generate(prompts, n=1, sampling=sampling)
        return [
            self._read(problem, completions[0].text)
            for (problem, _), completions in zip(answers, written, strict=True)
        ]

    def read_instruction(
        self, problem: Problem, text: str, *, layout: LayoutName, turn: int
    ) -> str:
        """What the writer is shown of an answer: no thinking, in its own words of the problem, and
        within the budget of the turn."""
        start, end, _ = skip_thinking(text)
        words = text[start:end].strip()
        if layout != self.policy.layout:
            words = use_problem_words(problem, words, layout)
            words = use_layout_words(problem, words, self.policy.layout)
        return words[: self.find_budget(turn)]

    def find_budget(self, turn: int) -> int:
        """Characters of an instruction in a turn, from 0."""
        return self.characters[min(turn, len(self.characters) - 1)]

    def tell(self, rollout: Rollout, errors: str, layout: LayoutName) -> str:
        """What the policy is told of the last turn: the body, its ``errors`` in words, and what the
        attempt earned; in a conversation, what to write next, under PREFACE's headings."""
        turn, number = rollout.turns[-1], len(rollout.turns)
        parts = []
        if turn.candidate is not None:
            body = render_body(rollout.problem, turn.candidate.body, layout)
            parts.append(body)
        parts.append(errors)
        if self.attempts is not None:
            parts.append(f"reward {self.attempts(rollout)[-1].total:.1f}")
        if LAYOUTS[layout].in_block:
            parts.append(
                f"Write the next instruction, of at most {self.find_budget(number)} characters, "
                "under the headings Failure cause, Semantic check, Required repair, Instruction."
            )
        return "\n".join(parts)

    def _read(self, problem: Problem, text: str) -> Extraction:
        """As ``extract``, without the place in the text, which is none in the policy's answer."""
        found = extract(problem, text, self.policy.layout)
        reason = f"what the writer wrote: {found.reason}" if found.reason else ""
        return replace(found, span=None, reason=reason)


async def read_answers(
    answers: Sequence[tuple[Problem, str]],
    *,
    layout: LayoutName,
    writer: Writer | None,
    turn: int,
    seed: int,
) -> list[Extraction]:
    """The bodies that a policy's answers propose: its own, or those of the ``writer`` that it
    instructs, in ``turn`` (from 0) and under ``seed``."""
    if writer is None:
        return [extract(problem, text, layout) for problem, text in answers]
    return await writer.write(answers, layout=layout, turn=turn, seed=seed)


class SameWriter:
    """Holds a run to the writer that it began with."""

    def __init__(self, writer: Writer) -> None:
        self._weights = name_weights(writer.policy)

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self._weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ``RunError``: the checkpoint names other weights."""
        if state["weights"] != self._weights:
            raise RunError(
                "the writer of [instruct] is not the one that this run began with: "
                f"{self._weights}, not {state['weights']}; put it back, or begin another run"
            )
