"""Reading and writing files of problems: every fault names its line, its field and a remedy."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from proverrl.errors import ProblemError
from proverrl.problems.load import (
    benchmark_sha256,
    load_problems,
    load_references,
    write_problems,
)
from proverrl.types import HOLE

STATEMENT = f"lemma L()\n  ensures 1 == 1\n{{\n  {HOLE}\n}}\n"


def make_row(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": "one",
        "language": "dafny",
        "kind": "statements",
        "preamble": "",
        "statement": STATEMENT,
        "split": "heldout",
        "origin": "hand",
        "metadata": {"level": 3, "family": "f", "expected_entries": ["Impl$$_module.L"]},
        "reference": "assert true;",
    }
    row.update(changes)
    return {key: value for key, value in row.items() if value is not None}


def test_rows_come_back_as_problems_and_references_apart(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "problems.jsonl"
    assert write_problems(path, [make_row(), make_row(id="two", reference=None)]) == 2
    first, second = load_problems(path)
    assert (first.id, second.id) == ("one", "two")
    assert (first.level, first.family, first.split) == (3, "f", "heldout")
    assert "reference" not in first.metadata
    assert load_references(path) == {"one": "assert true;"}
    assert benchmark_sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_optional_fields_have_defaults_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    row = {"id": "x", "language": "lean", "kind": "term", "statement": HOLE}
    path.write_text(f"\n{json.dumps(row)}\n\n", encoding="utf-8")
    (problem,) = load_problems(path)
    assert (problem.split, problem.preamble, problem.level) == ("train", "", 0)


FAULTS = {
    "not json": ("{oops", "line 2: not JSON at column 2"),
    "not an object": ("[1]", "line 2: a list, not a JSON object"),
    "missing": (make_row(id="b", statement=None), "line 2: field 'statement' is missing"),
    "unknown": (make_row(id="b", levl=1), "line 2: field 'levl' is not known"),
    "not text": (make_row(id="b", preamble=3), "line 2: field 'preamble' is a int"),
    "split": (make_row(id="b", split="test"), "line 2: field 'split' is 'test'; use one of train"),
    "language": (make_row(id="b", language="coq"), "line 2: field 'language' is 'coq'"),
    "kind": (
        make_row(id="b", kind="proof"),
        "line 2: field 'kind' is 'proof'; use one of annotate, ",
    ),
    "metadata": (make_row(id="b", metadata=[1]), "line 2: field 'metadata' must be a JSON object"),
    "level": (make_row(id="b", metadata={"level": "3"}), "field 'metadata.level' is '3'"),
    "entries": (
        make_row(id="b", metadata={"expected_entries": "Impl"}),
        "field 'metadata.expected_entries' must be a list",
    ),
    "no hole": (make_row(id="b", statement="lemma L() {}"), "line 2: problem 'b'.*exactly once"),
    "text beside a file": (
        make_row(id="b", kind="file", preamble="lemma {:axiom} A() ensures false\n"),
        "line 2: problem 'b': a bare file has no text but its body",
    ),
    "empty id": (make_row(id=""), "line 2: a problem needs a non-empty id"),
    "twice": (make_row(), "line 2: field 'id': 'one' is already used on line 1"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_file_line_field_and_remedy(tmp_path: Path, name: str) -> None:
    line, message = FAULTS[name]
    path = tmp_path / "faulty.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    path.write_text(f"{json.dumps(make_row())}\n{text}\n", encoding="utf-8")
    with pytest.raises(ProblemError, match=message) as caught:
        load_problems(path)
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert ";" in str(caught.value)


def test_a_missing_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="check the path"):
        load_problems(tmp_path / "none.jsonl")
    with pytest.raises(ProblemError, match="check the path"):
        benchmark_sha256(tmp_path / "none.jsonl")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    with pytest.raises(ProblemError, match="holds no problem"):
        load_problems(empty)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"id": "\xe9"}\n')
    with pytest.raises(ProblemError, match="not UTF-8"):
        load_problems(path)


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    write_problems(path, [make_row()])
    before = path.read_bytes()

    def rows() -> Any:
        yield make_row(id="new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_problems(path, rows())
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["problems.jsonl"]
