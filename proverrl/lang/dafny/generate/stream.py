"""A curriculum of small Dafny programs, each with one hole, over five levels.

Flows in: a level, a seed and a split. Flows out: ``CurriculumDraft``s in a fixed order: a statement
with a hole and the reference body. They depend on these three values only, not on the machine or on
PYTHONHASHSEED.

Level 1 has linear accumulators, level 2 closed forms and recurrences, level 3 arrays, level 4
lemmas by induction, level 5 search, sorting steps, nested loops and lemmas used by others.

The splits differ in three ways at once:

* Programs. The normal form of a program (names and layout forgotten, constants kept) is hashed;
  its value modulo 10 decides: 0-6 train, 7 valid, 8-9 held out. No valid or held-out problem
  equals a train problem, whatever its names.
* Names. For each role (counter, bound, accumulator, array, ...) train draws from one pool, and
  valid and held-out draw from another (``names.VARIABLE_POOLS``, ``names.GLOBAL_POOLS``). Every
  name of the second pool occurs in train in another role.
* Numbers. For each role of number (slope, offset, limit, base) one residue modulo 7 is never
  drawn in train, and only it is drawn in valid and held-out (``names.NUMBER_RESIDUES``). Small
  structural numbers (a stride, an exponent) and numbers computed from drawn ones are shared.

Not handled here: whether Dafny proves a draft (``proverrl.problems.drafts``), files, prompts.
"""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Iterable, Iterator

from proverrl.errors import ProblemError
from proverrl.lang.dafny.generate import level1, level2, level3, level4, level5
from proverrl.lang.dafny.generate.draft import CurriculumDraft, Family
from proverrl.lang.dafny.generate.names import Names, NamesExhaustedError
from proverrl.lang.dafny.syntax.text import normalise
from proverrl.types import Split

FAMILIES: dict[int, dict[str, Family]] = {
    1: level1.FAMILIES,
    2: level2.FAMILIES,
    3: level3.FAMILIES,
    4: level4.FAMILIES,
    5: level5.FAMILIES,
}
"""Level to family name to generator."""

MAX_MISSES = 600
"""Draws of one family in a row without a new program before it counts as used up."""


def assign_split(statement: str) -> Split:
    """The split that a program belongs to, by its normal form: 7 train, 1 valid, 2 held out."""
    digest = hashlib.sha256(normalise(statement).encode("utf-8")).digest()
    bucket = int.from_bytes(digest[:8], "big") % 10
    if bucket < 7:
        return "train"
    return "valid" if bucket == 7 else "heldout"


def build_id(draft: CurriculumDraft) -> str:
    """The problem id of a draft: its level, its family, and eight digits of its text's hash."""
    digest = hashlib.sha256(draft.statement.encode("utf-8")).hexdigest()[:8]
    stem = draft.family.partition("_")[2]
    return f"dafny-l{draft.level}-{stem}-{digest}"


def draw_one(level: int, family: str, split: Split, key: str) -> CurriculumDraft | None:
    """One draft of ``family`` from the text ``key``; None when it belongs to another split."""
    seed = int.from_bytes(hashlib.sha256(f"{key}:{family}".encode()).digest(), "big")
    rng = random.Random(seed)
    try:
        made = FAMILIES[level][family](rng, Names(rng, split))
    except NamesExhaustedError:
        return None
    statement = "\n".join(made.lines) + "\n"
    if assign_split(statement) != split:
        return None
    return CurriculumDraft(level, family, made.kind, statement, made.reference)


def stream_family(
    level: int, family: str, seed: int, split: Split, seen: set[str]
) -> Iterator[CurriculumDraft]:
    """Drafts of one family whose normal form is not yet in ``seen``, which grows; ends when
    MAX_MISSES draws bring none."""
    misses = place = 0
    while misses < MAX_MISSES:
        draft = draw_one(level, family, split, f"{seed}:{split}:{place}")
        place += 1
        normal = "" if draft is None else normalise(draft.statement)
        if draft is None or normal in seen:
            misses += 1
            continue
        misses = 0
        seen.add(normal)
        yield draft


def stream_level(level: int, seed: int, split: Split) -> Iterator[CurriculumDraft]:
    """Distinct drafts of one level, its families taking turns until all are used up."""
    if level not in FAMILIES:
        known = ", ".join(str(number) for number in FAMILIES)
        raise ProblemError(f"there is no level {level}; choose among {known}")
    seen: set[str] = set()
    yield from _take_turns(
        stream_family(level, family, seed, split, seen) for family in FAMILIES[level]
    )


def _take_turns(streams: Iterable[Iterator[CurriculumDraft]]) -> Iterator[CurriculumDraft]:
    waiting = deque(streams)
    while waiting:
        stream = waiting.popleft()
        if (draft := next(stream, None)) is not None:
            waiting.append(stream)
            yield draft
