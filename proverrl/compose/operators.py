"""New problems with lineage: by an operator, or by a scaffold around what was solved or failed.

Flows in: training problems, the name of an operator or scaffold, a round and a seed. Flows out:
``Composed`` problems, the same for the same input on every machine. Not handled here: the texts
(the language makes them, ``Composing``), which parents are drawn, and whether a problem may be used
(``filters``).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence

from proverrl.compose.archive import Composed
from proverrl.config.compose import ScaffoldName
from proverrl.errors import ProblemError
from proverrl.lang import find_composing, find_language, list_languages
from proverrl.lang.records import Made, Operator, Parent
from proverrl.seeds import derive_seed
from proverrl.types import Problem

ORIGIN = "proverrl compose"

LiftFailed = Callable[[Problem, str], Sequence[tuple[Problem | None, Problem | None]]]
"""A problem and a body that failed: its open parts as problems, each in the two forms of
DeepSeek-Prover-V2: alone, and given the parts before it. None for a form that cannot be said."""


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
    """One problem by one operator, or None where the operator has no hold on these parents.

    Raises ``ProblemError`` when a parent is not a training problem, or there are too few.
    """
    operator = get_operator(name)
    if len(parents) < operator.arity:
        raise ProblemError(f"{name} needs {operator.arity} parents, got {len(parents)}")
    for parent in parents:
        if parent.problem.split != "train":
            raise ProblemError(
                f"problem {parent.problem.id!r} is of the split {parent.problem.split!r}: compose "
                "from training problems only"
            )
    ids = [parent.problem.id for parent in parents]
    rng = random.Random(derive_seed("compose", name, round_number, seed, *ids))
    made = operator.compose(rng, parents)
    if made is None or _says_nothing_new(made, parents):
        return None
    return build_composed(
        made, [parent.problem for parent in parents], name, round_number=round_number, seed=seed
    )


def _says_nothing_new(made: Made, parents: Sequence[Parent]) -> bool:
    texts = [parent.problem.preamble + parent.problem.statement for parent in parents]
    return any((made.preamble + made.statement).split() == text.split() for text in texts)


def read_generation(problem: Problem) -> int:
    """How many compositions lie between a problem and base problems, at most; 0 for those."""
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
