"""The HTTP interface: what a client may ask, and what it is answered.

Flows in: requests. Flows out: verdicts, one object for each candidate, as ``proverrl verify`` gives
them. Covered: keys, bodies that are too long, too slow, compressed or no JSON, a full queue. The
work of a client that goes away is cancelled; a server may be stopping. An answer names no path of
this machine. Not covered: TLS and floods of connections, which are a proxy's work; the other
servers' dialect (``kimina``); the process itself (``run``).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    Sequence,
)
from dataclasses import asdict
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from proverrl.concurrency import cancel_all, finish_all
from proverrl.errors import CanaryError, UsageError, VerifierError
from proverrl.files.strict_json import load_json
from proverrl.problems.inputs import Submission, Unusable, read_entry, verdict_to_json
from proverrl.serve.desk import CLIENT_GONE, Desk, Refusal, Reservation
from proverrl.serve.settings import ServeSettings
from proverrl.types import Verdict
from proverrl.verifier.cache import CachedVerifier
from proverrl.verifier.remote_server import DISTRUSTED, LanguageAbout
from proverrl.version import __version__

logger = logging.getLogger(__name__)
Row = dict[str, Any]
Work = Callable[[], Coroutine[Any, Any, Row]]
NDJSON = "application/x-ndjson"
_LONG_BYTES = 2**18
_MOST_FAULTS = 10


class VerifyRequest(BaseModel):
    """Candidates are objects like the lines that ``proverrl verify`` reads: ``{"id", "problem":
    {...}, "body", "prelude"?}``, held to their problem's statement, or ``{"id", "language",
    "code"}``, a bare file."""

    model_config = ConfigDict(extra="forbid")

    candidates: list[Any] = Field(min_length=1)
    deadline_seconds: float | None = Field(None, gt=0, allow_inf_nan=False)
    """wall time for one candidate once a worker has it; lowered to the server's limit"""
    priority: int = Field(0, ge=-10, le=10)
    """higher goes first"""


def _encode(answer: Any) -> bytes:
    """The JSON of an answer. A client's name may hold half of a surrogate pair; UTF-8 cannot."""
    try:
        return bytes(to_json(answer))
    except ValueError:
        return json.dumps(answer).encode()


async def answer_all(
    request: Request,
    room: Reservation,
    works: Sequence[Work],
) -> Response:
    """The results in order. All work is cancelled when the client goes away first."""
    with room:
        rows = asyncio.ensure_future(finish_all(_release_after(room, work) for work in works))
        gone = asyncio.create_task(_wait_until_gone(request))
        try:
            await asyncio.wait({rows, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not rows.done():
                return Response(status_code=CLIENT_GONE)
            return Response(_encode({"results": rows.result()}), media_type="application/json")
        finally:
            await cancel_all([rows, gone])


async def _release_after(room: Reservation, work: Work) -> Row:
    """A client that waits, or does not read its lines, holds no room for judged candidates."""
    try:
        return await work()
    finally:
        room.release()


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def parse(model: type[BaseModel], body: bytes) -> Any:
    """A request; a long one is read in a thread, so that the others' go on. Raises ``Refusal``: 422
    with the places."""
    if len(body) > _LONG_BYTES:
        return await asyncio.to_thread(_parse_now, model, body)
    return _parse_now(model, body)


def _parse_now(model: type[BaseModel], body: bytes) -> Any:
    try:
        return model.model_validate(load_json(body, unique_keys=True))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        faults = found[:_MOST_FAULTS]
        raise Refusal(422, [fault | {"loc": ["body", *fault["loc"]]} for fault in faults]) from None
    except (ValueError, RecursionError) as error:
        fault = {"type": "json_invalid", "loc": ["body"], "msg": f"no JSON: {error}"[:300]}
        raise Refusal(422, [fault]) from None


Handler = Callable[[Desk, Request, str], Awaitable[Response]]
"""Answers a client's request; the text is the client's name."""


def make_routes(desk: Desk, paths: Sequence[str], handler: Handler) -> list[Route]:
    """Routes on which a handler answers POST requests: keys are asked for, refusals said, answers
    counted."""

    async def endpoint(request: Request) -> Response:
        started = time.perf_counter()
        try:
            response = await handler(desk, request, desk.admit(request))
        except Refusal as refusal:
            response = refusal.response
        except CanaryError as error:
            logger.critical("%s", error)
            response = JSONResponse({"detail": desk.distrust}, 503, {DISTRUSTED: "1"})
        except (VerifierError, UsageError) as error:
            # The latter where the file of verdicts cannot be written.
            logger.warning("%s", error)
            response = JSONResponse({"detail": "the verifier is not available"}, 503)

        def count() -> None:
            seconds = time.perf_counter() - started
            desk.metrics.count_request(paths[0], response.status_code, seconds)

        if isinstance(response, _Lines):
            response.at_end = count
        else:
            count()
        return response

    return [Route(path, endpoint, methods=["POST"]) for path in paths]


def make_app(
    settings: ServeSettings,
    verifier: CachedVerifier,
    about: Mapping[str, LanguageAbout],
    more: Callable[[Desk], list[Route]] = lambda desk: [],
) -> Starlette:
    """The application over an open verifier, which it closes at its end; ``about`` are the
    languages that it judges, and ``more`` are further routes."""
    desk = Desk(settings, verifier, about)

    @contextlib.asynccontextmanager
    async def live(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await verifier.aclose()

    return Starlette(
        routes=[*make_routes(desk, ["/v1/verify"], verify), *more(desk), *_make_state_routes(desk)],
        exception_handlers={Refusal: _refuse, HTTPException: _refuse_path},
        lifespan=live,
    )


def _make_state_routes(desk: Desk) -> list[Route]:
    async def health(request: Request) -> Response:
        """The process answers."""
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        """There is room for a candidate."""
        full = "full" if desk.room.num_inside >= desk.settings.room else ""
        trouble = desk.distrust or full
        return JSONResponse({"status": trouble or "ok"}, 503 if trouble else 200)

    async def metrics(request: Request) -> Response:
        """Counters in Prometheus' format; needs a key where there are keys."""
        desk.authorise(request)
        return Response(desk.metrics.render(), media_type="text/plain; version=0.0.4")

    async def about(request: Request) -> Response:
        """The languages that are judged here, by which toolchain, under which limits."""
        desk.admit(request)
        languages = {name: asdict(about) for name, about in desk.about.items()}
        workers = desk.settings.options.workers
        return JSONResponse({"version": __version__, "workers": workers, "languages": languages})

    return [
        *(Route(path, health) for path in ("/", "/health", "/health/")),
        *(Route("/ready", ready), Route("/metrics", metrics), Route("/v1/about", about)),
    ]


async def _refuse(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)
    return refusal.response


async def _refuse_path(request: Request, error: Exception) -> Response:
    """No such path, or no such method."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


async def verify(desk: Desk, request: Request, client: str) -> Response:
    """Judge candidates. Results come in order, or, with ``Accept: application/x-ndjson``, a
    line each as they are known."""
    asked = await parse(VerifyRequest, await desk.read(request))
    most = desk.settings.deadline_seconds
    seconds = min(asked.deadline_seconds or most, most)
    room = desk.reserve(len(asked.candidates), client)

    async def judge(index: int, raw: Any) -> Row:
        entry = read_entry(raw, "candidates", index + 1)
        if isinstance(entry, Unusable):
            return {"index": index} | entry.to_json()
        found = await desk.judge(
            entry, deadline_seconds=seconds, client=client, priority=asked.priority
        )
        return {"index": index} | make_row(entry, found)

    works = [partial(judge, index, raw) for index, raw in enumerate(asked.candidates)]
    if NDJSON in request.headers.get("accept", ""):
        return _Lines(room, works)

    return await answer_all(request, room, works)


def make_row(entry: Submission, found: Verdict | Unusable) -> Row:
    """The object of one candidate; ``states`` where there are any: the server traces
    them, or the file has holes."""
    if isinstance(found, Unusable):
        return found.to_json()
    row = verdict_to_json(entry, found)
    return row | {"states": [list(state) for state in found.states]} if found.states else row


class _Lines(StreamingResponse):
    """A line for each result, in the order of completion. A client that goes away ends it, which
    cancels what is left."""

    def __init__(self, room: Reservation, works: Sequence[Work]) -> None:
        self._room = room
        self.at_end: Callable[[], None] = lambda: None
        super().__init__(_write_lines(room, works), media_type=NDJSON)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            with self._room:
                await super().__call__(scope, receive, send)
        finally:
            self.at_end()


async def _write_lines(room: Reservation, works: Sequence[Work]) -> AsyncIterator[bytes]:
    tasks = [asyncio.ensure_future(_release_after(room, work)) for work in works]
    try:
        for done in asyncio.as_completed(tasks):
            yield _encode(await done) + b"\n"
    finally:
        await cancel_all(tasks)
