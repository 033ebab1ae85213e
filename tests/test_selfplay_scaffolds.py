"""Scaffolds, parents from the archive and attacks on negations: exact records, and real Dafny."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from proverrl.compose.archive import Composed, ProblemArchive
from proverrl.compose.composers import Draft
from proverrl.compose.filters import (
    FILTERS,
    FilterRun,
    FilterTally,
    Stop,
    make_filters,
    make_negation,
    run_filters,
)
from proverrl.compose.operators import build_composed, compose, read_generation
from proverrl.config import parse_config
from proverrl.config.compose import SelfplayScaffold
from proverrl.lang.records import Made, Parent
from proverrl.loops.selfplay.composed import (
    ComposedProblems,
    draw_pairs,
    list_negations,
    list_parents,
    use_attacks,
    weigh_operators,
    write_attacks,
)
from proverrl.loops.selfplay.composer import POOLS, Scaffolder, lift_failed
from proverrl.loops.session import TrainingProblems
from proverrl.problems.load import make_row, write_problems
from proverrl.seeds import derive_seed
from proverrl.types import (
    HOLE,
    Candidate,
    Completion,
    Diagnostic,
    Obligations,
    Problem,
    Prompt,
    Rollout,
    Sampling,
    Status,
    Turn,
    Verdict,
)
from proverrl.verifier.base import Verifier
from tests.dafny_search import LEM, Dafny, open_dafny
from tests.fake_verifier import FakeVerifier
from tests.filter_tools import make_tools

LOOP = f"method M(n: nat)\n{{\n  while r < n\n    {HOLE}\n  {{ }}\n}}\n"
FAILED = Verdict(
    Status.REJECTED,
    (Diagnostic("error", "this invariant might not be maintained", 5, 4),),
    obligations=(Obligations("Impl$$_module.__default.M", 3, 2),),
)
PROVED = Verdict(Status.PROVED, checks=("fake",))
FALSE = f"lemma Law(m: nat)\n  ensures m < 9\n{{\n  {HOLE}\n}}\n"


def loop(name: str, counter: str = "r") -> Problem:
    return Problem(name, "dafny", "invariants", "", LOOP.replace("r", counter))


def attempt(problem: Problem, body: str, verdict: Verdict) -> Rollout:
    completion = Completion("", (1,), (2,), (0.0,), "stop", 0)
    return Rollout("r", problem, "solver", (Turn(completion, Candidate(problem, body), verdict),))


def scaffold(*names: SelfplayScaffold, num: int = 2) -> Scaffolder:
    return Scaffolder(names, num, seed=0)


def test_every_scaffold_has_what_it_is_built_on() -> None:
    names = [n for part in get_args(SelfplayScaffold) for n in (get_args(part) or (part,))]
    assert list(POOLS) == names


def test_the_parts_of_a_failed_proof_are_drafts_of_the_next_round() -> None:
    problem = loop("p")
    made = scaffold("subgoals")
    # The second clause begins at line 5 and fails there; the first one stays.
    made.see([attempt(problem, "invariant 0 <= r\ninvariant r == 7", FAILED)])
    made.end_step(3)
    (draft,) = made.draw(4, {"p": problem}, {}, {}, ())
    assert (draft.parents, draft.kind, draft.scaffold) == (("p",), "invariants", "subgoals")
    assert draft.composed is not None
    part = draft.composed
    assert part.problem.statement == LOOP.replace(HOLE, f"invariant 0 <= r\n    {HOLE}")
    assert (part.operator, part.parents, part.round) == ("subgoal_alone", ("p",), 3)
    assert part.problem.metadata["lineage"] == {"operator": "subgoal_alone", "generation": 1}
    # What was made before is not made again, and a problem that was solved has no open parts.
    assert made.draw(4, {"p": problem}, {}, {}, {part.problem.id}) == []
    made.see([attempt(problem, "invariant 0 <= r\ninvariant r == 7", FAILED)])
    made.see([attempt(problem, "x", PROVED)])
    made.end_step(4)
    assert made.draw(5, {"p": problem}, {}, {}, ()) == []


def test_what_a_step_left_goes_into_a_checkpoint() -> None:
    problem = loop("p")
    one, other = scaffold("subgoals", "show_hints"), scaffold("subgoals", "show_hints")
    one.see([attempt(problem, "invariant 0 <= r\ninvariant r == 7", FAILED)])
    one.end_step(0)
    state = json.loads(json.dumps(one.state_dict()))
    assert state["failed"] == ["p"]
    other.load_state_dict(state)
    references = {"p": "invariant 0 <= r\ninvariant r <= n"}
    drafts = [s.draw(1, {"p": problem}, {}, references, ()) for s in (one, other)]
    assert drafts[0] == drafts[1]
    assert len(drafts[0]) == 2


def test_hints_are_shown_of_what_was_solved_and_chains_need_two() -> None:
    problems = {"a": loop("a"), "b": loop("b", "s")}
    proofs = {"a": "invariant A\ninvariant B"}
    drafts = scaffold("show_hints").draw(0, problems, proofs, {}, ())
    # Two hints: each is hidden once while the other is shown.
    assert sorted(d.composed.reference or "" for d in drafts if d.composed) == [
        "invariant A",
        "invariant B",
    ]
    assert scaffold("chain_solved").draw(0, problems, proofs, {}, ()) == []
    # Nothing was failed, so that nothing is made easier; a share of 0 makes nothing at all.
    assert scaffold("easier").draw(0, problems, proofs, {}, ()) == []
    assert scaffold("show_hints", num=0).draw(0, problems, proofs, {}, ()) == []


def composed(name: str, text: str, parents: Sequence[Problem]) -> Composed:
    return build_composed(Made("invariants", text), parents, name, round_number=0, seed=0)


def test_kept_problems_that_are_solved_at_times_are_parents() -> None:
    base = [loop("p0", "i"), loop("p1", "j")]
    archive = ProblemArchive()
    made = [composed("easier", LOOP.replace("r", c), base) for c in "abcde"]
    long = composed("harder", LOOP.replace("r", "x" * 200), base)
    for one in (*made, long):
        archive.add(one)
    names = [one.problem.id for one in made]
    for name, rate in zip(names, (0.5, 0.0, 1.0, 0.25), strict=False):
        archive.note(name, solve_rate=rate)
    archive.note(names[3], stopped_by="duplicate")
    archive.note(long.problem.id, solve_rate=0.5)
    # Solved never, always, stopped, never tried, twice too long: only the first is left.
    assert list_parents(archive, base) == [made[0].problem]
    known: dict[str, Any] = {"base": base, "archive": archive, "references": {}}
    known["proofs"] = {names[0]: "x"}
    pairs = draw_pairs(random.Random(0), "archive", 40, **known)
    first = [a.problem.id for a, _ in pairs]
    assert set(first) == {"p0", "p1", names[0]}
    # Half of 40 are 20; with a chance of one half fewer than 10 or more than 30 are 1 in 500.
    assert 10 <= first.count(names[0]) <= 30
    drawn = [p for pair in pairs for p in pair if p.problem.id == names[0]]
    assert drawn == [Parent(made[0].problem, "x")] * len(drawn)
    plain = draw_pairs(random.Random(0), "all", 40, **known)
    assert {p.problem.id for pair in plain for p in pair} == {"p0", "p1"}


def test_operators_are_weighed_by_what_lay_in_the_window() -> None:
    base = [loop("p0", "i"), loop("p1", "j")]
    archive = ProblemArchive()
    made = [composed("easier", LOOP.replace("r", c), base) for c in "abcde"]
    made += [composed("flip_sign+harder", LOOP.replace("r", c), base) for c in "fg"]
    for one in made:
        archive.add(one)
    for one, rate in zip(made, (0.5, 0.0, 0.75, 0.25, None, 0.5, 1.0), strict=True):
        archive.note(one.problem.id, solve_rate=rate)
    archive.note(made[3].problem.id, stopped_by="trivial")
    archive.note(made[0].problem.id, repeats=2)
    # Easier: one within 0 < p <= 0.5, three not (the stopped one too), two repeats, and one never
    # judged. Both operators of a pair made two statements, one of them within.
    assert weigh_operators(archive, 0.0, 0.5) == {
        "easier": [2.0, 6.0],
        "flip_sign": [2.0, 2.0],
        "harder": [2.0, 2.0],
    }


def test_generations_count_from_base_problems() -> None:
    base = loop("p0", "i")
    child = composed("easier", LOOP, [base])
    grandchild = composed("harder", LOOP.replace("r", "k"), [base, child.problem])
    found = [read_generation(p) for p in (base, child.problem, grandchild.problem)]
    assert found == [0, 1, 2]


def judge_false(candidate: Candidate) -> Verdict:
    """Proves the negation by the body W."""
    entry = Obligations("Impl$$_module.__default.Law", 2, 1)
    checks = ("audit", "resolve", "obligations")
    if "exists m: nat" in candidate.problem.statement and candidate.body == "W":
        return Verdict(Status.PROVED, checks=checks)
    return Verdict(Status.REJECTED, obligations=(entry,), checks=checks)


def run_filter(
    problem: Problem, verifier: Verifier, bodies: Sequence[str], tally: FilterTally
) -> FilterRun:
    negation = make_negation(problem)
    assert negation is not None
    attack = use_attacks({negation.problem.id: bodies})

    async def main() -> FilterRun:
        tools = make_tools(verifier, existing=(), held_out=(), attack=attack)
        return await run_filters([problem], make_filters(tools), tools, tally=tally)

    return asyncio.run(main())


def test_the_solver_refutes_a_statement_and_its_calls_count() -> None:
    law = Problem("law", "dafny", "statements", "", FALSE)
    plain, attacked = FilterTally(), FilterTally()
    assert run_filter(law, FakeVerifier(judge_false), (), plain).kept == (law,)
    verifier = FakeVerifier(judge_false)
    found = run_filter(law, verifier, ("V", "W", "never asked"), attacked)
    (stop,) = found.stops
    assert (stop.filter, stop.reason) == ("refuted", "its negation is proved by the solver")
    assert stop.kept is not None
    assert (stop.kept.operator, stop.kept.parents) == ("negate", ("law",))
    assert stop.kept.reference == stop.body == "W"
    assert "ensures exists m: nat :: !(m < 9)" in stop.kept.problem.statement
    # The filters' own bodies are asked with and without an attack; V and W come on top.
    assert attacked.calls["refuted"] == plain.calls["refuted"] + 2
    assert verifier.num_calls == found.num_calls
    assert "never asked" not in {candidate.body for candidate in verifier.calls}


def test_each_negation_is_attacked_once() -> None:
    law = Problem("law", "dafny", "statements", "", FALSE)
    made = compose("change_constant", [Parent(law)], round_number=0, seed=1)
    assert made is not None
    drafts = [
        Draft(("law",), "statements", made),
        Draft(("law",), "statements", made),
        Draft(("law",), "statements", None, "nothing"),
        Draft(("p",), "invariants", composed("easier", LOOP, [loop("p")])),
    ]
    assert [problem.kind for problem in list_negations(drafts)] == ["statements"]


class Writer:
    """A sampler that writes V, W, V, and notes its seeds."""

    layout = "plain"
    context_tokens = 64

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def prompt(self, problem: Problem) -> Prompt:
        return Prompt(problem.id, problem.statement, (1,))

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        self.seeds.append(sampling.seed)
        written = [Completion(text, (1,), (2,), (0.0,), "stop", 0) for text in "VWV"[:n]]
        return [written for _ in prompts]


def test_bodies_against_negations_are_written_once_a_round_and_seeded_by_it() -> None:
    law = Problem("law", "dafny", "statements", "", FALSE)
    made = compose("change_constant", [Parent(law)], round_number=0, seed=1)
    assert made is not None
    drafts = [Draft(("law",), "statements", made)]
    (negation,) = list_negations(drafts)
    writer = Writer()
    cases: list[tuple[int, dict[str, list[str]]]] = [(0, {}), (3, {negation.id: ["V", "W"]})]
    for samples, expected in cases:
        table: dict[str, Any] = {"loop": "selfplay", "selfplay": {"attack_samples": samples}}
        session: Any = SimpleNamespace(config=parse_config(table, source="test"), sampler=writer)
        assert asyncio.run(write_attacks(session, drafts, 2)) == expected
    assert writer.seeds == [derive_seed(0, "attack", 2)]


@pytest.mark.parametrize("key", ["filters", "guards"])
def test_a_state_of_the_version_before_is_read(tmp_path: Path, key: str) -> None:
    problem = loop("p")
    heldout = tmp_path / "heldout.jsonl"
    write_problems(heldout, [make_row(loop("q", "s"))])
    table = {"loop": "selfplay", "problems": {"heldout": str(heldout), "valid": "none.jsonl"}}
    session: Any = SimpleNamespace(
        config=parse_config(table, source="test"),
        folder=tmp_path,
        checkpoints=tmp_path / "checkpoints",
        problems=TrainingProblems((), (problem,)),
        monitor=SimpleNamespace(phase=lambda *_: None),
        english=None,
    )
    before = FilterTally(num_seen=5, num_kept=3)
    before.record(problem, Stop("trivial", "p", "proved at once", "r"))
    before.calls["trivial"] = 7
    found = ComposedProblems(session)
    archive = found.state_dict()["archive"]
    found.load_state_dict({"archive": archive, key: json.loads(json.dumps(before.state_dict()))})
    assert found.filters == before
    assert found.state_dict() == {"archive": archive, "filters": before.state_dict()}


@pytest.fixture(scope="module")
def dafny() -> Iterator[Dafny]:
    yield from open_dafny()


@pytest.mark.slow
@pytest.mark.dafny
def test_a_part_of_a_failed_proof_goes_through_the_filters_on_real_dafny(dafny: Dafny) -> None:
    body = "if m > 3 { Lem(m); } else { assert m == 7; }"
    candidate = Candidate(LEM, body)
    parts = lift_failed(candidate, dafny.judge(LEM, body), round_number=2, seed=0)
    # H1 needs nothing, so that both of its forms are one; R2 is alone and given H1.
    assert [part.operator for part in parts] == ["subgoal_alone", "subgoal_alone", "subgoal_given"]
    tools = make_tools(dafny.verifier, existing=[LEM], held_out=())
    filters = make_filters(tools, tuple(FILTERS))
    found = dafny.runner.run(run_filters([p.problem for p in parts], filters, tools))
    stops = {stop.problem_id: (stop.filter, stop.reason) for stop in found.stops}
    assert [stops.get(part.problem.id) for part in parts] == [None, None, None]
    assert dafny.judge(parts[2].problem, "Lem(m - 1);").proved
