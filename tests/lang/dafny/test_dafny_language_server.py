"""Dafny 4's language server as a second judge: its traps against a fake, and the real one."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from proverrl.errors import ToolchainError, WorkerError
from proverrl.lang.dafny.syntax.reply import EntryResult, Reply, ReplyMessage
from proverrl.lang.dafny.verify.workers import language_server
from proverrl.lang.dafny.verify.workers.language_answer import Answer
from proverrl.lang.dafny.verify.workers.language_server import DafnyLanguageServer
from proverrl.lang.dafny.verify.workers.toolchain import (
    DafnyToolchain,
    find_confirming_toolchain,
)
from proverrl.types import FILE, HOLE, Candidate, Problem, Stage, Status, Verdict
from proverrl.verifier.base import Limits
from tests import ROOT
from tests.fake_language_server import CANARIES, diagnostics, progress, symbols

FAKE = ROOT / "tests" / "fake_language_server.py"
FIRST = DafnyToolchain("dafny", "2.3.0", None, "z3", "4.8.5")
LEMMA = "lemma Known() {}"
VERIFIED = EntryResult("Known", 0, "verified")
FAILED = EntryResult("Known", 0, "error")


def place(status: int, line: int = 0) -> dict[str, Any]:
    return symbols((line, 6, 11, status))


DONE = progress("ResolutionSucceeded")
START = (place(0), DONE)


@pytest.fixture
def fake(tmp_path: Path) -> DafnyToolchain:
    command = tmp_path / "dafny"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    command.chmod(0o755)
    return DafnyToolchain(str(command), "4.11.0")


def ask(toolchain: DafnyToolchain, *texts: str) -> list[Reply]:
    async def main() -> list[Reply]:
        server = await DafnyLanguageServer.start(toolchain, Limits())
        try:
            return [await server.ask(text) for text in texts]
        finally:
            server.kill()
            await server.join()

    return asyncio.run(main())


def tell(fake: DafnyToolchain, *steps: dict[str, Any], text: str = LEMMA) -> Reply:
    script = "".join(f"\n//! {json.dumps(step)}" for step in steps)
    return ask(fake, text + script)[0]


def test_statuses_that_come_before_the_end_of_resolution_count(fake: DafnyToolchain) -> None:
    assert tell(fake, place(5), DONE) == Reply((VERIFIED,), (), ())


def test_errors_that_come_behind_the_status_belong_to_the_answer(
    fake: DafnyToolchain,
) -> None:
    reply = tell(fake, *START, place(4), diagnostics((1, 0, 14, "it fails")))
    assert reply == Reply((FAILED,), (ReplyMessage("error", 1, 14, "it fails"),), ())


def test_what_boogie_adds_to_an_error_is_left_out(fake: DafnyToolchain) -> None:
    said = "it fails\nRelated message: loop invariant violation"
    assert tell(fake, *START, place(4), diagnostics((1, 0, 14, said))).errors == ["it fails"]


def test_a_text_with_nothing_to_verify_has_no_entry(fake: DafnyToolchain) -> None:
    assert tell(fake, DONE) == Reply((), (), ())


def test_what_is_said_of_another_text_is_not_read(fake: DafnyToolchain) -> None:
    other = json.loads(json.dumps([place(4), diagnostics((1, 0, 0, "old"))]).replace("URI", "x"))
    assert tell(fake, *other, *START, place(5)) == Reply((VERIFIED,), (), ())


def test_questions_are_answered_and_lists_are_understood(fake: DafnyToolchain) -> None:
    told = {"say": "dafny/x", "params": ["4.11.0.0"]}
    reply = tell(fake, {"ask": "client/registerCapability"}, told, *START, place(5))
    assert reply == Reply((VERIFIED,), (), ())


def test_an_outcome_that_is_taken_back_is_none(fake: DafnyToolchain) -> None:
    last = {"say": "dafny/compilation/status", "params": {"uri": "URI", "version": None}}
    with pytest.raises(WorkerError, match="took back what it had said"):
        tell(fake, *START, place(5), place(1), last)


EXCEPTION = {"say": "telemetry/event", "params": {"kind": 1, "payload": "NullReference\n   at X"}}


def test_an_exception_inside_dafny_is_told_and_judges_nothing(fake: DafnyToolchain) -> None:
    broken = tell(fake, *START, EXCEPTION, progress("InternalException"))
    said = "Dafny failed inside, which judges nothing: NullReference"
    assert broken == Reply((), (ReplyMessage("error", 1, 0, said),), (), cause="no-result")


def test_an_exception_of_which_nothing_is_told_is_no_verdict(
    fake: DafnyToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been about an earlier text, and this one is in doubt all the same."""
    with pytest.raises(WorkerError, match=r"Dafny failed inside: NullReference$") as caught:
        tell(fake, *START, EXCEPTION, place(5))
    assert caught.value.cause == "no-result"
    monkeypatch.setattr(language_server, "_SILENT_SECONDS", 0.2)
    with pytest.raises(WorkerError, match=r"nothing since it failed inside: NullReference$"):
        tell(fake, *START, EXCEPTION)


def test_an_exception_that_is_told_again_costs_the_next_text_nothing(
    fake: DafnyToolchain,
) -> None:
    other = json.loads(json.dumps(EXCEPTION).replace("NullReference", "Other"))
    scripts = [
        (*START, EXCEPTION, progress("InternalException")),
        (*START, EXCEPTION, place(5)),
        (*START, EXCEPTION, progress("InternalException")),
        (*START, other, place(5)),
    ]
    texts = [LEMMA + "".join(f"\n//! {json.dumps(step)}" for step in script) for script in scripts]
    broken, after, again = ask(fake, *texts[:3])
    assert broken.cause == "no-result"
    assert after == Reply((VERIFIED,), (), ())
    assert again == broken
    with pytest.raises(WorkerError, match=r"Dafny failed inside: Other$"):
        ask(fake, *texts)


def test_a_failure_that_is_taken_back_is_no_proof(fake: DafnyToolchain) -> None:
    with pytest.raises(WorkerError, match="took back what it had said"):
        tell(fake, START[0], place(4), place(5), DONE)


def test_an_error_without_a_place_is_an_error(fake: DafnyToolchain) -> None:
    reply = tell(fake, *START, diagnostics((1, -1, -1, "somewhere")), place(4))
    assert reply == Reply((FAILED,), (ReplyMessage("error", 1, 0, "somewhere"),), ())


def test_a_prover_without_a_result_is_no_verdict(fake: DafnyToolchain) -> None:
    told = diagnostics((1, 0, 6, "Verification inconclusive (Known)"))
    with pytest.raises(WorkerError, match="the prover gave no result"):
        tell(fake, *START, told, place(4))


def test_a_server_that_ends_is_no_verdict(fake: DafnyToolchain) -> None:
    with pytest.raises(WorkerError, match="Dafny's server died") as caught:
        tell(fake, *START, {"exit": 3})
    assert caught.value.cause == "died"


def test_what_is_not_understood_is_no_verdict(fake: DafnyToolchain) -> None:
    with pytest.raises(WorkerError, match=r"not understood \(namedVerifiables\.0\.status"):
        tell(fake, *START, place(9))


def test_limits_are_outcomes_and_assumptions_are_errors(fake: DafnyToolchain) -> None:
    axiom = "assume statement has no {:axiom} annotation"
    timed = "Verification of 'Known' timed out after 30 seconds"
    reply = tell(fake, *START, diagnostics((1, 0, 6, timed), (2, 0, 13, axiom)), place(4))
    assert reply.entries == (EntryResult("Known", 0, "timed out"),)
    assert [(m.kind, m.column) for m in reply.messages] == [("limit", 6), ("error", 13)]


def test_columns_are_counted_in_code_points(fake: DafnyToolchain) -> None:
    told = diagnostics((1, 0, 7, "it fails"))
    reply = tell(fake, told, symbols((0, 13, 18, 4)), DONE, text="/*\U0001d4b3*/ lemma Known")
    assert reply.entries == (FAILED,)
    assert reply.messages[0].column == 6


@pytest.mark.parametrize("line", [1, 2, 3, 5])
def test_a_server_that_fails_its_test_is_refused(
    fake: DafnyToolchain, monkeypatch: pytest.MonkeyPatch, line: int
) -> None:
    """Without the false lemma, the contradiction, the limit or the assumption, one at a
    time."""
    told = json.loads(json.dumps(CANARIES))
    for step in told:
        params = step["params"]
        params["diagnostics"] = [
            one for one in params.get("diagnostics", ()) if one["range"]["start"]["line"] != line
        ]
        for symbol in params.get("namedVerifiables", ()):
            if symbol["nameRange"]["start"]["line"] == line:
                symbol["status"] = 5
    monkeypatch.setenv("DOTNET_FAKE", json.dumps(told))
    with pytest.raises(ToolchainError, match="Dafny 4 misjudges known lemmas"):
        ask(fake, LEMMA)


def test_a_named_dafny_must_be_version_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "dafny"
    command.write_text("#!/bin/sh\necho Dafny 2.3.0.10506\n")
    command.chmod(0o755)
    monkeypatch.delenv("PROVERRL_SECOND_DAFNY", raising=False)
    assert find_confirming_toolchain(None) is None
    monkeypatch.setenv("PROVERRL_SECOND_DAFNY", "")
    assert find_confirming_toolchain(None) is None
    monkeypatch.setenv("PROVERRL_SECOND_DAFNY", str(command))
    with pytest.raises(ToolchainError, match=r"names Dafny 2\.3\.0"):
        find_confirming_toolchain(None)
    monkeypatch.setenv("PROVERRL_SECOND_DAFNY", "/nonexistent")
    with pytest.raises(
        ToolchainError,
        match=r"SECOND_DAFNY names no second judge \(cannot run /nonexistent.*to nothing",
    ):
        find_confirming_toolchain(None)
    monkeypatch.setenv("PROVERRL_SECOND_DAFNY", str(command))
    command.write_text("#!/bin/sh\necho 4.11.0+abc\n")
    found = find_confirming_toolchain(None)
    assert found is not None
    assert (found.dafny, found.dafny_version) == (str(command), "4.11.0")
    solver = tmp_path / "z3"
    monkeypatch.setenv("PROVERRL_SECOND_Z3", str(solver))
    with pytest.raises(ToolchainError, match="SECOND_Z3 names no z3"):
        find_confirming_toolchain(None)
    solver.write_text("#!/bin/sh\necho Z3 version 4.15.8 - 64 bit\n")
    solver.chmod(0o755)
    with pytest.raises(ToolchainError, match=f"SECOND_Z3 has no effect: {command} passes"):
        find_confirming_toolchain(None)
    command.write_text("#!/bin/sh\necho 4.11.0+abc\n[ $1 != verify ] # finds no such z3\n")
    found = find_confirming_toolchain(None)
    assert found is not None
    assert found.name == "dafny 4.11.0 (language server), z3 4.15.8"
    assert found.z3 == str(solver)
    monkeypatch.delenv("PROVERRL_SECOND_DAFNY")
    with pytest.raises(ToolchainError, match="SECOND_Z3 is set: name a Dafny"):
        find_confirming_toolchain(None)


def test_the_fake_says_what_the_real_one_says(
    real: DafnyToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    last: dict[str, Any] = {}
    take = Answer.take

    def record(answer: Answer, method: str, params: Any) -> None:
        take(answer, method, params)
        if isinstance(params, dict) and params.get("uri") == answer.uri and params.get("version"):
            last[method] = json.loads(json.dumps(params).replace(answer.uri, "URI"))

    monkeypatch.setattr(Answer, "take", record)
    ask(real)
    assert [_sort(last[step["say"]]) for step in CANARIES] == [_sort(s["params"]) for s in CANARIES]


def _sort(params: dict[str, Any]) -> dict[str, Any]:
    """Its diagnostics come in an order of their own each time."""
    told = params.get("diagnostics", [])
    return params | {"diagnostics": sorted(told, key=lambda one: json.dumps(one, sort_keys=True))}


def test_real_texts(real: DafnyToolchain) -> None:
    texts = [
        "method M(x: int) returns (r: int) ensures r == 2 { if x > 0 { return 1; } r := x / x; }",
        "lemma L(x: int) requires x < 0 < x ensures x == 3 { assert x == 5; }",
        "function method F(n: nat): nat { n }\nlemma Known(n: nat) ensures F(n) >= 0 {}",
        "lemma L( ensures true {}",
        "lemma L() ensures y {}",
        "datatype D = A | B",
        "// an\niterator I() yields (x: int) ensures false { yield; }",
        "lemma L(hide: int) ensures hide == hide {} // iterator",
    ]
    replies = ask(real, *texts)
    assert [[(e.name, e.outcome) for e in reply.entries] for reply in replies] == [
        [("M", "error")],
        [("L", "verified")],
        [("F", "verified"), ("Known", "verified")],
        [],
        [],
        [],
        [],
        [],
    ]
    errors = [[(m.line, m.column) for m in r.messages if m.kind == "error"] for r in replies]
    assert errors == [[(1, 49), (1, 81)], [], [], [(1, 9)], [(1, 18)], [], [(2, 0)], [(1, 0)]]
    assert replies[-2].errors[0].endswith("(--dafny-version 2.3 --confirm off)")
    assert replies[-1].errors == [
        "[internal error] Parser exception: Object reference not set to an instance of an object."
    ]
    assert [[(m.line, m.column) for m in r.contradictions] for r in replies[:3]] == [
        [],
        [(1, 43), (1, 52)],
        [],
    ]


BROKEN = "predicate P(x: int) { true }\nlemma L() ensures forall x: int {:trigger x} :: P(x) { }\n"
BROKEN_READ = (
    "function {:opaque} F(n: int): int { n }\nlemma L() { var reveal_F := 3; reveal F(); }\n"
)


@pytest.mark.parametrize("text", [BROKEN, BROKEN_READ])
def test_a_real_server_goes_on_after_an_exception(real: DafnyToolchain, text: str) -> None:
    false = "lemma Known(x: int) ensures x > 0 {}"
    broken, after, again, last = ask(real, text, false, text, LEMMA)
    assert (broken.cause, broken.entries, broken.resolved) == ("no-result", (), False)
    assert re.match("Dafny failed inside, which judges nothing: System\\.", broken.errors[0])
    assert (after.entries, after.cause) == ((FAILED,), "")
    assert again == broken
    assert (last.entries, last.cause) == ((VERIFIED,), "")


def test_real_verdicts(real: DafnyToolchain) -> None:
    problem = Problem("p", "dafny", "statements", "", f"lemma L(x: int)\n  ensures x > 0\n{HOLE}\n")

    async def main() -> list[Verdict]:
        server = await DafnyLanguageServer.start(real, Limits())
        try:
            bodies = ("{ assume x > 0; }", "{ }", "{ assert y; }", "requires x > 1 {}")
            candidates = [Candidate(problem, body) for body in bodies]
            # Its limits are not followed; Dafny does not take both.
            limited = "lemma {:rlimit 1} {:resource_limit 1} L() ensures 1 == 1 {}"
            candidates.append(Candidate(Problem("f", "dafny", FILE, "", HOLE), limited))
            return [await server.judge(candidate) for candidate in candidates]
        finally:
            server.kill()
            await server.join()

    verdicts = asyncio.run(main())
    assert [(v.status, v.stage) for v in verdicts] == [
        (Status.REJECTED, Stage.PROVER),
        (Status.REJECTED, Stage.PROVER),
        (Status.REJECTED, Stage.READING),
        (Status.PROVED, Stage.PROVER),
        (Status.PROVED, Stage.PROVER),
    ]
    assert [(d.severity, d.line, d.body_line) for d in verdicts[1].diagnostics] == [
        ("error", 3, 1),
        ("info", 2, None),
    ]
