"""Lean benchmarks: small files of every format, and exactly what they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proverrl.benchmarks.base import Collection, read_split
from proverrl.benchmarks.lean_text import fit_proof, strip_doc
from proverrl.benchmarks.statement_rows import DEFAULT_HEADER, ROW_FORMATS
from proverrl.errors import ProblemError
from proverrl.lang.lean.answer_blanks import ask_for_code, find_answers, give_answers
from proverrl.lang.lean.audit.text import audit_lean_candidate
from proverrl.types import HOLE, Candidate, Problem
from tests.benchmark_data import read, reasons, write_files, write_rows

HEADER = "import Mathlib\n\nopen Nat\n\n"
CLAIM = "theorem two_le (n : ℕ) (h : 3 ≤ n) : 2 ≤ n"
STATEMENT = f"{CLAIM} := by\n  {HOLE}\n"


def one(collection: Collection) -> Problem:
    assert reasons(collection) == []
    (entry,) = collection.entries
    return entry.problem


@pytest.mark.parametrize(
    "ending",
    [
        " :=",
        " := by",
        " := by\n",
        " := by sorry",
        " := by\n  sorry",
        " := sorry",
        ":= by sorry\n",
        "\n:= sorry\n",
        " := by -- your proof",
        " := by\n  sorry -- done?\n",
        " := by sorry\n\n/- the end -/\n",
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_every_ending_and_header_place_becomes_one_form(
    tmp_path: Path, ending: str, inside: bool
) -> None:
    row = {"name": "two_le", "split": "valid", "informal_prefix": "/-- At least two. -/\n"}
    row["header"] = "" if inside else HEADER
    row["formal_statement"] = (HEADER if inside else "") + CLAIM + ending
    found = read(write_rows(tmp_path / "rows.jsonl", row))
    problem = one(found)
    assert found.format == "deepseek"
    assert (problem.preamble, problem.statement) == (HEADER, STATEMENT)
    assert (problem.id, problem.split, problem.informal) == ("two_le", "valid", "At least two.")
    assert audit_lean_candidate(Candidate(problem, "omega")) is None


def test_a_comment_before_the_end_swallows_nothing(tmp_path: Path) -> None:
    row = {"name": "a", "formal_statement": f"{HEADER}{CLAIM} -- why\n:= sorry"}
    problem = one(read(write_rows(tmp_path / "rows.jsonl", row)))
    assert problem.statement == f"{CLAIM} -- why\n    := by\n  {HOLE}\n"


def test_rows_without_any_header_get_the_common_one_and_say_so(tmp_path: Path) -> None:
    row = {"name": "a", "split": "test", "informal_prefix": "", "formal_statement": f"{CLAIM} :="}
    problem = one(read(write_rows(tmp_path / "rows.jsonl", row)))
    assert (problem.preamble, problem.split) == (DEFAULT_HEADER, "heldout")
    assert problem.metadata["header"] == "default"


def test_the_fields_of_each_row_format(tmp_path: Path) -> None:
    statement = f"{CLAIM} := by\n  sorry"
    rows: dict[str, dict[str, Any]] = {
        "goedel": {
            "name": "a",
            "formal_statement": "not read",
            "lean4_code": f"{HEADER}/-- Words. -/\n{statement}",
            "split": "test",
            "tags": ["x"],
        },
        "minif2f_v2": {
            "name": "a",
            "split": "valid",
            "informal statement": "Words.",
            "formal_statement": f"{CLAIM} := by",
            "header": HEADER,
            "informal_proof": "",
            "formal_proof": "",
        },
        "proofnet_verified": {
            "name": "a",
            "header": "import Mathlib",
            "helper": "open Nat",
            "informal_stmt": "Words.",
            "formal_stmt": statement,
            "textbook": "T",
        },
        "lean_rows": {"id": "a", "formal_statement": HEADER + statement, "nl_statement": "Words."},
    }
    for name, row in rows.items():
        found = read(write_rows(tmp_path / f"{name}.jsonl", row))
        problem = one(found)
        assert found.format == name
        assert (problem.preamble, problem.statement) == (HEADER, STATEMENT)
        assert (problem.id, problem.informal) == ("a", "Words.")
    assert ROW_FORMATS.keys() == {*rows, "deepseek"}


def test_gaokao_formal_is_read_with_its_english(tmp_path: Path) -> None:
    row = {
        "id": "g_0",
        "NL_Chinese": "\u8bc1\u660e",
        "NL_English": "Prove it.",
        "formal_statement": f"{HEADER}/-Prove it.-/\n{CLAIM} := by sorry",
    }
    problem = one(read(write_rows(tmp_path / "rows.jsonl", row)))
    assert (problem.id, problem.informal) == ("g_0", "Prove it.")


def test_a_proof_of_the_benchmark_is_the_reference(tmp_path: Path) -> None:
    proofs = ["  omega", "omega", "   have := h\n   omega\n", "  /- why -/\n\n  omega"]
    bodies = ["omega", "omega", " have := h\n   omega", "/- why -/\n\n  omega"]
    rows = [
        {
            "name": f"p{i}",
            "split": "valid",
            "informal_prefix": "",
            "formal_statement": f"{CLAIM} := by\n",
            "header": HEADER,
            "formal_proof": proof,
        }
        for i, proof in enumerate(proofs)
    ]
    found = read(write_rows(tmp_path / "rows.jsonl", *rows))
    assert [entry.reference for entry in found.entries] == bodies
    # Two blanks and more: the file is header, statement and proof to the letter.
    for entry, proof in zip(found.entries, proofs, strict=True):
        if proof.startswith("  "):
            source = Candidate(entry.problem, entry.reference or "").source
            assert source == f"{HEADER}{CLAIM} := by\n{proof.rstrip()}\n"


@given(st.lists(st.sampled_from(["", "a", " b", "  c", "    d"]), min_size=1, max_size=5))
def test_a_proof_keeps_its_layout(lines: list[str]) -> None:
    """All lines move together, and the first ends up two blanks from the margin or further."""
    proof = "\n".join(["x", *lines, "y"])
    body = "  " + fit_proof(proof)
    assert [line.strip() for line in body.split("\n")] == [s.strip() for s in proof.split("\n")]
    shifts = {
        (len(new) - len(new.lstrip())) - (len(old) - len(old.lstrip()))
        for new, old in zip(body.split("\n"), proof.split("\n"), strict=True)
        if old.strip()
    }
    assert shifts == {2}


def test_ids_that_repeat_are_numbered(tmp_path: Path) -> None:
    row = {"name": "a", "formal_statement": f"{HEADER}{CLAIM} := sorry"}
    found = read(write_rows(tmp_path / "rows.jsonl", row, row, {**row, "name": "b"}, row))
    assert [entry.problem.id for entry in found.entries] == ["a", "a~2", "b", "a~3"]


def test_what_is_wrong_with_a_row_is_said_with_line_and_field(tmp_path: Path) -> None:
    good = {"name": "g", "split": "test", "informal_prefix": "", "formal_statement": f"{CLAIM} :="}
    path = write_rows(
        tmp_path / "rows.jsonl",
        good,
        {**good, "name": "split", "split": "exam"},
        {**good, "name": "type", "formal_statement": 7},
        {key: value for key, value in good.items() if key != "formal_statement"} | {"name": "no"},
        {**good, "name": ""},
        {**good, "name": "open", "formal_statement": CLAIM},
        {**good, "name": "two", "formal_statement": f"{CLAIM} ∧ sorry := sorry"},
        {**good, "name": "twice", "header": HEADER, "formal_statement": f"import A\n{CLAIM} :="},
        {**good, "name": "hole", "formal_statement": f"{CLAIM} := {HOLE}"},
    )
    with path.open("a") as file:
        file.write('{"name": \n[1]\n')
    found = read(path)
    assert [entry.problem.id for entry in found.entries] == ["g"]
    shown = {(e.where.rpartition(", ")[2], e.id): e.reason for e in found.refused}
    expected = {
        ("line 2", "split"): "field 'split' is 'exam'; use one of train, valid",
        ("line 3", "type"): "field 'formal_statement' is a int; make it a string",
        ("line 4", "no"): "field 'formal_statement' is missing",
        ("line 5", "line 5"): "field 'name' is missing or empty",
        ("line 6", "open"): "the statement must end in ':='",
        ("line 7", "two"): "2 sorries (lines 1, 1)",
        ("line 8", "twice"): "both the header and the text hold imports",
        ("line 9", "hole"): "holds the marker",
        ("line 10", ""): "not JSON at column",
        ("line 11", ""): "a list, not a JSON object",
    }
    assert shown.keys() == expected.keys()
    for key, words in expected.items():
        assert words in shown[key], key


def test_splits() -> None:
    assert [read_split(s) for s in ("valid", "test", "Validation", None)] == [
        *("valid", "heldout", "valid", "heldout")
    ]
    assert strip_doc("/-- a -/") == strip_doc("/- a -/") == strip_doc(" a\n") == "a"


# Folders ------------------------------------------------------------------------------------------


def test_a_folder_of_minif2f(tmp_path: Path) -> None:
    text = f"{HEADER}{CLAIM} := by sorry"
    files = {"MiniF2F/Valid/two.lean": text, "MiniF2F/Test/three.lean": text, "README.md": "x"}
    found = read(write_files(tmp_path, files))
    assert found.format == "minif2f_lean4"
    assert [(e.problem.id, e.problem.split) for e in found.entries] == [
        ("three", "heldout"),
        ("two", "valid"),
    ]
    assert {e.problem.statement for e in found.entries} == {STATEMENT}


PUTNAM = """\
import Mathlib

open Nat

noncomputable abbrev putnam_9_a1_solution : ℕ → ℕ := sorry
-- fun k =>
--   k + 1
/--
Find the least number above $n$.
-/
theorem putnam_9_a1
(n : ℕ)
(hn : 0 < n) -- a remark
: IsLeast {m | n < m} (putnam_9_a1_solution n) :=
sorry
"""


def test_putnam_with_the_answer_given(tmp_path: Path) -> None:
    problem = one(read(write_files(tmp_path, {"putnam_9_a1.lean": PUTNAM})))
    assert problem.preamble == (
        "import Mathlib\n\nopen Nat\n\nnoncomputable abbrev putnam_9_a1_solution : ℕ → ℕ :=\n"
        "  fun k =>\n    k + 1\n\n"
    )
    assert problem.statement == (
        "theorem putnam_9_a1\n(n : ℕ)\n(hn : 0 < n) -- a remark\n"
        ": IsLeast {m | n < m} (putnam_9_a1_solution n) := by\n" + f"  {HOLE}\n"
    )
    assert problem.informal == "Find the least number above $n$."
    assert problem.metadata == {"answer": "given"}


def test_code_that_cannot_be_asked_for_and_answers_that_are_missing(tmp_path: Path) -> None:
    used = PUTNAM.replace("/--\n", "def f := putnam_9_a1_solution 3\n\n/--\n")
    variable = PUTNAM.replace("open Nat", "variable (k : ℕ)")
    implicit = PUTNAM.replace("solution : ℕ → ℕ", "solution {α : Type} : ℕ → ℕ")
    for text, said in (
        (used, "used before"),
        (variable, "'variable' line"),
        (implicit, "parameters"),
    ):
        with pytest.raises(ProblemError, match=said):
            ask_for_code(text)
    bare = PUTNAM.replace("-- fun k =>\n--   k + 1\n", "")
    found = read(write_files(tmp_path, {"putnam_9_a1.lean": bare}))
    assert "no official answer stands beside its blank" in found.refused[0].reason


def test_parameters_and_several_answers() -> None:
    text = (
        "abbrev a (n : ℕ) (m : ℕ) : ℕ := sorry\n-- n\nabbrev b : Prop := sorry\n/- True -/\n"
        "def c : ℕ → ℕ\n  | 0 => 1\n  | n + 1 => n\n\n"
        "theorem t : a 1 2 = 1 ↔ b := sorry\n"
    )
    holes = find_answers(text)
    assert [(h.name, h.answer, h.type) for h in holes] == [("a", "n", "ℕ"), ("b", "True", "Prop")]
    given_text = give_answers(text, holes)
    assert "abbrev b : Prop :=\n  True\n" in given_text
    assert given_text.count("sorry") == 1
    assert find_answers("def f : ℕ := sorry") == ()
    with pytest.raises(ProblemError, match="no type"):
        find_answers("abbrev a := sorry\ntheorem t : a = 1 := sorry")


def test_combibench_takes_the_answer_from_the_solved_file(tmp_path: Path) -> None:
    asked = "import Mathlib\n\nabbrev q_solution : ℕ := sorry\n\ntheorem q : 1 + 1 = q_solution := "
    solved = "import Mathlib\n\ntheorem q : 1 + 1 = ((2) : ℕ) := by sorry\n"
    files = {
        "CombiBench/q.lean": asked + "by sorry\n",
        "CombiBench/r.lean": (asked + "by sorry\n").replace("q", "r"),
        "CombiBench/with_solution/q_sol.lean": solved,
    }
    found = read(write_files(tmp_path, files))
    assert found.format == "combibench"
    (entry,) = found.entries
    assert entry.problem.statement == f"theorem q : 1 + 1 = ((2) : ℕ) := by\n  {HOLE}\n"
    assert [e.id for e in found.refused] == ["r"]


VERINA = """\
-- !benchmark @start import type=solution

-- !benchmark @end import
@[reducible]
def twice_precond (n : Int) : Prop :=
  -- !benchmark @start precond
  True
  -- !benchmark @end precond

def twice (n : Int) (h_precond : twice_precond n) : Int :=
  -- !benchmark @start code
  n + n
  -- !benchmark @end code

@[reducible]
def twice_postcond (n : Int) (result : Int) (h_precond : twice_precond n) : Prop :=
  -- !benchmark @start postcond
  result = 2 * n
  -- !benchmark @end postcond

-- !benchmark @start proof_aux
-- !benchmark @end proof_aux

theorem twice_spec_satisfied (n : Int) (h_precond : twice_precond n) :
    twice_postcond n (twice n h_precond) h_precond := by
  -- !benchmark @start proof
  sorry
  -- !benchmark @end proof
"""


def test_verina_is_its_proof_task(tmp_path: Path) -> None:
    files = {"t1/task.lean": VERINA, "t1/description.txt": "Double it.\n"}
    files["t2/task.lean"] = VERINA.replace("  n + n\n", "  sorry\n")
    files["t3/task.lean"] = VERINA.replace("  sorry\n", "  simp [twice]\n  omega\n")
    files["t4/task.lean"] = VERINA.replace("  sorry\n", "  have : n = n := sorry\n  omega\n")
    files["t5/task.lean"] = "theorem t : True := by sorry\n"
    found = read(write_files(tmp_path, files))
    assert found.format == "verina"
    first, third = found.entries
    assert first.problem.statement == (
        "theorem twice_spec_satisfied (n : Int) (h_precond : twice_precond n) :\n"
        f"    twice_postcond n (twice n h_precond) h_precond := by\n  {HOLE}\n"
    )
    assert "!benchmark" not in first.problem.preamble
    assert "import" not in first.problem.preamble
    assert "  n + n\n" in first.problem.preamble
    assert (first.problem.informal, first.reference) == ("Double it.", None)
    assert third.reference == "simp [twice]\n  omega"
    assert third.problem.statement == first.problem.statement
    assert [(e.id, e.reason.split(":")[0]) for e in found.refused] == [
        ("t2", "block 'code' is left open"),
        ("t4", "block 'proof' holds a part of a proof and 'sorry'"),
        ("t5", "block 'code' is missing, or its '-- !benchmark' marks are"),
    ]


def test_verina_asks_for_code_and_proof(tmp_path: Path) -> None:
    helped = VERINA.replace("import type=solution", "solution_aux").replace("@end import", (
        "@end solution_aux"
    ))  # fmt: skip
    helped = helped.replace("@start solution_aux\n", "@start solution_aux\ndef half := 1\n")
    files = {"t1/task.lean": VERINA, "t1/description.txt": "Double it.\n", "t2/task.lean": helped}
    files["t3/task.lean"] = helped.replace("  result = 2 * n\n", "  half * result = 2 * n\n")
    files["t4/task.lean"] = VERINA.replace("  result = 2 * n\n", "  sorry\n")
    files["t5/task.lean"] = VERINA.replace("@[reducible]\ndef twice_postcond", (
        "noncomputable section\n@[reducible]\ndef twice_postcond"
    ))  # fmt: skip
    found = read(write_files(tmp_path, files), format_name="verina_code")
    first, second, third = (entry.problem for entry in found.entries)
    assert first.statement == (
        "def twice_spec_satisfied :\n"
        "    { twice : (∀ (n : Int) (h_precond : twice_precond n), Int) //\n"
        "      ∀ (n : Int) (h_precond : twice_precond n),\n"
        "      (twice_postcond n (twice n h_precond) h_precond\n      ) } :=\n"
        f"  {HOLE}\n"
    )
    assert (first.kind, first.informal, found.entries[0].reference) == ("term", "Double it.", None)
    # Neither the code nor what only helps it; what a condition uses is there.
    assert "n + n" not in first.preamble
    assert second.preamble.split() == first.preamble.split()
    assert "def half := 1" in third.preamble
    assert [(e.id, e.reason.split(":")[0]) for e in found.refused] == [
        ("t4", "block 'postcond' is left open"),
        ("t5", "line 6"),
    ]
    assert "noncomputable section" in found.refused[1].reason


CLEVER = """\
import Imports.AllImports

-- start_def problem_details
/-- function_signature: "def same(n: int)" -/
-- end_def problem_details

-- start_def problem_spec
def problem_spec (impl : Int → Int) (n : Int) := impl n = n
-- end_def problem_spec

-- start_def generated_spec
def generated_spec (impl : Int → Int) (n : Int) : Prop :=
-- end_def generated_spec
--start_def generated_spec_body
sorry
--end_def generated_spec_body

-- start_def implementation_signature
def implementation (n : Int) : Int :=
-- end_def implementation_signature
-- start_def implementation
n
-- end_def implementation

-- start_def correctness_definition
theorem correctness (n : Int) : problem_spec implementation n :=
-- end_def correctness_definition
-- start_def correctness_proof
by
sorry
-- end_def correctness_proof
"""


def test_clever_where_an_implementation_is_given(tmp_path: Path) -> None:
    proved = CLEVER.replace("by\nsorry\n", "by\nunfold problem_spec\nrfl\n")
    left_open = CLEVER.replace("\nn\n", "\nsorry\n")
    files = {"problem_1.lean": CLEVER, "problem_2.lean": proved, "problem_3.lean": left_open}
    found = read(write_files(tmp_path, files))
    assert found.format == "clever"
    first, second = found.entries
    assert first.problem.preamble == (
        "import Imports.AllImports\n\n"
        "def problem_spec (impl : Int → Int) (n : Int) := impl n = n\n\n"
        "def implementation (n : Int) : Int :=\nn\n\n"
    )
    assert first.problem.statement == (
        f"theorem correctness (n : Int) : problem_spec implementation n := by\n  {HOLE}\n"
    )
    assert first.problem.informal == 'function_signature: "def same(n: int)"'
    assert (first.reference, second.reference) == (None, "unfold problem_spec\n  rfl")
    assert "this asks for code" in found.refused[0].reason


def test_clever_asks_for_an_implementation_and_its_proof(tmp_path: Path) -> None:
    # Its own parameter may have the name of what is asked for; another use may not.
    named = CLEVER.replace("(impl : Int → Int) (n : Int) := impl n = n", (
        "(implementation : Int → Int) (n : Int) := implementation n = n"
    ))  # fmt: skip
    used = CLEVER.replace(":= impl n = n", ":= implementation n = n")
    ascribed = CLEVER.replace("(n : Int) := impl n = n", (
        "(n : Int) (h : (implementation n : Int) = n) := impl n = n"
    ))  # fmt: skip
    files = {"p1.lean": CLEVER, "p2.lean": named, "p3.lean": used, "p4.lean": ascribed}
    found = read(write_files(tmp_path, files), format_name="clever_code")
    statement = (
        "def correctness :\n    { implementation : (∀ (n : Int), Int) //\n      ∀ (n : Int),\n"
        f"      (problem_spec implementation n\n      ) }} :=\n  {HOLE}\n"
    )
    assert [entry.problem.statement for entry in found.entries] == [statement, statement]
    assert "def implementation" not in found.entries[0].problem.preamble
    assert [entry.id for entry in found.refused] == ["p3", "p4"]
    for entry in found.refused:
        assert "implementation is used before the statement" in entry.reason
    left_open = CLEVER.replace("\nn\n", "\nsorry\n")
    again = read(write_files(tmp_path / "open", {"p1.lean": left_open}), format_name="clever_code")
    assert again.entries[0].problem.statement == statement
