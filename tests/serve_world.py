"""A server over a verifier without a prover, in this process, on a port of its own.

Flows in: settings and a fake verifier. Flows out: a URL while the server runs.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import uvicorn
from starlette.applications import Starlette

from proverrl.lang.base import BackendOptions
from proverrl.serve.app import make_app
from proverrl.serve.kimina import make_kimina_routes
from proverrl.serve.run import configure
from proverrl.serve.run import listen as bind
from proverrl.serve.settings import ServeSettings
from proverrl.types import Candidate, Status
from proverrl.verifier.base import Limits
from proverrl.verifier.cache import CachedVerifier
from proverrl.verifier.remote_server import LanguageAbout
from tests.fake_verifier import FakeVerifier

ABOUT = {name: LanguageAbout("fake", "fake", 3_000_000, False) for name in ("dafny", "lean")}
SETTINGS = ServeSettings(BackendOptions(workers=1, limits=Limits()))


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A coroutine as a test."""

    @functools.wraps(test)
    def run(*args: Any, **given: Any) -> None:
        asyncio.run(test(*args, **given))

    return run


def judge(candidate: Candidate) -> Status:
    return Status.PROVED if "good" in candidate.body else Status.REJECTED


def build_app(
    settings: ServeSettings, fake: FakeVerifier, about: Mapping[str, LanguageAbout] = ABOUT
) -> Starlette:
    verifier = CachedVerifier(fake, None, identify=fake.identify)
    return make_app(settings, verifier, about, make_kimina_routes)


async def wait_for(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def listen(
    settings: ServeSettings, fake: FakeVerifier, about: Mapping[str, LanguageAbout] = ABOUT
) -> AsyncIterator[int]:
    """The port of a running server."""
    app = build_app(settings, fake, about)
    config = configure(app, replace(settings, port=0))
    server = uvicorn.Server(config)
    with bind(config) as bound:
        task = asyncio.create_task(server.serve(sockets=[bound]))
        await wait_for(lambda: server.started)
        try:
            yield bound.getsockname()[1]
        finally:
            server.should_exit = True
            await task
