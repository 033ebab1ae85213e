"""Each form that Dafny 4 has beside those of 2.3: its elements, and what the audit says of it.

A form that may assume, leave out, replace or hide something must get the finding of its old
spelling, or be refused in what has not passed the audit. Texts of Dafny 2.3 that look like such a
form are read as Dafny 2.3 reads them. Holes admit none of these.
"""

import pytest

from proverrl.lang.dafny.audit.bodies import audit
from proverrl.lang.dafny.audit.files import audit_file
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.hint_grammar import list_forbidden, parse_body
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.syntax.plain import make_plain, write_plain
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.tokens import read_body
from proverrl.types import HOLE, Candidate, Problem


def outline(element: Element) -> str:
    """The words of the elements in this one, those of each slot between brackets."""
    slots = ["[" + " ".join(map(outline, slot.elements)) + "]" for slot in element.slots]
    return element.word + "".join(slot for slot in slots if slot != "[]")


def read(text: str) -> ParsedProgram:
    return read_text(text, admitted=True, trusts=True)


def read_elements(text: str) -> str:
    return " ".join(map(outline, read(text).root.slots[0].elements))


def list_findings(text: str) -> list[str]:
    """The rule of each finding, and the word that admits it."""
    return [f"{f.rule} {f.trust}".strip() for f in audit_file(text)]


DECLARATIONS = [
    # Bodies, axioms and files from elsewhere.
    ('include "a.dfy"\nmodule M { }', "include module", ["keywords", "grammar"]),
    ("@Axiom\nlemma L() ensures false", "lemma[ensures]", ["attributes", "missing-body axiom"]),
    ("@Verify(false) lemma L() { }", "lemma", ["attributes"]),
    ("@VerifyOnly\nmethod M() { }", "method", ["attributes"]),
    ('@Options("--x") @Test module M { }', "module", ["attributes", "attributes"]),
    ("const c: int@Axiom() lemma L() { }", "const lemma", ["attributes"]),
    ("const c := x as T@Axiom() lemma L() { }", "const lemma", ["attributes"]),
    ("const c := 1@Axiom lemma L() { }", "const lemma", ["attributes"]),
    ("const c := y @Axiom() lemma L() { }", "const lemma", ["attributes"]),
    ("const c := y/**/@Axiom() lemma L() { }", "const lemma", ["attributes"]),
    ("replaceable module M { }", "module", ["keywords abstract"]),
    (
        "replaceable module M { lemma L() ensures false }",
        "module[lemma[ensures]]",
        ["keywords abstract", "missing-body axiom"],
    ),
    ("module M replaces N { }", "module", ["keywords abstract"]),
    ("datatype D = ... A", "datatype", ["missing-body abstract"]),
    ("datatype D ... { }", "datatype", ["missing-body abstract"]),
    ("newtype N ...", "newtype", ["missing-body abstract"]),
    ("type T ... { }", "type", ["missing-body abstract"]),
    ("const c ... := 1", "const", ["missing-body abstract"]),
    ("iterator I ... { }", "iterator", ["missing-body abstract"]),
    ("export E ... provides A", "export", ["missing-body abstract"]),
    ("trait T { function F(): int }\ntype U extends T", "trait[function] type", []),
    # Types.
    ("trait T { }\ndatatype D extends T = A(x: int) | B { }", "trait datatype", []),
    ("trait T { }\ncodatatype D extends T = A { }", "trait codatatype", []),
    ("trait T { }\nnewtype N extends T = int", "trait newtype", []),
    ("trait T { }\nmethod M<X extends T, Y(0) extends T>() { }", "trait method", []),
    ("datatype D = {:a} ghost {:trigger} A(x: int)", "datatype", ["attributes"]),
    ("datatype D = A(ghost x: int := 1, nameonly y: int) | B", "datatype", []),
    ("datatype D = A({:trigger} int)", "datatype", []),
    ("type T = (ghost int, bool)", "type", []),
    ("module A { datatype D<X> = A }\nmodule B { datatype D<Y> = B }", None, ["grammar"]),
    # Members.
    ("opaque const c := 1", "const", []),
    ("method M(x: int := 3, {:trigger} y: int := x) { }", "method", []),
    ("method M(x: int) reads * { }", "method[reads]", []),
    ("module M { export provides A, B, reveals C, D provides E }", "module[export]", []),
    ("method {:print} M() { }", "method", ["attributes"]),
    ("function F(): int { 1 } by method { return 1; }", "function[return]", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "elements", "findings"), DECLARATIONS)
def test_declarations(text: str, elements: str | None, findings: list[str]) -> None:
    if elements is not None:
        assert read_elements(write_plain(text).text) == elements
    else:
        read(text)
    assert list_findings(text) == findings


STATEMENTS = [
    # What is believed, or may leave a proof.
    ("x :- assume e;", "x", ["keywords assume"]),
    ("var x :- assume {:axiom} e;", "var", ["keywords assume"]),
    (":- assume e;", ":", ["keywords assume"]),
    (":- expect e;", ":", ["keywords assume"]),
    ("x :- expect {:nowarn} e, f;", "x", ["keywords assume"]),
    ('expect {:nowarn} e, "why";', "expect", ["keywords assume"]),
    ("x :| assume {:axiom} e;", "x", ["keywords assume"]),
    ("x :- assert e;", "x", []),
    ("var x :- f(e), g;", "var", []),
    ("var x: int :- e {:nowarn};", "var", []),
    (":- e;", ":", []),
    ("{ :- e; }", "{[:]", []),
    ("if x { :- e; }", "if[:]", []),
    ("assert e by { :- f; }", "assert[:]", ["keywords"]),
    ("assert e by { var x :- f; }", "assert[var]", ["keywords"]),
    ("assert e by { assert (var x :- f; x); }", "assert[assert]", ["keywords"]),
    ("calc { e; { :- f; } g; }", "calc[:]", ["keywords"]),
    # Proofs beside what they are of.
    ("x := e by { assert f; }", "x[assert]", []),
    ("x := e by { y := 1; }", "x[y]", ["assignment"]),
    ("x, y := e, f by { x := 1; }", "x[x]", ["assignment"]),
    ("var x := e by { x := 1; }", "var[x]", ["assignment"]),
    ("var x :| e by { return; }", "var[return]", ["keywords"]),
    ("x :- e by { x := 1; }", "x[x]", ["assignment"]),
    (":- e by { assume false; }", ":[assume]", ["keywords assume"]),
    ("L(x) by { assert f; }", "L[assert]", []),
    ("L(x) by { Go(); }", "L[Go]", ["names"]),
    ("var x := (forall y ensures P(y) { assert y; } 1);", "var[assert]", []),
    ("var x := (forall y ensures P(y) { z := 1; } 1);", "var[z]", ["assignment"]),
    ("var x := (forall y ensures P(y) 1);", "var", ["missing-body assume"]),
    # What is hidden or shown.
    ("hide *;", "hide", []),
    ("hide F, G;", "hide", []),
    ("reveal *;", "reveal", []),
    ("assert (hide *; e);", "assert", []),
    ("assert (reveal *; e);", "assert", []),
    ("assert (reveal F; e);", "assert", []),
    ("opaque ensures e { x := 1; }", "opaque[ensures][x]", []),
    # Attributes.
    ("if {:split true} x { } else {:split true} { }", "if", ["attributes", "attributes"]),
    ("if {:verify false} x { }", "if", ["attributes axiom"]),
    ("while {:verify false} x { }", "while", ["attributes axiom"]),
    ("for {:verify false} i := 0 to 1 { }", "for", ["attributes axiom"]),
    ("match {:verify false} x { case {:verify false} A => }", "match", ["attributes axiom"] * 2),
    ("if { case {:verify false} x => }", "if", ["attributes axiom"]),
    ("return {:verify false} x;", "return", ["attributes axiom"]),
    # Expressions.
    ("x := F(1, y := 2);", "x", []),
    ("x := D(0 := 1);", "x", []),
    ("x := (ghost 1, y);", "x", []),
    ("assert (calc { 1; { F(); } 1; } x) decreases to -y;", "assert[F]", []),
    ("x := f@L(y);", "x", ["labelled-state"]),
    ("x := a.f<int>@L(y);", "x", ["labelled-state"]),
    ("f@L(y);", "f", ["labelled-state"]),
    ("assert x decreases to y;", "assert", []),
    ("assert (x, y nonincreases to z, y) && (x decreases to);", "assert", []),
    ("F<nat -> bool>(x);", "F", []),
    ("x := F<(ghost int, nat) -> bool> == y;", "x", []),
    ("x := F<int> && y;", "x", []),
    ("x := y as C<int> is C<bool>;", "x", []),
    ("x := set y <- z;", "x", []),
    ("x := set y: bool :: f(y);", "x", []),
    ("x := set y <- z | y > 0, u <- y :: u;", "x", ["grammar"]),
    ("x := forall y | y > 0, z <- y {:trigger z} | z > y :: z > 0;", "x", ["grammar"]),
    ("x := map y <- z | y > 0, u <- y :: u := u;", "x", ["grammar"]),
    ("x := (var y :- e; y);", "x", []),
    ("x := (:- e; y);", "x", []),
    ("x := match y { case | null => 1 case {:trigger} -1 => 2 };", "x", []),
    ("x := '\\U{1F600}' + \"\\U{80}\\u00e9\";", "x", []),
    ("x := \"é\" + 'é';", "x", ["characters"]),
    ("x := 1.5e-3 + 2e4;", "x", ["grammar"]),
]  # fmt: skip


def make_program(statement: str) -> str:
    return f"method Go() {{ }}\nmethod M()\n{{\n{statement}\n}}\n"


@pytest.mark.parametrize(("statement", "elements", "findings"), STATEMENTS)
def test_statements(statement: str, elements: str, findings: list[str]) -> None:
    text = make_program(statement)
    assert read_elements(text) == f"method method[{elements}]"
    assert list_findings(text) == findings


IN_HOLES = ("reveal *;",)


@pytest.mark.parametrize("statement", [s for s, _, _ in STATEMENTS if s not in IN_HOLES])
def test_a_hole_admits_none_of_them(statement: str) -> None:
    tokens, findings = read_body(statement)
    if not findings:
        with pytest.raises(GrammarError):
            parse_body("statements", tokens)


# Texts of Dafny 2.3 beside the forms that they look like, and the elements of each as 2.3 has them.
LOOKALIKES = [
    ("method M(to: int) decreases (to) { }", "method[decreases]"),
    ("method M(to: int, n: int) requires n > 0 decreases (to), n {}", "method[requires decreases]"),
    ("method M(to: int -> int) requires true decreases (to)(1) { }", "method[requires decreases]"),
    ("method M() { x := F(set x | P(x), y); }", "method[x]"),
    ("method M() { x := F(set x | P(x), y, forall z :: Q(z)); }", "method[x]"),
    ("method M() { x := F(set x | P(x), m, map[1 := 2]); }", "method[x]"),
    ("method M() { x := F(set x | P(x), y, set z | Q(z) :: z); }", "method[x]"),
    ("method M() decreases set x | P, y ensures s == set z | Q :: z", "method[decreases ensures]"),
    (
        "lemma M() decreases set x | P(x), y { } lemma N() ensures s == set z | Q(z) :: z { }",
        "lemma[decreases] lemma[ensures]",
    ),
    ("method M() { opaque := 1; older := opaque; }", "method[opaque older]"),
    ("method M() { var x := s[1:-y]; assert l:-x > 0; }", "method[var assert]"),
    ("method M() { x := F(a < b, c > -d); }", "method[x]"),
    ("method M() { ghost var y := (ghost var z := 1; z); }", "method[ghost]"),
]  # fmt: skip


# Dafny 2.3 reads a loop without a body, a statement and a block; Dafny 4 an invariant and a body.
HIDDEN_LOOPS = [
    "while true invariant false decreases to F(); { }",
    "while true invariant false decreases to F() { }",
    "while true invariant false decreases to x := 1;",
    "assert e by { while true invariant false decreases to F(); { } }",
    "assert (calc { 1; { while true invariant false decreases to F(); { } } 1; } true);",
    "while true invariant false == hide F(); { } { }",
    "while true invariant hide F(); { }",
    "assert (calc { 1; { while true invariant hide F(); { } { } } 1; } true);",
    "x := (forall y ensures P(y) { while true invariant false decreases to F(); { } } 1);",
]


@pytest.mark.parametrize("statement", HIDDEN_LOOPS)
def test_no_clause_takes_in_what_follows_a_loop_without_a_body(statement: str) -> None:
    assert {"missing-body assume", "decreases-to", "grammar"} & set(
        list_findings(make_program(statement))
    )


def test_a_loop_without_a_condition_is_none_before_braces_without_cases() -> None:
    assert list_findings(make_program("while invariant false { }")) == ["grammar"]
    assert list_findings(make_program("while invariant true { case false => }")) == []


@pytest.mark.parametrize(("text", "elements"), LOOKALIKES)
def test_texts_of_dafny_2_3_are_read_as_it_reads_them(text: str, elements: str) -> None:
    assert read_elements(text) == elements
    program = read_text(text)
    assert " ".join(map(outline, program.root.slots[0].elements)) == elements
    assert program.failing == []
    assert program.labelled == set()


@pytest.mark.parametrize(
    "expression",
    ["F(a < b, c > is)", "a < older", "F(a < b, older > (c))", "a < b > least", "for"],
)
def test_what_both_read_otherwise_is_refused(expression: str) -> None:
    assert list_findings(f"method M() {{ x := {expression}; }}") == ["grammar"]


def test_each_range_of_a_finite_set_is_kept() -> None:
    program = read("method M() { x := set y | y < a, z | z < b :: y; }")
    texts = [token.text for token in program.tokens]
    assert [" ".join(texts[bar:end]) for _, bar, end in program.finite] == ["| y < a", "| z < b"]


def test_of_two_types_of_one_name_the_last_counts() -> None:
    program = read("module A { datatype D<X, Z> = A }\nmodule B { datatype D<Y> = B }")
    assert program.parameters == {"D": ("Y",)}


@pytest.mark.parametrize(
    "text", ["\ufeffmodule M { }", "datatype D<'a> = A('a)", 'const c := @"a\nb"']
)
def test_what_dafny_4_alone_reads_rightly_is_read_where_no_other_gets_it(text: str) -> None:
    assert len(read(text).root.slots[0].elements) == 1
    assert audit_file(text) != []


def test_a_name_may_begin_with_a_quote_and_a_character_ends_with_one() -> None:
    texts = [token.text for token in read("const c: 'a := F('b', '', 'cd', 'x'y)").tokens]
    assert texts[3:] == ["'a", ":=", "F", "(", "'b'", ",", "''", ",", "'cd'", ",", "'x'y", ")", ""]


@pytest.mark.parametrize("text", ["const c := '''", "\ufeff\ufeffmodule M { }", "/* module M { }"])
def test_what_dafny_4_does_not_read_is_refused(text: str) -> None:
    with pytest.raises(GrammarError):
        read(text)


# The attributes of the table in docs/verifiers.md; on a declaration, on a step, and behind ``@``.
REFUSED_ATTRIBUTES = """abstemious autoReq axiom bvbuiltin error extern identity
    ignore inline isolate only options priority random_seed selective_checking
    smt_option start_checking_here subsumption termination vcs_max_cost
    verified_under vcs_max_keep_going_splits vcs_max_splits""".split()


@pytest.mark.parametrize("name", REFUSED_ATTRIBUTES)
def test_attributes_that_could_hide_something_are_refused(name: str) -> None:
    for text in (
        f"lemma {{:{name}}} L() {{ }}",
        f"module {{:{name}}} M {{ lemma L() {{ }} }}",
        f"lemma L() {{ assert {{:{name} true}} true; }}",
        f"lemma L() ensures {{:{name}}} true {{ }}",
        f"@{name}(1) lemma L() {{ }}",
    ):
        assert "attributes" in {found.rule for found in audit_file(text)}, text
    refuse_in_hole(name)


def refuse_in_hole(name: str) -> None:
    tokens, _ = read_body(f"assert {{:{name}}} true;")
    assert "attributes" in {found.rule for found in list_forbidden(tokens)}


@pytest.mark.parametrize(
    "name",
    [
        "isolate_assertions",
        "test",
        "rlimit 0",
        'resource_limit "9e3"',
        "timeLimit 9",
        "timeLimitMultiplier 9",
        "contradiction",
    ],
)
def test_attributes_of_bare_files(name: str) -> None:
    assert audit("file", f"lemma {{:{name}}} L() {{ }}") == []
    refuse_in_hole(name)


def test_attributes_of_a_bare_file_that_are_left_out_of_what_is_verified() -> None:
    text = "lemma {:rlimit\n 9}{:test} L() ensures { : /**/ timeLimit 1 /* } */} "
    text += '"" != "{:rlimit 9}" {:contradiction}'
    made, _ = make_plain(Candidate(Problem("f", "dafny", "file", "", HOLE), text))
    assert len(made.body) == len(text)
    assert made.body.split() == [
        "lemma",
        "{:test}",
        "L()",
        "ensures",
        '""',
        "!=",
        '"{:rlimit',
        '9}"',
    ]


@pytest.mark.parametrize(
    "text",
    [
        "lemma {:rlimit 1 + 1} L() { }",
        "lemma {:rlimit} L() { }",
        "lemma L() { assert {:contradiction 1} true; }",
        "@Test(1) lemma L() { }",
        "@Test @Axiom lemma L() { }",
        "@Axiom @Test lemma L() { }",
        "const c := f @Test lemma L() { }",
        "@Test const c := 1",
        "lemma L() { @IsolateAssertions assert true; }",
        'module {:options "--function-syntax:4", "--allow-axioms"} M { }',
        'module {:options "--function-syntax:3"} M { }',
    ],
)
def test_what_is_written_around_an_attribute_that_is_allowed(text: str) -> None:
    assert "attributes" in {found.rule for found in audit("file", text)}
