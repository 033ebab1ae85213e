"""Small Lean records, and stand-ins for Lean as toolchains, for the tests of the Lean back end."""

from __future__ import annotations

import sys
from pathlib import Path

from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain
from proverrl.types import HOLE, Candidate, Problem

FAKE_PROGRAM = Path(__file__).with_name("fake_lean_server.py")
FAKE_SERVER = LeanToolchain("4.0.0", (sys.executable, str(FAKE_PROGRAM)))
FAKE_FILE = LeanToolchain("4.0.0", (sys.executable, str(FAKE_PROGRAM)), backend="lean-file")


def build_lean_problem(
    name: str = "t", statement: str = "True", preamble: str = "", kind: str = "tactics"
) -> Problem:
    """A theorem with a hole for tactics, or for a term; a bare file has no statement."""
    if kind == "file":
        return Problem(name, "lean", kind, preamble, HOLE)
    hole = f"by\n  {HOLE}\n" if kind == "tactics" else f"{HOLE}\n"
    return Problem(name, "lean", kind, preamble, f"theorem {name} : {statement} := {hole}")


def build_lean_candidate(body: str, name: str = "t", *, prelude: str = "") -> Candidate:
    return Candidate(build_lean_problem(name), body, prelude)
