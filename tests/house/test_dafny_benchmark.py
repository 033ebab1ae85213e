"""The project's own Dafny benchmark: its sources, its files, what it may contain, real Dafny."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from proverrl.errors import ProblemError
from proverrl.generate.dafny.stream import GENERATOR
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.syntax.text import normalise, scan_tokens
from proverrl.problems.load import benchmark_sha256, load_problems, load_references
from proverrl.types import ANNOTATE, HOLE, Candidate, Status
from scripts.dafny_sources import CATEGORIES, ORIGIN, build_rows, parse_source
from tests import ROOT

FOLDER = ROOT / "dafny" / "benchmark"
PROBLEMS = load_problems(FOLDER / "problems.jsonl")
REFERENCES = load_references(FOLDER / "problems.jsonl")
MADE = ("problems.jsonl", "MANIFEST.json", "SHA256SUMS")

SOURCE = """// A remark.

//@ count-up, level 2, invariants
//@ Counts,
//@ one by one.
module CountUp {
  method Up(n: nat) returns (i: nat)
    ensures i == n
  {
    i := 0;
    while i < n
      //<
      invariant i <= n
      //>
    {
      i := i + 1;
    }
  }
}
"""


def test_a_source_becomes_a_problem_and_its_reference() -> None:
    (problem,) = parse_source(SOURCE, "arrays")
    assert (problem.level, problem.kind, problem.informal) == (
        2,
        "invariants",
        "Counts, one by one.",
    )
    assert problem.reference == "invariant i <= n"
    assert problem.statement == (
        "method Up(n: nat) returns (i: nat)\n  ensures i == n\n{\n  i := 0;\n  while i < n\n"
        f"    {HOLE}\n  {{\n    i := i + 1;\n  }}\n}}\n"
    )
    (row,) = build_rows([problem], {"proverrl-dafny-arrays-count-up": ["b", "a"]})
    assert row["metadata"] == {
        "level": 2,
        "family": "arrays",
        "category": "arrays",
        "expected_entries": ["a", "b"],
    }


def test_an_annotate_source_loses_all_its_marked_places() -> None:
    text = SOURCE.replace("invariants", "annotate").replace(
        "      i := i + 1;\n", "      i := i + 1;\n      //<\n      assert i > 0;\n      //>\n"
    )
    (problem,) = parse_source(text, "arrays")
    assert "invariant" not in problem.statement
    assert "assert" not in problem.statement
    assert problem.statement.endswith(f"}}\n{HOLE}\n")
    assert problem.reference.count("invariant i <= n") == problem.reference.count("assert") == 1
    assert "//" not in problem.reference


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("//@ count-up, level 2, invariants", "//@ count-up, invariants", "line 3: write '//@"),
        ("level 2", "level 6", "line 6: level 6 is not one of 1 to 5"),
        ("invariants\n", "poems\n", "line 6: kind 'poems' is not one of"),
        ("module CountUp", "module Other", "line 6: the module is called 'Other'; call it 'Cou"),
        ("//@ Counts,\n//@ one by one.\n", "", "line 4: write two '//@' lines"),
        ("// A remark.", "method M() {}", "line 1: text outside of a module"),
        ("      //>\n", "", "needs exactly one //< ... //>"),
        ("      //>\n", "      //>\n      //>\n", "has a //> without its partner"),
        ("      //>\n", "      //>\n      //<\n      //>\n", "needs exactly one"),
        ("      invariant i <= n\n", "", "has an empty reference"),
        ("  }\n}\n", "  }\n", "'count-up' never ends"),
    ],
)
def test_a_bad_source_is_refused_with_its_place(old: str, new: str, message: str) -> None:
    assert old in SOURCE
    with pytest.raises(ProblemError, match=re.escape(message)):
        parse_source(SOURCE.replace(old, new), "arrays")


def test_a_name_may_not_be_used_twice_and_a_row_needs_its_entries() -> None:
    with pytest.raises(ProblemError, match="two problems are called 'count-up'"):
        parse_source(SOURCE + SOURCE, "arrays")
    with pytest.raises(ProblemError, match="has no recorded entries"):
        build_rows(parse_source(SOURCE, "arrays"), {})


def run_builder(folder: Path) -> subprocess.CompletedProcess[str]:
    script = str(ROOT / "scripts" / "build_dafny_benchmark.py")
    command = [sys.executable, script, "--folder", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_shipped_files_are_made_of_the_sources_byte_for_byte(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    shutil.copytree(FOLDER / "src", folder / "src")
    shutil.copy(FOLDER / "verified.json", folder)
    done = run_builder(folder)
    assert done.returncode == 0, done.stderr
    for name in MADE:
        assert (folder / name).read_bytes() == (FOLDER / name).read_bytes(), name
    # One changed letter of a reference, and nothing is built until Dafny has seen it.
    changed = folder / "src" / "arrays.dfy"
    changed.write_text(changed.read_text().replace("invariant low <= k", "invariant low < k", 1))
    done = run_builder(folder)
    assert done.returncode != 0
    assert "was not verified as it is now" in done.stderr


def test_checksums_are_those_of_the_files() -> None:
    lines = (FOLDER / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert sums == {name: benchmark_sha256(FOLDER / name) for name in sums}
    assert len(sums) == 3 + len(CATEGORIES)


def test_there_are_enough_problems_of_each_kind() -> None:
    assert len(PROBLEMS) >= 120
    assert min(Counter(p.family for p in PROBLEMS).values()) >= 15
    assert {p.family for p in PROBLEMS} == set(CATEGORIES)
    assert set(Counter(p.level for p in PROBLEMS)) == {1, 2, 3, 4, 5}
    assert set(REFERENCES) == {p.id for p in PROBLEMS}
    assert all(p.split == "heldout" and p.origin == ORIGIN and p.informal for p in PROBLEMS)
    manifest = json.loads((FOLDER / "MANIFEST.json").read_text())
    assert manifest["num_problems"] == len(PROBLEMS)
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    assert manifest["toolchains"] == ["dafny 2.3.0 (dafny-server), z3 4.8.5"]


def test_the_readme_counts_the_problems_right() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")
    for category in (*CATEGORIES, "all"):
        levels = Counter(p.level for p in PROBLEMS if category in (p.family, "all"))
        counts = [str(levels[level]) for level in range(1, 6)] + [str(levels.total())]
        assert re.search(rf"(?m)^\| {category} \|[^|]*\| {' [|] '.join(counts)} \|$", text)
    assert f"{len(PROBLEMS)} small problems" in text


def count_proof_lines(problem_id: str, kind: str, statement: str) -> int:
    lines = len(REFERENCES[problem_id].strip().splitlines())
    return lines if kind != ANNOTATE else lines - len(statement.strip().splitlines()) + 1


def test_many_problems_need_more_than_a_line() -> None:
    sizes = [count_proof_lines(p.id, p.kind, p.statement) for p in PROBLEMS]
    assert sum(size >= 4 for size in sizes) >= 40
    assert sum(size == 1 for size in sizes) <= 30


def test_no_problem_is_another_one_or_a_program_of_the_curriculum() -> None:
    forms = Counter(normalise(p.statement) for p in PROBLEMS)
    assert set(forms.values()) == {1}
    for split in ("train", "valid", "heldout"):
        known = {
            normalise(p.statement)
            for p in load_problems(ROOT / "dafny" / "curriculum" / f"{split}.jsonl")
        }
        assert known.isdisjoint(forms), split


def test_every_reference_is_admitted_by_the_audit() -> None:
    refused = {
        problem.id: verdict.diagnostics
        for problem in PROBLEMS
        if (verdict := audit_candidate(Candidate(problem, REFERENCES[problem.id])))
    }
    assert refused == {}


# What Dafny 2.3 takes and Dafny 4 refuses, warns of or reads in another way.
OLD_WORDS = frozenset(
    """colemma comethod copredicate free inductive protected abstract assume
    include import export refines class trait iterator yield codatatype newtype static modify
    constructor print""".split()
)
NEW_WORDS = frozenset(
    """expect for ghost greatest hide least nameonly older opaque reveal reveals
    twostate witness allocated fresh unchanged label by""".split()
)
"""Reserved words of Dafny 4, or words whose use has changed; none is a name or needed here."""
CLAUSES = ("requires ", "ensures ", "invariant ", "decreases ", "modifies ", "reads ")
BOUNDED = re.compile(r"(?:forall|exists) \w+(?:, \w+)* :: (?:-?\d+|\w+) <=? ")


def find_old_text(source: str) -> Iterator[str]:
    """What speaks against Dafny 4 in a program, rule by rule."""
    tokens = scan_tokens(source)
    words = [text for kind, text in tokens if kind == "name"]
    yield from (f"word {word}" for word in words if word in OLD_WORDS | NEW_WORDS)
    texts = [text for _, text in tokens]
    for first, second in pairwise(texts):
        if (first, second) in (("function", "method"), ("predicate", "method")):
            yield "function method"
        if first == "forall" and second == "(":
            yield "parentheses around a domain"
        if first == ":=" and second == "*":
            yield "unknown value"
    attributes = re.findall(r"\{:[^}]*\}", source)
    yield from (f"attribute {text}" for text in attributes if text != "{:induction false}")
    for line in source.splitlines():
        if line.strip().startswith(CLAUSES) and line.endswith(";"):
            yield "semicolon after a clause"
        for made in re.findall(r"new (\w+)\b", line):
            if made not in ("int", "bool"):
                yield "array without first values"
    yield from find_old_members(source)


def find_old_members(source: str) -> Iterator[str]:
    """Functions are compiled in Dafny 4, and results must be set before they are read."""
    members = re.split(r"(?m)^(?=(?:function|predicate|method|lemma|datatype)\b)", source)
    for member in members:
        _, _, body = member.partition("\n{\n")
        if member.startswith(("function", "predicate")):
            spans = re.findall(r"(?:forall|exists) [^:]*:: .*", body)
            yield from (f"unbounded {text}" for text in spans if not BOUNDED.match(text))
            if ":|" in body:
                yield "choice in a function"
        found = re.search(r"returns \((.*)\)", member.partition("\n{\n")[0])
        for name in re.findall(r"(\w+):", found.group(1)) if found else ():
            statements = re.split(r"[;{}]", body)
            first = next((text for text in statements if re.search(rf"\b{name}\b", text)), "")
            if not re.match(rf"\s*(?:\w+, )*{name}(?:, \w+)* :=", first):
                yield f"{name} is read before it is set"


def test_no_program_holds_what_dafny_4_refuses() -> None:
    found = {}
    for problem in PROBLEMS:
        source = Candidate(problem, REFERENCES[problem.id]).source
        if spoken := list(find_old_text(source)):
            found[problem.id] = spoken
    assert found == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("function method F(): int\n{\n  1\n}\n", "function method"),
        ("inductive predicate P(n: nat)\n{\n  true\n}\n", "word inductive"),
        ("lemma L(least: int)\n{\n}\n", "word least"),
        ("lemma L()\n  ensures true;\n{\n}\n", "semicolon after a clause"),
        ("lemma {:fuel 3} L()\n{\n}\n", "attribute {:fuel 3}"),
        ("method M() returns (r: int)\n{\n  var x := r;\n  r := x;\n}\n", "r is read"),
        ("method M() returns (q: nat, r: int)\n{\n  q := 1;\n}\n", "r is read"),
        ("method M(n: nat)\n{\n  var x := *;\n}\n", "unknown value"),
        ("method M(n: nat)\n{\n  var x := new T[n];\n}\n", "array without first values"),
        ("predicate P(n: nat)\n{\n  exists k :: k * k == n\n}\n", "unbounded exists"),
        ("function F(s: set<int>): int\n{\n  var x :| x in s; x\n}\n", "choice in a function"),
        ("lemma L()\n{\n  forall (i | i < 3) {}\n}\n", "parentheses around a domain"),
    ],
)
def test_the_check_for_dafny_4_finds_what_it_is_for(source: str, expected: str) -> None:
    assert any(text.startswith(expected) for text in find_old_text(source))


def empty_body(kind: str, statement: str) -> str:
    return statement.replace(HOLE, "") if kind == ANNOTATE else ""


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_dafny_proves_a_sample_of_references_and_refuses_empty_bodies() -> None:
    # Every seventh problem; scripts/build_dafny_benchmark.py --verify --all judges them all.
    sample = PROBLEMS[3::7]
    assert {problem.family for problem in sample} == set(CATEGORIES)

    async def judge() -> list[tuple[Status, Status]]:
        verifier, _ = GENERATOR.open_verifier(2)
        try:
            full = [
                verifier.verify(Candidate(p, REFERENCES[p.id]), deadline_seconds=120)
                for p in sample
            ]
            empty = [
                verifier.verify(Candidate(p, empty_body(p.kind, p.statement)), deadline_seconds=120)
                for p in sample
            ]
            verdicts = await asyncio.gather(*full, *empty)
        finally:
            await verifier.aclose()
        statuses = [verdict.status for verdict in verdicts]
        return list(zip(statuses[: len(sample)], statuses[len(sample) :], strict=True))

    failed = {
        problem.id: found
        for problem, found in zip(sample, asyncio.run(judge()), strict=True)
        if found not in ((Status.PROVED, Status.REJECTED), (Status.PROVED, Status.EXHAUSTED))
    }
    assert failed == {}
