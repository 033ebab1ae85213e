"""False statements with plausible proofs, for Lean; see ``proverrl.verifier.canaries``."""

from __future__ import annotations

from proverrl.types import HOLE, Candidate, Problem
from proverrl.verifier.canaries import Canary


def _make(name: str, claim: str, body: str) -> Canary:
    """A canary whose claim has ``S`` and ``E`` where the size and the error stand."""

    def build(size: int, error: int) -> Candidate:
        said = claim.replace("S", str(size)).replace("E", str(error))
        statement = f"theorem canary {said} := by\n  {HOLE}\n"
        problem = Problem(f"canary-lean-{name}", "lean", "tactics", "", statement)
        return Candidate(problem, "rfl" if name == "cheat" and not error else body)

    return build


_INDUCTION = "induction n with\n  | zero => simp\n  | succ k ih => omega"

CANARIES: tuple[Canary, ...] = (
    _make("omega", "(n : Nat) : n + S + E = S + n", "omega"),
    _make("decide", ": S * 2 + E = 2 * S", "decide"),
    _make("induction", "(n : Nat) : n * S + E = S * n", _INDUCTION),
    _make("cheat", ": S + E = S", "sorry"),
)
