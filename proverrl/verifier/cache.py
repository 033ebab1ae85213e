"""Stores and shares judged verdicts.

Flows in: candidates. Flows out: the inner verifier's verdict, or an earlier one of the same
candidate under the same toolchain, limits and audit. Whoever asks for a candidate that is being
verified under the same deadline waits for that verification. A verdict with a cause, as of a text
that spends all of its time, holds for its deadline alone. ``appeal`` judges a candidate again, past
the cache.
Covered: several processes on one file (SQLite in WAL mode); damaged and foreign rows, which are
dropped, counted and verified anew. Verdicts that judge nothing (TIMEOUT, CRASHED) are never kept.
Not covered: a file on a network share; rows forged with valid checksums.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import platformdirs
from pydantic import TypeAdapter

from proverrl.concurrency import cancel_all
from proverrl.errors import RecordError, UsageError
from proverrl.types import Candidate, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane, LanedVerifier, Limits, PoolStats, Verifier

_BUSY_SECONDS = 60.0
_APPLICATION_ID = 0x50525256
_SCHEMA = 3
"""Rows of an older schema lack parts of a verdict and are dropped when the file is opened."""
_MAX_IN_MEMORY = 20_000
_MOST_CHARACTERS = 2**16
"""The most characters of one verdict in memory: a proof can have Lean print megabytes."""

_VERDICT = TypeAdapter(Verdict)

Identify = Callable[[Candidate], str]
"""Names all that determines a verdict besides the candidate; may raise ``ToolchainError``."""


@dataclass(slots=True)
class _SharedVerification:
    """One running verification and the number of callers that wait for it."""

    task: asyncio.Task[Verdict]
    num_waiters: int = 0


@dataclass(frozen=True, slots=True)
class Appeals:
    """Other workers, with ``factor`` times the limits, that judge a refused candidate again."""

    verifier: Verifier
    factor: float


def default_cache() -> Path:
    """The file of verdicts that all runs and ``proverrl verify`` share, in the platform's cache
    folder."""
    return Path(platformdirs.user_cache_dir("proverrl", appauthor=False)) / "verdicts.sqlite"


class CachedVerifier:
    """A ``LanedVerifier`` that asks ``inner`` once per candidate.

    ``path`` None keeps verdicts in memory only. ``toolchain`` is a plain name for records,
    ``described`` one for a person. ``num_hits`` counts verdicts answered from the cache or from a
    shared verification, ``num_dropped`` rows that were damaged.
    """

    def __init__(
        self,
        inner: LanedVerifier,
        path: Path | None,
        *,
        identify: Identify,
        toolchain: str = "",
        described: str = "",
        appeals: Appeals | None = None,
    ) -> None:
        self.inner = inner
        self.identify = identify
        self._appeals = appeals
        self.toolchain = toolchain
        self.described = described
        self.num_hits = 0
        self.num_dropped = 0
        self._path = path
        self._memory: dict[str, Verdict] = {}
        self._running: dict[str, _SharedVerification] = {}
        self._database = None if path is None else open_database(path)

    def make_key(self, candidate: Candidate) -> str:
        """SHA-256 over all that determines the verdict, the demanded entries included."""
        demanded = json.dumps(candidate.problem.metadata.get("expected_entries"))
        parts = (candidate.key, demanded, self.identify(candidate))
        return hashlib.sha256("\x00".join(parts).encode()).hexdigest()

    def stats(self) -> PoolStats | None:
        """The inner verifier's counters."""
        return self.inner.stats()

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        """See ``LanedVerifier.verify``. Callers that share a verification share the lane of the
        first."""
        key = self.make_key(candidate)
        timed = f"{key}, {deadline_seconds:g} s"
        known = self._find(key) or self._find(timed)
        if known is not None:
            self.num_hits += 1
            return replace(known, queue_seconds=0.0)
        shared = self._running.get(timed)
        if shared is None:
            work = self._verify_and_keep(key, timed, lane, candidate, deadline_seconds)
            shared = _SharedVerification(asyncio.get_running_loop().create_task(work))
            self._running[timed] = shared
            shared.task.add_done_callback(lambda _: self._forget(timed, shared))
        else:
            self.num_hits += 1
        shared.num_waiters += 1
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.num_waiters -= 1
            if shared.num_waiters == 0 and not shared.task.done():
                shared.task.cancel()
                self._forget(timed, shared)

    async def appeal(self, candidate: Candidate, *, deadline_seconds: float) -> Verdict:
        """Judge a refused candidate again, with other workers and larger limits.

        The cache is bypassed. A proof is ``at_limit``, and ``verify`` returns it from now on; any
        other verdict changes nothing. Raises ``UsageError`` if this verifier was opened without
        appeals.
        """
        if self._appeals is None:
            raise UsageError("this verifier hears no appeals; open it with appeal_factor")
        factor = self._appeals.factor
        verdict = await self._appeals.verifier.verify(
            candidate, deadline_seconds=factor * deadline_seconds
        )
        if not verdict.proved:
            return verdict
        verdict = replace(verdict, at_limit=True)
        self._keep(self.make_key(candidate), verdict)
        return verdict

    async def aclose(self) -> None:
        """Cancel running verifications; close the inner verifier, the appeals and the file."""
        await cancel_all([shared.task for shared in self._running.values()])
        await self.inner.aclose()
        if self._appeals is not None:
            await self._appeals.verifier.aclose()
        if self._database is not None:
            self._database.close()
            self._database = None

    def _forget(self, key: str, shared: _SharedVerification) -> None:
        if self._running.get(key) is shared:
            del self._running[key]

    async def _verify_and_keep(
        self, key: str, timed: str, lane: Lane, candidate: Candidate, deadline_seconds: float
    ) -> Verdict:
        verdict = await self.inner.verify(candidate, deadline_seconds=deadline_seconds, lane=lane)
        if verdict.status.judged:
            self._keep(timed if verdict.cause else key, verdict)
        return verdict

    def _find(self, key: str) -> Verdict | None:
        known = self._memory.get(key)
        if known is not None or self._database is None:
            return known
        with _named_errors(self._path):
            row = self._database.execute(
                "SELECT verdict, checksum FROM verdicts WHERE key = ?", (key,)
            ).fetchone()
        if row is None:
            return None
        verdict = _read_row(key, *row)
        if verdict is not None:
            self._remember(key, verdict)
            return verdict
        with _named_errors(self._path), self._database:
            self._database.execute("DELETE FROM verdicts WHERE key = ?", (key,))
        self.num_dropped += 1
        warnings.warn(
            f"the verdict cache {self._path} held a damaged row ({self.num_dropped} by now); it "
            "was dropped, and its candidate is verified anew",
            RuntimeWarning,
            stacklevel=2,
        )
        return None

    def _keep(self, key: str, verdict: Verdict) -> None:
        """The first verdict stays in the file, unless an appeal overturned it."""
        self._remember(key, verdict)
        if self._database is not None:
            text = json.dumps(asdict(verdict))
            rule = "REPLACE" if was_overturned(verdict) else "IGNORE"
            with _named_errors(self._path), self._database:
                self._database.execute(
                    f"INSERT OR {rule} INTO verdicts (key, verdict, checksum) VALUES (?, ?, ?)",
                    (key, text, _make_checksum(key, text)),
                )

    def _remember(self, key: str, verdict: Verdict) -> None:
        texts = [diagnostic.message for diagnostic in verdict.diagnostics]
        texts += [*verdict.goals, *(state for _, _, state in verdict.states)]
        if sum(map(len, texts)) > _MOST_CHARACTERS:
            return
        if len(self._memory) >= _MAX_IN_MEMORY:
            del self._memory[next(iter(self._memory))]
        self._memory[key] = verdict


def was_overturned(verdict: Verdict) -> bool:
    """True for a proof that was first refused and then found by an appeal."""
    return verdict.proved and verdict.at_limit


def open_database(path: Path) -> sqlite3.Connection:
    """The file of verdicts, made where it is missing. Raises ``UsageError``: it cannot be used."""
    with _named_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # One process at a time: whose file it is, and the switch to WAL, are several statements.
        with path.with_name(path.name + "-lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            database = sqlite3.connect(path, timeout=_BUSY_SECONDS)
            try:
                _prepare_database(database)
            except BaseException:
                database.close()
                raise
    return database


def _prepare_database(database: sqlite3.Connection) -> None:
    (owner,) = database.execute("PRAGMA application_id").fetchone()
    (schema,) = database.execute("PRAGMA user_version").fetchone()
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    if owner != _APPLICATION_ID and tables:
        raise sqlite3.DatabaseError("it belongs to another program")
    if owner == _APPLICATION_ID and schema > _SCHEMA:
        raise sqlite3.DatabaseError("a newer version of this program wrote it")
    # A row of bytes that are no text must reach the check of rows, and not fail here.
    database.text_factory = lambda raw: raw.decode("utf-8", "replace")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    with database:
        database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        if schema < _SCHEMA:
            database.execute("DROP TABLE IF EXISTS verdicts")
            database.execute(f"PRAGMA user_version = {_SCHEMA}")
        database.execute(
            "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, verdict TEXT NOT NULL, "
            "checksum TEXT NOT NULL) WITHOUT ROWID"
        )


@contextlib.contextmanager
def _named_errors(path: Path | None) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise UsageError(
            f"the verdict cache {path} cannot be used ({error}); delete it, with its -wal and "
            "-shm files, to start an empty one, or name another place (pool.cache, or "
            "XDG_CACHE_HOME; for verify --no-cache)"
        ) from error


def make_salt(toolchain: str, limits: Limits, audit_version: int) -> str:
    """All that determines a Dafny verdict besides the candidate, as one text."""
    parts = (toolchain, limits.rlimit, limits.time_limit_seconds, audit_version)
    return "\x00".join(map(str, parts))


def _make_checksum(key: str, text: str) -> str:
    """A checksum over text and key, so that a verdict cannot be moved to another candidate."""
    return hashlib.sha256(f"{key}\x00{text}".encode()).hexdigest()


def _read_row(key: str, text: object, checksum: object) -> Verdict | None:
    """The verdict of a row, or None if anything about it is wrong."""
    if not isinstance(text, str) or checksum != _make_checksum(key, text):
        return None
    try:
        raw = json.loads(text)
        verdict = _VERDICT.validate_python(raw)
    except (ValueError, RecursionError, RecordError):
        return None
    whole = {field.name for field in fields(Verdict)} <= raw.keys()
    return verdict if whole and verdict.status.judged else None
