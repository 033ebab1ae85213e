"""A verifier on other machines: servers that ``proverrl serve`` started.

Flows in: candidates. Flows out: the verdicts of the servers. Candidates go to the server with the
fewest of ours, several in one request when there are many, and their verdicts come one by one. What
a server could not begin soon stays here, for servers that join later. A server that cannot be
reached, or is full, is left alone for a while, and its candidates go to the
next. A verdict depends on the candidate alone, so asking again never counts twice. All servers must
judge alike, which is asked at the start.
Not handled here: what a server does; a server that lies. Encrypt the way to it, or keep it short.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from operator import attrgetter
from typing import Any

import httpx2
from pydantic import TypeAdapter, ValidationError

from proverrl.concurrency import cancel_all
from proverrl.errors import (
    ProblemError,
    RecordError,
    ToolchainError,
    UsageError,
    VerifierError,
)
from proverrl.types import Candidate, Status, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane, PoolStats, refuse_broken_text
from proverrl.verifier.remote_server import (
    KEEP_ALIVE,
    LONGEST_ASKED,
    MOST,
    Inquiry,
    LanguageAbout,
    NoAnswer,
    RemoteServer,
    ServerAbout,
    explain_failure,
    find_difference,
)
from proverrl.verifier.router import Backend
from proverrl.version import __version__

logger = logging.getLogger(__name__)
_VERDICT = TypeAdapter(Verdict)
_ABOUT = TypeAdapter(ServerAbout)
_MANY = 64
"""The number of candidates at servers from which others are gathered for a moment."""
_GATHER_SECONDS = 0.005
_MOST_CRASHES = 3
_MOST_TAKEN = 20
"""The number of tries after which a candidate that ends its server is given up."""
_SILENT_SECONDS = 5.0
"""Seconds without a server that takes anything before a warning says so."""
_NAP_SECONDS = 1.0
"""The longest sleep of a candidate before it looks for a server again: another may have come."""


class RemoteVerifier:
    """A ``LanedVerifier`` over servers. ``patience_seconds`` is how long a candidate is kept while
    no server takes it. A server that lets a candidate wait is asked every ``probe_seconds`` whether
    it is there. ``transport`` replaces the network in tests."""

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
        self._patience = patience_seconds
        self._probe_seconds = probe_seconds
        self._servers = [self._make_server(url) for url in servers]
        self._sleep = sleep
        self._closed = ""
        self._resting_since: float | None = None
        self._is_told = False
        self._last_said = ""
        self._left: list[RemoteServer] = []
        self._waiting: list[Inquiry] = []
        self._will_send = False
        self._sending: set[asyncio.Task[NoAnswer]] = set()
        self._sync_transport = sync_transport
        self._name = ", ".join(server.url for server in self._servers)
        self._about = self._ask_about(self._servers)

    def _make_server(self, url: str) -> RemoteServer:
        # A client for each: what httpx2 does for a request grows with its client's connections.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        transport = self._transport or httpx2.AsyncHTTPTransport(
            limits=limits, socket_options=KEEP_ALIVE
        )
        client = httpx2.AsyncClient(transport=transport, headers=self._headers, timeout=None)
        return RemoteServer(url.rstrip("/"), client, self._probe_seconds)

    def open_backend(
        self, language: str, *, rlimit: int | None, states: bool, confirm: str | None = None
    ) -> Backend:
        """The servers as the back end of a language; None is whatever they have. Raises
        ``ToolchainError``: they do not judge it; ``UsageError``: they judge it under another limit,
        tell no states, or confirm fewer proofs."""
        if language not in self._about:
            known = ", ".join(self._about) or "no language"
            raise ToolchainError(f"{self._name} judges {known}, and not {language}")
        about = self._about[language]
        if rlimit not in (None, about.rlimit):
            raise UsageError(
                f"{self._name} judges with rlimit {about.rlimit}, and {rlimit} is asked for: start "
                f"it with that --rlimit, or ask for what it has (--rlimit {about.rlimit}, "
                "pool.rlimit)"
            )
        if confirm is not None and about.confirm not in (confirm, "proved"):
            raise UsageError(
                f"{self._name} confirms proofs by the rule {about.confirm!r}, and {confirm!r} is "
                f"asked for: start it with --confirm {confirm}, or ask for what it does "
                f"(--confirm {about.confirm}, pool.confirm)"
            )
        if states and not about.states:
            raise UsageError(
                f"{self._name} does not tell the states of a proof, which goals and this search "
                "need: start it with --trace-states"
            )
        # Verdicts of a server are kept apart from those of workers here: a run that does not name
        # the server must not believe it.
        salt = f"said by {self._name}\0{about.conditions}"
        return Backend(self._name, about.toolchain, salt, self)

    def find_conditions(self, language: str) -> str:
        """The hash of all that the servers' verdicts depend on, as they say it."""
        return self._about[language].conditions

    def stats(self) -> PoolStats | None:
        """None: the workers are the servers'."""
        return None

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        """See ``LanedVerifier.verify``; a server takes its clients, not their lanes, in turn.
        Raises ``VerifierError``: no server took the candidate in time; ``UsageError``: a server
        refused the request itself, such as its key."""
        if (refused := refuse_broken_text(candidate)) is not None:
            return refused
        row = _to_row(candidate)
        give_up = time.monotonic() + self._patience
        num_taken = num_crashed = 0
        while True:
            if self._closed:
                raise VerifierError(self._closed)
            if rest := self._find_rest(time.monotonic()):
                self._tell_of_rest()
                await self._sleep(min(rest, _NAP_SECONDS))
                continue
            asked = Inquiry(row, deadline_seconds, asyncio.get_running_loop().create_future())
            self._gather(asked)
            answer = await asked.answer
            if not isinstance(answer, NoAnswer):
                self._resting_since = None
                verdict = _read_row(candidate, answer)
                num_crashed += verdict.status is Status.CRASHED
                if verdict.status is not Status.CRASHED or num_crashed == _MOST_CRASHES:
                    return verdict
                # It may be the server's fault, and a server that fails fast would get all others.
                if asked.server is not None:
                    asked.server.fail()
                continue
            self._last_said = answer.said
            if answer.was_taken:
                num_taken += 1
                give_up = time.monotonic() + self._patience
            if time.monotonic() > give_up or num_taken == _MOST_TAKEN:
                tries = f"{num_taken} tries" if num_taken else f"{self._patience:g} s"
                raise VerifierError(
                    f"no server judged {candidate.problem.id!r} within {tries}; the last: "
                    f"{answer.said}"
                )

    def _find_rest(self, now: float) -> float:
        """Seconds until the first server is awake; 0 where one is."""
        return max(0.0, min(server.rests_until for server in self._servers) - now)

    def _tell_of_rest(self) -> None:
        """Warn once when no server has taken anything for a while."""
        now = time.monotonic()
        if self._resting_since is None:
            self._resting_since, self._is_told = now, False
        if not self._is_told and now - self._resting_since > _SILENT_SECONDS:
            self._is_told = True
            logger.warning(
                "no server takes anything (%s); a candidate is kept for %g s",
                self._last_said,
                self._patience,
            )

    @property
    def num_asked(self) -> int:
        """Candidates that are with servers now."""
        return sum(server.num_asked for server in self._servers)

    @property
    def num_open(self) -> int:
        """Candidates without a verdict: those that are with servers, and those that wait here."""
        return self.num_asked + len(self._waiting)

    @property
    def num_servers(self) -> int:
        """Servers that are there, those that rest among them."""
        return sum(not server.is_gone for server in self._servers)

    def add(self, url: str) -> None:
        """Ask one more server; from any thread. Raises ``UsageError``: it cannot be reached, or
        judges otherwise than the others."""
        server = self._make_server(url)
        self._ask_about([server], self._about)
        self._left += [known for known in self._servers if known.is_gone]
        self._servers = [*(known for known in self._servers if not known.is_gone), server]

    def remove(self, url: str) -> None:
        """Ask a server nothing more; from any thread. The last one stays, and rests."""
        for server in self._servers:
            if server.url == url:
                server.is_gone = True
                server.fail(LONGEST_ASKED)
        if kept := [server for server in self._servers if not server.is_gone]:
            self._left += [server for server in self._servers if server.is_gone]
            self._servers = kept

    def give_up(self, why: str) -> None:
        """Make all calls without a verdict by now, and all later ones, raise ``VerifierError``."""
        self._closed = why

    async def aclose(self) -> None:
        """Give up what is asked; the servers cancel its work."""
        self._closed = self._closed or "this verifier was closed"
        await cancel_all(self._sending)
        for server in (*self._servers, *self._left):
            await server.client.aclose()

    def _gather(self, asked: Inquiry) -> None:
        self._waiting.append(asked)
        self._plan_sending()

    def _plan_sending(self) -> None:
        """Send soon what waits, with what else is asked or finds a place meanwhile."""
        if self._waiting and not self._will_send:
            self._will_send = True
            seconds = _GATHER_SECONDS if self.num_asked >= _MANY else 0.0
            asyncio.get_running_loop().call_later(seconds, self._send_waiting)

    def _send_waiting(self) -> None:
        self._will_send = False
        waiting = [asked for asked in self._waiting if not asked.answer.done()]
        now = time.monotonic()
        awake = [server for server in self._servers if server.rests_until <= now]
        self._waiting = waiting if awake and not self._closed else []
        for asked in waiting if not self._waiting else ():
            asked.answer.set_result(NoAnswer("every server rests"))
        while self._waiting:
            server = min(awake, key=lambda each: each.num_asked)
            share = math.ceil(len(self._waiting) / len(awake))
            size = min(server.places - server.num_asked, server.most, share)
            if size <= 0:
                break
            alike = itertools.groupby(self._waiting[:size], attrgetter("deadline_seconds"))
            batch = list(next(alike)[1])
            del self._waiting[: len(batch)]
            server.num_asked += len(batch)
            for inquiry in batch:
                inquiry.server = server
                inquiry.answer.add_done_callback(partial(self._leave, server))
            task = asyncio.ensure_future(server.send(batch))
            self._sending.add(task)
            task.add_done_callback(partial(self._end_batch, server, batch))

    def _leave(self, server: RemoteServer, _: object) -> None:
        server.num_asked -= 1
        self._plan_sending()

    def _end_batch(
        self, server: RemoteServer, batch: Sequence[Inquiry], task: asyncio.Task[NoAnswer]
    ) -> None:
        """Nobody is left waiting, however the sending ended."""
        self._sending.discard(task)
        error = None if task.cancelled() else task.exception()
        failure = NoAnswer("it was given up") if task.cancelled() or error else task.result()
        for inquiry in batch:
            if not inquiry.answer.done():
                if error is not None:
                    inquiry.answer.set_exception(error)
                else:
                    said = f"{server.url}: {failure.said}"
                    inquiry.answer.set_result(NoAnswer(said, failure.was_taken))

    def _ask_about(
        self, servers: Sequence[RemoteServer], found: Mapping[str, LanguageAbout] | None = None
    ) -> Mapping[str, LanguageAbout]:
        """The languages that all servers describe alike, and as ``found`` before. Raises
        ``UsageError``: one cannot be reached, refuses, or judges otherwise."""
        found = found or {}
        with httpx2.Client(
            transport=self._sync_transport, headers=self._headers, timeout=60.0
        ) as client:
            for server in servers:
                try:
                    response = client.get(f"{server.url}/v1/about")
                    response.raise_for_status()
                    told = _ABOUT.validate_json(response.content)
                except (
                    httpx2.HTTPError,
                    httpx2.InvalidURL,
                    ValidationError,
                    ValueError,
                    LookupError,
                    TypeError,
                ) as error:
                    raise UsageError(
                        f"{server.url} cannot be asked what it judges: {explain_failure(error)}"
                    ) from error
                if told.version != __version__:
                    raise UsageError(
                        f"{server.url} is version {told.version}, and this is {__version__}: "
                        "install the same on both"
                    )
                if found and told.languages != found:
                    raise UsageError(
                        f"{server.url} judges otherwise than {self._servers[0].url} "
                        f"({find_difference(found, told.languages)}): start all servers with the "
                        "same toolchains and limits"
                    )
                found = told.languages
                server.places = max(MOST, 2 * told.workers)
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
    if isinstance(counts := fields.get("believed"), Mapping):
        fields["believed"] = tuple(counts.items())
    try:
        verdict = _VERDICT.validate_python(fields)
    except (ValidationError, RecordError) as error:
        raise VerifierError(f"a server's verdict cannot be read: {error}") from error
    if row.get("key") != candidate.key:
        raise VerifierError("a server answered for another candidate than was asked for")
    return verdict
