"""The Lean back end against a real Lean, wherever one is installed; skipped elsewhere.

``bash scripts/setup_lean.sh`` brings what these tests need.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from proverrl.errors import ProblemError, ToolchainError
from proverrl.lang.lean.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.workers.toolchain import LeanToolchain, find_lean_toolchain
from proverrl.lang.lean.workers.worker import LeanWorker
from proverrl.types import HOLE, Candidate, Problem, Status
from tests.lean_builders import build_lean_problem

pytestmark = pytest.mark.lean


@pytest.fixture(scope="module")
def toolchain() -> LeanToolchain:
    try:
        return find_lean_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no real Lean here: {error}")


def run(
    toolchain: LeanToolchain,
    work: Callable[[LeanWorker], Awaitable[None]],
    limits: LeanLimits | None = None,
) -> None:
    async def main() -> None:
        # Starting runs the canaries: true, false, sorry, axiom.
        worker = await LeanWorker.start(toolchain, limits or LeanLimits(), KnownStatements())
        try:
            await work(worker)
        finally:
            worker.kill()
            await worker.join()

    asyncio.run(main())


ADD_COMM = build_lean_problem("swap", "∀ a b : Nat, a + b = b + a")
FALSE = build_lean_problem("no", "(1 : Nat) = 2")


def test_each_kind_of_body_gets_its_status(toolchain: LeanToolchain) -> None:
    async def work(worker: LeanWorker) -> None:
        got = {}
        for body in ("intro a b\n  exact Nat.add_comm a b", "sorry", "admit", "intro a b\n  rfl"):
            got[body] = (await worker.judge(Candidate(ADD_COMM, body))).status
        assert list(got.values()) == [
            Status.PROVED,
            Status.INCOMPLETE,
            Status.INCOMPLETE,
            Status.REJECTED,
        ]

    run(toolchain, work)


def test_cheats_that_the_text_audit_did_not_see(toolchain: LeanToolchain) -> None:
    cheats = [
        ("exact sorryAx _ false", ""),
        ("exact (evil : (1 : Nat) = 2)", "axiom evil : (1 : Nat) = 2\n"),
        ("exact evil", "set_option warn.sorry false\ntheorem evil : (1 : Nat) = 2 := sorry\n"),
        ("decide", "local instance : OfNat Nat 2 := ⟨Nat.succ Nat.zero⟩\n"),
        ("rfl", 'local notation "2" => (1 : Nat)\n'),
        ("trivial\n#exit", ""),
    ]

    async def work(worker: LeanWorker) -> None:
        for body, prelude in cheats:
            verdict = await worker.judge(Candidate(FALSE, body, prelude))
            assert verdict.status is not Status.PROVED, (body, prelude, verdict)

    run(toolchain, work)


def test_axioms_and_places_are_reported(toolchain: LeanToolchain) -> None:
    async def work(worker: LeanWorker) -> None:
        excluded = build_lean_problem("lem", "∀ p : Prop, p ∨ ¬p")
        verdict = await worker.judge(Candidate(excluded, "exact Classical.em"))
        assert verdict.status is Status.PROVED
        assert set(verdict.axioms) == {"propext", "Classical.choice", "Quot.sound"}
        wrong = await worker.judge(Candidate(ADD_COMM, "intro a b\n  exact unknown_name"))
        (error,) = [d for d in wrong.diagnostics if d.severity == "error"]
        assert (error.line, error.column, error.body_line, error.body_column) == (3, 8, 2, 8)

    run(toolchain, work)


def test_a_deterministic_limit_is_not_a_time_out(toolchain: LeanToolchain) -> None:
    async def work(worker: LeanWorker) -> None:
        heavy = Candidate(ADD_COMM, "set_option maxHeartbeats 1 in\n  omega")
        assert (await worker.judge(heavy)).status is Status.EXHAUSTED

    run(toolchain, work)


def test_imports_are_kept_and_nothing_else_is(toolchain: LeanToolchain) -> None:
    async def work(worker: LeanWorker) -> None:
        helper = "theorem helper : ∀ a b : Nat, a + b = b + a := Nat.add_comm\n"
        first = await worker.judge(Candidate(ADD_COMM, "exact helper", helper))
        assert first.status is Status.PROVED
        second = await worker.judge(Candidate(ADD_COMM, "exact helper"))
        assert second.status is Status.REJECTED
        lean = build_lean_problem("swap", "∀ a b : Nat, a + b = b + a", "import Lean\n")
        for _ in range(2):
            verdict = await worker.judge(Candidate(lean, "exact Nat.add_comm"))
            assert verdict.status is Status.PROVED
        assert worker.is_warm_for(Candidate(lean, "x"))
        missing = build_lean_problem(preamble="import No.Such.Module\n")
        with pytest.raises(ProblemError, match="imports fail"):
            await worker.judge(Candidate(missing, "trivial"))

    run(toolchain, work)


def test_characters_beyond_the_basic_plane_survive(toolchain: LeanToolchain) -> None:
    async def work(worker: LeanWorker) -> None:
        problem = Problem("face", "lean", "term", "", f'theorem face : "😀".length = 1 := {HOLE}\n')
        assert (await worker.judge(Candidate(problem, "by decide"))).status is Status.PROVED

    run(toolchain, work)
