"""Dafny tokens, and the normal form that forgets names but not constants."""

from __future__ import annotations

import pytest

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.bodies import check_problem
from proverrl.lang.dafny.syntax.declarations import read_declarations
from proverrl.lang.dafny.syntax.text import fill_hole, normalise, scan_places, scan_tokens
from proverrl.types import HOLE, Problem

BASE = """\
method Run(n: nat) returns (s: int)
  ensures s == 4 * n
{ s := 0; var i := 0; while i < n { s := s + 4; i := i + 1; } }
"""


def test_programs_that_differ_in_names_comments_and_layout_are_equal() -> None:
    other = """\
    method Go(len: nat) /* a /* nested */ note */ returns (acc: int) ensures acc == 4*len {
      acc := 0;  // start
      var idx := 0; while idx<len {acc := acc+4; idx := idx+1;}}"""
    assert normalise(other) == normalise(BASE)


def test_the_hole_is_a_comment() -> None:
    assert normalise(BASE.replace("{ s :=", f"{HOLE} {{ s :=")) == normalise(BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("4", "5"),
        ("i < n", "i != n"),
        ("s + 4", "4 + s"),
        ("n: nat", "n: int"),
        ("s := s + 4; i := i + 1;", "i := i + 1; s := s + 4;"),
        ("i := i + 1", "i := s + 1"),
    ],
)
def test_programs_that_differ_in_more_than_names_differ(old: str, new: str) -> None:
    changed = BASE.replace(old, new)
    assert changed != BASE
    assert normalise(changed) != normalise(BASE)


def test_every_declared_name_is_renamed_and_the_language_is_not() -> None:
    text = """\
    datatype List = Nil | Cons(head: int, tail: List)
    lemma {:induction false} L(a: array<int>, u: List)
      requires u.Cons? && u.head == a.Length
      ensures forall q' :: 0 <= q' ==> u != Nil"""
    assert normalise(text) == (
        "datatype n0 = n1 | n2 ( n3 : int , n4 : n0 ) "
        "lemma {:induction false } n5 ( n6 : array < int > , n7 : n0 ) "
        "requires n7 . n2? && n7 . n3 == n6 . Length "
        "ensures forall n8 :: 0 <= n8 ==> n7 != n1"
    )


def test_tokens_keep_long_symbols_whole() -> None:
    text = "a<==>b ==> c<==d := e::f..g !in h != 0x1F 'x' \"a // b\" 1..2 2.5"
    pieces = [piece for _, piece in scan_tokens(text)]
    plain = "a <==> b ==> c <== d := e :: f .. g !in h != 0x1F 'x'"
    assert pieces == [*plain.split(), '"a // b"', "1", "..", "2", "2.5"]
    kinds = [kind for kind, _ in scan_tokens("x' 12 {:axiom} \"s\" 'c' +")]
    assert kinds == ["name", "number", "attribute", "symbol", "string", "char", "symbol"]


def test_any_text_has_tokens() -> None:
    text = "f: int ~> é --> x₁ y :- \"open 'a\\ @ {: nowarn} /* c */ ?z \x0b 0x_"
    assert scan_places(text) == [
        ("name", "f", 0),
        ("symbol", ":", 1),
        ("name", "int", 3),
        ("symbol", "~>", 7),
        ("symbol", "é", 10),
        ("symbol", "-->", 12),
        ("name", "x₁", 16),
        ("name", "y", 19),
        ("symbol", ":-", 21),
        # A string that does not end is one piece, as far as it is one.
        ("symbol", "\"open 'a", 24),
        ("symbol", "\\", 32),
        ("symbol", "@", 34),
        ("attribute", "{: nowarn", 36),
        ("symbol", "}", 45),
        ("name", "?z", 55),
        ("number", "0", 60),
        ("name", "x_", 61),
    ]


PARTS = """\
ghost method {:induction false} L(n: nat, s: seq<int>) returns (k: int)
  requires n > 0;
  ensures k == n  // why
{ /*{HOLE}*/ }
function F(x: int): int { x }
"""


def test_the_parts_of_a_declaration() -> None:
    found, last = read_declarations(PARTS)
    assert (found.word, found.name, found.prefix) == (
        "method",
        "L",
        "ghost method {:induction false}",
    )
    assert found.formals == (("n", "nat"), ("s", "seq<int>"))
    assert (found.returns, found.result) == ((("k", "int"),), "")
    assert found.clauses == (("requires", "n > 0"), ("ensures", "k == n"))
    assert found.body == "{ /*{HOLE}*/ }"
    assert [PARTS[place:][:7] for place in (found.start, found.opening)] == ["method ", "{ /*{HO"]
    assert (last.name, last.result, last.body) == ("F", ": int", "{ x }")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lemma L<T>(x: T) { }", "type parameters and bare names are not composed"),
        ("lemma L(x: int) {", "line 1: "),
        ("lemma L() { } /*", "line 1: a comment does not end"),
    ],
)
def test_a_declaration_that_cannot_be_read(text: str, why: str) -> None:
    with pytest.raises(ProblemError, match=why):
        read_declarations(text)


def test_a_comment_that_never_ends_is_refused() -> None:
    with pytest.raises(ProblemError, match="never closed"):
        normalise("method M() /* {")


@pytest.mark.parametrize(
    ("before", "pad"),
    [("  ", "  "), ("{\n\t ", "\t "), ("while i < n  ", ""), ("  { ", ""), ("", "")],
    ids=["blanks", "a tab", "after code", "after a brace", "at the margin"],
)
def test_the_lines_of_a_body_stand_where_its_hole_does(before: str, pad: str) -> None:
    assert fill_hole(f"{before}{HOLE}\n}}", "a\nb") == f"{before}a\n{pad}b\n}}"


@pytest.mark.parametrize(
    "statement",
    [
        f"/* {HOLE} */\nmethod M() ensures false {{ A(); }}\n",
        f"// {HOLE} \nmethod M() ensures true {{}}\n",
        f'const s := " {HOLE} "\nmethod M() ensures true {{}}\n',
    ],
)
def test_a_hole_in_a_comment_or_a_string_holds_no_body(statement: str) -> None:
    """A body's own string would end the comment, and Dafny would read what stands in it."""
    with pytest.raises(ProblemError, match="its hole is inside a comment or a string"):
        check_problem(Problem("p", "dafny", "statements", "", statement))
