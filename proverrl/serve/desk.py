"""Takes candidates in, has them judged in turn, and counts.

Flows in: requests, candidates, a verifier. Flows out: the client's name, a request's bytes, room in
the queue, verdicts; or a ``Refusal``, which is the answer. Not handled here: what paths there are
(``app``, ``kimina``).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from proverrl.concurrency import Breather
from proverrl.errors import CanaryError, ProblemError, ToolchainError
from proverrl.lang.trusted import REMEDY
from proverrl.problems.inputs import Submission, Unusable, refuse_stranger
from proverrl.serve.metrics import Metrics
from proverrl.serve.queue import Reservation, Room
from proverrl.serve.settings import ServeSettings
from proverrl.types import HOLE, Diagnostic, Status, Verdict
from proverrl.verifier.base import Lane, refuse_text
from proverrl.verifier.cache import CachedVerifier
from proverrl.verifier.process_group import LAST_WORDS
from proverrl.verifier.remote_server import DISTRUSTED, LanguageAbout

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
        """Why nothing that is said here can be believed any more; empty as long as it can."""
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
