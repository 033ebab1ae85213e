"""What scripts share about wrong input: types of arguments, and errors in one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from proverrl.errors import ProverRLError

N = TypeVar("N")


@contextmanager
def telling_errors() -> Iterator[None]:
    """Inside, an error that the package explains ends the script with its one line."""
    try:
        yield
    except ProverRLError as error:
        raise SystemExit(f"error: {error}") from error


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
