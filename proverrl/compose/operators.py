"""New problems with lineage, by an operator.

Flows in: training problems, the name of an operator, a round and a seed. Flows out: ``Composed``
problems, the same for the same input on every machine. Not handled here: the texts (the language
makes them, ``Composing``), which parents are drawn, whether a problem may be used (``filters``).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence

from proverrl.compose.archive import Composed
from proverrl.errors import ProblemError
from proverrl.lang import find_language, list_languages
from proverrl.lang.records import Made, Operator, Parent
from proverrl.seeds import derive_seed
from proverrl.types import Problem

ORIGIN = "proverrl compose"


def list_operators(language: str) -> Mapping[str, Operator]:
    """The operators of a language; none for one that has none."""
    composing = find_language(language).composing
    return {} if composing is None else composing.operators


def get_operator(name: str) -> Operator:
    """The operator of a name, of any language."""
    return next(
        table[name]
        for table in (list_operators(language.name) for language in list_languages())
        if name in table
    )


def compose(
    name: str, parents: Sequence[Parent], *, round_number: int, seed: int
) -> Composed | None:
    """One problem by one operator, or None where the operator does not apply to these parents.

    Raises ``ProblemError`` when a parent is not a training problem, or there are too few.
    """
    operator = get_operator(name)
    if len(parents) < operator.arity:
        raise ProblemError(f"{name} needs {operator.arity} parents, got {len(parents)}")
    problems = [parent.problem for parent in parents]
    for problem in problems:
        if problem.split != "train":
            raise ProblemError(
                f"problem {problem.id!r} is of the split {problem.split!r}: compose from training "
                "problems only"
            )
    ids = [problem.id for problem in problems]
    rng = random.Random(derive_seed("compose", name, round_number, seed, *ids))
    made = operator.compose(rng, parents)
    if made is None:
        return None
    words = (made.preamble + made.statement).split()
    if any((problem.preamble + problem.statement).split() == words for problem in problems):
        return None
    return build_composed(made, problems, name, round_number=round_number, seed=seed)


def read_generation(problem: Problem) -> int:
    """The greatest number of compositions between a problem and base problems; 0 for those."""
    lineage = problem.metadata.get("lineage")
    return int(lineage.get("generation", 0)) if isinstance(lineage, Mapping) else 0


def build_composed(
    made: Made, parents: Sequence[Problem], operator: str, *, round_number: int, seed: int
) -> Composed:
    """A made text as a problem with lineage; its level is that of its hardest parent."""
    digest = hashlib.sha256((made.preamble + made.statement).encode("utf-8")).hexdigest()[:8]
    problem = Problem(
        id=f"{operator.replace('_', '-')}-{digest}",
        language=parents[0].language,
        kind=made.kind,
        preamble=made.preamble,
        statement=made.statement,
        split="train",
        origin=ORIGIN,
        metadata={
            "level": max(parent.level for parent in parents),
            "family": operator,
            "parents": [parent.id for parent in parents],
            "round": round_number,
            "lineage": {
                "operator": operator,
                "generation": 1 + max(read_generation(parent) for parent in parents),
            },
        },
    )
    return Composed(
        problem, tuple(p.id for p in parents), operator, round_number, seed, made.reference
    )
