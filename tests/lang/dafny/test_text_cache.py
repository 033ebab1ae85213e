"""What is remembered of texts, and when it is forgotten."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from proverrl import text_cache
from proverrl.text_cache import cache_texts


def test_characters_count_and_not_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_cache, "MAX_CHARACTERS", 1000)
    asked: list[str] = []

    @cache_texts
    def double(text: str, times: int) -> str:
        asked.append(text)
        return text * times

    # Each counts for 100 more: 400, 800, and the third is too much.
    first, second, third = "a" * 300, "b" * 300, "c" * 200
    assert double(first, 2) == first * 2
    double(second, 2)
    double(first, 2)
    assert asked == [first, second]
    double(third, 2)
    double(first, 2)
    assert asked == [first, second, third]
    double(second, 2)
    assert asked == [first, second, third, second]
    # What has room for itself alone takes that of all others; what has none is not kept.
    double("d" * 900, 2)
    double(second, 2)
    double("e" * 901, 2)
    double(second, 2)
    double("e" * 901, 2)
    assert [text[0] for text in asked[4:]] == ["d", "b", "e", "b", "e"]
    assert double(second, 3) == second * 3


def test_errors_are_not_remembered() -> None:
    tries = 0

    @cache_texts
    def fail(text: str) -> str:
        nonlocal tries
        tries += 1
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="odd"):
            fail("odd")
    assert tries == 2


def test_threads_may_ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_cache, "MAX_CHARACTERS", 350)

    @cache_texts
    def count(text: str) -> int:
        return len(text)

    texts = ["x" * (number % 7) for number in range(20_000)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(count, texts)) == [len(text) for text in texts]
