"""pass@k and intervals against closed forms and brute force; resumption of an evaluation."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.config import LayoutName
from proverrl.errors import UsageError
from proverrl.evaluate import Evaluation, bootstrap_interval, evaluate, pass_at_k
from proverrl.policy.base import Exchange
from proverrl.types import Candidate, Completion, Problem, Prompt, Sampling, Status
from proverrl.verify.fake import FakeVerifier
from tests.builders import build_problem


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(16, 1, 8, 0.5), (16, 4, 8, 0.9615384615), (5, 2, 2, 0.7), (8, 0, 8, 0.0), (8, 1, 8, 1.0)],
)
def test_pass_at_k_anchors(n: int, c: int, k: int, expected: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(expected)


@given(st.integers(1, 9), st.data())
@settings(max_examples=60, deadline=None)
def test_pass_at_k_equals_brute_force(n: int, data: st.DataObject) -> None:
    c = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    subsets = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 5), (4, 5, 1), (4, 1, 0)])
def test_pass_at_k_refuses_nonsense(n: int, c: int, k: int) -> None:
    with pytest.raises(UsageError, match=f"pass@{k}"):
        pass_at_k(n, c, k)


def test_bootstrap_interval_of_a_coin() -> None:
    # 100 problems, half solved: the mean's standard error is 0.05, the interval 0.5 +- 0.098.
    low, high = bootstrap_interval([0.0, 1.0] * 50)
    assert low == pytest.approx(0.402, abs=0.011)
    assert high == pytest.approx(0.598, abs=0.011)
    assert bootstrap_interval([1.0] * 7) == (1.0, 1.0)
    assert np.isclose(bootstrap_interval([0.25] * 3), 0.25).all()


class CountingPolicy:
    """Writes the attempt's number; dies on request, as a killed process would."""

    version = 0
    engine = "counting"
    layout: LayoutName = "plain"

    def __init__(self, die_at: int | None = None) -> None:
        self.calls = 0
        self.die_at = die_at

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
        return [
            [Completion(f"try {i}", prompt.token_ids, (5,), (-1.0,), "stop", 0) for i in range(n)]
            for prompt in prompts
        ]


def judge(candidate: Candidate) -> Status:
    """Attempt 0 of even problems is proved; attempt 1 of problem 3 times out."""
    number = int(candidate.problem.id)
    if candidate.body == "try 1" and number == 3:
        return Status.TIMEOUT
    return Status.PROVED if candidate.body == "try 0" and number % 2 == 0 else Status.REJECTED


def build_evaluation(folder: Path) -> Evaluation:
    return Evaluation(
        name="e",
        folder=folder,
        problems=[build_problem(str(i), level=1 + i % 2) for i in range(40)],
        samples=4,
        ks=(1, 4),
        temperature=1.0,
        max_new_tokens=4,
        seed=0,
        deadline_seconds=5.0,
        labels={"split": "test"},
    )


def test_evaluation_counts_by_hand(tmp_path: Path) -> None:
    summary = asyncio.run(
        evaluate(build_evaluation(tmp_path), CountingPolicy(), FakeVerifier(judge))
    )
    everything, even, odd = summary["levels"]
    # 20 of 40 problems solve 1 of 4 attempts; problem 3 has 3 judged attempts, too few for k = 4.
    assert everything["pass"]["1"]["value"] == pytest.approx(20 * 0.25 / 40)
    assert everything["pass"]["4"]["value"] == pytest.approx(20 / 39)
    assert everything["pass"]["4"]["num_problems"] == 39
    assert (everything["attempts"], everything["unjudged"]) == (160, 1)
    assert even["pass"]["4"]["value"] == 1.0
    assert odd["pass"]["1"]["value"] == 0.0
    assert odd["unjudged"] == 1
    assert summary["verifier_calls"] == 160


def test_interrupted_evaluation_repeats_nothing(tmp_path: Path) -> None:
    whole = asyncio.run(
        evaluate(build_evaluation(tmp_path / "a"), CountingPolicy(), FakeVerifier(judge))
    )
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(
            evaluate(build_evaluation(tmp_path / "b"), CountingPolicy(3), FakeVerifier(judge))
        )
    path = tmp_path / "b" / "e.jsonl"
    stored = len(path.read_text().splitlines())
    assert stored == 64  # the first chunk of 16 problems, 4 attempts each
    path.write_text(path.read_text() + '{"problem_id": "cut o')
    verifier = FakeVerifier(judge)
    again = asyncio.run(evaluate(build_evaluation(tmp_path / "b"), CountingPolicy(), verifier))
    assert verifier.num_calls == 160 - 64
    assert again["levels"] == whole["levels"]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({(row["problem_id"], row["attempt"]) for row in rows}) == len(rows) == 160


def test_too_few_samples_for_k(tmp_path: Path) -> None:
    from dataclasses import replace

    with pytest.raises(UsageError, match="at least 8 samples"):
        asyncio.run(
            evaluate(
                replace(build_evaluation(tmp_path), ks=(8,)), CountingPolicy(), FakeVerifier(judge)
            )
        )
