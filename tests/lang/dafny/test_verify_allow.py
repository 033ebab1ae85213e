"""``verify --allow`` and ``--dafny-arg``: what a word admits, what not, and that it shows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.errors import UsageError
from proverrl.lang.dafny.audit.arguments import check_arguments
from proverrl.lang.dafny.audit.bodies import audit, audit_candidate, list_trusted
from proverrl.lang.dafny.verify.judge import make_options
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.lang.trusted import ALLOWED, read_words
from proverrl.types import FILE, HOLE, Candidate, Problem, Status
from proverrl.verifier.base import Limits
from tests import ROOT

ATTACKS = [
    json.loads(path.read_text()) for path in sorted((ROOT / "tests" / "attacks").glob("*.json"))
]
ADMITS = {
    "assume": [
        "method M() ensures false { assume false; }",
        "function F(): int { assume false; 1 }",
        "method M() ensures false { expect false; }",
        "method M() ensures 1 == 2 { while true }",
        "method M() { for i := 0 to 3 }",
        "lemma L() { forall x: int ensures x == x + 1; }",
        "lemma L() { var x: int :| assume x != x; }",
    ],
    "axiom": [
        "lemma L() ensures false",
        "lemma {:axiom} L() ensures false",
        "lemma extern(x: int) ensures false",
        "function F(): int ensures false",
        "lemma {:verify false} L() ensures false { }",
        "trait T { static lemma L() ensures false }",
        "trait {:termination false} T { }",
    ],
    "extern": [
        "method {:extern} M() ensures false",
        'class {:extern "C"} C { method M() ensures false }',
    ],
    "decreases-star": [
        "method M() ensures false decreases * { while true decreases * { } }",
    ],
    "abstract": [
        "abstract module A { lemma L() ensures false }",
        "abstract module A { lemma L() ensures 1 == 1 } module B refines A { lemma L() { } }",
        "abstract module A { method M(x: int) { assert x == x; while x < 3 { } } }\n"
        "module B refines A { method M ... { assert ...; while ... invariant true { ...; } } }",
        "abstract module A { class C { function F(x: int): int } }\n"
        "module B refines A { class C ... { function F ... { if x == 1 then 2 else 3 } } }",
        "trait T { method M() ensures false }",
    ],
}
NEVER = [
    "lemma L() ensures false decreases * { L(); }",
    "ghost method L() ensures false decreases * { L(); }",
    "method M() free ensures false { }",
    "class {:autocontracts} C { }",
    "lemma L() ensures false { assert {:only} true; }",
    'module A { include "b.dfy" }',
    "trait S { } trait T { } class C extends S, T { }",
    "lemma L() ensures g == 0 { assert g == 0 by { g := 0; } }",
]


@pytest.mark.parametrize("word", ALLOWED)
def test_a_word_admits_what_it_names_and_no_other_word_does(word: str) -> None:
    others = tuple(other for other in ALLOWED if other != word)
    for text in ADMITS[word]:
        refused = audit("file", text)
        assert {finding.trust for finding in refused} == {word}, text
        assert audit("file", text, allowed=(word,)) == [], text
        assert audit("file", text, allowed=others) == refused, text
        counted = list_trusted(text, (word,))
        assert counted, text
        assert all(finding in refused for finding in counted), text


def test_the_attribute_of_an_assumption_is_no_second_one() -> None:
    text = "lemma {:axiom} A() ensures 1 == 2\nlemma L() { assume {:axiom} 1 == 2; }"
    counted = Counter(finding.trust for finding in list_trusted(text, tuple(ALLOWED)))
    assert counted == {"assume": 1, "axiom": 1}


@pytest.mark.parametrize("text", NEVER)
def test_no_word_admits_it(text: str) -> None:
    assert audit("file", text, allowed=tuple(ALLOWED))


def test_attacks_are_admitted_by_what_they_believe_alone() -> None:
    """Of the files that cheat, each word admits those that only use what it names."""
    admitted: Counter[str] = Counter()
    for case in ATTACKS:
        if case["kind"] != FILE or not (found := audit(FILE, case["body"])):
            continue
        words = {finding.trust for finding in list_trusted(case["body"], tuple(ALLOWED))}
        if not audit(FILE, case["body"], allowed=tuple(ALLOWED)):
            admitted["+".join(sorted(words))] += 1
            assert all(finding.trust for finding in found), case["name"]
        for word in ALLOWED:
            assert bool(audit(FILE, case["body"], allowed=(word,))) == (
                not all(finding.trust == word for finding in found)
            ), case["name"]
    assert admitted == {
        "abstract": 4,
        "assume": 15,
        "axiom": 38,
        "decreases-star": 2,
        "extern": 2,
    }


@pytest.mark.parametrize("kind", ["statements", "annotate", "program"])
def test_a_problem_with_a_statement_never_has_a_word(kind: str) -> None:
    texts = {
        "statements": f"lemma L() ensures false {{ {HOLE} }}",
        "annotate": f"lemma L() ensures false {{ }}\n{HOLE}",
        "program": f"method M() ensures false\n{HOLE}\n",
    }
    bodies = {
        "statements": "assume false;",
        "annotate": "lemma L() ensures false { assume false; }",
        "program": "{ assume false; }",
    }
    candidate = Candidate(Problem("p", "dafny", kind, "", texts[kind]), bodies[kind])
    strict, open_ = audit_candidate(candidate), audit_candidate(candidate, tuple(ALLOWED))
    assert strict is not None
    assert strict == open_
    assert "--allow" not in strict.diagnostics[0].message


KEY = "lemma L(m: map<int, int>) { forall k: int ensures m[k] == m[k] { } }"
OLDER = [
    ("unchecked-key", KEY),
    ("bit-measure", "lemma L(b: bv8) decreases b { L(b - 1); }"),
    ("names", "method M() {} lemma L() { assert true by { M(); } calc { 1; { M(); } 1; } }"),
    # Where it may be believed there, a wall asks for the types.
    ("narrow-type", "lemma L(s: seq<nat>, t: seq<int>) { var u := s + t; }"),
]
NEWER = [
    ("guarded-choice", "lemma L(s: set<int>) { assert s != {} && (var x :| x in s; x == x); }"),
    ("narrow-type", "lemma L(s: seq<nat>) requires s != [] { var u := s[0 := -1]; }"),
    ("guarded-choice", "lemma L() { while false decreases 1 + (var y: int :| y > 2; y) { } }"),
]


@pytest.mark.parametrize("dafny", ["", "2.3.0.10506", "4.10.0", "4.11.0"])
def test_what_only_dafny_2_believes_is_admitted_in_a_file_of_a_tested_dafny(dafny: str) -> None:
    for rule, text in (*OLDER, *NEWER):
        is_admitted = dafny == "4.11.0" and (rule, text) in OLDER
        found = {finding.rule for finding in audit("file", text, dafny=dafny)}
        assert found == (set() if is_admitted else {rule})
    hole = Problem("p", "dafny", "statements", "", f"lemma L(m: map<int, int>) {{ {HOLE} }}")
    body = "forall k: int ensures m[k] == m[k] { }"
    found = {finding.rule for finding in audit("statements", body, problem=hole, dafny=dafny)}
    assert found == {"unchecked-key"}


def test_the_message_names_the_word() -> None:
    candidate = Candidate(Problem("p", "dafny", FILE, "", HOLE), "lemma L() ensures false")
    verdict = audit_candidate(candidate)
    assert verdict is not None
    assert verdict.diagnostics[0].message == (
        "missing-body: this lemma has no body, so what it claims is not proved "
        "(--allow axiom has it believed)"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lemma {:axiom} A() ensures 1 == 2\n", ["axiom"]),
        ("function method {:extern} F(): int ensures F() == 3", ["extern"]),
        ('method {:trigger} {:extern "x"} M() ensures false', ["extern"]),
        ("lemma {:axiom} A() ensures 1 == 2\n{ }\nlemma B() ensures 1 == 2", ["axiom", "axiom"]),
        (
            "class {:extern} K { method {:extern} M() ensures false\r\nmethod N() ensures false }",
            ["extern"] * 3,
        ),
    ],
)
def test_a_member_without_a_body_counts_once(text: str, expected: list[str]) -> None:
    assert [found.trust for found in list_trusted(text, tuple(ALLOWED))] == expected


def test_what_only_dafny_4_believes_is_told() -> None:
    candidate = Candidate(Problem("p", "dafny", FILE, "", HOLE), "method M() { expect 1 == 2; }")
    verdict = audit_candidate(candidate)
    assert verdict is not None
    assert verdict.status is Status.UNSOUND
    assert [found.message for found in verdict.diagnostics] == [
        "keywords: 'expect' is believed, not proved (--allow assume has it believed)",
    ]


@pytest.mark.dafny
def test_a_program_of_dafny_4_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.dfy").write_text("method M(x: int)\n{\n  for i := 0 to x { }\n}\n")
    Path("b.dfy").write_text("method M() { expect 1 == 2; }\n")
    _, rows, _ = verify(".", "--allow", "assume", "--no-cache")
    for row, word in zip(rows.values(), ("for", "expect"), strict=True):
        said = [found["message"] for found in row["diagnostics"] if found["severity"] == "error"]
        assert row["status"] == "rejected"
        assert said[0].endswith(f"Dafny 2.3 has no {word!r}; it takes a Dafny 4 (proverrl doctor)")
        assert "invalid UpdateStmt" in said


def test_words_and_options_that_are_not_known() -> None:
    assert read_words(["extern, assume", "assume"]) == ("assume", "extern")
    with pytest.raises(UsageError, match="--allow anything: no such word; there are assume, axiom"):
        read_words(["assume,anything"])
    check_arguments(["/arith:2", "/noNLarith", "/definiteAssignment:3"], "2.3.0")
    check_arguments(["--function-syntax:3", "--standard-libraries", "--manual-triggers"], "4.11.0")
    for argument, version, reason in [
        ("/definiteAssignment:0", "2.3.0", "this value of /definiteAssignment may not be given"),
        ("/arith:2 /proc:x", "2.3.0", "this value of /arith may not be given"),
        ("/proc:x", "2.3.0", "a part of the program would not be verified"),
        ("/noCheating:0", "2.3.0", "use --allow, which counts what is believed"),
        ("/allocated:0", "2.3.0", "it changes what the program means"),
        ("/vcsCores:4", "2.3.0", "use -j of this command"),
        ("--allow-axioms", "4.11.0", "use --allow"),
        ("--allow-warnings", "4.11.0", "warnings fail no file here"),
        ("--boogie=/proc:x", "4.11.0", "it chooses the prover or its options"),
        ("--library=x.dfy", "4.11.0", "name the files themselves"),
        ("--function-syntax=3", "2.3.0", "not among the options that Dafny 2.3.0 may be given"),
        ("other.dfy", "2.3.0", "not among the options that Dafny 2.3.0 may be given: /arith,"),
    ]:
        with pytest.raises(UsageError, match=reason):
            check_arguments([argument], version)


def test_what_dafny_is_told_and_what_the_record_names() -> None:
    plain = DafnyToolchain("dafny", "2.3.0", None, "z3", "4.8.5")
    assert make_options(plain, Limits())[0] == "/noCheating:1"
    for allowed, cheating in [(("decreases-star",), 1), (("axiom",), 0), (tuple(ALLOWED), 0)]:
        told = DafnyToolchain("dafny", "2.3.0", None, "z3", "4.8.5", allowed, ("/arith:2",))
        options = make_options(told, Limits())
        assert (options[0], options[-1]) == (f"/noCheating:{cheating}", "/arith:2")
        words = ", ".join(allowed)
        assert told.name == f"{plain.name}, allowing {words}, /arith:2"
        assert told.plain == plain


def verify(*words: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    done = CliRunner().invoke(cli, ["verify", "-j", "1", "--json", *words])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return done.exit_code, {row["id"]: row for row in rows}, done.stderr or str(done.exception)


def test_where_it_may_not_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    problem = {"id": "p", "kind": "statements", "statement": f"lemma L() {{ {HOLE} }}"}
    line = {"id": "a", "problem": {"preamble": "", **problem}, "body": ""}
    Path("a.jsonl").write_text(json.dumps(line) + "\n")
    for option in (("--allow", "axiom"), ("--dafny-arg", "/arith:2")):
        status, rows, _ = verify("a.jsonl", *option)
        assert (status, rows["a"]["cause"]) == (2, "bad-problem")
        assert rows["a"]["message"].endswith("are for bare files, and this has a statement")
        _, _, said = verify("a.jsonl", *option, "--server", "http://127.0.0.1:9")
        assert said.endswith("are for what is judged here: leave out --server")


@pytest.mark.dafny
@pytest.mark.slow
def test_each_use_is_counted_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("a.dfy").write_text(
        "lemma L(x: int) ensures x > 3\n"
        "method M() ensures 1 == 2 { L(1); assume 1 == 1; }\n"
        "method N() decreases * { while true decreases * { } }\n"
    )
    Path("b.dfy").write_text("lemma B() ensures 1 + 1 == 2 { }\n")
    Path("c.dfy").write_text("lemma {:axiom} C() ensures 1 == 1\nlemma D() ensures 1 == 2 { }\n")
    status, rows, _ = verify(".", "--allow", "axiom")
    assert (status, [row["status"] for row in rows.values()]) == (
        1,
        ["unsound", "proved", "rejected"],
    )
    words = ("--allow", "axiom,assume", "--allow", "decreases-star")
    out = ("--junit", "j.xml", "--dafny-arg", "/arith:2")
    status, rows, said = verify(".", *words, *out)
    assert (status, [row["status"] for row in rows.values()]) == (
        1,
        ["proved", "proved", "rejected"],
    )
    believed = ["believed:assume:1", "believed:axiom:1", "believed:decreases-star:2"]
    assert rows["a.dfy"]["believed"] == {"assume": 1, "axiom": 1, "decreases-star": 2}
    assert rows["b.dfy"]["believed"] == {}
    assert "no-missing-body" not in rows["a.dfy"]["checks"]
    assert "no-missing-body" in rows["b.dfy"]["checks"]
    assert [(d["severity"], d["line"], d["column"]) for d in rows["a.dfy"]["diagnostics"]] == [
        ("info", 2, 34),
        ("info", 3, 21),
        ("info", 3, 46),
        ("info", 1, 0),
    ]
    plain = CliRunner().invoke(cli, ["verify", "-j", "1", "--plain", "a.dfy", *words])
    assert plain.stdout == "a.dfy: proved (believed: 1 assume, 1 axiom, 2 decreases-star)\n"
    toolchain = rows["b.dfy"]["toolchain"]
    assert toolchain.endswith(", allowing assume, axiom, decreases-star, /arith:2")
    assert said.endswith("believed, not proved: 1 assume, 2 axiom, 2 decreases-star\n")
    properties = ElementTree.parse("j.xml").findall(".//testcase[@name='a.dfy']//property")
    assert [p.get("name", "") + ":" + p.get("value", "") for p in properties] == believed


@pytest.mark.dafny
@pytest.mark.slow
def test_what_was_believed_is_no_part_of_a_stricter_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = "lemma {:axiom} L() ensures 1 == 2\nlemma M() ensures 1 == 2 { L(); }\n"
    Path("a.dfy").write_text(text)
    done = CliRunner().invoke(cli, ["verify", "a.dfy", "--allow", "axiom", "--out", "v.jsonl"])
    assert done.exit_code == 0
    # Neither the cache nor a file that is continued brings it in.
    assert verify("a.dfy")[1]["a.dfy"]["status"] == "unsound"
    _, _, said = verify("a.dfy", "--out", "v.jsonl", "--resume", "--allow", "assume")
    assert "the verdict on a.dfy rests on other judges, limits or options than are asked" in said
    assert verify("a.dfy", "--out", "v.jsonl", "--resume", "--allow", "axiom")[0] == 0


@pytest.mark.dafny
@pytest.mark.slow
def test_dafny_believes_no_attack_that_the_words_do_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that the audit admits without a word, under Dafny that believes what is assumed."""
    monkeypatch.chdir(tmp_path)
    for case in ATTACKS:
        if case["kind"] == FILE and not audit(FILE, case["body"]):
            Path(f"{case['name']}.dfy").write_text(case["body"])
    status, rows, _ = verify(".", "--allow", ",".join(ALLOWED))
    assert status == 1
    assert len(rows) == 45
    assert {row["status"] for row in rows.values()} <= {"rejected", "unsound"}
