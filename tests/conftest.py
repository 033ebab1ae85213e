"""The order of the tests, and what they share: a folder for ``tests.warm``."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter

import pytest

from tests.warm import FOLDER


def pytest_configure(config: pytest.Config) -> None:
    if FOLDER not in os.environ:
        os.environ[FOLDER] = config.stash[_OWN] = tempfile.mkdtemp(prefix="proverrl-warm-")


def pytest_unconfigure(config: pytest.Config) -> None:
    # The waiting processes end when it is gone.
    shutil.rmtree(config.stash.get(_OWN, ""), ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with many slow tests first, so that two processes end together."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


_OWN = pytest.StashKey[str]()
