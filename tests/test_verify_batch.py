"""``proverrl verify`` over a stream: order, bounded memory, going on with a half-written file."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from proverrl import verdict_printer
from proverrl.errors import CanaryError, ToolchainError, UsageError
from proverrl.types import Candidate, Status, Verdict
from proverrl.verdict_printer import print_verdicts
from proverrl.verify.batch import Entry, Judged, read_in_thread, read_now, verify_stream
from proverrl.verify.fake import FakeVerifier
from proverrl.verify.inputs import Submission, Unusable, make_file_candidate
from proverrl.verify.router import Backend, RoutedVerifier
from tests.instant_worker import InstantPool

PATIENCE_SECONDS = 60.0


def make_entry(number: int) -> Entry:
    if number % 10 == 9:
        return Unusable(f"n{number}", "malformed", "f", number, "bad")
    return Submission(f"n{number}", make_file_candidate(f"n{number}", f"body {number}"))


async def drain(stream: AsyncIterator[Judged], seen: list[str]) -> None:
    async for entry, _ in stream:
        seen.append(entry.id)


class SlowFirst(FakeVerifier):
    """Later candidates are ready before earlier ones."""

    def __init__(self) -> None:
        super().__init__(lambda _: Status.PROVED)
        self.at_work = self.most = 0

    async def verify(self, candidate: Candidate, *, deadline_seconds: float) -> Verdict:
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        number = int(candidate.body.split()[1])
        for _ in range(10 - number % 10):
            await asyncio.sleep(0)
        self.at_work -= 1
        return await super().verify(candidate, deadline_seconds=deadline_seconds)


@pytest.mark.parametrize("threaded", [False, True])
def test_verdicts_come_in_input_order_and_a_window_at_a_time(threaded: bool) -> None:
    async def main() -> None:
        verifier = SlowFirst()
        read = read_in_thread if threaded else read_now
        entries = read(make_entry(number) for number in range(200))
        found = [
            (entry.id, verdict is not None)
            async for entry, verdict in verify_stream(
                entries, verifier, deadline_seconds=5, window=8
            )
        ]
        assert found == [(f"n{number}", number % 10 != 9) for number in range(200)]
        assert verifier.most == 8
        assert verifier.num_calls == 180

    asyncio.run(main())


def test_an_error_ends_the_stream_and_cancels_the_rest() -> None:
    async def main() -> None:
        verifier = FakeVerifier(
            lambda _: Status.PROVED, delay_seconds=0.01, script={2: CanaryError("no")}
        )
        seen: list[str] = []
        entries = read_now(make_entry(number) for number in range(50))
        stream = verify_stream(entries, verifier, deadline_seconds=5, window=4)
        with pytest.raises(CanaryError, match="no"):
            await drain(stream, seen)
        assert seen == ["n0", "n1"]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_an_error_of_the_input_comes_after_what_was_read() -> None:
    def entries() -> Any:
        yield make_entry(0)
        raise UsageError("the disk is gone")

    async def main() -> None:
        for read in (read_now, read_in_thread):
            seen: list[str] = []
            verifier = FakeVerifier(lambda _: Status.PROVED)
            stream = verify_stream(read(entries()), verifier, deadline_seconds=5)
            with pytest.raises(UsageError, match="the disk is gone"):
                await drain(stream, seen)
            assert seen == ["n0"]

    asyncio.run(main())


def test_a_verdict_does_not_wait_for_the_next_line() -> None:
    async def main() -> None:
        never = asyncio.Event()

        async def entries() -> AsyncIterator[Entry]:
            yield make_entry(0)
            await never.wait()

        verifier = FakeVerifier(lambda _: Status.PROVED)
        stream = verify_stream(entries(), verifier, deadline_seconds=5)
        async for entry, verdict in stream:
            assert (entry.id, verdict is not None) == ("n0", True)
            break
        await stream.aclose()  # type: ignore[attr-defined]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


@pytest.fixture
def fake_router(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Programs are judged by an instant pool; Lean is missing. Gives the log of the judged."""
    log: list[str] = []

    def fail() -> Backend:
        raise ToolchainError("Lean is not installed; run: bash scripts/setup_lean.sh")

    def open_fake(**_: object) -> RoutedVerifier:
        instant = InstantPool(2)
        instant.log = log
        return RoutedVerifier(
            {"dafny": lambda: Backend("fake", "fake 1", "s", instant.pool), "lean": fail}
        )

    monkeypatch.setattr(verdict_printer, "open_router", open_fake)
    return log


def write_lines(path: Path, *numbers: int) -> Path:
    lines = [json.dumps({"id": f"n{n}", "language": "dafny", "code": f"// {n}\n"}) for n in numbers]
    path.write_text("\n".join(lines) + "\n")
    return path


def verify(path: Path | str, out: Path | None, *, stdin: bytes = b"", **more: Any) -> int:
    options: dict[str, Any] = {"backend": "auto", "workers": 2, "as_json": True} | more
    return asyncio.run(
        print_verdicts(
            [str(path)],
            deadline_seconds=PATIENCE_SECONDS,
            out=out,
            stdin=io.BytesIO(stdin),
            **options,
        )
    )


def read_ids(out: Path) -> list[str]:
    return [json.loads(line)["id"] for line in out.read_text().splitlines()]


@pytest.mark.parametrize("cut", [0, 1, 30])
def test_resume_goes_on_after_the_last_whole_line(
    tmp_path: Path, fake_router: list[str], cut: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = write_lines(tmp_path / "in.jsonl", *range(20))
    out = tmp_path / "new" / "out.jsonl"
    assert verify(lines, out) == 0
    whole = out.read_text()
    assert read_ids(out) == [f"n{n}" for n in range(20)]
    half = "".join(whole.splitlines(keepends=True)[:12])
    out.write_text(half[: len(half) - cut])
    fake_router.clear()
    assert verify(lines, out, resume=True) == 0
    assert read_ids(out) == [f"n{n}" for n in range(20)]
    num_kept = 12 if cut == 0 else 11
    assert sorted(fake_router) == sorted(f"n{n}" for n in range(num_kept, 20))
    assert f"20 proved ({num_kept} of them by an earlier run)" in capsys.readouterr().err


def test_resume_of_nothing_and_of_everything(tmp_path: Path, fake_router: list[str]) -> None:
    lines = write_lines(tmp_path / "in.jsonl", *range(3))
    out = tmp_path / "out.jsonl"
    assert verify(lines, out, resume=True) == 0
    assert verify(lines, out, resume=True) == 0
    assert (read_ids(out), len(fake_router)) == (["n0", "n1", "n2"], 3)
    out.write_text('{"id": "n0"')
    assert verify(lines, out, resume=True) == 0
    assert read_ids(out) == ["n0", "n1", "n2"]


def test_resume_skips_what_was_malformed_and_keeps_the_exit_status(
    tmp_path: Path, fake_router: list[str]
) -> None:
    lines = write_lines(tmp_path / "in.jsonl", *range(4))
    text = lines.read_text().splitlines()
    lines.write_text("\n".join([text[0], "nonsense", *text[1:]]) + "\n")
    out = tmp_path / "out.jsonl"
    assert verify(lines, out) == 2
    out.write_text("".join(out.read_text().splitlines(keepends=True)[:2]))
    assert verify(lines, out, resume=True) == 2
    assert read_ids(out) == ["n0", "n1", "n2", "n3"]


def test_resume_refuses_the_verdicts_of_another_input(
    tmp_path: Path, fake_router: list[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert verify(write_lines(tmp_path / "a.jsonl", 0, 1, 2), out) == 0
    before = out.read_text()
    with pytest.raises(UsageError, match=r"out\.jsonl:2 is about 'n1' where the input has 'n7'"):
        verify(write_lines(tmp_path / "b.jsonl", 0, 7), out, resume=True)
    with pytest.raises(UsageError, match="more verdicts than the input has entries"):
        verify(write_lines(tmp_path / "c.jsonl", 0, 1), out, resume=True)
    assert out.read_text() == before
    changed = tmp_path / "a.jsonl"
    changed.write_text(changed.read_text().replace("// 1", "// one"))
    with pytest.raises(UsageError, match=r"out\.jsonl:2: 'n1' is not the candidate"):
        verify(changed, out, resume=True)
    assert out.read_text() == before
    out.write_text("[]\n")
    with pytest.raises(UsageError, match=r"out\.jsonl:1 is not a verdict"):
        verify(tmp_path / "a.jsonl", out, resume=True)
    with pytest.raises(UsageError, match="name it with --out"):
        verify(tmp_path / "a.jsonl", None, resume=True)


def test_a_missing_back_end_is_named_for_each_line_and_exits_3(
    tmp_path: Path, fake_router: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.lean").write_text("theorem t : True := trivial\n")
    (tmp_path / "d.dfy").write_text("lemma L() {}\n")
    out = tmp_path / "out.jsonl"
    assert verify(tmp_path, out) == 3
    assert read_ids(out) == [str(tmp_path / "d.dfy")]
    error = capsys.readouterr().err
    assert f"{tmp_path / 't.lean'}: Lean is not installed; run: bash scripts/setup_lean.sh" in error
    assert "1 no-backend, 1 proved" in error


def test_a_back_end_that_was_not_asked_for(
    tmp_path: Path, fake_router: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.dfy").write_text("lemma L() {}\n")
    assert verify(tmp_path / "d.dfy", None, backend="lean") == 3
    assert "this is dafny, and --backend lean leaves it out" in capsys.readouterr().err
    assert fake_router == []


def test_standard_input(fake_router: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    line = b'{"id": "x", "language": "dafny", "code": ""}\n'
    assert verify("-", None, stdin=line * 3) == 0
    ids = [json.loads(text)["id"] for text in capsys.readouterr().out.splitlines()]
    assert ids == ["x", "x", "x"]


SLOW = """
import signal
from proverrl import cli, verdict_printer
from proverrl.types import Status
from proverrl.verify.router import Backend, RoutedVerifier
from tests.test_verify_batch import SlowLaned
verdict_printer.open_router = lambda **_: RoutedVerifier(
    {"dafny": lambda: Backend("slow", "slow 1", "s", SlowLaned())}
)
# Whoever runs the tests in the background has them ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
cli.main()
"""


class SlowLaned(FakeVerifier):
    """Takes a while for each candidate, so that a signal comes in the middle."""

    def __init__(self) -> None:
        super().__init__(lambda _: Status.PROVED, delay_seconds=0.05)

    def stats(self) -> None:
        return None

    async def verify_in(
        self, lane: str, candidate: Candidate, *, deadline_seconds: float
    ) -> Verdict:
        return await self.verify(candidate, deadline_seconds=deadline_seconds)


@pytest.mark.slow
def test_an_interrupt_leaves_a_file_to_go_on_with(tmp_path: Path, fake_router: list[str]) -> None:
    lines = write_lines(tmp_path / "in.jsonl", *range(20_000))
    out = tmp_path / "out.jsonl"
    command = ["verify", str(lines), "--out", str(out)]
    root = Path(__file__).resolve().parents[1]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *command],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.PIPE,
        text=True,
    )
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not out.exists() or out.stat().st_size < 1000:
        assert time.monotonic() < give_up
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "interrupted; the same command with --resume goes on" in error
    ids = read_ids(out)
    assert ids == [f"n{n}" for n in range(len(ids))]
    assert 0 < len(ids) < 20_000
    assert verify(lines, out, resume=True) == 0
    assert read_ids(out) == [f"n{n}" for n in range(20_000)]
    assert len(fake_router) == 20_000 - len(ids)
