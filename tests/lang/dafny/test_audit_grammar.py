"""The audit of bodies: what is admitted, what is refused and why, and that nothing gets through.

Property tests feed token soup and random bytes: the audit never raises, what it admits is
balanced, and our text stays in the assembled file.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.errors import ProblemError
from proverrl.lang import find_language
from proverrl.lang.dafny.audit.bodies import HOLE_KINDS, audit, audit_candidate
from proverrl.lang.dafny.audit.files import audit_file
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.hint_grammar import parse_body
from proverrl.lang.dafny.syntax.plain import make_plain, write_plain
from proverrl.lang.dafny.syntax.program import read_program
from proverrl.lang.dafny.syntax.tokens import find_places, read_body, read_file, scan_any
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem, Status
from tests import ROOT

EXAMPLES = ROOT.parent / "shared" / "data" / "dafny_curriculum_examples.jsonl"

ADMITTED = {
    "invariants": [
        "",
        "invariant 0 <= i <= n\ninvariant r == 2 * i",
        "invariant 0 <= i <= n;\ndecreases n - i;",
        "decreases n - i, |s|",
        "invariant forall q, p: int | 0 <= q < i :: a[q] < a[p] ==> exists k :: b[k] == q",
        "invariant multiset(a[..]) == multiset(old(a[..]))",
        "invariant s == a[..i] + [x] + a[i..j] + a[j..]",
        "invariant a[i := x] == b && m[k := v] == map[1 := 2, 3 := 4]",
        "invariant set x | x in s && x > 0 :: x * 2 <= {} && iset{1} != iset x | x in t",
        "invariant |set q | q in s && |t| > 0 :: q| == |s|",
        "invariant map x | x in s :: x + 1 == m",
        "invariant (var y := 2 * x; y) == r && (var (a, b) := p; a) > 0",
        "invariant if x > 0 then y else -z == w",
        "invariant match u case Nil => true case Cons(h, t) => h >= 0",
        "invariant match u { case Nil => true case Cons(h, Cons(g, t)) => h >= 0 }",
        "invariant !P(x) && x !in s && s !! t && x in t",
        "invariant F<int>(x) == G<seq<int>, T>(y).field.0 && d.(head := 3).Cons?",
        "invariant Map(s, x => x + 1) == t && Fold((x, y: int) => x, 0, t) == 0",
        "invariant x as real / 2.0 == y && 'a' == c && \"text\" != s && 0x1F == 1_000",
        "invariant fresh(c) && allocated(d) && unchanged(a) && this != null",
        "invariant a == b <==> (c <== d ==> e || f)",
        "invariant x' == y? && _z == 1",
        "invariant && x\n  && y ==> || z || b & c == b | c ^ d << 1 >> 2",
        "invariant s[0].1.1 == '\\n' && '\\\\' != '\\u0041' && |b| | c == d",
    ],
    "statements": [
        "",
        "if n > 0 { L(n - 1); }",
        "if n > 0 { L(n - 1); } else if n == 0 { } else { assert true; }",
        "match u { case Nil => case Cons(h, t) => L(t); M(t, h); }",
        "if x :| P(x) { L(x); } else if y: nat, z :| y < z { }",
        "assert s + [x] == [x];\nM.L<int>(s[1..], x);",
        "assert x > 0 by { L(x); }",
        "forall x: int | x > 0 ensures P(x) { L(x); }",
        "forall (x | x in s) { L(x); }",
        "forall x ensures P(x); { L(x); }",
        "calc == { x; == { L(x); } y; <= calc { y; z; } z; }",
        "calc { 1; }",
        "var y := x + 1;\nghost var z: int, w := 1, 2;\nvar q :| q > 0;",
        "var Cons(h, t) := u;",
        "{ assert true; { L(1); } }",
        "if x > 0 { match u case Nil => L(); case Cons(h, t) => }",
        "if { case x > 0 => L(x); case y: int :| P(y) => case x <= 0 => }",
        "var f := (x: int, y) => x + y;",
        "assert {:split_here} x;",
        "assert x as bv64 == y as bv0032;",
        "reveal F(), G();",
        "this.L(x);",
        "// why\nassert x; /* and /* how */ */ // end",
        "assert {:autotriggers false} forall y {:trigger P(y)} :: P(y);",
        "assert x ≤ y ⇔ ¬(y < x) by { reveal F(); }",
        "assert ∀z•∃ y :: z ≠ y ∨ y ≥ z ∧ (z == y ⇒ y == z) ⇐ true;",
        'assert "// no comment" == "/*"; assert c\' != \'/\';',
    ],
    "calc": [
        "",
        "== a + b;\n== { L(x); } c;\n==",
        "==> { assert true; } { L(1); }",
        "a;\nb;",
        "calc { 1; } x;",
    ],
    "assertions": ["", "// nothing", "assert x > 0;\nassert y by { L(y); }"],
}

REFUSED = [
    ("invariants", "invariant", "syntax", "grammar", 1, 9),
    ("invariants", "invariant x ==\ninvariant y", "syntax", "grammar", 2, 0),
    ("invariants", "assert x;", "syntax", "grammar", 1, 0),
    ("invariants", "invariant a < b > {}", "syntax", "grammar", 1, 18),
    ("invariants", "invariant match x", "syntax", "grammar", 1, 17),
    ("invariants", "invariant (L(x); true)", "syntax", "grammar", 1, 15),
    ("invariants", "invariant x;;", "syntax", "grammar", 1, 12),
    ("invariants", "invariant x =>  y", "syntax", "grammar", 1, 12),
    ("invariants", "invariant x = y", "syntax", "grammar", 1, 12),
    ("invariants", "invariant 3abc", "syntax", "characters", 1, 10),
    ("invariants", "invariant x $ y", "syntax", "characters", 1, 12),
    ("invariants", "decreases *", "cheat", "wildcard", 1, 10),
    ("statements", "x := 1;", "cheat", "assignment", 1, 2),
    ("statements", "x + 1;", "syntax", "grammar", 1, 2),
    ("statements", "x;", "syntax", "grammar", 1, 1),
    ("statements", "match u case Nil =>", "syntax", "grammar", 1, 8),
    ("statements", "match u { }", "syntax", "grammar", 1, 10),
    ("statements", "if case x > 0 => L(x);", "syntax", "grammar", 1, 3),
    ("statements", "assert x as bv65 == y;", "syntax", "size", 1, 12),
    ("statements", "var x: seq<bv1000> := y;", "syntax", "size", 1, 11),
    ("statements", "if { } else { }", "syntax", "grammar", 1, 7),
    ("statements", "assert x | ;", "syntax", "grammar", 1, 11),
    ("statements", "assert 'a'';", "syntax", "characters", 1, 7),
    ("statements", "assert '\\'' == x;", "syntax", "characters", 1, 7),
    ("statements", "if * { }", "syntax", "grammar", 1, 3),
    ("statements", "if x, y { }", "syntax", "grammar", 1, 8),
    ("statements", "forall x ensures P(x);", "cheat", "missing-body", 1, 22),
    ("statements", "forall x :: P(x);", "syntax", "grammar", 1, 9),
    ("statements", "var x: int;", "syntax", "grammar", 1, 10),
    ("statements", "var x := *;", "syntax", "grammar", 1, 9),
    ("statements", "assert x", "syntax", "grammar", 1, 8),
    ("statements", "assert true; }", "cheat", "scope", 1, 13),
    ("statements", "assert (x];", "syntax", "grammar", 1, 9),
    ("statements", "  method M() {}", "syntax", "keywords", 1, 2),
    ("statements", "assert {:x} true;", "syntax", "attributes", 1, 9),
    ("statements", "assert x; /* /* */ y", "cheat", "comments", 1, 10),
    ("statements", "assert x; */", "cheat", "comments", 1, 10),
    ("statements", "assert \u0445;", "syntax", "characters", 1, 7),
    ("statements", "assert x;\u200b", "syntax", "characters", 1, 9),
    ("statements", "\ufeffassert x;", "syntax", "characters", 1, 0),
    ("statements", "assert x;\u202e", "cheat", "characters", 1, 9),
    ("statements", "assert x;\x1b", "cheat", "characters", 1, 9),
    ("statements", "/* ∀ */ assert x ≤ y; assume x;", "cheat", "keywords", 1, 22),
    ("statements", "assert ∀ a • a ∧ a ∨ $;", "syntax", "characters", 1, 21),
    ("statements", "assert x;\n/* long\n */ return;", "cheat", "keywords", 3, 4),
    ("statements", 'assert "/*" == "*/"; return;', "cheat", "keywords", 1, 21),
    ("statements", "label here: assert x;", "syntax", "keywords", 1, 0),
    ("statements", "var (a: int, b) := t;", "cheat", "typed-pattern", 1, 16),
    ("statements", "assert here: x;", "cheat", "labelled-assertion", 1, 13),
    ("statements", "calc { x; <== y; }", "cheat", "reversed-calc", 1, 10),
    ("statements", "assert x && (var y :| y; y);", "cheat", "guarded-choice", 1, 19),
    ("statements", "assert !(var y :| y; y);", "cheat", "guarded-choice", 1, 15),
    ("statements", "assert forall z :: (var y :| y; y);", "cheat", "guarded-choice", 1, 26),
    ("invariants", "invariant (var y :| y; y)", "cheat", "guarded-choice", 1, 17),
    ("invariants", "decreases (var y :| y; y)", "cheat", "guarded-choice", 1, 17),
    ("statements", "print x;", "syntax", "keywords", 1, 0),
    ("statements", "assert {:axiom} x;", "cheat", "attributes", 1, 9),
    ("assertions", "L(x);", "syntax", "grammar", 1, 0),
    ("calc", "== x", "syntax", "grammar", 1, 4),
    ("calc", "= x;", "syntax", "grammar", 1, 0),
    ("file", "lemma L() { assume true; }", "cheat", "keywords", 1, 12),
    ("file", "lemma L()\n// {}\n", "cheat", "missing-body", 1, 0),
    ("file", "lemma L() {", "syntax", "grammar", 1, 11),
    ("file", "lemma L() } {", "syntax", "grammar", 1, 10),
]

SOUND_FILES = [
    "function F(): int\nlemma L() {}\n",
    "method M()\n  ensures {1} == {1} {}\n",
    "lemma L<T>(s: set<T>)\n  requires |s| == 0\n  ensures s == {}\n{}\n",
    "lemma L() ensures forall v: array<int> | v.Length > 0 :: |v[..]| > 0 {}\n",
    "lemma L() ensures match 1 { case _ => true } {}\n",
    "lemma L() ensures var x := 1; x == 1 {}\n",
    "method M() { while {case false => {}} }\n",
    "method M(n: nat) { var i := 0; while i < n decreases n - i { i := i + 1; } }\n",
    'lemma {:induction false} L() { assert \'"\' != \'a\'; assert "/*" != "//"; }\n',
    "function method F(x: int): seq<int> { [x] } /* /* nested */ */ // end",
    "class C { }\nlemma L(s: set<C>) { forall c | c in s { } if c: C :| c in s { } }\n",
    "class C { }\nmethod M(s: set<C>) { ghost var x: C?; ghost var y: seq<C>; x :| x in s; }\n",
    "class C { }\npredicate P(c: C, k: int) { true }\nlemma L(c: C) { var k :| 0 <= k; }\n",
    "class C { }\nlemma L(c: C) { forall d: C | d == c { } assert L: true; reveal L; }\n",
    "datatype D = E | G(d: D)\nfunction S(d: D): int { 3 }\nlemma L(d: D) decreases S(d) { }\n",
    "type T = x: int | 0 < x witness 1\ntype Up = c | 'A' <= c <= 'Z' witness 'A'\n",
    "function F(): int { var x :| x == 3; if x == 3 then (var y :| y == 4; y) else 0 }\n",
]


@pytest.mark.parametrize(
    ("kind", "body"), [(kind, body) for kind, bodies in ADMITTED.items() for body in bodies]
)
def test_admitted(kind: str, body: str) -> None:
    assert audit(kind, body) == []


@pytest.mark.parametrize(("kind", "body", "category", "rule", "line", "column"), REFUSED)
def test_refused(kind: str, body: str, category: str, rule: str, line: int, column: int) -> None:
    found = audit(kind, body)[0]
    assert (found.category, found.rule, found.line, found.column) == (category, rule, line, column)


# What whole programs may hold and a hole may not, as statements.
ONLY_WHOLE = [
    *(
        f"assert {form};"
        for form in (
            "old@here(x)",
            "unchanged(a`f)",
            "int(x)",
            "P#[k](x)",
            "P#<T>[k](x)",
            "x ==#[k] y",
            "x is T",
            "x ! ! y",
            "!!x",
            "f(x := 1)",
            "a[1 : 2]",
            "seq<int>(3, f)",
            "multiset<int>(s)",
            "x as M<int>.T",
            "x as seq",
            "x as T < y",
            "f<int>",
            "f<a> == b",
            "a < b > [c]",
            "x => x",
            "[x reads r => x]",
            "[(x) requires x => x]",
            "(L(x); x)",
            "(assert x; y)",
            "(reveal f(); y)",
            "(ghost var x := 1; x)",
            "(var x :| P(x), Q(x); x)",
            "(var x {:trigger f(x)} :| P(x); x)",
            "if x :| P(x) then y else z",
            "match e { }",
        )
    ),
    "var x;",
    "var x: int;",
    "var {:nowarn} x := 1;",
    "var x {:trigger f(x)} :| P(x);",
    "var x :| assume P(x);",
    "if case x => { }",
    "if * { }",
    "if (*) { }",
    "if x: int {:trigger f(x)} :| f(x) { }",
    "match x case A => L();",
    "forall { }",
    "forall () { }",
    "calc ==#[k] { x; }",
    "while x { }",
    "for i := 0 to n { }",
    "return;",
]


@pytest.mark.parametrize("statement", ONLY_WHOLE)
def test_a_hole_refuses_what_only_whole_programs_may_hold(statement: str) -> None:
    program, findings = read_file(f"method M()\n{{\n{statement}\n}}\n")
    assert findings == []
    assert read_program(program).root.slots[0].elements[0].name == "M"
    tokens, findings = read_file(statement)
    assert findings == []
    with pytest.raises(GrammarError) as caught:
        parse_body("statements", tokens)
    assert (caught.value.finding.category, caught.value.finding.rule) == ("syntax", "grammar")


@pytest.mark.parametrize("text", SOUND_FILES)
def test_sound_files_are_admitted(text: str) -> None:
    assert audit("file", text) == []


def test_assertions_may_not_hold_other_statements() -> None:
    assert audit("statements", "if x { }") == []
    assert audit("assertions", "if x { }")[0].rule == "grammar"


def test_unknown_kind() -> None:
    with pytest.raises(ProblemError, match="unknown kind of hole 'proof'"):
        audit("proof", "")


def test_sizes() -> None:
    assert audit("invariants", "invariant " + "x + " * 199 + "x") == []
    assert audit("invariants", "invariant " + "x + " * 200 + "x")[0].rule == "size"
    assert audit("invariants", "invariant " + "(" * 25 + "x" + ")" * 25) == []
    assert audit("invariants", "invariant " + "(" * 61 + "x" + ")" * 61)[0].rule == "size"
    assert audit("invariants", " " * 32_768) == []
    assert audit("invariants", " " * 32_769)[0].rule == "size"
    assert audit("statements", "L();" * 1_001)[0].rule == "size"


def test_positions_point_into_the_assembled_file() -> None:
    problem = Problem("p", "dafny", "statements", "// one\n", f"lemma L()\n{{\n  {HOLE}\n}}\n")
    verdict = audit_candidate(Candidate(problem, "assert true;\nassume false;"))
    assert verdict is not None
    assert verdict.status is Status.UNSOUND
    found = verdict.diagnostics[0]
    assert (found.line, found.column, found.body_line) == (5, 0, 2)
    first = audit_candidate(Candidate(problem, "assume false;"))
    assert first is not None
    assert (first.diagnostics[0].line, first.diagnostics[0].column) == (4, 2)


def test_places_of_tokens_count_characters() -> None:
    # Line 1 is "a\r\n", 3 characters; line 2 is "/* é\n", 5; bb stands 4 into line 3: 3 + 5 + 4.
    text = "a\r\n/* é\n */ bb\n"
    tokens, findings = read_file(text)
    assert not findings
    assert [token.text for token in tokens] == ["a", "bb", ""]
    assert find_places(text, tokens) == [0, 12, len(text)]


def test_a_prelude_is_refused() -> None:
    problem = Problem("p", "dafny", "statements", "", f"lemma L()\n{{\n  {HOLE}\n}}\n")
    verdict = audit_candidate(Candidate(problem, "", prelude="lemma T() {}\n"))
    assert verdict is not None
    assert (verdict.status, verdict.rule) == (Status.UNSOUND, "prelude")


def test_a_hole_must_stand_apart() -> None:
    problem = Problem("p", "dafny", "statements", "", f"lemma L() {{ assert{HOLE} }}")
    with pytest.raises(ProblemError, match="its hole touches 't'"):
        audit_candidate(Candidate(problem, ""))


def test_methods_of_the_problem_may_not_be_called() -> None:
    preamble = "method {:main} Go() {}\nghost method Tell() {}\nfunction method F(): int { 1 }\n"
    problem = Problem("p", "dafny", "statements", preamble, f"lemma L()\n{{\n  {HOLE}\n}}\n")

    def rules(body: str) -> list[str]:
        return [finding.rule for finding in audit("statements", body, problem=problem)]

    assert rules("Go();") == ["names"]
    assert rules("var x := Tell();") == ["names"]
    assert rules("assert F() == 1; L();") == []
    assert audit("statements", "Go();") == []


@pytest.mark.skipif(not EXAMPLES.exists(), reason="the example problems are not here")
def test_reference_bodies_are_admitted() -> None:
    lines = [json.loads(line) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 60
    for line in lines:
        kind = "calc" if "calc" in line["family"] else "statements"
        kind = "invariants" if line["truth"].startswith("invariant") else kind
        problem = Problem(line["id"], "dafny", kind, "", line["prompt"])
        assert audit_candidate(Candidate(problem, line["truth"])) is None, line["id"]
        whole = Candidate(problem, line["truth"]).source
        assert audit("file", whole) == [], line["id"]


WORDS = (
    "invariant decreases assert by calc if else match case forall exists var ghost ensures then "
    "assume while method lemma old this true x y L F Nil Cons int set seq map in as reveal 0 12 "
    "( ) [ ] { } { } ( ) ; ; , . :: : := :| => == < > <= ==> && + - * ! | .. /* */ // ' \" \n"
).split(" ")
SOUP = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)
CLAUSE = st.sampled_from([body for bodies in ADMITTED.values() for body in bodies if body])
MUTATED = st.tuples(CLAUSE, CLAUSE, st.integers(0, 60), st.sampled_from(WORDS)).map(
    lambda t: t[0][: t[2]] + " " + t[3] + " " + t[0][t[2] :] + "\n" + t[1]
)
OPENERS = {"(": ")", "[": "]", "{": "}"}


def is_balanced(body: str) -> bool:
    tokens, findings = read_body(body)
    opened: list[str] = []
    for token in tokens:
        if token.text in OPENERS:
            opened.append(OPENERS[token.text])
        elif token.text in OPENERS.values() and (not opened or opened.pop() != token.text):
            return False
    return not opened and not findings


@settings(max_examples=600, deadline=None)
@given(kind=st.sampled_from(HOLE_KINDS), body=st.one_of(SOUP, MUTATED))
def test_admitted_bodies_are_balanced_and_keep_our_text(kind: str, body: str) -> None:
    if audit(kind, body):
        return
    before, after = "lemma L()\n{\n  ", "\n}\nlemma T() {}\n"
    problem = Problem("p", "dafny", kind, "", before + HOLE + after)
    candidate, written = make_plain(Candidate(problem, body))
    assert is_balanced(candidate.body)
    assert written.text == candidate.source == before + candidate.body + after
    assert candidate.body.count("\n") == body.count("\n")
    ours, _ = read_body(before + after)
    whole, findings = read_file(candidate.source)
    assert findings == []
    head = len(read_body(before)[0]) - 1
    tail = len(read_body(after)[0])
    assert [t.text for t in whole[:head]] == [t.text for t in ours[:head]]
    assert [t.text for t in whole[-tail:]] == [t.text for t in ours[-tail:]]
    assert not {"assume", "while", "method", "lemma", "new"} & {
        t.text for t in whole[head:-tail] if t.kind == "word"
    }


def test_the_soup_test_can_fail() -> None:
    assert not is_balanced("}")
    assert not is_balanced("(")
    assert is_balanced("({[]})")


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(kind=st.sampled_from((*HOLE_KINDS, "file")), body=st.one_of(st.text(max_size=60), SOUP))
def test_nothing_raises(kind: str, body: str) -> None:
    for finding in audit(kind, body):
        assert finding.category in ("syntax", "cheat")
        assert finding.line >= 1
        assert finding.column >= 0


@settings(max_examples=300, deadline=None)
@given(raw=st.binary(max_size=80), kind=st.sampled_from((*HOLE_KINDS, "file")))
def test_bytes_never_raise(raw: bytes, kind: str) -> None:
    audit(kind, raw.decode("latin-1"))
    audit(kind, raw.decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a // b\nc", "a     \nc"),
        ("a/*\u2264*/b", "a     b"),
        ("a /* b /* c */ d */ e", "a                   e"),
        ("a /* b\n*/ c", "a     \n   c"),
        ("\"//\" + '/' + x'/* y */", "\"//\" + '/' + x'       "),
        ("a /* b", "a /* b"),
        ("a \u2264 b", "a <= b"),
        ("\u2200x\u2022 \u00acp\u21d4q", " forall x:: !p<==>q"),
        ("'\u2264' \"\u2265\"", "'\u2264' \"\u2265\""),
    ],
)
def test_comments_become_blanks_and_symbols_ascii(text: str, plain: str) -> None:
    assert write_plain(text).text == plain


def test_columns_are_those_of_the_given_text() -> None:
    given = "assert \u2200 y \u2022 y \u2264 y; // \u2265\n  assert x \u2260 1;"
    written = write_plain(given)
    lines, sent = given.split("\n"), written.text.split("\n")
    assert sent[0].rstrip() == "assert  forall  y :: y <= y;"
    for line, text in enumerate(lines, 1):
        for word in ("assert", "y;", "1;", "x"):
            if word in text:
                column = sent[line - 1].index(word)
                assert written.find_column(line, column) == text.index(word)
    # Within what was written for a symbol, the place is that of the symbol or just behind it.
    assert [written.find_column(1, column) for column in range(6, 17)] == [
        *(6, 7, 8, 8, 8, 8, 8, 8, 8, 8, 9),
    ]


CIRCULAR = "datatype D = D(s: iset<D>)\n"


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("statements", f"{CIRCULAR}lemma L()\n  ensures false\n{{\n  {HOLE}\n}}\n"),
        (ANNOTATE, f"{CIRCULAR}lemma L()\n  ensures false\n{{\n}}\n{HOLE}"),
    ],
)
def test_a_problem_from_whose_types_anything_follows_is_refused(kind: str, statement: str) -> None:
    problem = Problem("p", "dafny", kind, "", statement)
    why = "line 1: .*the type 'D' contains itself through a function, an iset or an imap over 'D'"
    with pytest.raises(ProblemError, match=why):
        audit_candidate(Candidate(problem, ""))
    assert "contains itself" in find_language("dafny").find_objection(problem, None)


@pytest.mark.parametrize(
    "text",
    [
        "datatype T = Leaf | Node(int -> T, seq<T>, set<T>, map<T, T>)",
        "datatype S<A> = S(iset<A>)\ndatatype U = U(S<int>)",
        "class C { var f: C -> int  const g: int -> C  static const h: C -> int := c => 0 }",
        "class A { const f: B -> int }\nclass B { var a: A }",
        "trait T { const f: int -> int }\nclass C extends T { const t: T }",
        "class Cell<T> { var value: T }\ndatatype D = D(c: Cell<D>, f: bv8 -> bool)",
    ],
)
def test_types_that_are_not_circular(text: str) -> None:
    assert audit("file", text) == []


READING = """\
class R<T> { var v: T }
lemma Some<T>(P: T ~> bool, x: T)
  requires P.requires(x) && P(x)
  ensures exists y :: P.requires(y) && P(y)
{ assert P.requires(x) && P(x); }
predicate Positive(r: R<int>) reads r { r.v > 0 }
"""


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("lemma L(r: R<int>) requires Positive(r) { Some(x reads r => x == r.v, r.v); }", []),
        ("lemma L(r: R<int>) { var f; f := x reads r => x + r.v; assert f(1) == 1 + r.v; }", []),
        ("method M(r: R<int>) { var a := new int[3](i reads r => i + r.v); }", []),
        ("lemma L(r: R<int>) { var f: int ~> int := x reads r => r.v; Some(f, 1); }", []),
        ("lemma L(r: R<int>) { var s := [x reads r => x + r.v]; }", [(7, 31)]),
        ("lemma L(r: R<int>) { var f, g := x reads r => r.v, 1; }", [(7, 33)]),
        ("lemma L(r: R<int>) { var f := x reads r => r.v; var g := f; }", [(7, 57)]),
        ("lemma L(r: R<int>) { var f := Positive; }", [(7, 30)]),
        ("lemma L(r: R<int>) { var p := (r: R<int>) => Positive.requires(r); }", []),
        ("function F(): int ~> int { x => x }", [(7, 18)]),
        ("type T = f: int ~> int | true", [(7, 16)]),
    ],
)
def test_functions_that_read_are_called_and_not_stored(
    text: str, places: list[tuple[int, int]]
) -> None:
    findings = audit("file", f"{READING}{text}\n")
    assert {finding.rule for finding in findings} <= {"stored-function"}
    assert [(finding.line, finding.column) for finding in findings] == places


@pytest.mark.parametrize("kind", [*HOLE_KINDS, "file"])
def test_a_text_that_does_not_end_is_read_once_and_refused(kind: str) -> None:
    """Each quote in it as a start would be read to its end: the square of the length."""
    text = '"' + '\\"' * 20_000 + " // no comment"
    assert [piece for _, piece, _ in scan_any(text)] == [text]
    assert write_plain(text).text == text
    assert write_plain('x "a\n// a comment').text == 'x "a\n            '
    assert audit(kind, text) is not None
    assert audit(kind, 'assert "a // b') is not None


TRAIT = "trait T {{ {} }}\nclass C extends T {{ {} }}\n"


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("method {:verify true} M() { }", None, ""),
        (
            "lemma {:nowarn} {:vcs_split_on_every_assert} L() { assert {:split_here} true; }",
            None,
            "",
        ),
        ("method {:tailrecursion false} M() { }", None, ""),
        (
            "lemma L(f: int -> int) requires forall x {:matchinglooprewrite false} :: f(x) > 0 {}",
            None,
            "",
        ),
        ("method {:verify false} M() { }", "unsound", "the attribute 'verify' is not allowed"),
        ("method {:verify} M() { }", "unsound", "the attribute 'verify' is not allowed"),
        ("method {:rlimit 9} {:test} {:isolate_assertions} M() { }", None, ""),
        ("method {:timeLimitMultiplier 2} M() { }", None, ""),
        ("method M() { } @Test @IsolateAssertions method N() { }", None, ""),
        (
            "class {:autocontracts} C { }",
            "rejected",
            "the attribute 'autocontracts' adds clauses that are not written there",
        ),
        (
            'module {:options "-functionSyntax:4", "/noVerify"} M { }',
            "rejected",
            "the attribute 'options' is not allowed",
        ),
        ('module {:options "-functionSyntax:4"} M { }', None, ""),
        (
            'module {:options "/noVerify"} M { }',
            "unsound",
            "the attribute 'options' is not allowed",
        ),
        (
            TRAIT.format("method M() ensures true", "method M() ensures true { }"),
            "rejected",
            "this method of a trait has no body; give it one",
        ),
        (
            TRAIT.format("method M() ensures true", ""),
            "unsound",
            "this method has no body, so what it claims is not proved",
        ),
        (
            TRAIT.format("static method M() ensures true", "static method M() ensures true { }"),
            "unsound",
            "this method has no body, so what it claims is not proved",
        ),
        (
            TRAIT.format("method M() ensures true", "method M() ensures true { }")
            + "class D extends T { method M() ensures true }\n",
            "unsound",
            "this method has no body, so what it claims is not proved",
        ),
        (
            "ghost predicate P()\nlemma L() ensures P() { assume P(); }",
            "unsound",
            "'assume' assumes what is to be proved",
        ),
    ],
)
def test_unsound_is_for_cheating(text: str, status: str | None, message: str) -> None:
    verdict = audit_candidate(Candidate(Problem("f", "dafny", "file", "", HOLE), text))
    if verdict is None:
        assert status is None
        return
    assert verdict.status == status
    said = [d.message.partition(" (--allow")[0] for d in verdict.diagnostics]
    assert any(found.endswith(message) for found in said), said


WHILE = "'while' may not stand in a hint; write a lemma that calls itself, or 'forall'"
RETURN = "'return' may not stand in a hint; write what is behind it under 'else'"


@pytest.mark.parametrize(
    ("head", "body", "status", "message"),
    [
        ("lemma", "var i := 0; while i < n invariant i <= n { i := i + 1; }", "rejected", WHILE),
        ("lemma", "while true", "unsound", "'while' could loop without a body"),
        ("lemma", "if n == 0 { while true; }", "unsound", "'while' could loop without a body"),
        ("lemma", "if n == 0 { return; }", "rejected", RETURN),
        ("method", "return;", "unsound", "'return' skips the rest of the program"),
        ("method L() {} lemma", "return;", "rejected", RETURN),
    ],
)
def test_what_hides_nothing_is_no_cheat(head: str, body: str, status: str, message: str) -> None:
    problem = Problem(
        "p", "dafny", "statements", "", f"{head} M(n: nat) ensures n >= 0 {{ {HOLE} }}"
    )
    verdict = audit_candidate(Candidate(problem, body))
    assert verdict is not None
    assert (verdict.status, verdict.rule) == (status, "keywords")
    assert verdict.diagnostics[0].message == f"keywords: {message}"


def test_our_program_may_have_the_attributes_of_a_bare_file() -> None:
    for text, said in (
        ('module {:options "-functionSyntax:4"} M { method {:test} T(x: int) { } }', ""),
        ('module {:options "/noVerify"} M { }', "the attribute 'options' is not allowed"),
    ):
        problem = Problem("p", "dafny", ANNOTATE, "", f"{text}{HOLE}")
        body = text.replace("{ }", "{ assert true; }", 1)
        if said:
            with pytest.raises(ProblemError, match=said):
                audit_candidate(Candidate(problem, body))
        else:
            assert audit_candidate(Candidate(problem, body)) is None


@pytest.mark.parametrize(
    ("attribute", "status", "rule"),
    [
        ("{:tailrecursion false}", "rejected", "attributes"),
        ("{:verify true}", "rejected", "attributes"),
        ("{:autocontracts}", "rejected", "attributes"),
        ("{:timeLimit 9}", "rejected", "attributes"),
        ("{:verify false}", "unsound", "attributes"),
        ("{:induction x}", "unsound", "changed-program"),
    ],
)
def test_an_attribute_that_is_added_to_our_program(attribute: str, status: str, rule: str) -> None:
    text = "method M(x: int) { }\n"
    body = text.replace("method", f"method {attribute}")
    verdict = audit_candidate(Candidate(Problem("a", "dafny", "annotate", "", text + HOLE), body))
    assert verdict is not None
    assert (verdict.status, verdict.rule) == (status, rule)


@pytest.mark.parametrize(
    ("loop", "admitted"),
    [
        ("for i := 0 to n { }", True),
        ("for i := 0 to |s| { }", True),
        ("for i := |s| downto 0 invariant i >= 0 { }", True),
        ("for i: int := 0 to |s| + n invariant {1} <= {1, 2} { }", True),
        ("for i := to to to { }", True),
        ("for i := 0 downto * { }", True),
        ("for i := 0 to n", False),
        # A name in a clause, and what comes after it: no range, and no body.
        ("for i := 0 to n invariant b == to x := y; { }", False),
        ("for i := 0 to to x := y; { }", False),
        ("for i := 0 to |s| invariant i >= 0", False),
        ("for i := 0 to n invariant {1} <= {1, 2}", False),
        ("for i := 0 to * decreases * { }", False),
    ],
)
def test_for_loops_need_a_body(loop: str, admitted: bool) -> None:
    findings = audit_file(f"method M(n: nat, s: seq<int>) {{ {loop} }}")
    assert not findings if admitted else [finding.category for finding in findings] == ["cheat"]
