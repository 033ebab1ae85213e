"""Single runs of Lean, over the fake program: what is no whole answer is no verdict."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from proverrl.errors import ProblemError, WorkerError
from proverrl.lang.lean.verify.backend import refuse
from proverrl.lang.lean.verify.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.verify.replay import ReplayOutcome
from proverrl.lang.lean.verify.workers import file as lean_file
from proverrl.lang.lean.verify.workers import worker as lean_worker
from proverrl.lang.lean.verify.workers.file import LeanFile
from proverrl.lang.lean.verify.workers.messages import Elaboration
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.types import Candidate, Status, Verdict
from tests.lang.lean.test_lean_worker import run
from tests.lean_builders import FAKE_FILE, build_lean_candidate, build_lean_problem


def run_quickly(work: Callable[[LeanWorker], Awaitable[None]]) -> None:
    """Without the canaries of the start."""

    async def main() -> None:
        session = LeanFile(FAKE_FILE)
        try:
            await work(LeanWorker(session, FAKE_FILE, LeanLimits(), KnownStatements()))
        finally:
            session.kill()
            await session.join()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("word", "cause", "why"),
    [
        ("CUT", "protocol", "Lean printed what is no message"),
        ("NO_JSON_LINE", "protocol", "Lean printed what is no message .*: PANIC"),
        ("A_LIST_LINE", "protocol", "Lean printed what is no message"),
        ("NULL_LINE", "protocol", "Lean printed what is no message"),
        ("ODD_SEVERITY", "protocol", "Lean printed what is no message .*severity"),
        ("LIST_SEVERITY", "protocol", "Lean printed what is no message"),
        ("NO_PLACE", "protocol", "Lean printed what is no message .*pos"),
        ("NO_BEGIN", "protocol", "does not start as the question did"),
        ("EXIT_1", "died", "Lean ended with 1"),
        ("EXIT_3", "died", "Lean ended with 3"),
        ("ERROR_BUT_EXIT_0", "died", "Lean ended with 0"),
        ("NO_OLEAN", "died", "Lean compiled nothing"),
        ("SIGKILL", "killed", "Lean ended with -9"),
        ("SIGSEGV", "died", "Lean ended with -11"),
        ("SIGABRT", "died", "Lean ended with -6"),
        ("CRASH", "protocol", "Lean printed what is no message"),
    ],
)
def test_an_answer_in_doubt_is_a_worker_error(word: str, cause: str, why: str) -> None:
    async def work(worker: LeanWorker) -> None:
        with pytest.raises(WorkerError, match=f"(?s){why}") as caught:
            await worker.judge(build_lean_candidate(f"trivial {word}"))
        assert (caught.value.cause, word) == (cause, word)

    run_quickly(work)


def test_what_is_understood_is_judged() -> None:
    expected = {
        "trivial": Status.PROVED,
        "exact choice": Status.PROVED,
        "trivial SILENT": Status.PROVED,
        "trivial BACKWARDS": Status.PROVED,
        "wrong": Status.REJECTED,
        "trivial SILENT_ERROR": Status.REJECTED,
        "wrong BACKWARDS": Status.REJECTED,
        "sorry": Status.INCOMPLETE,
        "exhaust": Status.EXHAUSTED,
        "trivial\n#exit": Status.UNSOUND,
        "trivial NO_END": Status.UNSOUND,
    }

    async def work(worker: LeanWorker) -> None:
        found = {body: await worker.judge(build_lean_candidate(body)) for body in expected}
        assert {body: verdict.status for body, verdict in found.items()} == expected
        assert found["exact choice"].axioms == ("propext", "Classical.choice", "Quot.sound")
        assert found["trivial SILENT"].diagnostics == ()
        assert found["trivial"].toolchain == "lean 4.0.0 (lean-file)"

    run(work, toolchain=FAKE_FILE)


def test_nothing_is_left_of_the_candidate_before() -> None:
    async def work(worker: LeanWorker) -> None:
        first = build_lean_candidate("exact evil", "a", prelude="axiom evil : False\n")
        assert (await worker.judge(first)).status is Status.UNSOUND
        # To the fake, an unknown name is harmless, and a leaked axiom is not.
        assert (await worker.judge(build_lean_candidate("exact evil", "b"))).axioms == ()

    run_quickly(work)


def test_a_proof_is_compared_with_our_own_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compiled once for a problem, under the name that the candidate's module has."""
    seen: list[tuple[str, str | None, str | None, str]] = []
    texts: list[str] = []
    outcomes = [
        ReplayOutcome(True, True),
        ReplayOutcome(True, False, "no"),
        ReplayOutcome(True, True),
    ]

    def look(olean: Path, theorem: str | None, challenge: Path | None) -> None:
        assert challenge is None or challenge.parent != olean.parent
        ours = challenge.read_text() if challenge else None
        seen.append((olean.name, theorem, ours, olean.read_text()))

    async def replay_one(
        olean: Path, *_: object, theorem: str | None, challenge: Path | None, **__: object
    ) -> ReplayOutcome:
        look(olean, theorem, challenge)
        return outcomes.pop(0)

    async def run_one(file: LeanFile, text: str, num_header: int) -> Elaboration:
        texts.append(text)
        return await compile_one(file, text, num_header)

    compile_one = LeanFile._run
    monkeypatch.setattr(lean_file, "replay", replay_one)
    monkeypatch.setattr(LeanFile, "_run", run_one)

    async def work(worker: LeanWorker) -> None:
        for body, status in (("trivial", Status.PROVED), ("exact choice", Status.UNSOUND)):
            verdict = await worker.judge(build_lean_candidate(body))
            assert verdict.status is status
            assert verdict.checks[-1] == "replay"
        assert [d.message for d in verdict.diagnostics] == ["the compiled text is refused: no"]
        bare = build_lean_problem(kind="file")
        text = "theorem t : True := by\n  trivial\n"
        assert (await worker.judge(Candidate(bare, text))).status is Status.PROVED

    run_quickly(work)
    assert [(name, theorem) for name, theorem, _, _ in seen] == [
        ("Candidate.olean", "t"),
        ("Candidate.olean", "t"),
        ("Candidate.olean", None),
    ]
    (_, _, first, theirs), (_, _, second, others), (_, _, third, _) = seen
    assert first is not None
    assert (second, third) == (first, None)
    assert first not in (theirs, others)
    assert "sorryAx" in first
    assert "sorryAx" not in theirs
    assert sum("sorry" in text for text in texts) == 1


def test_notation_is_not_believed_where_nothing_is_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind it Lean may read what the audit never saw, a macro over our question among that."""

    async def replay_one(*_: object, **__: object) -> ReplayOutcome:
        return ReplayOutcome(False, False, "this Lean cannot replay")

    monkeypatch.setattr(lean_file, "replay", replay_one)
    declared = 'local notation "zz" => True\n'
    proof = "theorem t : True := by\n  trivial\n"
    bare = build_lean_problem(kind="file")
    ours = build_lean_problem(preamble=declared)
    asked = {
        "file": Candidate(bare, declared + proof),
        "ours": Candidate(ours, "trivial"),
        "none": Candidate(bare, proof),
    }
    found: dict[str, Verdict] = {}

    async def work(worker: LeanWorker) -> None:
        for name, candidate in asked.items():
            found[name] = await worker.judge(candidate)

    run_quickly(work)
    assert {name for name, verdict in found.items() if verdict.proved} == {"ours", "none"}
    assert {verdict.checks[-1] for verdict in found.values()} == {"replay:not-possible-here"}
    said = "the text declares notation, which needs a replay; this Lean cannot replay"
    assert found["file"].status is Status.UNSOUND
    assert [diagnostic.message for diagnostic in found["file"].diagnostics] == [said]


def test_a_missing_import_is_the_problems_fault() -> None:
    async def work(worker: LeanWorker) -> None:
        problem = build_lean_problem(preamble="import Missing.Module\n")
        with pytest.raises(ProblemError, match="imports fail in Lean: unknown module prefix"):
            await worker.judge(Candidate(problem, "trivial"))
        assert (await worker.judge(build_lean_candidate("trivial"))).status is Status.PROVED

    run_quickly(work)


def test_endless_output_is_a_worker_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_file, "_MAX_OUTPUT_BYTES", 300)

    async def work(worker: LeanWorker) -> None:
        with pytest.raises(WorkerError, match="Lean printed over 300 bytes"):
            await worker.judge(build_lean_candidate("wrong"))

    run_quickly(work)


HOLED = Candidate(build_lean_problem(kind="file"), "theorem t : True := by\n  sorry\n")


def test_a_hole_that_lean_does_not_mind_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Verdict(Status.PROVED, checks=("kernel",))
    monkeypatch.setattr(lean_worker, "judge_messages", lambda *_: None)
    monkeypatch.setattr(lean_worker, "judge_file", lambda *_: taken)

    async def work(worker: LeanWorker) -> None:
        whole = Candidate(HOLED.problem, HOLED.body.replace("sorry", "trivial"))
        assert (await worker.judge(whole)).proved
        text = HOLED.body.replace("sorry", "first | trivial | sorry")
        verdict = await worker.judge(Candidate(HOLED.problem, text))
        assert (verdict.status, verdict.rule) == (Status.INCOMPLETE, "holes")

    run_quickly(work)


TRACED = LeanLimits(trace_states=True)


@pytest.mark.parametrize(
    ("candidate", "limits", "is_refused"),
    [
        (HOLED, LeanLimits(), False),
        (build_lean_candidate("sorry"), LeanLimits(), True),
        (build_lean_candidate("sorry"), TRACED, False),
        (build_lean_candidate("native_decide <;> sorry"), TRACED, True),
        (replace(HOLED, body="axiom a : False\n" + HOLED.body), TRACED, True),
    ],
)
def test_a_text_with_holes_alone_goes_to_lean_for_its_goals(
    candidate: Candidate, limits: LeanLimits, is_refused: bool
) -> None:
    assert (refuse(candidate, limits=limits) is not None) is is_refused
