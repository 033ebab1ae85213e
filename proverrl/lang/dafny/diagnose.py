"""Says what of Dafny is installed, what is missing, and the command that brings it.

Flows in: this machine. Flows out: parts, for ``proverrl doctor``. Not handled here: how Dafny and
z3 are found (``proverrl.lang.dafny.workers.toolchain``); installing.
"""

from __future__ import annotations

import sys

from proverrl.errors import ToolchainError
from proverrl.lang.dafny.workers.toolchain import Z3_VERSION, find_dafny_toolchain
from proverrl.lang.records import Part

BRINGS_DAFNY = "sudo apt-get install dafny"
BRINGS_Z3 = f"{sys.executable} -m pip install z3-solver=={Z3_VERSION}.0"


def check_dafny() -> list[Part]:
    """Dafny, its server and z3. Runs their ``--version``."""
    try:
        found = find_dafny_toolchain()
    except ToolchainError as error:
        text = str(error)
        remedy = BRINGS_Z3 if "z3" in text.lower() else BRINGS_DAFNY
        return [Part("Dafny", "missing", text, remedy)]
    findings = [Part("Dafny", "ok", f"{found.dafny_version}, {found.dafny}")]
    if found.server is None:
        detail = "not found: each proof starts Dafny anew, which is slower"
        findings.append(Part("DafnyServer", "weak", detail, f"{BRINGS_DAFNY} mono-runtime"))
    else:
        runtime, server = found.server
        findings.append(Part("DafnyServer", "ok", server))
        findings.append(Part("mono", "ok", runtime))
    where = f"{found.z3_version}, {found.z3}"
    if found.z3_version == Z3_VERSION:
        findings.append(Part("z3", "ok", where))
    else:
        detail = (
            f"{where}; {Z3_VERSION} is preferred: it is faster with this Dafny, and another "
            "version can judge a borderline proof differently"
        )
        findings.append(Part("z3", "weak", detail, BRINGS_Z3))
    return findings
