"""``proverrl verify`` over a stream: order, bounded memory, going on with a half-written file."""

import asyncio
import contextlib
import errno
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from proverrl.cli import verdicts as verdict_printer
from proverrl.cli.verdicts import print_verdicts
from proverrl.errors import CanaryError, ProblemError, ToolchainError, UsageError
from proverrl.lang.base import BackendOptions
from proverrl.monitor.console import open_console
from proverrl.problems.batch import Judged, read_in_thread, verify_stream
from proverrl.problems.inputs import Submission, Unusable, VerifyInput, make_file_candidate
from proverrl.problems.written import VerdictFile
from proverrl.types import Candidate, Status, Verdict
from proverrl.verifier import cache as verdict_cache
from proverrl.verifier.base import DEFAULT_LANE, Lane, Limits
from proverrl.verifier.router import Backend, RoutedVerifier
from tests import ROOT
from tests.fake_verifier import FakeVerifier
from tests.instant_worker import InstantPool

PATIENCE_SECONDS = 60.0


def make_entry(number: int) -> VerifyInput:
    if number % 10 == 9:
        return Unusable(f"n{number}", "malformed", "f", number, "bad")
    return Submission(f"n{number}", make_file_candidate(f"n{number}", f"body {number}"))


async def drain(stream: AsyncIterator[Judged], seen: list[str]) -> None:
    async for entry, _ in stream:
        seen.append(entry.id)


class SlowFirst(FakeVerifier):
    """Later candidates are ready before earlier ones; none is before `window` are at work."""

    def __init__(self, window: int) -> None:
        super().__init__(lambda _: Status.PROVED)
        self.window = window
        self.at_work = self.most = 0
        self.filled = asyncio.Event()

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        if self.at_work == self.window:
            self.filled.set()
        async with asyncio.timeout(60):
            await self.filled.wait()
        number = int(candidate.body.split()[1])
        for _ in range(10 - number % 10):
            await asyncio.sleep(0)
        self.at_work -= 1
        return await super().verify(candidate, deadline_seconds=deadline_seconds)


def test_verdicts_come_in_input_order_and_a_window_at_a_time() -> None:
    async def main() -> None:
        verifier = SlowFirst(window=8)
        entries = read_in_thread(make_entry(number) for number in range(200))
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
        entries = read_in_thread(make_entry(number) for number in range(50))
        stream = verify_stream(entries, verifier, deadline_seconds=5, window=4)
        with pytest.raises(CanaryError, match="no"):
            await drain(stream, seen)
        assert seen == ["n0", "n1"]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_a_slow_input_stops_nothing_else() -> None:
    """Of what else the program does, such as the start of a verifier process."""

    async def main() -> None:
        done = threading.Event()

        def entries() -> Any:
            yield make_entry(0)
            assert done.wait(60)
            yield make_entry(1)

        async def start() -> None:
            for _ in range(100):
                await asyncio.sleep(0)
            done.set()

        task = asyncio.create_task(start())
        seen: list[str] = []
        verifier = FakeVerifier(lambda _: Status.PROVED)
        await drain(verify_stream(read_in_thread(entries()), verifier, deadline_seconds=5), seen)
        assert seen == ["n0", "n1"]
        await task

    asyncio.run(main())


def test_an_error_of_the_input_comes_after_what_was_read() -> None:
    def entries() -> Any:
        yield make_entry(0)
        raise UsageError("the disk is gone")

    async def main() -> None:
        seen: list[str] = []
        verifier = FakeVerifier(lambda _: Status.PROVED)
        stream = verify_stream(read_in_thread(entries()), verifier, deadline_seconds=5)
        with pytest.raises(UsageError, match="the disk is gone"):
            await drain(stream, seen)
        assert seen == ["n0"]

    asyncio.run(main())


def test_a_verdict_does_not_wait_for_the_next_line() -> None:
    async def main() -> None:
        never = asyncio.Event()

        async def entries() -> AsyncIterator[VerifyInput]:
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

    def open_fake(*_: object) -> RoutedVerifier:
        instant = InstantPool(2)
        instant.log = log
        return RoutedVerifier(
            {"dafny": lambda: Backend("fake", "fake 1", "s", instant.pool), "lean": fail}
        )

    monkeypatch.setattr(verdict_printer, "open_router", open_fake)
    return log


def write_lines(path: Path, *numbers: int) -> Path:
    return write_codes(path, *(f"// {n}\n" for n in numbers), ids=[f"n{n}" for n in numbers])


def write_codes(path: Path, *codes: str, ids: Sequence[str] = ()) -> Path:
    names = ids or [f"n{n}" for n in range(len(codes))]
    lines = [
        json.dumps({"id": name, "language": "lean" if "theorem" in code else "dafny", "code": code})
        for name, code in zip(names, codes, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def verify(path: Path | str, out: Path | None, *, stdin: bytes = b"", **more: Any) -> int:
    return verify_all([str(path)], out, stdin=io.BytesIO(stdin), **more)


def verify_all(paths: list[str], out: Path | None, **more: Any) -> int:
    options: dict[str, Any] = {"workers": 2, "as_json": True} | more
    options.setdefault("stdin", io.BytesIO())
    return asyncio.run(print_verdicts(paths, deadline_seconds=PATIENCE_SECONDS, out=out, **options))


class FullDisk(VerdictFile):
    """A file on a disk that takes ``limit`` bytes of it, and of a row the part that fits."""

    def __init__(self, path: Path, *, resume: bool, limit: int) -> None:
        super().__init__(path, resume=resume)
        self._file = FullFile(self._file, limit)  # type: ignore[assignment]


class FullFile:
    def __init__(self, inner: Any, limit: int) -> None:
        self.inner = inner
        self.left = limit

    def write(self, data: bytes) -> int:
        if not self.left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written: int = self.inner.write(data[: self.left])
        self.left -= written
        return written

    def close(self) -> None:
        self.inner.close()


def read_rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()]


def read_ids(out: Path) -> list[str]:
    return [row["id"] for row in read_rows(out)]


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
    out.write_text("".join(out.read_text().splitlines(keepends=True)[:3]))
    assert verify(lines, out, resume=True) == 2
    assert read_ids(out) == ["n0", "", "n1", "n2", "n3"]
    assert len(fake_router) == 6


UNUSABLE = ("fine", "unusable", "theorem t : True := trivial", "fine too", "unusable again", "end")


def describe(row: dict[str, Any]) -> tuple[str, str, int | None]:
    return row["status"], row.get("cause", ""), row.get("line")


def test_an_unusable_problem_costs_its_own_line_only(
    tmp_path: Path, fake_router: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = write_codes(tmp_path / "in.jsonl", *UNUSABLE)
    expected = [
        ("proved", "", None),
        ("error", "bad-problem", 2),
        ("error", "no-backend", 3),
        ("proved", "", None),
        ("error", "bad-problem", 5),
        ("proved", "", None),
    ]
    out = tmp_path / "out.jsonl"
    assert verify(lines, out) == 3
    rows = read_rows(out)
    assert [describe(row) for row in rows] == expected
    message = f"{lines}:2: problem 'n1': no proof can be held to it"
    assert rows[1] == {
        "id": "n1",
        "key": make_file_candidate("n1", "unusable").key,
        "status": "error",
        "cause": "bad-problem",
        "file": str(lines),
        "line": 2,
        "message": message,
        "sha256": rows[1]["sha256"],
    }
    error = capsys.readouterr().err
    assert f"error: {message}\n" in error
    assert "2 bad-problem, 1 no-backend, 3 proved" in error
    # The same on standard output, and from standard input.
    assert verify("-", None, stdin=lines.read_bytes()) == 3
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [describe(row) for row in shown] == expected
    assert shown[1]["message"] == "-:2: problem 'n1': no proof can be held to it"


def test_a_place_is_no_emoji(
    tmp_path: Path, fake_router: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.jsonl").write_text("\n" * 99 + "[red]nonsense[/]\n")
    assert verify(tmp_path / "in.jsonl", None) == 2
    assert "in.jsonl:100: not JSON" in capsys.readouterr().err


def test_what_a_client_writes_is_no_command_to_the_terminal(
    tmp_path: Path, fake_router: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = write_codes(tmp_path / "in.jsonl", "fine", "unusable", ids=["a\x1b[31m\nb", "c\x1b]0"])
    out = tmp_path / "out.jsonl"
    assert verify(lines, out, as_json=False, plain=True, github=True) == 2
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert shown.out == "a\\x1b[31m\\nb: proved\n"
    # The file holds what was given.
    assert read_ids(out) == ["a\x1b[31m\nb", "c\x1b]0"]


def test_messages_that_are_not_shown_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        {"severity": "error", "message": f"bad\n{number}\x07", "line": number, "column": 1}
        for number in range(5)
    ]
    row = {"id": "a.dfy", "status": "rejected", "seconds": 1.0, "diagnostics": found}
    row |= {"believed": {}, "at_limit": False}
    for printer, shown in (
        (
            verdict_printer._print_plain,
            "a.dfy: rejected: bad 0\\x07; 1:2 bad 1\\x07; 2:2 bad 2\\x07; ... and 2 more\n",
        ),
        (
            verdict_printer._print_for_people,
            "rejected    a.dfy  1.00 s\n            bad\n            0\\x07\n"
            "            1:2 bad\n            1\\x07\n            2:2 bad\n            2\\x07\n"
            "            ... and 2 more\n",
        ),
    ):
        printer(open_console(), row)
        lines = capsys.readouterr().out.splitlines()
        assert "\n".join(line.rstrip() for line in lines) + "\n" == shown
    with pytest.raises(UsageError, match="--plain prints lines to read, and --json objects"):
        verify("-", None, plain=True)


def test_a_cache_that_cannot_be_written_is_left_out(
    tmp_path: Path,
    fake_router: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = write_codes(tmp_path / "in.jsonl", "fine")
    cache = tmp_path / "blocked" / "verdicts.sqlite"
    (tmp_path / "blocked").write_text("no folder")
    monkeypatch.setattr(verdict_printer, "default_cache", lambda: cache)
    assert verify(lines, None, cache=True) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["status"] == "proved"
    assert told.err.splitlines()[0].startswith(f"going on without the verdict cache {cache}: ")
    # So is a file that only others may write; one of another program is named as ever.
    cache = tmp_path / "verdicts.sqlite"
    prepare = verdict_cache._prepare_database
    monkeypatch.setattr(verdict_cache, "_prepare_database", refuse_writing)
    assert verify(lines, None, cache=True) == 0
    assert "attempt to write a readonly database" in capsys.readouterr().err
    monkeypatch.setattr(verdict_cache, "_prepare_database", prepare)
    cache.write_text("no database" * 100)
    with pytest.raises(UsageError, match="file is not a database"):
        verify(lines, None, cache=True)


def refuse_writing(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA query_only = 1")
    database.execute("CREATE TABLE t (key TEXT)")


def test_without_a_missing_back_end_an_unusable_problem_exits_2(
    tmp_path: Path, fake_router: list[str]
) -> None:
    assert verify(write_codes(tmp_path / "in.jsonl", "fine", "unusable"), None) == 2


@pytest.mark.parametrize("num_kept", range(len(UNUSABLE) + 1))
@pytest.mark.parametrize("cut", [0, 30])
def test_resume_goes_on_past_an_unusable_problem(
    tmp_path: Path, fake_router: list[str], num_kept: int, cut: int
) -> None:
    lines = write_codes(tmp_path / "in.jsonl", *UNUSABLE)
    out = tmp_path / "out.jsonl"
    assert verify(lines, out) == 3
    whole = out.read_text().splitlines(keepends=True)
    out.write_text("".join(whole[:num_kept]) + "".join(whole[num_kept : num_kept + 1])[:cut])
    fake_router.clear()
    assert verify(lines, out, resume=True) == 3
    assert [describe(row) for row in read_rows(out)] == [
        describe(json.loads(line)) for line in whole
    ]
    asked = [f"n{n}" for n, code in enumerate(UNUSABLE) if n >= num_kept and "theorem" not in code]
    assert sorted(fake_router) == asked


def test_a_line_that_was_mended_is_noticed(tmp_path: Path, fake_router: list[str]) -> None:
    lines = write_codes(tmp_path / "in.jsonl", "fine", "unusable")
    out = tmp_path / "out.jsonl"
    assert verify(lines, out) == 2
    write_codes(lines, "fine", "mended")
    with pytest.raises(UsageError, match=r"out\.jsonl:2: 'n1' is not the candidate"):
        verify(lines, out, resume=True)


def test_a_problem_error_without_a_place_is_raised() -> None:
    async def main() -> None:
        verifier = FakeVerifier(lambda _: Status.PROVED, script={1: ProblemError("not this")})
        seen: list[str] = []
        stream = verify_stream(
            read_in_thread(make_entry(number) for number in range(3)), verifier, deadline_seconds=5
        )
        with pytest.raises(ProblemError, match="not this"):
            await drain(stream, seen)
        assert seen == ["n0"]

    asyncio.run(main())


FOREIGN = ("notes\n", "notes without a line break", '{"id": "x"}\nhalf', "[]", '{"idea": 1')


@pytest.mark.parametrize("text", FOREIGN)
def test_resume_leaves_a_file_that_is_no_verdicts_as_it_is(
    tmp_path: Path, fake_router: list[str], text: str
) -> None:
    out = tmp_path / "notes.txt"
    out.write_text(text)
    with pytest.raises(UsageError, match=r"notes\.txt:1 is not a verdict"):
        verify(write_lines(tmp_path / "in.jsonl", 0), out, resume=True)
    assert out.read_text() == text


def test_out_must_not_be_an_input(tmp_path: Path, fake_router: list[str]) -> None:
    lines = write_lines(tmp_path / "in.jsonl", 0)
    folder = tmp_path / "folder"
    folder.mkdir()
    program = folder / "a.dfy"
    program.write_text("lemma A() {}\n")
    link, hard, hard_program = (tmp_path / name for name in ("link", "hard", "hard_program"))
    link.symlink_to(lines)
    hard.hardlink_to(lines)
    hard_program.hardlink_to(program)
    before = lines.read_bytes(), program.read_bytes()
    cases = [
        ([lines], lines),
        ([lines], tmp_path / "folder" / ".." / "in.jsonl"),
        ([lines], link),
        ([link], lines),
        ([lines], hard),
        ([program, lines], lines),
        ([folder], program),
        ([folder], hard_program),
        ([lines, folder], program),
    ]
    for paths, out in cases:
        for resume in (False, True):
            with pytest.raises(UsageError, match="is an input"):
                verify_all([str(path) for path in paths], out, resume=resume)
    for out in (folder / "new.dfy", folder / "sub" / "new.lean"):
        with pytest.raises(UsageError, match="would itself be judged"):
            verify(folder, out)
    with lines.open("rb") as stdin, pytest.raises(UsageError, match="an input, standard input"):
        verify_all(["-"], lines, stdin=stdin)
    assert (lines.read_bytes(), program.read_bytes()) == before
    assert verify(folder, folder / "verdicts.jsonl") == 0


def test_a_full_disk_keeps_what_was_judged(
    tmp_path: Path, fake_router: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = write_lines(tmp_path / "in.jsonl", *range(8))
    out = tmp_path / "out.jsonl"
    assert verify(lines, out) == 0
    # A row is never shorter than its keys, so that three fit and a part of the fourth.
    limit = 3 * max(len(line) for line in out.read_text().splitlines()) + 40
    monkeypatch.setattr(verdict_printer, "VerdictFile", partial(FullDisk, limit=limit))
    with pytest.raises(UsageError, match=r"out\.jsonl: .*No space left.*--resume continues"):
        verify(lines, out)
    assert out.stat().st_size == limit
    assert out.read_text().count("\n") == 3
    monkeypatch.setattr(verdict_printer, "VerdictFile", VerdictFile)
    assert verify(lines, out, resume=True) == 0
    assert read_ids(out) == [f"n{n}" for n in range(8)]


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
    # Neither a line that was changed is believed, nor one without its checksum.
    rows = [json.loads(line) for line in before.splitlines()]
    lines = write_lines(tmp_path / "a.jsonl", 0, 1, 2)
    for change in ({"status": "timeout"}, {"sha256": None}):
        out.write_text("".join(json.dumps({**row, **change}) + "\n" for row in rows))
        with pytest.raises(UsageError, match=r"out\.jsonl:1 was changed after it was written"):
            verify(lines, out, resume=True)
    for row in rows:
        del row["sha256"]
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UsageError, match=r"sha256 does not fit\); give another --out"):
        verify(lines, out, resume=True)
    out.write_text("[]\n")
    with pytest.raises(UsageError, match=r"out\.jsonl:1 is not a verdict"):
        verify(tmp_path / "a.jsonl", out, resume=True)
    with pytest.raises(UsageError, match="name it with --out"):
        verify(tmp_path / "a.jsonl", None, resume=True)


def test_resume_refuses_the_verdicts_of_other_judges_and_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The salt names both, for the cache as well."""
    salt = "dafny 1, limit 1"

    def open_fake(*_: object) -> RoutedVerifier:
        pool = InstantPool(2).pool
        return RoutedVerifier({"dafny": lambda: Backend("fake", "fake 1", salt, pool)})

    monkeypatch.setattr(verdict_printer, "open_router", open_fake)
    out = tmp_path / "out.jsonl"
    lines = write_lines(tmp_path / "in.jsonl", 0, 1)
    lines.write_text("nonsense\n" + lines.read_text())
    assert verify(lines, out) == 2
    assert verify(lines, out, resume=True) == 2
    before = out.read_text()
    salt = "dafny 1, limit 2"
    with pytest.raises(
        UsageError, match=r"verdict on n0 rests on other judges.*--rlimit.*SECOND_DAFNY"
    ):
        verify(lines, out, resume=True)
    assert out.read_text() == before


def test_a_missing_back_end_is_named_for_each_line_and_exits_3(
    tmp_path: Path, fake_router: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.lean").write_text("theorem t : True := trivial\n")
    (tmp_path / "d.dfy").write_text("lemma L() {}\n")
    out = tmp_path / "out.jsonl"
    assert verify(tmp_path, out) == 3
    assert read_ids(out) == [str(tmp_path / "d.dfy"), str(tmp_path / "t.lean")]
    assert [describe(row) for row in read_rows(out)] == [
        ("proved", "", None),
        ("error", "no-backend", 0),
    ]
    error = capsys.readouterr().err
    assert f"{tmp_path / 't.lean'}: Lean is not installed; run: bash scripts/setup_lean.sh" in error
    assert "1 no-backend, 1 proved" in error


def test_standard_input(fake_router: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    line = b'{"id": "x", "language": "dafny", "code": ""}\n'
    assert verify("-", None, stdin=line * 3) == 0
    ids = [json.loads(text)["id"] for text in capsys.readouterr().out.splitlines()]
    assert ids == ["x", "x", "x"]


SLOW = """
import signal
from proverrl.cli.main import main
from proverrl.cli import verdicts as verdict_printer
from proverrl.types import Status
from proverrl.verifier.router import Backend, RoutedVerifier
from tests.verifier.test_verify_batch import SlowLaned
verdict_printer.open_router = lambda *_: RoutedVerifier(
    {"dafny": lambda: Backend("slow", "slow 1", "s", SlowLaned())}
)
# Whoever runs the tests in the background has them ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


class SlowLaned(FakeVerifier):
    """Takes a while for each candidate, so that a signal comes in the middle."""

    def __init__(self) -> None:
        super().__init__(lambda _: Status.PROVED, delay_seconds=0.05)

    def stats(self) -> None:
        return None

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        return await super().verify(candidate, deadline_seconds=deadline_seconds)


@pytest.mark.slow
def test_an_interrupt_leaves_a_file_to_go_on_with(tmp_path: Path, fake_router: list[str]) -> None:
    lines = write_lines(tmp_path / "in.jsonl", *range(20_000))
    out = tmp_path / "out.jsonl"
    command = ["verify", str(lines), "--out", str(out)]
    root = ROOT
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
    assert "interrupted; the same command with --resume continues" in error
    ids = read_ids(out)
    assert ids == [f"n{n}" for n in range(len(ids))]
    assert 0 < len(ids) < 20_000
    assert verify(lines, out, resume=True) == 0
    assert read_ids(out) == [f"n{n}" for n in range(20_000)]
    assert len(fake_router) == 20_000 - len(ids)


@pytest.mark.dafny
@pytest.mark.slow
@pytest.mark.parametrize("seen", ["stderr", "both", "neither"])
def test_rows_are_whole_and_where_they_belong_beside_a_bar(tmp_path: Path, seen: str) -> None:
    """A row is longer than a terminal is wide; a bar is drawn on the same screen."""
    master, terminal = os.openpty()
    rows, complaints = (tmp_path / name for name in ("rows.jsonl", "complaints.txt"))
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    with rows.open("wb") as out, complaints.open("wb") as err:
        command = [sys.executable, "-m", "proverrl", "verify", "examples/copy.dfy", "--json"]
        running = subprocess.Popen(
            [*command, "--no-cache"],
            cwd=ROOT,
            env=environment,
            stdout=terminal if seen == "both" else out,
            stderr=err if seen == "neither" else terminal,
        )
    os.close(terminal)
    drawn = b""
    # Reading fails once nobody can write any more.
    with contextlib.suppress(OSError):
        while True:
            drawn += os.read(master, 65536)
    os.close(master)
    assert running.wait(PATIENCE_SECONDS) == 0
    assert (b"verifying" in drawn) == (seen != "neither")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode())
    lines = text.replace("\r", "\n") if seen == "both" else rows.read_text("utf-8")
    found = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    assert [(row["id"], row["status"]) for row in found] == [("examples/copy.dfy", "proved")]
    if seen != "both":
        assert rows.read_text("utf-8").count("\n") == 1
    if seen == "neither":
        assert b"\x1b" not in rows.read_bytes() + complaints.read_bytes()
        assert b"verifying" not in complaints.read_bytes()


def test_the_limit_is_ten_times_that_of_training_or_what_is_asked(
    tmp_path: Path, fake_router: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = write_lines(tmp_path / "in.jsonl", 1)
    seen: list[tuple[int, int | None]] = []
    # The fake.
    inner: Callable[..., RoutedVerifier] = vars(verdict_printer)["open_router"]

    def open_seen(options: BackendOptions, rlimit: int | None) -> RoutedVerifier:
        seen.append((options.limits.rlimit, rlimit))
        return inner(options, rlimit)

    monkeypatch.setattr(verdict_printer, "open_router", open_seen)
    assert verify(lines, tmp_path / "a.jsonl") == 0
    assert verify(lines, tmp_path / "b.jsonl", rlimit=5_000_000) == 0
    assert seen == [(30_000_000, None), (5_000_000, 5_000_000)]
    assert Limits().rlimit == 3_000_000
    with pytest.raises(UsageError, match="rlimit 5 is too small"):
        verify(lines, tmp_path / "c.jsonl", rlimit=5)
