"""Starts servers on the nodes of a Ray cluster, and says which are there.

A process of its own, because Ray ends the process that uses it when the head of the cluster is
lost. Flows in: a JSON object on the first line of standard input, then lines with the number of
servers that are wanted. Flows out: JSON lines: ``{"up": URL}``, ``{"gone": URL, "said": ...}``,
``{"failed": ...}`` for a server that could not be started. It ends when its input ends.
Each server is ``proverrl serve``, held by an actor that reserves its processors; it ends with the
actor, and the actor with its node. Not handled here: asking the servers (``remote``), how many
there should be (``cluster``).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

_PDEATHSIG = 1
_OUTPUT = 1
_POLL_SECONDS = 0.2
_CONNECT_SECONDS = 10.0
_START_SECONDS = 240.0
"""Seconds until a server must listen; after them its place is for another one."""
_LAST_LINES = 5
_FIRST_REST, _LONGEST_REST = 2.0, 60.0
"""Seconds before another server is started after one failed: they double."""


class ServerKeeper:
    """One server on a node, which runs for as long as this object is there."""

    def __init__(self, workers: int, arguments: Sequence[str], key: str) -> None:
        import ray

        command = [sys.executable, "-m", "proverrl", "serve", "--port", "0", *arguments]
        command += ["--workers", str(workers)]
        command += [
            "--host",
            str(ray.util.get_node_ip_address()),
            # Through a pipe: a file would stay behind when this process is killed.
            "--api-key-file",
            "/dev/stdin",
        ]
        self._said: deque[str] = deque(maxlen=_LAST_LINES)
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_die_with_parent,
        )
        assert self._server.stdin is not None
        self._server.stdin.write(key + "\n")
        self._server.stdin.close()

    def start(self) -> str:
        """The server's URL, once it listens. Raises ``RuntimeError`` with its last words."""
        assert self._server.stderr is not None
        too_long = threading.Timer(_START_SECONDS, self._give_up)
        too_long.start()
        try:
            for line in self._server.stderr:
                self._said.append(line.strip())
                if found := re.search(r"listening on (http://\S+?),", line):
                    return found[1]
        finally:
            too_long.cancel()
        raise RuntimeError("; ".join(self._said) or "the server ended without a word")

    def _give_up(self) -> None:
        self._said.append(f"it did not listen within {_START_SECONDS:g} s")
        self._server.kill()

    def wait(self) -> str:
        """Returns when the server has ended, and how."""
        assert self._server.stderr is not None
        self._said.extend(line.strip() for line in self._server.stderr)
        return f"its server ended with status {self._server.wait()}: {'; '.join(self._said)}"


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGTERM)


class Keepers:
    """The keepers of a cluster: so many are kept as are wanted."""

    def __init__(self, ray: Any, settings: dict[str, Any]) -> None:
        self._ray = ray
        self._arguments = settings["workers"], settings["arguments"], settings["key"]
        self._actor = ray.remote(
            num_cpus=settings["workers"], max_concurrency=2, scheduling_strategy="SPREAD"
        )(ServerKeeper)
        self._starting: dict[Any, Any] = {}
        self._running: dict[Any, tuple[Any, str]] = {}
        self._num_failures = 0
        self._rests_until = 0.0
        self.wanted = 0

    def tend(self) -> None:
        """One look at all of them."""
        self._look_at_starting()
        self._look_at_running()
        missing = self.wanted - len(self._starting) - len(self._running)
        if missing > 0 and time.monotonic() >= self._rests_until:
            for _ in range(missing):
                keeper = self._actor.remote(*self._arguments)
                self._starting[keeper.start.remote()] = keeper
        while len(self._starting) > max(0, self.wanted - len(self._running)):
            _, keeper = self._starting.popitem()
            self._ray.kill(keeper)
        while len(self._running) > self.wanted:
            _, (keeper, url) = self._running.popitem()
            tell(gone=url, said="no longer wanted")
            self._ray.kill(keeper)

    def _look_at_starting(self) -> None:
        for ref in self._find_done(self._starting):
            keeper = self._starting.pop(ref)
            try:
                url = self._ray.get(ref)
            except self._ray.exceptions.RayError as error:
                self._rest(str(error))
                self._ray.kill(keeper)
            else:
                self._num_failures = 0
                self._running[keeper.wait.remote()] = keeper, url
                tell(up=url)

    def _look_at_running(self) -> None:
        for ref in self._find_done(self._running):
            keeper, url = self._running.pop(ref)
            try:
                said = self._ray.get(ref)
            except self._ray.exceptions.RayError as error:
                said = f"its node or process died ({type(error).__name__})"
            tell(gone=url, said=said)
            self._ray.kill(keeper)

    def _find_done(self, refs: dict[Any, Any]) -> list[Any]:
        if not refs:
            return []
        done, _ = self._ray.wait(list(refs), num_returns=len(refs), timeout=0)
        return list(done)

    def _rest(self, error: str) -> None:
        now = time.monotonic()
        if self._rests_until <= now:
            # All that fail together are one failure.
            rest = min(_LONGEST_REST, _FIRST_REST * 2.0 ** min(self._num_failures, 10))
            self._rests_until = now + rest
            self._num_failures += 1
        words = error.strip().splitlines()
        tell(failed=words[-1] if words else "no reason was given")


def tell(**said: str) -> None:
    """A line for the process that started this one."""
    os.write(_OUTPUT, json.dumps(said).encode() + b"\n")


def join(address: str) -> Any:
    """Ray, connected. Raises ``OSError`` and what Ray raises: the cluster cannot be reached."""
    if found := re.search(r"([^/\[\]:]+|\[[^\]]+\]):(\d+)$", address):
        # Ray itself would try for minutes.
        socket.create_connection((found[1].strip("[]"), int(found[2])), _CONNECT_SECONDS).close()
    import ray

    if address == "local":
        ray.init(address="local", include_dashboard=False, log_to_driver=False)
    else:
        ray.init(address=address, log_to_driver=False)
    return ray


def main() -> None:
    """See the module."""
    global _OUTPUT
    # Ray writes to descriptor 1 too.
    _OUTPUT = os.dup(1)
    os.dup2(2, 1)
    # A lost head ends this process after so many seconds.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "15")
    settings = json.loads(sys.stdin.readline())
    try:
        ray = join(settings["address"])
    except (OSError, RuntimeError, ValueError) as error:
        address = settings["address"]
        tell(
            failed=f"the cluster {address} cannot be reached: {error} (`ray start --head` "
            'starts one here, and so does pool.cluster = "local")',
            fatal="yes",
        )
        sys.exit(1)
    keepers = Keepers(ray, settings)
    closed = threading.Event()

    def read() -> None:
        for line in sys.stdin:
            keepers.wanted = int(line)
        closed.set()

    threading.Thread(target=read, daemon=True).start()
    while not closed.wait(_POLL_SECONDS):
        keepers.tend()
    ray.shutdown()


if __name__ == "__main__":
    main()
