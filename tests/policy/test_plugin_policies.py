"""Policies and composers of somebody's own: asked, judged as ours are, and never trained."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from proverrl import plugins
from proverrl.benchmarks.open import open_benchmark
from proverrl.compose.composers import FunctionComposer
from proverrl.config import Config, parse_config
from proverrl.config.policy import PolicyConfig
from proverrl.errors import ConfigError, UsageError
from proverrl.jobs.evaluate import evaluate_benchmarks, open_policy
from proverrl.jobs.search import SearchOptions, search_problems
from proverrl.jobs.train import train
from proverrl.lang.records import Parent
from proverrl.loops.selfplay.composer import open_composer
from proverrl.policy.base import Exchange
from proverrl.policy.engines import name_weights
from proverrl.policy.function import FunctionPolicy
from proverrl.search.proposals import ask_again
from proverrl.types import HOLE, Completion, Prompt, Sampling, Status
from tests import ROOT
from tests.builders import build_problem, build_verdict
from tests.curriculum.test_composers import PAIR

EXAMPLE = ROOT / "examples" / "own_parts"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module whose functions tests may name as ``own_module:...``."""
    module = ModuleType("own_module")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "own_module", module)
    plugins.load.cache_clear()
    plugins._bind.cache_clear()
    return module


def ask(policy: FunctionPolicy, n: int = 2) -> list[list[Completion]]:
    prompts = [policy.prompt(build_problem(name)) for name in ("p", "q")]
    return asyncio.run(policy.generate(prompts, n=n, sampling=Sampling(seed=3)))


def test_a_function_answers_prompts(own: ModuleType) -> None:
    seeds: list[int] = []

    async def write(
        prompt: Prompt, n: int, sampling: Sampling, *, options: dict[str, Any]
    ) -> list[str]:
        seeds.append(sampling.seed)
        return [f"{options['word']} {prompt.problem_id} {number}" for number in range(n)]

    own.write = write  # type: ignore[attr-defined]
    policy = FunctionPolicy(PolicyConfig(engine="own_module:write", options={"word": "x"}))
    found = ask(policy)
    assert [[each.text for each in row] for row in found] == [
        ["x p 0", "x p 1"],
        ["x q 0", "x q 1"],
    ]
    assert found[0][0].missing == ("prompt_ids", "token_ids", "logprobs")
    ask(policy)
    # The same for the same seed, and another seed for every prompt.
    assert seeds[:2] == seeds[2:]
    assert len(set(seeds)) == 2
    assert name_weights(policy) == policy.engine == "own_module:write (word = 'x')"
    told = policy.resume(policy.prompt(build_problem("p")), [Exchange(found[0][0], "wrong")])
    assert [(m.role, m.content) for m in told.messages[-2:]] == [
        ("assistant", "x p 0"),
        ("user", "wrong"),
    ]


@pytest.mark.parametrize(
    "given", ["text", ["one"], ["one", 2], None, ["a", "b", "c"], ["a", ("b", [0.5])]]
)
def test_a_wrong_number_of_answers_is_an_error(own: ModuleType, given: object) -> None:
    own.write = lambda prompt, n, sampling: given  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"own_module:write gave .* for p; return a list"):
        ask(FunctionPolicy(PolicyConfig(engine="own_module:write")))


def test_a_policy_without_weights_is_not_trained(own: ModuleType, tmp_path: Path) -> None:
    own.write = lambda prompt, n, sampling: [""] * n  # type: ignore[attr-defined]
    config = parse_config({"policy": {"engine": "own_module:write"}}, source="test")
    # As behind a server: the function is not one of our small models.
    assert config.sampling.max_new_tokens == 8192
    with pytest.raises(UsageError, match="has no weights that could be trained"):
        asyncio.run(train(config))
    assert isinstance(open_policy(config, None), FunctionPolicy)
    with pytest.raises(UsageError, match="is a policy by itself: leave out --run"):
        open_policy(config, tmp_path)
    with pytest.raises(ConfigError, match="unknown policy 'vlm'; the nearest is 'vllm'"):
        parse_config({"policy": {"engine": "vlm"}}, source="test")
    own.write = lambda prompt: []  # type: ignore[attr-defined]
    plugins.load.cache_clear()
    plugins._bind.cache_clear()
    with pytest.raises(
        UsageError, match=r"cannot be called as f\(prompt, n, sampling, \*, options"
    ):
        open_policy(config, None)


def test_its_refused_bodies_can_be_corrected(own: ModuleType) -> None:
    own.write = lambda prompt, n, sampling: [""] * n  # type: ignore[attr-defined]
    policy = FunctionPolicy(PolicyConfig(engine="own_module:write"))
    verdict = build_verdict(Status.REJECTED)
    prompt = ask_again(policy, build_problem("p"), "invariant x", verdict, Config().rollout)
    assert prompt.messages[-2].role == "assistant"
    assert "invariant x" in prompt.messages[-2].content


@pytest.mark.slow
def test_a_function_and_a_search_on_a_benchmark_all_of_ones_own(
    own: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real Dafny judges what they write, in an evaluation and in a search."""

    asked: list[str] = []

    def write(prompt: Prompt, n: int, sampling: Sampling) -> list[tuple[str, list[float]]]:
        # Right for one of the problems the first time, then a cheat that the audit refuses.
        asked.append(prompt.problem_id)
        again = asked.count(prompt.problem_id) == 2
        cheat = "invariant r == 4 * i\n{ assume false; }"
        body = cheat if again else "invariant i <= n\ninvariant r == 4 * i"
        return [(body, [-0.5, -0.25])] * n

    own.write = write  # type: ignore[attr-defined]
    monkeypatch.chdir(EXAMPLE)
    bodies = ["", "invariant i <= n\ninvariant r == 5 * i"]
    table = {
        "run": str(tmp_path / "run"),
        "policy": {"engine": "own_module:write"},
        "pool": {"workers": 1, "deadline_seconds": 300.0},
        "evaluation": {"samples": 2, "ks": [1, 2]},
        "search": {
            "name": "own_search:CheapFirst",
            "calls": 3,
            "width": 1,
            "options": {"bodies": bodies},
        },
    }
    config = parse_config(table, source="test")
    benchmark = "own_benchmark:loops"
    work = evaluate_benchmarks(config, from_run=None, benchmarks={"own": benchmark})
    (path,) = asyncio.run(work)
    result = json.loads(path.read_text())
    assert result["policy"] == "own_module:write"
    rows = [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]
    found = sorted((row["problem_id"], row["attempt"], row["status"]) for row in rows)
    assert found == [
        ("times_3", 0, "rejected"),
        ("times_3", 1, "unsound"),
        ("times_4", 0, "proved"),
        ("times_4", 1, "unsound"),
        ("times_5", 0, "rejected"),
        ("times_5", 1, "unsound"),
    ]
    asked.clear()
    results = asyncio.run(
        search_problems(
            config,
            open_benchmark(benchmark).problems,
            from_run=None,
            options=SearchOptions(tmp_path / "found", minimise_calls=0),
            stream=io.StringIO(),
        )
    )
    # The policy's body for the second, the second cheap body for the third.
    assert [(row["proved"], row["calls"]) for row in results] == [
        (False, 3),
        (True, 3),
        (True, 2),
    ]
    # Two tokens a body of the policy, none for the bodies that cost nothing.
    assert [row["tokens"] for row in results] == [2, 2, 0]


def compose(given: object) -> tuple[Any, str, Sequence[int]]:
    seeds = []

    def write(pair: tuple[Parent, Parent], seed: int) -> object:
        seeds.append(seed)
        return given

    composer = FunctionComposer("own_module:write", write, 5)
    drafts = asyncio.run(composer.write([PAIR, PAIR], round_number=2))
    return drafts[0].composed, drafts[0].reason, seeds


TEXT = PAIR[0].problem.statement.replace("7", "9")


def test_a_composer_of_ones_own_is_audited_as_a_policy_is() -> None:
    composed, reason, seeds = compose(TEXT)
    assert (composed.problem.statement, reason) == (TEXT, "")
    assert composed.problem.metadata["lineage"]["operator"] == "own_module:write"
    assert len(set(seeds)) == 2
    assert compose(TEXT)[2] == seeds
    assert compose(None)[:2] == (None, "the function has nothing for the pair")
    assert compose(TEXT.replace(HOLE, ""))[1].startswith("the marker")
    # A statement that assumes what is false would make all its bodies proofs.
    composed, reason, _ = compose(TEXT.replace("  r := 0;", "  assume false;\n  r := 0;"))
    assert composed is None
    assert reason.startswith("refused by the audit: ")
    with pytest.raises(UsageError, match="own_module:write gave 3 for a pair of parents; return"):
        compose(3)


def test_a_composer_is_chosen_by_its_name(own: ModuleType) -> None:
    own.write = lambda parents, seed, *, options: f"{options['x']}"  # type: ignore[attr-defined]
    config = parse_config(
        {"selfplay": {"composer": "own_module:write", "options": {"x": 4}}}, source="test"
    )

    class Open:
        def __init__(self) -> None:
            self.config = config

    composer = open_composer(Open(), None)  # type: ignore[arg-type]
    assert isinstance(composer, FunctionComposer)
    assert composer.compose(PAIR, 1) == "4"
    with pytest.raises(ConfigError, match="unknown composer 'polcy'; the nearest is 'policy'"):
        parse_config({"selfplay": {"composer": "polcy"}}, source="test")
    with pytest.raises(UsageError, match=r"selfplay.options are for a plug-in \(selfplay"):
        plugins.check([("composer", "program", {"x": 4})])
