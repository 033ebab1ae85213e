"""False statements with plausible proofs, for Dafny; see ``proverrl.verifier.canaries``.

Flows in: a size and an error. Flows out: candidates.
"""

from __future__ import annotations

from proverrl.types import HOLE, Candidate, Problem
from proverrl.verifier.canaries import Canary


def _build_loop(size: int, error: int) -> Candidate:
    statement = (
        "method Sum(n: nat) returns (r: int)\n"
        f"  ensures r == {size} * n + {error}\n"
        "{\n  r := 0;\n  var i := 0;\n  while i < n\n"
        f"    {HOLE}\n  {{\n    r := r + {size};\n    i := i + 1;\n  }}\n}}\n"
    )
    body = f"invariant 0 <= i <= n\ninvariant r == {size} * i"
    return _fill("loop", "invariants", statement, body)


def _build_count(size: int, error: int) -> Candidate:
    statement = (
        f"method Count(n: nat) returns (r: nat)\n  requires n >= {size}\n"
        f"  ensures r == n + {error}\n"
        "{\n  r := 0;\n  while r < n\n"
        f"    {HOLE}\n  {{\n    r := r + 1;\n  }}\n}}\n"
    )
    return _fill("count", "invariants", statement, "invariant r <= n")


def _build_lemma(size: int, error: int) -> Candidate:
    statement = (
        "lemma Bound(x: int, y: int)\n"
        f"  requires x >= {size} && y >= {size}\n"
        f"  ensures x + y >= {2 * size + error}\n"
        f"{{\n  {HOLE}\n}}\n"
    )
    body = f"assert x - {size} >= 0;\nassert y - {size} >= 0;"
    return _fill("lemma", "statements", statement, body)


def _build_induction(size: int, error: int) -> Candidate:
    statement = (
        f"function F(n: nat): int {{ if n == 0 then 0 else {size} + F(n - 1) }}\n"
        f"lemma Linear(n: nat)\n  ensures F(n) == {size} * n + {error}\n"
        f"{{\n  {HOLE}\n}}\n"
    )
    # With an error the step still holds: only the base case is false.
    body = "if n > 0 {\n  Linear(n - 1);\n}"
    return _fill("induction", "statements", statement, body)


def _build_cheat(size: int, error: int) -> Candidate:
    statement = (
        f"lemma Same(x: int)\n  ensures x * {size} == {size} * x + {error}\n{{\n  {HOLE}\n}}\n"
    )
    body = "assume false;" if error else f"assert x * {size} == {size} * x;"
    return _fill("cheat", "statements", statement, body)


def _fill(name: str, kind: str, statement: str, body: str) -> Candidate:
    return Candidate(Problem(f"canary-dafny-{name}", "dafny", kind, "", statement), body)


CANARIES: tuple[Canary, ...] = (
    _build_loop,
    _build_count,
    _build_lemma,
    _build_induction,
    _build_cheat,
)
