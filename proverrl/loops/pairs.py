"""What supervised training learns: prompts and the bodies that prove their problems.

Flows in: references, and proofs that a run found. Flows out: sources of pairs of token ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from proverrl.loops.session import Session
from proverrl.policy.transformers import TransformersPolicy
from proverrl.types import Problem


@dataclass(frozen=True, slots=True)
class Pair:
    """A prompt and the completion to be learned, end token included."""

    prompt_ids: tuple[int, ...]
    target_ids: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_ids) + len(self.target_ids)


PairSource = Callable[[], Pair]
"""Gives a pair to learn, tokenised when it is first asked for."""


def make_source(policy: TransformersPolicy, problem: Problem, body: str) -> PairSource:
    """A proof to learn from."""

    @cache
    def tokenise() -> Pair:
        # Only when asked for: of many sources a replay draws a few.
        return Pair(policy.prompt(problem).token_ids, policy.body_ids(problem, body))

    return tokenise


def reference_sources(session: Session) -> list[PairSource]:
    """What the references teach: each body after its problem's prompt."""
    return [
        make_source(session.policy, problem, reference)
        for problem, reference in session.problems.references
    ]


def proof_sources(session: Session, pairs: Sequence[tuple[str, str]]) -> list[PairSource]:
    """What the run's own proofs, as (problem id, body), teach: each body after its prompt."""
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    return [make_source(session.policy, by_id[name], body) for name, body in pairs]
