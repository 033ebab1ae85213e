"""Training problems in a benchmark: as they are, renamed, nearly."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.cli.main import cli
from proverrl.errors import ProblemError
from proverrl.problems.contamination import (
    RUN_LENGTH,
    Contamination,
    MatchKind,
    Statement,
    check_problems,
    describe_overlap,
    find_contamination,
    read_statements,
    take_statements,
)
from proverrl.problems.load import load_problems
from proverrl.types import HOLE
from tests import ROOT

CURRICULUM = ROOT / "dafny" / "curriculum"
MINIF2F = ROOT.parent / "shared" / "data" / "minif2f_deepseek" / "minif2f.jsonl"

DAFNY = f"""method Sum(n: nat) returns (r: int)
  ensures r == 3 * n
{{
  r := 0; var i := 0;
  while i < n {HOLE} {{ r := r + 3; i := i + 1; }}
}}"""
LEAN = (
    "theorem mathd_algebra_10 (x y : ℝ) (h₀ : x + y = 7) (h₁ : Nat.Prime 3) :\n"
    "    ∃ z, z = x - y := by\n  sorry"
)


def compare(one: str, other: str, language: str = "dafny") -> Contamination:
    return find_contamination([Statement("b", language, one)], [Statement("t", language, other)])


@pytest.mark.parametrize(
    ("one", "other", "language", "kind"),
    [
        (DAFNY, DAFNY.replace("  ", "\n").replace("0;", "0; /* start */"), "dafny", "same"),
        (DAFNY, DAFNY.replace("Sum", "Triple"), "dafny", "same"),
        (DAFNY, DAFNY.replace("i ", "k "), "dafny", "renamed"),
        (DAFNY, DAFNY.replace("3", "4"), "dafny", None),
        (LEAN, LEAN.replace("mathd_algebra_10", "other").replace(" := by\n  sorry", " :="), "lean",
         "same"),
        (LEAN, "import Mathlib\nopen Real\n\n/-- words -/\n" + LEAN, "lean", "same"),
        (LEAN, LEAN.replace("h₀", "first").replace("x", "a").replace("z", "w"), "lean", "renamed"),
        (LEAN, LEAN.replace("Prime", "Odd"), "lean", None),
    ],
)  # fmt: skip
def test_the_same_and_renamed(one: str, other: str, language: str, kind: MatchKind | None) -> None:
    found = compare(one, other, language)
    if kind is None:
        assert [match.kind for match in found.matches] in ([], ["near"])
    else:
        (match,) = found.matches
        assert (match.kind, match.share) == (kind, 1.0)
        assert (match.benchmark_id, match.training_id, found.touched) == ("b", "t", 1)


CLEVER = (
    "import Imports.AllImports\n\nnoncomputable section\n"
    "def problem_spec (impl : List Int → Bool) (ys : List Int) :=\n  impl ys = true ↔ {says}\n"
)
CORRECT = (
    "theorem correctness (xs : List Int) : problem_spec implementation xs := by\n  /*{HOLE}*/\n"
)
SORTED = CLEVER.format(says="∀ i j, i < j → j < ys.length → ys[i]! ≤ ys[j]!")
SUMS = CLEVER.format(says="∃ k, ys.sum = 2 * k ∧ ∀ x ∈ ys, x % 3 = k % 3")


@pytest.mark.parametrize(
    ("preamble", "kind"),
    [
        (SORTED, "same"),
        ("import Mathlib\nopen List\n" + SORTED.partition("section\n")[2], "same"),
        (SORTED.replace("ys", "list"), "renamed"),
        (SUMS, None),
        ("", None),
    ],
)
def test_what_a_statement_is_about_tells_it_apart(
    preamble: str, kind: MatchKind | None, tmp_path: Path
) -> None:
    """All statements of CLEVER read alike; the definitions before them differ."""
    ours = {"id": "b", "language": "lean", "kind": "tactics", "statement": CORRECT}
    path, training = tmp_path / "ours.jsonl", tmp_path / "training.jsonl"
    path.write_text(json.dumps(ours | {"preamble": SORTED}))
    for row in (
        ours | {"preamble": preamble},
        {"formal_statement": CORRECT.replace("/*{HOLE}*/", "sorry"), "header": preamble},
        {"formal_statement": preamble + CORRECT.replace("/*{HOLE}*/", "sorry")},
    ):
        training.write_text(json.dumps(row))
        figures = check_problems(load_problems(path), training)
        assert [name for name in ("same", "renamed", "near") if figures[name]] == (
            [kind] if kind else []
        )


def test_definitions_that_many_share_make_nothing_near() -> None:
    statements = take_statements(load_problems(ROOT / "lean" / "benchmark.jsonl"))
    shared = Counter(statement.before for statement in statements).most_common(1)
    assert (len(statements), shared[0][1]) == (144, 22)
    found = set()
    # Any two places differ in one bit: each statement meets all others but itself.
    for bit in range(8):
        halves: tuple[list[Statement], list[Statement]] = ([], [])
        for place, statement in enumerate(statements):
            halves[place >> bit & 1].append(statement)
        for one, other in (halves, halves[::-1]):
            matches = find_contamination(one, other).matches
            found |= {(match.benchmark_id, match.kind) for match in matches}
    assert Counter(kind for _, kind in found) == {"near": 5}


def test_languages_never_match() -> None:
    found = find_contamination([Statement("b", "dafny", DAFNY)], [Statement("t", "lean", DAFNY)])
    assert found == Contamination(1, 1, 0, ())


def words(first: int, last: int) -> str:
    """Tokens that are not names, so that nothing is renamed."""
    return " ".join(str(number) for number in range(first, last))


def test_runs_by_hand() -> None:
    # 24 tokens hold 12 runs of 13. The other text shares tokens 6 to 23, which hold 6 of them.
    assert RUN_LENGTH == 13
    (match,) = compare(words(0, 24), words(6, 24)).matches
    assert (match.kind, match.share) == ("near", 0.5)
    # From 7 on they share 5 of 12: touched, not near.
    assert compare(words(0, 24), words(7, 24)) == Contamination(1, 1, 1, ())
    # 12 tokens in common are no run.
    assert compare(words(0, 24), words(12, 24)) == Contamination(1, 1, 0, ())
    # Shorter than a run: only as a whole.
    assert compare(words(0, 5), words(0, 6)) == Contamination(1, 1, 0, ())
    assert compare(words(0, 5), words(0, 5)).matches[0].kind == "same"


def test_names_count_from_the_start_of_a_run() -> None:
    # The same method behind another declaration, so that its names have other numbers.
    found = compare(DAFNY, "function Before(zz: int): int { zz + 1 }\n" + DAFNY)
    assert found.matches[0].kind == "near"
    assert found.matches[0].share == 1.0


def test_the_worst_match_of_a_problem_is_told() -> None:
    training = [
        Statement("near", "dafny", words(6, 24)),
        Statement("same", "dafny", words(0, 24)),
        Statement("nearer", "dafny", words(5, 24)),
    ]
    found = find_contamination([Statement("b", "dafny", words(0, 24))], training)
    assert [(m.kind, m.training_id) for m in found.matches] == [("same", "same")]
    assert found.to_json(pairs=False) == {
        "num_benchmark": 1, "num_training": 3, "same": 1, "renamed": 0, "near": 0, "touched": 1
    }  # fmt: skip


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=30), min_size=1, max_size=5),
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=30), min_size=1, max_size=5),
)
@settings(max_examples=40, deadline=None)
def test_shares_equal_brute_force(benchmark: list[list[int]], training: list[list[int]]) -> None:
    def make(rows: list[list[int]]) -> list[Statement]:
        return [
            Statement(str(i), "dafny", " ".join(str(word) for word in row))
            for i, row in enumerate(rows)
        ]

    def runs(row: list[int]) -> set[tuple[int, ...]]:
        return {tuple(row[i : i + 13]) for i in range(len(row) - 12)}

    found = {m.benchmark_id: m for m in find_contamination(make(benchmark), make(training)).matches}
    for number, row in enumerate(benchmark):
        mine = runs(row)
        shares = [len(mine & runs(other)) / len(mine) for other in training if mine]
        match = found.get(str(number))
        if row in training:
            assert match is not None
            assert match.kind == "same"
        elif max(shares, default=0.0) >= 0.5:
            assert match is not None
            assert (match.kind, match.share) == ("near", round(max(shares), 4))
        else:
            assert match is None


def test_files_of_other_formats(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"name": "m", "formal_statement": LEAN},
        {"id": "d", "hints_removed": DAFNY, "ground_truth": "x"},
        {"problem_id": "c", "code": DAFNY},
        {"id": "p", "language": "lean", "statement": LEAN},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    found = [(s.id, s.language) for s in read_statements(path)]
    assert found == [("m", "lean"), ("d", "dafny"), ("c", "dafny"), ("p", "lean")]
    path.write_text('{"id": "x"}\n')
    with pytest.raises(ProblemError, match="line 1: no text in any of statement, formal"):
        list(read_statements(path))
    with pytest.raises(ProblemError, match="check the path"):
        list(read_statements(tmp_path / "none.jsonl"))


@pytest.mark.slow
def test_the_curriculum_holds_no_copy_and_many_of_a_kind() -> None:
    heldout = load_problems(CURRICULUM / "heldout.jsonl")
    figures = check_problems(heldout, CURRICULUM / "train.jsonl")
    # Families are shared between the splits; what docs/results.md says of it.
    assert figures == {
        "training": str(CURRICULUM / "train.jsonl"), "num_benchmark": 200, "num_training": 2400,
        "same": 0, "renamed": 0, "near": 90, "touched": 200,
    }  # fmt: skip
    assert "of 200 problems 0 are in" in describe_overlap(figures)
    assert describe_overlap(figures | {"near": 0}) == describe_overlap(None) == ""


@pytest.mark.skipif(not MINIF2F.exists(), reason="the data are not here")
def test_real_lean_statements_are_found_in_themselves() -> None:
    statements = list(read_statements(MINIF2F))
    found = find_contamination(statements, statements)
    assert found.count("same") == found.touched == len(statements) == 488


def test_a_benchmark_may_be_any_lines_with_a_statement(tmp_path: Path) -> None:
    """As the training side; no proof has to be possible of them."""
    row = {"id": "c", "preamble": "def f (n : Nat) := n + 1", "statement": "theorem a : f 1 = 2"}
    train, asked = tmp_path / "t.jsonl", tmp_path / "b.jsonl"
    train.write_text(json.dumps(row | {"id": "d"}) + "\n")
    asked.write_text(json.dumps(row) + "\n")
    command = ["contamination", "--train", str(train), "--benchmark"]
    done = CliRunner().invoke(cli, [*command, str(asked)])
    assert done.exit_code == 1
    assert "1 problems against 1 for training: 1 the same" in done.output
    asked.write_text('{"id": "c"}\n')
    assert "no text in any of statement," in str(CliRunner().invoke(cli, [*command, str(asked)]))


def test_the_command_exits_1_when_something_is_found(tmp_path: Path) -> None:
    path = CURRICULUM / "valid.jsonl"
    again = tmp_path / "again.jsonl"
    lines = path.read_text().splitlines()[:3]
    again.write_text("\n".join(lines))
    arguments = ["contamination", "--train", str(path), "--benchmark", str(again)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 1
    assert "3 problems against 160 for training: 3 the same" in result.stdout
    pairs = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)["pairs"]
    assert all(pair["benchmark_id"] == pair["training_id"] for pair in pairs)
    empty = tmp_path / "none.jsonl"
    empty.write_text(json.dumps({"id": "x", "statement": words(0, 30), "language": "dafny"}))
    arguments = ["contamination", "--train", str(empty), "--benchmark", os.fspath(path)]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
