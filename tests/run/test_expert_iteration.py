"""Proofs over rounds and runs: verified anew when the judge changes, imported, exported."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.config import Config
from proverrl.errors import RunError, UsageError
from proverrl.jobs import train as train_module
from proverrl.loops import expert_iteration
from proverrl.problems.inputs import Submission, read_lines
from proverrl.run import pairs as pairs_module
from proverrl.run.checkpoint import latest_checkpoint, read_state
from proverrl.types import Candidate, Status
from tests.run.test_grpo import (  # noqa: F401  (fixtures)
    StubVerifier,
    judge,
    make_config,
    run,
    step_lines,
    verifiers,
)

QUIET = {"before": False, "after": False, "ks": [1]}
Pairs = list[tuple[str, str]]


class Judges:
    """What ``open_configured`` gives: a verifier of this toolchain that refuses these problems."""

    def __init__(self) -> None:
        self.toolchain = "Dafny 2.3.0"
        self.refused: set[str] = set()
        self.lost: set[str] = set()
        self.opened: list[StubVerifier] = []

    def open(self, *_: Any, **__: Any) -> StubVerifier:
        verifier = StubVerifier(self.answer)
        verifier.toolchain = self.toolchain
        self.opened.append(verifier)
        return verifier

    def answer(self, candidate: Candidate) -> Status:
        if candidate.problem.id in self.lost:
            return Status.CRASHED
        return Status.REJECTED if candidate.problem.id in self.refused else judge(candidate)


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Judges:
    made = Judges()
    monkeypatch.setattr(train_module, "open_configured", made.open)
    return made


@pytest.fixture
def trained_on(monkeypatch: pytest.MonkeyPatch) -> list[Pairs]:
    """The (problem id, body) pairs of every round's training."""
    seen: list[Pairs] = []
    original = pairs_module.proof_sources

    def record(session: Any, pairs: Sequence[tuple[str, str]]) -> Any:
        seen.append(list(pairs))
        return original(session, pairs)

    monkeypatch.setattr(expert_iteration, "proof_sources", record)
    return seen


def proofs_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    checkpoint = latest_checkpoint(folder / "checkpoints")
    assert checkpoint is not None
    proofs: dict[str, list[dict[str, Any]]] = read_state(checkpoint)["proofs"]
    return proofs


def dropped_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(x) for x in (folder / "dropped_proofs.jsonl").read_text().splitlines()]


def expert(make: Callable[..., Config], name: str, rounds: int, **changes: Any) -> Config:
    return make(
        name,
        loop="expert_iteration",
        evaluation=QUIET,
        expert_iteration__rounds=rounds,
        **changes,
    )


def reopen(folder: Path) -> None:
    shutil.rmtree(folder / "policy")


@pytest.mark.slow
def test_a_new_toolchain_has_every_proof_verified_before_it_is_learned(
    make_config: Callable[..., Config],  # noqa: F811
    judges: Judges,
    trained_on: list[Pairs],
) -> None:
    folder = run(expert(make_config, "ei", 1))
    before = proofs_of(folder)
    assert len(before) >= 3
    first, second, *others = sorted(before)
    calls = step_lines(folder)[-1]["verifier_calls_total"]
    judges.toolchain, judges.refused, judges.lost = "Dafny 4.9.0", {first}, {second}
    run(expert(make_config, "ei", 2))

    # One proof is wrong now and one could not be judged: both leave, each with its reason.
    rows = dropped_of(folder)
    assert [(row["problem_id"], row["reason"]) for row in rows] == [
        (first, "rejected"),
        (second, "crashed"),
    ]
    assert {row["verified_under"]["judge"] for row in rows} == {"Dafny 2.3.0"}
    assert [row["body"] for row in rows] == ["invariant k"] * 2
    after = proofs_of(folder)
    assert first not in after
    assert second not in after
    assert set(others) <= set(after)
    judges_now = {p["conditions"]["judge"] for kept in after.values() for p in kept}
    assert judges_now == {"Dafny 4.9.0"}
    # Nothing of theirs was in the second round's training; both were in the first's.
    assert {first, second} <= {name for name, _ in trained_on[0]}
    assert not {first, second} & {name for name, _ in trained_on[1]}
    # The verifications anew are calls like any other.
    [line] = [line for line in step_lines(folder) if line["step"] == 2]
    assert line["verifier_calls_total"] == calls + len(before) + line["verifier_calls"]


def test_a_round_that_has_nothing_to_learn_from_ends(
    make_config: Callable[..., Config],  # noqa: F811
    judges: Judges,
) -> None:
    judges.answer = lambda candidate: Status.REJECTED  # type: ignore[method-assign]
    bare = {"steps": 0, "references_per_level": {}}
    config = expert(make_config, "bare", 2, warm_start=bare, expert_iteration__problems_per_round=8)
    lines = step_lines(run(config))
    assert [(line["step"], line["trained_on"], line["loss"]) for line in lines] == [
        (1, 0, None),
        (2, 0, None),
    ]
    assert all(line["verifier_calls"] > 0 for line in lines)


@pytest.mark.slow
def test_the_same_toolchain_verifies_nothing_anew(
    make_config: Callable[..., Config],  # noqa: F811
    judges: Judges,
) -> None:
    folder = run(expert(make_config, "ei", 1))
    run(expert(make_config, "ei", 2))
    lines = step_lines(folder)
    assert lines[1]["verifier_calls_total"] == sum(line["verifier_calls"] for line in lines)
    second = judges.opened[1]
    assert second.num_calls + len(second.appeals) == lines[1]["verifier_calls"]
    assert not (folder / "dropped_proofs.jsonl").exists()


def test_a_problem_that_was_edited_has_its_proofs_verified_anew(
    make_config: Callable[..., Config],  # noqa: F811
    judges: Judges,
) -> None:
    config = expert(make_config, "ei", 1)
    folder = run(config)
    proved = sorted(proofs_of(folder))
    path = config.problems.train
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if row["id"] == proved[0]:
            row["statement"] = row["statement"].replace("method M", "method N")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows if row["id"] != proved[1]))
    with pytest.raises(RunError, match=f"'{proved[0]}' is not the one that this run proved"):
        export(folder)
    judges.refused = {proved[0]}
    reopen(folder)
    run(expert(make_config, "ei", 1))
    assert [(row["problem_id"], row["reason"][:11]) for row in dropped_of(folder)] == [
        (proved[1], "its problem"),
        (proved[0], "rejected"),
    ]
    # Nothing was saved after that, so that the same is found again, and is not written again.
    rows = dropped_of(folder)
    reopen(folder)
    run(expert(make_config, "ei", 1))
    assert dropped_of(folder) == rows


def test_grpo_checks_the_proofs_that_it_replays(
    make_config: Callable[..., Config],  # noqa: F811
    judges: Judges,
) -> None:
    folder = run(make_config("grpo", evaluation=QUIET, grpo__steps=2))
    [first, *_] = sorted(proofs_of(folder))
    judges.toolchain, judges.refused = "Dafny 4.9.0", {first}
    reopen(folder)
    run(make_config("grpo", evaluation=QUIET, grpo__steps=4))
    assert [row["problem_id"] for row in dropped_of(folder)] == [first]
    assert first not in proofs_of(folder)


def export(folder: Path) -> list[Submission]:
    out = folder / "proofs.jsonl"
    result = CliRunner().invoke(cli, ["proofs", str(folder), "--out", str(out)])
    if result.exception:
        raise result.exception
    with out.open("rb") as file:
        entries = list(read_lines(file, str(out)))
    assert all(isinstance(entry, Submission) for entry in entries)
    return [entry for entry in entries if isinstance(entry, Submission)]


@pytest.mark.slow
def test_proofs_are_exported_as_verify_reads_them_and_imported_after_a_check(
    make_config: Callable[..., Config],  # noqa: F811
    judges: Judges,
    trained_on: list[Pairs],
) -> None:
    folder = run(expert(make_config, "ei", 1))
    entries = export(folder)
    stored = proofs_of(folder)
    assert [e.id for e in entries] == [
        f"{name}#{n + 1}" for name in sorted(stored) for n in range(len(stored[name]))
    ]
    verdicts = asyncio.run(judge_all([e.candidate for e in entries]))
    assert set(verdicts) == {Status.PROVED}

    # Another run starts from them. One is refused by its toolchain, one is on a problem that it
    # must not learn from.
    names = sorted(stored)
    judges.toolchain, judges.refused = "Dafny 4.9.0", {names[0]}
    lines = (folder / "proofs.jsonl").read_text().splitlines()
    strange = json.loads(lines[0])
    strange["problem"]["id"] = "p60"  # held out
    lines.append(json.dumps(strange))
    (folder / "proofs.jsonl").write_text("\n".join(lines) + "\n")
    changes = {"expert_iteration__proofs": str(folder / "proofs.jsonl")}
    second = run(expert(make_config, "second", 1, **changes))
    rows = dropped_of(second)
    assert [row["problem_id"] for row in rows] == ["p60", names[0]]
    assert rows[0]["reason"].startswith("its problem is not among")
    assert rows[1]["reason"] == "rejected"
    imported = {
        name
        for name, kept in proofs_of(second).items()
        if any(p["policy_version"] == -1 for p in kept)
    }
    assert imported == set(names[1:])
    assert imported <= {name for name, _ in trained_on[1]}
    assert names[0] not in {name for name, _ in trained_on[1]}
    [line] = step_lines(second)
    assert line["verifier_calls_total"] == len(names) + line["verifier_calls"]


async def judge_all(candidates: Sequence[Candidate]) -> list[Status]:
    verifier = StubVerifier(judge)
    return [(await verifier.verify(c, deadline_seconds=1.0)).status for c in candidates]


@pytest.mark.slow
def test_a_file_that_holds_no_proofs_is_refused_with_its_line(
    make_config: Callable[..., Config],  # noqa: F811
    judges: Judges,
    tmp_path: Path,
) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text('{"id": "a", "body": "x"}\n')
    with pytest.raises(UsageError, match=r"wrong\.jsonl:1: missing: "):
        run(expert(make_config, "a", 1, expert_iteration__proofs=str(path)))
    # What can be seen at once is said before the warm start.
    with pytest.raises(UsageError, match=r"expert_iteration\.proofs names .*none\.jsonl"):
        run(expert(make_config, "b", 1, expert_iteration__proofs=str(tmp_path / "none.jsonl")))
    assert not (tmp_path / "b" / "warm_start").exists()


@pytest.mark.slow
def test_a_run_without_a_checkpoint_has_no_proofs_to_write(
    make_config: Callable[..., Config],  # noqa: F811
    judges: Judges,
) -> None:
    folder = run(make_config("warm", loop="warm_start", evaluation=QUIET))
    with pytest.raises(RunError, match="no checkpoint yet"):
        export(folder)
