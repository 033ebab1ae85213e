"""One Lean worker over a stand-in for Lean's server: verdicts and isolation.

The processes are ``fake_lean_server.py``, so these tests need no Lean and say nothing about one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from proverrl.errors import ProblemError
from proverrl.lang.lean.verify.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.verify.workers.messages import Elaboration, Environment
from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.types import HOLE, Candidate, Problem, Stage, Status, Verdict
from tests.lean_builders import (
    FAKE_SERVER,
    build_lean_candidate,
    build_lean_problem,
)

PATIENCE_SECONDS = 120.0
STANDARD = ("propext", "Classical.choice", "Quot.sound")


def run(
    work: Callable[[LeanWorker], Awaitable[None]],
    limits: LeanLimits | None = None,
    toolchain: LeanToolchain = FAKE_SERVER,
) -> None:
    async def main() -> None:
        worker = await LeanWorker.start(toolchain, limits or LeanLimits(), KnownStatements())
        try:
            await work(worker)
        finally:
            worker.kill()
            await worker.join()

    asyncio.run(main())


def judge_one(candidate: Candidate, limits: LeanLimits | None = None) -> Verdict:
    verdicts = []

    async def work(worker: LeanWorker) -> None:
        verdicts.append(await worker.judge(candidate))

    run(work, limits)
    return verdicts[0]


@pytest.mark.parametrize(
    ("body", "status", "axioms"),
    [
        ("trivial", Status.PROVED, ()),
        ("exact choice", Status.PROVED, STANDARD),
        ("wrong", Status.REJECTED, ()),
        ("sorry", Status.INCOMPLETE, ()),
        ("exhaust", Status.EXHAUSTED, ()),
        ("recurse", Status.EXHAUSTED, ()),
        ("trivial\n#exit", Status.UNSOUND, ()),
        ("trivial\n/- UNCLOSED", Status.REJECTED, ()),
    ],
)
def test_each_kind_of_body_gets_its_status(
    body: str, status: Status, axioms: tuple[str, ...]
) -> None:
    verdict = judge_one(build_lean_candidate(body))
    assert verdict.status is status, verdict.diagnostics
    assert verdict.axioms == axioms
    assert verdict.toolchain == "lean 4.0.0 (lean-server)"


def test_a_proof_names_what_was_checked() -> None:
    assert judge_one(build_lean_candidate("exact choice")).checks == (
        "audit",
        "no-errors",
        "no-sorry",
        "target",
        "type",
        "axioms:3",
    )


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            '{"missing": true}',
            "the statement is not in the environment: Unknown identifier `_root_.t`",
        ),
        ('{"type": "False"}', "the proved statement is not ours"),
        (
            '{"axioms": ["sorryAx"]}',
            "the proof rests on axioms that are not allowed: sorryAx",
        ),
        (
            '{"axioms": ["propext", "t._native.native_decide.ax_1_1"]}',
            "the proof rests on axioms that are not allowed: t._native.native_decide.ax_1_1",
        ),
    ],
)
def test_a_quiet_cheat_is_unsound(script: str, why: str) -> None:
    verdict = judge_one(build_lean_candidate(f"trivial\n  -- fake {script}"))
    assert verdict.status is Status.UNSOUND
    assert verdict.diagnostics[0].message.startswith(why)


@pytest.mark.parametrize(
    "warning", ["declaration uses `sorry`", "declaration uses 'sorry'", "uses sorryAx somewhere"]
)
def test_each_spelling_of_the_sorry_warning_is_incomplete(warning: str) -> None:
    script = f'{{"messages": [{{"severity": "warning", "data": "{warning}"}}]}}'
    verdict = judge_one(build_lean_candidate(f"trivial\n  -- fake {script}"))
    assert verdict.status is Status.INCOMPLETE


def test_an_instance_before_the_statement_changes_its_type() -> None:
    prelude = "local instance : Add Nat := Nat.mul\n"
    verdict = judge_one(build_lean_candidate("trivial", prelude=prelude))
    assert verdict.status is Status.UNSOUND
    assert "True using 1 other instances" in verdict.diagnostics[0].message


def test_more_axioms_are_allowed_by_configuration_only() -> None:
    candidate = build_lean_candidate("exact mine", prelude="axiom mine : True\n")
    assert judge_one(candidate).status is Status.UNSOUND
    allowed = LeanLimits(allowed_axioms=frozenset({"mine"}))
    assert judge_one(candidate, allowed).status is Status.PROVED


def test_places_count_in_the_file_and_in_the_body() -> None:
    preamble = "import Init\n\nopen Nat\n"
    problem = build_lean_problem(preamble=preamble)
    verdict = judge_one(Candidate(problem, "skip\n  wrong"))
    (error,) = verdict.diagnostics
    assert (error.line, error.column) == (6, 2)
    assert (error.body_line, error.body_column) == (2, 2)
    assert (error.end_line, error.end_column) == (6, 3)
    first = judge_one(Candidate(problem, "wrong")).diagnostics[0]
    assert (first.line, first.column, first.body_line, first.body_column) == (5, 2, 1, 0)


def test_goals_of_unsolved_errors_are_given() -> None:
    unsolved = judge_one(build_lean_candidate("unsolved"))
    assert unsolved.status is Status.REJECTED
    assert unsolved.goals == ("case a\nx : Nat\n⊢ x = x", "case b\n⊢ True")


def test_nothing_that_one_candidate_declares_is_there_for_the_next() -> None:
    async def work(worker: LeanWorker) -> None:
        first = build_lean_candidate("exact evil", "a", prelude="axiom evil : False\n")
        assert (await worker.judge(first)).status is Status.UNSOUND
        # To the fake, an unknown name is harmless, and a leaked axiom is not.
        assert (await worker.judge(build_lean_candidate("exact evil", "b"))).axioms == ()
        again = await worker.judge(build_lean_candidate("trivial", "a"))
        assert again.status is Status.PROVED

    run(work)


def test_imports_are_elaborated_once() -> None:
    async def work(worker: LeanWorker) -> None:
        candidates = [
            Candidate(build_lean_problem(f"n{i}", preamble="import Init\n"), "trivial")
            for i in range(3)
        ]
        loaded, original = [], worker.session.load_header

        async def spy(header: str, options: str) -> Elaboration:
            loaded.append(header)
            return await original(header, options)

        worker.session.load_header = spy  # type: ignore[method-assign]
        assert worker.is_warm_for(candidates[0]) is False
        for candidate in candidates:
            assert (await worker.judge(candidate)).status is Status.PROVED
            assert worker.is_warm_for(candidate) is True
        assert loaded == ["import Init\n"]

    run(work)


def test_a_broken_problem_is_not_the_candidates_fault() -> None:
    async def work(worker: LeanWorker) -> None:
        missing = build_lean_problem(preamble="import Missing.Module\n")
        with pytest.raises(ProblemError, match="imports fail in Lean: unknown module prefix"):
            await worker.judge(Candidate(missing, "trivial"))
        broken = Problem("b", "lean", "term", "", f"theorem b : wrong := wrong {HOLE}\n")
        with pytest.raises(ProblemError, match="its own statement fails in Lean: Type mismatch"):
            await worker.judge(Candidate(broken, "trivial"))
        assert (await worker.judge(build_lean_candidate("trivial"))).status is Status.PROVED

    run(work)


def test_larger_heartbeats_of_a_preamble_are_brought_down() -> None:
    sent = []

    async def work(worker: LeanWorker) -> None:
        original = worker.session.run

        async def spy(text: str, env: Environment, **options: Any) -> Elaboration:
            sent.append(text)
            return await original(text, env, **options)

        worker.session.run = spy  # type: ignore[method-assign]
        preamble = "set_option maxHeartbeats 0\nset_option maxHeartbeats 12\n"
        await worker.judge(Candidate(build_lean_problem(preamble=preamble), "trivial"))

    run(work, LeanLimits(max_heartbeats=5000))
    start = "set_option maxHeartbeats 5000\nset_option maxHeartbeats 12\ntheorem t"
    assert [text.startswith(start) for text in sent if "theorem" in text] == [True, True]


def test_a_lone_surrogate_is_rejected_without_harm() -> None:
    async def work(worker: LeanWorker) -> None:
        verdict = await worker.judge(build_lean_candidate("exact '\ud800'"))
        assert verdict.status is Status.REJECTED
        assert "not valid Unicode" in verdict.diagnostics[0].message
        assert (await worker.judge(build_lean_candidate("exact '😀'"))).status is Status.PROVED

    run(work)


@pytest.mark.parametrize(
    ("text", "status", "check"),
    [
        ("theorem a : True := trivial\nlemma b : True := choice\n", Status.PROVED, "theorems:2"),
        ("import Init\ntheorem a : True := trivial\n", Status.PROVED, "theorems:1"),
        ("axiom evil : False\ntheorem a : True := evil\n", Status.UNSOUND, "no-statement"),
        ("theorem a : True := sorry\n", Status.INCOMPLETE, "messages"),
        ("example : True := trivial\n", Status.REJECTED, "no-statement"),
        ("import Missing\ntheorem a : True := trivial\n", Status.REJECTED, "header"),
    ],
)
def test_a_bare_file_is_judged_by_its_theorems(text: str, status: Status, check: str) -> None:
    verdict = judge_one(Candidate(build_lean_problem(kind="file"), text))
    assert (verdict.status, check in verdict.checks) == (status, True), verdict
    assert verdict.stage is (Stage.READING if check == "header" else Stage.PROVER)
