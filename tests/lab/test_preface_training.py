"""A small instructor and a small writer: the writer follows words, GRPO trains the instructor and
never the writer, and a resumed run is the same run."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from proverrl.config import Config, parse_config
from proverrl.errors import RunError
from proverrl.evaluation.budgets import measure_spending
from proverrl.evaluation.compare import read_evaluation
from proverrl.lab.beside import open_beside
from proverrl.lab.preface import modes as modes_module
from proverrl.lab.preface.modes import Instruct, choose_bare_families
from proverrl.policy.base import Policy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.load import load_problems, write_problems
from proverrl.rollout.extract import open_mode
from proverrl.run.session import load_weights
from proverrl.types import HOLE, Candidate, Problem, Status
from tests.run.test_grpo import (
    TINY,
    StubVerifier,
    check_same_run,
    make_row,
    open_stubs,
    run,
    step_lines,
)

BODIES = ["invariant i <= 1", "invariant i == 1", "invariant i % 1"]
WORDS = ["bound", "equals", "remainder"]
QUIET = {"before": False, "after": False, "ks": [1]}


def write_split(path: Path, numbers: range) -> Path:
    """Problems that look alike, with one of three bodies each: which, nothing in a problem says."""
    write_problems(path, (make_row(n, f"i < {10 + n}", BODIES[n % 3]) for n in numbers))
    return path


def judge(candidate: Candidate) -> Status:
    return Status.PROVED if candidate.body == BODIES[2] else Status.REJECTED


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("instruct")
    return {
        "train": str(write_split(folder / "train.jsonl", range(60))),
        "heldout": str(write_split(folder / "heldout.jsonl", range(60, 72))),
    }


@pytest.fixture
def verifiers(monkeypatch: pytest.MonkeyPatch) -> list[StubVerifier]:
    return open_stubs(monkeypatch, judge)


def make_table(folder: Path, splits: dict[str, str], **changes: Any) -> dict[str, Any]:
    return {
        "run": str(folder),
        "checkpoint_every": 2,
        "problems": splits,
        "policy": TINY,
        "warm_start": {
            "references_per_level": {"1": 24},
            "steps": 300,
            "batch_size": 8,
        },
        "rollout": {"mode": "preface_writer", "turns": 1},
        "evaluation": {"samples": 7, "ks": [1, 7], "before": True, "after": False},
        **changes,
    }


@pytest.fixture(scope="module")
def writer_run(tmp_path_factory: pytest.TempPathFactory, splits: dict[str, str]) -> Path:
    """A warm start of the writer, and its evaluation without instructions."""
    folder = tmp_path_factory.mktemp("writer")
    table = make_table(folder / "writer", splits, loop="warm_start")
    with pytest.MonkeyPatch.context() as patch:
        open_stubs(patch, judge)
        return run(parse_config(table, source="test"))


@pytest.fixture
def make_config(tmp_path: Path, splits: dict[str, str], writer_run: Path) -> Callable[..., Config]:
    def make(name: str, steps: int = 4, writer: Path | None = None, **changes: Any) -> Config:
        table = make_table(tmp_path / name, splits, loop="grpo")
        table |= {
            "sampling": {"max_new_tokens": 12},
            "rollout": {
                "mode": "preface",
                "turns": 3,
                "feedback": "compact",
                "options": {"writer": str(writer or writer_run / "policy"), "max_new_tokens": 24},
            },
            "reward": {"name": "preface_conference"},
            "advantage": {"name": "grpo"},
            "learner": {"learning_rate": 3e-3, "epochs": 2},
            "grpo": {
                "steps": steps,
                "groups_per_step": 4,
                "groups_per_draw": 4,
                "group_size": 8,
            },
            "evaluation": QUIET,
            **changes,
        }
        return parse_config(table, source="test")

    return make


def read_folder(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("share", "bare"), [(0.0, []), (0.34, [2, 5]), (0.5, [1, 3, 5]), (1.0, [0, 1, 2, 3, 4, 5])]
)
def test_a_share_of_the_families_is_learned_without_words(share: float, bare: list[int]) -> None:
    problems = [
        Problem(f"p{n}", "dafny", "invariants", "", HOLE, metadata={"family": f"f{n % 6}"})
        for n in range(12)
    ]
    found = choose_bare_families([(problem, BODIES[0]) for problem in problems], share)
    assert found == {f"f{n}" for n in bare}


@pytest.mark.slow
def test_a_writer_follows_its_instruction(make_config: Callable[..., Config]) -> None:
    config = make_config("any")
    mode = open_mode(config)
    assert isinstance(mode, Instruct)
    writer = mode.writer
    assert isinstance(writer.policy, TransformersPolicy)
    problems = load_problems(config.problems.heldout)

    def write(instruction: str) -> list[str]:
        answers = [(problem, instruction) for problem in problems]
        found = asyncio.run(writer.write(answers, layout="plain", turn=0, seed=1))
        return [extraction.body or "" for extraction in found]

    for words, body in zip(WORDS, BODIES, strict=True):
        assert write(words) == [body] * 12
    # Without one it writes what it thinks likeliest, or another.
    assert len(set(write(""))) > 1


@pytest.mark.slow
def test_the_instructor_learns_which_words_help_and_the_writer_stays_as_it_is(
    make_config: Callable[..., Config], verifiers: list[StubVerifier], writer_run: Path
) -> None:
    before = read_folder(writer_run / "policy")
    folder = run(
        make_config("long", 12, evaluation={"before": True, "after": True, "samples": 7, "ks": [1]})
    )
    assert read_folder(writer_run / "policy") == before
    for line in step_lines(folder):
        assert line["rollouts"] <= line["turns"] <= 3 * line["rollouts"]
    untaught = json.loads((folder / "evals" / "before.json").read_text())
    taught = json.loads((folder / "evals" / "after.json").read_text())
    for summary in (untaught, taught):
        assert summary["mode"] == "proverrl.lab.preface.modes:Instruct"
        assert summary["instruct"]["reward"] == "proverrl.lab.preface.rewards:conference"
    # At equal calls of the writer: a turn is one, with an instruction and without.
    paths = (
        writer_run / "evals" / "before.json",
        folder / "evals" / "before.json",
        folder / "evals" / "after.json",
    )
    resampled, first, last = map(share_of_first_turns, paths)
    assert last >= 0.9
    assert resampled <= 0.6
    assert first <= 0.6
    spending = measure_spending(read_evaluation(paths[2]).problems, "turns")
    assert spending is not None
    assert sum(spent.total for spent in spending.values()) == taught["num_turns"]


def share_of_first_turns(evaluation: Path) -> float:
    """How many attempts were proved at once, of 12 problems with 7 attempts each."""
    rows = [json.loads(line) for line in evaluation.with_suffix(".jsonl").read_text().splitlines()]
    assert len(rows) == 84
    at_once = [row for row in rows if row["status"] == "proved" and len(row["turns"]) == 1]
    return len(at_once) / 84


@pytest.mark.slow
def test_the_weights_of_the_writer_get_no_gradient_and_do_not_change(
    make_config: Callable[..., Config],
    verifiers: list[StubVerifier],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[TransformersPolicy] = []
    load = open_beside

    def load_and_keep(*what: Any) -> Policy:
        policy = load(*what)
        assert isinstance(policy, TransformersPolicy)
        loaded.append(policy)
        return policy

    monkeypatch.setattr(modes_module, "open_beside", load_and_keep)
    config = make_config("two", 2)
    run(config)
    fresh = load_weights(config, str(config.rollout.options["writer"])).model
    [policy] = loaded
    for own, other in zip(policy.model.parameters(), fresh.parameters(), strict=True):
        assert not own.requires_grad
        assert own.grad is None
        assert torch.equal(own, other)


@pytest.mark.slow
def test_the_samples_log_probabilities_are_those_of_the_instruction(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    config = make_config("one", 1, learner={"learning_rate": 1e-9})
    folder = run(config)
    policy = load_weights(config, folder / "policy")
    rows = [
        json.loads(line) for line in (folder / "rollouts/step_1.jsonl").read_text().splitlines()
    ]
    lengths = set()
    for row in rows[:6]:
        ids: list[int] = []
        for turn in row["turns"]:
            assert turn["text"] != turn["body"]
            ids += turn["context_ids"]
            start = len(ids)
            ids += turn["token_ids"]
            with torch.no_grad():
                logits = policy.model(torch.tensor([ids])).logits[0, start - 1 : -1]
            scores = logits.log_softmax(-1)
            taken = scores.gather(1, torch.tensor(turn["token_ids"])[:, None]).squeeze(1)
            assert taken.tolist() == pytest.approx(turn["logprobs"], abs=1e-4)
            lengths.add(len(turn["token_ids"]))
    # One number for each token, not one for the whole.
    assert max(lengths) > 1


@pytest.mark.slow
def test_a_run_does_not_go_on_under_another_writer(
    make_config: Callable[..., Config],
    verifiers: list[StubVerifier],
    writer_run: Path,
    tmp_path: Path,
) -> None:
    copy = shutil.copytree(writer_run / "policy", tmp_path / "policy")
    folder = run(make_config("changed", 1, writer=copy))
    shutil.rmtree(folder / "policy")
    config = make_config("changed", 2, writer=copy)
    other = load_weights(config, copy)
    with torch.no_grad():
        next(other.model.parameters())[0, 0] += 1
    other.save(copy)
    with pytest.raises(RunError, match="not the one that this run began with"):
        run(config)


@pytest.mark.slow
def test_a_run_of_instructions_resumes_bit_for_bit(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    whole = run(make_config("whole"))
    run(make_config("parts", 2))
    shutil.rmtree(whole.parent / "parts" / "policy")
    again = run(make_config("parts"))
    check_same_run(whole, again)
