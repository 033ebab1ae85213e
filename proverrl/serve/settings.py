"""The settings of a server.

Flows in: options of the command line, a file of keys. Flows out: ``ServeSettings``, refused where
they would let a stranger in. Not handled here: anything while requests come.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from proverrl.errors import UsageError
from proverrl.lang.base import BackendOptions

_MIN_KEY = 16


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """``options`` is how verifiers are opened, ``cache`` where verdicts are kept (None: in memory).

    ``room`` is the number of candidates that may wait or run, ``deadline_seconds`` the most that a
    request may ask for one of them. A body may take ``read_seconds`` to arrive.
    ``max_text`` are the characters of one assembled candidate: its audit holds the others up.
    ``keys`` are those of the clients; without any, every client that reaches the port may ask.
    """

    options: BackendOptions
    cache: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    room: int = 10_000
    max_batch: int = 1_000
    max_body_bytes: int = 16 * 2**20
    max_text: int = 2**16
    read_seconds: float = 30.0
    deadline_seconds: float = 300.0
    keys: tuple[str, ...] = field(default=(), repr=False)
    insecure: bool = False

    def __post_init__(self) -> None:
        if not self.keys and not self.insecure and not is_loopback(self.host):
            raise UsageError(
                f"--host {self.host} lets other machines ask, and no key is set: name a file of "
                "keys with --api-key-file, or say --insecure if the network itself keeps strangers "
                "out"
            )


def is_loopback(host: str) -> bool:
    """True when only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_keys(path: Path) -> tuple[str, ...]:
    """The keys in a file, one a line; empty lines and lines that begin with ``#`` are left out.
    Raises ``UsageError``: the file cannot be read, holds none, or one that is easily guessed."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the file of keys {path} cannot be read: {error}") from error
    keys = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    for number, key in enumerate(keys, start=1):
        if len(key) < _MIN_KEY or not key.isascii() or any(c.isspace() for c in key):
            raise UsageError(
                f"{path}: key {number} must be {_MIN_KEY} or more ASCII characters without blanks; "
                "python3 -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
            )
    if not keys:
        raise UsageError(f"the file of keys {path} holds none")
    return keys
