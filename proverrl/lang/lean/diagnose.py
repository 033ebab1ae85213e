"""Says what of Lean is installed, what is missing, and the command that brings it.

Flows in: this machine. Flows out: parts, for ``proverrl doctor``. Not handled here: how Lean is
found (``proverrl.lang.lean.workers.toolchain``); installing.
"""

from __future__ import annotations

from proverrl.errors import ToolchainError
from proverrl.lang.lean.deep import CHECKERS, find_checkers
from proverrl.lang.lean.workers.toolchain import REMEDY, find_lean_toolchain
from proverrl.lang.records import Part


def check_lean() -> list[Part]:
    """Lean, its REPL and the deep checkers. Asks Lean for its version, in its project."""
    try:
        found = find_lean_toolchain()
    except ToolchainError as error:
        # The remedy stands in a line of its own.
        text = str(error).removesuffix(f"; run: {REMEDY}")
        return [Part("Lean", "absent", f"{text}; only Dafny can be judged", REMEDY)]
    mathlib = "with Mathlib" if found.has_mathlib else "without Mathlib"
    findings = [
        Part("Lean", "ok", f"{found.lean_version}, {mathlib}, {found.lake}"),
        Part("Lean REPL", "ok", found.repl_command[-1]),
    ]
    checkers = find_checkers()
    for name in CHECKERS:
        if name in checkers:
            findings.append(Part(name, "ok", checkers[name]))
        else:
            detail = "not found; verify --paranoid does without it"
            findings.append(Part(name, "absent", detail))
    return findings
