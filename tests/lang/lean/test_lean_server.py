"""What Lean's server may say wrongly, and what becomes of it.

The processes are ``fake_lean_server.py``, so these tests need no Lean and say nothing about one.
Whatever is not understood must be a ``WorkerError``: the candidate is then without a verdict, and
never proved.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from proverrl.errors import ProblemError, WorkerError
from proverrl.lang.lean.verify.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.verify.workers.server import LeanServer
from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.types import Candidate, Status, Verdict
from proverrl.verifier import frames
from tests.fake_lean_server import FAULTS
from tests.lean_builders import FAKE_SERVER, build_lean_candidate, build_lean_problem


def run_quickly(
    work: Callable[[LeanWorker], Awaitable[None]],
    limits: LeanLimits | None = None,
    toolchain: LeanToolchain = FAKE_SERVER,
) -> None:
    """Without the canaries of the start."""

    async def main() -> None:
        session = LeanServer(toolchain)
        try:
            await work(LeanWorker(session, toolchain, limits or LeanLimits(), KnownStatements()))
        finally:
            session.kill()
            await session.join()

    asyncio.run(main())


def judge_one(body: str, limits: LeanLimits | None = None) -> Verdict:
    verdicts = []

    async def work(worker: LeanWorker) -> None:
        verdicts.append(await worker.judge(build_lean_candidate(body)))

    run_quickly(work, limits)
    return verdicts[0]


DOUBTFUL = {
    "FUTURE": "speaks of version",
    "FUTURE_PROGRESS": "speaks of version",
    "NO_VERSION": "not understood .version: ",
    "OTHER_URI": "speaks of another document",
    "OTHER_URI_PROGRESS": "speaks of another document",
    "ANSWER_FIRST": "something else of the text before",
    "NEVER_DONE": "server died",
    "DONE_THEN_BUSY": "server died",
    "FATAL": "something else of the text before",
    "ANOTHER_ID": "answered what was not asked",
    "TEXT_FOR_ID": "answered what was not asked",
    "TRUE_FOR_ID": "answered what was not asked",
    "NO_ID": "answered what was not asked",
    "ERROR": "failed: .*-32901",
    "ERROR_AND_RESULT": "failed: .*-32901",
    "NULL_ERROR": "failed: None",
    "NULL_RESULT": "answered with something",
    "NO_RESULT": "failed: None",
    "TWICE": "answered what was not asked",
    "SHOWS": "says window/showMessage: .*oh",
    "OTHER_NOTE": "says textDocument/nobodyKnows",
    "METHOD_NUMBER": "sent no message",
    "OTHER_VERSION_OF_RPC": "sent no message",
    "CUT": "server died",
    "CUT_HEAD": "server died",
    "TOO_SHORT": "sent no JSON",
    "TOO_LONG": "sent no JSON",
    "NO_LENGTH": "printed what is no message",
    "NEGATIVE_LENGTH": "printed what is no message",
    "ENDLESS_HEAD": "printed what is no message",
    "STRAY_TEXT": "printed what is no message|sent no",
    "STRAY_PANIC": "printed what is no message|sent no",
    "NOT_UTF8": "sent no JSON",
    "HALF_A_PAIR": "sent no JSON",
    "NO_JSON": "sent no JSON",
    "A_LIST": "sent no message",
    "DEEP": "sent no JSON",
    "DIES_BEFORE": "server died",
    "DIES_BETWEEN": "server died",
    "DIES_AFTER_THE_PRINT": "server died",
    "DIES_WHEN_DONE": "server died",
    "SEVERITY_5": "not understood .*severity",
    "NO_MESSAGE": "not understood .*message",
    "NUMBER_FOR_MESSAGE": "not understood .*message",
    "NO_RANGE": "not understood .*range",
    "NEGATIVE_PLACE": "not understood .*fullRange.start.line",
    "FRACTION_PLACE": "not understood .*range.*line",
    "FAR_PLACE": "line 1000001, and there are fewer",
    "PLACE_BEFORE": "something else of the text before",
    "FORGED_END": "does not end as",
    "FORGED_END_AS_ERROR": "does not end as",
    "MOVED_END": "does not end as",
    "AFTER_THE_END": "does not end as",
    "NO_BEGIN": "something else of the text before",
    "OTHER_BEGIN": "something else of the text before",
    "BEGIN_TWICE": "something else of the text before",
    "LONGER_BEGIN": "something else of the text before",
    "CRASH": "server died; it said: PANIC at Lean.Elab",
}
JUDGED = {
    "LATE_ERRORS": Status.PROVED,
    "LATE_FATAL": Status.PROVED,
    "LATE_BUSY": Status.PROVED,
    "BACKWARDS": Status.PROVED,
    "ANSWER_THEN_DIAGNOSTICS": Status.PROVED,
    "ASKS": Status.PROVED,
    "ASKS_BY_OUR_NUMBER": Status.PROVED,
    "NOTE": Status.PROVED,
    "NOTE_WITHOUT_PARAMS": Status.PROVED,
    "FLOODS": Status.PROVED,
    "SILENT": Status.PROVED,
    "FORGED_FRAME": Status.PROVED,
    "LATE_SUCCESS": Status.PROVED,
    "ANSWER_BEFORE_THE_REST": Status.UNSOUND,
    "NO_END": Status.UNSOUND,
    "SILENT_ERROR": Status.REJECTED,
    "WITHOUT_SEVERITY": Status.REJECTED,
    "SILENT_SORRY": Status.INCOMPLETE,
}


def test_every_fault_is_tried() -> None:
    assert (DOUBTFUL.keys() | JUDGED.keys()) == FAULTS.keys() | {"CRASH"}
    assert not DOUBTFUL.keys() & JUDGED.keys()


@pytest.mark.parametrize("word", DOUBTFUL)
def test_an_answer_in_doubt_is_a_worker_error(word: str) -> None:
    async def work(worker: LeanWorker) -> None:
        with pytest.raises(WorkerError, match=f"(?s){DOUBTFUL[word]}") as caught:
            await worker.judge(build_lean_candidate(f"trivial {word}"))
        assert caught.value.cause == ("died" if "died" in DOUBTFUL[word] else "protocol")

    run_quickly(work)


@pytest.mark.parametrize("word", JUDGED)
def test_what_is_understood_is_judged(word: str) -> None:
    verdict = judge_one(f"trivial {word}")
    assert verdict.status is JUDGED[word], verdict.diagnostics
    assert verdict.toolchain == "lean 4.0.0 (lean-server)"
    said = [d.message for d in verdict.diagnostics if d.severity == "info"]
    assert said == (["Content-Length: 2\r\n\r\n{}"] if word == "FORGED_FRAME" else [])


@pytest.mark.parametrize("word", ["LATE_SUCCESS", "LATE_ERRORS", "BACKWARDS", "FLOODS", "SILENT"])
def test_no_fault_turns_a_wrong_proof_into_a_proof(word: str) -> None:
    async def work(worker: LeanWorker) -> None:
        right = await worker.judge(build_lean_candidate("trivial"))
        wrong = await worker.judge(build_lean_candidate(f"wrong {word}"))
        again = await worker.judge(build_lean_candidate(f"trivial {word}"))
        assert [v.status for v in (right, wrong, again)] == [
            Status.PROVED,
            Status.REJECTED,
            Status.PROVED,
        ]

    run_quickly(work)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("GOAL_ERROR", "failed: .*content modified"),
        ("GOAL_ODD", "gave no goals"),
        ("GOAL_OF_NOBODY", "answered what was not asked"),
    ],
)
def test_goals_in_doubt_are_a_worker_error(word: str, why: str) -> None:
    async def work(worker: LeanWorker) -> None:
        with pytest.raises(WorkerError, match=why):
            await worker.judge(build_lean_candidate(f"trivial\n  {word}"))

    run_quickly(work, LeanLimits(trace_states=True))


def test_the_goals_before_every_tactic_are_told_when_asked() -> None:
    told = judge_one("first\n  second", LeanLimits(trace_states=True))
    assert told.states == ((1, 0, "⊢ before first"), (2, 2, "⊢ before second"))
    assert judge_one("first\n  second").states == ()


def test_goals_that_lean_cannot_print_cost_no_verdict() -> None:
    body = "first\n  GOAL_UNPRINTABLE\n  GOAL_UNPRINTABLE\n  last"
    told = judge_one(body, LeanLimits(trace_states=True))
    assert told.proved
    assert told.states == ((1, 0, "⊢ before first"), (4, 2, "⊢ before last"))
    (said,) = told.diagnostics
    assert (said.severity, said.body_line, said.body_column) == ("info", 2, 2)
    assert said.message == (
        "Lean cannot print the goals at 2 places, the first here: Unknown constant `t`"
    )


def test_an_answer_without_end_is_a_worker_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_ANSWER_BYTES", 100_000)

    async def work(worker: LeanWorker) -> None:
        for number in range(100):
            # Each answer counts for itself.
            await worker.judge(build_lean_candidate(f"trivial {number}"))
        with pytest.raises(WorkerError, match="printed over 100000 bytes"):
            await worker.judge(build_lean_candidate("trivial FLOODS"))

    run_quickly(work)


def test_columns_are_counted_in_code_points() -> None:
    (error,) = judge_one("skip 𝔸𝔸😀 wrong").diagnostics
    assert (error.line, error.column, error.body_line, error.body_column) == (2, 11, 1, 9)


def test_a_missing_import_is_the_problems_fault_and_harms_no_other() -> None:
    missing = Candidate(build_lean_problem(preamble="import Missing.Module\n"), "trivial")

    async def work(worker: LeanWorker) -> None:
        for _ in range(2):
            with pytest.raises(ProblemError, match="imports fail in Lean: unknown module prefix"):
                await worker.judge(missing)
            verdict = await worker.judge(build_lean_candidate("trivial"))
            assert verdict.status is Status.PROVED

    run_quickly(work)


def test_texts_with_one_beginning_go_to_one_document() -> None:
    async def work(worker: LeanWorker) -> None:
        assert isinstance(worker.session, LeanServer)
        first, second = (
            Candidate(build_lean_problem("t", preamble=f"open {name}\n"), "trivial")
            for name in ("Alpha", "Beta")
        )
        assert not worker.is_warm_for(first)
        pids = []
        for candidate in (first, second, first, second):
            assert (await worker.judge(candidate)).status is Status.PROVED
            assert worker.is_warm_for(candidate)
            pids.append(worker.pid)
        assert pids[:2] == pids[2:]
        assert pids[0] != pids[1]

    run_quickly(work)
