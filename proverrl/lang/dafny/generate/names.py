"""Names and numbers of a generated program, kept apart by split.

Flows in: a random source and a split. Flows out: identifiers by role and integers by role.
Every role has two disjoint pools of names. Train programs draw from the first; valid and
held-out programs draw from the second. Every name of a second pool is in the first pool of
another role of the same kind (variables, or capitalised global names), so a model trained from
nothing knows the token but never saw it play that part. Integers of a role are split in the same
way, by their remainder modulo ``NUMBER_PERIOD``.
Not handled here: numbers that a family derives from drawn ones (a doubled slope, say).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType

from proverrl.types import Split

NUMBER_PERIOD = 7
"""One residue in this many is held out, for each role of number."""

NUMBER_RESIDUES: Mapping[str, int] = MappingProxyType(
    {"slope": 3, "offset": 5, "limit": 1, "base": 2}
)
"""For each role of number, the remainder of the values that train programs never use."""


class NamesExhaustedError(Exception):
    """A program asked for more names of one role than its pool can still give."""


def _pools(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    train, heldout = text.split("|")
    return tuple(train.split()), tuple(heldout.split())


VARIABLE_POOLS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = MappingProxyType(
    {
        "counter": _pools("i j k p idx step cur d g ix | m c w e num h"),
        "bound": _pools("n m len cnt size c top num lim w | k p v x cap g"),
        "total": _pools("s t r z acc sum tot e v out | n u y idx d base"),
        "param": _pools("x y v w key base k u cap g | b m t z val len"),
        "array": _pools("a b xs arr data vals c d buf t | s y cells row h w"),
        "index": _pools("q e h ix u m z f row y | i j v p o tot"),
        "arg": _pools("q x n y o k h p j val | u i s g m c"),
        "seq": _pools("s xs ys w row l zs p cells | a t q data b"),
        "list": _pools("l u xs c ls ys z rest r | s p zs v buf x"),
        "head": _pools("h x y v e hd g val o | a i k t u n"),
        "tail": _pools("t rest tl ys r w n q | l s xs m z p"),
        "flag": _pools("ok b res yes found good f | r out t v h"),
        "low": _pools("lo left l b first low x | i s k d u"),
        "high": _pools("hi right r top last high y | j e n z lim"),
        "mid": _pools("mid half c m at f | x q k t ls"),
    }
)
"""Role of a variable: its train names, and its valid and held-out names."""

GLOBAL_POOLS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = MappingProxyType(
    {
        "method": _pools("Run Calc Go Work Solve Step Sum Eval M Find | Make Fold G Show Val"),
        "function": _pools("F G Fn Q Rec Val Fold Def H Get | P Sum R Run Work Law"),
        "lemma": _pools("Lem Fact Prop Law Show Holds Claim P R | Rec Calc Q Def M"),
        "datatype": _pools("List Chain Data Tree Items Stack | Node Law Solve Get"),
        "empty": _pools("Nil Empty End Leaf Stop Zero | List Fn Step Go"),
        "joined": _pools("Cons Link Node More Push Make | Chain Data Eval Fact"),
    }
)
"""Role of a capitalised name: its train names, and its valid and held-out names."""


class Names:
    """Draws names and numbers for one program; no name is given twice."""

    def __init__(self, rng: random.Random, split: Split) -> None:
        self._rng = rng
        self._is_train = split == "train"
        self._used: set[str] = set()

    def pick(self, role: str) -> str:
        """A fresh name of ``role``. Raises NamesExhaustedError when none is left."""
        pools = VARIABLE_POOLS.get(role) or GLOBAL_POOLS[role]
        free = [name for name in pools[0 if self._is_train else 1] if name not in self._used]
        if not free:
            raise NamesExhaustedError(role)
        name = self._rng.choice(free)
        self._used.add(name)
        return name

    def picks(self, *roles: str) -> list[str]:
        """A fresh name of each role, in their order."""
        return [self.pick(role) for role in roles]

    def number(self, role: str, low: int, high: int) -> int:
        """An integer of ``role`` in ``low..high``; the range must span NUMBER_PERIOD values."""
        if high - low + 1 < NUMBER_PERIOD:
            raise ValueError(f"{low}..{high} is too narrow to hold values of every split")
        values = [v for v in range(low, high + 1) if is_train_number(role, v) == self._is_train]
        return self._rng.choice(values)


def is_train_number(role: str, value: int) -> bool:
    """Whether train programs may draw ``value`` as a number of ``role``."""
    return value % NUMBER_PERIOD != NUMBER_RESIDUES[role]
