"""What Lean 4.35.0 (elaborator and kernel; reduced core library) said, replayed without a Lean.

``lean_recorded.jsonl`` holds its answers to the start-up canaries, to our questions about types and
axioms, and to texts that fail, run out, or leave something open. The whole worker reads them: the
processes are ``recorded_lean.py``. To record anew, delete that file and run these tests with
PROVERRL_LEAN. With one and with the file, the real answers are compared with the recorded ones.
"""

import asyncio
import itertools
import os
import sys
from pathlib import Path

import pytest

from proverrl.config.base import LeanBackend
from proverrl.errors import ProblemError
from proverrl.lang.lean.verify.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.verify.workers import file as lean_file
from proverrl.lang.lean.verify.workers import server as lean_server
from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.types import HOLE, Candidate, Problem
from tests import ROOT
from tests.recorded_lean import load

HERE = ROOT / "tests"
RECORD = HERE / "lean_recorded.jsonl"
REAL = os.environ.get("PROVERRL_LEAN", "")
BACKENDS: tuple[LeanBackend, ...] = ("lean-server", "lean-file")


def build(statement: str, body: str, preamble: str = "", prelude: str = "") -> Candidate:
    """A candidate of a theorem ``t``."""
    text = f"theorem t {statement} := by\n  {HOLE}\n"
    return Candidate(Problem("p", "lean", "tactics", preamble, text), body, prelude)


def build_file(text: str) -> Candidate:
    return Candidate(Problem("p", "lean", "file", "", HOLE), text)


OURS = "namespace Ours\n"
FORGED = "axiom Quot.sound : (1 : Nat) = 2\n"
WORK = "have : ∀ a b c : Nat, a + b + c = a + (b + c) := by simp [Nat.add_assoc]\n  "
EXPECTED = [
    (build(": True", "trivial"), "proved", ""),
    (build("{p : Prop} (h : p) : p", "exact h"), "proved", ""),
    (build("{α : Type u} (x : α) : x = x", "rfl", "universe u\n"), "proved", ""),
    (build("(p : Prop) : p ∨ ¬p", "exact Classical.em p"), "proved", ""),
    (build(": True", "sorry"), "incomplete", "declaration uses `sorry`"),
    (build(": True", ""), "rejected", "unsolved goals\n⊢ True"),
    (build(": True ∧ True", "constructor"), "rejected", "unsolved goals\ncase left\n⊢ True"),
    (build("(𝔸 𝔹 : Nat) : 𝔸 = 𝔹", "show 𝔸 = 𝔹; rfl"), "rejected", "Tactic `rfl` failed"),
    (build(": True", "exact unknown"), "rejected", "Unknown identifier `unknown`"),
    (build(": True", "trivial\n/- open"), "rejected", "unterminated comment"),
    (build(": True", "trivial\n#exit"), "unsound", "Lean did not read the text to its end"),
    (
        build(": True", f"exact {'(' * 600}trivial{')' * 600}"),
        "exhausted",
        "maximum recursion depth has been reached",
    ),
    (build(": True", WORK * 40 + "trivial"), "exhausted", "(deterministic) timeout at `"),
    (
        build(": (1 : Nat) = 2", "rfl", prelude="instance : OfNat Nat 2 := ⟨1⟩\n"),
        "unsound",
        "the proved statement is not ours",
    ),
    (
        build(": (1 : Nat) = 2", "exact Ours.Quot.sound", OURS, FORGED),
        "unsound",
        "the proof rests on axioms that are not allowed: Ours.Quot.sound",
    ),
    (build(": True", "trivial", "import No.Such\n"), "ProblemError", "unknown module prefix"),
    (build("(x : α) : x = x", "rfl"), "ProblemError", "Unknown identifier `α`"),
    (build_file("theorem «a b» : True := trivial\n"), "proved", ""),
    (build_file("theorem a : True := sorry\n"), "incomplete", "declaration uses `sorry`"),
]


async def judge_all(backend: LeanBackend, record: Path, real: str) -> list[tuple[str, str]]:
    """Status and messages of each, after the canaries."""
    command = (sys.executable, str(HERE / "recorded_lean.py"), str(record), real)
    toolchain = LeanToolchain("4.35.0", command, backend=backend)
    limits = LeanLimits(max_heartbeats=30)
    worker = await LeanWorker.start(toolchain, limits, KnownStatements())
    found = []
    try:
        for candidate, *_ in EXPECTED:
            try:
                verdict = await worker.judge(candidate)
            except ProblemError as error:
                found.append(("ProblemError", str(error)))
                continue
            said = [diagnostic.message for diagnostic in verdict.diagnostics]
            found.append((verdict.status.value, "\n\n".join(said)))
    finally:
        worker.kill()
        await worker.join()
    return found


@pytest.fixture(autouse=True)
def _known_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames that are the same in each run, and no look at the compiled file, which is empty."""
    numbers = itertools.count()

    def count() -> str:
        return f"nonce-{next(numbers):024x}"

    async def no_replay(*_: object) -> None:
        return None

    monkeypatch.setattr(lean_server, "make_nonce", count)
    monkeypatch.setattr(lean_file, "make_nonce", count)
    monkeypatch.setattr(lean_file.LeanFile, "replay", no_replay)


def check(found: list[tuple[str, str]]) -> None:
    assert [status for status, _ in found] == [status for _, status, _ in EXPECTED]
    for (_, said), (_, _, words) in zip(found, EXPECTED, strict=True):
        assert words in said


@pytest.mark.parametrize("backend", BACKENDS)
def test_recorded_answers_come_to_the_same_verdicts(backend: LeanBackend) -> None:
    real = REAL if REAL and not has_record(backend) else "-"
    check(asyncio.run(judge_all(backend, RECORD, real)))


@pytest.mark.lean
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_real_lean_still_answers_as_recorded(backend: LeanBackend, tmp_path: Path) -> None:
    if not REAL:
        pytest.skip("PROVERRL_LEAN names no lean")
    check(asyncio.run(judge_all(backend, tmp_path / "record", REAL)))


def has_record(backend: LeanBackend) -> bool:
    how = "worker" if backend == "lean-server" else "file"
    return any(kind == how for kind, _ in load(RECORD))
