"""Lean text as tokens, its header, its target, and statements brought into one form."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proverrl.errors import ProblemError, ToolchainError
from proverrl.lang import find_language
from proverrl.lang.base import BackendOptions
from proverrl.lang.lean.audit.text import audit_lean_candidate
from proverrl.lang.lean.syntax.declarations import (
    find_declarations,
    find_target,
    problem_from_statement,
    split_header,
)
from proverrl.lang.lean.syntax.tokens import scan_tokens, split_name
from proverrl.lang.lean.verify.backend import open_lean
from proverrl.lang.lean.verify.judge import STANDARD_AXIOMS
from proverrl.lang.lean.verify.workers.toolchain import find_lean_toolchain
from proverrl.problems.load import benchmark_sha256, load_problems, load_references
from proverrl.types import HOLE, Candidate, Problem, Verdict
from proverrl.verifier.base import Limits
from tests import ROOT

BENCHMARK = ROOT / "lean" / "benchmark.jsonl"
DATA = ROOT.parent / "shared" / "data"
PIECES = (
    *("/-", "-/", "--", "/--", "/-!", '"', "'", "''", "«", "»", "`", "s!", 'r#"', '"#', "{", "}"),
    *("\\", "\n", " ", "\t", "theorem", "by", "sorry", "x", "x'", "α", "λ", "₁", "é", ".", ":="),
    *("0x1", "1e", "2.5", "#eval", "@[", "⟨", "⟩", "→", "\u202e", "\ud800", "\x00"),
)


def texts() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=30).map("".join)


def read(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in scan_tokens(text) if token.kind != "blank"]


@given(texts())
def test_tokens_joined_are_the_text(text: str) -> None:
    tokens = scan_tokens(text)
    assert "".join(token.text for token in tokens) == text
    for token in tokens:
        before = text[: token.offset]
        assert token.line == before.count("\n") + 1
        assert token.column == len(before) - (before.rfind("\n") + 1)


@pytest.mark.slow
@given(texts())
def test_a_header_and_its_rest_are_the_text(text: str) -> None:
    header, rest = split_header(text)
    assert header + rest == text
    assert split_header(f"import Mathlib\n{rest}")[0].startswith("import Mathlib\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h₁' x.y?.z! α_β", [("word", "h₁'"), ("word", "x.y?.z!"), ("word", "α_β")]),
        ("«a b».c.«d»", [("word", "«a b».c.«d»")]),
        ("λx", [("symbol", "λ"), ("word", "x")]),
        ("ΠΣ Ω", [("symbol", "Π"), ("symbol", "Σ"), ("word", "Ω")]),
        ("f'' 'a'", [("word", "f''"), ("char", "'a'")]),
        ("f '' s", [("word", "f"), ("symbol", "''"), ("word", "s")]),
        ("f ⁻¹' s", [("word", "f"), ("symbol", "⁻¹'"), ("word", "s")]),
        (r"'\'' '\n' '\x41'", [("char", r"'\''"), ("char", r"'\n'"), ("char", r"'\x41'")]),
        ("1_000 0xFF 0b01 2.5e-3 3.succ", [
            ("number", "1_000"), ("number", "0xFF"), ("number", "0b01"), ("number", "2.5e-3"),
            ("number", "3"), ("symbol", "."), ("word", "succ"),
        ]),
        ("/- a /- b -/ c -/x", [("comment", "/- a /- b -/ c -/"), ("word", "x")]),
        ("-- a /-\nx", [("comment", "-- a /-"), ("word", "x")]),
        ("/-- d -/ /-! m -/", [("doc", "/-- d -/"), ("doc", "/-! m -/")]),
        ("/- a /- b -/", [("broken", "/- a /- b -/")]),
        ("x <-- y", [("word", "x"), ("symbol", "<-"), ("symbol", "-"), ("word", "y")]),
        (r'"a\"b" "c\\"', [("string", r'"a\"b"'), ("string", r'"c\\"')]),
        ('"a\\\n  b"', [("string", '"a\\\n  b"')]),
        ('r#"a"b"# r"\\"', [("string", 'r#"a"b"#'), ("string", 'r"\\"')]),
        ('s!"a{x}b"', [
            ("word", "s!"), ("string", '"a{'), ("word", "x"), ("string", '}b"'),
        ]),
        ('s!"{ {y} }"', [
            ("word", "s!"), ("string", '"{'), ("symbol", "{"), ("word", "y"), ("symbol", "}"),
            ("string", '}"'),
        ]),
        ('"a{x}"', [("string", '"a{x}"')]),
        ('"open', [("broken", '"open')]),
        ("`a.b ``c `(t)", [
            ("name", "`a.b"), ("name", "``c"), ("symbol", "`"), ("symbol", "("), ("word", "t"),
            ("symbol", ")"),
        ]),
        ("#[1] @[simp] a#b", [
            ("symbol", "#["), ("number", "1"), ("symbol", "]"), ("symbol", "@["), ("word", "simp"),
            ("symbol", "]"), ("word", "a"), ("symbol", "#"), ("word", "b"),
        ]),
        ("a/-1-/b//-1", [
            ("word", "a"), ("comment", "/-1-/"), ("word", "b"), ("symbol", "//"), ("symbol", "-"),
            ("number", "1"),
        ]),
    ],
)  # fmt: skip
def test_tokens(text: str, expected: list[tuple[str, str]]) -> None:
    assert read(text) == expected


def test_a_name_is_split_at_its_dots() -> None:
    assert split_name("_root_.A.«b c».d'") == ["A", "b c", "d'"]
    assert split_name("_root_") == ["_root_"]


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("theorem t : True := trivial", ""),
        ("", ""),
        ("-- only a comment\n", ""),
        ("import Mathlib\nimport Aesop\n\nopen Nat\n", "import Mathlib\nimport Aesop\n"),
        ("/- c -/\n\nimport A.B -- why\ntheorem t", "/- c -/\n\nimport A.B -- why\n"),
        ("import A import B\nx", "import A import B\n"),
        ("import A", "import A"),
        (
            "module\n\npublic import A\nmeta import all B\ndef x",
            "module\n\npublic import A\nmeta import all B\n",
        ),
        ("prelude\nimport A\n", "prelude\nimport A\n"),
        ("open Nat\nimport A\n", ""),
        ('-- import X\n"import Y"\n', ""),
    ],
)  # fmt: skip
def test_the_header_ends_after_the_last_leading_import(text: str, header: str) -> None:
    assert split_header(text) == (header, text[len(header) :])


def make(statement: str, preamble: str = "", kind: str = "tactics") -> Problem:
    return Problem("p", "lean", kind, preamble, statement)


@pytest.mark.parametrize(
    ("preamble", "statement", "name"),
    [
        ("", f"theorem t : True := by\n  {HOLE}\n", "t"),
        ("", f"lemma t.{{u}} (α : Type u) : True := by\n  {HOLE}\n", "t"),
        ("", f"noncomputable def A.t : Nat := {HOLE}\n", "A.t"),
        ("namespace A.B\nnamespace C\n", f"theorem t : True := {HOLE}\nend C\n", "A.B.C.t"),
        ("namespace A.B\nend B\n", f"theorem t : True := {HOLE}\n", "A.t"),
        ("namespace A\nsection\nend\nsection S\n", f"theorem t : True := {HOLE}\n", "A.t"),
        ("namespace A\nend A\nnamespace D\n", f"theorem _root_.t : True := {HOLE}\n", "t"),
        ("def x := 1\n", f"theorem a : True := trivial\ntheorem b : True := {HOLE}\n", "b"),
        (
            "open Nat in\n",
            f"/-- doc: theorem no -/\n@[simp] protected theorem «t u» : True := {HOLE}\n",
            "«t u»",
        ),
        (
            "-- namespace A\n/- namespace B -/\n",
            f"theorem t (s : s = \"theorem u\") : True := {HOLE}\n",
            "t",
        ),
    ],
)  # fmt: skip
def test_the_target_is_the_declaration_before_the_hole(
    preamble: str, statement: str, name: str
) -> None:
    assert find_target(make(statement, preamble)) == name


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            f"example : True := {HOLE}\n",
            "the hole is in 'example', which cannot be asked for; name it",
        ),
        (
            f"instance : Add Nat := {HOLE}\n",
            "the hole is in 'instance', which cannot be asked for; name it",
        ),
        (f"{HOLE}\n", "no declaration before the hole; write the statement as"),
        (f"-- theorem t\n{HOLE}\n", "no declaration before the hole"),
        (f"private theorem t : True := {HOLE}\n", "t is private; drop that word"),
        (f"theorem (x : Nat) : True := {HOLE}\n", "the theorem before the hole has no name"),
    ],
)
def test_a_statement_without_a_target_is_refused(statement: str, message: str) -> None:
    with pytest.raises(ProblemError, match=r"problem 'p': ") as caught:
        find_target(make(statement, "theorem before : True := trivial\n"))
    assert message in str(caught.value)


def test_declarations_carry_full_names_and_where_they_begin() -> None:
    text = (
        "namespace A\n/-- doc -/\n@[simp, norm_cast] theorem x : True := trivial\nmutual\n"
        "def y := 1\nend\nend A\nclass inductive C\nopen Nat in\n"
        "private lemma z : True := trivial\n"
        "example : True := trivial\n"
    )
    found = [(d.keyword, d.name, d.modifiers, text[d.start :][:6]) for d in find_declarations(text)]
    assert found == [
        ("theorem", "A.x", (), "/-- do"),
        ("def", "A.y", (), "def y "),
        ("class", "C", (), "class "),
        ("lemma", "z", ("private",), "open N"),
        ("example", "", (), "exampl"),
    ]


def test_the_sorry_source_is_the_file_with_its_hole_filled() -> None:
    problem = make(f"theorem t : True := by\n  {HOLE}\nend A\n", "import X\nnamespace A\n")
    assert find_language("lean").show_problem(problem) == (
        "import X\nnamespace A\ntheorem t : True := by\n  sorry\nend A\n"
    )


ENDINGS = (
    *(":=", ":=\n", ":= by", ":= by\n", ":= by sorry"),
    *(":= by\n  sorry\n", ":= sorry", ":=\nsorry"),
)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("inside", [True, False])
def test_all_endings_become_one_form(ending: str, inside: bool) -> None:
    header = "import Mathlib\n\nopen Nat\n\n"
    text = f"/-- doc := -/\ntheorem t (h : x = (fun y : Nat => y) x) : True {ending}"
    problem = problem_from_statement(
        "t", header + text if inside else text, header="" if inside else header
    )
    assert problem.preamble == "import Mathlib\n\nopen Nat\n"
    assert problem.statement == (
        "/-- doc := -/\ntheorem t (h : x = (fun y : Nat => y) x) : True := by\n  /*{HOLE}*/\n"
    )
    assert (problem.kind, find_target(problem)) == ("tactics", "t")
    term = problem_from_statement("t", text, kind="term")
    assert term.statement.endswith(" : True :=\n  /*{HOLE}*/\n")
    assert (term.kind, term.preamble) == ("term", "")


def test_text_after_the_sorry_stays_behind_the_hole() -> None:
    text = "namespace A\n\ntheorem t : True := by\n  sorry\n\nend A\n"
    problem = problem_from_statement("t", text, metadata={"level": 2}, informal="why")
    assert problem.preamble == "namespace A\n"
    assert problem.statement == "theorem t : True := by\n  /*{HOLE}*/\nend A\n"
    assert (problem.level, problem.informal, find_target(problem)) == (2, "why", "A.t")


@pytest.mark.parametrize(
    ("text", "header", "message"),
    [
        ("theorem t : True", "", "must end in ':=', ':= by', ':= by sorry' or ':= sorry'; it ends"),
        ("theorem t : True := trivial", "", "it ends in 'theorem t : True := trivial'"),
        ("def a : Nat := sorry\ntheorem t : a = 1 := sorry", "", "2 sorries (lines 1, 2)"),
        ("import A\ntheorem t : True :=", "import B\n", "both the header and the text"),
        ("theorem t : True := by /- sorry", "", "opens in line 1 is never closed"),
        ("", "", "must end in ':='"),
        (":= by", "", "no theorem, lemma, def"),
        ("example : True := by", "", "'example', which cannot be asked for"),
        (f"theorem t : True := {HOLE}", "", "holds the marker"),
    ],
)
def test_a_statement_of_another_form_is_refused(text: str, header: str, message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        problem_from_statement("t", text, header=header)
    assert str(caught.value).startswith("problem 't': ")
    assert message in str(caught.value)


def test_the_real_benchmarks_are_read() -> None:
    folder = DATA / "minif2f_deepseek"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here")
    num_rows = 0
    for name in ("minif2f.jsonl", "proofnet.jsonl"):
        for line in (folder / name).read_text("utf-8").splitlines():
            row = json.loads(line)
            problem = problem_from_statement(
                row["name"], row["formal_statement"], header=row["header"]
            )
            statement = problem.statement.removeprefix("noncomputable ")
            assert statement.startswith(("theorem ", "lemma ", "def ", "abbrev "))
            assert split_header(problem.preamble)[0].startswith("import Mathlib")
            num_rows += 1
    assert num_rows == 488 + 371


def test_the_own_benchmark_is_large_and_graded() -> None:
    problems = load_problems(BENCHMARK)
    assert len(problems) == 144
    assert {problem.level for problem in problems} == {1, 2, 3, 4, 5}
    assert len({problem.metadata["area"] for problem in problems}) == 10
    assert all("import" not in problem.preamble for problem in problems)


@pytest.mark.slow
def test_the_own_benchmark_is_what_the_lean_files_hold() -> None:
    references = load_references(BENCHMARK)
    by_area: dict[str, list[Problem]] = {}
    for problem in load_problems(BENCHMARK):
        by_area.setdefault(problem.metadata["area"], []).append(problem)
    files = {path.stem.lower(): path for path in (ROOT / "lean" / "Benchmark").glob("*.lean")}
    assert files.keys() == by_area.keys()
    imports = (ROOT / "lean" / "Benchmark.lean").read_text("utf-8").split()
    assert sorted(imports) == sorted(
        [*(f"Benchmark.{path.stem}" for path in files.values()), *["import"] * len(files)]
    )
    for area, problems in by_area.items():
        text = files[area].read_text("utf-8")
        theorems = [d.name for d in find_declarations(text) if d.keyword == "theorem"]
        assert theorems == [find_target(problem) for problem in problems]
        title, _, body = text.partition("-/\n\n")
        assert title.startswith("/-!\n")
        expected = problems[0].preamble
        for problem in problems:
            assert problem.preamble == problems[0].preamble
            before, _, after = problem.statement.partition(HOLE)
            assert after == f"\n\nend Benchmark.{files[area].stem}\n"
            expected += before + references[problem.id] + "\n\n"
        assert body == expected + f"end Benchmark.{files[area].stem}\n"


def test_the_manifest_and_the_checksums_are_those_of_the_own_benchmark() -> None:
    folder = BENCHMARK.parent
    problems = load_problems(BENCHMARK)
    assert json.loads((folder / "MANIFEST.json").read_text("utf-8")) == {
        "name": "proverrl-lean",
        "version": "1.0.0",
        "num_problems": len(problems),
        "categories": Counter(problem.family for problem in problems),
        "levels": Counter(str(problem.level) for problem in problems),
        "kinds": Counter(problem.kind for problem in problems),
        "lean_toolchain": (folder / "lean-toolchain").read_text("utf-8").strip(),
        "checked_by_lean": [
            {
                "lean": "Lean 4.35.0, elaborator and kernel; reduced core library",
                "date": "2026-11-22",
                "how": "lean-server, each proof confirmed by lean-file",
                "passed": len(problems),
                "failed": [],
            }
        ],
    }
    lines = (folder / "SHA256SUMS").read_text("utf-8").splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = {f"Benchmark/{path.name}" for path in (folder / "Benchmark").glob("*.lean")}
    assert sums.keys() == {"MANIFEST.json", "benchmark.jsonl", "lean-toolchain"} | files
    assert sums == {name: benchmark_sha256(folder / name) for name in sums}
    # Six kinds of theorem at least, sixty theorems at least, each with a reference.
    assert len(problems) >= 60
    assert len({problem.family for problem in problems}) >= 6
    assert set(load_references(BENCHMARK)) == {problem.id for problem in problems}


@pytest.mark.lean
@pytest.mark.slow
def test_a_real_lean_accepts_every_reference_of_the_own_benchmark() -> None:
    """Each is confirmed by a process of its own. One that fails goes into the manifest's list."""
    try:
        find_lean_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no real Lean here: {error}")
    references = load_references(BENCHMARK)

    async def judge() -> dict[str, Verdict]:
        verifier = open_lean(BackendOptions(workers=2, limits=Limits())).verifier
        try:
            problems = load_problems(BENCHMARK)
            candidates = [Candidate(problem, references[problem.id]) for problem in problems]
            judging = [verifier.verify(one, deadline_seconds=60.0) for one in candidates]
            verdicts = await asyncio.gather(*judging)
        finally:
            await verifier.aclose()
        return {problem.id: verdict for problem, verdict in zip(problems, verdicts, strict=True)}

    verdicts = asyncio.run(judge())
    assert {name: verdict for name, verdict in verdicts.items() if not verdict.proved} == {}
    assert {verdict.checks[-1] for verdict in verdicts.values()} == {"confirmed"}
    assert len(verdicts) == 144
    axioms = {axiom for verdict in verdicts.values() for axiom in verdict.axioms}
    assert axioms <= STANDARD_AXIOMS


# Tactics, commands and names that core Lean does not have.
MATHLIB_WORDS = frozenset(
    """abel abel_nf aesop apply_fun bound by_contra by_contra! cases' choose choose! contrapose
    contrapose! decide! field field_simp fin_cases gcongr group induction' interval_cases itauto
    lemma lift linarith linear_combination mod_cases module nlinarith noncomm_ring norm_num
    norm_num1 nth_rewrite nth_rw obtain! peel polyrith positivity push_neg qify zify rify ring ring!
    refine' ring_nf ring1 set simp_rw tauto trivial! use use! wlog Finset Multiset Mathlib Set
    Real Complex
    ℕ ℤ ℚ ℝ ℂ""".split()
)
MATHLIB_SIGNS = frozenset("∑∏⋃⋂∖⁻‖⟪")


@pytest.mark.slow
def test_no_problem_of_the_own_benchmark_needs_mathlib() -> None:
    references = load_references(BENCHMARK)
    found = {}
    for problem in load_problems(BENCHMARK):
        candidate = Candidate(problem, references[problem.id])
        tokens = [token for token in scan_tokens(candidate.source) if token.is_code]
        words = {token.text for token in tokens if token.kind == "word"}
        words.remove(split_name(find_target(problem))[-1])
        signs = {sign for token in tokens if token.kind == "symbol" for sign in token.text}
        if foreign := (words & MATHLIB_WORDS) | (signs & MATHLIB_SIGNS):
            found[problem.id] = foreign
    assert found == {}


@pytest.mark.slow
def test_every_reference_of_the_own_benchmark_is_admitted() -> None:
    references = load_references(BENCHMARK)
    refused = {
        problem.id: verdict
        for problem in load_problems(BENCHMARK)
        if (verdict := audit_lean_candidate(Candidate(problem, references[problem.id])))
    }
    assert refused == {}
