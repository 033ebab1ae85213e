"""What tests of Dafny share."""

from __future__ import annotations

import pytest

from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from tests.two_dafnys import DAFNY_4


@pytest.fixture
def real() -> DafnyToolchain:
    """A real Dafny 4."""
    if DAFNY_4 is None:
        pytest.skip("needs a Dafny 4 (python -m proverrl.lang.dafny.install)")
    return DAFNY_4
