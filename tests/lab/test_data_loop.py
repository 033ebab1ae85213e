"""The data loop on a scripted verifier: grades, attack on both sides, the end, exact resumption."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proverrl.compose.archive import ProblemArchive
from proverrl.config import Config, parse_config
from proverrl.config.loops import check_loop
from proverrl.errors import UsageError
from proverrl.jobs import train as train_module
from proverrl.lab.data_loop.grades import (
    GRADES,
    RUN,
    DataLoopOptions,
    Grade,
    grade_statement,
    measure_novelty,
)
from proverrl.problems.load import write_problems
from proverrl.run.checkpoint import latest_checkpoint, read_state
from proverrl.types import HOLE, Candidate, Problem, Status
from tests.run.test_grpo import (
    StubVerifier,
    judge,
    kill_at,
    make_config,
    run,
    same,
    step_lines,
    weights,
)

__all__ = ["make_config"]

DATA_LOOP = "proverrl.lab.data_loop.loop:data_loop"
ROUNDS = {"rounds": 3, "problems_per_round": 8, "problems_per_draw": 8, "samples_per_problem": 4}
LEMMA = "lemma L(n: nat)\n  ensures n + {a} >= {b}\n{{\n  {hole}\n}}\n"


def answer(candidate: Candidate) -> Status:
    """A negation is proved by any body of a policy, a loop by the right name only; of the other
    lemmas the witnesses and the plain induction prove none."""
    if "exists" in candidate.source:
        return Status.PROVED if candidate.body.startswith("invariant") else Status.REJECTED
    return judge(candidate)


@pytest.fixture
def make_loop(
    make_config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Config]:
    monkeypatch.setattr(train_module, "open_configured", lambda *_, **__: StubVerifier(answer))

    def make(name: str, data_loop: dict[str, Any] | None = None, **changes: Any) -> Config:
        table = {
            "evaluation": {"before": False, "after": False},
            "expert_iteration": ROUNDS,
            "selfplay": {
                "statements": 6,
                "operators": ["change_constant", "flip_sign"],
                "filters": ["duplicate", "leak", "trivial", "refuted"],
            },
            "loop_options": {
                "keep": GRADES,
                "attack_samples": 4,
                "min_gain": 0.0,
                **(data_loop or {}),
            },
            **changes,
        }
        return make_config(name, loop=DATA_LOOP, **table)

    return make


@pytest.fixture
def lemmas(tmp_path: Path) -> Path:
    """The loops of the training file, and lemmas."""
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    for number in range(12):
        statement = LEMMA.format(a=number + 100, b=number, hole=HOLE)
        rows.append(
            {
                "id": f"l{number}",
                "language": "dafny",
                "kind": "statements",
                "preamble": "",
                "statement": statement,
                "metadata": {"level": 1, "family": "lemma"},
            }
        )
    write_problems(tmp_path / "lemmas.jsonl", rows)
    return tmp_path / "lemmas.jsonl"


def archive_of(folder: Path) -> ProblemArchive:
    return ProblemArchive(folder / "archive.jsonl")


@pytest.mark.slow
def test_rounds_compose_attack_and_learn(make_loop: Callable[..., Config]) -> None:
    folder = run(make_loop("loop"))
    lines = step_lines(folder)
    archive = archive_of(folder)
    facts = [archive.facts(c.problem.id) for c in archive]
    assert [line["step"] for line in lines] == [1, 2, 3]
    solved = 0
    for line in lines:
        stopped = sum(line["filter_stops"].values()) + line["statements_graded_out"]
        assert line["statements_written"] == 6
        assert line["statements_malformed"] + stopped + line["statements_kept"] == 6
        assert line["newly_proved"] == line["problems_solved"] - solved
        assert line["gain"] == line["newly_proved"] / max(1, solved)
        assert line["newly_proved"] >= line["statements_proved"]
        assert line["verifier_calls"] > line["filter_calls"] > 0
        assert line["attack_tokens"] > 0
        solved = line["problems_solved"]
    assert sum(f.get("proved", False) for f in facts) == sum(x["statements_proved"] for x in lines)
    assert sum(line["statements_proved"] for line in lines) > 0
    total = sum(line["verifier_calls"] for line in lines)
    assert lines[-1]["verifier_calls_total"] == total
    # What was proved is learned from: the checkpoint has the proofs of composed problems.
    checkpoint = latest_checkpoint(folder / "checkpoints")
    assert checkpoint is not None
    proofs = read_state(checkpoint)["proofs"]
    assert {c.problem.id for c in archive if archive.facts(c.problem.id).get("proved")} <= set(
        proofs
    )


@pytest.mark.slow
def test_a_negation_that_the_policy_proves_disposes_of_the_statement(
    make_loop: Callable[..., Config], lemmas: Path, tmp_path: Path
) -> None:
    problems = {"train": str(lemmas), "heldout": str(tmp_path / "heldout.jsonl")}
    folder = run(make_loop("both", problems=problems))
    lines, archive = step_lines(folder), archive_of(folder)
    disproved = sum(line["statements_disproved"] for line in lines)
    assert disproved == sum(line["filter_stops"].get("refuted", 0) for line in lines) > 0
    negations = [c for c in archive if "negation_of" in archive.facts(c.problem.id)]
    assert 0 < len(negations) <= disproved
    checkpoint = latest_checkpoint(folder / "checkpoints")
    assert checkpoint is not None
    state = read_state(checkpoint)
    added = {row["id"] for row in state["curriculum"]["added"]}
    for negation in negations:
        refuted = archive.facts(negation.problem.id)["negation_of"]
        assert archive.facts(refuted)["stopped_by"] == "refuted"
        # It is a training item, with the body that proved it; neither of the two is drawn again.
        assert negation.reference in [p["body"] for p in state["proofs"][negation.problem.id]]
        assert not {refuted, negation.problem.id} & added


@pytest.mark.slow
def test_only_kept_grades_are_attacked(make_loop: Callable[..., Config]) -> None:
    # The loops have no conclusion, which costs two steps: none is excellent or good.
    folder = run(make_loop("graded", {"keep": ["excellent", "good"]}, expert_iteration__rounds=1))
    (line,) = step_lines(folder)
    graded = line["statements_graded"]
    assert graded["excellent"] == graded["good"] == 0
    assert line["statements_graded_out"] == sum(graded.values()) > 0
    assert line["grade_reasons"]["concludes nothing"] == sum(graded.values())
    assert line["statements_kept"] == line["attack_tokens"] == 0
    archive = archive_of(folder)
    assert {archive.facts(c.problem.id)["stopped_by"] for c in archive} >= {"grade"}


@pytest.mark.slow
def test_the_loop_ends_when_gains_vanish(make_loop: Callable[..., Config]) -> None:
    # A gain above 1 in a round is possible for the first ones only: 1.0 asks for twice as many.
    settings = {"min_gain": 1.0, "patience": 2}
    many = {**ROUNDS, "rounds": 12}
    folder = run(make_loop("end", settings, expert_iteration=many))
    lines = step_lines(folder)
    assert len(lines) < 12
    assert [line["slow_rounds"] for line in lines][-2:] == [1, 2]
    assert all(line["gain"] < 1.0 for line in lines[-2:])
    # Asked again, a run that is done does no further round.
    shutil.rmtree(folder / "policy")
    assert step_lines(run(make_loop("end", settings, expert_iteration=many))) == lines


@pytest.mark.slow
@pytest.mark.parametrize("composer", ["program", "policy"])
def test_one_and_two_rounds_equal_three_bit_for_bit(
    make_loop: Callable[..., Config], composer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proverrl.loops.selfplay.composer.TAUGHT_SCRIPTS", 64)
    play = {
        "statements": 6,
        "operators": ["change_constant", "flip_sign"],
        "filters": ["duplicate", "leak", "trivial", "refuted"],
        "composer": composer,
        "max_new_tokens": 24,
    }
    changes: dict[str, Any] = {"selfplay": play}
    if composer == "policy":
        # Enough for a model of this size to write scripts some of the time.
        changes |= {"warm_start__steps": 300, "warm_start__learning_rate": 1e-2}
    whole = run(make_loop("whole", **changes))
    run(make_loop("parts", **changes, expert_iteration={**ROUNDS, "rounds": 1}))
    parts = whole.parent / "parts"
    shutil.rmtree(parts / "policy")
    # As if the run had been killed after it composed the next round: that is made again.
    lines = (parts / "archive.jsonl").read_text().splitlines(keepends=True)
    with (parts / "archive.jsonl").open("a") as file:
        file.writelines(lines[-1:])
    again = run(make_loop("parts", **changes))
    assert step_lines(whole) == step_lines(again)
    composed = ["composer_truncated_share" in line for line in step_lines(whole)]
    assert composed == [composer == "policy"] * 3
    assert same(weights(whole), weights(again))
    assert (whole / "archive.jsonl").read_text() == (again / "archive.jsonl").read_text()


KILLED_RUN = """
import asyncio, json, sys
from proverrl.config import parse_config
from proverrl.jobs import train as train_module
from tests.lab.test_data_loop import answer
from tests.run.test_grpo import StubVerifier

train_module.open_configured = lambda *a, **k: StubVerifier(answer)
config = parse_config(json.loads(sys.argv[1]), source="test")
asyncio.run(train_module.train(config, live=False))
"""


@pytest.mark.slow
def test_a_killed_loop_ends_like_an_unbroken_one(make_loop: Callable[..., Config]) -> None:
    rounds = {"expert_iteration": {**ROUNDS, "rounds": 4}}
    whole = run(make_loop("unbroken", **rounds))
    config = make_loop("killed", **rounds)
    moments = ("archive.jsonl", "checkpoints/step_000001", "checkpoints/step_000003")
    assert kill_at(moments, KILLED_RUN, config) == 3
    again = run(config)
    assert step_lines(whole) == step_lines(again)
    assert same(weights(whole), weights(again))
    assert (whole / "archive.jsonl").read_text() == (again / "archive.jsonl").read_text()


def loop_problem(name: str, text: str) -> Problem:
    return Problem(name, "dafny", "statements", "", text)


def test_novelty_counts_runs_that_the_nearest_parent_has_not() -> None:
    text = f"lemma L(n: nat) ensures n >= 3 {{ {HOLE} }}"
    # lemma _ ( _ : nat ) ensures _ >= 3 { } : 13 tokens, 10 runs of 4, all different. Another
    # number, third from the end, changes the runs that begin 3, 2 and 1 before it: 3 of 10.
    problem = loop_problem("a", text)
    changed = loop_problem("b", text.replace("3", "4"))
    renamed = loop_problem("c", text.replace("L(n:", "M(k:").replace("n >=", "k >="))
    assert RUN == 4
    assert measure_novelty(problem, [problem]) == 0.0
    assert measure_novelty(problem, []) == 1.0
    assert measure_novelty(problem, [changed]) == pytest.approx(0.3)
    assert measure_novelty(problem, [changed, problem]) == 0.0
    assert len(set(GRADES)) == 5
    assert measure_novelty(problem, [renamed]) == 0.0


@pytest.mark.parametrize(
    ("obligations", "min_tokens", "novel", "name", "reasons"),
    [
        (4, 1, True, "excellent", ()),
        (None, 1, True, "excellent", ()),
        # 2 of 4 is half: one step; 1 is less than half: two.
        (2, 1, True, "good", ("few obligations",)),
        (1, 1, True, "above_average", ("few obligations",)),
        (1, 20, True, "fair", ("few obligations", "short")),
        (1, 20, False, "poor", ("few obligations", "short", "near a parent")),
    ],
)
def test_a_grade_loses_a_step_for_each_limit_and_two_below_half(
    obligations: int | None, min_tokens: int, novel: bool, name: str, reasons: tuple[str, ...]
) -> None:
    # 13 tokens: below 20, not below 10.
    problem = loop_problem("a", f"lemma L(n: nat) ensures n >= 3 {{ {HOLE} }}")
    settings = DataLoopOptions(min_obligations=4, min_tokens=min_tokens)
    parents = [] if novel else [problem]
    assert grade_statement(problem, parents, obligations, settings) == Grade(name, reasons)  # type: ignore[arg-type]


def test_conclusions_that_leave_out_what_is_given_cost_a_step() -> None:
    settings = DataLoopOptions(min_tokens=1)
    texts = {
        f"lemma L(n: nat) ensures 3 >= 3 {{ {HOLE} }}": "good",
        f"lemma L(n: nat) {{ {HOLE} }}": "above_average",
        f"lemma L() ensures 3 >= 3 {{ {HOLE} }}": "excellent",
        f"lemma L() ensures 3 >= 3 {{ /* {HOLE}": "poor",
    }
    for text, name in texts.items():
        assert grade_statement(loop_problem("a", text), [], 9, settings).name == name


def test_settings_that_cannot_work_are_refused() -> None:
    def refuse(said: str, **table: Any) -> None:
        with pytest.raises(UsageError, match=said):
            check_loop(parse_config({"loop": DATA_LOOP, **table}, source="test"))

    refuse("keep names no grade", loop_options={"keep": []})
    refuse("above", loop_options={"min_tokens": 400})
    refuse("no use for selfplay.late_filters", selfplay={"late_filters": ["trivial"]})
    refuse("no use for selfplay.operator_choice", selfplay={"operator_choice": "useful"})
    refuse("one policy", selfplay={"composer": "policy", "weights": "own"})
