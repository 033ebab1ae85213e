"""A verifier on a Ray cluster: a server on each of its nodes, more of them while there is work.

Flows in: candidates. Flows out: verdicts of the servers, which ``RemoteVerifier`` asks. Each server
is asked at its start what it judges by; one that would judge otherwise than the first is not used.
A node that dies takes no verdict with it: what it had is asked of the others. When the head of the
cluster is lost the run ends, and can be resumed.
Not handled here: Ray itself, which has a process of its own (``cluster_keeper``).
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import queue
import secrets
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass

from proverrl.errors import ToolchainError, UsageError
from proverrl.files.extras import require_module
from proverrl.types import Candidate, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane, PoolStats
from proverrl.verifier.remote import RemoteVerifier
from proverrl.verifier.router import Backend

logger = logging.getLogger(__name__)
_IDLE_SECONDS = 60.0
"""Seconds with less work than servers before one is given back."""
_LOOK_SECONDS = 1.0
_START_SECONDS = 300.0
_FULL = 2
"""Candidates asked at once for each worker, beyond which another server is asked for."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """``address`` is ``local``, a cluster of this machine alone that ends with the verifier, or
    one that Ray connects to: ``auto``, ``HOST:6379``, ``ray://HOST:10001``. Between ``fewest`` and
    ``most`` servers are kept, each with ``workers`` processes per language, and processors as many
    reserved; ``arguments`` are the rest of a server's command line."""

    address: str
    fewest: int = 1
    most: int = 1
    workers: int = 2
    arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.fewest <= self.most:
            raise UsageError(
                f"a cluster has at least 1 server and at most as many as its upper bound, not "
                f"{self.fewest} to {self.most}"
            )


class ClusterSize:
    """The number of servers that are wanted: at once as many as there is work for, and one less
    after each minute in which fewer would have done."""

    def __init__(self, options: ClusterOptions, now: float) -> None:
        self._options = options
        self._needed_since = now
        self.wanted = options.fewest

    def choose(self, num_open: int, now: float) -> int:
        """The number now; ``num_open`` candidates have no verdict, ``now`` is in seconds."""
        options = self._options
        needed = math.ceil(num_open / (_FULL * options.workers))
        needed = min(options.most, max(options.fewest, needed))
        if needed >= self.wanted:
            self.wanted, self._needed_since = needed, now
        elif now - self._needed_since > _IDLE_SECONDS:
            self.wanted, self._needed_since = self.wanted - 1, now
        return self.wanted


class ClusterVerifier:
    """A ``LanedVerifier`` over the nodes of a cluster. Raises ``ToolchainError``: the cluster or
    its first servers cannot be had; ``UsageError``: Ray is not installed, or two of the first
    servers judge differently."""

    def __init__(self, options: ClusterOptions) -> None:
        require_module("ray", "a cluster")
        self._options = options
        key = secrets.token_urlsafe(32)
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "proverrl.verifier.cluster_keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C at the terminal is the driver's to answer.
            start_new_session=True,
        )
        self._heard: queue.Queue[dict[str, str]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._write(json.dumps(asdict(options) | {"key": key}))
        self._ending = False
        self._size = ClusterSize(options, time.monotonic())
        self._write(str(self._size.wanted))
        with contextlib.ExitStack() as ended_on_failure:
            ended_on_failure.callback(self._end)
            self._remote = RemoteVerifier(self._wait_for_first(), key=key)
            ended_on_failure.pop_all()
        self._tending = threading.Thread(target=self._tend, daemon=True)
        self._tending.start()

    def open_backend(
        self, language: str, *, rlimit: int | None, states: bool, confirm: str | None = None
    ) -> Backend:
        """See ``RemoteVerifier.open_backend``."""
        backend = self._remote.open_backend(language, rlimit=rlimit, states=states, confirm=confirm)
        # Not the servers' addresses, which are others in each run.
        name = f"cluster {self._options.address}"
        salt = f"said by {name}\0{self._remote.find_conditions(language)}"
        return Backend(name, backend.toolchain, salt, self)

    @property
    def num_servers(self) -> int:
        """Servers that are asked now."""
        return self._remote.num_servers

    def stats(self) -> PoolStats | None:
        """None: the workers are the servers'."""
        return None

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        """See ``RemoteVerifier.verify``. Raises ``VerifierError`` too when the cluster is lost."""
        return await self._remote.verify(candidate, deadline_seconds=deadline_seconds, lane=lane)

    async def aclose(self) -> None:
        """End the servers."""
        self._ending = True
        await self._remote.aclose()
        self._end()

    def _listen(self) -> None:
        assert self._keeper.stdout is not None
        for line in self._keeper.stdout:
            self._heard.put(json.loads(line))
        self._heard.put({"lost": f"its keeper ended with status {self._keeper.wait()}"})

    def _wait_for_first(self) -> list[str]:
        urls: list[str] = []
        give_up = time.monotonic() + _START_SECONDS
        said = "no server started; are there nodes with enough processors?"
        while len(urls) < self._options.fewest:
            try:
                heard = self._heard.get(timeout=max(0.0, give_up - time.monotonic()))
            except queue.Empty:
                raise ToolchainError(
                    f"{len(urls)} of {self._options.fewest} servers of the cluster "
                    f"{self._options.address} started in {_START_SECONDS:g} s: {said}"
                ) from None
            if "up" in heard:
                urls.append(heard["up"])
            elif "gone" in heard:
                urls.remove(heard["gone"])
            said = heard.get("failed") or heard.get("said") or said
            if "lost" in heard or "fatal" in heard:
                raise ToolchainError(said if "fatal" in heard else heard["lost"])
            if "failed" in heard:
                logger.warning("cluster: %s", said)
        return urls

    def _tend(self) -> None:
        while not self._ending:
            try:
                heard = self._heard.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                before = self._size.wanted
                wanted = self._size.choose(self._remote.num_open, time.monotonic())
                if wanted != before and not self._ending:
                    self._write(str(wanted))
                continue
            if "up" in heard:
                try:
                    self._remote.add(heard["up"])
                except UsageError as error:
                    # Its node stays reserved, so that another server is not started there at once.
                    logger.warning("cluster: a server is not used: %s", error)
            elif "gone" in heard:
                self._remote.remove(heard["gone"])
                logger.warning("cluster: %s: %s", heard["gone"], heard["said"])
            elif "failed" in heard:
                logger.warning("cluster: a server did not start: %s", heard["failed"])
            elif "lost" in heard and not self._ending:
                self._remote.give_up(
                    f"the cluster {self._options.address} is lost: {heard['lost']}; start it "
                    "again and resume"
                )
                return

    def _write(self, line: str) -> None:
        assert self._keeper.stdin is not None
        try:
            self._keeper.stdin.write(line + "\n")
            self._keeper.stdin.flush()
        except (OSError, ValueError):
            # It has ended, and what listens to it says so.
            logger.debug("the keeper's input is closed")

    def _end(self) -> None:
        self._ending = True
        assert self._keeper.stdin is not None
        # A keeper that has ended needs no more input.
        with contextlib.suppress(OSError):
            self._keeper.stdin.close()
        try:
            self._keeper.wait(timeout=20.0)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
