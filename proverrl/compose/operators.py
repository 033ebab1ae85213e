"""Every operator by its name, and what it makes as a problem with lineage.

Flows in: training problems, an operator's name, a round and a seed. Flows out: ``Composed``
problems, the same for the same input on every machine.
Not handled here: which parents are drawn, and whether a problem may be used (``guards``).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence

from proverrl.compose.archive import Composed
from proverrl.config.compose import DafnyOperator, LeanOperator
from proverrl.errors import ProblemError
from proverrl.lang.dafny.compose.forms import apply_lemma, generalise, instantiate, negate
from proverrl.lang.dafny.compose.fuse import chain_calls, conjoin_lemmas, nest_loop, sequence_loops
from proverrl.lang.dafny.compose.mutate import (
    add_requires,
    change_bound,
    change_constant,
    drop_ensures,
    drop_requires,
    flip_sign,
    strengthen_ensures,
    weaken_ensures,
)
from proverrl.lang.lean.compose.mutate import LEAN_OPERATORS
from proverrl.lang.records import Made, Operator, Parent
from proverrl.seeds import derive_seed
from proverrl.types import Problem

ORIGIN = "proverrl compose"
MAX_TRIES = 25

OPERATORS: Mapping[DafnyOperator, Operator] = {
    "change_constant": Operator(1, change_constant),
    "flip_sign": Operator(1, flip_sign),
    "change_bound": Operator(1, change_bound),
    "drop_requires": Operator(1, drop_requires),
    "add_requires": Operator(1, add_requires),
    "drop_ensures": Operator(1, drop_ensures),
    "weaken_ensures": Operator(1, weaken_ensures),
    "strengthen_ensures": Operator(1, strengthen_ensures),
    "instantiate": Operator(1, instantiate),
    "generalise": Operator(1, generalise),
    "apply_lemma": Operator(1, apply_lemma),
    "negate": Operator(1, negate),
    "conjoin_lemmas": Operator(2, conjoin_lemmas),
    "sequence_loops": Operator(2, sequence_loops),
    "chain_calls": Operator(2, chain_calls),
    "nest_loop": Operator(1, nest_loop),
}
"""Composers of Dafny problems. ``arity`` is the least number of parents; fusions take more."""

OperatorName = DafnyOperator | LeanOperator

_BY_NAME: Mapping[str, Operator] = {
    str(name): operator for table in (OPERATORS, LEAN_OPERATORS) for name, operator in table.items()
}


def get_operator(name: OperatorName) -> Operator:
    """The operator of a name, of either language."""
    return _BY_NAME[name]


def compose(
    name: OperatorName, parents: Sequence[Parent], *, round_number: int, seed: int
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


def draw_composed(
    parents: Sequence[Parent],
    num: int,
    *,
    names: Sequence[OperatorName] = tuple(OPERATORS),
    round_number: int,
    seed: int,
    max_draws: int | None = None,
) -> tuple[list[Composed], int]:
    """``num`` distinct problems by operators and from parents drawn at random, and how many draws
    that took; fewer when ``max_draws`` (left out: 20 a problem, at least 1,000) bring no more. The
    same for the same input.

    An operator that has no hold on the parents drawn is given others, up to ``MAX_TRIES`` times:
    those that need parents of one kind would be rare otherwise.
    """
    rng = random.Random(derive_seed("draw", *names, round_number, seed))
    pool = list(parents)
    found: dict[str, Composed] = {}
    draws = tries = 0
    limit = max(1000, 20 * num) if max_draws is None else max_draws
    name = names[0]
    while len(found) < num and draws < limit:
        if tries % MAX_TRIES == 0 and len(names) > 1:
            name = rng.choice(names)
        tries += 1
        draws += 1
        arity = get_operator(name).arity
        if arity > len(pool):
            continue
        made = compose(name, rng.sample(pool, arity), round_number=round_number, seed=draws)
        if made is not None:
            found.setdefault(made.problem.id, made)
            tries = 0
    return list(found.values()), draws


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
