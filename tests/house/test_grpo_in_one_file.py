"""The example that a student reads first: its formulas by hand, and a run of it."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import re
import subprocess
import sys
from types import ModuleType

import pytest
import torch

from proverrl import load_problems, load_references
from proverrl.types import Completion, Sampling
from tests import ROOT

SCRIPT = ROOT / "examples" / "grpo_in_one_file.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("grpo_in_one_file", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_what_was_not_judged_leaves_the_comparison(example: ModuleType) -> None:
    written = [Completion(str(i), (1,), (2,), (0.0,), "stop", 0) for i in range(4)]

    def compare(*rewards: float | None) -> list[tuple[str, float]]:
        group = [example.Attempt(c, r) for c, r in zip(written, rewards, strict=False)]
        return [
            (completion.text, round(advantage, 9))
            for completion, advantage in example.compare(group)
        ]

    assert compare(1.0, 0.0, None, 1.0) == [
        ("0", 0.333333333),
        ("1", -0.666666667),
        ("3", 0.333333333),
    ]
    assert compare(1.0, None, 1.0) == compare(0.0, 0.0) == compare(None, 1.0) == []


def test_the_loss_by_hand(example: ModuleType) -> None:
    """Ratios 1.5, 1 and 0.5 of which the last is padding in the first row."""
    logprobs = torch.tensor([[math.log(1.5), 0.0, math.log(0.5)]] * 2)
    counts = torch.tensor([[True, True, False], [True, True, True]])
    advantages = torch.tensor([[1.0], [-2.0]])
    loss = example.grpo_loss(logprobs, torch.zeros(2, 3), advantages, counts)
    # Row 1: 1.2 (clipped) and 1. Row 2: -3, -2, and -1.6 (0.5 is clipped to 0.8).
    assert loss.item() == pytest.approx(-(1.2 + 1 - 3 - 2 - 1.6) / 5, rel=1e-6)


def test_the_learner_sees_the_probabilities_that_the_sampler_drew_with(
    example: ModuleType,
) -> None:
    """In one batch with a longer row, whose padding must change nothing."""
    problems = load_problems(f"{example.CURRICULUM}/train.jsonl")[:2]
    references = load_references(f"{example.CURRICULUM}/train.jsonl")
    policy = example.open_fresh_policy(problems, references, 0)
    prompts = [policy.prompt(problem) for problem in problems]
    sampling = Sampling(max_new_tokens=12, seed=3)
    written = [
        c for row in asyncio.run(policy.generate(prompts, n=2, sampling=sampling)) for c in row
    ]
    with torch.no_grad():
        logprobs, counts = example.token_logprobs(
            policy, [(c.prompt_ids, c.token_ids) for c in written]
        )
    for completion, values, places in zip(written, logprobs, counts, strict=True):
        # float32: 4 layers, sums over at most 512 entries.
        assert values[places].tolist() == pytest.approx(completion.logprobs, abs=1e-4)


@pytest.mark.slow
@pytest.mark.dafny
def test_the_example_runs() -> None:
    given = ["--warm", "10", "--steps", "1", "--problems", "2", "--group", "2", "--heldout", "2"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *given], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    figure = r"held out: \d+\.\d% proved\n"
    steps = r"step 1/1  proved \d+\.\d%  learned from \d+  \d+ s\n"
    assert re.fullmatch(rf"warm start 10/10  loss \d\.\d+\n{figure}{steps}{figure}", done.stdout)
