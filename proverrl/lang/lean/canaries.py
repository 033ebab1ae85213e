"""False statements with plausible proofs, for Lean; see ``proverrl.verify.canaries``.

Flows in: a size and an error. Flows out: candidates.
"""

from __future__ import annotations

from proverrl.types import HOLE, Candidate, Problem
from proverrl.verify.canaries import Canary


def _build_omega(size: int, error: int) -> Candidate:
    statement = f"theorem canary (n : Nat) : n + {size} + {error} = {size} + n := by\n  {HOLE}\n"
    return _fill("omega", "tactics", statement, "omega")


def _build_decide(size: int, error: int) -> Candidate:
    statement = f"theorem canary : {size} * 2 + {error} = 2 * {size} := by\n  {HOLE}\n"
    return _fill("decide", "tactics", statement, "decide")


def _build_induction(size: int, error: int) -> Candidate:
    statement = f"theorem canary (n : Nat) : n * {size} + {error} = {size} * n := by\n  {HOLE}\n"
    body = "induction n with\n  | zero => simp\n  | succ k ih => omega"
    return _fill("induction", "tactics", statement, body)


def _build_cheat(size: int, error: int) -> Candidate:
    statement = f"theorem canary : {size} + {error} = {size} := by\n  {HOLE}\n"
    return _fill("cheat", "tactics", statement, "sorry" if error else "rfl")


def _fill(name: str, kind: str, statement: str, body: str) -> Candidate:
    return Candidate(Problem(f"canary-lean-{name}", "lean", kind, "", statement), body)


CANARIES: tuple[Canary, ...] = (
    _build_omega,
    _build_decide,
    _build_induction,
    _build_cheat,
)
