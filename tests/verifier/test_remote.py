"""Verifiers on other machines: servers that die, fill up, disagree or answer nonsense."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import httpx2
import pytest

from proverrl import __version__
from proverrl.config import Config
from proverrl.errors import (
    CanaryError,
    ProblemError,
    ToolchainError,
    UsageError,
    VerifierError,
)
from proverrl.lang import find_language, list_names
from proverrl.lang.base import BackendOptions
from proverrl.lang.open import open_configured, open_router, open_verifier
from proverrl.types import HOLE, Candidate, Diagnostic, Obligations, Problem, Stage, Status, Verdict
from proverrl.verifier import remote, remote_server
from proverrl.verifier.base import Limits
from proverrl.verifier.cache import CachedVerifier
from proverrl.verifier.remote import RemoteVerifier
from proverrl.verifier.remote_server import LanguageAbout
from proverrl.verifier.router import RoutedVerifier
from tests import ROOT
from tests.fake_verifier import FakeVerifier
from tests.instant_worker import ask
from tests.serve_world import ABOUT, SETTINGS, in_loop, judge, listen, wait_for

ABOUT_ROW = {
    "version": __version__,
    "workers": 2,
    "languages": {name: asdict(about) for name, about in ABOUT.items()},
}
FOUR = replace(SETTINGS, options=BackendOptions(workers=4, limits=Limits()))


async def connect(*ports: int, **how: Any) -> RemoteVerifier:
    # What a server judges is asked in passing, and the server is in this very loop.
    urls = [f"http://127.0.0.1:{port}/" for port in ports]
    return await asyncio.to_thread(RemoteVerifier, urls, **how)


async def judge_all(verifier: RemoteVerifier, num: int) -> list[Verdict]:
    asked = [verifier.verify(ask("p", f"good {n}"), deadline_seconds=9.0) for n in range(num)]
    return await asyncio.gather(*asked)


@in_loop
async def test_a_verdict_arrives_whole() -> None:
    full = Verdict(
        Status.REJECTED,
        (Diagnostic("error", "no \u22a2 no", 3, 1, 3, 9, 2, 1), Diagnostic("info", "")),
        goals=("\u22a2 p",),
        axioms=("propext",),
        obligations=(Obligations("p", 3, 2),),
        seconds=0.125,
        header_seconds=0.25,
        queue_seconds=0.5,
        toolchain="fake 1",
        stage=Stage.READING,
        rule="a rule",
        believed=(("assume", 1), ("axiom", 2)),
        at_limit=True,
        checks=("audit",),
        cause="died",
        states=((1, 0, "\u22a2 p"),),
    )
    async with listen(SETTINGS, FakeVerifier(lambda _: full)) as port:
        verifier = await connect(port)
        problem = Problem("p", "lean", "tactics", "import A\n", "theorem x : p := by\n  /*{HOLE}*/")
        found = await verifier.verify(
            Candidate(problem, "simp", "def a := 1\n"), deadline_seconds=9
        )
        await verifier.aclose()
    assert found == full


@in_loop
async def test_a_server_that_dies_costs_no_verdict() -> None:
    first, second = (FakeVerifier(judge, delay_seconds=0.02) for _ in range(2))
    async with listen(FOUR, second) as kept:
        async with listen(FOUR, first) as dying:
            verifier = await connect(dying, kept, sleep=lambda _: asyncio.sleep(0.01))
            half = asyncio.ensure_future(judge_all(verifier, 100))
            await wait_for(lambda: first.num_calls > 10)
        # It is gone, with whatever it had taken in answered or not.
        verdicts = [*await half, *await judge_all(verifier, 120)]
        await verifier.aclose()
    assert [verdict.status for verdict in verdicts] == [Status.PROVED] * 220
    assert first.num_calls > 10
    assert second.num_calls >= 60


class Held(FakeVerifier):
    """Answers nothing before its gate is open."""

    def __init__(self) -> None:
        super().__init__(judge)
        self.gate = asyncio.Event()
        self.num_held = 0

    async def verify(self, candidate: Candidate, **how: Any) -> Verdict:
        self.num_held += 1
        await self.gate.wait()
        return await super().verify(candidate, **how)


@in_loop
async def test_a_server_that_joins_gets_of_what_waits() -> None:
    """No server is given more than it can begin soon: 64 candidates, or twice its workers."""
    first, second = Held(), FakeVerifier(judge)
    async with listen(FOUR, first) as one, listen(FOUR, second) as two:
        verifier = await connect(one)
        asked = asyncio.ensure_future(judge_all(verifier, 200))
        await wait_for(lambda: verifier.num_asked == 64)
        assert verifier.num_open == 200
        await asyncio.to_thread(verifier.add, f"http://127.0.0.1:{two}")
        extra = await verifier.verify(ask("p", "good one more"), deadline_seconds=9)
        await wait_for(lambda: second.num_calls == 137)
        first.gate.set()
        verdicts = [*await asked, extra]
        await verifier.aclose()
    assert [verdict.status for verdict in verdicts] == [Status.PROVED] * 201
    assert (first.num_calls, second.num_calls) == (64, 137)


@in_loop
async def test_what_crashes_at_one_server_is_asked_of_another() -> None:
    """A server whose checker is gone answers fast, and must not get the whole run."""
    broken, sound = FakeVerifier(lambda _: Status.CRASHED), FakeVerifier(judge)
    async with listen(FOUR, broken) as one, listen(FOUR, sound) as two:
        verifier = await connect(one, two, sleep=lambda _: asyncio.sleep(0.01))
        verdicts = await judge_all(verifier, 100)
        await verifier.aclose()
    assert [verdict.status for verdict in verdicts] == [Status.PROVED] * 100
    only = FakeVerifier(lambda _: Status.CRASHED)
    async with listen(FOUR, only) as port:
        verifier = await connect(port, sleep=lambda _: asyncio.sleep(0.01))
        (verdict,) = await judge_all(verifier, 1)
        await verifier.aclose()
    assert (verdict.status, only.num_calls) == (Status.CRASHED, 3)


@pytest.mark.parametrize("key", ["two words", "schlüssel"])
def test_a_key_that_is_none_is_not_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVERRL_API_KEY", key)
    with pytest.raises(UsageError, match="PROVERRL_API_KEY holds no key") as caught:
        open_verifier(servers=("http://127.0.0.1:9",))
    assert key not in str(caught.value)


@in_loop
async def test_a_server_that_ends_in_order_answers_what_it_took() -> None:
    """It takes no connection any more, so that a probe is refused: its answers still come."""
    fake = Held()
    leaving = asyncio.Event()

    async def hold() -> None:
        async with listen(FOUR, fake) as port:
            ports.append(port)
            await leaving.wait()

    ports: list[int] = []
    serving = asyncio.ensure_future(hold())
    await wait_for(lambda: bool(ports))
    verifier = await connect(*ports, probe_seconds=0.05, patience_seconds=1.0)
    asked = asyncio.ensure_future(judge_all(verifier, 3))
    # What is on its way is not yet taken.
    await wait_for(lambda: fake.num_held == 3)
    leaving.set()
    (server,) = verifier._servers
    probes = 0
    while probes < 5:
        probes += await server._probe()
        await asyncio.sleep(0.02)
    fake.gate.set()
    assert [verdict.status for verdict in await asked] == [Status.PROVED] * 3
    await serving
    await verifier.aclose()
    assert fake.num_calls == 3


@in_loop
async def test_a_full_server_is_asked_again() -> None:
    fake = FakeVerifier(judge, delay_seconds=0.001)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0.005)

    async with listen(replace(SETTINGS, room=4), fake) as port:
        verifier = await connect(port, sleep=sleep)
        verdicts = await judge_all(verifier, 8)
        await verifier.aclose()
    assert [verdict.status for verdict in verdicts] == [Status.PROVED] * 8
    assert fake.num_calls == 8
    assert waits


@in_loop
async def test_a_caller_that_gives_up_cancels_the_work() -> None:
    fake = FakeVerifier(judge, delay_seconds=60)
    async with listen(SETTINGS, fake) as port:
        verifier = await connect(port)
        asked = asyncio.ensure_future(verifier.verify(ask("p", "good"), deadline_seconds=90))
        await wait_for(lambda: fake.num_calls == 1)
        asked.cancel()
        await wait_for(lambda: fake.num_cancelled == 1)
        await verifier.aclose()
        with pytest.raises(VerifierError, match="closed"):
            await verifier.verify(ask("p", "good"), deadline_seconds=90)


@in_loop
async def test_what_a_server_cannot_judge_is_raised_as_here() -> None:
    fake = FakeVerifier(judge, script={0: ProblemError("no"), 1: ToolchainError("gone")})
    async with listen(SETTINGS, fake) as port:
        verifier = await connect(port)
        with pytest.raises(ProblemError, match="no"):
            await verifier.verify(ask("p", "1"), deadline_seconds=9)
        with pytest.raises(ToolchainError, match="cannot be judged"):
            await verifier.verify(ask("p", "2"), deadline_seconds=9)
        backend = verifier.open_backend("lean", rlimit=3_000_000, states=False)
        assert backend.toolchain == "fake"
        assert backend.salt == f"said by http://127.0.0.1:{port}\0fake"
        with pytest.raises(UsageError, match="--rlimit"):
            verifier.open_backend("lean", rlimit=1_000_000, states=False)
        with pytest.raises(UsageError, match="--trace-states"):
            verifier.open_backend("lean", rlimit=3_000_000, states=True)
        with pytest.raises(ToolchainError, match="dafny, lean, and not coq"):
            verifier.open_backend("coq", rlimit=3_000_000, states=False)
        await verifier.aclose()


@in_loop
async def test_keys_and_servers_that_judge_otherwise() -> None:
    key = "k" * 32
    other = {"dafny": LanguageAbout("fake 2", "fake 2", 3_000_000, False)}
    fake = FakeVerifier(judge)
    async with (
        listen(replace(SETTINGS, keys=(key,)), fake) as locked,
        listen(SETTINGS, FakeVerifier(judge), other) as differs,
    ):
        with pytest.raises(
            UsageError, match="asks for a key, or for another one; set PROVERRL_API"
        ):
            await connect(locked)
        with pytest.raises(
            UsageError, match=r"judges otherwise than .* \(toolchain of dafny: fake 2"
        ):
            await connect(locked, differs, key=key)
        verifier = await connect(locked, key=key)
        assert (await judge_all(verifier, 1))[0].proved
        await verifier.aclose()


def answer_with(rows: Any, code: int = 200) -> httpx2.MockTransport:
    return httpx2.MockTransport(lambda _: httpx2.Response(code, json=rows))


def connect_to(
    rows: Any, code: int = 200, servers: Sequence[str] = ("http://s",), **how: Any
) -> RemoteVerifier:
    about = answer_with(ABOUT_ROW)
    return RemoteVerifier(servers, transport=answer_with(rows, code), sync_transport=about, **how)


@pytest.mark.parametrize(
    ("rows", "code", "error"),
    [
        ({"index": 0, "status": "proved", "checks": ["a"], "key": "0"}, 200, VerifierError),
        ({"index": 0, "status": "proved", "key": ""}, 200, VerifierError),
        ({"index": 0, "status": "fine"}, 200, VerifierError),
        ({"index": 1, "status": "proved"}, 200, UsageError),
        ({"results": []}, 200, UsageError),
        ({"ok": True}, 200, UsageError),
        ([1], 200, UsageError),
        ({"detail": "Invalid API key"}, 401, UsageError),
        ({"detail": "?"}, 404, UsageError),
    ],
)
def test_answers_that_are_no_verdict(rows: Any, code: int, error: type[Exception]) -> None:
    verifier = connect_to(rows, code)
    with pytest.raises(error):
        asyncio.run(verifier.verify(ask("p", "good"), deadline_seconds=9))


def test_a_server_that_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        waits.append(seconds)

    for module in (remote, remote_server):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    verifier = connect_to({}, 503, patience_seconds=2.0, sleep=sleep)
    with pytest.raises(VerifierError, match=r"no server judged 'p' within 2 s.*503"):
        asyncio.run(verifier.verify(ask("p", "good"), deadline_seconds=9))
    # Rests of 0.5, 1 and 2 seconds, in naps of at most one.
    assert waits == [0.5, 1.0, 1.0, 1.0]
    assert not caplog.records
    waits.clear()
    patient = connect_to({}, 503, patience_seconds=60.0, sleep=sleep)
    with pytest.raises(VerifierError, match=r"within 60 s"):
        asyncio.run(patient.verify(ask("p", "good"), deadline_seconds=9))
    # Once, although it goes on for a minute.
    (record,) = caplog.records
    assert record.getMessage() == (
        "no server takes anything (http://s: status 503: {}); a candidate is kept for 60 s"
    )


def test_a_burst_of_failures_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(remote_server, "time", SimpleNamespace(monotonic=lambda: now))
    verifier = connect_to({}, 503, servers=("http://a", "http://b"))
    first, second = verifier._servers
    for _ in range(3000):
        first.fail()
    assert first.num_failures == 1
    assert first.rests_until == now + 0.5
    # Many in a row, with a rest between them, double it up to its bound.
    for _ in range(3000):
        second.rests_until = 0.0
        second.fail()
    assert second.rests_until == now + 30.0
    assert verifier._find_rest(now) == 0.5
    assert verifier._find_rest(now + 1.0) == 0.0
    first.fail(1e9)
    assert first.rests_until == now + 60.0
    assert verifier._find_rest(now + 1.0) == 29.0


@pytest.mark.dafny
def test_what_a_server_said_is_believed_of_nobody_else(tmp_path: Path) -> None:
    """A server may say that it judges as this machine does, and lie about a verdict."""
    false = Candidate(Problem("f", "dafny", "file", "", HOLE), "lemma L() ensures 1 == 2 {}\n")
    cache = tmp_path / "verdicts.sqlite"
    own = open_router(BackendOptions(workers=1, limits=Limits())).identify(false)
    toolchain = own.split("\0")[0]
    about = {"dafny": asdict(LanguageAbout(toolchain, own, 3_000_000, states=False))}
    told = answer_with({"version": __version__, "workers": 1, "languages": about})
    row = {"index": 0, "status": "proved", "checks": ["audit"], "key": false.key}
    liar = RemoteVerifier(("http://s",), transport=answer_with(row), sync_transport=told)
    backend = liar.open_backend("dafny", rlimit=None, states=False)
    assert backend.salt != own
    router = RoutedVerifier({"dafny": lambda: backend}, lambda candidate: candidate)
    believing = CachedVerifier(router, cache, identify=router.identify)
    assert asyncio.run(believing.verify(false, deadline_seconds=9)).proved

    async def judge_here() -> Status:
        verifier = open_verifier(workers=1, cache_path=cache)
        try:
            return (await verifier.verify(false, deadline_seconds=60)).status
        finally:
            await verifier.aclose()

    assert asyncio.run(judge_here()) is Status.REJECTED


@pytest.mark.parametrize(
    "line", [b'{"index": 0, "seconds": NaN}', b'{"index": 0, "a": ' + b"[" * 100_000]
)
def test_a_line_that_is_no_strict_json_is_none_of_ours(line: bytes) -> None:
    with pytest.raises(UsageError, match="did not answer as a server of proverrl does"):
        remote_server._take_line("http://s", [], line)


def test_what_is_confirmed_matters_where_something_is() -> None:
    sampled = LanguageAbout("Lean 4", "c", 1, states=False, confirm="sample:0.05")
    languages = {"lean": sampled, "dafny": LanguageAbout("Dafny", "c", 1, states=False)}
    rows = {name: asdict(about) for name, about in languages.items()}
    transport = answer_with({"version": __version__, "workers": 1, "languages": rows})
    verifier = RemoteVerifier(("http://s",), sync_transport=transport)
    assert verifier.open_backend("dafny", rlimit=None, states=False, confirm="proved")
    assert verifier.open_backend("lean", rlimit=None, states=False, confirm="sample:0.05")
    with pytest.raises(
        UsageError, match=r"--confirm proved, or ask for what it does \(--confirm sa"
    ):
        verifier.open_backend("lean", rlimit=None, states=False, confirm="proved")
    confirmed = [name for name in list_names() if find_language(name).confirms]
    assert confirmed == ["dafny", "lean"]


@pytest.mark.parametrize("server", ["127.0.0.1:8000", "ftp://s", ""])
def test_urls_that_are_none(server: str) -> None:
    with pytest.raises(UsageError, match="no URL"):
        RemoteVerifier([server])


def test_a_run_is_told_what_servers_cannot_do() -> None:
    with pytest.raises(UsageError, match=r"appeal\.rate = 0"):
        open_verifier(servers=("http://127.0.0.1:9",), appeal_factor=2.0)
    pool = Config.model_validate({"pool": {"servers": ["http://127.0.0.1:9"]}}).pool
    with pytest.raises(UsageError, match="proverrl serve"):
        open_configured(Config(pool=pool), seed=0, problems=[ask("p").problem])
    router = open_router(
        BackendOptions(workers=1, limits=Limits(), servers=("http://127.0.0.1:9",))
    )
    with pytest.raises(UsageError, match=r"127\.0\.0\.1:9 cannot be asked"):
        router.open_backend("dafny")


@pytest.mark.dafny
@pytest.mark.slow
def test_a_served_dafny_judges_as_one_here_and_ends_in_order(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "proverrl"]
    env = {**os.environ, "PROVERRL_LEAN": "", "PATH": "/usr/bin:/bin"}
    with ExitStack() as stack:
        server = subprocess.Popen(
            [*command, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env
        )
        stack.callback(server.wait)
        stack.callback(server.kill)
        assert server.stderr is not None
        said = []
        for line in server.stderr:
            said.append(line)
            if "listening" in line:
                break
        url = re.findall(r"http://\S+(?=,)", said[-1])[0]
        rows = {}
        for name, more in (("here", []), ("there", ["--server", url])):
            out = tmp_path / f"{name}.jsonl"
            subprocess.run(
                [*command, "verify", "examples/bodies.jsonl", "--out", str(out), *more],
                cwd=ROOT,
                check=False,
                env=env,
            )
            rows[name] = [json.loads(line) for line in out.read_text().splitlines()]
        # The checksum is over the times too; the conditions name the server.
        clocks = ("seconds", "header_seconds", "queue_seconds", "sha256", "conditions")
        assert [{k: v for k, v in row.items() if k not in clocks} for row in rows["there"]] == [
            {k: v for k, v in row.items() if k not in clocks} for row in rows["here"]
        ]
        assert len(rows["here"]) > 1
        # A request that is under way when the signal comes is answered.
        lines = (ROOT / "examples/bodies.jsonl").read_text().splitlines()
        fresh = [json.loads(line) for line in lines]
        for row in fresh:
            name = "body" if "body" in row else "code"
            row[name] = " " + row[name]
        body = json.dumps({"candidates": fresh}).encode()
        with ThreadPoolExecutor() as threads:
            asked = threads.submit(read_url, Request(f"{url}/v1/verify", body))
            while "proverrl_inside 0.0" in read_url(f"{url}/metrics"):
                time.sleep(0.01)
            server.send_signal(signal.SIGTERM)
            text = asked.result()
        assert [row["status"] for row in json.loads(text)["results"]] == [
            row["status"] for row in rows["here"]
        ]
        assert str(ROOT) not in text
        assert "/usr" not in text
        assert server.wait(60) == 0


def read_url(asked: str | Request) -> str:
    with urlopen(asked, timeout=120) as answer:
        return str(answer.read(), "utf-8")


LINE_ENDS = "a\u2028b\u2029c\u0085d\x0be"


@in_loop
async def test_a_message_may_hold_what_ends_a_line_elsewhere() -> None:
    odd = Verdict(Status.REJECTED, (Diagnostic("error", LINE_ENDS),), checks=("audit",))
    async with listen(FOUR, FakeVerifier(lambda _: odd)) as port:
        verifier = await connect(port)
        verdicts = await judge_all(verifier, 20)
        await verifier.aclose()
    assert {verdict.diagnostics[0].message for verdict in verdicts} == {LINE_ENDS}


@asynccontextmanager
async def answer_raw(answer: Callable[[list[Any]], bytes], *, hold: bool = False) -> Any:
    """A server that says what it judges, and answers candidates with these bytes; its connections
    end then, or are held and nothing more is said on any of them."""
    about = json.dumps(ABOUT_ROW)
    held = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if "/v1/about" in head:
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(about)}\r\n\r\n{about}".encode())
        elif "/v1/verify" in head:
            size = int(re.search(r"content-length: (\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
            rows = json.loads(await reader.readexactly(size))["candidates"]
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            lines = answer(rows)
            writer.write(f"{len(lines):x}\r\n".encode() + lines + b"\r\n")
            await writer.drain()
            if hold:
                await held.wait()
        elif hold:
            await held.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        held.set()
        server.close()


def first_half(rows: list[Any]) -> bytes:
    """The results of the first half, and a part of the next."""
    lines = []
    for index, row in enumerate(rows[: len(rows) // 2]):
        candidate = Candidate(Problem(**row["problem"]), row["body"])
        found = {"index": index, "id": row["id"], "key": candidate.key, "status": "proved"}
        lines.append(json.dumps(found | {"checks": ["half"]}))
    return ("\n".join(lines) + "\n" * bool(lines) + '{"index": 0, "sta').encode()


@pytest.mark.parametrize("hold", [False, True])
@in_loop
async def test_a_server_that_falls_silent_in_its_answer_costs_no_verdict(hold: bool) -> None:
    good = FakeVerifier(judge)
    async with answer_raw(first_half, hold=hold) as silent, listen(FOUR, good) as kept:
        verifier = await connect(
            silent, kept, probe_seconds=0.2, sleep=lambda _: asyncio.sleep(0.01)
        )
        verdicts = await judge_all(verifier, 40)
        await verifier.aclose()
    assert [verdict.status for verdict in verdicts] == [Status.PROVED] * 40
    halves = sum(verdict.checks == ("half",) for verdict in verdicts)
    assert halves >= 10
    assert good.num_calls == 40 - halves
    assert verifier.num_asked == 0


@in_loop
async def test_nobody_waits_for_a_verifier_that_was_closed() -> None:
    async with listen(SETTINGS, FakeVerifier(judge, delay_seconds=60)) as port:
        verifier = await connect(port)
        asked = asyncio.ensure_future(judge_all(verifier, 3))
        await asyncio.sleep(0)
        await verifier.aclose()
        with pytest.raises(VerifierError, match="closed"):
            await asyncio.wait_for(asked, 10)
    assert verifier.num_asked == 0


@in_loop
async def test_a_server_that_is_not_to_be_believed_ends_the_run() -> None:
    fake = FakeVerifier(judge, script={0: CanaryError("believed")})
    async with listen(SETTINGS, fake) as port:
        verifier = await connect(port, sleep=lambda _: asyncio.sleep(0.01))
        with pytest.raises(CanaryError, match="believe no verdict"):
            await judge_all(verifier, 3)
        await verifier.aclose()


@in_loop
async def test_text_that_cannot_be_sent_is_refused_here_as_a_pool_would() -> None:
    async with listen(SETTINGS, FakeVerifier(judge)) as port:
        verifier = await connect(port)
        verdict = await verifier.verify(ask("p", "good \ud800"), deadline_seconds=9)
        await verifier.aclose()
    assert verdict.status is Status.REJECTED
    assert "surrogate" in verdict.diagnostics[0].message


@in_loop
async def test_patience_is_for_servers_that_take_nothing() -> None:
    # It takes each and dies: that is no reason to give up, however long it takes.
    num = 0

    def cut(rows: list[Any]) -> bytes:
        nonlocal num
        num += 1
        return b"" if num < 6 else first_half([*rows, *rows]).split(b"\n")[0] + b"\n"

    async with answer_raw(cut) as port:
        verifier = await connect(port, patience_seconds=0.15, sleep=lambda _: asyncio.sleep(0.05))
        assert (await judge_all(verifier, 1))[0].proved
        await verifier.aclose()
    assert num == 6


def test_servers_come_and_go_and_differ() -> None:
    verifier = connect_to({})
    verifier.remove("http://s")
    assert verifier.num_servers == 0
    verifier.add("http://t")
    assert (verifier.num_servers, [s.url for s in verifier._servers]) == (1, ["http://t"])
    verifier.add("http://u")
    verifier.remove("http://t")
    assert [s.url for s in verifier._servers] == ["http://u"]
    verifier._sync_transport = answer_with({"version": "0.0", "workers": 1, "languages": {}})
    with pytest.raises(UsageError, match=r"is version 0\.0, and this is"):
        verifier.add("http://v")
    verifier._sync_transport = answer_with(ABOUT_ROW | {"languages": {}})
    with pytest.raises(UsageError, match=r"judges otherwise than .* \(only one judges dafny\)"):
        verifier.add("http://v")
    with pytest.raises(UsageError, match="cannot be asked"):
        verifier.add("http://[::1")
    assert verifier.num_servers == 1
