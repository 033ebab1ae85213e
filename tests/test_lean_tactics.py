"""Tactic mode and the deep check, over fakes: nothing here says anything about a real Lean."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from proverrl.lang.lean.workers.repl_worker import LeanReplWorker

from proverrl.errors import ProblemError, WorkerError
from proverrl.lang.lean.deep import (
    CHECKERS,
    DeepOutcome,
    ParanoidVerifier,
    apply_outcomes,
    check_deeply,
    find_checkers,
)
from proverrl.lang.lean.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.search.tactic_states import (
    ProofState,
    apply_tactic,
    open_problem,
    read_state,
)
from proverrl.lang.lean.workers.protocol import LeanMessage, Position, Sorry, StepAnswer
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verify.base import DEFAULT_LANE
from tests.lean_builders import FAKE_LEAN, build_lean_candidate, build_lean_problem


def run(work: Callable[[LeanReplWorker], Awaitable[None]]) -> None:
    async def main() -> None:
        worker = await LeanReplWorker.start(FAKE_LEAN, LeanLimits(), KnownStatements())
        try:
            await work(worker)
        finally:
            worker.kill()
            await worker.join()

    asyncio.run(main())


class WorkerVerifier:
    """One worker as a verifier that remembers what it was asked."""

    def __init__(self, worker: LeanReplWorker) -> None:
        self.worker = worker
        self.bodies: list[str] = []

    def stats(self) -> None:
        return None

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: str = DEFAULT_LANE
    ) -> Verdict:
        self.bodies.append(candidate.body)
        return await asyncio.wait_for(self.worker.judge(candidate), deadline_seconds)

    async def aclose(self) -> None:
        self.worker.kill()


def test_a_search_goes_back_and_forth_and_is_confirmed_by_the_whole_file() -> None:
    async def work(worker: LeanReplWorker) -> None:
        problem = build_lean_problem("t", "p")
        (start,) = await open_problem(worker, problem)
        assert (start.goals, start.status, start.is_failure) == (("⊢ p",), "incomplete", False)
        failed = await apply_tactic(worker, start, "bad")
        assert (failed.id, failed.status, failed.is_failure) == (None, "error", True)
        assert failed.messages == ("Lean error:\n<input>:1:1: unknown tactic",)
        half = await apply_tactic(worker, start, "split")
        assert (half.goals, half.status) == (("⊢ p (half)",), "incomplete")
        done = await apply_tactic(worker, half, "exact choice")
        assert (done.goals, done.status) == ((), "completed")
        # The state before is still there.
        assert (await apply_tactic(worker, start, "exact choice")).status == "completed"
        assert (await apply_tactic(worker, start, "sorry")).status == "incomplete"
        assert (await apply_tactic(worker, start, "old")).status == "not-verified"
        verdict = await worker.judge(Candidate(problem, "split\n  exact choice"))
        assert verdict.status is Status.PROVED
        assert (await worker.judge(Candidate(problem, "wrong"))).status is Status.REJECTED

    run(work)


def test_a_tactic_that_breaks_the_worker_is_a_worker_error() -> None:
    async def work(worker: LeanReplWorker) -> None:
        (start,) = await open_problem(worker, build_lean_problem("t", "p"))
        with pytest.raises(WorkerError, match="died"):
            await apply_tactic(worker, start, "exact CRASH")

    run(work)


def test_a_cheating_tactic_never_reaches_the_repl() -> None:
    async def work(worker: LeanReplWorker) -> None:
        (start,) = await open_problem(worker, build_lean_problem("t", "p"))
        known = worker.repl.num_proof_states
        failed = await apply_tactic(worker, start, "run_tac evil")
        message = "commands: 'run_tac' belongs to a command, not to a proof"
        assert failed == ProofState(None, (), "error", (message,))
        assert worker.repl.num_proof_states == known
        assert (await apply_tactic(worker, start, "exact choice")).status == "completed"

    run(work)


def test_a_problem_without_a_state_is_refused() -> None:
    async def work(worker: LeanReplWorker) -> None:
        broken = Problem("b", "lean", "tactics", "", f"theorem b : wrong := wrong\n  {HOLE}\n")
        with pytest.raises(ProblemError, match="its own statement fails"):
            await open_problem(worker, broken)
        with pytest.raises(ProblemError, match="imports fail"):
            await open_problem(worker, build_lean_problem(preamble="import Missing\n"))

    run(work)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("Completed", "completed"),
        ("Incomplete: open goals remain", "incomplete"),
        ("Incomplete: contains sorry", "incomplete"),
        ("Incomplete: contains metavariable(s)", "incomplete"),
        ("Error: kernel type check failed: (kernel) no", "error"),
        ("Not verified: more than one initial goal", "not-verified"),
    ],
)
def test_each_proof_status_is_read(said: str, status: str) -> None:
    assert read_state(StepAnswer(1, (), status=said)).status == status


def test_a_status_that_contradicts_the_rest_is_not_believed() -> None:
    error = LeanMessage("error", "unsolved goals", Position(0, 0))
    assert read_state(StepAnswer(1, (), (error,), status="Completed")).status == "error"
    assert read_state(StepAnswer(1, ("⊢ p",))).status == "incomplete"
    for answer in (
        StepAnswer(1, ("⊢ p",), status="Completed"),
        StepAnswer(2, (), sorries=(Sorry("⊢ p", 1),), status="Completed"),
        StepAnswer(1, (), status="Completed?"),
        StepAnswer(1, (), status=""),
    ):
        with pytest.raises(WorkerError, match=r"complete|not understood"):
            read_state(answer)


# The deep check


FAKE_LAKE = """#!{python}
import os, pathlib, sys
words = sys.argv[sys.argv.index("env") + 1:]
if words[0] == "lean":
    source = pathlib.Path(words[-1]).read_text()
    pathlib.Path(words[words.index("-o") + 1]).write_text(source)
    sys.exit(1 if "uncompilable" in source else 0)
os.execv(words[0], words)
"""
FAKE_CHECKER = """#!{python}
import os, pathlib, sys, time
folder = os.environ.get("LEAN_PATH", "")
text = "".join(p.read_text() for p in pathlib.Path(folder or ".").glob("Solution*"))
if "slow" in text: time.sleep(600)
print("looked at", *[pathlib.Path(word).name for word in sys.argv[1:]])
sys.exit(1 if "tampered" in text else 0)
"""


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *checkers: str) -> None:
    """Put fake checkers, and a lake that runs them, on this machine for one test."""
    for variable, _ in CHECKERS.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    texts = {"lake": FAKE_LAKE, **dict.fromkeys(checkers, FAKE_CHECKER)}
    for name, text in texts.items():
        path = tmp_path / name
        path.write_text(text.replace("{python}", sys.executable), encoding="utf-8")
        path.chmod(0o755)
    for checker in checkers:
        monkeypatch.setenv(CHECKERS[checker][0], str(tmp_path / checker))
    (tmp_path / "lean-toolchain").write_text("leanprover/lean4:v4.0.0\n", encoding="utf-8")


def check(tmp_path: Path, candidate: Candidate) -> list[DeepOutcome]:
    toolchain = replace(FAKE_LEAN, lake=str(tmp_path / "lake"), project=tmp_path)
    return asyncio.run(check_deeply(candidate, toolchain, LeanLimits()))


def test_every_installed_checker_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, *CHECKERS)
    outcomes = check(tmp_path, build_lean_candidate("trivial"))
    assert outcomes == [
        DeepOutcome("leanchecker", True, "looked at Solution"),
        DeepOutcome("safe_verify", True, "looked at Challenge.olean Solution.olean"),
        DeepOutcome("comparator", True, "looked at config.json"),
    ]
    proved = Verdict(Status.PROVED, checks=("a",))
    checks = ("a", "deep:leanchecker", "deep:safe_verify", "deep:comparator")
    assert apply_outcomes(proved, outcomes) == replace(proved, checks=checks)


def test_none_installed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    assert find_checkers() == {}
    outcomes = check(tmp_path, build_lean_candidate("trivial"))
    assert outcomes == []
    after = apply_outcomes(Verdict(Status.PROVED, checks=("a",)), outcomes)
    assert (after.status, after.checks) == (Status.PROVED, ("a", "deep:none-ran"))


@pytest.mark.parametrize("word", ["tampered", "uncompilable"])
def test_a_refused_proof_is_unsound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    install(tmp_path, monkeypatch, "leanchecker")
    outcomes = check(tmp_path, build_lean_candidate(word))
    assert [outcome.passed for outcome in outcomes] == [False]
    after = apply_outcomes(Verdict(Status.PROVED, checks=("a",)), outcomes)
    assert (after.status, after.checks) == (Status.UNSOUND, ("a", "deep:leanchecker:refused"))


def test_what_a_checker_cannot_do_is_not_counted_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, *CHECKERS)
    bare = Candidate(build_lean_problem(kind="file"), "theorem a : True := trivial\n")
    assert [o.checker for o in check(tmp_path, bare) if o.passed] == ["leanchecker"]
    imports = Candidate(build_lean_problem(preamble="import Init\n"), "trivial")
    passed = [o.checker for o in check(tmp_path, imports) if o.passed]
    assert passed == ["leanchecker", "safe_verify"]


@pytest.mark.slow
def test_only_accepted_proofs_are_checked_deeply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "leanchecker")
    toolchain = replace(FAKE_LEAN, lake=str(tmp_path / "lake"), project=tmp_path)

    async def work(worker: LeanReplWorker) -> None:
        verifier = ParanoidVerifier(WorkerVerifier(worker), toolchain, LeanLimits())
        got = {}
        for body in ("trivial", "wrong tampered", "tampered"):
            verdict = await verifier.verify(build_lean_candidate(body), deadline_seconds=120)
            got[body] = (verdict.status, verdict.checks[-1])
        assert got == {
            "trivial": (Status.PROVED, "deep:leanchecker"),
            "wrong tampered": (Status.REJECTED, "messages"),
            "tampered": (Status.UNSOUND, "deep:leanchecker:refused"),
        }
        late = await verifier.verify(build_lean_candidate("slow"), deadline_seconds=5)
        assert (late.status, late.cause) == (Status.TIMEOUT, "deadline")

    run(work)
    assert os.environ["PATH"] == "/usr/bin:/bin"
