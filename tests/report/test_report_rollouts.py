"""The rollouts in the page are those of the run folder, token by token, and what is left out is
counted."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proverrl.errors import RunError
from proverrl.policy.loading import train_tokenizer
from proverrl.report import rollout_data
from proverrl.report.rollout_data import build_rollouts, describe_step, order_steps
from proverrl.report.run import load_runs
from proverrl.report.transcript import find_tokenizer, open_decoder
from tests import report_runs as made
from tests.report_page import unpack_json


def unpack(run: Path) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """The index, the totals of the run, and its steps by the name of their piece."""
    packed = build_rollouts(load_runs([run]))
    return packed.steps, packed.totals[0], {p.name: unpack_json(p.packed) for p in packed.pieces}


def test_counts_are_those_of_the_files(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=4, rollout_steps=0)
    rng = random.Random(3)
    for step, count in ((1, 16), (2, 9), (4, 40)):
        made.write_lines(
            run / "rollouts" / f"step_{step}.jsonl", made.make_rollouts(step, rng, count)
        )
    steps, totals, pieces = unpack(run)
    assert [(entry["step"], entry["rollouts"], entry["groups"]) for entry in steps] == [
        (1, 16, 2),
        (2, 9, 2),  # eight of the first problem, one of the second
        (4, 40, 5),
    ]
    for entry in steps:
        lines = (run / "rollouts" / f"step_{entry['step']}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        groups = pieces[entry["piece"]]["groups"]
        assert entry["proved"] == sum(row["status"] == "proved" for row in rows)
        assert [r["id"] for group in groups for r in group["rollouts"]] == [
            row["rollout_id"] for row in rows
        ]
        assert Counter(
            (group["problem"], r["status"], r["reward"], r["advantage"])
            for group in groups
            for r in group["rollouts"]
        ) == Counter(
            (row["problem"]["id"], row["status"], row["reward"], row["advantage"]) for row in rows
        )
    # make_metrics logs 128 rollouts a step; the files are of 3 steps.
    assert (totals["steps"], totals["rollouts"]) == (3, 3 * 128)


def test_masks_and_advantages_arrive_token_by_token(tmp_path: Path) -> None:
    made.write_lines(
        tmp_path / "step_1.jsonl",
        [made.make_turns_rollout("0-p-0"), made.make_turns_rollout("0-p-1", in_group=False)],
    )
    step = describe_step(tmp_path / "step_1.jsonl", lambda token: f"t{token}")
    [group] = step["groups"]
    first, dropped = group["rollouts"]
    one, two = first["turns"]
    assert [step["contexts"][turn["context"]] for turn in (one, two)] == [[1, 2, 3], [9, 9]]
    assert (one["ids"], two["ids"]) == ([5, 6, 7], [8, 6])
    assert (one["logprobs"], two["logprobs"]) == ([-0.5, -0.25, -1.5], [-0.125, -2.0])
    # One number where a turn's tokens share it, else one a token.
    assert (one["advantages"], two["advantages"]) == (-0.5, [0.75, -0.25])
    assert (one["learned"], two["learned"]) == (True, True)
    assert (one["status"], one["messages"], two["status"]) == ("rejected", ["bad loop"], "proved")
    assert [(t["advantages"], t["learned"]) for t in dropped["turns"]] == [(None, False)] * 2
    assert [t["context"] for t in dropped["turns"]] == [one["context"], two["context"]]
    assert step["texts"] == {str(token): f"t{token}" for token in (1, 2, 3, 5, 6, 7, 8, 9)}
    # 3 + 2 tokens, from turns that are counted and not from "completion".
    assert (first["tokens"], first["num_turns"]) == (5, 2)


def test_one_problem_drawn_twice_is_two_groups(tmp_path: Path) -> None:
    rows = [made.make_turns_rollout(name) for name in ("0-p-0", "0-p-1", "1-p-0")]
    made.write_lines(tmp_path / "step_1.jsonl", rows)
    groups = describe_step(tmp_path / "step_1.jsonl", None)["groups"]
    assert [len(group["rollouts"]) for group in groups] == [2, 1]


def test_rollouts_beyond_the_limit_are_listed_without_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A rollout has 5 tokens of its own and 5 of contexts, which the second shares: 10, then 5.
    monkeypatch.setattr(rollout_data, "MAX_TOKENS_A_STEP", 15)
    run = tmp_path / "run"
    rows = [made.make_turns_rollout(f"0-p-{number}") for number in range(4)]
    made.write_lines(run / "rollouts" / "step_1.jsonl", rows)
    made.write_json(run / "resolved.json", made.make_resolved("grpo", 1))
    [entry], totals, pieces = unpack(run)
    rollouts = pieces["rollouts-0-1"]["groups"][0]["rollouts"]
    assert ["turns" in rollout for rollout in rollouts] == [True, True, False, False]
    assert ["body" in rollout for rollout in rollouts] == [True, True, False, False]
    assert [rollout["tokens"] for rollout in rollouts] == [5, 5, 5, 5]
    assert (entry["rollouts"], entry["detailed"]) == (4, 2)
    assert totals["rollouts"] is None  # no metrics say how many there are


def test_a_long_turn_is_cut_and_says_by_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout_data, "MAX_TOKENS_A_TURN", 2)
    made.write_lines(tmp_path / "step_1.jsonl", [made.make_turns_rollout("0-p-0")])
    step = describe_step(tmp_path / "step_1.jsonl", None)
    first = step["groups"][0]["rollouts"][0]["turns"][0]
    assert (first["ids"], first["logprobs"], first["cut"]) == ([5, 6], [-0.5, -0.25], 1)
    # Of a prompt the end is kept, which stands before the completion.
    assert (step["contexts"][first["context"]], first["context_cut"]) == ([2, 3], 1)
    assert step["texts"] is None


def test_the_newest_step_is_kept_when_nothing_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout_data, "MAX_PACKED_CHARS", 1)
    run = made.make_run(tmp_path / "run", steps=5, rollout_steps=5)
    steps, totals, pieces = unpack(run)
    assert [entry["step"] for entry in steps] == [5]
    assert [*pieces] == ["rollouts-0-5"]
    assert totals["steps"] == 5


@given(st.sets(st.integers(0, 10_000), max_size=200))
def test_steps_are_ordered_from_the_ends_inwards(steps: set[int]) -> None:
    ordered = order_steps(sorted(steps))
    assert sorted(ordered) == sorted(steps)
    if steps:
        assert {*ordered[:2]} == {max(steps), min(steps)}
        assert ordered[0] == max(steps)


def test_any_start_of_the_order_is_a_spread() -> None:
    # Places 0..8: the ends, the middle 4, then 6 and 2, then 7, 5, 3, 1.
    assert order_steps(list(range(9))) == [8, 0, 4, 6, 2, 7, 5, 3, 1]


def test_tokens_have_texts_where_the_run_has_a_tokenizer(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made.write_json(run / "resolved.json", made.make_resolved("grpo", 1))
    made.write_lines(run / "rollouts" / "step_1.jsonl", [made.make_turns_rollout("0-p-0")])
    _, totals, pieces = unpack(run)
    assert totals["note"].startswith("Tokens are shown by their ids:")
    assert "holds no tokenizer.json" in totals["note"]
    assert pieces["rollouts-0-1"]["texts"] is None

    tokenizer = train_tokenizer(["while i < n"], vocab_size=300)
    tokenizer.save_pretrained(run / "checkpoints" / "step_000002" / "policy")
    _, totals, pieces = unpack(run)
    assert totals["note"] == ""
    assert pieces["rollouts-0-1"]["texts"]["7"] == tokenizer.decode([7])
    assert open_decoder(run)(len(tokenizer) + 1) == ""

    found = find_tokenizer(run)
    assert found is not None
    found.write_text("{")
    with pytest.raises(RunError, match=r"tokenizer\.json: the tokenizer cannot be loaded"):
        open_decoder(run)


def test_a_damaged_rollout_is_named(tmp_path: Path) -> None:
    row = made.make_turns_rollout("0-p-0")
    del row["turns"][0]["token_ids"]
    made.write_lines(tmp_path / "step_1.jsonl", [row])
    with pytest.raises(RunError, match=r"step_1\.jsonl, line 1: turns\.0\.token_ids: Field requ"):
        describe_step(tmp_path / "step_1.jsonl", None)
