"""Checking drafts: what is kept, what is dropped and counted, and what an interrupt leaves."""

from __future__ import annotations

import asyncio
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.errors import ProblemError, RunError, UsageError, VerifierError
from proverrl.generate.dafny.stream import GENERATOR
from proverrl.generate.families import Names, ProgramText
from proverrl.problems.drafts import DraftChecker, DraftCounts, generate_and_check
from proverrl.problems.load import load_problems, load_references
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from tests.dafny_drafts import generate_drafts
from tests.fake_verifier import FakeVerifier

ENTRIES = frozenset({"Impl$$_module.__default.M", "CheckWellformed$$_module.__default.M"})
LEVELS = (1, 4)


def learn(problem: Problem) -> dict[str, Any]:
    assert "expected_entries" not in problem.metadata
    return {"expected_entries": sorted(ENTRIES)}


def judge_honestly(candidate: Candidate) -> Verdict:
    if candidate.body:
        return Verdict(Status.PROVED, checks=("fake",), seconds=0.5)
    return Verdict(Status.REJECTED, (Diagnostic("error", "no"),), seconds=0.25)


def run(path: Path, verifier: FakeVerifier, num: int = 6) -> DraftCounts:
    checker = DraftChecker(GENERATOR, verifier, learn, "train")
    return asyncio.run(generate_and_check(path, checker, levels=LEVELS, num=num, seed=0))


def test_all_good_drafts_become_rows_in_the_order_of_the_generator(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    verifier = FakeVerifier(judge_honestly)
    counts = run(path, verifier)
    drafts = list(generate_drafts(LEVELS, 6, 0, "train"))
    assert [problem.id for problem in load_problems(path)] == [
        GENERATOR.build_id(d) for d in drafts
    ]
    assert list(load_references(path).values()) == [draft.reference for draft in drafts]
    assert load_problems(path)[0].metadata["expected_entries"] == sorted(ENTRIES)
    assert (counts.num_checked, counts.num_kept, counts.num_dropped) == (6, 6, 0)
    assert (counts.num_candidates, counts.seconds) == (12, 4.5)
    assert counts.describe() == "6 of 6 kept, 0 dropped"


def test_the_work_is_shown_while_it_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    checker = DraftChecker(GENERATOR, FakeVerifier(judge_honestly), learn, "train")
    asyncio.run(
        generate_and_check(tmp_path / "x", checker, levels=LEVELS, num=40, seed=0, show=said.append)
    )
    assert said == [f"{count} checked, {count} of 40 kept" for count in range(2, 41, 2)]


def test_the_command_says_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[FakeVerifier] = []

    def open_verifier(self: object, workers: int, version: str) -> tuple[FakeVerifier, Any]:
        opened.append(FakeVerifier(judge_honestly))
        return opened[-1], learn

    monkeypatch.setattr(type(GENERATOR), "open_verifier", open_verifier)
    words = ["problems", "generate", "dafny", "--levels", "1", "--num", "3", "--out"]
    done = CliRunner().invoke(cli, [*words, str(tmp_path / "mine.json")])
    said = f"{tmp_path / 'mine.json'}: problems are written as .jsonl; give such a name"
    assert isinstance(done.exception, UsageError)
    assert (str(done.exception), opened) == (said, [])
    path = tmp_path / "mine.jsonl"
    for _ in range(2):  # An existing file is replaced.
        done = CliRunner().invoke(cli, [*words, str(path)])
        assert done.exit_code == 0, repr(done.exception)
        assert done.stdout.splitlines()[-1] == f"written: {path}, 3 problems"
        assert len(load_problems(path)) == 3


def test_the_same_call_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(tmp_path / name, FakeVerifier(judge_honestly, delay_seconds=0.001))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("status", "empty", "reason"),
    [
        (Status.REJECTED, False, "reference rejected"),
        (Status.EXHAUSTED, False, "reference exhausted"),
        (Status.TIMEOUT, False, "reference timeout"),
        (Status.PROVED, True, "empty body proved"),
        (Status.CRASHED, True, "empty body crashed"),
    ],
)
def test_a_bad_draft_is_dropped_counted_and_replaced(
    tmp_path: Path, status: Status, empty: bool, reason: str
) -> None:
    path = tmp_path / "train.jsonl"
    first, second, third, fourth = islice(GENERATOR.stream_level(4, 0, "train"), 4)

    def judge(candidate: Candidate) -> Verdict:
        if candidate.problem.id == GENERATOR.build_id(second) and (candidate.body == "") is empty:
            return Verdict(status, checks=("fake",))
        return judge_honestly(candidate)

    counts = run(path, FakeVerifier(judge))
    ids = [problem.id for problem in load_problems(path) if problem.level == 4]
    assert ids == [GENERATOR.build_id(first), GENERATOR.build_id(third), GENERATOR.build_id(fourth)]
    assert (counts.num_kept, counts.num_dropped) == (6, 1)
    assert counts.dropped == {reason: 1}
    assert counts.describe() == (
        f"6 of 6 kept, 1 dropped: 1 {reason} (such as {GENERATOR.build_id(second)})"
    )


def test_a_draft_without_entries_is_dropped() -> None:
    async def check() -> DraftCounts:
        checker = DraftChecker(GENERATOR, FakeVerifier(judge_honestly), lambda _: None, "train")
        rows = checker.check_all(generate_drafts([1], 2, 0, "train"))
        assert [row async for _, row in rows] == [[], []]
        return checker.counts

    assert asyncio.run(check()).dropped == {"no entries": 2}


def test_an_interrupt_cancels_the_work_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("old")
    verifier = FakeVerifier(judge_honestly, delay_seconds=5.0)

    async def interrupt() -> None:
        task = asyncio.create_task(
            generate_and_check(
                path,
                DraftChecker(GENERATOR, verifier, learn, "train"),
                levels=[1],
                num=20,
                seed=0,
            )
        )
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupt())
    assert verifier.num_cancelled == 8
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["train.jsonl"]


def test_a_broken_verifier_stops_the_run(tmp_path: Path) -> None:
    verifier = FakeVerifier(judge_honestly, script={3: VerifierError("no prover")})
    with pytest.raises(VerifierError, match="no prover"):
        run(tmp_path / "x", verifier)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    verifier = FakeVerifier(judge_honestly)
    with pytest.raises(RunError, match="cannot write"):
        run(tmp_path / "file" / "train.jsonl", verifier)
    assert not verifier.calls


def test_a_request_for_no_problem_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="at least one problem"):
        run(tmp_path / "x", FakeVerifier(judge_honestly), num=0)


def test_a_request_for_more_than_there_is_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_tiny(rng: random.Random, names: Names) -> ProgramText:
        return ProgramText([f"{HOLE} {rng.randrange(9)}"], "", "calc")

    monkeypatch.setitem(GENERATOR.families, 1, {"tiny": make_tiny})
    num_tiny = len(list(GENERATOR.stream_level(1, 0, "train")))
    verifier = FakeVerifier(judge_honestly)
    with pytest.raises(
        ProblemError, match=f"level 1 gives only {num_tiny} of 10 train problems; ask for fewer"
    ):
        run(tmp_path / "x", verifier, num=20)
    assert verifier.num_calls == 0
