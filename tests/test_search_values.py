"""The value of a prefix: figures by hand, pairs of rollouts, training, saving."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.errors import UsageError
from proverrl.search.base import Prefix
from proverrl.search.value_metrics import (
    compute_auc,
    compute_calibration,
    compute_within,
    measure_values,
)
from proverrl.search.values import (
    SETTINGS,
    ValuePair,
    ValueSettings,
    compute_features,
    fit_head,
    is_held_back,
    list_prefixes,
    load_value,
    read_pairs,
    save_value,
    train_value,
)
from tests.builders import build_problem
from tests.test_policy import tiny_policy

SMALL = ValueSettings(hidden=8, epochs=40, learning_rate=0.01)


def test_auc_by_hand() -> None:
    # Solved 0.8 and 0.3, unsolved 0.5 and 0.3: wins 1 + 1 + 0 + a tie 1/2 of 4 pairs.
    assert compute_auc([0.8, 0.5, 0.3, 0.3], [True, False, True, False]) == 2.5 / 4
    assert compute_auc([0.1, 0.9], [False, True]) == 1.0
    assert compute_auc([0.5, 0.5], [False, True]) == 0.5
    assert math.isnan(compute_auc([0.5, 0.5], [True, True]))


def test_auc_within_problems_by_hand() -> None:
    # In a: solved 0.2 against 0.1 (win) and 0.4 (loss); in b: a win; across them nothing counts.
    scores = [0.2, 0.1, 0.4, 0.9, 0.8, 0.99]
    solved = [True, False, False, True, False, False]
    problems = ["a", "a", "a", "b", "b", "c"]
    assert compute_within(scores, solved, problems) == 2 / 3
    # Altogether: 0.2 beats 0.1; 0.9 beats 0.1, 0.4, 0.8: 4 of 8 pairs.
    assert compute_auc(scores, solved) == 4 / 8
    assert math.isnan(compute_within([0.1, 0.2], [True, False], ["a", "b"]))


def test_calibration_and_brier_by_hand() -> None:
    scores, solved = [0.85, 0.95, 0.1, 1.0], [True, False, False, True]
    # Bins 0.8, 0.9 (0.95 and 1.0), 0.1: |0.85 - 1| + |1.95 - 1| + |0.1 - 0| over 4.
    assert compute_calibration(scores, solved) == pytest.approx((0.15 + 0.95 + 0.1) / 4)
    metrics = measure_values(scores, solved, ["a", "a", "b", "b"])
    assert metrics.brier == pytest.approx((0.0225 + 0.9025 + 0.01 + 0.0) / 4)
    assert (metrics.brier_base, metrics.share_solved) == (0.25, 0.5)
    assert (metrics.num_pairs, metrics.num_problems) == (4, 2)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=12))
def test_auc_is_what_its_definition_says(rows: list[tuple[int, bool]]) -> None:
    good = [score for score, label in rows if label]
    bad = [score for score, label in rows if not label]
    found = compute_auc([score / 4 for score, _ in rows], [label for _, label in rows])
    if not good or not bad:
        assert math.isnan(found)
        return
    wins = sum((g > b) + (g == b) / 2 for g in good for b in bad)
    assert found == pytest.approx(wins / (len(good) * len(bad)))


def write_rows(path: Path) -> Path:
    problem = {"id": "p", "preamble": "", "statement": build_problem("p").statement}
    rows = [
        {"problem": problem, "status": "proved", "body": "invariant a\ninvariant b"},
        {"problem": problem, "status": "rejected", "body": "A(); B(); C();"},
        {"problem": problem, "status": "rejected", "body": None},
        {"problem": problem, "status": "timeout", "body": "A();"},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    return path


def test_pairs_of_a_rollout_file(tmp_path: Path) -> None:
    pairs = read_pairs([write_rows(tmp_path / "step_1.jsonl")])
    assert [(pair.prefix, pair.solved) for pair in pairs] == [
        ("", True),
        ("invariant a", True),
        ("", False),
        ("A();", False),
        ("A(); B();", False),
    ]
    assert list_prefixes("") == [""]
    (tmp_path / "x.jsonl").write_text('{"problem": 1}\n', "utf-8")
    with pytest.raises(UsageError, match=r"x.jsonl, line 1: not a rollout"):
        read_pairs([tmp_path / "x.jsonl"])


def make_pairs() -> list[ValuePair]:
    """40 problems; a prefix that says "good" is solved."""
    return [
        ValuePair(build_problem(f"p{i}", n=i), f"invariant {word}", word == "k")
        for i in range(40)
        for word in ("k", "0")
    ]


def test_problems_are_held_back_whole_and_by_their_id() -> None:
    held = {f"p{i}" for i in range(1000) if is_held_back(f"p{i}", ValueSettings())}
    # 1000 draws at 0.2: five standard deviations are 5 * sqrt(160) = 63.
    assert 137 < len(held) < 263
    assert held != {f"p{i}" for i in range(1000) if is_held_back(f"p{i}", ValueSettings(seed=1))}


def test_features_do_not_depend_on_the_batch() -> None:
    policy = tiny_policy()
    rows = [(pair.problem, pair.prefix) for pair in make_pairs()[:5]] + [(build_problem("q"), "")]
    together = compute_features(policy, rows)
    alone = torch.cat([compute_features(policy, [row]) for row in rows])
    assert together.shape == (6, 2 * policy.model.config.hidden_size)
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)


def test_a_head_learns_what_tells_prefixes_apart_and_loads_back_exactly(tmp_path: Path) -> None:
    policy = tiny_policy()
    pairs = make_pairs()
    model, metrics = train_value(policy, pairs, SMALL)
    num_held = sum(is_held_back(f"p{i}", SMALL) for i in range(40))
    assert (metrics.num_pairs, metrics.num_problems) == (2 * num_held, num_held)
    assert metrics.auc == metrics.within == 1.0
    assert metrics.brier < 0.1 < metrics.brier_base
    again, _ = train_value(policy, pairs, SMALL)
    problem = build_problem("new", n=7)
    prefixes = [Prefix("invariant k", "s"), Prefix("invariant 0", "t"), Prefix("", "")]
    values = asyncio.run(model(problem, prefixes))
    assert values == asyncio.run(again(problem, prefixes))
    assert values[0] > 0.5 > values[1]
    assert asyncio.run(model(problem, [])) == []
    save_value(model, tmp_path / "value", SMALL, metrics)
    loaded = load_value(policy, tmp_path / "value")
    assert asyncio.run(loaded(problem, prefixes)) == values
    for name, tensor in model.head.state_dict().items():
        assert torch.equal(loaded.head.state_dict()[name], tensor)


def test_training_stops_where_the_held_back_loss_was_lowest() -> None:
    """Labels that mean the opposite on the held-back rows: every epoch of training makes it worse,
    so that the head stays near the first epoch's."""
    rows = torch.tensor([[-1.0], [1.0]]).repeat(20, 1)
    labels = torch.tensor([0.0, 1.0]).repeat(20)
    change = ValueSettings(hidden=4, epochs=50, patience=2, learning_rate=0.05)
    opposite = fit_head(rows, labels, rows, 1 - labels, change)
    same = fit_head(rows, labels, rows, labels, change)
    confidence = [
        float((torch.sigmoid(head(rows).detach()) - 0.5).abs().mean()) for head in (opposite, same)
    ]
    assert confidence[0] < confidence[1] / 2


def test_what_cannot_be_fitted_or_loaded_says_so(tmp_path: Path) -> None:
    policy = tiny_policy()
    with pytest.raises(UsageError, match="not both solved and unsolved"):
        train_value(policy, [pair for pair in make_pairs() if pair.solved], SMALL)
    with pytest.raises(UsageError, match="holds no value model"):
        load_value(policy, tmp_path)
    model, metrics = train_value(policy, make_pairs(), SMALL)
    save_value(model, tmp_path, SMALL, metrics)
    about = json.loads((tmp_path / SETTINGS).read_text())
    (tmp_path / SETTINGS).write_text(json.dumps({**about, "size": 6}))
    with pytest.raises(UsageError, match="reads 6 features"):
        load_value(policy, tmp_path)
