"""The value of a prefix: figures by hand, pairs of rollouts, training, saving."""

from __future__ import annotations

import asyncio
import copy
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from proverrl.errors import RunError, UsageError
from proverrl.lab.value.features import compute_features, measure_entropy
from proverrl.lab.value.fit import (
    HeadFit,
    ValueData,
    choose_side,
    compute_auc,
    compute_calibration,
    compute_within,
    measure_values,
)
from proverrl.lab.value.model import (
    SETTINGS,
    WEIGHTS,
    ValueModel,
    ValuePair,
    build_data,
    hash_pairs,
    list_pairs,
    list_prefixes,
    list_rollout_pairs,
    load_value,
    measure_head,
    open_fit,
    save_value,
)
from proverrl.lab.value.options import ValueOptions
from proverrl.lang.records import Prefix
from proverrl.policy.loading import build_policy, train_tokenizer
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import render_opening
from proverrl.search.proposals import render_prefix
from proverrl.search.samples import SearchSample
from proverrl.types import HOLE, Problem
from tests.builders import build_problem
from tests.policy.test_policy import TINY, tiny_policy
from tests.tolerance import FLOAT32

SMALL = ValueOptions(hidden=8, epochs=40, learning_rate=0.01, batch_size=32)


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


def make_rollout(status: str, body: str | None, **problem: str) -> dict[str, Any]:
    given = {"id": "p", "language": "dafny", "preamble": ""}
    shown = given | {"statement": build_problem("p").statement} | problem
    return {"rollout_id": "r", "problem": shown, "status": status, "body": body}


FILE = Path("s.jsonl")
ROLLOUTS = [
    make_rollout("proved", "invariant a\ninvariant b"),
    make_rollout("rejected", "A(); B(); C();"),
    make_rollout("rejected", None),
    make_rollout("timeout", "A();"),
]


def test_pairs_of_rollouts() -> None:
    pairs = list_rollout_pairs(FILE, ROLLOUTS)
    assert {pair.prefix.state for pair in pairs} == {""}
    assert [(pair.prefix.text, pair.solved) for pair in pairs] == [
        ("", True),
        ("invariant a", True),
        ("", False),
        ("A();", False),
        ("A(); B();", False),
    ]
    assert list_prefixes("") == [""]
    statement = "theorem t : P := by\n  /*{HOLE}*/"
    with pytest.raises(UsageError, match="which rollouts do not hold; give samples"):
        list_rollout_pairs(
            FILE, [make_rollout("proved", "rfl", language="lean", statement=statement)]
        )
    with pytest.raises(
        UsageError, match=r"s.jsonl: rollout 'r' is damaged .*exactly once, found 0"
    ):
        list_rollout_pairs(FILE, [make_rollout("proved", "A();", statement="method M() {}")])
    with pytest.raises(UsageError, match=r"s.jsonl: rollout 'r' is damaged .*'unheard' is not"):
        list_rollout_pairs(FILE, [make_rollout("unheard", "A();")])


def make_pairs() -> list[ValuePair]:
    """40 problems; a prefix that says "good" is solved."""
    return [
        ValuePair(build_problem(f"p{i}", n=i), Prefix(f"invariant {word}", ""), word == "k")
        for i in range(40)
        for word in ("k", "0")
    ]


def fit_pairs(policy: TransformersPolicy, pairs: list[ValuePair]) -> tuple[HeadFit, ValueData]:
    data = build_data(policy, pairs, SMALL.layers)
    fit = open_fit(data, pairs, SMALL, 0)
    while not fit.done:
        fit.run_epoch()
    return fit, data


def test_problems_are_held_back_whole_and_by_their_id() -> None:
    sides = [choose_side(f"p{i}", ValueOptions(), 0) for i in range(1000)]
    # 1000 draws at 0.2: five standard deviations are 5 * sqrt(160) = 63.
    assert 137 < sides.count("valid") < 263
    assert 137 < sides.count("test") < 263
    assert sides != [choose_side(f"p{i}", ValueOptions(), 1) for i in range(1000)]


def test_features_do_not_depend_on_the_batch() -> None:
    policy = tiny_policy()
    rows = [(pair.problem, pair.prefix) for pair in make_pairs()[:5]]
    rows.append((build_problem("q"), Prefix("", "")))
    together = compute_features(policy, rows, 2)
    alone = torch.cat([compute_features(policy, [row], 2) for row in rows])
    size = policy.model.config.hidden_size
    assert together.shape == (6, 2 * 3 * size + 4)
    torch.testing.assert_close(together, alone, atol=FLOAT32, rtol=FLOAT32)
    # One layer's features come first.
    one = compute_features(policy, rows, 1)
    torch.testing.assert_close(one[:, : 3 * size], together[:, : 3 * size])


def test_features_say_how_likely_the_policy_finds_the_prefix() -> None:
    policy = tiny_policy()
    problem = build_problem("p", n=7)
    own = policy.tokenizer("invariant k", add_special_tokens=False)["input_ids"]
    prompt = policy.prompt(problem).token_ids
    with torch.no_grad():
        spread = policy.model(input_ids=torch.tensor([[*prompt, *own]])).logits[0].log_softmax(-1)
    expected = [float(spread[len(prompt) - 1 + i, token]) for i, token in enumerate(own)]
    features = compute_features(
        policy, [(problem, Prefix("invariant k", "")), (problem, Prefix("", ""))]
    )
    total, mean, least, entropy = features[0, -4:].tolist()
    assert total == pytest.approx(sum(expected), abs=len(own) * FLOAT32)
    assert mean == pytest.approx(sum(expected) / len(own), abs=FLOAT32)
    assert least == pytest.approx(min(expected), abs=FLOAT32)
    assert entropy == pytest.approx(-float((spread[-1].exp() * spread[-1]).sum()), abs=FLOAT32)
    # An empty prefix has no tokens of its own.
    size = policy.model.config.hidden_size
    assert features[1, -4:-1].tolist() == [0.0, 0.0, 0.0]
    assert features[1, 2 * size : 3 * size].abs().max() == 0.0


def test_a_lean_prefix_is_judged_with_its_goals() -> None:
    policy = tiny_policy()
    problem = Problem("t", "lean", "tactics", "", f"theorem t : p ∧ q := by\n  {HOLE}\n")
    prefixes = [Prefix("constructor", state) for state in ("⊢ p\n\n⊢ q", "⊢ q", "")]
    features = compute_features(policy, [(problem, prefix) for prefix in prefixes])
    size = policy.model.config.hidden_size
    prompt = policy.prompt(problem).token_ids
    for row, prefix in zip(features, prefixes, strict=True):
        # The state after the last token is what the policy has when it goes on from there.
        opening, comment = render_prefix(policy, problem, prefix)
        assert ("⊢" in comment, "tactic state" in comment) == (bool(prefix.state),) * 2
        tokens = [*prompt, *policy.tokenizer(opening, add_special_tokens=False)["input_ids"]]
        with torch.no_grad():
            out = policy.model(input_ids=torch.tensor([tokens]), output_hidden_states=True)
        torch.testing.assert_close(
            row[:size], out.hidden_states[-1][0, -1], atol=FLOAT32, rtol=FLOAT32
        )
        # The comment is not the policy's: the sum, mean and minimum are those of the text alone.
        torch.testing.assert_close(row[-4:-1], features[2, -4:-1], atol=FLOAT32, rtol=FLOAT32)
    assert (features[0, :size] - features[1, :size]).abs().max() > 100 * FLOAT32


def test_a_token_that_is_also_of_the_comment_is_not_counted() -> None:
    text = "simp [h]"
    # A tokenizer that makes one piece of the bracket and the beginning of a comment behind it.
    texts = [f"{text}\n  /- tactic state:", "method M() { /* x */ }"] * 40
    policy = build_policy(TINY, train_tokenizer(texts, vocab_size=290), seed=0, device="cpu")
    problem = Problem("t", "lean", "tactics", "", f"theorem t : p ∧ q := by\n  {HOLE}\n")
    prompt = policy.prompt(problem).token_ids
    bare, whole = (
        policy.tokenizer(opening, add_special_tokens=False)
        for opening in (
            render_opening(problem, text, policy.layout),
            render_prefix(policy, problem, Prefix(text, "⊢ q"))[0],
        )
    )
    own = [a for a, b in zip(bare["input_ids"], whole["input_ids"], strict=False) if a == b]
    assert len(own) == len(bare["input_ids"]) - 1
    assert own == whole["input_ids"][: len(own)]
    tokens = torch.tensor([[*prompt, *whole["input_ids"]]])
    with torch.no_grad():
        spread = policy.model(input_ids=tokens).logits[0].log_softmax(-1)
    expected = [float(spread[len(prompt) - 1 + i, token]) for i, token in enumerate(own)]
    (row,) = compute_features(policy, [(problem, Prefix(text, "⊢ q"))])
    assert float(row[-4]) == pytest.approx(sum(expected), abs=len(own) * FLOAT32)
    assert float(row[-2]) == pytest.approx(min(expected), abs=FLOAT32)


def test_goals_that_the_context_has_no_room_for_are_left_out() -> None:
    policy = tiny_policy()
    problem = Problem("t", "lean", "tactics", "", f"theorem t : p ∧ q := by\n  {HOLE}\n")
    long = "h : p\n" * policy.context_tokens + "⊢ q"
    rows = [(problem, Prefix("intro h", state)) for state in (long, "")]
    first, second = compute_features(policy, rows)
    torch.testing.assert_close(first, second, atol=FLOAT32, rtol=FLOAT32)


def test_each_prefix_that_is_shown_is_computed_once() -> None:
    policy = tiny_policy()
    problem = build_problem("p", n=7)
    lean = Problem("t", "lean", "tactics", "", f"theorem t : p ∧ q := by\n  {HOLE}\n")
    prefixes = [Prefix("invariant k", "s"), Prefix("invariant k", ""), Prefix("invariant k", "t")]
    pairs = [ValuePair(one, prefix, True) for one in (problem, lean) for prefix in prefixes]
    data = build_data(policy, pairs, 1)
    # Dafny's states are not shown.
    assert data.rows.tolist() == [0, 0, 0, 1, 2, 3]
    assert len(data.features) == 4


def test_a_model_of_other_features_is_refused(tmp_path: Path) -> None:
    policy = tiny_policy()
    fit, _ = fit_pairs(policy, make_pairs())
    save_value(ValueModel(policy, fit.best, SMALL.layers), tmp_path, SMALL, {})
    about = json.loads((tmp_path / SETTINGS).read_text())
    about["features"] -= 1
    (tmp_path / SETTINGS).write_text(json.dumps(about))
    with pytest.raises(UsageError, match=r"by another version of proverrl.*; fit one with"):
        load_value(policy, tmp_path)


def test_pairs_of_searches_have_the_state_of_each_end() -> None:
    problem = build_problem("p", n=7)
    sample = SearchSample(problem, "a; b;", True, (2, 5), ("s", ""), "puct", 2)
    other = replace(sample, states=("t", ""))
    pairs = list_pairs([sample])
    assert pairs == [
        ValuePair(problem, Prefix("", ""), True),
        ValuePair(problem, Prefix("a;", "s"), True),
    ]
    assert hash_pairs(pairs) != hash_pairs(list_pairs([other]))


def test_a_head_learns_what_tells_prefixes_apart_and_loads_back_exactly(tmp_path: Path) -> None:
    policy = tiny_policy()
    pairs = make_pairs()
    fit, data = fit_pairs(policy, pairs)
    metrics = measure_head(fit.best, data, pairs, SMALL, 0)
    num_held = sum(choose_side(f"p{i}", SMALL, 0) == "test" for i in range(40))
    assert (metrics["all"].num_pairs, metrics["all"].num_problems) == (2 * num_held, num_held)
    assert metrics["all"].auc == metrics["inside"].within == 1.0
    assert metrics["all"].brier < 0.1 < metrics["all"].brier_base
    model = ValueModel(policy, fit.best, SMALL.layers)
    again = ValueModel(policy, fit_pairs(policy, pairs)[0].best, SMALL.layers)
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


def test_training_keeps_the_head_whose_held_back_loss_was_lowest() -> None:
    """Labels that mean the opposite on the held-back rows: every epoch of training makes it worse,
    so that the head stays near the first epoch's."""
    features = torch.tensor([[-1.0], [1.0]]).repeat(40, 1)
    labels = torch.tensor([0.0, 1.0]).repeat(20)
    first = torch.arange(80) < 40
    change = ValueOptions(hidden=4, epochs=50, patience=2, learning_rate=0.05, rank_weight=0.0)
    confidence = []
    for held in (1 - labels, labels):
        data = ValueData(
            features, torch.arange(80), torch.cat([labels, held]), torch.arange(80) // 2
        )
        fit = HeadFit(data, first, ~first, change, seed=0)
        fit.run_epoch()
        after_one = copy.deepcopy(fit.best.state_dict())
        while not fit.done:
            fit.run_epoch()
        if held is not labels:
            # One epoch, then two in vain.
            assert fit.epoch == 3
            assert all(torch.equal(w, after_one[n]) for n, w in fit.best.state_dict().items())
        scores = torch.sigmoid(fit.best(features[:2]).detach())
        confidence.append(float((scores - 0.5).abs().mean()))
    assert confidence[0] < confidence[1] / 2


def test_what_cannot_be_loaded_says_so(tmp_path: Path) -> None:
    policy = tiny_policy()
    solved = [pair for pair in make_pairs() if pair.solved]
    with pytest.raises(UsageError, match="not both solved and unsolved"):
        open_fit(build_data(policy, solved, 1), solved, SMALL, 0)
    with pytest.raises(UsageError, match="holds no value model"):
        load_value(policy, tmp_path)
    fit, _ = fit_pairs(policy, make_pairs())
    save_value(ValueModel(policy, fit.best, 1), tmp_path, SMALL, {})
    about = json.loads((tmp_path / SETTINGS).read_text())
    (tmp_path / SETTINGS).write_text(json.dumps({**about, "layers": "1"}))
    with pytest.raises(RunError, match=r"value\.json: layers: Input should be a valid integer;"):
        load_value(policy, tmp_path)
    weights = load_file(tmp_path / WEIGHTS)
    for change, told in (
        ({"layers": 99}, "value.json does not fit the policy's hidden states"),
        ({"layers": 0}, "value.json does not fit the policy's hidden states"),
        ({"size": 7}, "value.json does not fit the policy's hidden states"),
        ({"config": {"hidden": 0}}, "value.json does not fit the policy's hidden states"),
        (
            {"config": {"hidden": 5}},
            "Error\\(s\\) in loading state_dict for ValueHead: size mismatch",
        ),
    ):
        (tmp_path / SETTINGS).write_text(json.dumps({**about, **change}))
        with pytest.raises(UsageError, match=f"is damaged: {told}.*; fit one with"):
            load_value(policy, tmp_path)
    (tmp_path / SETTINGS).write_text(json.dumps(about))
    save_file({**weights, "last.bias": torch.tensor([float("nan")])}, tmp_path / WEIGHTS)
    with pytest.raises(UsageError, match="is damaged: a weight is not finite; fit one with"):
        load_value(policy, tmp_path)
    (tmp_path / SETTINGS).write_text("{")
    with pytest.raises(RunError, match=r"value\.json: cannot be read as JSON: .*; fit one with"):
        load_value(policy, tmp_path)
    (tmp_path / SETTINGS).write_text(json.dumps({**about, "policy_sha256": "0" * 64}))
    with pytest.raises(UsageError, match="of other weights"):
        load_value(policy, tmp_path)


def test_the_entropy_of_what_cannot_be_drawn_is_0() -> None:
    # 1/2, 1/4, 1/4 and 0: 1.5 bits.
    logprobs = torch.tensor([[0.5, 0.25, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0]]).log()
    assert measure_entropy(logprobs).tolist() == pytest.approx([1.5 * math.log(2), 0.0])
