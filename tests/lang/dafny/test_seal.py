"""What a run wrote and somebody changed is not believed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proverrl.errors import RunError, UsageError
from proverrl.evaluation.compare import read_evaluation
from proverrl.evaluation.evaluate import evaluate
from proverrl.files.seal import SEAL, add_seal, has_own_seal, write_sealed
from proverrl.files.strict_json import load_json
from proverrl.run.checkpoint import STATE_FILE, read_state, save_checkpoint
from proverrl.types import Status
from tests.evaluation.test_evaluate import CountingPolicy, build_evaluation, judge
from tests.fake_verifier import FakeVerifier

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, min_size=1))
def test_a_seal_fits_what_was_read_back_and_nothing_else(row: dict[str, Any]) -> None:
    row.pop(SEAL, None)
    text = write_sealed(row) if row else json.dumps(add_seal(row))
    assert text == json.dumps(add_seal(row))
    read = load_json(text, allow_nan=True)
    assert has_own_seal(read)
    assert not has_own_seal({**read, "another": 0})
    assert not has_own_seal({**read, SEAL: 0})
    assert not has_own_seal({**row, "no seal": True})
    assert add_seal(add_seal(row)) == add_seal(row) or "NaN" in json.dumps(row)


def run_evaluation(
    folder: Path, samples: int, benchmark: str = "b", status: Status | None = None
) -> dict[str, Any]:
    settings = {"benchmark_sha256": benchmark}
    evaluation = build_evaluation(folder, samples=samples, ks=(1,), settings=settings)
    return asyncio.run(
        evaluate(evaluation, CountingPolicy(), FakeVerifier(lambda one: status or judge(one)))
    )


def replace_in_line(path: Path, number: int, old: str, new: str) -> None:
    lines = path.read_text().split("\n")
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new)
    path.write_text("\n".join(lines))


def test_an_attempt_that_was_made_a_proof_is_refused(tmp_path: Path) -> None:
    run_evaluation(tmp_path, 2)
    read_evaluation(tmp_path / "e.json")
    path = tmp_path / "e.jsonl"
    before = path.read_bytes()
    replace_in_line(path, 2, '"rejected"', '"proved"')
    told = r"e\.jsonl, line 2: changed after it was written \(sha256 does not fit\); restore"
    with pytest.raises(RunError, match=told):
        read_evaluation(tmp_path / "e.json")
    # Neither do further attempts build on it, and they leave the file as it is.
    changed = path.read_bytes()
    with pytest.raises(RunError, match=told):
        run_evaluation(tmp_path, 4)
    assert path.read_bytes() == changed != before
    # The line deleted, as the message says, is made again.
    path.write_bytes(b"".join(before.splitlines(keepends=True)[:1] + before.splitlines(True)[2:]))
    assert run_evaluation(tmp_path, 2)["levels"][0]["pass"]["1"]["value"] == 0.25
    assert sorted(path.read_bytes().splitlines()) == sorted(before.splitlines())


def evaluate_in(folder: Path, benchmark: str = "b") -> Path:
    run_evaluation(folder, 2, benchmark)
    return folder / "e.jsonl"


def test_an_attempt_without_its_checksum_is_refused(tmp_path: Path) -> None:
    path = evaluate_in(tmp_path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    del rows[3][SEAL]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(RunError, match=r"e\.jsonl, line 4: changed after it was written"):
        read_evaluation(path)
    summary = json.loads(path.with_suffix(".json").read_text())
    del summary[SEAL]
    path.with_suffix(".json").write_text(json.dumps(summary))
    with pytest.raises(RunError, match=r"e\.json: changed after it was written"):
        read_evaluation(path)


def test_attempts_of_another_evaluation_are_refused(tmp_path: Path) -> None:
    one, two = (evaluate_in(tmp_path / name, name) for name in "ab")
    lines = two.read_text().splitlines()
    lines[0] = one.read_text().splitlines()[0]
    two.write_text("\n".join(lines) + "\n")
    with pytest.raises(RunError, match=r"b.e\.jsonl, line 1: changed after it was written"):
        read_evaluation(two)
    settings = one.with_suffix(".settings")
    text = settings.read_text()
    settings.write_text(text.replace('"a"', '"b"'))
    with pytest.raises(RunError, match=r"e\.settings: changed after it was written"):
        read_evaluation(one)
    settings.unlink()
    with pytest.raises(RunError, match=r"e\.settings, to which the attempts .* belong, is missing"):
        read_evaluation(one)
    settings.write_text(text)
    read_evaluation(one)


def test_a_table_is_of_the_attempts_beside_it(tmp_path: Path) -> None:
    one = evaluate_in(tmp_path / "a")
    run_evaluation(tmp_path / "b", 2, status=Status.REJECTED)
    one.write_bytes((tmp_path / "b/e.jsonl").read_bytes())
    with pytest.raises(UsageError, match=r"e\.json counts: they are not those that were counted"):
        read_evaluation(one)
    told: list[str] = []
    read_evaluation(one, told.append)
    assert told == [f"{one}: they are not those that were counted"]


def test_a_figure_that_was_changed_is_refused(tmp_path: Path) -> None:
    run_evaluation(tmp_path, 2)
    path = tmp_path / "e.json"
    summary = json.loads(path.read_text())
    summary["levels"][0]["pass"]["1"]["value"] = 0.9
    path.write_text(json.dumps(summary))
    with pytest.raises(RunError, match=r"e\.json: changed after it was written"):
        read_evaluation(path)


STATE = {
    "proofs": {"p": [{"body": "assert a;", "num_tokens": 3}]},
    "in_flight": {"draws": [{"extractions": [{"body": "x"}], "logprobs": [-0.5]}]},
    "verifier_calls": 7,
}


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["proofs"]["p"][0].update(body="assert b;"),
        lambda state: state["in_flight"]["draws"][0]["extractions"][0].update(body="y"),
        lambda state: state.update(verifier_calls=-100),
        lambda state: state.update(other=1),
    ],
)
def test_a_checkpoint_that_was_changed_is_damaged(
    tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    checkpoint = save_checkpoint(tmp_path, 3, STATE, save_policy=lambda _: None)
    assert read_state(checkpoint) == {"step": 3, **STATE}
    path = checkpoint / STATE_FILE
    state = json.loads(path.read_text())
    change(state)
    path.write_text(json.dumps(state))
    with pytest.raises(RunError, match=r"damaged checkpoint \(changed after it was written"):
        read_state(checkpoint)
    state.pop(SEAL)
    path.write_text(json.dumps(state))
    with pytest.raises(RunError, match=r"damaged checkpoint \(changed after it was written"):
        read_state(checkpoint)
    path.write_text(json.dumps(add_seal(state)))
    assert read_state(checkpoint)["proofs"] == state["proofs"]
    for step in (10**30, -3, 2.9, True, "3", float("inf"), 4, None):
        path.write_text(json.dumps(add_seal({**state, "step": step})))
        with pytest.raises(RunError, match=r"damaged checkpoint \(step is "):
            read_state(checkpoint)
    path.write_text(json.dumps(add_seal(state)))
    moved = checkpoint.rename(tmp_path / "step_000009")
    with pytest.raises(RunError, match=r"damaged checkpoint \(step is 3\)"):
        read_state(moved)
