"""Takes candidates in, has them judged in turn, and counts.

Flows in: requests, candidates, a verifier. Flows out: the client's name, a request's bytes, room in
the queue, verdicts, the page ``/metrics``; or a ``Refusal``, which is the answer. A request for
more than the room is refused at once, so that a client hears of it while it can still go elsewhere;
no client may fill more than half. Not handled here: the paths (``app``, ``kimina``); whose turn it
is (``proverrl.verifier.pool``); keeping counters over a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import math
import re
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from proverrl.concurrency import Breather
from proverrl.errors import CanaryError, ProblemError, ToolchainError
from proverrl.lang.trusted import REMEDY
from proverrl.problems.inputs import Submission, Unusable, refuse_stranger
from proverrl.serve.settings import ServeSettings
from proverrl.types import HOLE, Diagnostic, Status, Verdict
from proverrl.verifier.base import Lane, PoolStats, refuse_text
from proverrl.verifier.cache import CachedVerifier
from proverrl.verifier.process_group import LAST_WORDS
from proverrl.verifier.remote_server import DISTRUSTED, LanguageAbout

_RATE_OVER = 64
"""Candidates whose ends tell how fast the queue moves."""
_MAX_RETRY_SECONDS = 60


class Reservation:
    """Room for so many candidates of a client, given back one by one or at the end."""

    def __init__(self, room: Room, client: str, num: int) -> None:
        self._room, self._client, self._num = room, client, num
        room.change(client, num)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        self._room.change(self._client, -self._num)
        self._num = 0

    def release(self) -> None:
        """One of them has its verdict."""
        self._room.note_end()
        if self._num:
            self._num -= 1
            self._room.change(self._client, -1)


class Room:
    """``num_inside`` candidates wait or run, ``size`` at most."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.num_inside = 0
        self._by_client: Counter[str] = Counter()
        self._ends: deque[float] = deque(maxlen=_RATE_OVER)

    def find_lack(self, client: str, num: int) -> str:
        """The reason why so many more of a client's candidates find no room; empty when they do."""
        if self.num_inside + num > self.size:
            return "the queue is full"
        if self._by_client[client] + num > self.size // 2:
            return "half of the queue is yours"
        return ""

    def change(self, client: str, num: int) -> None:
        """Note that so many more are inside, or fewer."""
        self.num_inside += num
        self._by_client[client] += num
        if not self._by_client[client]:
            del self._by_client[client]

    def note_end(self) -> None:
        """A candidate has its verdict."""
        self._ends.append(time.monotonic())

    def guess_wait(self, num: int) -> int:
        """Whole seconds until ``num`` candidates have left, at the latest rate."""
        if len(self._ends) < 2:
            return 1
        rate = (len(self._ends) - 1) / max(self._ends[-1] - self._ends[0], 1e-3)
        return min(_MAX_RETRY_SECONDS, max(1, math.ceil(num / rate)))


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """All counters of one server, in Prometheus' text format. Names and labels are a contract with
    dashboards."""

    def __init__(self, room: Room, verifier: CachedVerifier) -> None:
        self._registry = prometheus.CollectorRegistry()
        self._registry.register(_Live(room, verifier))
        self._requests = prometheus.Counter(
            "proverrl_requests",
            "Answers by path and status.",
            ("path", "code"),
            registry=self._registry,
        )
        self._verdicts = prometheus.Counter(
            "proverrl_verdicts",
            "Verdicts given to clients.",
            ("language", "status", "cause"),
            registry=self._registry,
        )
        self._seconds = prometheus.Histogram(
            "proverrl_verdict_seconds",
            "Time of the checker.",
            ("language",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._waits = prometheus.Histogram(
            "proverrl_request_seconds",
            "From the request's arrival to the end of its answer.",
            ("path",),
            buckets=_SECONDS,
            registry=self._registry,
        )

    def count_request(self, path: str, code: int, seconds: float) -> None:
        """An answer was given."""
        self._requests.labels(path, str(code)).inc()
        self._waits.labels(path).observe(seconds)

    def count_verdict(self, language: str, verdict: Verdict) -> None:
        """A verdict was given."""
        self._verdicts.labels(language, verdict.status.value, verdict.cause).inc()
        self._seconds.labels(language).observe(verdict.seconds)

    def render(self) -> bytes:
        """The page."""
        return bytes(prometheus.generate_latest(self._registry))


class _Live(Collector):
    """The figures that are read at the moment of asking."""

    def __init__(self, room: Room, verifier: CachedVerifier) -> None:
        self._room = room
        self._verifier = verifier

    def collect(self) -> Iterator[Metric]:
        stats = self._verifier.stats() or PoolStats()
        inside = self._room.num_inside
        yield GaugeMetricFamily("proverrl_inside", "Candidates that wait or run.", inside)
        yield GaugeMetricFamily("proverrl_queue", "Those that wait for a worker.", stats.queued)
        hits = self._verifier.num_hits
        yield CounterMetricFamily("proverrl_known", "Verdicts that were known already.", hits)
        yield GaugeMetricFamily("proverrl_workers", "Places for worker processes.", stats.workers)
        yield GaugeMetricFamily("proverrl_workers_busy", "Workers that judge.", stats.running)
        restarts = CounterMetricFamily(
            "proverrl_worker_replacements", "Workers replaced, by reason.", labels=("reason",)
        )
        restarts.add_metric(("fault",), stats.restarts)
        restarts.add_metric(("schedule",), stats.recycled)
        restarts.add_metric(("memory",), stats.memory_kills)
        yield restarts
        yield CounterMetricFamily("proverrl_retries", "Second attempts.", stats.retried)


logger = logging.getLogger(__name__)
CLIENT_GONE = 499
_BEARER = re.compile("^bearer ", re.IGNORECASE)
_SEARCHED = re.compile(r"in the search path entries:.*", re.DOTALL)
_LAST_WORDS = re.compile(rf"{re.escape(LAST_WORDS)}.*", re.DOTALL)


def _for_clients(message: str) -> str:
    """Lean lists the folders in which it looked for a module; a process that died may have said
    anything; and no client can have anything believed."""
    return _LAST_WORDS.sub("", _SEARCHED.sub("on this server", REMEDY.sub("", message)))


class Refusal(Exception):  # noqa: N818
    """An answer other than 200, for the whole request."""

    def __init__(self, code: int, detail: Any, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.response = JSONResponse({"detail": detail}, code, headers)


class Desk:
    """Takes candidates in, has them judged in turn, and counts."""

    def __init__(
        self,
        settings: ServeSettings,
        verifier: CachedVerifier,
        about: Mapping[str, LanguageAbout],
    ) -> None:
        self.settings = settings
        self.about = about
        self.room = Room(settings.room)
        self.metrics = Metrics(self.room, verifier)
        self.distrust = ""
        """The reason why no answer here can be believed any more; empty as long as they can."""
        self._verifier = verifier
        self._breather = Breather()

    async def judge(
        self, entry: Submission, *, deadline_seconds: float, client: str, priority: int = 0
    ) -> Verdict | Unusable:
        """The verdict, or why this candidate has none. Raises ``VerifierError``: this server is
        closed or broken."""
        candidate = entry.candidate
        language = candidate.problem.language
        if language not in self.about:
            return entry.refuse("no-backend", f"{language[:40]} is not served here")
        await self._breather.wait()
        refused = self._refuse_long(entry) or refuse_stranger(entry)
        if refused is not None:
            return refused
        try:
            verdict = await self._verifier.verify(
                candidate, deadline_seconds=deadline_seconds, lane=Lane(client, priority)
            )
        except ProblemError as error:
            return entry.refuse("bad-problem", _for_clients(str(error)))
        except ToolchainError as error:
            # Its message names commands and paths of this machine.
            logger.warning("%s", error)
            return entry.refuse("no-backend", f"{language} cannot be judged on this server")
        except CanaryError:
            self.distrust = "a false statement was called proved here; believe no verdict"
            raise
        if self.distrust:
            raise CanaryError(self.distrust)
        self.metrics.count_verdict(language, verdict)
        said = tuple(replace(d, message=_for_clients(d.message)) for d in verdict.diagnostics)
        return replace(verdict, diagnostics=said)

    def _refuse_long(self, entry: Submission) -> Verdict | Unusable | None:
        """A text that is too long for the audit is the answer's own doing, unless the problem
        alone is that long."""
        most, candidate = self.settings.max_text, entry.candidate
        problem = candidate.problem
        ours = len(problem.preamble) + len(problem.statement) - len(HOLE)
        if ours + len(candidate.body) + len(candidate.prelude) <= most:
            return None
        if ours > most:
            return entry.refuse("bad-problem", f"its statement is longer than {most} characters")
        said = f"longer than {most} characters with its statement (--max-text)"
        return refuse_text(Status.REJECTED, "text", (Diagnostic("error", said),))

    def admit(self, request: Request) -> str:
        """The client's name. Raises ``Refusal``: it has no key, or nothing can be judged."""
        client = self.authorise(request)
        if self.distrust:
            raise Refusal(503, self.distrust, {DISTRUSTED: "1"})
        return client

    def authorise(self, request: Request) -> str:
        """The client's name: its key's number, or its address. Raises ``Refusal``."""
        if not self.settings.keys:
            return request.client.host if request.client else ""
        given = _BEARER.sub("", request.headers.get("authorization", "")).strip()
        if not given:
            raise Refusal(401, "Missing API key", {"WWW-Authenticate": "Bearer"})
        # All are compared, so that the time tells nothing.
        found = [
            number
            for number, key in enumerate(self.settings.keys)
            if hmac.compare_digest(key.encode(), given.encode("utf-8", "surrogateescape"))
        ]
        if not found:
            raise Refusal(401, "Invalid API key", {"WWW-Authenticate": "Bearer"})
        return f"key {found[0]}"

    async def read(self, request: Request) -> bytes:
        """The body, within the limits. Raises ``Refusal``."""
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Refusal(415, "compressed bodies are not read; send plain JSON")
        limit = self.settings.max_body_bytes
        too_long = Refusal(413, f"the body is longer than {limit} bytes; send several requests")
        with contextlib.suppress(ValueError):
            if int(request.headers.get("content-length", "0")) > limit:
                raise too_long
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.settings.read_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        raise too_long
                    parts.append(part)
        except ClientDisconnect:
            raise Refusal(CLIENT_GONE, "the client went away") from None
        except TimeoutError:
            seconds = self.settings.read_seconds
            raise Refusal(408, f"the body did not arrive within {seconds:g} s") from None
        return b"".join(parts)

    def reserve(self, num: int, client: str) -> Reservation:
        """Room for a batch. Raises ``Refusal``."""
        most = min(self.settings.max_batch, self.settings.room // 2)
        if num > most:
            raise Refusal(413, f"{num} candidates in one request; at most {most} are taken")
        if lack := self.room.find_lack(client, num):
            wait = self.room.guess_wait(num)
            raise Refusal(429, f"{lack}; try again in {wait} s", {"Retry-After": str(wait)})
        return Reservation(self.room, client, num)
