"""What every composer shares: parents in, a made text out.

Flows in: problems with what is known to prove them. Flows out: ``Made`` texts, and small choices.
Not handled here: ids and lineage (``operators``), whether the verifier agrees (``guards``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proverrl.types import Problem


@dataclass(frozen=True, slots=True)
class Parent:
    """A problem to compose from, and a body that proves it where one is known."""

    problem: Problem
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A new statement with its hole, and a body that may prove it; nothing of it was checked."""

    kind: str
    statement: str
    reference: str | None = None
    preamble: str = ""


Compose = Callable[[random.Random, Sequence[Parent]], Made | None]
"""One draw of an operator; None where it has no hold on these parents."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A composer and how many parents it takes."""

    arity: int
    compose: Compose
