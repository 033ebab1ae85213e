"""The real files of benchmarks, where they are present: every problem loads or says why not."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from proverrl.benchmarks.base import Collection
from proverrl.benchmarks.known import count_taken
from proverrl.benchmarks.open import Benchmark, open_benchmark
from proverrl.lang.dafny.audit.annotated import get_program_text
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.lean.audit.text import audit_lean_candidate
from proverrl.lang.open import open_verifier
from proverrl.problems.contamination import find_repeats, key_statement
from proverrl.problems.prompt import render_messages
from proverrl.types import HOLE, Candidate
from tests.benchmark_data import SHARED

# Name in the shared data, what loads, what is refused.
EXPECTED: list[tuple[str, int, int]] = [
    ("minif2f_deepseek/minif2f.jsonl", 488, 0),
    ("minif2f_deepseek/proofnet.jsonl", 371, 0),
    ("minif2f_deepseek/minif2f_valid_few_shot.jsonl", 67, 0),
    ("minif2f_yangky11", 50, 0),
    ("putnambench", 27, 0),
    ("combibench", 8, 5),  # 13 files; the 5 with a blank come without with_solution/
    ("verina", 7, 0),
    ("clever", 2, 7),  # 9 files; 7 leave the implementation open
    ("dafnybench_tasks.jsonl", 212, 0),
    ("dafnybench_layout", 33, 46),  # 40 + 40 files, 1 pair: 79 names, 39 lack a blank
    ("humaneval_dafny", 14, 5),  # 3 mix collections over nat and int
    ("minif2f_dafny", 15, 19),  # 34 lemmas; 19 lean on the inconsistent definitions
    ("clover", 6, 32),
]
SPLITS = {
    "minif2f_deepseek/minif2f.jsonl": {"valid": 244, "heldout": 244},
    "minif2f_deepseek/proofnet.jsonl": {"valid": 185, "heldout": 186},
    "minif2f_yangky11": {"valid": 25, "heldout": 25},
}
# Bodies that stand for a proof; whether they prove anything is not asked here.
LEAN_BODIES = ("trivial", "intro x\n  exact this", "have h : 1 = 1 := rfl\n  simpa using h")


def find(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    return path


@pytest.mark.parametrize(("name", "loaded", "refused"), EXPECTED)
def test_every_problem_loads_or_is_refused_with_its_reason(
    name: str, loaded: int, refused: int
) -> None:
    found = open_benchmark(str(find(name)))
    assert (len(found.entries), len(found.refused)) == (loaded, refused)
    assert all(entry.reason and entry.where for entry in found.refused)
    assert len({problem.id for problem in found.problems}) == loaded
    if name in SPLITS:
        assert Counter(problem.split for problem in found.problems) == SPLITS[name]
    check_texts(found)


def check_texts(found: Benchmark | Collection) -> None:
    """Every statement passes the audit's checks of its text, and a prompt can be made of it."""
    for entry in found.entries:
        problem = entry.problem
        if problem.language == "lean":
            before, _, after = problem.statement.partition(HOLE)
            assert before.endswith(" := by\n  ")
            assert after.startswith("\n")
            assert "sorry" not in problem.preamble + problem.statement
            for body in LEAN_BODIES:
                assert audit_lean_candidate(Candidate(problem, body)) is None, problem.id
            assert audit_lean_candidate(Candidate(problem, "sorry")) is not None
            assert render_messages(problem, "deepseek")
        else:
            assert problem.statement.count(HOLE) == 1
            assert render_messages(problem, "dafny")
            if entry.reference is not None:
                assert audit_candidate(Candidate(problem, entry.reference)) is None


def test_few_shot_proofs_assemble_to_header_statement_and_proof() -> None:
    path = find("minif2f_deepseek/minif2f_valid_few_shot.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    whole = find("minif2f_deepseek/minif2f.jsonl").read_text("utf-8").splitlines()
    header = json.loads(whole[0])["header"]
    found = open_benchmark(str(path))
    assert len(rows) == len(found.entries) == 67
    for row, entry in zip(rows, found.entries, strict=True):
        source = Candidate(entry.problem, entry.reference or "").source
        assert source == header + row["formal_statement"] + row["formal_proof"].rstrip() + "\n"
        assert entry.problem.informal == row["informal_prefix"].strip()[3:-2].strip()


def test_rows_assemble_to_their_header_and_statement() -> None:
    for name in ("minif2f", "proofnet"):
        path = find(f"minif2f_deepseek/{name}.jsonl")
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        found = open_benchmark(str(path))
        for row, entry in zip(rows, found.entries, strict=True):
            statement = row["formal_statement"].rstrip().removesuffix("by").rstrip()
            expected = row["header"].rstrip() + "\n\n" + statement.removesuffix(":=").rstrip()
            assert Candidate(entry.problem, "rfl").source == f"{expected} := by\n  rfl\n"


def test_dafnybench_holds_programs_of_other_benchmarks() -> None:
    tasks = open_benchmark(str(find("dafnybench_tasks.jsonl")))
    assert count_taken("dafnybench-tasks", tasks.problems) == {"mbpp-dfy": 41, "clover": 19}
    # Three programs of DafnyBench's were collected twice.
    assert len(find_repeats(tasks.problems)) == 3


def test_two_forms_of_minif2f_say_the_same_where_they_do() -> None:
    rows = open_benchmark(str(find("minif2f_deepseek/minif2f.jsonl")))
    files = open_benchmark(str(find("minif2f_yangky11")))
    stated = {key_statement(problem): problem.id for problem in rows.problems}
    same = [(stated.get(key_statement(problem)), problem.id) for problem in files.problems]
    same = [(other, own) for other, own in same if other is not None]
    assert len(same) == 34
    assert all(first == second for first, second in same)


@pytest.mark.slow
@pytest.mark.dafny
def test_problems_that_were_cut_out_of_programs_are_proved_by_their_references() -> None:
    """By real Dafny 2.3: stripped programs, an exact hole, and lemmas without their includes."""
    clover = open_benchmark(str(find("clover")))
    human = open_benchmark(str(find("humaneval_dafny")))
    lemmas = open_benchmark(str(find("minif2f_dafny")))
    chosen = [e for e in clover.entries if "dialect" not in e.problem.metadata]
    chosen += [e for e in human.entries if e.problem.id in ("042-incr-list", "034-unique")]
    empty = [p for p in lemmas.problems if p.id in ("mathd_algebra_144", "mathd_algebra_441")]
    asked = [(e.problem, e.reference or "") for e in chosen] + [(p, "") for p in empty]
    asked += [(e.problem, get_program_text(e.problem)) for e in chosen[:2]]

    async def judge() -> list[str]:
        verifier = open_verifier(workers=1, rlimit=20_000_000)
        try:
            verdicts = [
                await verifier.verify(Candidate(problem, body), deadline_seconds=120)
                for problem, body in asked
            ]
        finally:
            await verifier.aclose()
        return [verdict.status.value for verdict in verdicts]

    # Four of Clover's and two of HumanEval's; a lemma that Dafny proves by itself and one that it
    # does not; two programs without their hints.
    expected = ["proved"] * 6 + ["rejected", "proved"] + ["rejected"] * 2
    assert [problem.id for problem, _ in asked[6:8]] == ["mathd_algebra_441", "mathd_algebra_144"]
    assert asyncio.run(judge()) == expected
