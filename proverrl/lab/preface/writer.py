"""Answers that instruct: a frozen policy, the writer, writes the body in place of the policy.

Flows in: problems with what the policy wrote. Flows out: the bodies proposed on it, and what the
policy is told of an attempt. Only the instruction is the policy's completion, so that its own
tokens with their own log-probabilities are learned. The writer's text is context at most, through
the feedback. PREFACE (Proof2Silicon, arXiv 2509.06239), whose code takes one next-token
distribution for the probability of a whole instruction. Not handled here: whose weights are
trained, verdicts, turns (``proverrl.rollout.self_correct``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from proverrl.config import LayoutName
from proverrl.lab.preface.rewards import AttemptsFn
from proverrl.lab.preface.shown import show_instruction
from proverrl.lang.records import Extraction
from proverrl.policy.base import Policy
from proverrl.problems.prompt import (
    render_body,
    use_layout_words,
    use_problem_words,
)
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
        prompts = [
            show_instruction(
                self.policy,
                problem,
                self.read_instruction(problem, text, layout=layout, turn=turn),
            )
            for problem, text in answers
        ]
        sampling = replace(self.sampling, seed=derive_seed(seed, "writer"))
        written = await self.policy.generate(prompts, n=1, sampling=sampling)
        return [
            self._read(problem, completions[0].text)
            for (problem, _), completions in zip(answers, written, strict=True)
        ]

    def read_instruction(
        self, problem: Problem, text: str, *, layout: LayoutName, turn: int
    ) -> str:
        """The part of an answer that the writer is shown: no thinking, in its own words of the
        problem, and within the budget of the turn."""
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
        """The message to the policy about the last turn: the body, its ``errors`` in words, and
        what the attempt earned."""
        turn = rollout.turns[-1]
        parts = []
        if turn.candidate is not None:
            body = render_body(rollout.problem, turn.candidate.body, layout)
            parts.append(body)
        parts.append(errors)
        if self.attempts is not None:
            parts.append(f"reward {self.attempts(rollout)[-1].total:.1f}")
        return "\n".join(parts)

    def _read(self, problem: Problem, text: str) -> Extraction:
        """As ``extract``, without the place in the text, which is none in the policy's answer."""
        found = extract(problem, text, self.policy.layout)
        reason = f"the writer's text: {found.reason}" if found.reason else ""
        return replace(found, span=None, reason=reason)
