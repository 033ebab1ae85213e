"""What ``proverrl verify`` accepts: files, folders, JSON lines; one bad line stops nothing."""

import io
import json
from pathlib import Path

import pytest

from proverrl.errors import UsageError
from proverrl.files.shipped import shipped_root
from proverrl.lang import find_language
from proverrl.lang.kinds import list_kinds
from proverrl.problems import inputs as inputs_module
from proverrl.problems.inputs import (
    Submission,
    Unusable,
    count_inputs,
    make_file_candidate,
    read_inputs,
    read_lines,
    verdict_to_json,
)
from proverrl.types import HOLE, Diagnostic, Stage, Status, Verdict

PROBLEM = {
    "id": "p1",
    "language": "dafny",
    "kind": "statements",
    "preamble": "",
    "statement": f"lemma L() {{ {HOLE} }}",
    "metadata": {"level": 4},
}


def read_one(entry: object) -> Submission | Unusable:
    text = entry if isinstance(entry, str) else json.dumps(entry)
    (found,) = read_lines(io.BytesIO(text.encode()), "in.jsonl")
    return found


def test_a_body_is_read_with_its_problem() -> None:
    found = read_one({"id": "a", "problem": PROBLEM, "body": "L();"})
    assert isinstance(found, Submission)
    assert found.id == "a"
    assert found.candidate.source == "lemma L() { L(); }"
    assert found.candidate.problem.level == 4


def test_a_reference_beside_the_problem_is_not_read() -> None:
    found = read_one({"id": "a", "problem": {**PROBLEM, "reference": "x"}, "body": ""})
    assert isinstance(found, Submission)
    assert "reference" not in found.candidate.problem.metadata


def test_a_prelude_is_kept_for_the_audit_to_refuse() -> None:
    found = read_one({"id": "a", "problem": PROBLEM, "body": "", "prelude": "lemma X()"})
    assert isinstance(found, Submission)
    assert found.candidate.prelude == "lemma X()"


def test_bare_code_has_no_statement() -> None:
    found = read_one({"id": "b", "language": "dafny", "code": "lemma T() {}"})
    assert isinstance(found, Submission)
    assert found.candidate.problem.kind == "file"
    assert found.candidate.source == "lemma T() {}"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (
            "{",
            "not JSON at column 2 (Expecting property name enclosed in double quotes); give ",
        ),
        ("[1]", "not a JSON object"),
        ({"problem": PROBLEM, "body": ""}, "the id is missing"),
        ({"id": "a"}, "missing: code, language"),
        ({"id": "a", "problem": PROBLEM}, "missing: body"),
        ({"id": "a", "problem": PROBLEM, "body": "", "prof": 1}, "unknown: prof"),
        ({"id": "a", "problem": PROBLEM, "body": 3}, "not a text: body"),
        ({"id": "a", "problem": 3, "body": ""}, "problem is not a JSON object"),
        (
            {"id": "a", "problem": {**PROBLEM, "kid": 1}, "body": ""},
            "problem: field 'kid' is not known",
        ),
        ({"id": "a", "problem": {"id": "p"}, "body": ""}, "problem: field 'kind' is missing"),
        (
            {"id": "a", "problem": {**PROBLEM, "kind": "x"}, "body": ""},
            "problem: field 'kind' is 'x'; use one of",
        ),
        (
            {"id": "a", "problem": {**PROBLEM, "kind": 1}, "body": ""},
            "problem: field 'kind' is a int",
        ),
        (
            {"id": "a", "problem": {**PROBLEM, "metadata": []}, "body": ""},
            "problem: field 'metadata' must be a JSON object",
        ),
        (
            {"id": "a", "problem": {**PROBLEM, "metadata": {"expected_entries": "x"}}, "body": ""},
            "must be a list of strings",
        ),
        (
            {"id": "a", "problem": {**PROBLEM, "statement": "x"}, "body": ""},
            "exactly once, found 0 times",
        ),
        ({"id": "a", "language": "coq", "code": ""}, "unknown language 'coq'"),
        ('{"id": "a", "id": "b", "language": "dafny", "code": ""}', "the key 'id' occurs twice"),
        ({"id": ["a"], "language": "dafny", "code": ""}, "not a text: id"),
        ({"id": True, "language": "dafny", "code": ""}, "not a text: id"),
        ({"id": "a", "language": "dafny", "code": "x\0y"}, "code holds a NUL character"),
        (
            '{"id": "a", "language": "dafny", "code": "xy\\ud800"}',
            "code holds half of a surrogate pair at character 2",
        ),
        (
            {"id": "a", "problem": {**PROBLEM, "preamble": "\ud800"}, "body": ""},
            "field 'preamble' holds half of a surrogate pair",
        ),
        ("[" * 100_000, "not JSON: maximum recursion depth"),
        ('{"id": ' + "9" * 5000 + "}", "not JSON: Exceeds the limit"),
    ],
)
def test_a_malformed_line_says_where_and_why(entry: object, reason: str) -> None:
    found = read_one(entry)
    assert isinstance(found, Unusable)
    assert (found.kind, found.file, found.line) == ("malformed", "in.jsonl", 1)
    assert reason in found.reason
    assert found.message.startswith("in.jsonl:1: ")


def test_lean_is_read_by_its_kinds() -> None:
    bare = read_one({"id": "a", "language": "lean", "code": "theorem t : True := trivial"})
    assert isinstance(bare, Submission)
    assert (bare.candidate.problem.language, bare.candidate.problem.kind) == ("lean", "file")
    lean = {**PROBLEM, "language": "lean", "statement": f"theorem t : True := by {HOLE}"}
    held = read_one({"id": "a", "problem": {**lean, "kind": "tactics"}, "body": "trivial"})
    assert isinstance(held, Submission)
    assert held.candidate.source == "theorem t : True := by trivial"
    wrong = read_one({"id": "a", "problem": lean, "body": ""})
    assert isinstance(wrong, Unusable)
    known = ", ".join(sorted((*find_language("lean").kinds, *list_kinds("lean"))))
    assert f"field 'kind' is 'statements'; use one of {known}" in wrong.reason


def test_a_whole_annotated_program_is_read() -> None:
    problem = {**PROBLEM, "kind": "annotate", "statement": f"method M() {{}}\n{HOLE}"}
    found = read_one({"id": "a", "problem": problem, "body": "method M() {}"})
    assert isinstance(found, Submission)
    assert found.candidate.source == "method M() {}"


def test_a_line_that_is_too_long_is_skipped_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_module, "MAX_LINE_BYTES", 100)
    good = b'{"id": "g", "language": "dafny", "code": ""}\n'
    stream = io.BytesIO(good + b"x" * 1000 + b"\n" + good + b"y" * 101)
    found = list(read_lines(stream, "f"))
    assert [entry.message if isinstance(entry, Unusable) else entry.id for entry in found] == [
        "g",
        "f:2: the line is longer than 100 bytes",
        "g",
        "f:4: the line is longer than 100 bytes",
    ]


def test_paths_are_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "b.dfy").write_bytes(b"\xef\xbb\xbflemma B() {}\r\n")
    (folder / "sub" / "a.dfy").write_text("lemma A() {}")
    (folder / "c.lean").write_text("theorem c : True := trivial")
    (folder / "notes.txt").write_text("not read")
    (folder / "bad.dfy").write_bytes(b"\xff\xfe")
    lines = tmp_path / "lines.jsonl"
    good = json.dumps({"id": "g", "language": "dafny", "code": "lemma G() {}"}).encode()
    lines.write_bytes(b"\xef\xbb\xbf" + good + b"\n\nnonsense\n\xff\n" + good + b"\n")
    paths = [str(folder), str(lines), "-"]
    found = list(read_inputs(paths, stdin=io.BytesIO(good)))
    assert [f.id for f in found] == [
        str(folder / "b.dfy"),
        str(folder / "bad.dfy"),
        str(folder / "c.lean"),
        str(folder / "sub" / "a.dfy"),
        "g",
        "",
        "",
        "g",
        "g",
    ]
    kinds = [f.kind if isinstance(f, Unusable) else f.candidate.body for f in found]
    assert kinds == [
        "lemma B() {}\r\n",
        "malformed",
        "theorem c : True := trivial",
        "lemma A() {}",
        "lemma G() {}",
        "malformed",
        "malformed",
        "lemma G() {}",
        "lemma G() {}",
    ]
    assert [f.message for f in found[5:7] if isinstance(f, Unusable)] == [
        f"{lines}:3: not JSON at column 1 (Expecting value); give .dfy, .lean or JSON lines",
        f"{lines}:4: not UTF-8: invalid start byte at byte 0",
    ]
    assert count_inputs(paths[:1]) == 4
    assert count_inputs(paths[1:2]) == 5
    assert count_inputs(paths) is None


def test_an_empty_folder_and_a_missing_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = read_inputs([str(tmp_path)], stdin=io.BytesIO())
    assert isinstance(found, Unusable)
    assert found.message.startswith(f"{tmp_path}: this folder holds no .dfy or .lean ")
    with pytest.raises(UsageError, match=r"no such file or folder: [^;]*$"):
        list(read_inputs([str(tmp_path / "none.dfy")], stdin=io.BytesIO()))
    # What comes with ProverRL is named, and not judged in place of one's own.
    monkeypatch.chdir(tmp_path)
    shipped = shipped_root() / "examples"
    with pytest.raises(UsageError, match=f"examples/; what comes with ProverRL is {shipped}$"):
        list(read_inputs(["examples/"], stdin=io.BytesIO()))


def test_the_output_object() -> None:
    diagnostic = Diagnostic("error", "wrong", 3, 4, body_line=1)
    verdict = Verdict(
        Status.REJECTED,
        (diagnostic,),
        seconds=0.12345,
        toolchain="t",
        stage=Stage.WALL,
        rule="relevance",
        believed=(("axiom", 2),),
        at_limit=True,
        checks=("audit",),
    )
    submission = Submission("a", make_file_candidate("a", "lemma L() {}"))
    assert verdict_to_json(submission, verdict) == {
        "id": "a",
        "key": submission.candidate.key,
        "status": "rejected",
        "diagnostics": [
            {
                "severity": "error",
                "message": "wrong",
                "line": 3,
                "column": 4,
                "end_line": None,
                "end_column": None,
                "body_line": 1,
                "body_column": None,
            }
        ],
        "goals": [],
        "obligations": [],
        "axioms": [],
        "seconds": 0.123,
        "header_seconds": 0.0,
        "queue_seconds": 0.0,
        "toolchain": "t",
        "stage": "wall",
        "rule": "relevance",
        "believed": {"axiom": 2},
        "at_limit": True,
        "checks": ["audit"],
    }
