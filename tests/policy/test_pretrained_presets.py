"""The presets of public checkpoints: they load, decode as published, and fit as the docs say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from transformers import DeepseekV2Config

from proverrl.config import Config, load_config
from proverrl.learner.memory import GIB, plan_memory
from tests import ROOT
from tests.public_shapes import EIGHT, SHAPES

FOLDER = ROOT / "configs" / "presets" / "pretrained"
PARAMETERS = {
    "goedel_v2_8b": 8.19,
    "kimina_8b": 8.19,
    "kimina_1_7b": 1.72,
    "deepseek_v2_7b": 6.91,
    "reform_0_5b": 0.49,
    "reform_3b": 3.09,
    "tina": 1.78,
}
"""Billions, as the authors of the architectures give them."""


def test_every_preset_has_a_shape_and_a_row() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == {*SHAPES, "base"}
    for name in SHAPES:
        text = (FOLDER / f"{name}.toml").read_text("utf-8")
        assert re.search(r"^# .*arXiv \d{4}\.\d{5}", text, re.MULTILINE), name


@pytest.mark.parametrize(
    ("name", "decoding"),
    [
        ("goedel_v2_8b", "goedel_v2"),
        ("kimina_8b", "kimina"),
        ("kimina_1_7b", "kimina"),
        ("deepseek_v2_7b", "deepseek_v2"),
    ],
)
def test_decoding_is_that_of_the_published_prover(name: str, decoding: str) -> None:
    mine = load_config(FOLDER / f"{name}.toml")
    theirs = load_config(FOLDER.parent / "decoding" / f"{decoding}.toml")
    assert mine.policy.layout == theirs.policy.layout
    assert mine.sampling.max_new_tokens == theirs.sampling.max_new_tokens
    assert mine.evaluation == theirs.evaluation


def test_tina_and_reform_are_those_of_their_papers() -> None:
    tina = load_config(FOLDER / "tina.toml")
    assert (tina.policy.lora.rank, tina.policy.lora.alpha) == (32, 128)
    assert (tina.learner.learning_rate, tina.sampling.temperature) == (1e-6, 0.7)
    # Two GPUs with 6 completions and 4 accumulations each.
    assert tina.grpo.groups_per_step * tina.grpo.group_size == 2 * 6 * 4
    for name in ("reform_0_5b", "reform_3b"):
        reform = load_config(FOLDER / f"{name}.toml")
        assert (reform.learner.learning_rate, reform.grpo.group_size) == (1e-5, 4)
        assert (reform.loss.kl, reform.loss.entropy) == (0.01, 0.02)


def plan(name: str, folder: Path, cards: int) -> float:
    SHAPES[name].save_pretrained(folder)
    words = EIGHT.get(name, []) if cards == 8 else []
    config: Config = load_config(FOLDER / f"{name}.toml", [*words, f"policy.path={folder}"])
    found = plan_memory(config, processes=cards)
    assert (found.trained < 0.03 * found.parameters) == (config.policy.lora.rank > 0)
    base = found.parameters - (found.trained if config.policy.lora.rank else 0)
    assert base / 1e9 == pytest.approx(PARAMETERS[name], abs=0.006)
    return found.peak / GIB


@pytest.mark.parametrize("name", SHAPES)
def test_the_docs_say_what_is_held(name: str, tmp_path: Path) -> None:
    if load_config(FOLDER / f"{name}.toml").policy.lora.rank:
        pytest.importorskip("peft", reason='needs peft: pip install "proverrl[lora]"')
    page = (ROOT / "docs" / "gpu.md").read_text("utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))
    told = [float(text) for text in re.findall(r"([\d.]+) GiB", row)]
    found = [plan(name, tmp_path, cards) for cards in (1, 8)]
    assert told == [round(value, 1) for value in found]
    # What CUDA takes, and fragments, need room too.
    assert max(found) < 75


def test_latent_attention_caches_what_keys_are_made_of(tmp_path: Path) -> None:
    # DeepSeek-V2-Lite: 512 + 64 numbers a token and layer, in 27 layers, of 2 bytes.
    DeepseekV2Config(
        vocab_size=102_400,
        hidden_size=2048,
        num_hidden_layers=27,
        num_attention_heads=16,
        kv_lora_rank=512,
        q_lora_rank=None,
        qk_rope_head_dim=64,
    ).save_pretrained(tmp_path)
    config = Config.model_validate(
        {"policy": {"path": str(tmp_path)}, "learner": {"precision": "bf16"}}
    )
    assert plan_memory(config).kv_token == (512 + 64) * 27 * 2


def test_a_sample_longer_than_a_micro_batch_counts_whole(tmp_path: Path) -> None:
    SHAPES["reform_0_5b"].save_pretrained(tmp_path)
    table = {"policy": {"path": str(tmp_path)}, "sampling": {"max_new_tokens": 30_000}}
    short, long = (
        plan_memory(Config.model_validate({**table, "learner": {"micro_batch_tokens": tokens}}))
        for tokens in (1000, 30_512)
    )
    assert short.update == long.update
