"""What supervised training and replay learn.

Flows in: references, proofs that a run kept, a file of problems with reference bodies. Flows out:
pairs of token ids, a prompt and what follows it. Not handled here: verifying anything
(``reverify``), the losses (``proverrl.losses``).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from proverrl.benchmarks.open import open_benchmark
from proverrl.config import Config, ProblemsConfig
from proverrl.errors import ProblemError, UsageError
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.load import load_texts
from proverrl.rollout.proofs import Proof
from proverrl.run.session import Session
from proverrl.types import Candidate, Problem


@dataclass(frozen=True, slots=True)
class Pair:
    """A prompt and the completion to be learned, end token included. The last ``num_shown`` tokens
    of the prompt, such as a failed proof, are read and never learned."""

    prompt_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    num_shown: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_ids) + len(self.target_ids)


PairSource = Callable[[], Pair]
"""Gives a pair to learn, tokenised when it is first asked for: of many a replay draws a few."""


def make_source(policy: TransformersPolicy, problem: Problem, body: str) -> PairSource:
    """A proof to learn from."""
    return cache(lambda: Pair(policy.prompt(problem).token_ids, policy.body_ids(problem, body)))


def reference_sources(session: Session) -> list[PairSource]:
    """What the references teach: each body after its problem's prompt."""
    return [make_source(session.policy, *pair) for pair in session.problems.references]


def proof_sources(session: Session, pairs: Sequence[tuple[str, str]]) -> list[PairSource]:
    """What the run's own proofs, as (problem id, body), teach: each body after its prompt."""
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    return [make_source(session.policy, by_id[name], body) for name, body in pairs]


def choose_proofs(
    entries: Sequence[tuple[str, Proof]],
    *,
    policy_version: int,
    earlier_share: float,
    max_per_problem: int,
    rng: random.Random,
) -> list[tuple[str, Proof]]:
    """The kept proofs that a round of expert iteration learns from, in the order of ``entries``.

    Of a problem with more than ``max_per_problem`` proofs (0: no limit) as many are drawn: the
    easy problems have many. Then proofs that an earlier policy wrote are drawn so that they are at
    most ``earlier_share`` of the whole, or all taken where a round found nothing new."""
    most = max_per_problem or len(entries)
    by_problem: dict[str, list[int]] = {}
    for i, (name, _) in enumerate(entries):
        by_problem.setdefault(name, []).append(i)
    chosen = sorted(
        i
        for members in by_problem.values()
        for i in (members if len(members) <= most else rng.sample(members, most))
    )
    new = [i for i in chosen if entries[i][1].policy_version == policy_version]
    earlier = [i for i in chosen if entries[i][1].policy_version != policy_version]
    if new and earlier_share < 1.0:
        # n new ones are the share 1 - s of n / (1 - s); a hair more, for shares such as 0.2.
        most = math.floor(len(new) * earlier_share / (1.0 - earlier_share) + 1e-9)
        earlier = rng.sample(earlier, min(most, len(earlier)))
    return [entries[i] for i in sorted(new + earlier)]


def check_files(config: Config) -> None:
    """Refuse the files of ``[expert_iteration]`` before the warm start, not minutes later. Raises
    ``UsageError``: ``proofs`` names no file; ``ProblemError``: as ``load_sft_data``."""
    settings = config.expert_iteration
    if settings.proofs and not Path(settings.proofs).is_file():
        raise UsageError(f"expert_iteration.proofs names {settings.proofs}, which is no file")
    if settings.sft_data:
        load_sft_data(Path(settings.sft_data), config.problems)


def load_sft_data(path: Path, problems: ProblemsConfig) -> list[tuple[Problem, str]]:
    """Problems with reference bodies to learn from in every round, as they are.

    They are not verified and nowhere called proved. Raises ``ProblemError``: a line has no
    reference, or its statement is one of the validation or held-out split, which would make every
    evaluation worthless."""
    found = load_texts(path, "reference")
    refuse_kept_apart([(where, problem) for where, problem, _ in found], problems)
    return [(problem, body) for _, problem, (body,) in found]


def refuse_kept_apart(found: Sequence[tuple[str, Problem]], problems: ProblemsConfig) -> None:
    """Raise ``ProblemError`` where one of the problems, each after its place, has a statement of
    the validation or held-out split."""
    kept_apart = {
        Candidate(problem, "").key: (split, problem.id)
        for split in (problems.valid, problems.heldout)
        if split.exists()
        for problem in open_benchmark(str(split)).problems
    }
    for where, problem in found:
        if known := kept_apart.get(Candidate(problem, "").key):
            raise ProblemError(
                f"{where}: problem {problem.id!r} has the statement of {known[1]!r} in {known[0]}, "
                "which is kept apart for evaluation; drop the line"
            )
