"""The order of the tests, and what they share: a folder for ``tests.warm``."""

from __future__ import annotations

from collections import Counter

import pytest

# Before the processes of a run begin, so that they share what it makes.
import tests.warm  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with many slow tests first, so that two processes end together."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])
