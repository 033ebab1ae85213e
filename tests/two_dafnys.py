"""The Dafnys of this machine, found before a test changes where they are looked for."""

from __future__ import annotations

import os

from proverrl.config.base import DafnyVersion
from proverrl.errors import ToolchainError
from proverrl.lang.dafny.verify.workers.toolchain import (
    DafnyToolchain,
    find_confirming_toolchain,
    find_dafny_toolchain,
)

_MISSING = "no-dafny-2.3"
if os.environ.get("PROVERRL_DAFNY") == _MISSING:
    # A child process of pytest.
    del os.environ["PROVERRL_DAFNY"]


def _find(version: DafnyVersion) -> DafnyToolchain | None:
    try:
        return find_dafny_toolchain(version)
    except ToolchainError:
        return None


DAFNY_4 = find_confirming_toolchain(None) or _find("4")
"""The one of PROVERRL_SECOND_DAFNY, or the one that a user gets."""
DAFNY_2 = _find("2.3")


def pin_dafny_2() -> None:
    """Have this process and its children judge with Dafny 2.3, as the tests expect that ask for no
    other: their verdicts, recorded answers and toolchain names are its own."""
    os.environ["PROVERRL_DAFNY"] = DAFNY_2.dafny if DAFNY_2 else _MISSING
