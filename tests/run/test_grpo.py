"""The GRPO and expert-iteration loops on a scripted verifier: exact resumption, determinism,
masking of what was not judged, and a policy that really learns."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from proverrl.advantages import ADVANTAGES
from proverrl.config import AdvantageName, Config, parse_config
from proverrl.errors import GuardError, ProblemError, RunError, UsageError, VerifierError
from proverrl.jobs import train as train_module
from proverrl.jobs.evaluate import find_weights
from proverrl.jobs.train import train
from proverrl.problems.load import write_problems
from proverrl.run.checkpoint import read_state
from proverrl.run.run_folder import is_ended, reopen
from proverrl.run.session import load_training
from proverrl.types import HOLE, Candidate, Status
from tests.fake_verifier import FakeVerifier
from tests.warm import WARM

NAMES = ["i", "j", "k"]


TINY = {
    "num_layers": 2,
    "hidden_size": 32,
    "num_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 400,
}
"""A policy that learns a few words in a minute."""


def make_row(number: int, condition: str, reference: str, level: int = 1) -> dict[str, Any]:
    """A loop as a row of a file of problems, in one of three families."""
    return {
        "id": f"p{number}",
        "language": "dafny",
        "kind": "invariants",
        "preamble": "",
        "statement": f"method M() {{ while {condition}\n  {HOLE}\n  {{ }} }}\n",
        "metadata": {"level": level, "family": f"f{number % 3}"},
        "reference": reference,
    }


def write_split(path: Path, numbers: range) -> Path:
    """Problems whose references name the loop's counter: i, j or k, each as often.

    The verifier below proves only ``invariant k``, so that a warm-started policy is right about
    one time in three and reinforcement has something to find.
    """
    rows = []
    for number in numbers:
        name = NAMES[number % len(NAMES)]
        rows.append(make_row(number, f"{name} < {number}", f"invariant {name}", 1 + number % 2))
    write_problems(path, rows)
    return path


def judge(candidate: Candidate) -> Status:
    return Status.PROVED if candidate.body == "invariant k" else Status.REJECTED


class StubVerifier(FakeVerifier):
    """A fake that has no pool inside."""

    def stats(self) -> None:
        return None


def judge_few(candidate: Candidate) -> Status:
    """Takes one problem in four."""
    if int(candidate.problem.id[1:]) % 4:
        return judge_none(candidate)
    return judge(candidate)


def judge_none(candidate: Candidate) -> Status:
    raise ProblemError(f"problem {candidate.problem.id}: no proof can be held to it")


def open_stubs(
    monkeypatch: pytest.MonkeyPatch, judge: Callable[[Candidate], Status]
) -> list[StubVerifier]:
    """The verifiers that runs of training open from now on, all of them stubs."""
    opened: list[StubVerifier] = []

    def open_stub(*_: Any, **__: Any) -> StubVerifier:
        opened.append(StubVerifier(judge))
        return opened[-1]

    monkeypatch.setattr(train_module, "open_configured", open_stub)
    return opened


@pytest.fixture
def verifiers(monkeypatch: pytest.MonkeyPatch) -> list[StubVerifier]:
    return open_stubs(monkeypatch, judge)


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[..., Config]:
    splits = {
        "train": str(write_split(tmp_path / "train.jsonl", range(60))),
        "heldout": str(write_split(tmp_path / "heldout.jsonl", range(60, 72))),
    }

    def make(run: str, **changes: Any) -> Config:
        table: dict[str, Any] = {
            "loop": "grpo",
            "run": str(tmp_path / run),
            "checkpoint_every": 2,
            "problems": splits,
            "policy": TINY,
            "warm_start": {
                "optimizer": "adamw",
                "references_per_level": {"1": 4, "2": 4},
                "steps": 120,
                "batch_size": 8,
                "learning_rate": 5e-3,
            },
            "sampling": {"max_new_tokens": 8},
            "learner": {"learning_rate": 2e-3},
            "grpo": {"steps": 4, "groups_per_step": 3, "groups_per_draw": 4, "group_size": 6},
            "expert_iteration": {"rounds": 2, "problems_per_round": 24, "problems_per_draw": 8},
            "evaluation": {"samples": 4, "ks": [1, 4]},
        }
        for key, value in changes.items():
            section, _, name = key.partition("__")
            if name:
                table[section] = {**table[section], name: value}
            else:
                table[section] = value
        return parse_config(table, source="test")

    return make


def run(config: Config) -> Path:
    return asyncio.run(train(config, live=False))


def weights(folder: Path, name: str = "policy") -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / name / "model.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def step_lines(folder: Path) -> list[dict[str, Any]]:
    """Metric lines of steps without what depends on the clock."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {k: v for k, v in row.items() if "second" not in k}
        for row in rows
        if row["kind"] in ("step", "round")
    ]


def check_same_run(first: Path, second: Path) -> None:
    """Two runs made the same steps, and wrote the same in the last two of four."""
    assert same(weights(first), weights(second))
    assert step_lines(first) == step_lines(second)
    for step in (3, 4):
        name = f"rollouts/step_{step}.jsonl"
        assert (first / name).read_text() == (second / name).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_two_and_two_steps_equal_four_bit_for_bit(
    make_config: Callable[..., Config], verifiers: list[StubVerifier], precision: str
) -> None:
    make_config = partial(make_config, learner={"learning_rate": 2e-3, "precision": precision})
    whole = run(make_config("whole"))
    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16}
    assert {tensor.dtype for tensor in weights(whole).values()} == {dtypes[precision]}
    run(make_config("parts", grpo__steps=2, evaluation={"before": True, "after": False, "ks": [1]}))
    assert len(step_lines(whole.parent / "parts")) == 2
    # Asking for more steps of a finished run goes on from its checkpoint.
    shutil.rmtree(whole.parent / "parts" / "policy")
    again = run(make_config("parts", evaluation={"before": True, "after": False, "ks": [1]}))
    check_same_run(whole, again)


def state_of(folder: Path, step: int) -> dict[str, Any]:
    return read_state(folder / f"checkpoints/step_{step:06d}")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ADVANTAGES))
def test_every_method_trains_a_step(
    make_config: Callable[..., Config], verifiers: list[StubVerifier], name: AdvantageName
) -> None:
    no_evaluation = {"before": False, "after": False}
    changes = {"advantage": {"name": name}, "evaluation": no_evaluation, "grpo__steps": 1}
    folder = run(make_config("one", **changes))
    (line,) = step_lines(folder)
    assert line["groups_admitted"] > 0
    assert line["grad_norm"] > 0.0
    told = 0
    for row in map(json.loads, (folder / "rollouts/step_1.jsonl").read_text().splitlines()):
        (credit,) = (turn["advantages"] for turn in row["turns"])
        assert credit == row["advantage"]
        told += row["advantage"] != 0.0
    assert told > 0


@pytest.mark.slow
def test_the_reward_of_the_configuration_is_given(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    changes = {
        "reward": {"overlong_weight": 0.5},
        "evaluation": {"before": False, "after": False},
    }
    folder = run(make_config("long", grpo__steps=1, **changes))
    rows = list(map(json.loads, (folder / "rollouts/step_1.jsonl").read_text().splitlines()))
    assert rows
    for row in rows:
        # The last fifth of the limit of 8 tokens: half a point for a completion of 8.
        over = max(0.0, (row["completion"]["num_tokens"] - 6.4) / 1.6)
        expected = float(row["status"] == "proved") - 0.5 * over
        assert row["reward"] == pytest.approx(expected)
    (line,) = step_lines(folder)
    solved = sum(level["solved"] for level in line["levels"].values())
    assert solved == line["verdicts"].get("proved", 0)


@pytest.mark.parametrize("solves", [False, True])
def test_a_run_that_learns_nothing_says_so(
    solves: bool,
    make_config: Callable[..., Config],
    verifiers: list[StubVerifier],
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes = {
        "evaluation": {"before": False, "after": False},
        "grpo": {"steps": 1, "groups_per_step": 1, "groups_per_draw": 2, "max_draws_per_step": 1},
        # Without a warm start this policy proves nothing; a weight on length tells failures apart.
        "warm_start": {"steps": 0},
        "reward": {"overlong_weight": 0.5 * solves},
    }
    run(make_config("none", **changes))
    said = "warning: nothing was learned so far: no group had attempts" in capsys.readouterr().out
    assert said is not solves


@pytest.mark.slow
def test_same_seed_same_run_other_seed_other_run(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    first, second = run(make_config("a")), run(make_config("b"))
    assert same(weights(first), weights(second))
    assert step_lines(first) == step_lines(second)
    other = run(make_config("c", seed=1))
    assert not same(weights(first), weights(other))


@pytest.mark.slow
def test_training_raises_the_solve_rate(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    changes = {"grpo__steps": 40, "learner": {"learning_rate": 3e-3, "epochs": 2}}
    folder = run(make_config("long", **changes))
    before = json.loads((folder / "evals" / "before.json").read_text())
    after = json.loads((folder / "evals" / "after.json").read_text())
    gain = [value["levels"][0]["pass"]["1"]["value"] for value in (before, after)]
    assert gain[0] < 0.6
    assert gain[1] > 0.9
    assert is_ended(make_config("long", **changes))
    assert find_weights(folder) == folder / "policy"


def test_a_warm_start_that_ends_in_no_numbers_is_not_saved(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    config = make_config("spoilt", warm_start__learning_rate=1e30, warm_start__steps=8)
    with pytest.raises(UsageError, match=r"lower warm_start\.learning_rate"):
        run(config)
    assert not (config.run / "warm_start" / "policy").exists()


def test_references_are_kept_from_the_loop(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    config = make_config("split")
    problems = load_training(config)
    taken = {problem.id for problem, _ in problems.references}
    assert len(taken) == 8
    assert len(problems.without_reference) == 52
    assert taken.isdisjoint(problem.id for problem in problems.without_reference)
    run(config)
    trained = {call.problem.id for call in verifiers[0].calls} - {f"p{n}" for n in range(60, 72)}
    assert trained
    assert taken.isdisjoint(trained)


def test_unjudged_rollouts_leave_the_group_and_are_counted(
    make_config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_flaky(*_: Any, **__: Any) -> StubVerifier:
        # A body with a certain letter never gets a verdict.
        return StubVerifier(lambda c: Status.TIMEOUT if "j" in c.body else judge(c))

    monkeypatch.setattr(train_module, "open_configured", open_flaky)
    folder = run(make_config("flaky"))
    timeouts = 0
    for path in sorted((folder / "rollouts").glob("*.jsonl")):
        for row in map(json.loads, path.read_text().splitlines()):
            if row["status"] == "timeout":
                timeouts += 1
                assert row["reward"] is None
                assert row["advantage"] is None
            elif row["reward"] is not None:
                assert row["reward"] == float(row["status"] == "proved")
    assert timeouts > 0
    assert sum(line["unjudged"]["timeout"] for line in step_lines(folder)) == timeouts


@pytest.mark.parametrize("loop", ["grpo", "expert_iteration"])
def test_a_run_whose_problems_are_all_refused_ends_and_says_why(
    loop: str, make_config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    judges = [judge_none, judge_few]
    monkeypatch.setattr(
        train_module, "open_configured", lambda *_, **__: StubVerifier(judges.pop(0))
    )
    with pytest.raises(VerifierError) as raised:
        run(make_config("refused", loop=loop))
    assert re.fullmatch(
        "nothing was judged: the verifier refuses all 8 problems drawn so far; "
        r"it says: problem p\d+: no proof can be held to it",
        str(raised.value),
    )
    # A few that are judged are enough to go on.
    folder = run(make_config("some", loop=loop))
    assert (folder / "policy").exists()
    assert sum(line["unjudged"]["crashed"] for line in step_lines(folder)) > 0


@pytest.mark.slow
def test_advantages_of_a_stored_group_sum_to_zero(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    folder = run(make_config("sums"))
    groups: dict[str, list[float]] = {}
    for row in map(json.loads, (folder / "rollouts" / "step_1.jsonl").read_text().splitlines()):
        groups.setdefault(row["rollout_id"].rsplit("-", 1)[0], []).append(row["advantage"])
    assert groups
    for advantages in groups.values():
        assert len(advantages) == 6
        assert sum(advantages) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.slow
def test_expert_iteration_resumes_after_a_round(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    whole = run(make_config("ei", loop="expert_iteration"))
    lines = step_lines(whole)
    assert [line["step"] for line in lines] == [1, 2]
    assert lines[1]["kept"] >= lines[0]["kept"] > 0
    run(make_config("ei2", loop="expert_iteration", expert_iteration__rounds=1))
    shutil.rmtree(whole.parent / "ei2" / "policy")
    # Of the policy after one round: attempts of two policies are never mixed.
    for file in (whole.parent / "ei2" / "evals").glob("after.*"):
        file.unlink()
    again = run(make_config("ei2", loop="expert_iteration"))
    assert same(weights(whole), weights(again))
    assert step_lines(again) == lines


@pytest.mark.slow
def test_verifier_calls_end_a_run(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    folder = run(make_config("budget", grpo__steps=50, max_verifier_calls=60))
    lines = step_lines(folder)
    assert lines[-1]["verifier_calls_total"] >= 60
    assert lines[-2]["verifier_calls_total"] < 60
    assert (folder / "evals" / "after.json").exists()


@pytest.mark.slow
def test_a_run_of_other_settings_is_not_continued(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    run(make_config("mine", grpo__steps=1))
    with pytest.raises(RunError, match=r"learner\.learning_rate = 0\.002, now it is 0\.5"):
        run(make_config("mine", grpo__steps=1, learner={"learning_rate": 0.5}))
    stranger = make_config("stranger")
    stranger.run.mkdir()
    (stranger.run / "thesis.tex").write_text("x")
    with pytest.raises(RunError, match="not a run folder"):
        run(stranger)


KILLED_RUN = """
import asyncio, json, sys
from proverrl.config import parse_config
from proverrl.jobs import train as train_module
from tests.run.test_grpo import StubVerifier, judge

train_module.open_configured = lambda *_, **__: StubVerifier(judge, delay_seconds=0.02)
asyncio.run(train_module.train(parse_config(json.loads(sys.argv[1]), source="x"), live=False))
"""


SIGNAL_AT = """
import os, threading, time
from pathlib import Path

def watch(path, text, number):
    while not (path.exists() and (not text or text in path.read_text())):
        time.sleep(0.005)
    os.kill(os.getpid(), number)

threading.Thread(target=watch, args=(Path({path!r}), {text!r}, {number}), daemon=True).start()
"""


def run_until(
    path: Path, number: signal.Signals, code: str, config: Config, *, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run ``code``, which sends itself a signal when the path is there, with the text in it if one
    is given. Watched from outside, a loaded machine could let it pass the moment."""
    watched = SIGNAL_AT.format(path=str(path), text=text, number=int(number)) + code
    command = [*WARM, "-c", watched, json.dumps(config.dump())]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def kill_at(moments: Sequence[str], code: str, config: Config) -> int:
    """Run ``code`` once for each path in the run's folder, and kill it when that is there; returns
    how many were killed before their end."""
    ended = [run_until(config.run / moment, signal.SIGKILL, code, config) for moment in moments]
    return sum(done.returncode == -signal.SIGKILL for done in ended)


@pytest.mark.slow
def test_a_killed_run_ends_like_an_unbroken_one(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    whole = run(make_config("unbroken", grpo__steps=8))
    config = make_config("killed", grpo__steps=8)
    moments = ("warm_start/policy", "checkpoints/step_000002", "checkpoints/step_000006")
    assert kill_at(moments, KILLED_RUN, config) == 3
    again = run(config)
    assert same(weights(whole), weights(again))
    assert step_lines(whole) == step_lines(again)
    evaluations = [
        json.loads((folder / "evals/after.json").read_text()) for folder in (whole, again)
    ]
    assert evaluations[0]["levels"] == evaluations[1]["levels"]


@pytest.mark.slow
def test_a_terminated_run_saves_its_step_and_ends_like_an_unbroken_one(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    whole = run(make_config("unbroken", grpo__steps=8, checkpoint_every=100))
    config = make_config("terminated", grpo__steps=8, checkpoint_every=100)
    metrics, step = config.run / "metrics.jsonl", '"kind":"step","step":2,'
    said = run_until(metrics, signal.SIGTERM, KILLED_RUN, config, text=step).stderr
    assert "StoppedError: stopped; step " in said
    saved = max((config.run / "checkpoints").iterdir())
    assert f"stopped; step {int(saved.name.removeprefix('step_'))} is saved" in said
    assert not is_ended(config)
    again = run(config)
    assert same(weights(whole), weights(again))
    assert step_lines(whole) == step_lines(again)


@pytest.mark.slow
def test_a_finished_run_goes_on_with_more_steps_like_an_unbroken_one(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    whole = run(make_config("unbroken", grpo__steps=6))
    short, long = (make_config("longer", grpo__steps=steps) for steps in (3, 6))
    folder = run(short)
    end, policy = (folder / "evals/after.json").read_text(), weights(folder)
    assert is_ended(short)
    assert not is_ended(long)
    # Rounds are not what this loop counts.
    assert is_ended(make_config("longer", grpo__steps=3, expert_iteration__rounds=99))
    # Killed on the way: the evaluation has its new name, the policy not.
    for suffix in ("json", "jsonl", "settings"):
        os.replace(folder / f"evals/after.{suffix}", folder / f"evals/after_step_3.{suffix}")
    assert not is_ended(long)
    run(long)
    assert is_ended(long)
    assert same(weights(whole), weights(folder))
    assert step_lines(whole) == step_lines(folder)
    assert (folder / "evals/after_step_3.json").read_text() == end
    assert same(weights(folder, "policy_step_3"), policy)
    levels = [json.loads((f / "evals/after.json").read_text())["levels"] for f in (whole, folder)]
    assert levels[0] == levels[1]
    # With fewer it is as finished as with as many, and nothing is run again.
    assert is_ended(short)


@pytest.mark.slow
def test_what_a_run_ended_with_is_never_lost(
    make_config: Callable[..., Config],
    verifiers: list[StubVerifier],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = {"grpo__steps": 6, "max_verifier_calls": 1}
    # A run that was stopped before its first checkpoint has no end yet.
    assert reopen(make_config("stopped").run, make_config("stopped", grpo__steps=99)) == ""
    folder = run(make_config("ended", **limits))
    (folder / "evals/after.own.json").write_text("{}")
    # A start that fails moves nothing.
    with monkeypatch.context() as patch:
        patch.setattr(train_module, "open_configured", fail_to_open)
        with pytest.raises(RunError, match="no verifier"):
            run(make_config("ended", **limits | {"grpo__steps": 7}))
    assert is_ended(make_config("ended", **limits))
    # Twice no step is made, because the other limit ends the loop: both ends keep their names.
    names = ["policy"]
    for steps, name in ((7, "step_1"), (8, "step_1_2")):
        run(make_config("ended", **limits | {"grpo__steps": steps}))
        names.append(f"policy_{name}")
        assert sorted(path.name for path in folder.glob("policy*")) == names
        assert (folder / f"evals/after_{name}.json").exists()
    assert (folder / "evals/after.own.json").read_text() == "{}"
    # An evaluation whose policy is gone is not taken for that of the next end.
    shutil.rmtree(folder / "policy")
    run(make_config("ended", **limits | {"grpo__steps": 9}))
    assert (folder / "evals/after_step_1_3.json").exists()
    # Without a checkpoint there is nothing to go on from.
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(RunError, match=r"no checkpoint to go on from; set grpo\.steps back"):
        is_ended(make_config("ended", **limits | {"grpo__steps": 10}))


def fail_to_open(*_: Any, **__: Any) -> None:
    raise RunError("no verifier")


@pytest.mark.slow
def test_a_guard_that_stops_leaves_the_batch_with_its_verdicts(
    make_config: Callable[..., Config],
    verifiers: list[StubVerifier],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proverrl.learner.guard.MIN_ENTROPY", 100.0)
    config = make_config("guarded", guard={"action": "stop"})
    with pytest.raises(
        GuardError, match=r"less than 100; the batch is in .*entropy\.json"
    ) as error:
        run(config)
    assert error.value.path == config.run / "guard" / "entropy.json"
    samples = json.loads(error.value.path.read_text())["samples"]
    keys = {call.key for call in verifiers[0].calls}
    assert samples
    for sample in samples:
        assert sample["verdict"]["key"] in keys
        # Rewards of 0 and 1 around their mean: what was proved has the positive advantage.
        proved = sample["verdict"]["status"] == "proved"
        assert all((value > 0) == proved for value in sample["advantages"])
