"""Which of the kept proofs a round of expert iteration learns from, and other data beside them.

Flows in: kept proofs with the version of the policy that wrote them; a file of problems with
reference bodies. Flows out: the proofs of a round; checked pairs of problem and body.
Not handled here: verifying anything (``proverrl.loops.reverify``).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

from proverrl.benchmarks.open import open_benchmark
from proverrl.config import Config, ProblemsConfig
from proverrl.errors import ProblemError, UsageError
from proverrl.problems.load import load_problems, load_references
from proverrl.rollout.proofs import Proof
from proverrl.types import Candidate, Problem

Entry = tuple[str, Proof]


def choose_proofs(
    entries: Sequence[Entry],
    *,
    policy_version: int,
    earlier_share: float,
    max_per_problem: int,
    rng: random.Random,
) -> list[Entry]:
    """The proofs that a round learns from, in the order of ``entries``.

    Of a problem with more than ``max_per_problem`` proofs (0: no limit) as many are drawn, so that
    problems with many proofs, which are the easy ones, do not outweigh the rest. Then proofs that
    an earlier policy wrote are drawn so that they are at most ``earlier_share`` of the whole. A
    round that found nothing new takes all of them, whatever the share.
    """
    chosen = list(range(len(entries)))
    if max_per_problem:
        chosen = _cap_problems(entries, max_per_problem, rng)
    new = [i for i in chosen if entries[i][1].policy_version == policy_version]
    earlier = [i for i in chosen if entries[i][1].policy_version != policy_version]
    if new and earlier_share < 1.0:
        # n new ones are the share 1 - s of n / (1 - s); a hair more, for shares such as 0.2.
        most = math.floor(len(new) * earlier_share / (1.0 - earlier_share) + 1e-9)
        earlier = rng.sample(earlier, min(most, len(earlier)))
    return [entries[i] for i in sorted(new + earlier)]


def _cap_problems(entries: Sequence[Entry], most: int, rng: random.Random) -> list[int]:
    by_problem: dict[str, list[int]] = {}
    for i, (name, _) in enumerate(entries):
        by_problem.setdefault(name, []).append(i)
    return sorted(
        i
        for members in by_problem.values()
        for i in (members if len(members) <= most else rng.sample(members, most))
    )


def check_files(config: Config) -> None:
    """Refuse the files of ``[expert_iteration]`` before the warm start, not minutes later.

    Raises:
        UsageError: ``proofs`` names no file.
        ProblemError: as ``load_sft_data``.
    """
    settings = config.expert_iteration
    if settings.proofs and not Path(settings.proofs).is_file():
        raise UsageError(f"expert_iteration.proofs names {settings.proofs}, which is no file")
    if settings.sft_data:
        load_sft_data(Path(settings.sft_data), config.problems)


def load_sft_data(path: Path, problems: ProblemsConfig) -> list[tuple[Problem, str]]:
    """Problems with reference bodies to learn from in every round, as they are.

    They are not verified and nowhere called proved.

    Raises:
        ProblemError: a line has no reference, or its statement is one of the validation or
            held-out split, which would make every evaluation worthless.
    """
    references = load_references(path)
    kept_apart = {
        _statement_key(problem): (split, problem.id)
        for split in (problems.valid, problems.heldout)
        if split.exists()
        for problem in open_benchmark(str(split)).problems
    }
    pairs = []
    for problem in load_problems(path):
        if problem.id not in references:
            raise ProblemError(
                f"{path}: problem {problem.id!r} has no field 'reference', and a body is what is "
                "to be learned; add it or drop the line"
            )
        if found := kept_apart.get(_statement_key(problem)):
            raise ProblemError(
                f"{path}: problem {problem.id!r} has the statement of {found[1]!r} in {found[0]}, "
                "which is kept apart for evaluation; drop the line"
            )
        pairs.append((problem, references[problem.id]))
    return pairs


def _statement_key(problem: Problem) -> str:
    return Candidate(problem, "").key
