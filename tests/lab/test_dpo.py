"""Preferences between bodies: the loss by hand, the loop and the file of pairs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from proverrl.config import Config
from proverrl.errors import ProblemError, UsageError
from proverrl.lab.dpo import DpoOptions, dpo_loss, load_preferences, score_targets
from proverrl.problems.load import write_problems
from proverrl.run.pairs import Pair
from tests.policy.test_policy import tiny_policy
from tests.run.test_grpo import (  # noqa: F401  (fixtures)
    StubVerifier,
    make_config,
    run,
    same,
    verifiers,
    weights,
)
from tests.tolerance import FLOAT32


def test_dpo_by_hand() -> None:
    # Margins: 0.1 * ((-1 + 1.5) - (-2 + 1)) = 0.15 and 0.1 * ((-4 + 3) - (-3 + 3.5)) = -0.15.
    values = [
        torch.tensor(each, dtype=torch.float64)
        for each in ([-1.0, -4.0], [-2.0, -3.0], [-1.5, -3.0], [-1.0, -3.5])
    ]
    chosen, rejected = (value.requires_grad_() for value in values[:2])
    loss, metrics = dpo_loss(chosen, rejected, *values[2:], beta=0.1)
    expected = (math.log1p(math.exp(-0.15)) + math.log1p(math.exp(0.15))) / 2
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-12)
    assert {name: float(value) for name, value in metrics.items()} == pytest.approx(
        {"margin": 0.0, "accuracy": 0.5, "chosen_moved": -0.25, "rejected_moved": -0.25}, abs=1e-12
    )
    loss.backward()  # type: ignore[no-untyped-call]
    # The derivative of -log sigmoid(m) is sigmoid(m) - 1, times beta, over two pairs.
    slopes = [0.05 * (1 / (1 + math.exp(-m)) - 1) for m in (0.15, -0.15)]
    assert chosen.grad is not None
    assert rejected.grad is not None
    assert chosen.grad.tolist() == pytest.approx(slopes, rel=1e-12)
    assert rejected.grad.tolist() == pytest.approx([-slope for slope in slopes], rel=1e-12)
    start, _ = dpo_loss(*values[2:], *values[2:], beta=0.1)
    assert float(start) == pytest.approx(math.log(2), rel=1e-12)


def test_the_log_probability_of_an_answer_is_the_sum_over_its_tokens() -> None:
    policy = tiny_policy()
    pairs = [Pair((5, 6, 7), (8, 9)), Pair((5,), (11, 12, 13, 14)), Pair((9, 9, 9, 9, 9), (3,))]
    with torch.no_grad():
        found = score_targets(policy.model, pairs)
        for pair, score in zip(pairs, found, strict=True):
            ids = torch.tensor([pair.prompt_ids + pair.target_ids])
            logprobs = policy.model(input_ids=ids).logits[0].float().log_softmax(-1)
            first = len(pair.prompt_ids) - 1
            own = [float(logprobs[first + i, token]) for i, token in enumerate(pair.target_ids)]
            assert float(score) == pytest.approx(sum(own), abs=len(own) * FLOAT32)


def write_pairs(path: Path, **changes: Any) -> Path:
    """For each problem of training the body that the verifier proves, and another."""
    rows = [
        {
            "id": f"p{number}#1",
            "language": "dafny",
            "kind": "invariants",
            "preamble": "",
            "statement": f"method M() {{ while j < {number}\n  /*{{HOLE}}*/\n  {{ }} }}\n",
            "reference": "invariant k",
            "metadata": {"rejected": "invariant i"},
        }
        | changes
        for number in range(100, 116)
    ]
    write_problems(path, rows)
    return path


@pytest.fixture
def prefer(tmp_path: Path, make_config: Callable[..., Config]) -> Callable[..., Config]:  # noqa: F811
    def make(name: str, pairs: Path | str, **changes: Any) -> Config:
        table = {"pairs": str(pairs), "learning_rate": 2e-3, "batch_size": 8, "epochs": 6}
        quiet = {"before": False, "after": False, "ks": [1]}
        loop = "proverrl.lab.dpo:dpo"
        return make_config(name, loop=loop, loop_options=table | changes, evaluation=quiet)

    return make


@pytest.mark.slow
def test_the_loop_moves_from_what_is_rejected_to_what_is_preferred(
    tmp_path: Path,
    prefer: Callable[..., Config],
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    pairs = write_pairs(tmp_path / "pairs.jsonl")
    folder = run(prefer("one", pairs))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [line for line in lines if line["kind"] == "preferences"]
    assert [row["step"] for row in rows] == list(range(1, 13))
    assert rows[0]["loss"] == pytest.approx(math.log(2), abs=FLOAT32)
    assert rows[0]["margin"] == pytest.approx(0.0, abs=1e-6)
    assert rows[-1]["accuracy"] == 1.0
    assert rows[-1]["loss"] < 0.9 * math.log(2)
    assert rows[-1]["chosen_moved"] > rows[-1]["rejected_moved"]
    # No verdict is asked for, and the same seed gives the same weights.
    assert [verifier.calls for verifier in verifiers] == [[]]
    assert same(weights(folder), weights(run(prefer("two", pairs))))


def test_a_file_of_pairs_is_refused_before_anything_is_trained(
    tmp_path: Path,
    prefer: Callable[..., Config],
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    path = tmp_path / "pairs.jsonl"

    def refuse(match: str, **changes: Any) -> None:
        with pytest.raises(ProblemError, match=match):
            run(prefer("bad", write_pairs(path, **changes)))
        assert not (tmp_path / "bad" / "metrics.jsonl").exists()

    refuse("line 1: 'reference' and 'metadata.rejected' are the same", reference="invariant i")
    refuse("line 1: it needs two bodies", metadata={"rejected": 3})
    refuse("line 1: it needs two bodies", metadata={})
    refuse("line 2: field 'id'", id="p1")
    heldout = "method M() { while k < 62\n  /*{HOLE}*/\n  { } }\n"
    refuse("line 1: problem 'p100#1' has the statement of 'p62' in", statement=heldout)
    rows = [json.loads(line) for line in write_pairs(path).read_text().splitlines()]
    del rows[2]["reference"]
    write_problems(path, rows)
    with pytest.raises(ProblemError, match="line 3: it needs two bodies"):
        run(prefer("bad", path))
    with pytest.raises(ProblemError, match=r"nothing\.jsonl"):
        run(prefer("bad", tmp_path / "nothing.jsonl"))
    config = prefer("bad", path).model_copy(update={"loop_options": {}})
    with pytest.raises(UsageError, match=r"loop_options\.pairs: Field required"):
        run(config)


@pytest.mark.slow
def test_a_pair_that_the_context_cannot_hold_is_named(
    tmp_path: Path,
    prefer: Callable[..., Config],
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    pairs = write_pairs(tmp_path / "pairs.jsonl", metadata={"rejected": "invariant i + " * 2000})
    with pytest.raises(ProblemError, match=r"'p100#1': .* are \d{5} tokens, .* has 1024; leave"):
        run(prefer("long", pairs))


NAMES = {"p1": "j < 1", "p2": "k < 2", "p3": "i < 3"}
STATEMENTS = {
    name: f"method M() {{ while {bound}\n  /*{{HOLE}}*/\n  {{ }} }}\n"
    for name, bound in NAMES.items()
}


def write_rollouts(run: Path, *steps: list[tuple[str, str, str, Any]]) -> Path:
    """Steps of rollouts: problem, body, status and hint of each."""
    (run / "rollouts").mkdir(parents=True)
    for number, rows in enumerate(steps, 1):
        lines = [
            {
                "rollout_id": f"{number}-{place}",
                "problem": {"id": name, "statement": STATEMENTS.get(name, ""), "preamble": ""},
                "status": status,
                "turns": [],
                "body": body,
                "hint": hint,
            }
            for place, (name, body, status, hint) in enumerate(rows)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (run / "rollouts" / f"step_{number}.jsonl").write_text(text)
    return run


def test_a_runs_rollouts_give_each_problem_its_proofs_beside_what_was_refused(
    tmp_path: Path, prefer: Callable[..., Config]
) -> None:
    hint = {"source": "reference", "ratio": 0.5, "num_tokens": 1, "text": "invariant"}
    run = write_rollouts(
        tmp_path / "run",
        [
            ("p1", "invariant i", "rejected", None),
            ("p1", "invariant k", "proved", None),
            ("p1", "invariant k", "proved", None),
            ("p1", "", "rejected", None),
            ("p1", "invariant h", "proved", hint),
            ("p2", "invariant k", "proved", None),
            ("p3", "invariant t", "timeout", None),
        ],
        [
            ("p3", "invariant k", "proved", None),
            ("gone", "invariant k", "proved", None),
            ("gone", "invariant i", "rejected", None),
            ("p1", "invariant k", "rejected", None),
            ("p1", "invariant j", "rejected", None),
            ("p1", "invariant k && true", "proved", None),
            ("p1", "invariant n", "rejected", None),
        ],
    )
    config = prefer("one", run)
    found = load_preferences(config, DpoOptions(pairs=run))
    assert [(problem.id, *bodies) for problem, *bodies in found] == [
        ("p1", "invariant k", "invariant i"),
        ("p1", "invariant k && true", "invariant j"),
    ]
    lone = write_rollouts(tmp_path / "lone", [("p2", "invariant k", "proved", None)])
    with pytest.raises(ProblemError, match=r"hold no problem of .* with a body that was proved"):
        load_preferences(config, DpoOptions(pairs=lone))
