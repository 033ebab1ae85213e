"""``problems check``: faults with their lines, and the examples of docs/problems.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proverrl.cli import second_look
from proverrl.cli.main import cli
from proverrl.lang import find_language
from proverrl.lang.dafny.syntax.hint_grammar import _HARMLESS_ATTRIBUTES, FORMS, STATEMENTS
from proverrl.problems.check import check_file
from proverrl.problems.load import write_problems
from proverrl.verifier.cache import CachedVerifier
from proverrl.verifier.router import Backend, RoutedVerifier
from tests import ROOT
from tests.instant_worker import InstantPool

PAGE = ROOT / "docs" / "problems.md"
EXAMPLES = [
    json.loads(text) for text in re.findall(r"```json\n(.*?)\n```", PAGE.read_text("utf-8"))
]


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["problems", "check", *words])


def test_there_is_an_example_of_each_kind_and_none_is_at_fault(tmp_path: Path) -> None:
    shown = {(row["language"], row["kind"]) for row in EXAMPLES}
    known = {("dafny", kind) for kind in find_language("dafny").kinds}
    known |= {("lean", kind) for kind in find_language("lean").kinds}
    # Bare files, and holes that the lab fills from words.
    words = {("dafny", "contract"), ("lean", "proposition")}
    assert known - shown == {("dafny", "file"), ("lean", "file"), *words}
    write_problems(tmp_path / "p.jsonl", EXAMPLES)
    done = run(str(tmp_path / "p.jsonl"))
    num = len(EXAMPLES)
    assert done.output.endswith(f"p.jsonl: {num} problems, {num} with a reference; 0 faults\n")
    assert done.exit_code == 0


def test_the_page_names_each_form_that_a_hole_may_hold() -> None:
    section = PAGE.read_text("utf-8").partition("## What a hole may hold")[2].partition("\n## ")[0]
    words = {*STATEMENTS, *FORMS} - {"{", "exists", "set", "iset", "map", "imap"}
    words |= {f"{{:{name}}}" for name in _HARMLESS_ATTRIBUTES} | {*find_language("dafny").kinds}
    assert [word for word in sorted(words - {"ghost", "file"}) if f"`{word}" not in section] == []


@pytest.mark.dafny
@pytest.mark.slow
def test_dafny_proves_the_examples_and_nothing_else(tmp_path: Path) -> None:
    rows = [row for row in EXAMPLES if row["language"] == "dafny"]
    path = tmp_path / "p.jsonl"
    write_problems(path, rows)
    done = run(str(path), "--prove", "--workers", "1", "--timeout", "60")
    assert f"{len(rows)} with a reference; 0 faults, {len(rows)} proved" in done.output
    wrong = rows[1] | {"id": "wrong", "reference": "", "statement": rows[1]["statement"] + "\n"}
    write_problems(path, [wrong])
    done = run(str(path), "--prove", "--workers", "1", "--timeout", "60")
    assert done.exit_code == 1
    assert (
        "p.jsonl, line 1: problem 'wrong': its reference is rejected: A postcondition"
        in done.output
    )


def test_a_language_that_is_missing_costs_its_own_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []

    def open_fake(**options: Any) -> CachedVerifier:
        limits.append((options["rlimit"], options["appeal_factor"]))
        pool = InstantPool(1).pool
        router = RoutedVerifier({"dafny": lambda: Backend("fake", "fake 1", "s", pool)})
        return CachedVerifier(router, None, identify=router.identify)

    monkeypatch.setattr(second_look, "open_verifier", open_fake)
    write_problems(tmp_path / "p.jsonl", EXAMPLES)
    done = run(str(tmp_path / "p.jsonl"), "--prove")
    numbers = [n for n, row in enumerate(EXAMPLES, start=1) if row["language"] == "lean"]
    assert done.exit_code == 3
    *faults, last = done.output.splitlines()
    assert sorted(faults) == sorted(
        f"{tmp_path}/p.jsonl, line {n}: lean is not judged here; this verifier has: dafny"
        for n in numbers
    )
    assert last.endswith(f"{len(numbers)} faults, {len(EXAMPLES) - len(numbers)} proved")
    run(str(tmp_path / "p.jsonl"), "--prove", "--rlimit", "400000")
    assert limits == [(30_000_000, 2.0), (400_000, 2.0)]


def make(**changes: Any) -> dict[str, Any]:
    return {**EXAMPLES[0], **changes}


def test_every_fault_is_said_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    good = make()
    lines = [
        json.dumps(good),
        "{",
        json.dumps(make(id="b", kind="invariant")),
        "",
        json.dumps({key: value for key, value in make(id="c").items() if key != "statement"}),
        json.dumps(good),
        json.dumps(make(id="d", statement="method M() {}")),
        json.dumps(make(id="e", reference="invariant true\nassume false;")),
        json.dumps(make(id="f")),
        json.dumps(make(id="g", hint="x")),
        "[1]",
        json.dumps(make(id="h", statement=good["statement"].replace("Double", "Twice"))),
        json.dumps(make(id="k", preamble="lemma K() ensures 1 == 2 { assume false; }\n")),
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    found = check_file(path)
    faults = [fault.removeprefix(f"{path}, ") for fault in found.faults]
    begin = [
        "line 2: not JSON at column",
        "line 3: field 'kind' is 'invariant'; use one of",
        "line 5: field 'statement' is missing; add it",
        "line 6: field 'id': 'double' is already used on line 1",
        "line 7: problem 'd': its statement must hold the marker",
        "line 8: problem 'e': the audit does not admit its own proof: line",
        f"line 9: problem 'f': it states what {path}, line 1 does",
        "line 10: field 'hint' is not known",
        "line 11: a list, not a JSON object",
        "line 13: problem 'k': the problem assumes something, of which a proof may then be made: "
        "line 1: keywords: 'assume' assumes what is to be proved",
    ]
    assert len(faults) == len(begin)
    assert all(fault.startswith(text) for fault, text in zip(faults, begin, strict=True)), faults
    assert [problem.id for _, problem, _ in found.right] == ["double", "h"]
    done = run(str(path))
    assert done.exit_code == 1
    assert done.output.endswith("12 problems, 2 with a reference; 10 faults\n")
    (tmp_path / "none.jsonl").write_text("")
    assert "holds no problem" in str(run(str(tmp_path / "none.jsonl")).exception)


def test_a_reference_whose_invariants_dafny_cannot_get_is_found_without_dafny(
    tmp_path: Path,
) -> None:
    """Two invariants, one of them of a partial function, in a program with a variable in a case."""
    statement = (
        "datatype D = A | B(d: D)\n"
        "function F(d: D, n: int): int requires n > 0\n"
        "{ match d case A => 1 case B(e) => F(e, n) }\n"
        "method M(d: D)\n{\n  var n := 5;\n  while n > 1\n    /*{HOLE}*/\n"
        "  { n := n - 1; }\n}\n"
    )
    apart = "invariant n > 0\ndecreases n\ninvariant F(d, n) == 1"
    rows = [
        make(id="joined", statement=statement, reference="invariant n > 0\ninvariant F(d, n) == 1"),
        make(id="apart", statement=statement + "\n", reference=apart),
    ]
    write_problems(tmp_path / "p.jsonl", rows)
    found = check_file(tmp_path / "p.jsonl")
    assert [problem.id for _, problem, _ in found.right] == ["joined"]
    assert [fault.partition(": ")[2] for fault in found.faults] == [
        "problem 'apart': the audit does not admit its own proof: line 10: grammar: write the "
        "invariants of this loop one after the other"
    ]
