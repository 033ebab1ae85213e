"""The cache of verdicts: one verification per candidate, in one process and across two."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from proverrl.errors import ProblemError, UsageError, VerifierError
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verifier import cache as cache_module
from proverrl.verifier.base import DEFAULT_LANE, Lane, LanedVerifier, Limits
from proverrl.verifier.cache import CachedVerifier, _make_checksum, make_salt
from tests import ROOT
from tests.fake_verifier import FakeVerifier
from tests.instant_worker import InstantPool, ask

ERROR = Diagnostic("error", "wrong", 3, 4, body_line=1)


def make_candidate(body: str) -> Candidate:
    return Candidate(Problem("p", "dafny", "statements", "", f"lemma L() {{ {HOLE} }}"), body)


def judge(candidate: Candidate) -> Verdict | Status:
    if candidate.body == "good":
        return Status.PROVED
    if candidate.body == "slow":
        return Status.TIMEOUT
    return Verdict(Status.REJECTED, (ERROR,), seconds=0.25, queue_seconds=9.0, checks=("fake",))


def run(
    work: Callable[[CachedVerifier, FakeVerifier], Awaitable[None]],
    path: Path | None = None,
    *,
    limits: Limits | None = None,
    audit_version: int = 0,
    fake: FakeVerifier | None = None,
) -> None:
    async def main() -> None:
        inner = fake or FakeVerifier(judge, delay_seconds=0.02)
        cached = CachedVerifier(
            inner, path, identify=lambda _: make_salt("fake", limits or Limits(), audit_version)
        )
        try:
            await work(cached, inner)
        finally:
            await cached.aclose()

    asyncio.run(main())


async def start_work(inner: FakeVerifier) -> None:
    """Let the callers reach the fake, which cannot have finished yet."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert inner.num_calls == 1


def test_both_are_verifiers() -> None:
    fake = FakeVerifier(judge)
    assert isinstance(fake, LanedVerifier)
    assert isinstance(CachedVerifier(fake, None, identify=fake.identify), LanedVerifier)


def test_a_verdict_is_asked_for_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "verdicts.sqlite"

    async def first(cached: CachedVerifier, inner: FakeVerifier) -> None:
        for _ in range(3):
            verdict = await cached.verify(make_candidate("bad"), deadline_seconds=5)
            assert verdict.diagnostics == (ERROR,)
        assert (inner.num_calls, cached.num_hits) == (1, 2)

    async def second(cached: CachedVerifier, inner: FakeVerifier) -> None:
        verdict = await cached.verify(make_candidate("bad"), deadline_seconds=5)
        assert verdict == Verdict(Status.REJECTED, (ERROR,), seconds=0.25, checks=("fake",))
        assert (inner.num_calls, cached.num_hits) == (0, 1)

    run(first, path)
    run(second, path)


def test_the_states_of_a_verdict_are_kept(tmp_path: Path) -> None:
    found = Verdict(Status.REJECTED, states=((1, 0, "⊢ a"), (2, 4, "no goals")))

    async def ask(cached: CachedVerifier, inner: FakeVerifier) -> None:
        verdict = await cached.verify(make_candidate("bad"), deadline_seconds=5)
        assert verdict.states == found.states

    for _ in range(2):
        run(ask, tmp_path / "verdicts.sqlite", fake=FakeVerifier(lambda _: found))


def test_the_cause_of_a_verdict_is_kept(tmp_path: Path) -> None:
    found = Verdict(Status.REJECTED, (ERROR,), cause="died")

    async def ask(cached: CachedVerifier, inner: FakeVerifier) -> None:
        verdict = await cached.verify(make_candidate("bad"), deadline_seconds=5)
        assert (verdict.cause, verdict.fatal) == ("died", True)

    for num_calls in (1, 0):
        fake = FakeVerifier(lambda _: found)
        run(ask, tmp_path / "verdicts.sqlite", fake=fake)
        assert fake.num_calls == num_calls


def test_a_verdict_that_says_too_much_is_not_kept_in_memory() -> None:
    long = Verdict(Status.REJECTED, (Diagnostic("error", "x" * 40_000),) * 2)

    async def ask(cached: CachedVerifier, inner: FakeVerifier) -> None:
        for _ in range(2):
            await cached.verify(make_candidate("bad"), deadline_seconds=5)
        assert inner.num_calls == 2

    run(ask, fake=FakeVerifier(lambda _: long))


def test_what_depends_on_the_deadline_holds_for_it_alone(tmp_path: Path) -> None:
    """One client's short deadline must not refuse another's proof."""

    class Slow(FakeVerifier):
        async def verify(
            self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
        ) -> Verdict:
            self.calls.append(candidate)
            if deadline_seconds < 1:
                return Verdict(Status.REJECTED, (ERROR,), cause="stalled")
            return self._verdict(Status.PROVED)

    async def ask(cached: CachedVerifier, inner: FakeVerifier) -> None:
        for seconds, status in ((0.2, "rejected"), (0.2, "rejected"), (60, "proved")):
            verdict = await cached.verify(make_candidate("good"), deadline_seconds=seconds)
            assert verdict.status == status
        assert inner.num_calls == 2

    run(ask, tmp_path / "verdicts.sqlite", fake=Slow(judge))

    async def ask_at_once(cached: CachedVerifier, inner: FakeVerifier) -> None:
        verdicts = await asyncio.gather(
            cached.verify(make_candidate("bad"), deadline_seconds=0.01),
            cached.verify(make_candidate("bad"), deadline_seconds=60),
        )
        assert [verdict.status.judged for verdict in verdicts] == [False, True]

    run(ask_at_once, None, fake=FakeVerifier(judge, delay_seconds=0.02))


def test_limits_and_audit_and_body_are_part_of_the_key(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.sqlite"

    async def asks_anew(cached: CachedVerifier, inner: FakeVerifier) -> None:
        await cached.verify(make_candidate("bad"), deadline_seconds=5)
        assert inner.num_calls == 1

    run(asks_anew, path)
    run(asks_anew, path, limits=Limits(rlimit=1_000_000))
    run(asks_anew, path, audit_version=1)
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM verdicts").fetchone() == (3,)


def test_what_was_not_judged_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.sqlite"

    async def work(cached: CachedVerifier, inner: FakeVerifier) -> None:
        for _ in range(2):
            verdict = await cached.verify(make_candidate("slow"), deadline_seconds=5)
            assert verdict.status is Status.TIMEOUT
        assert inner.num_calls == 2

    run(work, path)
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM verdicts").fetchone() == (0,)


def test_callers_share_a_verification() -> None:
    async def work(cached: CachedVerifier, inner: FakeVerifier) -> None:
        asks = [cached.verify(make_candidate("good"), deadline_seconds=5) for _ in range(8)]
        verdicts = await asyncio.gather(*asks)
        assert [v.status for v in verdicts] == [Status.PROVED] * 8
        assert (inner.num_calls, cached.num_hits) == (1, 7)

    run(work)


def test_a_cancelled_first_caller_does_not_poison_the_others() -> None:
    async def work(cached: CachedVerifier, inner: FakeVerifier) -> None:
        ask = cached.verify
        first = asyncio.create_task(ask(make_candidate("good"), deadline_seconds=5))
        second = asyncio.create_task(ask(make_candidate("good"), deadline_seconds=5))
        await start_work(inner)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await second).status is Status.PROVED
        assert (inner.num_calls, inner.num_cancelled) == (1, 0)

    run(work)


def test_the_last_caller_to_leave_cancels_the_work() -> None:
    async def work(cached: CachedVerifier, inner: FakeVerifier) -> None:
        asks = [
            asyncio.create_task(cached.verify(make_candidate("good"), deadline_seconds=5))
            for _ in range(2)
        ]
        await start_work(inner)
        for task in asks:
            task.cancel()
        await asyncio.gather(*asks, return_exceptions=True)
        again = await cached.verify(make_candidate("good"), deadline_seconds=5)
        assert again.status is Status.PROVED
        assert (inner.num_calls, inner.num_cancelled) == (2, 1)

    run(work)


def test_an_error_reaches_every_caller_and_is_not_kept() -> None:
    fake = FakeVerifier(judge, delay_seconds=0.01, script={0: ProblemError("no entries")})

    async def work(cached: CachedVerifier, inner: FakeVerifier) -> None:
        asks = [cached.verify(make_candidate("good"), deadline_seconds=5) for _ in range(3)]
        outcomes = await asyncio.gather(*asks, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["no entries"] * 3
        again = await cached.verify(make_candidate("good"), deadline_seconds=5)
        assert again.status is Status.PROVED
        assert inner.num_calls == 2

    run(work, fake=fake)


def test_the_fake_can_time_out_and_be_closed() -> None:
    async def main() -> None:
        fake = FakeVerifier(judge, delay_seconds=0.05, script={1: Status.CRASHED})
        late = await fake.verify(make_candidate("good"), deadline_seconds=0.01)
        crashed = await fake.verify(make_candidate("good"), deadline_seconds=5)
        assert (late.status, crashed.status) == (Status.TIMEOUT, Status.CRASHED)
        await fake.aclose()
        with pytest.raises(VerifierError, match="closed"):
            await fake.verify(make_candidate("good"), deadline_seconds=5)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["text", "other program", "newer", "folder"])
def test_an_unusable_file_is_named_with_the_remedy(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "verdicts.sqlite"
    if kind == "text":
        path.write_text("this is not a database at all\n" * 100)
    elif kind == "other program":
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE songs (title TEXT)")
    elif kind == "newer":
        run(ask_for_bad, path)
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA user_version = 99")
    else:
        path.mkdir()

    with pytest.raises(
        UsageError, match=r"verdicts\.sqlite cannot be used .*delete it.*--no-cache"
    ):
        run(ask_for_bad, path)


async def ask_for_bad(cached: CachedVerifier, _: FakeVerifier) -> None:
    verdict = await cached.verify(make_candidate("bad"), deadline_seconds=5)
    assert verdict.status is Status.REJECTED


def damage(path: Path, kind: str) -> None:
    """Change the only row; where the checksum is made to fit, the content is what is wrong."""
    with sqlite3.connect(path) as database:
        ((key, text),) = database.execute("SELECT key, verdict FROM verdicts").fetchall()
        row = json.loads(text)
        changed: str | bytes = {
            "not JSON": text[:-5],
            "flipped": text.replace("rejected", "proved"),
            "bytes": b"\xff\xfe",
            "field missing": json.dumps({k: v for k, v in row.items() if k != "axioms"}),
            "wrong type": json.dumps(row | {"seconds": "soon"}),
            "not judged": json.dumps(row | {"status": "timeout"}),
            "unknown status": json.dumps(row | {"status": "perfect"}),
            "proved with an error": json.dumps(row | {"status": "proved"}),
            "not an object": "[]",
            "other row": text,
        }[kind]
        if kind == "other row":
            # A good verdict of another candidate, moved here with its own checksum.
            checksum = _make_checksum("another key", text)
        elif kind in ("flipped", "bytes", "not JSON"):
            ((checksum,),) = database.execute("SELECT checksum FROM verdicts").fetchall()
        else:
            assert isinstance(changed, str)
            checksum = _make_checksum(key, changed)
        database.execute("UPDATE verdicts SET verdict = ?, checksum = ?", (changed, checksum))


@pytest.mark.parametrize(
    "kind",
    [
        "not JSON",
        "flipped",
        "bytes",
        "field missing",
        "wrong type",
        "not judged",
        "unknown status",
        "proved with an error",
        "not an object",
        "other row",
    ],
)
def test_a_damaged_row_is_dropped_and_never_believed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "verdicts.sqlite"
    run(ask_for_bad, path)
    damage(path, kind)

    async def asks_anew(cached: CachedVerifier, inner: FakeVerifier) -> None:
        with pytest.warns(RuntimeWarning, match=r"held a damaged row \(1 by now\)"):
            await ask_for_bad(cached, inner)
        assert (inner.num_calls, cached.num_dropped, cached.num_hits) == (1, 1, 0)

    async def knows(cached: CachedVerifier, inner: FakeVerifier) -> None:
        await ask_for_bad(cached, inner)
        assert (inner.num_calls, cached.num_dropped, cached.num_hits) == (0, 0, 1)

    run(asks_anew, path)
    run(knows, path)


def test_a_file_of_the_first_version_is_emptied(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.sqlite"
    run(ask_for_bad, path)
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE verdicts")
        database.execute("CREATE TABLE verdicts (key TEXT PRIMARY KEY, verdict TEXT NOT NULL)")
        database.execute("INSERT INTO verdicts VALUES ('k', '{}')")
        database.execute("PRAGMA user_version = 0")

    async def asks_anew(cached: CachedVerifier, inner: FakeVerifier) -> None:
        await ask_for_bad(cached, inner)
        assert (inner.num_calls, cached.num_dropped) == (1, 0)

    run(asks_anew, path)


def test_a_lane_reaches_the_pool_below() -> None:
    async def main() -> None:
        instant = InstantPool()
        cached = CachedVerifier(instant.pool, None, identify=lambda _: "t")
        gate = asyncio.create_task(cached.verify(ask("gate", "wait"), deadline_seconds=5))
        await asyncio.sleep(0)
        asks = [
            cached.verify(ask(f"a{i}", str(i)), deadline_seconds=5, lane=Lane("one"))
            for i in range(3)
        ]
        asks += [cached.verify(ask("b", "b"), deadline_seconds=5, lane=Lane("two"))]
        tasks = [asyncio.create_task(work) for work in asks]
        await asyncio.sleep(0.01)
        instant.gate.set()
        await asyncio.gather(gate, *tasks)
        assert instant.log == ["gate", "a0", "b", "a1", "a2"]
        stats = cached.stats()
        assert stats is not None
        assert stats.judged == 5
        await cached.aclose()

    asyncio.run(main())


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_MAX_IN_MEMORY", 2)

    async def work(cached: CachedVerifier, inner: FakeVerifier) -> None:
        for body in ("bad 1", "bad 2", "bad 3", "bad 3", "bad 2", "bad 1"):
            await cached.verify(make_candidate(body), deadline_seconds=5)
        assert (inner.num_calls, cached.num_hits) == (4, 2)

    run(work)


WRITER = """
import asyncio, sys
from pathlib import Path
from tests.verifier.test_verify_cache import judge, make_candidate
from proverrl.verifier.base import Limits
from proverrl.verifier.cache import CachedVerifier, make_salt
from tests.fake_verifier import FakeVerifier
async def main():
    inner = FakeVerifier(judge)
    salt = make_salt("fake", Limits(), 0)
    cached = CachedVerifier(inner, Path(sys.argv[1]), identify=lambda _: salt)
    for number in range(200):
        verdict = await cached.verify(make_candidate(f"bad {number}"), deadline_seconds=5)
        assert verdict.status == "rejected"
    await cached.aclose()
    print(inner.num_calls + cached.num_hits)
asyncio.run(main())
"""


@pytest.mark.slow
def test_two_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.sqlite"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for writer in writers:
        out, err = writer.communicate(timeout=120)
        assert (writer.returncode, err, out) == (0, "", "200\n")
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM verdicts").fetchone() == (200,)
