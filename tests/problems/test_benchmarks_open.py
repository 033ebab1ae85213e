"""Names, paths and ids of benchmarks; conversion; the commands; an evaluation on real Dafny."""

from __future__ import annotations

import asyncio
import json
import sys
import types
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner

from proverrl.benchmarks.base import BenchmarkFormat, hash_source, open_source, rows_source
from proverrl.benchmarks.convert import write_benchmark
from proverrl.benchmarks.formats import FORMATS
from proverrl.benchmarks.known import KNOWN, count_taken
from proverrl.benchmarks.open import is_source, open_benchmark, read_hub
from proverrl.benchmarks.statement_rows import ROW_FORMATS
from proverrl.cli.main import cli
from proverrl.config import LayoutName, parse_config
from proverrl.errors import ProblemError, ProverRLError, UsageError
from proverrl.jobs import evaluate as evaluate_run
from proverrl.lang.lean.syntax.declarations import problem_from_statement
from proverrl.policy.base import Exchange
from proverrl.problems.contamination import find_repeats, key_statement
from proverrl.problems.load import (
    benchmark_sha256,
    load_problems,
    load_references,
    make_row,
    write_problems,
)
from proverrl.problems.prompt import NOTHING_BEFORE
from proverrl.types import HOLE, Completion, Problem, Prompt, Sampling
from tests import ROOT
from tests.benchmark_data import SHARED, write_files, write_rows
from tests.problems.test_benchmarks_dafny import BLANK, TRUTH

TASK = {"id": "count", "hints_removed": BLANK, "ground_truth": TRUTH}
LEAN_ROW = {
    "name": "t",
    "split": "test",
    "informal_prefix": "/-- Words. -/",
    "formal_statement": "theorem t : 1 + 1 = 2 := by\n",
    "header": "import Mathlib\n\n",
}


def invoke(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, arguments)
    if isinstance(done.exception, ProverRLError):
        return 2, done.stdout, str(done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def test_formats_and_their_names_agree() -> None:
    assert set(FORMATS) == set(get_args(BenchmarkFormat))
    assert {known.format for known in KNOWN.values()} <= set(FORMATS)
    assert set(ROW_FORMATS) <= set(FORMATS)
    # A name must not depend on which of two benchmarks is tried first.
    as_code = {name for name, known in KNOWN.items() if known.format.endswith("_code")}
    assert as_code == {f"{name}-code" for name in (
        "clover", "mbpp-dfy", "humaneval-dafny", "verina", "clever"
    )}  # fmt: skip
    assert all(KNOWN[n].places == KNOWN[n.removesuffix("-code")].places for n in as_code)
    places = [place for name in KNOWN.keys() - as_code for place in KNOWN[name].places]
    assert len(places) == len(set(places))


def test_a_source_of_no_format_names_all_that_were_tried(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "other.jsonl", {"question": "?", "id": "a"})
    with pytest.raises(ProblemError) as caught:
        open_benchmark(str(path))
    lines = str(caught.value).split("\n")
    assert lines[0] == f"{path} is of no known format. Tried:"
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        # Another task of the same files, which has to be asked for.
        name
        for name in FORMATS
        if not name.endswith(("_code", "_hints"))
    ]
    where = f"{path}, line 1"
    assert f"  problems: {where}: field 'language' is missing" in lines
    assert f"  deepseek: {where}: field 'name' is missing" in lines
    assert f"  dafnybench_tasks: {where}: field 'hints_removed' is missing" in lines
    assert "  verina: it holds no task.lean" in lines
    with pytest.raises(ProblemError, match=r"is not of the format goedel: .*field 'name' or 'pr"):
        open_benchmark(str(path), format_name="goedel")
    write_rows(tmp_path / "deeper.jsonl", TASK)
    with pytest.raises(ProblemError, match=r"holds files of rows; give one of them: .*deeper\.js"):
        open_benchmark(str(tmp_path))


def test_a_file_that_is_broken_or_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{\n")
    with pytest.raises(ProblemError, match=r"goedel: .*line 1: not JSON at column 2"):
        open_benchmark(str(path))
    path.write_text("")
    with pytest.raises(ProblemError, match=r"a\.jsonl holds no row; give a file"):
        open_benchmark(str(path))
    write_rows(path, {**TASK, "hints_removed": "method ("})
    with pytest.raises(ProblemError, match="all 1 entries were refused as dafnybench_tasks"):
        open_benchmark(str(path))
    (tmp_path / "a.json").write_text('[{"a": 1},\n 2 3]')
    with pytest.raises(ProblemError, match=r"a\.json, line 2, column 4: not JSON"):
        open_benchmark(str(tmp_path / "a.json"))
    (tmp_path / "b.jsonl").write_bytes(b"\xff")
    with pytest.raises(ProblemError, match="not UTF-8"):
        open_benchmark(str(tmp_path / "b.jsonl"))


def test_a_json_array_and_an_object_of_objects(tmp_path: Path) -> None:
    for data in ([TASK], {"x": TASK}):
        (tmp_path / "a.json").write_text(json.dumps(data))
        found = open_benchmark(str(tmp_path / "a.json"))
        assert [(e.problem.id, e.where) for e in found.entries] == [
            ("count", f"{tmp_path / 'a.json'}, row 1")
        ]


def test_a_name_is_looked_for_and_else_says_where_it_is_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVERRL_DATA", str(tmp_path / "sets"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProblemError) as caught:
        open_benchmark("mobench")
    assert str(caught.value) == (
        "benchmark 'mobench' is not on this machine, and nothing is downloaded unasked.\n"
        "  where to get it: https://github.com/Goedel-LM/Goedel-Prover-V2, folder dataset\n"
        "  licence: not stated in the repository\n"
        f"  put it at {tmp_path / 'sets' / 'MOBench.jsonl'}, or name its path instead; "
        "$PROVERRL_DATA names another folder of data\n"
        "  or have it downloaded: hf:Goedel-LM/MathOlympiadBench"
    )
    with pytest.raises(ProblemError, match="did you mean 'minif2f'"):
        open_benchmark("minif2")
    with pytest.raises(ProblemError, match="cannot read no/such: No such file"):
        open_benchmark("no/such")
    for folder in ("data", "sets"):
        (tmp_path / folder).mkdir()
        write_rows(tmp_path / folder / "minif2f.jsonl", {**LEAN_ROW, "name": folder})
        found = open_benchmark("minif2f")
        # $PROVERRL_DATA comes before data/.
        assert [(p.id, p.origin) for p in found.problems] == [(folder, "minif2f")]
        assert found.licence == "MIT (code of the repository)"


def test_a_split_of_a_named_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVERRL_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    rows = [{**LEAN_ROW, "name": n, "split": s} for n, s in (("a", "test"), ("b", "valid"))]
    path = write_rows(tmp_path / "minif2f.jsonl", *rows, {**LEAN_ROW, "name": "c", "split": "x"})
    whole, test, valid = (open_benchmark(f"minif2f{end}") for end in ("", ":test", ":valid"))
    assert [[p.id for p in found.problems] for found in (whole, test, valid)] == [
        *(["a", "b"], ["a"], ["b"])
    ]
    assert (test.place, valid.place) == (f"{path}:test", f"{path}:valid")
    # Figures on unlike problems are told apart by this.
    assert len({whole.sha256, test.sha256, valid.sha256}) == 3
    # What is of no known split is refused, as ever.
    assert [refused.where for refused in test.refused] == [f"{path}, line 3"]
    for name, message in (
        ("minif2f:exam", "benchmark 'minif2f' has no split 'exam': it has valid, test"),
        ("minif2f:", "benchmark 'minif2f' has no split '': it has valid, test"),
        ("mobench:valid", "benchmark 'mobench' has no split 'valid': it has test"),
        ("verina:test", "benchmark 'verina' has no split 'test': it has none, give its name alone"),
        ("proofnet:test", "benchmark 'proofnet' is not on this machine"),
        ("minif2:test", "did you mean 'minif2f"),
    ):
        with pytest.raises(ProblemError) as caught:
            open_benchmark(name)
        assert message in str(caught.value)
    assert is_source("minif2f:test")
    assert not is_source("dafny-l1-acc:8e1100c5")
    config = parse_config({"evaluation": {"benchmarks": ["minif2f:test"]}}, source="t")
    assert evaluate_run.name_benchmarks(config, "e", []) == {"e": "minif2f:test"}
    both = evaluate_run.name_benchmarks(config, "e", ["minif2f:test", "minif2f:valid"])
    assert list(both) == ["e-minif2f_test", "e-minif2f_valid"]
    # A file of that name is that file.
    (tmp_path / "minif2f:test").mkdir()
    with pytest.raises(ProblemError, match="is of no known format"):
        open_benchmark("minif2f:test")


@pytest.mark.skipif(not SHARED.exists(), reason="the real data is not here")
@pytest.mark.parametrize(
    ("name", "valid", "test"),
    [
        ("minif2f", 244, 244),
        ("proofnet", 185, 186),
        ("minif2f-yangky11", 25, 25),
        ("minif2f-dafny", 7, 8),
    ],
)
def test_the_splits_of_the_real_benchmarks(
    monkeypatch: pytest.MonkeyPatch, name: str, valid: int, test: int
) -> None:
    monkeypatch.setenv("PROVERRL_DATA", str(SHARED))
    whole = open_benchmark(name)
    parts = [open_benchmark(f"{name}:{split}") for split in KNOWN[name].splits]
    assert [len(part.problems) for part in parts] == [valid, test]
    assert {p.split for p in parts[0].problems} == {"valid"}
    assert {p.split for p in parts[1].problems} == {"heldout"}
    ids = [problem.id for part in parts for problem in part.problems]
    assert sorted(ids) == sorted(problem.id for problem in whole.problems)
    assert sum(len(part.refused) for part in parts) == len(whole.refused)


def test_every_known_benchmark_says_where_it_is_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVERRL_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name, known in KNOWN.items():
        if known.source.startswith("this repository"):
            assert open_benchmark(name).problems  # it comes with ProverRL
            continue
        with pytest.raises(ProblemError) as caught:
            open_benchmark(name)
        for word in (known.source, known.licence, known.places[0]):
            assert word in str(caught.value)


def test_the_page_has_a_row_for_every_known_benchmark() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    rows = {line.split("`")[1]: line for line in page.split("\n") if line.startswith("| `")}
    assert rows.keys() == KNOWN.keys()
    for name, known in KNOWN.items():
        for word in (f"`{known.format}`", known.size, known.source, known.licence, known.hub_id):
            assert word in rows[name]
    for name in FORMATS:
        assert f"`{name}`" in page


def test_hashes_of_sources(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", TASK)
    assert hash_source(open_source(path)) == benchmark_sha256(path)
    folder = write_files(tmp_path / "f", {"a/x.lean": "1", "b.txt": "2", "c.pyc": "3"})
    first = hash_source(open_source(folder))
    (folder / "c.pyc").write_text("4")
    assert hash_source(open_source(folder)) == first
    (folder / "a" / "x.lean").write_text("5")
    assert hash_source(open_source(folder)) != first
    # Rows count, not the order of their keys.
    one, two = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert hash_source(rows_source("n", [one])) == hash_source(rows_source("m", [two]))


def test_our_own_files_are_held_to_their_form(tmp_path: Path) -> None:
    found = open_benchmark(str(ROOT / "dafny" / "curriculum" / "valid.jsonl"))
    path = ROOT / "dafny" / "curriculum" / "valid.jsonl"
    assert (found.format, found.refused) == ("problems", ())
    assert found.problems == load_problems(path)
    assert found.references == load_references(path)
    row = {"id": "a", "language": "dafny", "kind": "invariants", "statement": "no hole"}
    with pytest.raises(ProblemError, match=r"line 1.*exactly once"):
        open_benchmark(str(write_rows(tmp_path / "a.jsonl", row)))


# The hub and lean-dojo --------------------------------------------------------------------------


def test_a_data_set_is_read_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real library; a local folder is an id that needs no network."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "set"
    folder.mkdir()
    write_rows(folder / "train.jsonl", {**LEAN_ROW, "name": "a"})
    write_rows(folder / "test.jsonl", LEAN_ROW, {**LEAN_ROW, "name": "u", "formal_statement": 1})
    source = read_hub(f"hf:{folder}:train")
    assert [row.where for row in source.rows] == [f"hf:{folder}:train, row 1"]
    (folder / "test.jsonl").unlink()
    write_rows(folder / "test.jsonl", LEAN_ROW)
    found = open_benchmark(f"hf:{folder}")
    assert [(p.id, p.split) for p in found.problems] == [("t", "heldout")]
    assert (found.format, len(found.sha256)) == ("deepseek", 64)
    with pytest.raises(ProblemError, match=r"no split 'exam'; it has (train, test|test, train)"):
        open_benchmark(f"hf:{folder}:exam")


def test_a_data_set_that_cannot_be_had_is_a_plain_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def fail(name: str) -> None:
        raise ConnectionError(f"Couldn't reach '{name}' on the Hub (OfflineModeIsEnabled)\nmore")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(ProblemError) as caught:
        open_benchmark("hf:SphereLab/FormalMATH-Lite:train")
    assert str(caught.value) == (
        "hf:SphereLab/FormalMATH-Lite:train: the data set cannot be had: Couldn't reach "
        "'SphereLab/FormalMATH-Lite' on the Hub (OfflineModeIsEnabled); check the id and the "
        "network, or download it elsewhere and give the path of its .jsonl file"
    )
    with pytest.raises(ProblemError, match="write hf:OWNER/NAME"):
        open_benchmark("hf::train")


LEAN_FILE = """\
import Mathlib

theorem first : 1 = 1 := rfl

/-- Two. -/
theorem second (n : ℕ) : n = n := by
  intros
  rfl

theorem third : True := by trivial
"""


def _position(text: str) -> types.SimpleNamespace:
    before = LEAN_FILE[: LEAN_FILE.index(text)]
    column = len(before) - (before.rfind("\n") + 1)
    return types.SimpleNamespace(line_nb=before.count("\n") + 1, column_nb=column + 1)


def _theorem(name: str, proof: str | None, start: str, node: str) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        theorem=types.SimpleNamespace(full_name=name, file_path="A.lean"),
        start=_position(start),
        has_tactic_proof=lambda: proof is not None,
        get_tactic_proof=lambda: proof,
        get_proof_node=lambda: types.SimpleNamespace(start=_position(node)),
    )


def test_a_traced_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a stand-in with lean-dojo's names: no real trace was run."""
    (tmp_path / "A.lean").write_text(LEAN_FILE)
    theorems = [
        _theorem("first", None, "theorem first", "rfl"),
        _theorem("second", "  intros\n  rfl", "theorem second", "by\n  intros"),
        _theorem("third", "trivial", "theorem third", "by trivial"),
    ]
    asked: list[Any] = []
    fake = types.ModuleType("lean_dojo")
    fake.LeanGitRepo = lambda url, commit: asked.append((url, commit))  # type: ignore[attr-defined]
    fake.trace = lambda repo: types.SimpleNamespace(  # type: ignore[attr-defined]
        root_dir=tmp_path, get_traced_theorems=lambda: theorems
    )
    monkeypatch.setitem(sys.modules, "lean_dojo", fake)
    found = open_benchmark("leandojo:https://example.org/a@v1")
    assert asked == [("https://example.org/a", "v1")]
    assert [(e.problem.id, e.reference) for e in found.entries] == [
        ("second", "intros\n  rfl"),
        ("third", "trivial"),
    ]
    second = found.problems[0]
    assert second.preamble == "import Mathlib\n\ntheorem first : 1 = 1 := rfl\n\n"
    assert second.statement == f"theorem second (n : ℕ) : n = n := by\n  {HOLE}\n"
    assert second.informal == "Two."
    assert [(e.id, e.reason) for e in found.refused] == [
        ("first", "its proof is a term, not tactics")
    ]
    with pytest.raises(ProblemError, match="write leandojo:URL@COMMIT"):
        open_benchmark("leandojo:nowhere")


def test_without_lean_dojo_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lean_dojo", None)
    with pytest.raises(UsageError, match=r"needs lean_dojo, .* -e '\.\[leandojo\]'$"):
        open_benchmark("leandojo:https://example.org/a@v1")


def test_a_selection_is_even_over_each_level_and_says_what_it_lacks() -> None:
    whole = open_benchmark("dafny/curriculum/train.jsonl")
    few = whole.select(per_level=20)
    assert Counter(p.level for p in few.problems) == dict.fromkeys(range(1, 6), 20)
    of_one = [e.problem.id for e in whole.entries if e.problem.level == 1]
    assert [p.id for p in few.problems if p.level == 1] == of_one[::24]  # 480 problems, 20 of them
    lemmas = whole.select(levels=(4, 5), families=("l4_*", "l1_acc"))
    assert len(lemmas.problems) == sum(p.family.startswith("l4_") for p in whole.problems) == 480
    assert lemmas.selection == "levels 4,5; families l4_*,l1_acc"
    assert whole.select().entries == whole.entries
    with pytest.raises(ProblemError, match="has no problem of level 9, family l6"):
        whole.select(levels=(1, 9), families=("l1_*", "l6"))
    with pytest.raises(ProblemError, match="holds no problem"):
        whole.select(levels=(2,), families=("l1_acc",))
    with pytest.raises(ProblemError, match="has 480 such problems of level 1, not 481"):
        whole.select(per_level=481)


# Conversion and overlap -------------------------------------------------------------------------


def test_a_converted_file_is_the_benchmark(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "tasks.jsonl", TASK, {**TASK, "id": "bad", "hints_removed": "}"})
    found = open_benchmark(str(source))
    problems, refusals, source_file = write_benchmark(found, tmp_path / "out" / "mine.jsonl")
    assert load_problems(problems)[0].statement == found.problems[0].statement
    assert load_references(problems) == {"count": TRUTH}
    again = open_benchmark(str(problems))
    assert [p.id for p in again.problems] == ["count"]
    assert again.problems[0].metadata["licence"] == found.licence
    assert refusals == tmp_path / "out" / "mine.refused.jsonl"
    (refused,) = [json.loads(line) for line in refusals.read_text().splitlines()]
    assert (refused["id"], refused["where"]) == ("bad", f"{source}, line 2")
    described = json.loads(source_file.read_text())
    reason = refused["reason"]
    assert described == {
        "source": str(source),
        "source_sha256": benchmark_sha256(source),
        "layout": "dafnybench_tasks",
        "selection": "",
        "licence": "not known here; see its publisher",
        "problems": 1,
        "problems_sha256": benchmark_sha256(problems),
        "with_reference": 1,
        "splits": {"heldout": 1},
        "refused": 1,
        "reasons": {reason: 1},
    }
    # A second conversion without refusals leaves none of the first behind.
    write_rows(source, TASK)
    assert write_benchmark(open_benchmark(str(source)), problems) == [problems, source_file]
    assert not refusals.exists()
    with pytest.raises(UsageError, match="is read by this command; write to another file"):
        write_benchmark(open_benchmark(str(source)), source)
    with pytest.raises(UsageError, match=r"written as \.jsonl"):
        write_benchmark(open_benchmark(str(source)), tmp_path / "x.json")


def test_a_converted_file_keeps_the_licence_of_each_problem(tmp_path: Path) -> None:
    ours, out = "dafny/curriculum/valid.jsonl", tmp_path / "a.jsonl"
    _, said, _ = invoke("problems", "convert", ours, "--out", str(out))
    assert "\nlicence: Apache-2.0\n" in said
    (mine, *others) = load_problems(out)
    assert {problem.metadata["licence"] for problem in (mine, *others)} == {"Apache-2.0"}
    # Somebody else's, one that states its licence and one that does not, in one file with ours.
    theirs = replace(others[0], id="b", origin="theirs", metadata={"licence": "MIT"})
    silent = replace(others[0], id="c", origin="theirs", metadata={})
    mine = replace(mine, metadata={})
    write_problems(tmp_path / "mixed.jsonl", map(make_row, (theirs, mine, silent)))
    mixed = open_benchmark(str(tmp_path / "mixed.jsonl"))
    problems, source_file = write_benchmark(mixed, tmp_path / "out.jsonl")
    found = [problem.metadata["licence"] for problem in load_problems(problems)]
    assert found == ["MIT", "Apache-2.0", "not known here; see its publisher"]
    assert json.loads(source_file.read_text())["licence"] == "; ".join(found)


def _lean(name: str, claim: str) -> Problem:
    return problem_from_statement(name, f"theorem {name} {claim} := by", header="import Mathlib")


def test_problems_that_say_the_same_are_found() -> None:
    a, b = _lean("a", "(n : ℕ) : n = n"), _lean("b", "(n : ℕ)\n    : n = n -- why\n")
    other = _lean("c", "(n : ℕ) : n = n + 0")
    assert key_statement(a) == key_statement(b) != key_statement(other)
    assert find_repeats([a, other, b]) == [("a", "b")]
    taken = [_lean(f"x{i}", ": 1 = 1") for i in range(2)]
    assert count_taken("minif2f", taken) == {}
    dafny = [
        Problem(name, "dafny", "annotate", "", f"lemma L() {{}}\n{HOLE}")
        for name in (
            "Clover_abs",
            "dafny-synthesis_task_id_2",
            "dafny-synthesis_task_id_3",
            "Other",
        )
    ]
    assert count_taken("dafnybench", dafny) == {"clover": 1, "mbpp-dfy": 2}


# Commands ---------------------------------------------------------------------------------------


def test_convert_list_and_show(tmp_path: Path) -> None:
    twice = {**TASK, "id": "again"}
    source = write_rows(tmp_path / "dafnybench_tasks.jsonl", TASK, twice, {**TASK, "id": ""})
    out = tmp_path / "o.jsonl"
    code, text, warnings = invoke("problems", "convert", str(source), "--out", str(out))
    assert code == 0
    assert text.startswith(f"2 problems, 1 refused (dafnybench_tasks), from {source}\n")
    assert f"sha256 of the source: {benchmark_sha256(source)}" in text
    assert "refused 1: field 'id' is missing or empty; add it" in text
    assert "warning: 1 are stated twice in it: count = again" in warnings
    for file in (source, out):
        code, text, _ = invoke("problems", "list", str(file), "--ids")
        assert (code, text) == (0, "count\nagain\n")
    known = ("problems", "list", str(source), "--format")
    code, text, _ = invoke(*known, "dafnybench_tasks", "--ids")
    assert (code, text) == (0, "count\nagain\n")
    code, _, said = invoke(*known, "goedel")
    assert (code, "is not of the format goedel" in said) == (2, True)
    code, text, _ = invoke("problems", "list")
    assert code == 0
    assert "looked for in" in text
    code, text, _ = invoke("problems", "show", str(source), "count", "--reference")
    assert text.startswith(
        f"// count: level 0, dafnybench-tasks, hole: annotate\n{BLANK}\n{HOLE}\n"
    )
    assert "// prompt, layout dafny\n[system]\n" in text
    assert f"// reference body\n{TRUTH}" in text
    code, _, message = invoke("problems", "show", str(source), "line 3")
    assert (code, message) == (2, f"{source} has no problem 'line 3'; the nearest id is 'again'")


def test_show_of_a_lean_problem_and_of_a_refused_one(tmp_path: Path) -> None:
    bad = {**LEAN_ROW, "name": "bad", "formal_statement": "theorem bad : True"}
    source = write_rows(tmp_path / "a.jsonl", LEAN_ROW, bad)
    code, text, _ = invoke("problems", "show", str(source), "t", "--prompt", "kimina")
    assert code == 0
    assert f"import Mathlib\n\ntheorem t : 1 + 1 = 2 := by\n  {HOLE}\n" in text
    assert "-- prompt, layout kimina\n[system]" in text
    code, _, message = invoke("problems", "show", str(source), "bad")
    assert (code, "'bad' was refused: the statement must end in" in message) == (2, True)
    code, _, message = invoke("problems", "show", str(source), "t", "--prompt", "none")
    assert (code, "use one of plain" in message) == (2, True)


# Evaluation -------------------------------------------------------------------------------------


class AnsweringPolicy:
    """Gives back the text that it has for a problem."""

    version = 0
    engine = "answering"
    layout: LayoutName = "dafny"
    before = NOTHING_BEFORE

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers

    def prompt(self, problem: Problem) -> Prompt:
        return Prompt(problem.id, problem.statement, (1,))

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        raise AssertionError("whole proofs have one turn")

    def close(self) -> None:
        """Nothing is open."""

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        return [
            [
                Completion(
                    f"```dafny\n{self.answers[prompt.problem_id]}```",
                    prompt.token_ids,
                    (5,),
                    (-1.0,),
                    "stop",
                    0,
                )
                for _ in range(n)
            ]
            for prompt in prompts
        ]


def _evaluate(path: Path, run: Path, policy: AnsweringPolicy, monkeypatch: Any) -> dict[str, Any]:
    monkeypatch.setattr(evaluate_run, "open_policy", lambda config, from_run: policy)
    config = parse_config(
        {
            "run": str(run),
            "evaluation": {"samples": 1, "ks": [1], "max_problems": 0},
            "pool": {"workers": 1, "rlimit": 20_000_000},
        },
        source="test",
    )
    asyncio.run(
        evaluate_run.evaluate_benchmarks(config, from_run=None, benchmarks={"bench": str(path)})
    )
    loaded: dict[str, Any] = json.loads((run / "evals" / "bench.json").read_text())
    return loaded


@pytest.mark.slow
@pytest.mark.dafny
def test_an_evaluation_on_a_foreign_file_with_real_dafny(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three problems the policy proves one, gives one back as it was, and cheats on one; a
    fourth line is refused and counted."""
    rows = [{**TASK, "id": name} for name in ("proved", "blank", "cheat")]
    path = write_rows(tmp_path / "tasks.jsonl", *rows, {**TASK, "id": "", "x": 1})
    cheat = TRUTH.replace("  ensures r == n\n", "")
    policy = AnsweringPolicy({"proved": TRUTH, "blank": BLANK, "cheat": cheat})
    result = _evaluate(path, tmp_path / "run", policy, monkeypatch)
    assert (result["benchmark_layout"], result["benchmark_refused"]) == ("dafnybench_tasks", 1)
    assert result["benchmark_sha256"] == benchmark_sha256(path)
    assert result["levels"][0]["pass"]["1"]["value"] == pytest.approx(1 / 3)
    lines = (tmp_path / "run" / "evals" / "bench.jsonl").read_text().splitlines()
    found = {row["problem_id"]: row["status"] for row in map(json.loads, lines)}
    assert found == {"proved": "proved", "blank": "rejected", "cheat": "unsound"}


def test_a_lean_benchmark_without_lean_says_what_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ELAN_HOME", str(tmp_path))
    monkeypatch.delenv("PROVERRL_LEAN", raising=False)
    path = write_rows(tmp_path / "lean.jsonl", LEAN_ROW)
    with pytest.raises(ProverRLError, match=r"run: bash scripts/setup_lean\.sh"):
        _evaluate(path, tmp_path / "run", AnsweringPolicy({}), monkeypatch)
