"""Names and numbers that are kept apart by split.

Flows in: pools of names, and a number. Flows out: which of them training may show. Not handled
here: drawing them (``proverrl.generate.families``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NUMBER_PERIOD = 7
"""One residue in this many is held out, for each role of number."""

NUMBER_RESIDUES: Mapping[str, int] = MappingProxyType(
    {"slope": 3, "offset": 5, "limit": 1, "base": 2}
)
"""For each role of number, the remainder of the values that train programs never use."""

Pools = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
"""Role of a name: its train names, and its valid and held-out names."""


def split_pool(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Train names, a bar, valid and held-out names."""
    train, heldout = text.split("|")
    return tuple(train.split()), tuple(heldout.split())


def is_train_number(role: str, value: int) -> bool:
    """True if train programs may draw ``value`` as a number of ``role``."""
    return value % NUMBER_PERIOD != NUMBER_RESIDUES[role]
