"""Evaluation of a run's policy: several benchmarks, what results rest on, adding to them."""

from __future__ import annotations

import asyncio
import copy
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from rich.console import Console

from proverrl import __version__
from proverrl.cli.main import cli
from proverrl.config import Config, EndpointConfig, load_config
from proverrl.errors import UsageError
from proverrl.jobs import evaluate as evaluate_module
from proverrl.jobs.evaluate import evaluate_benchmarks, name_benchmarks
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.engines import name_weights
from proverrl.problems.load import benchmark_sha256
from proverrl.report.headline import make_benchmark_table
from proverrl.run.session import load_weights
from tests import ROOT
from tests.evaluation.test_evaluate import CountingPolicy
from tests.policy.test_policy import tiny_policy
from tests.run.test_grpo import StubVerifier, judge, make_config, run, verifiers, write_split

__all__ = ["make_config", "verifiers"]


@pytest.mark.slow
def test_results_say_what_they_rest_on(
    tmp_path: Path,
    make_config: Callable[..., Config],
    verifiers: list[StubVerifier],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quiet = {"before": False, "after": False, "samples": 2, "ks": [1]}
    config = make_config("run", loop="warm_start", evaluation=quiet)
    run(config)
    monkeypatch.setattr(evaluate_module, "open_configured", lambda *_, **__: StubVerifier(judge))
    # The second benchmark is half training problems.
    other = write_split(tmp_path / "other.jsonl", range(50, 70))
    named = name_benchmarks(config, "later", [str(config.problems.heldout), str(other)])

    def evaluate(config: Config) -> list[Path]:
        return asyncio.run(evaluate_benchmarks(config, from_run=config.run, benchmarks=named))

    results = evaluate(config)
    assert [path.name for path in results] == ["later-heldout.json", "later-other.json"]
    first, second = (json.loads(path.read_text()) for path in results)
    assert first["benchmark_sha256"] == benchmark_sha256(config.problems.heldout)
    assert first["proverrl_version"] == __version__
    assert first["policy_sha256"] == second["policy_sha256"]
    assert len(first["policy_sha256"]) == 64
    assert first["mode"] == "whole_proof"
    assert first["canaries"] == {"refused": 0}
    assert first["contamination"]["training"] == str(config.problems.train)
    # Problems 50 to 59 of the training split; the others differ from them in one number.
    assert second["contamination"]["same"] == 10
    assert [row["family"] for row in first["families"]] == ["f0", "f1", "f2"]
    text = render(results)
    assert "pass@1" in text
    assert "±" in text
    # More attempts, and a changed setting.
    more = config.model_copy(
        update={"evaluation": config.evaluation.model_copy(update={"samples": 4, "ks": (4,)})}
    )
    again = json.loads(evaluate(more)[0].read_text())
    assert list(again["levels"][0]["pass"]) == ["1", "4"]
    assert again["levels"][0]["attempts"] == 12 * 4
    hotter = config.model_copy(
        update={"evaluation": config.evaluation.model_copy(update={"temperature": 0.5})}
    )
    with pytest.raises(UsageError, match=r"temperature = 1.0; now it is 0.5"):
        evaluate(hotter)


@pytest.mark.parametrize("search", [False, True])
def test_training_problems_in_a_benchmark_are_warned_of(
    tmp_path: Path,
    make_config: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    search: bool,
) -> None:
    for name in ("open_configured", "open_confirm"):
        monkeypatch.setattr(evaluate_module, name, lambda *_, **__: StubVerifier(judge))
    wanted = {"samples": 1, "ks": [1], "search": search}
    limits = {"name": "best_of_n", "calls": 1}
    config = make_config("run", evaluation=wanted, search=limits)
    tiny_policy().save(config.run / "policy")
    # Half are training problems.
    other = write_split(tmp_path / "other.jsonl", range(50, 70))
    going = evaluate_benchmarks(config, from_run=config.run, benchmarks={"e": str(other)})
    (result,) = asyncio.run(going)
    assert json.loads(result.read_text())["contamination"]["same"] == 10
    warning = f"warning: of 20 problems 10 are in {config.problems.train} as they are"
    assert warning in capsys.readouterr().out


def test_another_policy_of_a_run_is_not_passed_over(
    make_config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--run RUN --set policy.path=...`` evaluated RUN's final policy without a word."""
    monkeypatch.setattr(evaluate_module, "open_configured", lambda *_, **__: StubVerifier(judge))
    config = make_config("run", evaluation={"samples": 1, "ks": [1]})
    for folder, seed in (("policy", 0), ("warm_start/policy", 1)):
        tiny_policy(seed=seed).save(config.run / folder)
    table = json.dumps({"config": config.model_dump(mode="json")})
    (config.run / "resolved.json").write_text(table)
    warm = config.run / "warm_start" / "policy"
    found = []
    for name, more in (("last", []), ("first", ["--set", f"policy.path={warm}"])):
        words = ["eval", "--run", str(config.run), "--name", name, *more]
        done = CliRunner().invoke(cli, words, catch_exceptions=False)
        assert done.exit_code == 0
        result = json.loads((config.run / "evals" / f"{name}.json").read_text())
        found.append(result["policy_sha256"])
    saved = [sha256_of(config.run / "policy"), sha256_of(warm)]
    assert found == saved
    assert found[0] != found[1]


def sha256_of(folder: Path) -> str:
    policy = load_weights(Config(), folder)
    return name_weights(policy)


def render(results: list[Path]) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(make_benchmark_table(results))
    return console.export_text()


def test_names_of_several_benchmarks(make_config: Callable[..., Config]) -> None:
    config = make_config("run")
    assert name_benchmarks(config, "n", []) == {"n": None}
    assert name_benchmarks(config, "n", ["a/x.jsonl"]) == {"n": "a/x.jsonl"}
    paths = ["a/x.jsonl", "b/x.jsonl", "c/y.jsonl"]
    assert list(name_benchmarks(config, "n", paths)) == ["n-a-x", "n-b-x", "n-y"]
    with pytest.raises(UsageError, match="both be stored as n-a-x"):
        name_benchmarks(config, "n", ["a/x.jsonl", "z/a/x.jsonl"])
    several = ["minif2f", "hf:me/my-set:test", str(ROOT / "dafny" / "curriculum")]
    names = ["n-minif2f", "n-hf_me_my-set_test", "n-curriculum"]
    assert list(name_benchmarks(config, "n", several)) == names
    table = {"evaluation": {"benchmarks": ["p/q.jsonl"]}}
    assert name_benchmarks(make_config("run", **table), "n", []) == {"n": "p/q.jsonl"}


def test_one_file_describes_an_evaluation() -> None:
    config = load_config(ROOT / "configs" / "eval.toml", ())
    named = name_benchmarks(config, "eval", [])
    assert list(named) == ["eval-valid", "eval-heldout"]
    assert all(path is not None and (ROOT / path).exists() for path in named.values())


def test_weights_have_a_name_of_their_own() -> None:
    policy, same, other = tiny_policy(0), tiny_policy(0), tiny_policy(1)
    assert name_weights(policy) == name_weights(same) != name_weights(other)
    changed: Any = copy.deepcopy(policy)
    with torch.no_grad():
        next(iter(changed.model.parameters()))[0, 0] += 1e-6
    assert name_weights(changed) != name_weights(policy)
    config = EndpointConfig(url="http://127.0.0.1:8000/v1", model="m")
    expected = "http://127.0.0.1:8000/v1/chat/completions, model m"
    assert name_weights(EndpointPolicy(config)) == expected
    assert name_weights(CountingPolicy()) == "counting"


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        ([], 5),
        (["--benchmark", "b.jsonl"], 0),
        (["--benchmark", "b.jsonl", "--set", "evaluation.max_problems=3"], 3),
    ],
)
def test_a_benchmark_that_is_named_is_evaluated_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], most: int
) -> None:
    path = tmp_path / "eval.toml"
    path.write_text("[evaluation]\nmax_problems = 5\n")
    asked: list[int] = []

    async def evaluate(config: Config, **_: object) -> list[Path]:
        asked.append(config.evaluation.max_problems)
        raise UsageError("that is all")

    monkeypatch.setattr(evaluate_module, "evaluate_benchmarks", evaluate)
    with pytest.raises(UsageError, match="that is all"):
        CliRunner().invoke(
            cli, ["eval", str(path), *arguments], standalone_mode=False, catch_exceptions=False
        )
    assert asked == [most]
