"""Averages of checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModelForCausalLM

from proverrl.cli.main import cli
from proverrl.config import PolicyConfig
from proverrl.errors import UsageError
from proverrl.policy.loading import build_policy, merge_policies, train_tokenizer

SIZES = PolicyConfig(
    num_layers=1, hidden_size=16, num_heads=2, intermediate_size=32, vocab_size=300
)


def save(folder: Path, seed: int, sizes: PolicyConfig = SIZES, text: str = "invariant i") -> Path:
    tokenizer = train_tokenizer([text] * 3, vocab_size=300)
    build_policy(sizes, tokenizer, seed=seed, device="cpu").save(folder)
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    return state


def test_every_weight_is_the_average(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a", 0), save(tmp_path / "b", 1)
    merge_policies(a, b, alpha=0.25, out=tmp_path / "c")
    first, second, merged = weights(a), weights(b), weights(tmp_path / "c")
    assert set(merged) == set(first)
    for name, value in merged.items():
        assert torch.allclose(value, 0.75 * first[name] + 0.25 * second[name], atol=1e-7)
    assert not torch.equal(first["lm_head.weight"], merged["lm_head.weight"])


@pytest.mark.parametrize(("alpha", "same"), [(0.0, "a"), (1.0, "b")])
def test_the_ends_are_the_checkpoints(tmp_path: Path, alpha: float, same: str) -> None:
    a, b = save(tmp_path / "a", 0), save(tmp_path / "b", 1)
    merge_policies(a, b, alpha=alpha, out=tmp_path / "c")
    merged, expected = weights(tmp_path / "c"), weights(tmp_path / same)
    assert all(torch.equal(value, expected[name]) for name, value in merged.items())


def test_the_folder_of_a_run_is_refused_with_the_place_of_its_weights(tmp_path: Path) -> None:
    a = save(tmp_path / "a", 0)
    save(tmp_path / "run/policy", 1)
    with pytest.raises(UsageError, match=r"is the folder of a run; its weights: \S+run/policy$"):
        merge_policies(a, tmp_path / "run", alpha=0.5, out=tmp_path / "c")


def test_what_has_no_average_is_refused(tmp_path: Path) -> None:
    a = save(tmp_path / "a", 0)
    larger = save(tmp_path / "b", 0, SIZES.model_copy(update={"hidden_size": 32}))
    with pytest.raises(UsageError, match="not the same kind of model"):
        merge_policies(a, larger, alpha=0.5, out=tmp_path / "c")
    other = save(tmp_path / "d", 0, text="assert x y z w")
    with pytest.raises(UsageError, match="different vocabularies"):
        merge_policies(a, other, alpha=0.5, out=tmp_path / "c")
    with pytest.raises(UsageError, match="holds no weights"):
        merge_policies(a, tmp_path, alpha=0.5, out=tmp_path / "c")
    with pytest.raises(UsageError, match="between 0 and 1"):
        merge_policies(a, a, alpha=1.5, out=tmp_path / "c")


def test_an_input_is_not_overwritten_and_no_number_is_not_averaged(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a", 0), save(tmp_path / "b", 1)
    kept = (a / "model.safetensors").read_bytes()
    for out in (a, a / "inside"):
        done = CliRunner().invoke(
            cli, ["merge", str(a), str(b), "--alpha", "0.5", "--out", str(out)]
        )
        assert isinstance(done.exception, UsageError)
        assert "name a file elsewhere" in f"{done.output}{done.exception}"
    assert (a / "model.safetensors").read_bytes() == kept
    model = AutoModelForCausalLM.from_pretrained(b)
    with torch.no_grad():
        model.lm_head.weight[0, 0] = torch.nan
    model.save_pretrained(b)
    with pytest.raises(UsageError, match="these weights are not all numbers: "):
        merge_policies(a, b, alpha=0.5, out=tmp_path / "c")
    assert not (tmp_path / "c").exists()
