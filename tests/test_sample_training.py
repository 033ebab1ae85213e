"""Learning from searches: tokens of a path by hand, passes of the learner, proofs in every loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from proverrl.config import Config, LearnerConfig, LossConfig
from proverrl.errors import ConfigError, UsageError
from proverrl.learner.learner import TorchLearner
from proverrl.parallel import World
from proverrl.run.checkpoint import latest_checkpoint, read_state
from proverrl.run.reverify import check_sample_files, rescore
from proverrl.run.session import load_training
from proverrl.search.samples import SearchSample, build_path_sample, write_samples
from proverrl.types import Completion, Problem
from tests.builders import build_problem
from tests.test_grpo import (  # noqa: F401  (fixtures)
    StubVerifier,
    make_config,
    run,
    same,
    step_lines,
    verifiers,
    weights,
)
from tests.test_policy import plain_logprobs, tiny_policy
from tests.test_search_samples import make_sample
from tests.tolerance import FLOAT32

QUIET = {"before": False, "after": False, "ks": [1]}
TWO_LINES = "invariant 0 <= k;\ninvariant k == n;"


def make_path(
    problem: Problem, body: str, ends: Sequence[int], advantages: Sequence[float], proved: bool
) -> SearchSample:
    return make_sample(
        problem=problem,
        body=body,
        ends=tuple(ends),
        states=("",) * len(ends),
        values=(0.0,) * len(ends),
        advantages=tuple(advantages),
        proved=proved,
        search="puct",
    )


def test_each_token_has_the_advantage_of_its_stretch() -> None:
    policy = tiny_policy()
    problem = build_problem("p", n=7)
    path = make_path(problem, TWO_LINES, (13, 17, 35), (0.5, -0.25, 1.0), True)
    sample = build_path_sample(policy, path, "puct/0")
    assert sample is not None
    prompt = policy.prompt(problem).token_ids
    assert sample.token_ids == prompt + policy.body_ids(problem, TWO_LINES)
    assert (sample.prompt_length, sample.rollout_id) == (len(prompt), "puct/0")
    words = [policy.tokenizer.decode([i]) for i in sample.token_ids[len(prompt) : -1]]
    # Starts:  0             10   11      15   16   17    18            28   29   30   31    33   34
    assert words == [
        *("invariant ", "0", " <= ", "k", ";", "\n"),
        *("invariant ", "k", " ", "=", "= ", "n", ";"),
    ]
    # " <= " begins at 11, before the border at 13; the line break at 17 begins the last stretch;
    # the end token belongs to it too.
    expected = (0.5, 0.5, 0.5, -0.25, -0.25, *(1.0,) * 9)
    assert sample.advantages == (0.0,) * len(prompt) + expected
    assert sample.loss_mask == (0,) * len(prompt) + (1,) * 14


def test_stretches_are_found_in_the_words_of_the_layout() -> None:
    policy = tiny_policy()
    problem = build_problem("p", n=7)
    policy.layout = "canonical"
    body = "invariant 7 <= k;\ninvariant k == 7;"
    path = make_path(problem, body, (17, 35), (0.5, 1.0), True)
    sample = build_path_sample(policy, path, "s")
    assert sample is not None
    # 7 is written _1: the first line has 18 characters there, and the second begins with its end.
    text = policy.tokenizer.decode(list(sample.token_ids[sample.prompt_length : -1]))
    assert text == "invariant _1 <= a;\ninvariant a == _1;"
    first = [
        str(policy.tokenizer.decode([token]))
        for token, advantage in zip(sample.token_ids, sample.advantages, strict=True)
        if advantage == 0.5
    ]
    assert "".join(first) == "invariant _1 <= a;"
    # Within the fence of a block the opening belongs to the first stretch, the rest to the last.
    policy.layout = "dafny"
    sample = build_path_sample(policy, path, "s")
    assert sample is not None
    parts = {0.5: "", 1.0: "", 0.0: ""}
    for token, advantage in zip(sample.token_ids[:-1], sample.advantages[:-1], strict=True):
        parts[advantage] += str(policy.tokenizer.decode([token]))
    assert parts[0.5] == "```dafny\ninvariant 7 <= k;"
    assert parts[1.0] == "\ninvariant k == 7;\n```"


def test_a_stretch_that_ends_within_a_word_is_not_found() -> None:
    policy = tiny_policy()
    policy.layout = "canonical"
    # "count" is one word, written as one letter; "cou" alone would be another name.
    path = make_path(build_problem("p"), "invariant k < count;", (17, 20), (0.5, 1.0), True)
    assert build_path_sample(policy, path, "s") is not None
    broken = make_path(build_problem("p"), "invariant k9 < 1;", (11, 17), (0.5, 1.0), True)
    assert build_path_sample(policy, broken, "s") is None


def test_the_learner_scores_paths_and_moves_with_their_advantages() -> None:
    policy = tiny_policy()
    problem = build_problem("p", n=7)
    paths = [
        make_path(problem, "invariant 0 <= k;", (17,), (1.0,), True),
        make_path(problem, "invariant n == k;", (17,), (-1.0,), False),
    ]
    bare = [build_path_sample(policy, path, str(i)) for i, path in enumerate(paths)]
    samples = [sample for sample in bare if sample is not None]
    config = LearnerConfig(learning_rate=1e-3)
    learner = TorchLearner(policy.model, config, temperature=1.0, loss=LossConfig(), version=3)
    before = rescore(learner, samples)
    split = before[0].prompt_length
    for sample in before:
        prompt, new = sample.token_ids[:split], sample.token_ids[split:]
        completion = Completion("", prompt, new, sample.logprobs[split:], "stop", 3)
        assert completion.logprobs == pytest.approx(plain_logprobs(policy, completion), abs=FLOAT32)
        assert sample.policy_version == 3
    metrics = learner.step(before)
    # The old policy is the learner itself: every ratio of the first update is 1.
    assert metrics["ratio_max"] == pytest.approx(1.0, abs=FLOAT32)
    after = rescore(learner, samples)
    assert sum(after[0].logprobs) > sum(before[0].logprobs)
    assert sum(after[1].logprobs) < sum(before[1].logprobs)
    assert after[0].policy_version == 4


def write_paths(config: Config, path: Path) -> list[Problem]:
    """For three problems a proof and a failure; then four paths that may not be learned from."""
    own = load_training(config)
    problems = list(own.without_reference[:5])
    rows = [
        make_path(p, body, ends, credit, body == "invariant k")
        for p in problems[:3]
        for body, ends, credit in (
            ("invariant k", (10, 11), (0.0, 0.5)),
            ("invariant j", (10, 11), (0.0, -0.5)),
        )
    ]
    rows += [
        make_path(problems[3], "invariant i", (11,), (1.0,), True),
        make_path(problems[3], "invariant k", (11,), (-1.0,), False),
        make_path(build_problem("heldout"), "invariant k", (11,), (1.0,), True),
        make_path(build_problem(problems[4].id, n=99), "invariant k", (11,), (1.0,), True),
    ]
    write_samples(path, rows)
    return problems


def dropped(folder: Path) -> list[tuple[str, str, str]]:
    rows = [json.loads(x) for x in (folder / "dropped_proofs.jsonl").read_text().splitlines()]
    return [(row["problem_id"], row["body"], row["reason"]) for row in rows]


@pytest.mark.slow
def test_grpo_learns_paths_and_keeps_their_proofs(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
    tmp_path: Path,
) -> None:
    file = tmp_path / "samples.jsonl"
    changes: dict[str, Any] = {
        "evaluation": QUIET,
        "warm_start__steps": 20,
        "grpo__steps": 1,
        "samples": {"files": [str(file)], "passes": 2, "problems_per_update": 2},
    }
    problems = write_paths(make_config("a"), file)
    folder = run(make_config("a", **changes))
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    updates = [row for row in lines if row["kind"] == "paths"]
    # Three problems, two an update, two passes; the ratio is 1 in each, for paths are scored anew.
    assert [(row["update"], row["problems"]) for row in updates] == [(1, 2), (2, 1), (3, 2), (4, 1)]
    assert all(row["ratio_max"] == pytest.approx(1.0, abs=FLOAT32) for row in updates)
    wrong = problems[3].id
    assert sorted(dropped(folder)) == sorted(
        [
            (wrong, "invariant i", "rejected"),
            (wrong, "invariant k", "proved, and the file says that it is not"),
            (
                "heldout",
                "invariant k",
                "its problem is not among the problems that this run's loop draws from",
            ),
            (problems[4].id, "invariant k", "the file's problem of this id is not this run's"),
        ]
    )
    checkpoint = latest_checkpoint(folder / "checkpoints")
    assert checkpoint is not None
    proofs = read_state(checkpoint)["proofs"]
    imported = {n for n, rows in proofs.items() if any(r["policy_version"] == -1 for r in rows)}
    assert imported == {p.id for p in problems[:3]}
    # Four proofs (one of them wrong) and, with the failures, 8 candidates were judged before.
    assert step_lines(folder)[-1]["verifier_calls_total"] >= 4 + 8
    again = run(make_config("b", **changes))
    assert same(weights(folder), weights(again))
    without = run(make_config("c", **{**changes, "samples": {}}))
    assert not same(weights(folder), weights(without))


def test_proofs_of_searches_in_expert_iteration_and_warm_start(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from proverrl.jobs import train as train_module
    from proverrl.run.warm_start import warm_start

    file = tmp_path / "samples.jsonl"
    problems = write_paths(make_config("a"), file)
    seen: list[list[str]] = []
    original = warm_start

    def record(session: Any, proofs: Sequence[tuple[Problem, str]], taught: Any) -> None:
        seen.append([f"{problem.id}: {body}" for problem, body in proofs])
        original(session, proofs, taught)

    monkeypatch.setattr(train_module, "warm_start", record)
    folder = run(
        make_config(
            "ei",
            loop="expert_iteration",
            evaluation=QUIET,
            warm_start__steps=20,
            expert_iteration__rounds=1,
            samples={"files": [str(file)], "warm_start": True},
        )
    )
    assert seen == [[f"{p.id}: invariant k" for p in problems[:3]]]
    checkpoint = latest_checkpoint(folder / "checkpoints")
    assert checkpoint is not None
    assert {p.id for p in problems[:3]} <= set(read_state(checkpoint)["proofs"])


def test_wrong_settings_and_files_are_refused_first(
    make_config: Callable[..., Config],  # noqa: F811
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="files is empty and warm_start or passes is set"):
        make_config("a", samples={"passes": 1})
    passes = {"files": ["x"], "passes": 1}
    with pytest.raises(ConfigError, match=r'samples.passes is for loop = "grpo"'):
        make_config("a", loop="expert_iteration", samples=passes)
    with pytest.raises(UsageError, match=r"cannot read none\.jsonl"):
        run(make_config("a", samples={"files": ["none.jsonl"]}))
    assert not (tmp_path / "a" / "warm_start").exists()
    file = tmp_path / "samples.jsonl"
    write_samples(file, [make_sample()])
    config = make_config("a", samples={"files": [str(file)], "passes": 1})
    with pytest.raises(UsageError, match="made in one process, and there are 2"):
        check_sample_files(config, World(rank=0, size=2))
    write_samples(file, [])
    with pytest.raises(UsageError, match="no file holds a sample; write one with --emit-samples"):
        check_sample_files(config, World(rank=0, size=1))
