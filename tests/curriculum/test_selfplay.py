"""The self-play loop on a scripted verifier: every composer, exact resumption, who learns what."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proverrl.compose.archive import Composed, ProblemArchive
from proverrl.compose.composers import Draft
from proverrl.config import Config, load_stored_config
from proverrl.errors import UsageError
from proverrl.jobs import train as train_module
from proverrl.jobs.export_proofs import export_proofs
from proverrl.loops.selfplay import composer as composer_module
from proverrl.loops.selfplay.composition import draw_pairs, drop_long
from proverrl.run.session import Session
from proverrl.run.state import GrpoState
from proverrl.types import (
    HOLE,
    Candidate,
    Problem,
    Prompt,
    Status,
)
from tests.builders import build_problem
from tests.run.test_grpo import (
    StubVerifier,
    judge,
    kill_at,
    make_config,
    run,
    same,
    state_of,
    step_lines,
    verifiers,
    weights,
)

__all__ = ["make_config", "verifiers"]

TAUGHT = 64
"""Scripts are enough for a model of this size."""

NO_EVALUATION = {"before": False, "after": False}
POLICY = {"composer": "policy", "max_new_tokens": 24, "statements": 6}


@pytest.fixture
def make_play(
    make_config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Config]:
    monkeypatch.setattr(composer_module, "TAUGHT_SCRIPTS", TAUGHT)

    def make(name: str, selfplay: dict[str, Any] | None = None, **changes: Any) -> Config:
        settings = {
            "statements": 3,
            "operators": ["change_constant", "flip_sign"],
            # The scripted verifier counts no obligations, which the others ask for.
            "filters": ["duplicate", "leak", "trivial"],
            "solve_rates": [0.0, 0.9],
            **(selfplay or {}),
        }
        changes = {"evaluation": NO_EVALUATION, "selfplay": settings, **changes}
        if settings.get("composer") == "policy":
            # Enough for a model of this size to write scripts most of the time.
            changes |= {"warm_start__steps": 300, "warm_start__learning_rate": 1e-2}
        return make_config(name, loop="selfplay", **changes)

    return make


def archive_of(folder: Path) -> ProblemArchive:
    return ProblemArchive(folder / "archive.jsonl")


@pytest.mark.slow
def test_a_program_composes_and_the_solver_learns(
    make_play: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    folder = run(make_play("play"))
    lines = step_lines(folder)
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    archive = archive_of(folder)
    base = {f"p{n}" for n in range(60)}
    stopped = [c for c in archive if "stopped_by" in archive.facts(c.problem.id)]
    kept = [c for c in archive if c not in stopped]
    assert len(kept) == sum(line["statements_kept"] for line in lines) > 0
    for composed in archive:
        assert base.issuperset(composed.parents)
        assert composed.operator in ("change_constant", "flip_sign")
    for line in lines:
        stopped = sum(line["filter_stops"].values())
        assert line["statements_written"] == 3
        assert line["statements_malformed"] + line["statements_kept"] + stopped == 3
        # Four groups: two of the curriculum, and the rest up to four of it where filters stopped.
        composed_groups = line["statements_kept"]
        assert line["groups"] == max(4, 2 + composed_groups)
        assert line["curriculum_added"] >= line["statements_kept"]
        assert sum(line["solve_rates"].values()) == composed_groups
        assert {f"idle_{p}_seconds" for p in ("generator", "pool", "learner", "composer")} <= set(
            json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
        )
    rated = [archive.facts(c.problem.id)["solve_rate"] for c in kept]
    counted = {name: sum(line["solve_rates"][name] for line in lines) for name in ("0", "1")}
    assert counted == {"0": rated.count(0.0), "1": rated.count(1.0)}
    assert lines[-1]["grad_norm"] > 0
    # `proverrl proofs` knows the composed problems that were proved beside those of the base.
    with pytest.raises(UsageError, match="whose own files it could overwrite"):
        export_proofs(folder, load_stored_config(folder), folder / "resolved.json")
    out = folder / "proofs.jsonl"
    export_proofs(folder, load_stored_config(folder), out)
    rows = [json.loads(text) for text in out.read_text().splitlines()]
    proved = {row["problem"]["id"] for row in rows} - base
    assert proved == {c.problem.id for c in kept if archive.facts(c.problem.id)["solve_rate"]}


class Narrow:
    """A sampler with room for 40 tokens; a letter is one."""

    context_tokens = 40

    def prompt(self, problem: Problem) -> Prompt:
        return Prompt(problem.id, problem.statement, tuple(range(len(problem.statement))))


def test_training_problems_without_room_are_named_and_never_drawn() -> None:
    problems = [
        replace(build_problem(f"p{num}"), statement=HOLE.rjust(num, "x")) for num in (39, 40, 41)
    ]
    warned: list[tuple[str, str]] = []
    session: Any = SimpleNamespace(
        sampler=Narrow(),
        problems=SimpleNamespace(without_reference=problems),
        monitor=SimpleNamespace(warn=lambda *said: warned.append(said)),
    )
    session.has_room = partial(Session.has_room, session)
    assert Session.leave_out_long(session) == problems[:1]
    [(name, text)] = warned
    assert name == "no room"
    assert text.startswith("2 problems are left out, because they leave the model no room for an")
    assert "answer: p40, p41. Take a model" in text
    session.problems.without_reference = problems[1:]
    with pytest.raises(UsageError, match="2 problems are left out"):
        Session.leave_out_long(session)


def test_a_statement_that_leaves_no_room_for_an_answer_is_tried_by_nobody() -> None:
    def write(num: int) -> Draft:
        problem = replace(build_problem(f"p{num}"), statement=HOLE.rjust(num, "x"))
        return Draft(("a", "b"), Composed(problem, ("a", "b"), "o", 1, 0))

    session: Any = SimpleNamespace(sampler=Narrow())
    session.has_room = partial(Session.has_room, session)
    empty = Draft(("a", "b"), None, "no script")
    found = drop_long(session, [write(39), write(40), empty])
    assert [draft.reason for draft in found] == [
        "",
        "too long for the model's context",
        "no script",
    ]
    assert [draft.composed is not None for draft in found] == [True, False, False]


@pytest.mark.slow
def test_verifier_calls_of_filters_count(
    make_play: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    folder = run(make_play("play"))
    lines = step_lines(folder)
    assert lines[-1]["verifier_calls_total"] == sum(line["verifier_calls"] for line in lines)
    assert lines[-1]["filter_calls_total"] == sum(line["filter_calls"] for line in lines) > 0
    # Two bodies are tried by the filter "trivial" on each statement that no filter stopped before.
    assert lines[0]["filter_calls"] >= 2 * lines[0]["statements_kept"]
    limit = lines[1]["verifier_calls_total"]
    short = step_lines(run(make_play("short", max_verifier_calls=limit)))
    assert [line["verifier_calls_total"] for line in short] == [
        line["verifier_calls_total"] for line in lines[:2]
    ]


def test_the_solver_learns_within_its_window_only(
    make_play: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    folder = run(make_play("window", {"solve_rates": [0.2, 0.5]}))
    seen = set()
    for path in sorted((folder / "rollouts").glob("*.jsonl")):
        groups: dict[str, list[dict[str, Any]]] = {}
        for row in map(json.loads, path.read_text().splitlines()):
            groups.setdefault(row["rollout_id"].rpartition("-")[0], []).append(row)
        for rows in groups.values():
            rate = sum(row["status"] == "proved" for row in rows) / len(rows)
            learned = any(row["advantage"] for row in rows)
            inside = 0.2 < rate <= 0.5
            # Groups within the window are mixed, and so have advantages.
            assert learned == inside
            seen.add(inside)
    assert seen == {True, False}


def judge_by_name(candidate: Candidate) -> Status:
    """``judge``, but composed problems are proved always, never or by luck, a third each."""
    if candidate.problem.id.startswith("p"):
        return judge(candidate)
    outcomes = (Status.PROVED, Status.REJECTED, judge(candidate))
    return outcomes[int(candidate.problem.id[-1], 16) % 3]


@pytest.mark.slow
def test_late_filters_are_asked_only_of_what_was_proved_in_part(
    make_play: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_named(*_: Any, **__: Any) -> StubVerifier:
        return StubVerifier(judge_by_name)

    monkeypatch.setattr(train_module, "open_configured", open_named)
    folder = run(make_play("late", {"late_filters": ["trivial"], "statements": 6}))
    lines = step_lines(folder)
    archive = archive_of(folder)
    facts = {c.problem.id: archive.facts(c.problem.id) for c in archive}
    stopped = {name for name, known in facts.items() if "stopped_by" in known}
    rates = {name: known["solve_rate"] for name, known in facts.items() if name not in stopped}
    unchecked = {name for name in facts if facts[name].get("unchecked")}
    assert unchecked == {name for name, rate in rates.items() if rate in (0.0, 1.0)}
    assert {rates[name] for name in unchecked} == {0.0, 1.0}
    kept = set(rates) - unchecked
    assert len(kept) == sum(line["statements_kept"] for line in lines) > 0
    assert len(unchecked) == sum(line["statements_unchecked"] for line in lines) > 0
    # Two bodies are tried by the filter on each of the others, and no other call is made.
    assert sum(line["filter_calls"] for line in lines) == 2 * len(kept)
    added = {row["id"] for row in state_of(folder, 4)["curriculum"]["added"]}
    assert added == kept
    # What was proved by every attempt is in the records, and no proof of it was learned from.
    out = folder / "proofs.jsonl"
    export_proofs(folder, load_stored_config(folder), out)
    rows = [json.loads(text) for text in out.read_text().splitlines()]
    base = {f"p{n}" for n in range(60)}
    assert {row["problem"]["id"] for row in rows} - base == kept
    seen = {
        row["problem"]["id"]: row["reward"]
        for path in (folder / "rollouts").glob("*.jsonl")
        for row in map(json.loads, path.read_text().splitlines())
    }
    assert unchecked <= set(seen)
    assert all(seen[name] is None for name in unchecked)


@pytest.mark.slow
def test_a_late_filter_stops_what_the_solver_had_proved(
    make_play: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge_trivial(candidate: Candidate) -> Status:
        composed = not candidate.problem.id.startswith("p")
        return Status.PROVED if composed and not candidate.body else judge(candidate)

    def open_trivial(*_: Any, **__: Any) -> StubVerifier:
        return StubVerifier(judge_trivial)

    monkeypatch.setattr(train_module, "open_configured", open_trivial)
    folder = run(make_play("late", {"late_filters": ["trivial"]}))
    lines = step_lines(folder)
    stops = sum(line["filter_stops"].get("trivial", 0) for line in lines)
    assert stops > 0
    assert sum(line["statements_kept"] for line in lines) == 0
    assert sum(line["groups_composed"] for line in lines) == 0
    archive = archive_of(folder)
    by_trivial = [c for c in archive if archive.facts(c.problem.id).get("stopped_by") == "trivial"]
    assert len(by_trivial) == stops
    assert state_of(folder, 4)["curriculum"]["added"] == []
    # One call a statement: the empty body proves it.
    assert sum(line["filter_calls"] for line in lines) == stops


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"late_filters": ["leak"]}, "leak costs no call and is always asked first"),
        ({"late_filters": ["refuted"]}, "late_filters names refuted, which filters does not"),
    ],
)
def test_bad_late_filters(
    make_play: Callable[..., Config], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_play("bad", changes)


@pytest.mark.slow
def test_a_policy_that_was_taught_writes_scripts_and_learns(
    make_play: Callable[..., Config],
    verifiers: list[StubVerifier],
) -> None:
    config = make_play("policy", POLICY)
    lines = step_lines(run(config))
    written = sum(line["statements_written"] for line in lines)
    assert written == 24
    assert sum(line["statements_malformed"] for line in lines) < written / 2
    assert all(line["composer_reward"] is not None for line in lines)


@pytest.mark.slow
def test_a_composer_that_is_cut_off_is_loud(
    make_play: Callable[..., Config],
    verifiers: list[StubVerifier],
    capsys: pytest.CaptureFixture[str],
) -> None:
    one_token = make_play("cut", {**POLICY, "max_new_tokens": 1}, grpo__steps=1)
    assert [line["composer_truncated_share"] for line in step_lines(run(one_token))] == [1.0]
    assert (
        "warning: 100% of the composer's completions were cut off at the token limit: raise "
        "selfplay.max_new_tokens\n"
    ) in capsys.readouterr().out
    program = step_lines(run(make_play("program", grpo__steps=1)))
    assert ["composer_truncated_share" in line for line in program] == [False]


@pytest.mark.slow
def test_shared_weights_learn_from_both_roles(
    make_play: Callable[..., Config],
    verifiers: list[StubVerifier],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = POLICY
    both = run(make_play("both", settings, grpo__steps=2))
    monkeypatch.setattr("proverrl.loops.selfplay.state._build_sample", lambda *_: [])
    solver = run(make_play("solver", settings, grpo__steps=2))
    # The first round is the same; what the composer learned makes the difference.
    first, other = step_lines(both)[0], step_lines(solver)[0]
    assert first["statements_reasons"] == other["statements_reasons"]
    assert not same(weights(both), weights(solver))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "scripts"), [({}, 0), (POLICY, 2), ({**POLICY, "weights": "own"}, 0)]
)
def test_weights_that_compose_imitate_scripts_again(
    make_play: Callable[..., Config],
    verifiers: list[StubVerifier],
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    scripts: int,
) -> None:
    make, sizes = GrpoState.make_replay, []

    def make_replay(state: GrpoState, version: int) -> Any:
        draw = make(state, version)
        sizes.append(len(draw()))
        return draw

    monkeypatch.setattr(GrpoState, "make_replay", make_replay)
    run(make_play("play", settings, grpo__steps=1, learner__replay_samples=8))
    # Eight proofs, and a quarter as many scripts beside them.
    assert sizes == [8 + scripts]


@pytest.mark.slow
@pytest.mark.parametrize("train", [True, False])
def test_weights_of_its_own(
    make_play: Callable[..., Config], verifiers: list[StubVerifier], train: bool
) -> None:
    from safetensors.torch import load_file

    settings = {**POLICY, "weights": "own" if train else "frozen"}
    folder = run(make_play("own", settings))
    stored = [
        load_file(folder / f"checkpoints/step_00000{n}/composer/model.safetensors") for n in (2, 4)
    ]
    warm = load_file(folder / "warm_start/policy/model.safetensors")
    assert same(warm, stored[0]) != train
    assert same(stored[0], stored[1]) != train
    assert not same(warm, weights(folder))
    assert any("composer_loss" in line for line in step_lines(folder)) == train


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"late_filters": ["trivial"], "operator_choice": "useful"},
        {**POLICY, "late_filters": ["trivial"]},
        {**POLICY, "weights": "own"},
        {"parents": "solved", "filters": ["duplicate", "leak", "trivial", "refuted"]},
    ],
    ids=["program", "late", "shared", "own", "solved"],
)
def test_two_and_two_steps_equal_four_bit_for_bit(
    make_play: Callable[..., Config], verifiers: list[StubVerifier], settings: dict[str, Any]
) -> None:
    whole = run(make_play("whole", settings))
    run(make_play("parts", settings, grpo__steps=2))
    shutil.rmtree(whole.parent / "parts" / "policy")
    again = run(make_play("parts", settings))
    assert step_lines(whole) == step_lines(again)
    assert same(weights(whole), weights(again))
    assert (whole / "archive.jsonl").read_text() == (again / "archive.jsonl").read_text()
    assert state_of(whole, 4)["curriculum"] == state_of(again, 4)["curriculum"]
    # The pool has the whole next step to judge while the learner updates, statements too.
    ahead = state_of(whole, 2)["in_flight"]
    made = {d["composed"]["problem"]["id"] for d in ahead["drafts"] if d["composed"]}
    asked = {row["problem_id"] for row in ahead["draws"]}
    assert made & asked
    assert asked - made


def test_parents_are_solved_ones_once_there_are_two_of_a_language() -> None:
    base = [build_problem(f"p{n}", n=n + 3) for n in range(6)]
    base += [replace(problem, id=f"lean{n}", language="lean") for n, problem in enumerate(base)]

    def draw(*solved: str) -> set[str]:
        proofs = dict.fromkeys(solved, "invariant k")
        pairs = draw_pairs(random.Random(0), "solved", 40, base=base, proofs=proofs, references={})
        return {parent.problem.id for pair in pairs for parent in pair}

    every = {problem.id for problem in base}
    assert draw() == draw("p1") == draw("p1", "lean2") == every
    assert draw("p1", "p4") == draw("p1", "p4", "lean2") == {"p1", "p4"}


KILLED_RUN = """
import asyncio, json, sys
from proverrl.config import parse_config
from proverrl.jobs import train as train_module
from proverrl.jobs.export_proofs import export_proofs
from proverrl.loops.selfplay import composer
from tests.run.test_grpo import StubVerifier, judge
from tests.curriculum.test_selfplay import TAUGHT

composer.TAUGHT_SCRIPTS = TAUGHT
train_module.open_configured = lambda *a, **k: StubVerifier(judge)
config = parse_config(json.loads(sys.argv[1]), source="test")
asyncio.run(train_module.train(config, live=False))
"""


@pytest.mark.slow
def test_a_killed_run_ends_like_an_unbroken_one(
    make_play: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    settings = {**POLICY, "weights": "own"}
    whole = run(make_play("unbroken", settings, grpo__steps=8))
    config = make_play("killed", settings, grpo__steps=8)
    moments = ("archive.jsonl", "checkpoints/step_000002", "checkpoints/step_000006")
    assert kill_at(moments, KILLED_RUN, config) == 3
    again = run(config)
    assert step_lines(whole) == step_lines(again)
    assert same(weights(whole), weights(again))
    assert (whole / "archive.jsonl").read_text() == (again / "archive.jsonl").read_text()
    mine, other = (
        (folder / "checkpoints/step_000008/composer/model.safetensors").read_bytes()
        for folder in (whole, again)
    )
    assert mine == other


@pytest.mark.slow
def test_an_unjudged_statement_is_no_failure(
    make_play: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_slow(*_: Any, **__: Any) -> StubVerifier:
        return StubVerifier(lambda c: judge(c) if c.problem.id.startswith("p") else Status.TIMEOUT)

    monkeypatch.setattr(train_module, "open_configured", open_slow)
    filters = {"filters": ["duplicate", "leak"]}
    (line,) = step_lines(run(make_play("slow", filters, grpo__steps=1)))
    assert line["statements_kept"] > 0
    assert sum(line["solve_rates"].values()) == 0
    # Nothing malformed, nothing stopped: no statement has a reward.
    if line["statements_kept"] == 3:
        assert line["composer_reward"] is None
