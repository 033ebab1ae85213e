"""Faults of a Lean worker stay where they are, over a stand-in: no Lean is needed here."""

import asyncio
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from proverrl.errors import ToolchainError, WorkerError
from proverrl.lang.lean.verify.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.types import Status, Verdict
from proverrl.verifier.pool import VerifierPool
from tests import toy_lean
from tests.lang.lean.test_lean_worker import PATIENCE_SECONDS, run
from tests.lean_builders import (
    FAKE_PROGRAM,
    FAKE_SERVER,
    build_lean_candidate,
)


@pytest.mark.parametrize("word", ["HUGE", "FLOOD", "MEMORY"])
def test_noise_alone_changes_no_verdict(word: str) -> None:
    async def work(worker: LeanWorker) -> None:
        verdict = await worker.judge(build_lean_candidate(f"trivial {word}"))
        assert verdict.status is Status.PROVED
        if word == "MEMORY":
            give_up = time.monotonic() + PATIENCE_SECONDS
            while worker.memory_mb < 60:
                assert time.monotonic() < give_up
                await asyncio.sleep(0.05)
        if word == "HUGE":
            assert verdict.diagnostics[0].message.endswith("… (980000 more characters)")
        if word == "FLOOD":
            assert worker.session.groups[-1].stderr_tail.endswith("noise\n")

    run(work)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('return "Type mismatch"', 'return ""', r"\(1 : Nat\) = 2 by rfl came out as proved"),
        ('if "sorry" in words:', 'if "sorry!" in words:', "by sorry came out as proved"),
        (
            'Declaration("axiom", [match.group(1)])',
            'Declaration("axiom")',
            "by canary_axiom came out as proved",
        ),
        ("does not depend on any axioms", "is free of axioms", "not understood"),
    ],
)
def test_a_lean_that_cannot_tell_true_from_false_is_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    text = Path(toy_lean.__file__).read_text(encoding="utf-8")
    assert text.count(old) == 1
    copy = tmp_path / "tests"
    copy.mkdir()
    (copy / "__init__.py").touch()
    (copy / "toy_lean.py").write_text(text.replace(old, new), encoding="utf-8")
    shutil.copy(FAKE_PROGRAM, copy)
    toolchain = replace(FAKE_SERVER, lean_command=(sys.executable, str(copy / FAKE_PROGRAM.name)))

    async def nothing(worker: LeanWorker) -> None:
        raise AssertionError(worker)

    with pytest.raises(ToolchainError, match=said):
        run(nothing, toolchain=toolchain)


def test_a_program_that_is_missing_is_found_out() -> None:
    toolchain = replace(FAKE_SERVER, lean_command=("/nowhere/lean",))

    async def nothing(worker: LeanWorker) -> None:
        raise AssertionError(worker)

    with pytest.raises((ToolchainError, WorkerError), match=r"died|gone"):
        run(nothing, toolchain=toolchain)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_killing_a_worker_takes_its_children_along(tmp_path: Path) -> None:
    pids_file = tmp_path / "pids"

    async def work(worker: LeanWorker) -> None:
        task = asyncio.create_task(worker.judge(build_lean_candidate(f"GRANDCHILD {pids_file} ")))
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not (pids_file.exists() and pids_file.read_text()):
            assert time.monotonic() < give_up
            await asyncio.sleep(0.02)
        assert [is_alive(int(pid)) for pid in pids_file.read_text().split()] == [True, True]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(work)
    give_up = time.monotonic() + PATIENCE_SECONDS
    while any(is_alive(int(pid)) for pid in pids_file.read_text().split()):
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_in_a_pool_a_fault_stays_with_its_candidate(tmp_path: Path) -> None:
    known = KnownStatements()

    async def main() -> list[Verdict]:
        pool = VerifierPool(
            lambda: LeanWorker.start(FAKE_SERVER, LeanLimits(), known),
            workers=2,
            audit=lambda _: None,
            toolchain=FAKE_SERVER.name,
            languages=frozenset({"lean"}),
        )
        bodies = [
            "trivial",
            "CRASH",
            f"CRASH_ONCE {tmp_path / 'once'} trivial",
            "ANOTHER_ID",
            "wrong",
        ]
        candidates = [build_lean_candidate(body, f"n{i}") for i, body in enumerate(bodies)]
        try:
            return await asyncio.gather(
                *(pool.verify(c, deadline_seconds=PATIENCE_SECONDS) for c in candidates)
            )
        finally:
            await pool.aclose()

    verdicts = asyncio.run(main())
    assert [verdict.status for verdict in verdicts] == [
        Status.PROVED,
        Status.REJECTED,
        Status.PROVED,
        Status.REJECTED,
        Status.REJECTED,
    ]
    assert [verdict.cause for verdict in verdicts] == ["", "died", "", "protocol", ""]
