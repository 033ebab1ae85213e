"""Holes in Lean files: where they are, what is tried, and what counts as filled."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.jobs.annotate import open_annotating
from proverrl.jobs.hint_files import Annotated, HintBudget, HintSource
from proverrl.lang.lean.search.holes import FILLING
from proverrl.problems.inputs import Submission, read_inputs
from proverrl.types import Candidate, Diagnostic, Stage, Status, Verdict
from tests.fake_verifier import FakeVerifier
from tests.lang.lean.test_lean_real import find_toolchain

TEXT = """def size : List α → Nat
  | [] => 0
  | _ :: t => size t + 1

theorem two : 1 + 1 = 2 := sorry

theorem size_append (s t : List α) : size (s ++ t) = size s + size t := by
  sorry

namespace Pairs
theorem both (p q : Prop) (hp : p) (hq : q) : p ∧ q := ⟨sorry, by sorry⟩
end Pairs

theorem steps (n : Nat) : n + 0 = n := by
  cases n with
  | zero => sorry
  | succ m => admit
"""
_TRIED = re.compile(r"\(show \(_ : Prop\); (.*?); done\)")


def test_where_holes_are_and_what_belongs_there() -> None:
    found = [(h.line, h.column, h.holder, h.is_term) for h in FILLING.find_holes(TEXT)]
    assert found == [
        (5, 27, "two", True),
        (8, 2, "size_append", False),
        (11, 56, "Pairs.both", True),
        (11, 66, "Pairs.both", False),
        (16, 12, "steps", False),
        (17, 14, "steps", False),
    ]
    assert FILLING.find_holes('-- sorry\n/- sorry -/ theorem t : "sorry" = "sorry" := rfl') == []


@pytest.mark.parametrize(
    "text",
    [
        # In what is stated, or set by default, nothing may fail, and all may change.
        "structure S where\n  n : Nat\n  big : n = 7 := by sorry",
        "theorem t (n : Nat) (h : n = 7 := by sorry) : n = 7 := h",
        "theorem t : (sorry : Prop) := trivial",
        'theorem t : True := trivial\nnotation "TODO" => (sorry : False)',
        "#check (sorry : True)",
        # What is used of the section's variables becomes a part of a definition.
        "variable (h : 1 = 2)\ndef f : {n : Nat // n = 2} := ⟨1, sorry⟩",
        # A failure chooses the value, or is not told.
        "def y : Nat := by first | exact sorry | exact 5",
        "theorem t : True := by\n  first | sorry | trivial",
        "theorem t : True := by\n  try sorry\n  trivial",
        # Lean says of one of them what fails in both.
        "mutual\ntheorem a : True := by sorry\ntheorem b : True := by sorry\nend",
    ],
)
def test_holes_that_are_left_alone(text: str) -> None:
    assert FILLING.find_holes(f"{text}\n") == []


def test_what_is_tried_speaks_of_the_file_itself() -> None:
    holes = FILLING.find_holes(TEXT)
    asked = FILLING.suggest(TEXT, holes[1], {"two"})
    assert asked[:4] == ["rfl", "trivial", "assumption", "simp"]
    assert "simp_all [size]" in asked
    assert "induction s <;> simp_all [size]" in asked
    assert not any("two" in text or "both" in text for text in asked)
    assert "induction t <;> simp_all [size, two]" in FILLING.suggest(TEXT, holes[1], ())
    assert len(asked) == len(set(asked))


def test_a_filling_is_written_for_its_place() -> None:
    holes = FILLING.find_holes(TEXT)
    texts = ["rfl", "induction s <;> simp", "assumption", "assumption", "rfl", "simp"]
    lines = FILLING.fill(TEXT, holes, texts).split("\n")
    assert lines[4] == "theorem two : 1 + 1 = 2 := by rfl"
    assert lines[7] == "  (induction s <;> simp)"
    assert lines[10].endswith(":= ⟨(by assumption), by assumption⟩")
    assert lines[15:17] == ["  | zero => rfl", "  | succ m => simp"]
    tried = FILLING.try_out(TEXT, holes[:1], ["rfl"])
    assert "2 := (by · (show (_ : Prop); rfl; done))\n" in tried


def test_errors_belong_to_the_filling_at_their_place() -> None:
    holes = FILLING.find_holes(TEXT)
    texts = ["rfl"] * 6
    tried = FILLING.try_out(TEXT, holes, texts).split("\n")
    second = tried[10].rindex("(show")
    errors = (
        Diagnostic("error", "unsolved goals", 8, 5),
        Diagnostic("error", "<input>:1:1: unknown tactic", 11, second + 3),
        Diagnostic("error", "of something else", 11, second - 2),
        Diagnostic("warning", "unused", 5, 30),
    )
    verdict = Verdict(Status.REJECTED, errors, stage=Stage.PROVER)
    failures = FILLING.list_failures(TEXT, holes, texts, verdict)
    assert failures == [None, "failed", None, "unreadable", None, None]
    assert FILLING.find_holder(TEXT, 11) == ("Pairs.both", 10 + 1)
    # Behind the last of fifty errors nothing is known.
    many = Verdict(Status.REJECTED, errors[:1] * 50, stage=Stage.PROVER)
    assert FILLING.list_failures(TEXT, holes, texts, many) == [None, "failed", *["failed"] * 4]
    few = Verdict(Status.REJECTED, errors[:1] + errors[3:] * 49, stage=Stage.PROVER)
    assert FILLING.list_failures(TEXT, holes, texts, few) == [None, "failed", *[None] * 4]


def fill(
    path: Path, text: str, judge: Callable[[Candidate], Verdict], *, calls: int = 64
) -> Annotated:
    path.write_text(text)
    (entry,) = read_inputs([str(path)], BytesIO())
    assert isinstance(entry, Submission)
    budget = HintBudget(calls=calls)
    return asyncio.run(open_annotating(HintSource(entry), FakeVerifier(judge), budget).run())


def judge_by(right: Mapping[int, str], candidate: Candidate, *, known: str = "") -> Verdict:
    """Only these fillings prove, by their lines; of a block nothing is said behind what fails."""
    errors, hidden = [], False
    for number, line in enumerate(candidate.body.split("\n"), start=1):
        hidden = hidden and line.startswith("  ")
        for tried in _TRIED.finditer(line):
            if known and tried[1].split()[0] not in known:
                errors.append(Diagnostic("error", "unknown tactic", number, tried.start()))
            elif tried[1] != right.get(number) and not hidden:
                errors.append(Diagnostic("error", "it fails", number, tried.start()))
                hidden = True
    is_open = "sorry" in candidate.body or "admit" in candidate.body
    status = Status.INCOMPLETE if is_open else Status.PROVED
    status = Status.REJECTED if errors else status
    return Verdict(status, tuple(errors), stage=Stage.PROVER, checks=("judged",))


BLOCK = """theorem t (p : Prop) (h : p) : p ∧ p := by
  have a : p := by sorry
  have b : p := by sorry
  exact ⟨a, b⟩

theorem u : 1 = 1 := by
  sorry
"""


def test_a_hole_that_was_not_reached_is_not_filled(tmp_path: Path) -> None:
    right = {2: "assumption", 3: "simp", 7: "rfl"}
    found = fill(tmp_path / "a.lean", BLOCK, lambda c: judge_by(right, c))
    assert (found.status, found.solved) == ("solved", {"t": 1, "u": 6})
    assert [(h.line, h.column, h.text) for h in found.hints] == [
        (2, 20, "assumption"),
        (3, 20, "simp"),
        (7, 3, "rfl"),
    ]
    parts = BLOCK.split("sorry")
    assert found.text == f"{parts[0]}assumption{parts[1]}simp{parts[2]}rfl{parts[3]}"


def test_what_is_left_stays_as_it_was(tmp_path: Path) -> None:
    found = fill(tmp_path / "a.lean", BLOCK, lambda c: judge_by({2: "assumption", 7: "rfl"}, c))
    assert (found.status, found.solved, found.left) == ("partly", {"u": 6}, {"t": 1})
    assert found.text == BLOCK.replace("sorry", "assumption", 1).replace("  sorry\n", "  rfl\n")
    assert {h.text for h in found.tried if h.fate == "does not hold"} >= {"simp", "omega"}


def test_words_that_a_tool_does_not_know_are_asked_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def judge(candidate: Candidate) -> Verdict:
        asked.extend(tried.split()[0] for tried in _TRIED.findall(candidate.body))
        return judge_by({7: "grind"}, candidate, known="fail rfl simp grind")

    text = "\n" * 5 + BLOCK[BLOCK.index("theorem u") :]
    found = fill(tmp_path / "a.lean", text, judge)
    assert (found.status, found.hints[0].text) == ("solved", "grind")
    assert asked.count("omega") == asked.count("decide") == 1


def test_the_limits_are_told(tmp_path: Path) -> None:
    found = fill(tmp_path / "a.lean", BLOCK, lambda c: judge_by({}, c), calls=3)
    assert (found.status, found.text, found.left) == ("open", BLOCK, {"t": 1, "u": 6})
    assert found.message == "the calls are used up: raise --calls"
    assert found.calls == 5


def test_what_is_believed_in_pieces_only_is_not_called_solved(tmp_path: Path) -> None:
    def judge(candidate: Candidate) -> Verdict:
        if _TRIED.search(candidate.body) or "sorry" in candidate.body:
            return judge_by({2: "assumption", 3: "simp", 7: "rfl"}, candidate)
        error = Diagnostic("error", "the kernel says no", 1, 0)
        return Verdict(Status.REJECTED, (error,), stage=Stage.PROVER)

    found = fill(tmp_path / "a.lean", BLOCK, judge)
    # What else was filled stays.
    assert (found.status, found.solved, found.left) == ("partly", {"u": 6}, {"t": 1})
    assert found.text == BLOCK.replace("  sorry\n", "  rfl\n")
    assert found.message == "rejected: line 1: the kernel says no"


def test_a_file_without_holes_or_that_is_refused(tmp_path: Path) -> None:
    whole = BLOCK.replace("sorry", "simp")
    proved = Verdict(Status.PROVED, stage=Stage.PROVER, checks=("judged",))
    found = fill(tmp_path / "a.lean", whole, lambda _: proved)
    assert (found.status, found.text, found.calls) == ("verifies", whole, 1)
    error = Diagnostic("error", "commands: '#eval' starts a command", 1, 0)
    refused = Verdict(Status.UNSOUND, (error,), stage=Stage.AUDIT)
    for text in (whole, BLOCK):
        found = fill(tmp_path / "a.lean", text, lambda _: refused)
        assert (found.status, found.text) == ("unusable", text)
        assert found.message == "unsound: line 1: commands: '#eval' starts a command"


REAL = """def double (n : Nat) : Nat := n + n

theorem two : double 2 = 4 := sorry

theorem both (p q : Prop) (hp : p) (hq : q) : p ∧ q := by
  constructor
  · sorry
  · sorry

def value (n : Nat) : Nat := sorry

theorem wrong (n : Nat) : n < n := by
  sorry

theorem alternatives (n : Nat) : n + 0 = n := by
  cases n with
  | zero => sorry
  | succ m => sorry

theorem goals (p q : Prop) (hp : p) (hq : q) : p ∧ q := by
  constructor
  sorry
  sorry
"""


@pytest.mark.lean
def test_holes_of_a_real_lean(tmp_path: Path) -> None:
    find_toolchain("lean-server")
    path = tmp_path / "a.lean"
    path.write_text(REAL)
    done = CliRunner().invoke(cli, ["annotate", "--write", "--json", str(path)])
    assert done.exit_code == 1, done.output
    row = json.loads(done.stdout)
    assert (row["status"], row["left"]) == ("partly", {"value": 10, "wrong": 12})
    assert row["solved"] == {"two": 3, "both": 5, "alternatives": 15, "goals": 20}
    text = path.read_text()
    # A value is no proof, and what is false has none.
    assert text.count("sorry") == 2
    path.write_text(text.replace("sorry", "n", 1).replace("n < n", "n < n + 1"))
    done = CliRunner().invoke(cli, ["annotate", "--write", str(path)])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(cli, ["verify", str(path)])
    assert json.loads(done.stdout)["status"] == "proved"


def test_a_call_without_a_verdict_is_asked_in_halves(tmp_path: Path) -> None:
    def judge(candidate: Candidate) -> Verdict:
        tried = _TRIED.findall(candidate.body)
        if "decide" in tried and "have a : p := by sorry" not in candidate.body:
            return Verdict(Status.TIMEOUT, cause="deadline")
        return judge_by({7: "decide"}, candidate)

    found = fill(tmp_path / "a.lean", BLOCK, judge)
    assert (found.status, found.solved, found.left) == ("partly", {"u": 6}, {"t": 1})


def test_a_hole_that_takes_a_term_is_turned(tmp_path: Path) -> None:
    text = "theorem t : True := by\n  exact id\n    sorry\n"

    def judge(candidate: Candidate) -> Verdict:
        line = candidate.body.split("\n")[2]
        errors = [Diagnostic("error", "unexpected token '('; expected term", 3, 6)]
        if "sorry" in line:
            return Verdict(Status.INCOMPLETE, stage=Stage.PROVER)
        if "show" in line and "(by" not in line:
            return Verdict(Status.REJECTED, tuple(errors), stage=Stage.PROVER)
        return Verdict(Status.PROVED, stage=Stage.PROVER, checks=("judged",))

    found = fill(tmp_path / "a.lean", text, judge)
    assert (found.status, found.text) == ("solved", text.replace("sorry", "(by rfl)"))


@pytest.mark.lean
def test_what_fails_already_is_left_alone(tmp_path: Path) -> None:
    find_toolchain("lean-server")
    path = tmp_path / "a.lean"
    text = (
        "def A : Nat := nosuch\n\ntheorem B : A = 3 := by\n  sorry\n\n"
        "theorem k (a b : Nat) : a = b := by\n  rw [nosuch]\n  sorry\n\n"
        "theorem c : True := by\n  sorry\n"
    )
    path.write_text(text)
    done = CliRunner().invoke(cli, ["annotate", "--write", "--json", str(path)])
    assert done.exit_code == 1, done.output
    row = json.loads(done.stdout)
    # Lean tells no failure of what speaks of A.
    assert (row["solved"], row["left"]) == ({"c": 10}, {"A": 1, "B": 3, "k": 6})
    before, after = text.split("theorem c")
    assert path.read_text() == f"{before}theorem c{after.replace('sorry', 'trivial')}"


@pytest.mark.lean
def test_more_holes_than_words_are_counted(tmp_path: Path) -> None:
    find_toolchain("lean-server")
    path = tmp_path / "a.lean"
    path.write_text("".join(f"theorem t{n} : {n} = {n} := by sorry\n" for n in range(60)))
    done = CliRunner().invoke(cli, ["annotate", "--write", str(path)])
    assert done.exit_code == 0, done.output
    assert path.read_text().count("by rfl") == 60
