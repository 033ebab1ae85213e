"""A verifier on other machines: servers that ``proverrl serve`` started.

Flows in: candidates. Flows out: the verdicts of the servers. A candidate goes to the server with
the fewest of ours; one that cannot be reached, or is full, is left alone for a while, and the
candidate goes to the next. A verdict depends on the candidate alone, so asking again never counts
twice. All servers must judge alike, which is asked at the start.
Not handled here: what a server does; a server that lies. Encrypt the way to it, or keep it short.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import httpx2
from pydantic import TypeAdapter, ValidationError

from proverrl.concurrency import cancel_all
from proverrl.errors import ProblemError, RecordError, ToolchainError, UsageError, VerifierError
from proverrl.types import Candidate, Verdict
from proverrl.verify.base import DEFAULT_LANE, PoolStats
from proverrl.verify.router import Backend


@dataclass(frozen=True, slots=True)
class LanguageAbout:
    """What a server says of a language that it judges. ``conditions`` is a hash of all that
    determines a verdict besides the candidate; ``states`` is whether verdicts carry them."""

    toolchain: str
    conditions: str
    rlimit: int
    states: bool


_VERDICT = TypeAdapter(Verdict)
_ABOUT = TypeAdapter(dict[str, LanguageAbout])
_CONNECT_SECONDS = 10.0
_FIRST_REST, _LONGEST_REST = 0.5, 30.0
"""Seconds for which a server that failed is left alone: they double with each failure."""
_MAX_DOUBLINGS = 10
_LONGEST_ASKED = 60.0
"""What a server may ask for at most."""
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(slots=True)
class _Server:
    """``rests_until`` is on the monotonic clock; ``num_failures`` counts those in a row."""

    url: str
    client: httpx2.AsyncClient
    num_asked: int = 0
    num_failures: int = 0
    rests_until: float = 0.0
    probe: asyncio.Future[bool] | None = None

    def fail(self, asked_seconds: float = 0.0) -> None:
        """It did not answer, or asked for so many seconds of rest. All that fails while it rests
        is one failure: a server that dies fails everything that it was asked at once."""
        now = time.monotonic()
        if self.rests_until <= now:
            doubled = _FIRST_REST * 2.0 ** min(self.num_failures, _MAX_DOUBLINGS)
            self.rests_until = now + min(_LONGEST_REST, doubled)
            self.num_failures += 1
        self.rests_until = max(self.rests_until, now + min(asked_seconds, _LONGEST_ASKED))


class RemoteVerifier:
    """A ``LanedVerifier`` over servers. ``patience_seconds`` is how long a candidate is kept while
    no server takes it, and how long an answer may take beyond its deadline. A server that lets a
    candidate wait is asked every ``probe_seconds`` whether it is there. ``transport`` replaces the
    network in tests."""

    def __init__(
        self,
        servers: Sequence[str],
        *,
        key: str = "",
        patience_seconds: float = 600.0,
        probe_seconds: float = 10.0,
        transport: httpx2.AsyncBaseTransport | None = None,
        sync_transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        for url in servers:
            if not url.startswith(("http://", "https://")):
                raise UsageError(f"{url!r} is no URL of a server, such as http://127.0.0.1:8000")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._transport = transport
        self._servers = [self._make_server(url) for url in servers]
        self._patience = patience_seconds
        self._probe_seconds = probe_seconds
        self._sleep = sleep
        self._closed = ""
        self._sync_transport = sync_transport
        self._name = ", ".join(server.url for server in self._servers)
        self._about = self._ask_about(self._servers)

    def _make_server(self, url: str) -> _Server:
        # A client for each: what httpx2 does for a request grows with its client's connections.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        client = httpx2.AsyncClient(
            transport=self._transport, headers=self._headers, limits=limits, timeout=None
        )
        return _Server(url.rstrip("/"), client)

    def open_backend(self, language: str, *, rlimit: int, states: bool) -> Backend:
        """The servers as the back end of a language. Raises ``ToolchainError``: they do not judge
        it; ``UsageError``: they judge it under another limit, or tell no states."""
        if language not in self._about:
            known = ", ".join(self._about) or "no language"
            raise ToolchainError(f"{self._name} judges {known}, and not {language}")
        about = self._about[language]
        if about.rlimit != rlimit:
            raise UsageError(
                f"{self._name} judges with rlimit {about.rlimit}, and {rlimit} is asked for: start "
                "it with that --rlimit, or set pool.rlimit to what it has"
            )
        if states and not about.states:
            raise UsageError(
                f"{self._name} does not tell the states of a proof, which this search needs: start "
                "it with --trace-states"
            )
        return Backend(self._name, about.toolchain, about.conditions, self)

    def stats(self) -> PoolStats | None:
        """None: the workers are the servers'."""
        return None

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: str = DEFAULT_LANE
    ) -> Verdict:
        """See ``LanedVerifier.verify``; a server takes its clients, not their lanes, in turn.
        Raises ``VerifierError``: no server took the candidate in time; ``UsageError``: a server
        refused the request itself, such as its key."""
        body = {
            "candidates": [_to_row(candidate)],
            "deadline_seconds": deadline_seconds,
        }
        give_up = time.monotonic() + self._patience
        while True:
            if self._closed:
                raise VerifierError(self._closed)
            server, rest = self._choose(time.monotonic())
            if rest:
                await self._sleep(rest)
            failure, row = await self._ask(server, body, deadline_seconds)
            if row is not None:
                return _read_row(candidate, row)
            if time.monotonic() > give_up:
                raise VerifierError(
                    f"no server judged {candidate.problem.id!r} within {self._patience:g} s; the "
                    f"last, {server.url}: {failure}"
                )

    def _choose(self, now: float) -> tuple[_Server, float]:
        """The server with the fewest of ours, and how long it rests; one that rests only where all
        do, the first to wake."""
        server = min(self._servers, key=lambda s: (max(s.rests_until, now), s.num_asked))
        return server, max(0.0, server.rests_until - now)

    @property
    def num_asked(self) -> int:
        """Candidates that are with servers now."""
        return sum(server.num_asked for server in self._servers)

    @property
    def num_servers(self) -> int:
        """Servers that are asked now, those that rest among them."""
        return len(self._servers)

    def add(self, url: str) -> None:
        """Ask one more server; from any thread. Raises ``UsageError``: it cannot be reached, or
        judges otherwise than the others."""
        server = self._make_server(url)
        self._ask_about([server], self._about)
        self._servers = [*self._servers, server]

    def remove(self, url: str) -> None:
        """Ask a server nothing more; from any thread. The last one stays, and rests."""
        self._servers = [s for s in self._servers if s.url != url] or self._servers[:1]

    def give_up(self, why: str) -> None:
        """What no server has judged by now, and all later calls, raise ``VerifierError``."""
        self._closed = why

    async def aclose(self) -> None:
        """Give up what is asked; the servers cancel its work."""
        self._closed = self._closed or "this verifier was closed"
        for server in self._servers:
            await server.client.aclose()

    async def _ask(
        self, server: _Server, body: dict[str, Any], deadline_seconds: float
    ) -> tuple[str, dict[str, Any] | None]:
        """The result, or what failed this time."""
        server.num_asked += 1
        posted = asyncio.ensure_future(
            server.client.post(
                f"{server.url}/v1/verify",
                json=body,
                timeout=httpx2.Timeout(
                    self._patience + 2 * deadline_seconds, connect=_CONNECT_SECONDS
                ),
            )
        )
        try:
            while not (await asyncio.wait({posted}, timeout=self._probe_seconds))[0]:
                if not await self._is_well(server):
                    server.fail()
                    return "it answers nothing any more", None
            response = posted.result()
        except httpx2.TransportError as error:
            server.fail()
            return str(error) or type(error).__name__, None
        except RuntimeError as error:
            # The client was closed under a request.
            raise VerifierError("this verifier was closed") from error
        finally:
            server.num_asked -= 1
            await cancel_all([posted])
        if response.status_code in _RETRIED:
            server.fail(read_retry_after(response.headers.get("retry-after", "")) or 0.0)
            return f"status {response.status_code}", None
        server.num_failures, server.rests_until = 0, 0.0
        if response.status_code != 200:
            raise UsageError(
                f"{server.url}: status {response.status_code}: {response.text[:300]}"
                + ("; set the key" if response.status_code == 401 else "")
            )
        try:
            (row,) = response.json()["results"]
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{server.url} did not answer as a server of proverrl does: {response.text[:200]!r}"
            ) from error
        return "", row

    async def _is_well(self, server: _Server) -> bool:
        """Whether a server that lets us wait answers at all: a machine that is stopped, or cut off,
        closes no connection. Asked once for all that wait for it."""
        if server.probe is None or server.probe.done():
            server.probe = asyncio.ensure_future(self._probe(server))
        return await asyncio.shield(server.probe)

    async def _probe(self, server: _Server) -> bool:
        try:
            response = await server.client.get(f"{server.url}/health", timeout=self._probe_seconds)
        except (httpx2.TransportError, RuntimeError):
            return False
        return response.status_code == 200

    def _ask_about(
        self, servers: Sequence[_Server], found: Mapping[str, LanguageAbout] | None = None
    ) -> Mapping[str, LanguageAbout]:
        """What all servers say alike, and what was ``found`` before. Raises ``UsageError``: one
        cannot be reached, refuses, or judges otherwise."""
        found = found or {}
        with httpx2.Client(
            transport=self._sync_transport, headers=self._headers, timeout=60.0
        ) as client:
            for server in servers:
                try:
                    response = client.get(f"{server.url}/v1/about")
                    response.raise_for_status()
                    said = _ABOUT.validate_python(response.json()["languages"])
                except (httpx2.HTTPError, ValidationError, ValueError, KeyError) as error:
                    raise UsageError(
                        f"{server.url} cannot be asked what it judges: {error}; is `proverrl "
                        "serve` running there, and is the key right?"
                    ) from error
                if found and said != found:
                    raise UsageError(
                        f"{server.url} judges otherwise than {self._servers[0].url}: start all "
                        "servers with the same version, toolchains and limits"
                    )
                found = said
        return found


def _to_row(candidate: Candidate) -> dict[str, Any]:
    problem = asdict(candidate.problem)
    row = {"id": candidate.problem.id, "problem": problem, "body": candidate.body}
    return row | {"prelude": candidate.prelude} if candidate.prelude else row


def _read_row(candidate: Candidate, row: Mapping[str, Any]) -> Verdict:
    """A result as a verdict. Raises ``ProblemError`` and ``ToolchainError`` as a verifier here
    would, ``VerifierError``: the result is damaged, or of another candidate."""
    if row.get("status") == "error":
        said = f"problem {candidate.problem.id!r}: {row.get('message', '')}"
        raise ToolchainError(said) if row.get("cause") == "no-backend" else ProblemError(said)
    fields = {name: value for name, value in row.items() if name not in ("id", "key", "index")}
    try:
        verdict = _VERDICT.validate_python(fields)
    except (ValidationError, RecordError) as error:
        raise VerifierError(f"a server's verdict cannot be read: {error}") from error
    if row.get("key") != candidate.key:
        raise VerifierError("a server answered for another candidate than was asked for")
    return verdict


def read_retry_after(text: str) -> float | None:
    """``Retry-After`` in seconds; None when it is absent or a date."""
    try:
        return max(0.0, float(text))
    except ValueError:
        return None
