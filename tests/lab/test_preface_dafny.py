"""The shipped configurations of PREFACE on real Dafny, at a size of seconds, and Dafny's errors by
their kinds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.config import Config, PoolConfig, RewardConfig, load_config
from proverrl.jobs.train import train
from proverrl.lab.preface.words import count_errors
from proverrl.lang.open import open_configured
from proverrl.rewards import build_reward
from proverrl.types import HOLE, Candidate, Completion, Problem, Rollout, Status, Turn, Verdict
from proverrl.verifier.base import verify_all

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "lab"
SMALL = (
    "threads=1",
    "policy.num_layers=2",
    "policy.hidden_size=64",
    "policy.num_heads=2",
    "policy.intermediate_size=128",
    "warm_start.references_per_level={1=24}",
    "pool.workers=1",
    "evaluation.max_problems=4",
)
PROBLEM = Problem(
    "count",
    "dafny",
    "invariants",
    "",
    "method Count(n: nat) returns (s: int)\n  ensures s == 3 * n\n{\n  s := 0;\n  var i := 0;\n"
    f"  while i != n\n    {HOLE}\n  {{\n    s := s + 3;\n    i := i + 1;\n  }}\n}}\n",
)
ERRORS = {
    "": {"postcondition": 1, "other": 1},
    "invariant 0 <= i <= n": {"postcondition": 1},
    "invariant 1 <= i <= n\ninvariant s == 3 * i": {"invariant": 1},
    "invariant 0 <= i <= n\ninvariant s == 3 * j": {"type": 1},
    "invariant 0 <= i <= n;;": {"syntax": 1},
    "invariant 0 <= i <= n\ninvariant s == 3 * i": {},
}


def judge(tmp_path: Path, bodies: list[str]) -> list[Verdict]:
    pool = PoolConfig(workers=1, cache=tmp_path / "verdicts.sqlite")
    candidates = [Candidate(PROBLEM, body) for body in bodies]

    async def verify() -> list[Verdict]:
        verifier = open_configured(Config(pool=pool), seed=0, problems=[PROBLEM])
        try:
            return await verify_all(verifier, candidates, deadline_seconds=20.0)
        finally:
            await verifier.aclose()

    return asyncio.run(verify())


@pytest.mark.dafny
def test_dafnys_errors_have_these_kinds_and_rewards(tmp_path: Path) -> None:
    verdicts = dict(zip(ERRORS, judge(tmp_path, list(ERRORS)), strict=True))
    found = {body: dict(count_errors(verdict)) for body, verdict in verdicts.items()}
    assert found == {**ERRORS, list(ERRORS)[-1]: found[list(ERRORS)[-1]]}
    assert sum(found[list(ERRORS)[-1]].values()) == 0
    completion = Completion("x", (1,), (2,), (-0.1,), "stop", 0)
    bodies = list(ERRORS)[1:]
    turns = tuple(Turn(completion, Candidate(PROBLEM, b), verdicts[b]) for b in bodies)
    rollout = Rollout("r", PROBLEM, "solver", turns)
    assert rollout.status is Status.PROVED

    def earn(name: str) -> float:
        return build_reward(RewardConfig(name=name), max_new_tokens=8)(rollout).total

    # -5.2, -5.7, -6.2, -6.7 and 5.
    assert earn("preface_conference") == pytest.approx(-18.8)
    # Progress 1.0 to 0.8 to 0.3 to 0.2, one invariant that is new, four tokens, and 10.
    assert earn("preface_journal") == pytest.approx(0.8 + 0.3 - 0.004 + 10.0)
    assert earn("preface_potential") == pytest.approx(10.0)


@pytest.mark.dafny
@pytest.mark.slow
def test_writer_and_instructor_train_and_compare_at_equal_calls(tmp_path: Path) -> None:
    shared = (*SMALL, f'pool.cache="{tmp_path / "verdicts.sqlite"}"')
    writer = asyncio.run(
        train(
            load_config(
                CONFIGS / "preface_writer.toml",
                (*shared, f'run="{tmp_path / "writer"}"', "warm_start.steps=60"),
            ),
            live=False,
        )
    )
    config = load_config(
        CONFIGS / "preface.toml",
        (
            *shared,
            f'run="{tmp_path / "instructor"}"',
            f'rollout.options.writer="{writer / "policy"}"',
            "warm_start.steps=20",
            "evaluation.after=true",
            "rollout.turns=3",
            "grpo.steps=1",
            "grpo.groups_per_step=1",
            "grpo.groups_per_draw=2",
            "sampling.max_new_tokens=12",
        ),
    )
    folder = asyncio.run(train(config, live=False))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    (step,) = [row for row in rows if row["kind"] == "step"]
    assert step["turns"] >= step["rollouts"]
    assert json.loads((folder / "resolved.json").read_text())["toolchain"].startswith("dafny 2.3")
    evaluations = [writer / "evals/before.json", folder / "evals/after.json"]
    resampled, instructed = (json.loads(path.read_text()) for path in evaluations)
    assert resampled["num_turns"] == 4 * 7
    assert 4 <= instructed["num_turns"] <= 4 * 3
    words = ["compare", *map(str, evaluations), "--budget", "turns", "--budgets", "1,3", "--json"]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0, shown.output
