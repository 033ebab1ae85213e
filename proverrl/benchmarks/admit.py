"""Keeps the problems that our audits can hold a policy to, and refuses the others with the reason.

Flows in: a ``Collection``. Flows out: one in which every problem's text passes the audit of its
language, and every reference is admitted by it. Nothing is run: whether a statement elaborates and
a reference proves it, only Lean and Dafny know.
"""

from __future__ import annotations

from dataclasses import replace

from proverrl.benchmarks.base import Collection, Entry, Refused
from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit import KINDS, audit_candidate, check_problem
from proverrl.lang.dafny.strip import explain_dafny_4
from proverrl.types import Candidate, Problem, Verdict


def admit(collection: Collection) -> Collection:
    """The same entries, those refused that no proof could be held to."""
    kept: list[Entry] = []
    refused: list[Refused] = list(collection.refused)
    for entry in collection.entries:
        reason = find_objection(entry.problem, entry.reference)
        if reason:
            refused.append(Refused(entry.problem.id, entry.where, reason))
        else:
            kept.append(entry)
    return replace(collection, entries=tuple(kept), refused=tuple(refused))


def find_objection(problem: Problem, reference: str | None) -> str:
    """Why a problem cannot be one of ours; empty when it can."""
    try:
        if problem.language == "lean":
            return _object_to_lean(problem, reference)
        return _object_to_dafny(problem, reference)
    except ProblemError as error:
        return str(error).removeprefix(f"problem {problem.id!r}: ")


def _object_to_lean(problem: Problem, reference: str | None) -> str:
    # Here, so that Dafny alone loads nothing of Lean's.
    from proverrl.lang.lean.audit import audit_lean_candidate, check_lean_problem

    check_lean_problem(problem)
    if reference is None:
        return ""
    return _describe(audit_lean_candidate(Candidate(problem, reference)))


def _object_to_dafny(problem: Problem, reference: str | None) -> str:
    if problem.kind not in KINDS:
        known = ", ".join(KINDS)
        raise ProblemError(f"unknown kind {problem.kind!r}; use {known}")
    try:
        check_problem(problem)
    except ProblemError as error:
        newer = explain_dafny_4(problem.statement)
        raise ProblemError(f"{error} ({newer})" if newer else str(error)) from error
    if reference is None:
        return ""
    return _describe(audit_candidate(Candidate(problem, reference)))


def _describe(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    found = verdict.diagnostics[0]
    return f"the audit does not admit its own proof: line {found.line}: {found.message}"
