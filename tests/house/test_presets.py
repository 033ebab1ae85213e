"""Every preset trains from end to end at tiny size, and says what it is."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from proverrl.config import Config, load_config
from proverrl.errors import ConfigError
from proverrl.jobs import train as train_module
from proverrl.jobs.train import train
from proverrl.run.run_folder import is_ended
from tests import ROOT
from tests.run.test_grpo import StubVerifier, judge, write_split

FOLDER = ROOT / "configs" / "presets"
PRESETS = sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != "base")
DECODING = {path.stem: path for path in sorted((FOLDER / "decoding").glob("*.toml"))}
TINY = """
policy.num_layers=2 policy.hidden_size=32 policy.num_heads=2 policy.intermediate_size=64
policy.vocab_size=400 warm_start.steps=60 warm_start.batch_size=8
warm_start.references_per_level={1=4,2=4} warm_start.optimizer="adamw"
warm_start.learning_rate=5e-3 sampling.max_new_tokens=8 grpo.steps=2 grpo.groups_per_step=3
grpo.groups_per_draw=4 learner.groups_per_update=2 learner.replay_samples=4
evaluation.samples=2 evaluation.ks=[1,2] max_minutes=0 checkpoint_every=1
""".split()


def tiny(path: Path, folder: Path) -> Config:
    train_file = write_split(folder / "train.jsonl", range(60))
    heldout = write_split(folder / "heldout.jsonl", range(60, 72))
    places = [f'problems.train="{train_file}"', f'problems.heldout="{heldout}"']
    run = f'run="{folder / "run"}"'
    return load_config(path, [*TINY, *places, run])


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_trains_and_evaluates(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_training(FOLDER / f"{name}.toml", tmp_path, monkeypatch)


def check_training(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preset makes two steps, and learns in each that has a group to learn from."""

    def open_stub(*_: Any, **__: Any) -> StubVerifier:
        return StubVerifier(judge)

    monkeypatch.setattr(train_module, "open_configured", open_stub)
    monkeypatch.setattr("proverrl.loops.selfplay.composer.TAUGHT_SCRIPTS", 4)
    config = tiny(path, tmp_path)
    folder = asyncio.run(train(config, live=False))
    assert is_ended(config)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["kind"] == "step"]
    assert [row["step"] for row in steps] == [1, 2]
    updated = [row for row in steps if "loss" in row]
    assert updated, "no step had a group to learn from"
    assert all(row["grad_norm"] > 0 for row in updated)


def test_there_are_the_presets_that_the_docs_name() -> None:
    page = (FOLDER.parents[1] / "docs" / "algorithms.md").read_text("utf-8")
    assert sorted(re.findall(r"`configs/presets/(\w+)\.toml`", page)) == PRESETS
    assert len(PRESETS) >= 5


@pytest.mark.parametrize(
    ("name", "layout", "temperature", "top_p", "tokens"),
    [
        ("deepseek_v1_5", "deepseek", 1.0, 0.95, 2048),
        ("deepseek_v2", "deepseek_cot", 1.0, 1.0, 8192),
        ("goedel_v2", "goedel", 1.0, 0.95, 32768),
        ("goedel_v2_self_correct", "goedel", 1.0, 0.95, 32768),
        ("kimina", "kimina", 0.6, 0.95, 8096),
        ("stp", "deepseek", 1.0, 1.0, 1024),
    ],
)
def test_decoding_presets_are_those_of_the_published_provers(
    name: str, layout: str, temperature: float, top_p: float, tokens: int, tmp_path: Path
) -> None:
    # As a user takes one: extended by a file that says which policy it is for.
    mine = tmp_path / "mine.toml"
    mine.write_text(f'extends = "{DECODING[name]}"\n[policy]\npath = "some/checkpoint"\n')
    config = load_config(mine)
    evaluation = config.evaluation
    assert (config.policy.layout, config.sampling.max_new_tokens) == (layout, tokens)
    assert (evaluation.temperature, evaluation.top_p) == (temperature, top_p)
    assert (evaluation.samples, evaluation.ks) == (32, (1, 32))


def test_decoding_presets_say_where_each_figure_is_from() -> None:
    page = (FOLDER.parents[1] / "docs" / "evaluation.md").read_text("utf-8")
    assert sorted(re.findall(r"`configs/presets/decoding/(\w+)\.toml`", page)) == list(DECODING)
    for path in DECODING.values():
        text = path.read_text("utf-8")
        assert re.search(r"^# .*arXiv \d{4}\.\d{5}", text, re.MULTILINE), path
        assert re.search(r"^# Source: ", text, re.MULTILINE), path
    text = DECODING["deepseek_v2"].read_text("utf-8")
    assert re.search(r"^# Not given: temperature", text, re.MULTILINE)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_names_its_source(name: str) -> None:
    text = (FOLDER / f"{name}.toml").read_text("utf-8")
    assert re.search(r"^# .*arXiv \d{4}\.\d{5}", text, re.MULTILINE)


def test_a_file_goes_over_the_one_that_it_extends(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("seed = 3\n[learner]\nepochs = 5\nlearning_rate = 0.5\n")
    (tmp_path / "b.toml").write_text('extends = "a.toml"\n[learner]\nepochs = 7\n')
    config = load_config(tmp_path / "b.toml", ["seed=4"])
    assert (config.seed, config.learner.epochs, config.learner.learning_rate) == (4, 7, 0.5)


def test_what_cannot_be_extended_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('extends = "b.toml"\n')
    with pytest.raises(ConfigError, match=r"b\.toml: no such configuration file, which .*a\.toml"):
        load_config(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_text('extends = "a.toml"\n')
    with pytest.raises(ConfigError, match=r"b\.toml: extends a\.toml, which extends this file"):
        load_config(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_text("extends = 3\n")
    with pytest.raises(ConfigError, match="extends must name a file"):
        load_config(tmp_path / "b.toml")
