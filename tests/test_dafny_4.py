"""The back end for Dafny 4, against ``fake_dafny4.py``; no real Dafny 4 has been here."""

import asyncio
import sys
from pathlib import Path

import pytest

from proverrl.errors import ToolchainError, WorkerError
from proverrl.lang.dafny.backend import start_dafny_worker
from proverrl.lang.dafny.file_audit import audit_file
from proverrl.lang.dafny.known import KnownProblems
from proverrl.lang.dafny.workers.dafny4 import Dafny4Worker, read_reply
from proverrl.lang.dafny.workers.toolchain import DafnyToolchain, find_dafny_toolchain
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.base import Limits

FAKE = Path(__file__).with_name("fake_dafny4.py")


@pytest.fixture
def dafny(tmp_path: Path) -> str:
    """The fake as a command of its own; the workers pass few variables on."""
    command = tmp_path / "dafny"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    command.chmod(0o755)
    return str(command)


def make_toolchain(dafny: str) -> DafnyToolchain:
    return DafnyToolchain(dafny, "4.9.0", None, "/opt/z3", "4.12.1")


def judge(dafny: str, *texts: str) -> list[Verdict]:
    async def main() -> list[Verdict]:
        toolchain = make_toolchain(dafny)
        worker = await start_dafny_worker(toolchain, Limits(), KnownProblems())
        assert isinstance(worker, Dafny4Worker)
        problem = Problem("p", "dafny", "statements", "", f"lemma A()\n{HOLE}\n")
        return [await worker.judge(Candidate(problem, text)) for text in texts]

    return asyncio.run(main())


def test_statuses_come_from_the_log_and_the_exit_code(dafny: str) -> None:
    verdicts = judge(dafny, "", "// REFUTE", "lemma REFUTE()", "lemma EXHAUST()")
    assert [v.status for v in verdicts] == [
        Status.PROVED,
        Status.PROVED,
        Status.REJECTED,
        Status.EXHAUSTED,
    ]
    assert verdicts[0].toolchain == "dafny 4.9.0 (dafny-4), z3 4.12.1"
    assert "entries:1" in verdicts[0].checks
    assert [(o.entry, o.total, o.proved) for o in verdicts[2].obligations] == [
        ("Impl$$_module.__default.A", 2, 2),
        ("Impl$$_module.__default.REFUTE", 2, 1),
    ]
    found = verdicts[2].diagnostics
    assert [(d.severity, d.line, d.column, d.body_line, d.body_column) for d in found] == [
        ("error", 2, 9, 1, 9),
        ("info", 2, 1, 1, 1),
    ]


def test_what_does_not_resolve_or_only_warns_is_rejected(dafny: str) -> None:
    broken, warned, extra = judge(dafny, "SYNTAX", "assume false;", "lemma B()")
    assert (broken.status, broken.obligations) == (Status.REJECTED, ())
    assert broken.diagnostics[0].message == "invalid declaration"
    assert warned.status is Status.REJECTED
    assert warned.diagnostics[0].message.startswith("Dafny did not accept the program: assume")
    assert extra.status is Status.UNSOUND
    assert "unexpected ['Impl$$_module.__default.B']" in extra.diagnostics[0].message


@pytest.mark.parametrize(
    "text",
    [
        "CRASH",
        "HALF_LOG",
        "WRONG_CODE\nlemma REFUTE()",
        "WRONG_CODE\nlemma EXHAUST()",
        "FAIL_CODE",
        "lemma ODD()",
        "lemma NEW()",
    ],
)
def test_doubt_is_no_verdict(dafny: str, text: str) -> None:
    with pytest.raises(WorkerError):
        judge(dafny, text)


def test_without_a_log_nothing_is_proved(dafny: str) -> None:
    (verdict,) = judge(dafny, "NO_LOG")
    assert verdict.status is Status.UNSOUND


def test_the_log_alone_does_not_prove() -> None:
    log = '{"verificationResults": []}'
    assert read_reply(0, "finished with 9 verified, 0 errors", log).entries == ()
    with pytest.raises(WorkerError, match="exited with 3"):
        read_reply(3, "", log)
    with pytest.raises(WorkerError, match="not what was expected"):
        read_reply(0, "", '{"results": []}')


def test_a_limit_that_counts_in_thousands_is_found(tmp_path: Path, dafny: str) -> None:
    command = tmp_path / "dafny-old"
    command.write_text(f'#!/bin/sh\nFAKE_SCALE=1000 exec "{dafny}" "$@"\n')
    command.chmod(0o755)

    async def main(path: str) -> tuple[str, ...]:
        worker = await Dafny4Worker.start(make_toolchain(path), Limits(), KnownProblems())
        return worker._make_command(3_000_000)

    assert "3000" in asyncio.run(main(str(command)))
    assert "3000000" in asyncio.run(main(dafny))


def test_a_limit_that_never_bites_is_no_toolchain(tmp_path: Path, dafny: str) -> None:
    command = tmp_path / "dafny-unbounded"
    command.write_text(f'#!/bin/sh\nFAKE_SCALE=1000000000 exec "{dafny}" "$@"\n')
    command.chmod(0o755)
    with pytest.raises(ToolchainError, match="ignores --resource-limit"):
        judge(str(command), "")


def test_warnings_and_axioms_are_never_allowed(dafny: str) -> None:
    worker = Dafny4Worker(make_toolchain(dafny), Limits(), KnownProblems())
    command = worker._make_command(5)
    assert command[1:3] == ("verify", "p.dfy")
    assert not {"--allow-warnings", "--allow-axioms", "--library"} & set(command)


@pytest.mark.parametrize(
    ("version", "backend"), [("4.9.0", "dafny-4"), ("4.0.0", "dafny-4"), ("4.11.0", "dafny-4")]
)
def test_the_version_picks_the_back_end(
    dafny: str, monkeypatch: pytest.MonkeyPatch, version: str, backend: str
) -> None:
    monkeypatch.setenv("PROVERRL_DAFNY", dafny)
    monkeypatch.setenv("FAKE_VERSION", version)
    toolchain = find_dafny_toolchain()
    assert (toolchain.backend, toolchain.dafny_version) == (backend, version)
    assert toolchain.server is None


@pytest.mark.parametrize("version", ["3.13.1", "2.2.0", "5.0.0"])
def test_other_versions_are_refused(
    dafny: str, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("PROVERRL_DAFNY", dafny)
    monkeypatch.setenv("FAKE_VERSION", version)
    with pytest.raises(ToolchainError, match=r"supported are Dafny 2\.3 .* and Dafny 4"):
        find_dafny_toolchain()


@pytest.mark.parametrize(
    ("loop", "admitted"),
    [
        ("for i := 0 to n { }", True),
        ("for i := 0 to |s| { }", True),
        ("for i := |s| downto 0 invariant i >= 0 { }", True),
        ("for i: int := 0 to |s| + n invariant {1} <= {1, 2} { }", True),
        ("for i := to to to { }", True),
        ("for i := 0 downto * { }", True),
        ("for i := 0 to n", False),
        # A name in a clause, and what comes after it: no range, and no body.
        ("for i := 0 to n invariant b == to x := y; { }", False),
        ("for i := 0 to to x := y; { }", False),
        ("for i := 0 to |s| invariant i >= 0", False),
        ("for i := 0 to n invariant {1} <= {1, 2}", False),
        ("for i := 0 to * decreases * { }", False),
    ],
)
def test_for_loops_need_a_body(loop: str, admitted: bool) -> None:
    findings = audit_file(f"method M(n: nat, s: seq<int>) {{ {loop} }}")
    assert not findings if admitted else [finding.category for finding in findings] == ["cheat"]
