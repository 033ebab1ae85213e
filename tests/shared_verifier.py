"""Real Dafny for the tests of a module, whose servers start once; ``conftest`` closes it after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from proverrl.errors import ToolchainError
from proverrl.lang.open import open_verifier
from proverrl.types import Candidate, Problem, Verdict
from proverrl.verifier.base import Verifier, verify_all
from proverrl.verifier.cache import CachedVerifier

T = TypeVar("T")
_RUNNERS: list[asyncio.Runner] = []
_OPEN: list[CachedVerifier] = []


def ask_verifier(asking: Callable[[Verifier], Awaitable[T]]) -> T:
    """Ask the verifier that is open, or open it."""

    async def run() -> T:
        if not _OPEN:
            _OPEN.append(open_verifier(workers=2))
        return await asking(_OPEN[0])

    try:
        return _get_runner().run(run())
    except ToolchainError as error:
        pytest.skip(str(error))


def judge(problem: Problem, bodies: Sequence[str]) -> list[Verdict]:
    asked = [Candidate(problem, body) for body in bodies]
    return ask_verifier(lambda verifier: verify_all(verifier, asked, deadline_seconds=60))


def _get_runner() -> asyncio.Runner:
    if not _RUNNERS:
        _RUNNERS.append(asyncio.Runner())
    return _RUNNERS[0]


def close_verifier() -> None:
    while _OPEN:
        _get_runner().run(_OPEN.pop().aclose())
    while _RUNNERS:
        _RUNNERS.pop().close()
