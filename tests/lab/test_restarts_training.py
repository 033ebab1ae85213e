"""GRPO with restarts on a scripted verifier: what is given, counted, kept apart and resumed."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from proverrl.config import AppealConfig, Config
from proverrl.config.policy import SamplingConfig
from proverrl.lab.restarts import Restarts
from proverrl.lab.restarts.hints import RestartOptions
from proverrl.lang.records import Extraction
from proverrl.monitor.rollout_rows import read_turns
from proverrl.problems.load import load_references
from proverrl.report.transcript import render_rollout
from proverrl.rewards import proved_reward
from proverrl.rollout.whole_proof import Draw, JudgedDraw, dump_completion, load_completion
from proverrl.run.checkpoint import dump_draws, load_draws
from proverrl.run.pipeline import Judged, Reviewer
from proverrl.run.session import load_training
from proverrl.run.state import RunState
from proverrl.run.tally import Tally
from proverrl.types import Candidate, Completion, Group, Hint, Problem, Rollout, Status, Verdict
from tests.builders import build_problem, build_turn
from tests.policy.test_policy import tiny_policy
from tests.rollout.test_proofs import make_store
from tests.run.test_grpo import (  # noqa: F401  (fixtures)
    StubVerifier,
    make_config,
    run,
    same,
    state_of,
    step_lines,
    verifiers,
    weights,
)


async def _unasked(candidate: Candidate) -> Verdict:
    raise AssertionError(f"{candidate.body} was audited")


QUIET = {"before": False, "after": False, "ks": [1]}
REFERENCES = {
    "source": "reference",
    "use_references": True,
    "unit": "tokens",
}
SIZES = {"groups_per_step": 3, "groups_per_draw": 4, "group_size": 2}


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted((folder / "rollouts").glob("step_*.jsonl"))
        for line in path.read_text().splitlines()
    ]


@pytest.mark.slow
def test_hints_are_given_counted_apart_and_resumed_bit_for_bit(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    def config(name: str, steps: int) -> Config:
        grpo = {**SIZES, "steps": steps}
        return make_config(name, experiments={"restarts": REFERENCES}, evaluation=QUIET, grpo=grpo)

    whole = run(config("whole", 4))
    rows, lines = rows_of(whole), step_lines(whole)
    hinted = [row for row in rows if row["hint"]]
    bare = [row for row in rows if not row["hint"]]
    assert hinted
    assert bare
    references = load_references(config("whole", 4).problems.train)
    for row in hinted:
        hint, problem = row["hint"], row["problem"]["id"]
        assert hint["source"] == "reference"
        assert references[problem].startswith(hint["text"])
        # The body that was judged is the hint and what was written after it.
        assert row["body"] == (hint["text"] + row["completion"]["text"]).strip()
        (turn,) = read_turns(row)
        assert row["rollout_id"].rsplit("-", 1)[0].endswith(f"{problem}-hint")
        assert len(turn.context_ids) > hint["num_tokens"]
    screen = Console(width=160, record=True, file=io.StringIO())
    screen.print(render_rollout(hinted[0], str))
    given = hinted[0]["hint"]["num_tokens"]
    assert f"hint: reference, the last {given} tokens of the prompt" in screen.export_text()
    for line in lines:
        here = [row for row in rows if row["step"] == line["step"]]
        for given, key in ((False, "solve_rate"), (True, "hinted_solve_rate")):
            chosen = [row for row in here if bool(row["hint"]) is given]
            if chosen:
                proved = sum(row["status"] == "proved" for row in chosen)
                assert line[key] == pytest.approx(proved / len(chosen))
        attempts = sum(level["attempts"] for level in line["levels"].values())
        assert attempts == sum(not row["hint"] for row in here)
        assert line.get("hinted_rollouts", 0) == sum(bool(row["hint"]) for row in here)
    final = state_of(whole, 4)
    shown = final["experiment proverrl.lab.restarts:Restarts"]["shown"]
    assert shown
    trained = {problem.id for problem in load_training(config("whole", 4)).without_reference}
    assert trained.issuperset(shown)
    run(config("parts", 2))
    shutil.rmtree(whole.parent / "parts" / "policy")
    again = run(config("parts", 4))
    assert same(weights(whole), weights(again))
    assert step_lines(whole) == step_lines(again)
    assert state_of(again, 4) == {**final, "seconds": state_of(again, 4)["seconds"]}


@pytest.mark.slow
@pytest.mark.parametrize("source", ["found", "failed_prefix", "failed_attempt"])
def test_the_run_s_own_attempts_are_hints(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
    source: str,
) -> None:
    experiments = {"restarts": {"source": source, "unit": "tokens"}}
    grpo = {**SIZES, "steps": 3}
    folder = run(make_config("own", experiments=experiments, evaluation=QUIET, grpo=grpo))
    lines = step_lines(folder)
    assert lines[-1]["restarts_waiting"] > 0
    assert lines[-1]["restart_references_shown"] == 0
    hinted = [row for row in rows_of(folder) if row["hint"]]
    # The scripted verifier gives no places of errors, and a problem that was never proved has no
    # proof of the run to give.
    assert bool(hinted) == (source == "failed_attempt")
    for row in hinted:
        assert "does not pass the verifier" in row["hint"]["text"]
        assert row["body"] == row["completion"]["text"].strip()


def test_a_draw_in_flight_keeps_its_hint() -> None:
    problem = build_problem("p")
    hint = Hint("found", 0.1 + 0.2, "inv", (3, 4))
    completion = Completion("x", (1, 3, 4), (5,), (-0.1,), "stop", 2)
    draw = Draw("0-p-hint", problem, (completion,), (Extraction("invx"),), hint)
    stored = json.loads(json.dumps(dump_draws([draw])))
    assert load_draws(stored, {"p": problem}) == [draw]
    unscored = Completion("x", (), (), (), "stop", 2, ("prompt_ids", "token_ids", "logprobs"))
    assert load_completion(json.loads(json.dumps(dump_completion(unscored)))) == unscored


class Recorder:
    """A curriculum that notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[Group] = []

    def draw(self, n: int) -> list[Problem]:
        return []

    def observe(self, group: Group) -> None:
        self.heard.append(group)

    def add(self, problems: Iterable[Problem]) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def metrics(self) -> dict[str, float]:
        return {}


def test_what_was_proved_with_help_is_kept_out_of_the_figures() -> None:
    problem = build_problem("p", level=2)
    hint = Hint("reference", 0.5, "bo", (7,))

    def draw_of(given: Hint | None, *statuses: Status) -> JudgedDraw:
        turns = [build_turn(problem, status) for status in statuses]
        name = "h" if given else "b"
        made = [
            Rollout(f"{name}{i}", problem, "solver", (turn,), given) for i, turn in enumerate(turns)
        ]
        return JudgedDraw(tuple(made), len(made))

    proved, failed, lost = Status.PROVED, Status.REJECTED, Status.TIMEOUT
    tally, curriculum = Tally(), Recorder()
    state = cast(
        RunState,
        SimpleNamespace(
            curriculum=curriculum,
            _check_judged=lambda rollouts: None,
            store=make_store(),
            reviewer=Reviewer(AppealConfig(rate=0.0), seed=0, appeal=_unasked),
        ),
    )
    draws = [
        draw_of(None, failed, failed, failed, proved),
        draw_of(hint, proved, proved, failed, lost),
    ]
    groups = RunState.reward(state, Judged(draws, 1.0), proved_reward, tally)
    assert len(groups) == 2
    assert curriculum.heard == [groups[0]]
    metrics = tally.metrics(1.0)
    # 1 of 4 alone; 2 of 3 judged with help.
    assert metrics["solve_rate"] == 0.25
    assert metrics["hinted_solve_rate"] == pytest.approx(2 / 3)
    assert metrics["hinted_rollouts"] == 4
    assert metrics["hinted_groups"] == 1
    assert metrics["levels"] == {"2": {"attempts": 4, "solved": 1}}
    assert [row["hint"] and row["hint"]["num_tokens"] for row in tally.rows(1)] == (
        [None] * 4 + [1] * 4
    )


def test_a_proof_of_the_run_is_a_hint_where_it_fits() -> None:
    policy = tiny_policy()
    problem = build_problem("p")
    store = make_store()
    store.keep(problem, "invariant a\ninvariant b", num_tokens=9, policy_version=0)

    def plan(max_new_tokens: int) -> list[tuple[Problem, Hint]]:
        config = Config(sampling=SamplingConfig(max_new_tokens=max_new_tokens))
        session: Any = SimpleNamespace(
            policy=policy, config=config, problems=SimpleNamespace(without_reference=(problem,))
        )
        restarts = Restarts(config, options=RestartOptions(share=0.5))
        restarts.queue.queue["p"] = 0.25
        planned = restarts.choose(session, store.view(), 2)
        assert (restarts.queue.queue == {}) == bool(planned)
        return planned

    ((drawn, hint),) = plan(8)
    assert drawn is problem
    assert (hint.source, hint.text.rstrip()) == ("found", "invariant a")
    # The prompt and the hint are far shorter than 1024, but not with 1020 tokens to come.
    assert plan(1020) == []
