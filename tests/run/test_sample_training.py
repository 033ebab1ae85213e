"""Learning from searches: their proofs, judged anew, in every loop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proverrl.config import Config
from proverrl.errors import UsageError
from proverrl.run.checkpoint import latest_checkpoint, read_state
from proverrl.run.reverify import check_sample_files
from proverrl.run.session import load_training
from proverrl.search.samples import SearchSample, write_samples
from proverrl.types import Problem
from tests.builders import build_problem
from tests.run.test_grpo import (  # noqa: F401  (fixtures)
    StubVerifier,
    make_config,
    run,
    same,
    step_lines,
    verifiers,
    weights,
)
from tests.search.test_search_samples import make_sample

QUIET = {"before": False, "after": False, "ks": [1]}


def make_path(problem: Problem, body: str, *, proved: bool) -> SearchSample:
    return make_sample(
        problem=problem, body=body, ends=(len(body),), states=("",), proved=proved, search="rmax_ts"
    )


def write_paths(config: Config, path: Path) -> list[Problem]:
    """For three problems a proof and a failure; then three proofs that may not be learned from."""
    own = load_training(config)
    problems = list(own.without_reference[:5])
    rows = [
        make_path(p, body, proved=body == "invariant k")
        for p in problems[:3]
        for body in ("invariant k", "invariant j")
    ]
    rows += [
        make_path(problems[3], "invariant i", proved=True),
        make_path(build_problem("heldout"), "invariant k", proved=True),
        make_path(build_problem(problems[4].id, n=99), "invariant k", proved=True),
    ]
    write_samples(path, rows)
    return problems


def dropped(folder: Path) -> list[tuple[str, str, str]]:
    rows = [json.loads(x) for x in (folder / "dropped_proofs.jsonl").read_text().splitlines()]
    return [(row["problem_id"], row["body"], row["reason"]) for row in rows]


def find_imported(folder: Path) -> set[str]:
    checkpoint = latest_checkpoint(folder / "checkpoints")
    assert checkpoint is not None
    proofs = read_state(checkpoint)["proofs"]
    return {n for n, rows in proofs.items() if any(r["policy_version"] == -1 for r in rows)}


@pytest.mark.slow
def test_grpo_replays_proofs_of_searches(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
    tmp_path: Path,
) -> None:
    file = tmp_path / "samples.jsonl"
    changes: dict[str, Any] = {
        "evaluation": QUIET,
        "warm_start__steps": 20,
        "grpo__steps": 1,
        "samples": {"files": [str(file)]},
    }
    problems = write_paths(make_config("a"), file)
    folder = run(make_config("a", **changes))
    foreign = "its problem is not among the problems that this run's loop draws from"
    assert sorted(dropped(folder)) == sorted(
        [
            (problems[3].id, "invariant i", "rejected"),
            ("heldout", "invariant k", foreign),
            (problems[4].id, "invariant k", "the file's problem of this id is not this run's"),
        ]
    )
    assert find_imported(folder) == {p.id for p in problems[:3]}
    # Four proofs, one of them wrong, were judged before.
    assert step_lines(folder)[-1]["verifier_calls_total"] >= 4
    again = run(make_config("b", **changes))
    assert same(weights(folder), weights(again))


def test_proofs_of_searches_in_expert_iteration(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
    tmp_path: Path,
) -> None:
    file = tmp_path / "samples.jsonl"
    problems = write_paths(make_config("a"), file)
    changes: dict[str, Any] = {
        "loop": "expert_iteration",
        "evaluation": QUIET,
        "warm_start__steps": 20,
        "expert_iteration__rounds": 1,
        "samples": {"files": [str(file)]},
    }
    assert find_imported(run(make_config("ei", **changes))) == {p.id for p in problems[:3]}


def test_wrong_files_are_refused_first(
    make_config: Callable[..., Config],  # noqa: F811
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match=r"cannot read none\.jsonl"):
        run(make_config("a", samples={"files": ["none.jsonl"]}))
    assert not (tmp_path / "a" / "warm_start").exists()
    file = tmp_path / "samples.jsonl"
    write_samples(file, [])
    config = make_config("a", samples={"files": [str(file)]})
    with pytest.raises(UsageError, match="no file holds a sample; write one with --emit-samples"):
        check_sample_files(config)
