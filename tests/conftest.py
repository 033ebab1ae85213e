"""The order of the tests, and what they share: a folder for ``tests.warm``. No test finds stored
verdicts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before the processes of a run begin, so that they share what it makes.
import tests.warm  # noqa: F401
from proverrl.lang import kinds
from tests.recorded_dafny import recorded_dafny  # noqa: F401  (a fixture)
from tests.shared_verifier import close_verifier
from tests.two_dafnys import pin_dafny_2

pin_dafny_2()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with many slow tests first, so that all processes end together."""
    slow: Counter[Path] = Counter()
    for item in items:
        if item.get_closest_marker("slow"):
            # Whoever follows a guide trains a policy.
            slow[item.path] += 10 if "guide" in getattr(item, "fixturenames", ()) else 1
    items.sort(key=lambda item: -slow[item.path])


_NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def no_stored_verdicts(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The verdicts of users and of other tests: what the tests count are verifier calls."""
    place = tmp_path_factory.getbasetemp() / f"cache-{next(_NUMBERS)}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))


@pytest.fixture(autouse=True, scope="module")
def own_kinds() -> Iterator[None]:
    """Kinds are looked up once a process; some tests say that other packages are installed."""
    yield
    kinds._list_installed.cache_clear()


@pytest.fixture(autouse=True, scope="module")
def no_open_verifier() -> Iterator[None]:
    yield
    close_verifier()
