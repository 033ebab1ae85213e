"""Real Dafny for the tests of a module, whose servers start once; ``conftest`` closes it after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from proverrl.errors import ProblemError, ToolchainError
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.server import DafnyServerWorker
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain, find_dafny_toolchain
from proverrl.lang.open import open_verifier
from proverrl.types import Candidate, Problem, Verdict
from proverrl.verifier.base import Limits, Verifier, verify_all
from proverrl.verifier.cache import CachedVerifier

T = TypeVar("T")
_RUNNERS: list[asyncio.Runner] = []
_OPEN: list[CachedVerifier] = []
_STARTED: list[tuple[DafnyServerWorker, DafnyToolchain]] = []


def ask_verifier(asking: Callable[[Verifier], Awaitable[T]]) -> T:
    """Ask the verifier that is open, or open it."""

    async def run() -> T:
        if not _OPEN:
            # One: a server is slow at its first questions, and the cores have other tests.
            _OPEN.append(open_verifier(workers=1))
        return await asking(_OPEN[0])

    try:
        return _get_runner().run(run())
    except ToolchainError as error:
        pytest.skip(str(error))


def judge(problem: Problem, bodies: Sequence[str]) -> list[Verdict]:
    asked = [Candidate(problem, body) for body in bodies]
    return ask_verifier(lambda verifier: verify_all(verifier, asked, deadline_seconds=60))


def ask_worker(
    asking: Callable[[DafnyServerWorker, DafnyToolchain], Awaitable[T]],
) -> T:
    """Ask a DafnyServer without a pool and without the audit: the one that runs, or a new one."""

    async def run() -> T:
        if not _STARTED:
            toolchain = find_dafny_toolchain()
            worker = await DafnyServerWorker.start(toolchain, Limits(), KnownProblems())
            _STARTED.append((worker, toolchain))
        try:
            return await asking(*_STARTED[0])
        except ProblemError:
            raise
        except BaseException:
            # It may owe an answer.
            await _stop_worker()
            raise

    try:
        return _get_runner().run(run())
    except ToolchainError as error:
        pytest.skip(str(error))


async def _stop_worker() -> None:
    while _STARTED:
        worker, _ = _STARTED.pop()
        worker.kill()
        await worker.join()


def _get_runner() -> asyncio.Runner:
    if not _RUNNERS:
        _RUNNERS.append(asyncio.Runner())
    return _RUNNERS[0]


def close_verifier() -> None:
    while _OPEN:
        _get_runner().run(_OPEN.pop().aclose())
    if _STARTED:
        _get_runner().run(_stop_worker())
    while _RUNNERS:
        _RUNNERS.pop().close()
