"""A verifier of real Dafny for one question; a test is skipped where there is no Dafny."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from proverrl.errors import ToolchainError
from proverrl.lang.open import open_verifier
from proverrl.types import Candidate, Problem, Verdict
from proverrl.verifier.base import Verifier, verify_all

T = TypeVar("T")


def ask_verifier(asking: Callable[[Verifier], Awaitable[T]]) -> T:
    async def run() -> T:
        verifier = open_verifier(workers=2)
        try:
            return await asking(verifier)
        finally:
            await verifier.aclose()

    try:
        return asyncio.run(run())
    except ToolchainError as error:
        pytest.skip(str(error))


def judge(problem: Problem, bodies: Sequence[str]) -> list[Verdict]:
    asked = [Candidate(problem, body) for body in bodies]
    return ask_verifier(lambda verifier: verify_all(verifier, asked, deadline_seconds=60))
