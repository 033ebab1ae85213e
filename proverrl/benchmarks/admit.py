"""Keeps the problems that our audits can hold a policy to, and refuses the others with the reason.

Flows in: a ``Collection``. Flows out: one in which every problem's text passes the audit of its
language, and every reference is admitted by it. Nothing is run: whether a statement elaborates and
a reference proves it, only Lean and Dafny know.
"""

from __future__ import annotations

from dataclasses import replace

from proverrl.benchmarks.base import Collection, Entry, Refused
from proverrl.lang import find_language


def admit(collection: Collection) -> Collection:
    """The same entries, those refused that no proof could be held to."""
    kept: list[Entry] = []
    refused: list[Refused] = list(collection.refused)
    for entry in collection.entries:
        language = find_language(entry.problem.language)
        reason = language.find_objection(entry.problem, entry.reference)
        if reason:
            refused.append(Refused(entry.problem.id, entry.where, reason))
        else:
            kept.append(entry)
    return replace(collection, entries=tuple(kept), refused=tuple(refused))
