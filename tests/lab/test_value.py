"""The command fit-value: a folder with a value model, resumed exactly, refused with reasons."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from proverrl.config.search import SearchConfig
from proverrl.errors import RunError, UsageError
from proverrl.lab.value import job
from proverrl.lab.value.command import fit_value_command
from proverrl.lab.value.fit import HeadFit, ValueData, compute_rank_loss
from proverrl.lab.value.job import fit_value
from proverrl.lab.value.model import load_value, read_about
from proverrl.lab.value.options import ValueOptions
from proverrl.lab.value.search import Puct, PuctOptions, puct
from proverrl.lang.records import Prefix
from proverrl.problems.load import make_row
from proverrl.search.base import Functions
from proverrl.search.samples import write_samples
from proverrl.types import Problem
from tests import ROOT
from tests.builders import build_problem
from tests.policy.test_policy import tiny_policy
from tests.search.test_search_samples import make_sample
from tests.search_world import World

MakeOptions = Callable[..., ValueOptions]


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
def make_options(tmp_path: Path) -> MakeOptions:
    policy = tiny_policy()
    policy.save(tmp_path / "policy")
    rollouts = tmp_path / "rollouts"
    rollouts.mkdir()
    for step in (1, 2):
        problems = [build_problem(f"p{i}", n=i) for i in range(20 * step - 20, 20 * step)]
        rows = [json.dumps(row) for problem in problems for row in make_rows(problem)]
        (rollouts / f"step_{step}.jsonl").write_text("\n".join(rows) + "\n", "utf-8")

    def make(**value: Any) -> ValueOptions:
        settings = {
            "policy": str(tmp_path / "policy"),
            "rollouts": [str(rollouts)],
            "hidden": 8,
            "epochs": 12,
            "learning_rate": 0.01,
            "batch_size": 16,
        }
        return ValueOptions.model_validate({**settings, **value})

    return make


def weights_of(folder: Path) -> bytes:
    return (folder / "value" / "value.safetensors").read_bytes()


def figures_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_about(folder / "value")["test"]
    return found


@pytest.mark.slow
def test_a_fit_leaves_a_model_for_a_search(make_options: MakeOptions, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    fit_value(folder, make_options())
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "value"]
    figures = figures_of(folder)
    # What a prefix with text says decides; half of all pairs are empty prefixes.
    assert figures["inside"]["within"] == figures["inside"]["auc"] == 1.0
    assert figures["all"]["num_pairs"] == 2 * figures["inside"]["num_pairs"]
    policy = tiny_policy()
    model = load_value(policy, folder / "value")
    prefixes = [Prefix("invariant k", "s"), Prefix("invariant 0", "t")]
    good, bad = asyncio.run(model(build_problem("new", n=9), prefixes))
    assert good > 0.5 > bad
    before, told = weights_of(folder), list[str]()
    fit_value(folder, make_options(), tell=told.append)
    assert weights_of(folder) == before
    assert told == [f"{folder} is finished; nothing to do"]
    # The policy's weights are named: with others the model says so.
    with pytest.raises(UsageError, match="hidden states of other weights"):
        load_value(tiny_policy(seed=1), folder / "value")
    functions = Functions(World().propose, World().verify, World().segment, policy=policy)
    options = PuctOptions(value=folder / "value")
    assert isinstance(puct(SearchConfig(), functions, options=options), Puct)


@pytest.mark.slow
def test_an_interrupted_fit_goes_on_and_ends_the_same(
    make_options: MakeOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fit_value(tmp_path / "whole", make_options())
    original = HeadFit.run_epoch
    calls: list[int] = []

    def stop_once(fit: HeadFit) -> dict[str, float]:
        calls.append(fit.epoch)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return original(fit)

    monkeypatch.setattr(HeadFit, "run_epoch", stop_once)
    with pytest.raises(KeyboardInterrupt):
        fit_value(tmp_path / "cut", make_options())
    # The features are not made again.
    monkeypatch.setattr(job, "build_data", None)
    fit_value(tmp_path / "cut", make_options())
    assert calls == [0, 1, 2, 3, 4, 5, *range(5, 12)]
    assert weights_of(tmp_path / "cut") == weights_of(tmp_path / "whole")
    assert figures_of(tmp_path / "cut") == figures_of(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["rollouts", "layers"])
def test_a_fit_of_something_else_is_refused(
    make_options: MakeOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: str
) -> None:
    def stop(fit: HeadFit) -> dict[str, float]:
        raise KeyboardInterrupt

    monkeypatch.setattr(HeadFit, "run_epoch", stop)
    with pytest.raises(KeyboardInterrupt):
        fit_value(tmp_path / "out", make_options())
    if changed == "rollouts":
        (tmp_path / "rollouts" / "step_2.jsonl").unlink()
    with pytest.raises(RunError, match="samples or keys changed since this fit was begun"):
        fit_value(tmp_path / "out", make_options(**({"layers": 2} if changed == "layers" else {})))


@pytest.mark.slow
def test_samples_of_searches_are_pairs(make_options: MakeOptions, tmp_path: Path) -> None:
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
    fit_value(tmp_path / "out", make_options(rollouts=[], samples=[str(file)], rank_weight=0.0))
    figures = figures_of(tmp_path / "out")
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
    config = ValueOptions(hidden=8, epochs=20, learning_rate=0.02, rank_weight=0.9, patience=20)
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
        ({"rollouts": []}, "nothing to learn values from; give --run"),
        ({"rollouts": ["none"]}, "rollouts names none, which is not there"),
        ({"layers": 9}, "layers is 9 and the policy has"),
        ({"test_share": 0.001}, "pairs for test are not both solved and unsolved"),
        ({"run": "none"}, "none is no run with rollouts"),
        ({"policy": ""}, "give --run, or set policy to the folder of one"),
    ],
)
def test_what_cannot_be_learned_from_is_named(
    make_options: MakeOptions, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        fit_value(tmp_path / "out", make_options(**change))


def test_held_out_problems_teach_no_values(make_options: MakeOptions, tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    write_samples(file, [make_sample(problem=replace(build_problem("h"), split="heldout"))])
    with pytest.raises(UsageError, match="'h', a held-out problem"):
        fit_value(tmp_path / "out", make_options(samples=[str(file)]))


def test_the_command_says_what_came_of_it(make_options: MakeOptions, tmp_path: Path) -> None:
    keys = make_options(epochs=2).model_dump(exclude_defaults=True)
    given = [word for k, v in keys.items() for word in ("--set", f"{k}={json.dumps(v)}")]
    out = tmp_path / "out"
    result = CliRunner().invoke(
        fit_value_command, ["--out", str(out), *given], catch_exceptions=False
    )
    assert result.exit_code == 0
    assert f"value model: {out / 'value'}" in result.output
    assert "all prefixes of held-back problems: AUC" in result.output
    wrong = CliRunner().invoke(fit_value_command, ["--out", str(out), "--set", "epcohs=2"])
    assert str(wrong.exception).startswith("--set: epcohs: Extra inputs are not permitted")


def test_the_list_of_all_commands_does_not_import_torch() -> None:
    """It imports the lab's commands, and is asked for where torch is not installed."""
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from proverrl.cli.main import cli\n"
        "assert 'fit-value' in CliRunner().invoke(cli, ['--help']).output\n"
        "print([name for name in ('torch', 'transformers', 'datasets') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.stdout) == ("", "[]\n")
