"""Problems that are the same, within a benchmark and across benchmarks.

Flows in: problems. Flows out: pairs that state the same thing up to names, comments and layout, and
those whose id says that they were taken from another benchmark (DafnyBench holds programs of
dafny-synthesis and of Clover).
Not handled here: near duplicates; overlap between training data and a benchmark in words.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from proverrl.lang import find_language
from proverrl.types import Problem

_TAKEN_FROM = {"dafny-synthesis_": "mbpp-dfy", "Clover_": "clover"}
_DAFNYBENCH = frozenset({"dafnybench", "dafnybench-tasks", "dafnybench_tasks"})


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two problems that say the same."""

    first: str
    second: str


def key_statement(problem: Problem) -> str:
    """SHA-256, as hex, of what a problem states (``Language.state_key``)."""
    text = find_language(problem.language).state_key(problem)
    return hashlib.sha256(f"{problem.language}\0{text}".encode()).hexdigest()


def find_repeats(problems: Iterable[Problem]) -> list[Overlap]:
    """Problems of one set that say the same as an earlier one."""
    return _pair(problems, {})


def find_overlaps(problems: Iterable[Problem], others: Iterable[Problem]) -> list[Overlap]:
    """Problems that say the same as one of ``others``."""
    keys: dict[str, str] = {}
    for other in others:
        keys.setdefault(key_statement(other), other.id)
    found = ((problem.id, keys.get(key_statement(problem))) for problem in problems)
    return [Overlap(second, first) for first, second in found if second is not None]


def count_taken(origin: str, problems: Iterable[Problem]) -> Mapping[str, int]:
    """For problems of DafnyBench: name of another benchmark to how many were taken from it."""
    if origin not in _DAFNYBENCH:
        return {}
    return Counter(
        name
        for problem in problems
        for prefix, name in _TAKEN_FROM.items()
        if problem.id.startswith(prefix)
    )


def _pair(problems: Iterable[Problem], keys: dict[str, str]) -> list[Overlap]:
    found = []
    for problem in problems:
        key = key_statement(problem)
        if key in keys:
            found.append(Overlap(keys[key], problem.id))
        else:
            keys[key] = problem.id
    return found
