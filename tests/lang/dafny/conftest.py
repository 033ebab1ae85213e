"""What tests of Dafny share."""

from __future__ import annotations

import pytest

from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain, find_confirming_toolchain


@pytest.fixture
def real() -> DafnyToolchain:
    """A real Dafny 4."""
    found = find_confirming_toolchain()
    if found is None:
        pytest.skip("needs a Dafny 4 (PROVERRL_DAFNY4)")
    return found
