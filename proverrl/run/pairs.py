"""Pairs that supervised training and replay learn from.

Flows in: references, and proofs that a run kept. Flows out: pairs of token ids, a prompt and what
follows it. Not handled here: verifying anything (``reverify``), the losses (``proverrl.losses``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from proverrl.config import Config
from proverrl.errors import UsageError
from proverrl.policy.conversation import encode_messages
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import NOTHING_BEFORE
from proverrl.run.session import Session
from proverrl.types import Problem


@dataclass(frozen=True, slots=True)
class Pair:
    """A prompt and the completion to be learned, end token included. The last ``num_shown`` tokens
    of the prompt, such as a failed proof, are read and never learned, nor are the first
    ``num_before``, such as ``policy.examples``."""

    prompt_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    num_shown: int = 0
    num_before: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_ids) + len(self.target_ids)


PairSource = Callable[[], Pair]
"""Gives a pair to learn, tokenised when it is first asked for: of many a replay draws a few."""


def make_source(policy: TransformersPolicy, problem: Problem, body: str) -> PairSource:
    """A proof to learn from."""

    @cache
    def make() -> Pair:
        prompt = policy.prompt(problem).token_ids
        before = count_before(policy, problem, prompt)
        return Pair(prompt, policy.body_ids(problem, body), num_before=before)

    return make


def count_before(policy: TransformersPolicy, problem: Problem, prompt_ids: tuple[int, ...]) -> int:
    """How many tokens of a prompt are examples and system text, up to the problem itself."""
    if policy.before == NOTHING_BEFORE:
        return 0
    [*_, asked] = policy.before.messages(problem, policy.layout)
    own = encode_messages(policy.tokenizer, problem.id, [asked], policy.layout).token_ids
    return max(0, len(prompt_ids) - len(own))


def reference_sources(session: Session) -> list[PairSource]:
    """Pairs of the references: each body after its problem's prompt."""
    return [make_source(session.policy, *pair) for pair in session.problems.references]


def proof_sources(session: Session, pairs: Sequence[tuple[str, str]]) -> list[PairSource]:
    """Pairs of the run's own proofs, given as (problem id, body): each body after its prompt."""
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    return [make_source(session.policy, by_id[name], body) for name, body in pairs]


def check_files(config: Config) -> None:
    """Refuse the files of ``[expert_iteration]`` before the warm start, not minutes later. Raises
    ``UsageError``: ``proofs`` names no file."""
    settings = config.expert_iteration
    if settings.proofs and not Path(settings.proofs).is_file():
        raise UsageError(f"expert_iteration.proofs names {settings.proofs}, which is no file")
