"""A curriculum of small Dafny programs, each with one hole, over five levels.

Flows in: levels, a number of problems, a seed and a split. Flows out: ``CurriculumDraft``s: a
statement with a hole and the reference body. They depend on these four values only, not on the
machine or on PYTHONHASHSEED.

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

from proverrl.lang.dafny.generate.draft import CurriculumDraft
from proverrl.lang.dafny.generate.stream import (
    FAMILIES,
    assign_split,
    build_id,
    stream_level,
)

__all__ = [
    "FAMILIES",
    "CurriculumDraft",
    "assign_split",
    "build_id",
    "stream_level",
]
