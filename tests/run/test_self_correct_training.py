"""GRPO and expert iteration with several turns, on a scripted verifier."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest

from proverrl.config import Config
from proverrl.lang.records import Extraction
from proverrl.monitor.rollout_rows import read_turns
from proverrl.rollout.whole_proof import Draw
from proverrl.run.checkpoint import dump_draws, load_draws
from proverrl.types import Completion
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

TURNS = {"mode": "self_correct", "turns": 2, "feedback": "compact"}
QUIET = {"before": False, "after": False, "ks": [1]}


def test_grpo_trains_on_two_turns_and_counts_every_call(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    whole = run(make_config("turns", rollout=TURNS, evaluation=QUIET, grpo__steps=3))
    lines = step_lines(whole)
    rows = [
        json.loads(line)
        for path in sorted((whole / "rollouts").glob("step_*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    lengths = [len(row["turns"]) for row in rows]
    assert set(lengths) == {1, 2}
    assert sum(line["turns"] for line in lines) == sum(lengths)
    for row in rows:
        first, *rest = read_turns(row)
        # A proof ends a rollout, everything else goes on.
        assert bool(rest) == (first.status != "proved")
        assert (first.feedback == "") == (first.status == "proved")
        assert not any(turn.restarts for turn in rest)
        assert all(len(turn.context_ids) > 0 for turn in rest)
    # What was in flight when the run ended has been judged as well, but is in no step.
    [verifier] = verifiers
    assert lines[-1]["verifier_calls_total"] <= verifier.num_calls + len(verifier.appeals)
    assert lines[-1]["verifier_calls_total"] == sum(line["verifier_calls"] for line in lines)
    distinct = {
        (row["rollout_id"].rsplit("-", 1)[0], turn["body"]) for row in rows for turn in row["turns"]
    }
    appeals = sum(line["appeal_calls"] for line in lines)
    assert lines[-1]["verifier_calls_total"] == len(distinct) + appeals


@pytest.mark.slow
def test_a_run_of_several_turns_resumes_bit_for_bit(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    whole = run(make_config("whole", rollout=TURNS, evaluation=QUIET))
    run(make_config("parts", rollout=TURNS, evaluation=QUIET, grpo__steps=2))
    shutil.rmtree(whole.parent / "parts" / "policy")
    again = run(make_config("parts", rollout=TURNS, evaluation=QUIET))
    assert step_lines(whole) == step_lines(again)
    assert same(weights(whole), weights(again))


def test_expert_iteration_and_evaluation_take_turns(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    folder = run(
        make_config(
            "ei",
            loop="expert_iteration",
            expert_iteration__rounds=1,
            rollout=TURNS,
            evaluation={"before": False, "after": True, "samples": 2, "ks": [1]},
        )
    )
    [line] = step_lines(folder)
    assert line["turns"] > line["rollouts"]
    summary = json.loads((folder / "evals" / "after.json").read_text())
    attempts = [
        json.loads(row) for row in (folder / "evals" / "after.jsonl").read_text().splitlines()
    ]
    assert {len(row["turns"]) for row in attempts} <= {1, 2}
    keys = {
        (row["problem_id"], turn["candidate"])
        for row in attempts
        for turn in row["turns"]
        if turn["candidate"] is not None
    }
    assert summary["verifier_calls"] == len(keys)
    assert summary["mode"] == "self_correct"


def test_the_prelude_of_a_stored_draw_survives() -> None:
    problem = build_problem("p")
    completions = tuple(Completion("x", (1,), (2,), (-0.1,), "stop", 0) for _ in range(2))
    found = (Extraction("b", "lemma h\n\n", span=(1, 2)), Extraction(None, reason="none"))
    draw = Draw("0-p", problem, completions, found)
    stored = json.loads(json.dumps(dump_draws([draw])))
    assert load_draws(stored, {"p": problem}) == [draw]
