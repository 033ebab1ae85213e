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
from proverrl.errors import ProblemError
from proverrl.lang import find_language, list_languages
from proverrl.lang.records import Made, Operator, Parent
from proverrl.seeds import derive_seed
from proverrl.types import Problem

ORIGIN = "proverrl compose"
MAX_TRIES = 25


def list_operators(language: str) -> Mapping[str, Operator]:
    """The composers of a language; none for one that has no composers."""
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


def draw_composed(
    parents: Sequence[Parent],
    num: int,
    *,
    names: Sequence[str],
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
