"""Configuration: TOML, overrides, and errors that name the key and its remedy."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from proverrl.config import Config, load_config, parse_config
from proverrl.errors import ConfigError
from proverrl.problems.load import load_problems, load_references

CONFIGS = sorted(Path("configs").glob("*.toml"))


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return path


def test_overrides_win_and_keep_their_types(tmp_path: Path) -> None:
    path = write(tmp_path, 'loop = "grpo"\n[grpo]\nsteps = 3\n')
    config = load_config(
        path, ["grpo.steps=7", "policy.path=some/folder", "evaluation.ks=[1, 4]", "seed=5"]
    )
    assert (config.grpo.steps, config.policy.path, config.seed) == (7, "some/folder", 5)
    assert config.evaluation.ks == (1, 4)
    assert config.grpo.group_size == Config().grpo.group_size


@pytest.mark.parametrize("version", ["4", "2.3"])
def test_a_version_of_dafny_may_be_a_number(tmp_path: Path, version: str) -> None:
    path = write(tmp_path, f"[dafny]\nversion = {version}\n")
    assert load_config(path).dafny.version == version
    assert load_config(write(tmp_path, ""), [f"dafny.version={version}"]).dafny.version == version


@pytest.mark.parametrize(
    ("override", "names"),
    [
        ("grpo.group_sise=4", "grpo.group_size"),
        ("grpo.step=3", "nearest valid key is 'grpo.steps'"),
        ("grpo.advantage=rloo", "nearest valid key is 'advantage"),
        ("advantage.name=ppo", "advantage.name"),
        ("advantage.proved_weight=-1", "advantage.proved_weight"),
        ("learning_rate=1", "learner.learning_rate|learning_rate"),
        ("grpo.steps=0", "grpo.steps"),
        ("loop=ppo", "loop"),
        ("dafny.version=3", "dafny.version"),
        ("no-equals", "key=value"),
    ],
)
def test_wrong_overrides_name_the_place(tmp_path: Path, override: str, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        load_config(write(tmp_path, ""), [override])


def test_a_value_from_the_command_line_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--set: loop: .*unknown loop 'ppo'"):
        load_config(write(tmp_path, ""), ["loop=ppo"])
    # The file has a fault of its own, and a value may be a table.
    with pytest.raises(ConfigError, match=r"--set: loop: .*c\.toml: grpo\.steps: .*greater"):
        load_config(write(tmp_path, "grpo.steps = 0"), ["loop=ppo"])
    with pytest.raises(ConfigError, match=r"^--set: warm_start\.references_per_level\.1: "):
        load_config(write(tmp_path, ""), ["warm_start.references_per_level={1=-1}"])


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_config(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read as TOML"):
        load_config(write(tmp_path, "a = = 1"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_shipped_configs_load_and_round_trip(path: Path) -> None:
    config = load_config(path)
    assert parse_config(config.dump(), source="again") == config


SERVER = ["policy.path=endpoint:e", 'endpoints.e={url="http://127.0.0.1:8000/v1", model="m"}']


@pytest.mark.parametrize(
    ("overrides", "limit"),
    [
        ([], 96),
        (["policy.path=some/checkpoint"], 2048),
        # Our small models, wherever their weights are.
        (["policy.path=some/checkpoint", "policy.layout=canonical"], 96),
        (SERVER, 8192),
        ([*SERVER, "sampling.temperature=0.5"], 8192),
        ([*SERVER, "sampling.max_new_tokens=96"], 96),
        (["policy.path=some/checkpoint", "sampling.max_new_tokens=7"], 7),
    ],
)
def test_a_limit_on_tokens_that_nobody_named_suits_the_policy(
    tmp_path: Path, overrides: list[str], limit: int
) -> None:
    config = load_config(write(tmp_path, ""), overrides)
    assert config.sampling.max_new_tokens == limit
    # What a run stores is the number, so that it is gone on with under the same.
    assert parse_config(config.dump(), source="again") == config


@pytest.mark.parametrize(
    "path",
    [path for path in CONFIGS if "max_new_tokens" not in path.read_text("utf-8")],
    ids=lambda path: path.name,
)
def test_shipped_configs_keep_the_limit_of_the_small_model(path: Path) -> None:
    assert load_config(path).sampling.max_new_tokens == 96
    server = load_config(path, SERVER)
    assert server.sampling.max_new_tokens == 8192


def test_top_p_is_for_evaluation_only(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, ""), ["evaluation.top_p=0.95"])
    assert config.evaluation.top_p == 0.95
    message = r"sampling: .*top_p cuts where a rounding difference .*only evaluation\.top_p is read"
    with pytest.raises(ConfigError, match=message):
        load_config(write(tmp_path, ""), ["sampling.top_p=0.95"])
    both = ["evaluation.top_p=0.95", "evaluation.search=true"]
    with pytest.raises(ConfigError, match=r"evaluation\.top_p is for whole proofs and turns"):
        load_config(write(tmp_path, ""), both)
    both = ["evaluation.top_k=20", "evaluation.search=true"]
    with pytest.raises(ConfigError, match=r"evaluation\.top_k is for whole proofs and turns"):
        load_config(write(tmp_path, ""), both)
    for share in ("0", "1.5"):
        with pytest.raises(ConfigError, match=r"evaluation\.top_p"):
            load_config(write(tmp_path, ""), [f"evaluation.top_p={share}"])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["learner.precision=bf16", "vllm.dtype=float32"], r'set vllm\.dtype = "bfloat16"'),
        (["vllm.sleep=true"], r"set grpo\.max_staleness = 0, or vllm\.sleep = false"),
        (["vllm.sleep=true", "grpo.max_staleness=0", "loop=expert_iteration"], r"loop = \"grpo\""),
    ],
)
def test_what_vllm_cannot_sample_for_is_refused(more: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(write(tmp_path, ""), ["policy.engine=vllm", *more])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configs_find_the_references_that_they_ask_for(path: Path) -> None:
    """A table of levels takes the place of the one in the file that is extended."""
    config = load_config(path)
    if not config.problems.train.exists():
        return
    known = set(load_references(config.problems.train))
    levels = Counter(p.level for p in load_problems(config.problems.train) if p.id in known)
    asked = config.warm_start.references_per_level
    assert {level: n for level, n in asked.items() if levels[int(level)] < n} == {}


def test_configs_are_shipped() -> None:
    assert {"demo.toml", "grpo.toml", "expert_iteration.toml"} <= {path.name for path in CONFIGS}


@pytest.mark.parametrize(("path", "reason"), [("", "the path is empty"), (".", "names no file")])
def test_a_cache_is_a_file(tmp_path: Path, path: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"pool\.cache.*{reason}"):
        load_config(write(tmp_path, ""), [f"pool.cache={path}"])
