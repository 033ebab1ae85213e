"""Problems around problems that were solved or failed.

Flows in: problems with the bodies that prove them, the name of a scaffold. Flows out: ``Composed``
problems, most with a reference body. Subgoals of failed proofs come from outside:
``collect_subgoals`` takes the function that lifts the holes of a sketch.
Not handled here: the texts (the language makes them, ``Composing.scaffolds``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from proverrl.compose.archive import Composed
from proverrl.compose.operators import build_composed
from proverrl.config.compose import ScaffoldName
from proverrl.errors import ProblemError
from proverrl.lang import find_composing
from proverrl.lang.records import Made, Parent
from proverrl.seeds import derive_seed
from proverrl.types import Problem

LiftFailed = Callable[[Problem, str], Sequence[tuple[Problem | None, Problem | None]]]
"""A problem and a body that failed: its open parts as problems, each in the two forms of
DeepSeek-Prover-V2: alone, and with the parts before it as assumptions. ``search.subgoal_search`` calls
them ``alone`` and ``given``, in the ``lifted`` of a ``Decomposition``. None for a form that cannot
be said."""


def build_scaffold(
    name: ScaffoldName, parents: Sequence[Parent], *, round_number: int, seed: int
) -> list[Composed]:
    """All variants that a scaffold makes of these parents, with lineage; distinct, in order.

    Raises ``ProblemError`` when a parent is not a training problem.
    """
    for parent in parents:
        if parent.problem.split != "train":
            raise ProblemError(f"problem {parent.problem.id!r}: only training problems may be used")
    problems = [parent.problem for parent in parents]
    rng = random.Random(
        derive_seed("scaffold", name, round_number, seed, *(p.id for p in problems))
    )
    found: dict[str, Composed] = {}
    given = {parent.problem.preamble + parent.problem.statement for parent in parents}
    scaffold = find_composing(problems[0].language).scaffolds.get(name)
    if scaffold is None:
        return []
    for made in scaffold(rng, parents):
        if made.preamble + made.statement in given:
            continue
        composed = build_composed(made, problems, name, round_number=round_number, seed=seed)
        found.setdefault(composed.problem.id, composed)
    return list(found.values())


def collect_subgoals(
    problem: Problem, body: str, lift: LiftFailed, *, round_number: int, seed: int
) -> list[Composed]:
    """The open parts of a failed body as training problems, in both forms (Ren et al. 2025,
    DeepSeek-Prover-V2, arXiv 2504.21801); each form once."""
    found: dict[tuple[str, str], Composed] = {}
    for alone, given in lift(problem, body):
        for name, part in (("subgoal_alone", alone), ("subgoal_given", given)):
            if part is None:
                continue
            made = Made(part.kind, part.statement, None, part.preamble)
            composed = build_composed(made, [problem], name, round_number=round_number, seed=seed)
            found.setdefault((part.preamble, part.statement), composed)
    return list(found.values())
