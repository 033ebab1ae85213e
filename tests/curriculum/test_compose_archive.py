"""The archive of composed problems: lineage, a file that only grows, and what a crash leaves."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from proverrl.compose.archive import Composed, ProblemArchive, dump_composed, load_composed
from proverrl.errors import RecordError, RunError
from proverrl.types import HOLE, Problem


def make(name: str, *parents: str, operator: str = "nest_loop", round_number: int = 0) -> Composed:
    problem = Problem(name, "dafny", "statements", "", f"lemma {name}() {{ {HOLE} }}\n")
    return Composed(problem, parents, operator, round_number, 7, reference="assert true;")


FAMILY = (
    make("c", "base1", "base2"),
    make("d", "c", operator="negate", round_number=1),
    make("e", "d", "base2", round_number=2),
    make("f", "base1"),
)


def fill(archive: ProblemArchive) -> ProblemArchive:
    for composed in FAMILY:
        assert archive.add(composed)
    archive.note("d", stopped_by="refuted", solve_rate=0.25)
    return archive


def test_problems_and_facts_are_found_by_id() -> None:
    archive = fill(ProblemArchive())
    assert archive.get("d").parents == ("c",)
    assert archive.facts("d") == {"stopped_by": "refuted", "solve_rate": 0.25}
    assert archive.facts("c") == {}
    assert Counter(composed.operator for composed in archive) == {"nest_loop": 3, "negate": 1}
    with pytest.raises(RunError, match="holds no problem 'base1'"):
        archive.get("base1")


def test_the_file_gives_everything_back(tmp_path: Path) -> None:
    path = tmp_path / "run" / "archive.jsonl"
    archive = fill(ProblemArchive(path))
    assert not archive.add(FAMILY[0])
    again = ProblemArchive(path)
    assert list(again) == list(FAMILY)
    assert again.facts("d") == {"stopped_by": "refuted", "solve_rate": 0.25}
    assert again.state_dict() == archive.state_dict()
    assert len(path.read_text().splitlines()) == 5
    with pytest.raises(RecordError, match="two composed problems have the id 'c'"):
        again.add(Composed(Problem("c", "dafny", "calc", "", HOLE), ("x",), "negate", 0, 0))
    with pytest.raises(RecordError, match="no problem 'zz'"):
        again.note("zz", solved=1)


def test_a_row_may_leave_out_the_reference() -> None:
    composed = replace(FAMILY[0], reference=None)
    row = json.loads(json.dumps(dump_composed(composed)))
    assert "reference" not in row
    assert load_composed(row) == composed
    assert load_composed({**row, "reference": None}) == composed  # as in earlier checkpoints
    assert load_composed(json.loads(json.dumps(dump_composed(FAMILY[0])))) == FAMILY[0]


def test_a_torn_last_line_is_dropped_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "archive.jsonl"
    fill(ProblemArchive(path))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"composed","probl')
    assert len(ProblemArchive(path)) == 4
    assert path.read_bytes() == whole
    path.write_bytes(whole.replace(b'"type":"facts"', b'"type":facts'))
    with pytest.raises(RunError, match=r"archive.jsonl, line 5: not a line of an archive"):
        ProblemArchive(path)


def test_a_reader_leaves_a_file_alone_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "archive.jsonl"
    fill(ProblemArchive(path))
    half = path.read_bytes() + b'{"type":"composed","probl'
    path.write_bytes(half)
    archive = ProblemArchive.read(path)
    assert len(archive) == 4
    archive.add(make("g", "f"))
    assert path.read_bytes() == half


def test_a_checkpoint_brings_back_the_past_and_keeps_the_rest_beside(tmp_path: Path) -> None:
    path = tmp_path / "archive.jsonl"
    archive = ProblemArchive(path)
    archive.add(FAMILY[0])
    state = archive.state_dict()
    early = path.read_bytes()
    archive.add(FAMILY[1])
    late = path.read_bytes()[len(early) :]
    resumed = ProblemArchive(path)
    resumed.load_state_dict(state)
    assert path.read_bytes() == early
    assert (tmp_path / "archive.jsonl.later").read_bytes() == late
    assert [composed.problem.id for composed in resumed] == ["c"]
    assert resumed.add(FAMILY[1])
    assert path.read_bytes() == early + late
    with pytest.raises(RunError, match="not the one of the checkpoint, which had 9 lines"):
        resumed.load_state_dict({"num_lines": 9, "sha256": ""})
    with pytest.raises(RunError, match="put back the file of that run"):
        resumed.load_state_dict({"num_lines": 1, "sha256": "0"})


def test_a_composed_problem_has_parents() -> None:
    with pytest.raises(RecordError, match="has parents, not itself"):
        make("x")
    with pytest.raises(RecordError, match="has parents, not itself"):
        make("x", "x")
