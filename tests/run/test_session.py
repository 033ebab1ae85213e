"""Choosing references, keeping proofs, supervised batches: what the loops share."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from proverrl.config import Config
from proverrl.errors import ProblemError, RunError
from proverrl.run.pairs import Pair, PairSource
from proverrl.run.run_folder import lock_run
from proverrl.run.session import (
    budget_spent,
    run_fraction,
    split_references,
)
from proverrl.run.supervised import Imitation, draw_batches
from tests.builders import build_problem
from tests.policy.test_policy import tiny_policy
from tests.tolerance import FLOAT32

PROBLEMS = [
    build_problem(f"p{i}", level=1 + i % 2, family=f"f{i % 2}{i // 2 % 5}") for i in range(60)
]
REFERENCES = {problem.id: "invariant true" for problem in PROBLEMS}


def test_references_cover_families_evenly() -> None:
    split = split_references(PROBLEMS, REFERENCES, {"1": 10, "2": 5}, seed=0)
    levels = Counter(problem.level for problem, _ in split.references)
    assert levels == {1: 10, 2: 5}
    families = Counter(problem.family for problem, _ in split.references)
    assert set(families.values()) == {1, 2}
    assert len(families) == 10
    assert len(split.without_reference) == 45
    other = split_references(PROBLEMS, REFERENCES, {"1": 10, "2": 5}, seed=1)
    assert {p.id for p, _ in split.references} != {p.id for p, _ in other.references}


def test_too_few_references_are_named() -> None:
    with pytest.raises(ProblemError, match=r"31 references of level 1, the training file has 30"):
        split_references(PROBLEMS, REFERENCES, {"1": 31}, seed=0)


def test_the_nearest_limit_measures_the_run() -> None:
    free = Config()
    assert run_fraction(free, 0.25, 10_000, 10_000.0) == 0.25
    limited = Config(max_verifier_calls=1000, max_minutes=10.0)
    assert run_fraction(limited, 0.1, 300, 60.0) == 0.3
    assert run_fraction(limited, 0.1, 300, 240.0) == 0.4
    # The last draw may go past a limit.
    assert run_fraction(limited, 0.1, 1200, 0.0) == 1.0


def test_batches_show_every_pair_as_often() -> None:
    def source(i: int) -> PairSource:
        return lambda: Pair((1,) * (i % 7 + 1), (i,))

    batches = draw_batches([source(i) for i in range(48)], 4, random.Random(0))
    seen: Counter[int] = Counter()
    for _ in range(48):  # four passes of 12 batches
        batch = next(batches)
        lengths = [len(pair.prompt_ids) for pair in batch]
        assert max(lengths) - min(lengths) <= 2
        seen.update(pair.target_ids[0] for pair in batch)
    assert set(seen.values()) == {4}


def test_imitation_weighs_prompt_and_target() -> None:
    policy = tiny_policy()

    def loss(prompt_weight: float, *batch: Pair) -> torch.Tensor:
        imitation = Imitation(prompt_weight)
        return imitation.compute(policy.model, batch, imitation.denominator(batch))[0]

    pair = Pair((5, 6, 7), (8, 9))
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([[5, 6, 7, 8, 9]])).logits[0]
        nll = [-float(torch.log_softmax(logits[i], -1)[t]) for i, t in enumerate((6, 7, 8, 9))]
        alone = loss(0.0, pair)
        both = loss(0.25, pair, Pair((5,), (6,)))
        # The last token of the prompt is somebody else's text.
        shown = loss(0.25, replace(pair, num_shown=1))
    assert float(alone) == pytest.approx((nll[2] + nll[3]) / 2, abs=FLOAT32)
    total = 0.25 * (nll[0] + nll[1]) + nll[2] + nll[3] + nll[0]
    assert float(both) == pytest.approx(total / (0.25 * 2 + 2 + 1), abs=FLOAT32)
    total = 0.25 * nll[0] + nll[2] + nll[3]
    assert float(shown) == pytest.approx(total / (0.25 + 2), abs=FLOAT32)


def test_budgets() -> None:
    config = Config(max_verifier_calls=100, max_minutes=2)
    assert budget_spent(config, 99, 119.0) == ""
    assert budget_spent(config, 100, 0.0) == "100 verifier calls used"
    assert budget_spent(config, 0, 120.0) == "2.0 minutes used"


def test_a_run_folder_has_one_writer(tmp_path: Path) -> None:
    with lock_run(tmp_path), pytest.raises(RunError, match="another process"), lock_run(tmp_path):
        pass
    with lock_run(tmp_path):
        pass
