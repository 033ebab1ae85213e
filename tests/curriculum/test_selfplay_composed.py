"""Parents from the archive and attacks on negations: exact records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from proverrl.compose.archive import Composed, ProblemArchive
from proverrl.compose.filters import (
    FilterRun,
    make_filters,
    make_negation,
    run_filters,
)
from proverrl.compose.operators import build_composed, read_generation
from proverrl.config import parse_config
from proverrl.lang.records import Made
from proverrl.loops.selfplay.composition import (
    ComposedProblems,
    weigh_operators,
)
from proverrl.problems.load import make_row, write_problems
from proverrl.run.session import TrainingProblems
from proverrl.types import (
    HOLE,
    Candidate,
    Obligations,
    Problem,
    Stage,
    Status,
    Verdict,
)
from proverrl.verifier.base import Verifier
from tests.fake_verifier import FakeVerifier
from tests.filter_tools import make_tools

LOOP = f"method M(n: nat)\n{{\n  while r < n\n    {HOLE}\n  {{ }}\n}}\n"
FALSE = f"lemma Law(m: nat)\n  ensures m < 9\n{{\n  {HOLE}\n}}\n"


def loop(name: str, counter: str = "r") -> Problem:
    return Problem(name, "dafny", "invariants", "", LOOP.replace("r", counter))


def composed(name: str, text: str, parents: Sequence[Problem]) -> Composed:
    return build_composed(Made("invariants", text), parents, name, round_number=0, seed=0)


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
    if "exists m: nat" in candidate.problem.statement and candidate.body == "W":
        return Verdict(Status.PROVED, checks=("fake",))
    return Verdict(Status.REJECTED, obligations=(entry,), stage=Stage.PROVER)


def run_filter(problem: Problem, verifier: Verifier, bodies: Sequence[str]) -> FilterRun:
    negation = make_negation(problem)
    assert negation is not None
    attacks = {negation.problem.id: bodies}

    async def main() -> FilterRun:
        tools = make_tools(verifier, existing=(), held_out=(), attacks=attacks)
        return await run_filters([problem], make_filters(tools), tools)

    return asyncio.run(main())


def test_the_solver_refutes_a_statement_and_its_calls_count() -> None:
    law = Problem("law", "dafny", "statements", "", FALSE)
    plain = run_filter(law, FakeVerifier(judge_false), ())
    assert plain.kept == (law,)
    verifier = FakeVerifier(judge_false)
    found = run_filter(law, verifier, ("V", "W", "never asked"))
    (stop,) = found.stops
    assert (stop.filter, stop.reason) == ("refuted", "its negation is proved by the solver")
    assert stop.kept is not None
    assert (stop.kept.operator, stop.kept.parents) == ("negate", ("law",))
    assert stop.kept.reference == stop.body == "W"
    assert "ensures exists m: nat :: !(m < 9)" in stop.kept.problem.statement
    # The filters' own bodies are asked with and without an attack; V and W come on top.
    assert found.calls["refuted"] == plain.calls["refuted"] + 2
    assert verifier.num_calls == found.calls.total()
    assert "never asked" not in {candidate.body for candidate in verifier.calls}


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
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
    )
    found = ComposedProblems(session)
    archive = found.state_dict()["archive"]
    state = {"archive": archive, "filter_calls": 7}
    found.load_state_dict(json.loads(json.dumps(state)))
    assert found.num_filter_calls == 7
    assert found.state_dict() == state
