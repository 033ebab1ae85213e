"""The loop "value": a run folder with a value model, resumed exactly, refused with reasons."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.config import Config, ValueConfig, parse_config
from proverrl.errors import ConfigError, RunError, UsageError
from proverrl.jobs import value as value_module
from proverrl.jobs.train import LOOPS, is_finished, train
from proverrl.lang.records import Prefix
from proverrl.problems.load import make_row
from proverrl.report.run import load_runs
from proverrl.report.sections import describe_state
from proverrl.search.samples import write_samples
from proverrl.search.value_fit import HeadFit, ValueData, compute_rank_loss
from proverrl.search.values import load_value
from proverrl.types import Problem
from tests.builders import build_problem
from tests.test_policy import tiny_policy
from tests.test_search_samples import make_sample


def make_rows(problem: Problem) -> list[dict[str, Any]]:
    """A proof that begins with k, and a failure that begins with 0."""
    return [
        {
            "rollout_id": f"{problem.id}-{word}",
            "problem": make_row(problem),
            "status": "proved" if word == "k" else "rejected",
            "body": f"invariant {word}\ninvariant true",
            "turns": [],
        }
        for word in ("k", "0")
    ]


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[..., Config]:
    policy = tiny_policy()
    policy.save(tmp_path / "policy")
    rollouts = tmp_path / "rollouts"
    rollouts.mkdir()
    for step in (1, 2):
        problems = [build_problem(f"p{i}", n=i) for i in range(20 * step - 20, 20 * step)]
        rows = [json.dumps(row) for problem in problems for row in make_rows(problem)]
        (rollouts / f"step_{step}.jsonl").write_text("\n".join(rows) + "\n", "utf-8")

    def make(name: str = "value", **value: Any) -> Config:
        settings = {
            "rollouts": [str(rollouts)],
            "hidden": 8,
            "epochs": 12,
            "learning_rate": 0.01,
            "batch_size": 16,
            **value,
        }
        table = {
            "loop": "value",
            "run": str(tmp_path / name),
            "policy": {"path": str(tmp_path / "policy"), "device": "cpu"},
            "value": settings,
        }
        return parse_config(table, source="test")

    return make


def run(config: Config) -> Path:
    return asyncio.run(train(config, live=False))


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    rows = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows if row["kind"] == kind]


def weights_of(folder: Path) -> bytes:
    return (folder / "value" / "value.safetensors").read_bytes()


@pytest.mark.slow
def test_a_value_run_leaves_a_model_that_a_search_loads(make_config: Callable[..., Config]) -> None:
    config = make_config()
    folder = run(config)
    assert is_finished(config)
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock",
        "metrics.jsonl",
        "resolved.json",
        "value",
    ]
    assert [row["step"] for row in lines(folder, "epoch")] == list(range(1, 13))
    (figures,) = lines(folder, "value")
    # What a prefix with text says decides; half of all pairs are empty prefixes.
    assert figures["inside"]["within"] == figures["inside"]["auc"] == 1.0
    assert figures["all"]["num_pairs"] == 2 * figures["inside"]["num_pairs"]
    policy = tiny_policy()
    model = load_value(policy, folder / "value")
    prefixes = [Prefix("invariant k", "s"), Prefix("invariant 0", "t")]
    good, bad = asyncio.run(model(build_problem("new", n=9), prefixes))
    assert good > 0.5 > bad
    before = weights_of(folder), (folder / "metrics.jsonl").read_bytes()
    run(config)
    assert (weights_of(folder), (folder / "metrics.jsonl").read_bytes()) == before
    # The policy's weights are named: with others the model says so.
    with pytest.raises(UsageError, match="hidden states of other weights"):
        load_value(tiny_policy(seed=1), folder / "value")


@pytest.mark.slow
def test_an_interrupted_run_goes_on_and_ends_the_same(
    make_config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(make_config("whole"))
    original = HeadFit.run_epoch
    calls: list[int] = []

    def stop_once(fit: HeadFit) -> dict[str, float]:
        calls.append(fit.epoch)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return original(fit)

    monkeypatch.setattr(HeadFit, "run_epoch", stop_once)
    config = make_config("cut")
    with pytest.raises(KeyboardInterrupt):
        run(config)
    assert not is_finished(config)
    folder = config.run
    # What was logged after the last saved epoch is dropped, and the features are not made again.
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"kind":"epoch","step":6,"seconds":1.0,"loss":9.0,"valid_loss":9.0}\n')
    monkeypatch.setattr(value_module, "build_data", None)
    run(config)
    assert calls == [0, 1, 2, 3, 4, 5, *range(5, 12)]
    assert weights_of(folder) == weights_of(whole)
    assert lines(folder, "epoch") == lines(whole, "epoch")
    assert lines(folder, "value") == lines(whole, "value")


@pytest.mark.slow
def test_a_run_whose_rollouts_changed_is_refused(
    make_config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stop(fit: HeadFit) -> dict[str, float]:
        raise KeyboardInterrupt

    monkeypatch.setattr(HeadFit, "run_epoch", stop)
    with pytest.raises(KeyboardInterrupt):
        run(make_config())
    (tmp_path / "rollouts" / "step_2.jsonl").unlink()
    with pytest.raises(
        RunError, match="rollouts, samples or proverrl changed since this run was begun"
    ):
        run(make_config())
    with pytest.raises(RunError, match=r"was begun with value.layers = 1, now it is 2"):
        run(make_config(layers=2))


@pytest.mark.slow
def test_samples_of_searches_are_pairs(make_config: Callable[..., Config], tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    write_samples(
        file,
        [
            make_sample(
                problem=build_problem(f"s{i}", n=i),
                body=f"invariant {word} \ninvariant true",
                ends=(12, 27),
                proved=word == "k",
            )
            for i in range(40)
            for word in ("k", "0")
        ],
    )
    folder = run(make_config(rollouts=[], samples=[str(file)], rank_weight=0.0))
    (figures,) = lines(folder, "value")
    assert figures["inside"]["within"] == 1.0
    # Of each sample the empty prefix and its first stretch.
    assert figures["all"]["num_pairs"] == 2 * figures["inside"]["num_pairs"]


def test_rank_loss_by_hand() -> None:
    logits = torch.tensor([1.0, 0.0, 3.0, 2.0])
    labels = torch.tensor([1.0, 0.0, 0.0, 1.0])
    # Problem 0: 1 against 0; problem 1: 2 against 3. Pairs across problems do not count.
    expected = (math.log(1 + math.exp(-1.0)) + math.log(1 + math.exp(1.0))) / 2
    found = compute_rank_loss(logits, labels, torch.tensor([0, 0, 1, 1]))
    assert float(found) == pytest.approx(expected)
    assert float(compute_rank_loss(logits, labels, torch.tensor([0, 1, 2, 3]))) == 0.0


@pytest.mark.slow
def test_ranking_within_problems_learns_what_all_problems_hide() -> None:
    """The first feature says how easy a problem is, the second which of its prefixes is better."""
    generator = torch.Generator().manual_seed(0)
    problems = torch.arange(60).repeat_interleave(4)
    easy = (torch.arange(60) % 2).float().repeat_interleave(4)
    better = torch.tensor([0.0, 0.0, 1.0, 1.0]).repeat(60)
    noise = torch.rand(240, generator=generator)
    labels = ((0.6 * easy + 0.3 * better + 0.25 * noise) > 0.5).float()
    features = torch.stack([easy, better], dim=1)
    data = ValueData(features, torch.arange(240), labels, problems)
    train, valid = problems < 40, problems >= 40
    config = ValueConfig(hidden=8, epochs=20, learning_rate=0.02, rank_weight=0.9, patience=20)
    fit = HeadFit(data, train, valid, config, seed=0)
    while not fit.done:
        fit.run_epoch()
    with torch.inference_mode():
        logits = fit.best(torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, 1.0]]))
    assert logits[1] > logits[0]
    assert logits[3] > logits[2]
    assert logits[0] > logits[2]


def test_batches_are_of_whole_problems() -> None:
    data = ValueData(
        torch.zeros(1, 1),
        torch.zeros(7, dtype=torch.long),
        torch.zeros(7),
        torch.tensor([0, 1, 0, 2, 1, 2, 2]),
    )
    groups = data.groups(torch.tensor([True] * 6 + [False]))
    assert [group.tolist() for group in groups] == [[0, 2], [1, 4], [3, 5]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rollouts": []}, "nothing to learn values from; set value.run"),
        ({"rollouts": ["none"]}, "value.rollouts names none, which is not there"),
        ({"layers": 9}, "value.layers is 9 and the policy has"),
        ({"test_share": 0.001}, "pairs for test are not both solved and unsolved"),
        ({"run": "none"}, "none is no run with rollouts"),
    ],
)
def test_what_cannot_be_learned_from_is_named(
    make_config: Callable[..., Config], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(make_config(**change))


def test_held_out_problems_teach_no_values(
    make_config: Callable[..., Config], tmp_path: Path
) -> None:
    file = tmp_path / "samples.jsonl"
    write_samples(file, [make_sample(problem=replace(build_problem("h"), split="heldout"))])
    with pytest.raises(UsageError, match="'h', a held-out problem"):
        run(make_config(samples=[str(file)]))


def test_a_policy_is_needed(tmp_path: Path, make_config: Callable[..., Config]) -> None:
    config = make_config()
    with pytest.raises(UsageError, match=r"set value.run to a run, or policy.path"):
        run(config.model_copy(update={"policy": config.policy.model_copy(update={"path": ""})}))


def test_every_loop_but_value_is_in_the_table() -> None:
    with pytest.raises(ConfigError, match="'selfplay', 'preferences' or 'value'"):
        parse_config({"loop": "none"}, source="test")
    rounds = {"expert_iteration", "data_loop"}
    assert set(LOOPS) == {"warm_start", "grpo", "selfplay", "preferences", *rounds}


def test_the_command_says_what_came_of_it(
    make_config: Callable[..., Config], tmp_path: Path
) -> None:
    config = make_config(epochs=2)
    file = tmp_path / "value.toml"
    values = "\n".join(f"{k} = {json.dumps(v)}" for k, v in config.value.model_dump().items())
    file.write_text(
        f'loop = "value"\nrun = "{config.run}"\n[policy]\npath = "{config.policy.path}"\n'
        f'device = "cpu"\n[value]\n{values}\n'
    )
    result = CliRunner().invoke(cli, ["train", str(file)], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"value model: {config.run / 'value'}" in result.output
    assert "all prefixes of held-back problems: AUC" in result.output
    (record,) = load_runs([config.run])
    assert describe_state(record).startswith("value model of 2 epochs, finished. On held-back")
    again = CliRunner().invoke(cli, ["train", str(file)], catch_exceptions=False)
    assert "is finished; nothing to do" in again.output
    problems = tmp_path / "new.jsonl"
    problems.write_text(json.dumps(make_row(build_problem("new", n=9))) + "\n", "utf-8")
    words = ["search", str(problems), "--config", str(file), "--out", str(tmp_path / "searches")]
    unused = CliRunner().invoke(cli, [*words, "--set", f"search.value={config.run / 'value'}"])
    assert 'search.name = "best_of_n" asks no value model' in str(unused.exception)
    assert not (tmp_path / "searches").exists()
