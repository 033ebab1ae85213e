"""What scripts share about wrong input: types of arguments, and errors in one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from proverrl.errors import ProverRLError, UsageError

N = TypeVar("N")


@contextmanager
def telling_errors() -> Iterator[None]:
    """Inside, an error that the package explains ends the script with its one line."""
    try:
        yield
    except ProverRLError as error:
        raise SystemExit(f"error: {error}") from error


def read_words(words: Sequence[str], **numbers: int) -> tuple[dict[str, str], list[int]]:
    """The words KEY=VALUE but for those of ``numbers``, which have defaults and are at least 1, and
    the values of these. Raises ``UsageError``: a word is no such pair, or no such number."""
    if wrong := [word for word in words if "=" not in word]:
        raise UsageError(f"{wrong[0]!r} is no KEY=VALUE")
    given = dict(word.split("=", 1) for word in words)
    names = " and ".join(numbers)
    try:
        found = [int(given.pop(name, default)) for name, default in numbers.items()]
    except ValueError as error:
        raise UsageError(f"{names} are numbers ({error})") from error
    if min(found) < 1:
        raise UsageError(f"{names} are at least 1")
    return given, found


def at_least(least: int) -> Callable[[str], int]:
    """A whole number, ``least`` or more."""

    def read(text: str) -> int:
        value = _read(int, text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is below {least}")
        return value

    return read


def share(text: str) -> float:
    """A number from 0 to 1."""
    value = _read(float, text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 1")
    return value


def _read(kind: Callable[[str], N], text: str) -> N:
    try:
        return kind(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from error
