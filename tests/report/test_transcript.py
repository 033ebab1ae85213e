"""Stored rollouts read back and shown token by token."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console, RenderableType

from proverrl.advantages import Credit
from proverrl.cli.main import cli
from proverrl.errors import RunError, UsageError
from proverrl.files.lines import write_lines_atomically
from proverrl.monitor.rollout_rows import StoredTurn, describe_turns, read_turns
from proverrl.policy.loading import train_tokenizer
from proverrl.report.transcript import choose_rollout, read_step, render_list, render_rollout
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.run.tally import Tally
from proverrl.types import (
    Candidate,
    Completion,
    Diagnostic,
    Group,
    Reward,
    Rollout,
    Status,
    Turn,
    Verdict,
)
from tests.builders import build_problem

PROBLEM = build_problem("p")


def build_turn(prompt: tuple[int, ...], ids: tuple[int, ...], status: Status | None) -> Turn:
    completion = Completion("x", prompt, ids, (-0.5,) * len(ids), "stop", 2)
    if status is None:
        return Turn(completion, None, None, reason="no code block in the answer")
    errors = (Diagnostic("error", "bad loop"),) if status is Status.REJECTED else ()
    verdict = Verdict(status, errors, checks=("fake",))
    return Turn(completion, Candidate(PROBLEM, "b"), verdict, "try again" if errors else "")


def build_rollout(number: int = 0) -> Rollout:
    turns = (
        build_turn((1, 2), (5, 6), Status.REJECTED),
        build_turn((1, 2, 5, 6, 9), (7,), None),
        build_turn((1, 2, 7, 9), (8,), Status.PROVED),  # its history was cut
    )
    return Rollout(f"0-p-{number}", PROBLEM, "solver", turns)


def through_json(rollout: Rollout, advantages: list[Credit] | None) -> list[StoredTurn]:
    row = {"rollout_id": "r", "turns": describe_turns(rollout, advantages)}
    return read_turns(json.loads(json.dumps(row)))


def show(thing: RenderableType) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120, color_system=None).print(thing)
    return stream.getvalue()


def test_turns_are_stored_as_what_they_add() -> None:
    first, second, third = through_json(build_rollout(), [0.5, (0.25,), -1.0])
    assert (first.context_ids, first.restarts) == ((1, 2), False)
    assert (second.context_ids, second.restarts) == ((9,), False)
    assert (third.context_ids, third.restarts) == ((1, 2, 7, 9), True)
    assert first.advantages == (0.5, 0.5)
    assert second.advantages == (0.25,)
    assert third.advantages == (-1.0,)
    assert (first.logprobs, first.token_ids) == ((-0.5, -0.5), (5, 6))
    assert (first.status, first.diagnostics, first.feedback) == (
        "rejected",
        ("bad loop",),
        "try again",
    )
    assert (second.status, second.reason) == ("no candidate", "no code block in the answer")
    assert [turn.advantages for turn in through_json(build_rollout(), None)] == [(), (), ()]


def test_a_rollout_without_a_turn_is_damaged() -> None:
    with pytest.raises(RunError, match="rollout 'r' is damaged: it has no turn"):
        read_turns({"rollout_id": "r", "turns": []})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"turns": [{}]}, "turns.0.context_ids: Field required"),
        ({"turns": 5}, "turns: Input should be a valid list"),
        ({"turns": ...}, "turns: Field required"),
        ({"status": None}, "status: Input should be a valid string"),
        ({"hint": {"source": "bank"}}, "hint.ratio: Field required"),
    ],
)
def test_damaged_rows_are_named_with_file_and_line(
    tmp_path: Path, damage: dict[str, Any], message: str
) -> None:
    row = {"rollout_id": "r", "problem": {"id": "p"}, "status": "proved", "turns": []}
    damaged = {key: value for key, value in (row | damage).items() if value is not ...}
    write_lines_atomically(tmp_path / "rollouts" / "step_1.jsonl", [row, damaged])
    with pytest.raises(RunError) as caught:
        read_step(tmp_path, 1)
    place = tmp_path / "rollouts" / "step_1.jsonl"
    assert str(caught.value).startswith(f"{place}, line 2: {message}")
    assert str(caught.value).endswith("; restore the file")


def test_figures_of_another_length_are_damage() -> None:
    [turn, *_] = describe_turns(build_rollout(), [0.5, 0.5, 0.5])
    turn["logprobs"] = [-0.5]
    with pytest.raises(RunError, match="2 tokens, but other numbers of figures"):
        read_turns({"turns": [turn]})


def tally_rows() -> list[dict[str, Any]]:
    tally = Tally()
    rollouts = (build_rollout(0), build_rollout(1))
    rewards = (Reward(1.0), Reward(0.0))
    group = Group(("solver", "p"), rollouts, rewards)
    tally.add_group(JudgedDraw(rollouts, 0), group, num_appeals=0)
    tally.add_group(JudgedDraw((build_rollout(2),), 0), None, num_appeals=0)
    tally.add_step([group], [[[0.5, (0.1,), (0.2,)], [-0.5, -0.5, -0.5]]])
    return [dict(row) for row in tally.rows(4)]


def test_a_row_says_the_last_turns_advantage_and_keeps_all() -> None:
    first, second, dropped = tally_rows()
    assert [row["advantage"] for row in (first, second, dropped)] == [0.2, -0.5, None]
    assert [turn["advantages"] for turn in first["turns"]] == [0.5, [0.1], [0.2]]
    assert [turn["advantages"] for turn in dropped["turns"]] == [None, None, None]


def test_a_rollout_is_shown_with_masks_and_advantages() -> None:
    text = show(render_rollout(tally_rows()[0], lambda token: f"t{token} "))
    assert "Turn 1: prompt, 2 tokens, mask 0" in text
    assert "t1 t2" in text
    assert "Turn 2: feedback, 1 tokens, mask 0" in text
    assert "Turn 3: prompt, with the oldest turns cut, 4 tokens, mask 0" in text
    cells = [[cell.strip() for cell in line.split("│")] for line in text.splitlines()]
    assert ["", "1", "6", "t6·", "1", "-0.500", "+0.500", ""] in cells
    assert ["", "0", "7", "t7·", "1", "-0.500", "+0.100", ""] in cells
    assert "verdict: no candidate (no code block in the answer)" in text
    assert "verdict: rejected\n  bad loop\nfeedback: try again" in "\n".join(
        line.rstrip() for line in text.splitlines()
    )
    dropped = show(render_rollout(tally_rows()[2], str))
    assert ["", "1", "6", "6", "0", "-0.500", "-", ""] in [
        [cell.strip() for cell in line.split("│")] for line in dropped.splitlines()
    ]


def test_the_list_counts_turns_and_tokens() -> None:
    lines = show(render_list(tally_rows(), 4)).splitlines()
    assert "Step 4: 3 rollouts" in lines[0]
    cells = [[cell.strip() for cell in line.split("│")] for line in lines]
    assert ["", "0-p-0", "proved", "1.00", "0.200", "3", "4", ""] in cells
    assert ["", "0-p-2", "proved", "-", "-", "3", "4", ""] in cells


def test_the_first_that_was_learned_from_is_chosen() -> None:
    rows = [{"rollout_id": "a", "advantage": 0.0}, {"rollout_id": "b", "advantage": -0.5}]
    assert choose_rollout(rows, None) == rows[1]
    assert choose_rollout(rows[:1], None) == rows[0]
    assert choose_rollout(rows, "a") == rows[0]
    with pytest.raises(UsageError, match="no rollout 'bb'; the nearest id is 'b'"):
        choose_rollout(rows, "bb")


def test_the_command_shows_a_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_lines_atomically(run / "rollouts" / "step_4.jsonl", tally_rows())
    with pytest.raises(RunError, match="no rollouts of step 3: it has steps 4 to 4"):
        read_step(run, 3)
    listed = CliRunner().invoke(cli, ["inspect", str(run), "4", "--list"])
    assert listed.exit_code == 0
    assert "0-p-1" in listed.output
    without = CliRunner().invoke(cli, ["inspect", str(run), "4"])
    assert isinstance(without.exception, RunError)  # no tokenizer
    tokenizer = train_tokenizer(["while i < n"], vocab_size=300)
    tokenizer.save_pretrained(run / "policy")
    (run / "policy" / "config.json").write_text('{"model_type": "llama"}')
    shown = CliRunner().invoke(cli, ["inspect", str(run), "4", "--rollout", "0-p-1"])
    assert shown.exit_code == 0, shown.output
    assert "-0.500" in shown.output
    assert "Step 4" not in shown.output
