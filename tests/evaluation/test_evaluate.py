"""What an evaluation counts, stores and takes up again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.config import LayoutName, RolloutConfig
from proverrl.errors import RunError, UsageError
from proverrl.evaluation.evaluate import Evaluation, Standing, evaluate
from proverrl.evaluation.store import ROWS_PER_BLOCK, plan_blocks
from proverrl.policy.base import Exchange, require_room
from proverrl.problems.prompt import NOTHING_BEFORE
from proverrl.types import Candidate, Completion, Problem, Prompt, Sampling, Status
from tests.builders import build_problem
from tests.fake_verifier import FakeVerifier
from tests.policy.test_policy import tiny_policy


class CountingPolicy:
    """Writes a problem's tries by number, counting what it has written on each; dies on request,
    as a killed process would."""

    version = 0
    engine = "counting"
    layout: LayoutName = "plain"
    before = NOTHING_BEFORE

    def __init__(self, die_at: int | None = None, written: dict[str, int] | None = None) -> None:
        self.calls = 0
        self.die_at = die_at
        self.written = {} if written is None else written

    def prompt(self, problem: Problem) -> Prompt:
        return Prompt(problem.id, problem.statement, (1,))

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        raise AssertionError("whole proofs have one turn")

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        self.calls += 1
        if self.calls == self.die_at:
            raise KeyboardInterrupt
        return [[self._write(prompt) for _ in range(n)] for prompt in prompts]

    def _write(self, prompt: Prompt) -> Completion:
        number = self.written.get(prompt.problem_id, 0)
        self.written[prompt.problem_id] = number + 1
        return Completion(f"try {number}", prompt.token_ids, (5,), (-1.0,), "stop", 0)


def judge(candidate: Candidate) -> Status:
    """Attempt 0 of even problems is proved; attempt 1 of problem 3 times out."""
    number = int(candidate.problem.id)
    if candidate.body == "try 1" and number == 3:
        return Status.TIMEOUT
    return Status.PROVED if candidate.body == "try 0" and number % 2 == 0 else Status.REJECTED


def build_evaluation(folder: Path, **changes: Any) -> Evaluation:
    problems = [build_problem(str(i), level=1 + i % 2) for i in range(40)]
    for number, problem in enumerate(problems):
        cast("dict[str, Any]", problem.metadata)["category"] = "ab"[number // 20]
    evaluation = Evaluation(
        name="e",
        folder=folder,
        problems=problems,
        samples=4,
        ks=(1, 4),
        temperature=1.0,
        max_new_tokens=4,
        seed=0,
        deadline_seconds=5.0,
        labels={"split": "test"},
        settings={"policy_sha256": "p", "temperature": 1.0},
    )
    return replace(evaluation, **changes)


def test_evaluation_counts_by_hand(tmp_path: Path) -> None:
    summary = asyncio.run(
        evaluate(
            build_evaluation(tmp_path),
            CountingPolicy(),
            FakeVerifier(judge),
            figures=lambda: {"canaries": {"refused": 3}},
        )
    )
    everything, even, odd = summary["levels"]
    # 20 of 40 problems solve 1 of 4 attempts; problem 3 has 3 judged attempts, too few for k = 4.
    assert everything["pass"]["1"]["value"] == pytest.approx(20 * 0.25 / 40)
    assert everything["pass"]["4"]["value"] == pytest.approx(20 / 39)
    assert everything["pass"]["4"]["num_problems"] == 39
    # 20 ones and 19 zeros: the deviation is sqrt(20 * 19 / (39 * 38)), over the root of 39.
    assert everything["pass"]["4"]["stderr"] == pytest.approx((20 * 19 / 39 / 38 / 39) ** 0.5)
    assert (everything["attempts"], everything["unjudged"]) == (160, 1)
    assert even["pass"]["4"]["value"] == 1.0
    assert odd["pass"]["1"]["value"] == 0.0
    assert odd["unjudged"] == 1
    assert summary["verifier_calls"] == 160
    first, second = summary["categories"]
    assert (first["category"], first["num_problems"], first["unjudged"]) == ("a", 20, 1)
    assert (second["category"], second["pass"]["1"]["value"]) == ("b", 10 * 0.25 / 20)
    assert summary["families"] == []
    assert summary["canaries"] == {"refused": 3}
    assert summary["policy_sha256"] == "p"


def test_interrupted_evaluation_repeats_nothing(tmp_path: Path) -> None:
    whole = asyncio.run(
        evaluate(build_evaluation(tmp_path / "a"), CountingPolicy(), FakeVerifier(judge))
    )
    written: dict[str, int] = {}
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(
            evaluate(
                build_evaluation(tmp_path / "b"), CountingPolicy(3, written), FakeVerifier(judge)
            )
        )
    path = tmp_path / "b" / "e.jsonl"
    stored = len(path.read_text().splitlines())
    assert stored == 40  # the first block: attempt 0 of every problem
    # Attempt 1 was written and not stored: a policy with seeds writes the same again.
    written |= dict.fromkeys(written, 1)
    path.write_text(path.read_text() + '{"problem_id": "cut o')
    verifier = FakeVerifier(judge)
    again = asyncio.run(
        evaluate(build_evaluation(tmp_path / "b"), CountingPolicy(None, written), verifier)
    )
    assert verifier.num_calls == 160 - 40
    assert again["levels"] == whole["levels"]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({(row["problem_id"], row["attempt"]) for row in rows}) == len(rows) == 160


def test_a_block_that_was_written_in_part_is_made_again(tmp_path: Path) -> None:
    asyncio.run(evaluate(build_evaluation(tmp_path), CountingPolicy(), FakeVerifier(judge)))
    path = tmp_path / "e.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    # Attempts 2 and 3 are one block of 40 problems; its last 10 lines are lost.
    path.write_text("".join(lines[:-10]))
    verifier = FakeVerifier(judge)
    asyncio.run(evaluate(build_evaluation(tmp_path), CountingPolicy(), verifier))
    assert verifier.num_calls == 80
    assert len(path.read_text().splitlines()) == 160


def test_a_damaged_line_in_the_middle_stops_and_deletes_nothing(tmp_path: Path) -> None:
    asyncio.run(evaluate(build_evaluation(tmp_path), CountingPolicy(), FakeVerifier(judge)))
    path = tmp_path / "e.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    damaged = "".join([*lines[:4], lines[4][:20] + "\n", *lines[5:]])
    path.write_text(damaged)
    verifier = FakeVerifier(judge)
    with pytest.raises(RunError, match="line 5: not a JSON object"):
        asyncio.run(evaluate(build_evaluation(tmp_path), CountingPolicy(), verifier))
    assert (verifier.num_calls, path.read_text()) == (0, damaged)


def test_attempts_are_added_and_other_settings_refused(tmp_path: Path) -> None:
    few = build_evaluation(tmp_path, samples=2, ks=(1,))
    written: dict[str, int] = {}
    asyncio.run(evaluate(few, CountingPolicy(None, written), FakeVerifier(judge)))
    verifier = FakeVerifier(judge)
    more = asyncio.run(
        evaluate(build_evaluation(tmp_path), CountingPolicy(None, written), verifier)
    )
    assert verifier.num_calls == 80
    whole = asyncio.run(
        evaluate(build_evaluation(tmp_path / "whole"), CountingPolicy(), FakeVerifier(judge))
    )
    assert more["levels"] == whole["levels"]
    # Asked for fewer, all that are there count; nothing is made.
    silent = CountingPolicy(die_at=1)
    again = asyncio.run(evaluate(few, silent, FakeVerifier(judge)))
    assert (silent.calls, again["samples_per_problem"]) == (0, 4)
    # The k that were asked for before stay.
    assert again["levels"] == whole["levels"]
    changed = build_evaluation(tmp_path, settings={"policy_sha256": "q", "temperature": 1.0})
    with pytest.raises(UsageError, match="policy_sha256 = 'p'; now it is 'q'"):
        asyncio.run(evaluate(changed, CountingPolicy(), FakeVerifier(judge)))
    (tmp_path / "e.settings").unlink()
    with pytest.raises(RunError, match=r"e\.settings, to which the attempts beside it belong"):
        asyncio.run(evaluate(few, CountingPolicy(), FakeVerifier(judge)))


@pytest.mark.parametrize("change", [{"turns": ...}, {"status": "banana"}, {"turns": [{}]}])
def test_damaged_attempts_are_named_before_anything_is_made(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    plan = build_evaluation(tmp_path)
    asyncio.run(evaluate(plan, CountingPolicy(), FakeVerifier(judge)))
    path = tmp_path / "e.jsonl"
    first, *others = path.read_text().splitlines()
    row = {**json.loads(first), **change}
    row = {key: value for key, value in row.items() if value is not ...}
    damaged = "\n".join([json.dumps(row), *others]) + "\n"
    path.write_text(damaged)
    silent = CountingPolicy(die_at=1)
    with pytest.raises(RunError, match=r"e\.jsonl"):
        asyncio.run(evaluate(plan, silent, FakeVerifier(judge)))
    assert (silent.calls, path.read_text()) == (0, damaged)


@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 200))
@settings(max_examples=50, deadline=None)
def test_blocks_hold_every_attempt_once_and_do_not_move(
    fewer: int, more: int, num_problems: int
) -> None:
    fewer, more = sorted((fewer, more))
    problems = [build_problem(str(i)) for i in range(num_problems)]
    first = plan_blocks(problems, fewer, set())
    stored = {(p.id, n) for block in first for p in block.problems for n in block.missing}
    assert len(stored) == fewer * num_problems
    assert all(len(block.problems) * block.size <= ROWS_PER_BLOCK for block in first)
    rest = plan_blocks(problems, more, stored)
    whole = plan_blocks(problems, more, set())
    # What is drawn for an attempt (seed, problems, number) is the same in one go and in two.
    draws = {(b.name, len(b.problems), b.first, b.size, n) for b in whole for n in b.missing}
    halves = {
        (b.name, len(b.problems), b.first, b.size, n) for b in (*first, *rest) for n in b.missing
    }
    assert draws == halves
    assert sum(len(b.missing) * len(b.problems) for b in (*first, *rest)) == more * num_problems


@pytest.mark.parametrize("fewer", [1, 3, 8])
def test_8_and_then_24_attempts_are_32_bit_for_bit(tmp_path: Path, fewer: int) -> None:
    problems = [build_problem(f"p{i}", n=10**i) for i in range(5)]
    policy = tiny_policy()
    base = build_evaluation(tmp_path / "two", problems=problems, ks=(1,), max_new_tokens=6)

    def run(folder: str, samples: int) -> str:
        evaluation = replace(base, folder=tmp_path / folder, samples=samples)
        asyncio.run(evaluate(evaluation, policy, FakeVerifier(lambda _: Status.REJECTED)))
        rows = [json.loads(line) for line in (tmp_path / folder / "e.jsonl").open()]
        return json.dumps(sorted(rows, key=lambda row: (row["problem_id"], row["attempt"])))

    at_once = run("one", 32)
    run("two", fewer)
    assert run("two", 32) == at_once
    # Not because every attempt is alike.
    assert len({row["completion_text"] for row in json.loads(at_once)}) > 100


class ShortPolicy(CountingPolicy):
    """Has no room for problems 2 and 5; a filter withholds what it writes on problem 4."""

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        rows = await super().generate(prompts, n=n, sampling=sampling)
        fitting = [
            None if p.problem_id in ("2", "5") else row
            for p, row in zip(prompts, rows, strict=True)
        ]
        return require_room(prompts, fitting, n=n, why="too long")

    def _write(self, prompt: Prompt) -> Completion:
        written = super()._write(prompt)
        if prompt.problem_id != "4":
            return written
        return replace(written, text="", finish_reason="content_filter")


def test_problems_without_room_are_left_out_named_and_counted(tmp_path: Path) -> None:
    standings: list[Standing] = []
    verifier = FakeVerifier(judge)
    evaluation = build_evaluation(tmp_path)
    summary = asyncio.run(evaluate(evaluation, ShortPolicy(), verifier, progress=standings.append))
    everything = summary["levels"][0]
    # Problems 2 and 5 count nowhere; of the other 38 problems 18 solve 1 of 4 attempts.
    assert everything["unjudged"] == 8 + 1
    assert everything["pass"]["1"]["num_problems"] == 38
    assert everything["pass"]["1"]["value"] == pytest.approx(18 * 0.25 / 38)
    assert summary["warnings"] == [standings[-1].warnings["no_room"]]
    assert summary["warnings"][0].startswith("2 problems are left out, because they leave the")
    assert ": 2, 5. Take a model" in summary["warnings"][0]
    rows = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    found = {(r["finish_reason"], r["status"], r["turns"][0].get("reason")) for r in rows}
    assert found >= {
        ("no_room", "crashed", "the prompt leaves the model no room for an answer"),
        ("content_filter", "rejected", "a filter of the server withheld the answer"),
    }
    # Neither is an empty body that somebody wrote.
    assert not {c.problem.id for c in verifier.calls} & {"2", "4", "5"}
    assert summary["without_candidate"] == 4
    again = asyncio.run(evaluate(evaluation, ShortPolicy(die_at=1), FakeVerifier(judge)))
    assert again["warnings"] == summary["warnings"]


class TalkingPolicy(CountingPolicy):
    """Can be told of a failure, and then writes a proof."""

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        return replace(prompt, text="again")

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        texts = ["proof" if prompt.text == "again" else "try" for prompt in prompts]
        return [
            [Completion(text, prompt.token_ids, (5,), (-1.0,), "stop", 0)] * n
            for text, prompt in zip(texts, prompts, strict=True)
        ]


def test_attempts_take_turns(tmp_path: Path) -> None:
    turns = build_evaluation(tmp_path, rollout=RolloutConfig(mode="self_correct", turns=2))
    verifier = FakeVerifier(lambda c: Status.PROVED if c.body == "proof" else Status.REJECTED)
    summary = asyncio.run(evaluate(turns, TalkingPolicy(), verifier))
    rows = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    assert {(len(row["turns"]), row["status"]) for row in rows} == {(2, "proved")}
    assert summary["levels"][0]["pass"]["1"]["value"] == 1.0


def test_too_few_samples_for_k(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 8 samples"):
        asyncio.run(
            evaluate(build_evaluation(tmp_path, ks=(8,)), CountingPolicy(), FakeVerifier(judge))
        )
