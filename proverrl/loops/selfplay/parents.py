"""What a round's statements are made from, and which operators are worth it.

Flows in: base problems, the archive, proofs. Flows out: pairs of parents, each with a proof where
one is known; beliefs about operators. The same for the same generator and the same state.
Not handled here: scaffolds, which draw parents of their own (``scaffolds``).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence

from proverrl.compose.archive import ProblemArchive
from proverrl.compose.composers import Pair
from proverrl.config.selfplay import ParentChoice
from proverrl.curriculum.beliefs import Belief, update_belief
from proverrl.errors import ProblemError
from proverrl.lang.records import Parent
from proverrl.types import Problem

ARCHIVE_CHANCE = 0.5
"""How often the first parent of a pair comes from the archive, where that may have parents."""
MAX_GROWTH = 2
"""How many times as long as the longest base problem a parent from the archive may be."""


def draw_pairs(
    rng: random.Random,
    choice: ParentChoice,
    num: int,
    *,
    base: Sequence[Problem],
    archive: ProblemArchive,
    proofs: Mapping[str, str],
    references: Mapping[str, str],
) -> list[Pair]:
    """``num`` pairs. Solved are base problems that the run has proved (``proofs``); while there are
    none, any problem may stand for them.

    Raises:
        ProblemError: a problem has no second one of its language.
    """
    problems = sorted(base, key=lambda problem: problem.id)
    solved = [problem for problem in problems if problem.id in proofs]
    open_ = [problem for problem in problems if problem.id not in proofs]
    fertile = list_parents(archive, problems) if choice == "archive" else []
    known = {**references, **proofs}
    first, second = problems, [*problems, *fertile]
    if choice == "solved":
        first, second = solved or problems, solved or problems
    elif choice == "mixed":
        first, second = open_ or problems, solved or problems
    return [_draw_pair(rng, _draw_pool(rng, first, fertile), second, known) for _ in range(num)]


def list_parents(archive: ProblemArchive, base: Sequence[Problem]) -> list[Problem]:
    """Composed problems that were kept and solved by some of their attempts only, in the order of
    their ids. Much longer ones are left out: chains of fusions would outgrow the policy."""
    longest = max((_length(problem) for problem in base), default=0)
    found = []
    for composed in archive:
        facts = archive.facts(composed.problem.id)
        rate = facts.get("solve_rate")
        if rate is None or not 0.0 < rate < 1.0 or "stopped_by" in facts:
            continue
        if _length(composed.problem) <= MAX_GROWTH * longest:
            found.append(composed.problem)
    return sorted(found, key=lambda problem: problem.id)


def weigh_operators(archive: ProblemArchive, low: float, high: float) -> dict[str, Belief]:
    """How useful each operator has been: Beta parameters of the share of its statements that no
    guard stopped and that were proved by more than ``low`` and at most ``high`` of the attempts.
    A statement that was made again was of no use."""
    beliefs: dict[str, Belief] = defaultdict(lambda: [1.0, 1.0])
    for composed in archive:
        facts = archive.facts(composed.problem.id)
        rate = facts.get("solve_rate")
        if rate is None and "stopped_by" not in facts:
            continue
        useful = rate is not None and low < rate <= high and "stopped_by" not in facts
        for name in composed.operator.split("+"):
            total = 1 + facts.get("repeats", 0)
            update_belief(beliefs[name], int(useful), total, discount=1.0)
    return dict(beliefs)


def _draw_pool(
    rng: random.Random, first: Sequence[Problem], fertile: Sequence[Problem]
) -> Sequence[Problem]:
    # No number is drawn where there is nothing to choose: other choices of parents stay as they
    # were.
    return fertile if fertile and rng.random() < ARCHIVE_CHANCE else first


def _draw_pair(
    rng: random.Random,
    first: Sequence[Problem],
    second: Sequence[Problem],
    references: Mapping[str, str],
) -> Pair:
    a = rng.choice(first)
    # A pair is of one language; of two problems where there are two.
    others = [p for p in second if p.id != a.id and p.language == a.language]
    if not others:
        raise ProblemError(
            f"problem {a.id!r} has no second problem of its language to be paired with; give "
            "problems.train at least two"
        )
    b = rng.choice(others)
    return Parent(a, references.get(a.id)), Parent(b, references.get(b.id))


def _length(problem: Problem) -> int:
    return len(problem.preamble) + len(problem.statement)
