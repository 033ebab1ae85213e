"""The guard: decisions on numbers, and what a stopped run leaves behind."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from proverrl.config import GuardConfig, LearnerConfig
from proverrl.errors import GuardError
from proverrl.learner import guard as guard_module
from proverrl.learner.guard import (
    Guard,
    find_entropy,
    find_not_finite,
    find_ratio,
    find_reward_jump,
)
from proverrl.learner.learner import TorchLearner
from tests.builders import build_test_group
from tests.tiny_model import tiny_model, tiny_samples

FINE = {"loss": 0.1, "grad_norm": 1.0, "ratio_max": 1.5, "entropy": 0.7}


def build_guard(folder: Path, **settings: object) -> tuple[Guard, list[str]]:
    said: list[str] = []
    return Guard(GuardConfig.model_validate(settings), folder, said.append), said


def test_fine_numbers_are_fine() -> None:
    assert find_not_finite(FINE) == find_ratio(FINE) == find_entropy(FINE) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["loss", "grad_norm"])
def test_what_is_not_finite_is_found(name: str, value: float) -> None:
    [finding] = find_not_finite({**FINE, name: value})
    assert finding.message == f"{name} is {value}"


def test_bounds_are_exact() -> None:
    assert find_ratio({"ratio_max": 1000.0}) == []
    [ratio] = find_ratio({"ratio_max": 1024.0})
    assert ratio.message == "a token's probability moved by a factor of 1024, more than 1000"
    assert find_entropy({"entropy": 0.005}) == []
    [entropy] = find_entropy({"entropy": 0.00125})
    assert entropy.message == "entropy is 0.00125 nats per token, less than 0.005"


def test_a_jump_is_measured_against_a_full_window() -> None:
    assert find_reward_jump(1.0, [0.0] * 9) == []
    # Mean of the last ten 0.25; 0.6 is a jump of 0.35, which is allowed.
    history = [1.0, *[0.125, 0.375] * 5]
    assert find_reward_jump(0.6, history) == []
    [finding] = find_reward_jump(0.75, history)
    assert finding.message.startswith("the solve rate jumped from 0.250 to 0.750")
    assert find_reward_jump(0.0, [1.0] * 10) == []


def test_what_is_off_is_neither_said_nor_counted(tmp_path: Path) -> None:
    guard, said = build_guard(tmp_path, action="off")
    for rate in [0.0] * 10 + [1.0]:
        guard.watch([], rate)
    assert (said, guard.warnings) == ([], {})


def test_a_stop_saves_the_groups_of_a_jump(tmp_path: Path) -> None:
    guard, _ = build_guard(tmp_path / "guard", action="stop")
    group = build_test_group("p1", [1.0, 0.0])
    for _ in range(10):
        guard.watch([group], 0.1)
    guard.watch([group], None)
    assert guard.history == [0.1] * 10
    with pytest.raises(GuardError, match=r"jumped .* the batch is in .*reward_jump\.json") as error:
        guard.watch([group], 0.9)
    saved = json.loads(error.value.path.read_text())
    candidate = group.rollouts[0].turns[0].candidate
    assert candidate is not None
    assert saved["rollouts"][0] == {
        "rollout_id": "p1-0",
        "verdict": {"problem": "p1", "status": "proved", "key": candidate.key},
        "reward": 1.0,
        "text": "body 0",
    }
    assert [row["reward"] for row in saved["rollouts"]] == [1.0, 0.0]


def test_a_warning_is_said_counted_and_lets_the_update_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_module, "MIN_ENTROPY", 100.0)
    guard, said = build_guard(tmp_path / "guard")
    model = tiny_model()
    learner = TorchLearner(model, LearnerConfig(), temperature=1.0, check=guard.check)
    learner.step(tiny_samples(model))
    assert learner.version == 1
    assert guard.warnings == {"entropy": 1}
    assert said[0].endswith("nats per token, less than 100")
    assert not (tmp_path / "guard").exists()


def test_a_stop_saves_the_batch_before_the_update(tmp_path: Path) -> None:
    guard, _ = build_guard(tmp_path / "guard")
    model = tiny_model()
    samples = tiny_samples(model)
    group = build_test_group("r0", [1.0, 0.0])
    guard.watch([group], 0.5)
    learner = TorchLearner(model, LearnerConfig(), temperature=1.0, check=guard.check)
    with torch.no_grad():
        model.get_output_embeddings().weight[5] = math.nan
    with pytest.raises(GuardError, match=r"^loss is nan; the batch is in ") as error:
        learner.step(samples)
    assert learner.version == 0
    saved = json.loads(error.value.path.read_text())
    assert error.value.path == tmp_path / "guard" / "not_finite.json"
    assert saved["metrics"]["loss"] is None
    by_id = {row["rollout_id"]: row for row in saved["samples"]}
    assert set(by_id) == {s.rollout_id for s in samples}
    first, row = samples[0], by_id["r0-0/0"]
    p = first.prompt_length
    assert row["prompt_ids"] == list(first.token_ids[:p])
    assert row["token_ids"] == list(first.token_ids[p:])
    assert row["sampler_logprobs"] == list(first.logprobs[p:])
    assert row["advantages"] == list(first.advantages[p:])
    assert row["logprobs"] == [None] * len(row["token_ids"])
    assert row["verdict"]["status"] == "proved"
    assert by_id["r1-0/0"]["verdict"] is None


def test_state_goes_through_a_checkpoint(tmp_path: Path) -> None:
    guard, _ = build_guard(tmp_path)
    for rate in (0.1, *[0.2] * 10):
        guard.watch([], rate)
    guard.warnings["ratio"] = 3
    again, _ = build_guard(tmp_path)
    again.load_state_dict(json.loads(json.dumps(guard.state_dict())))
    assert again.history == [0.2] * 10
    assert again.warnings == {"ratio": 3}
