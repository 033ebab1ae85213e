"""Hints that the text of a Dafny program suggests, stage by stage."""

from __future__ import annotations

import pytest

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.search.guesses import guess_hints
from proverrl.lang.dafny.search.pooled import find_fault, list_hints, pose, put_together
from proverrl.lang.dafny.search.terms import is_single, plain, split, split_chain, substitute
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.types import Candidate


def guess(text: str, line: int) -> list[list[str]]:
    """The batches for what fails in a line, where nothing is shown to end."""
    return guess_hints(read_text(text, admitted=True, trusts=True), {line}, {line})


def all_of(text: str, line: int) -> set[str]:
    return {hint for batch in guess(text, line) for hint in batch}


def test_terms_are_replaced() -> None:
    text = "a[..] == f(x.a, a) + |s|"
    assert plain(text)[:5] == ("a", "[", "..", "]", "==")
    # A member of the same name is another thing; what binds less tightly gets brackets.
    assert substitute(text, "a", "b + 1") == "(b + 1)[..] == f(x.a, (b + 1)) + |s|"
    assert substitute("2 * n", "n", "f(i + 1)") == "2 * f(i + 1)"
    singles = {"|a + b|": True, "f(a + b).c": True, "a + b": False, "!a": False}
    assert {text: is_single(text) for text in singles} == singles
    assert split("(a && (b || c) && d)", "&&") == ["a", "b || c", "d"]
    # What binds less tightly than the sign is not cut.
    for whole in ("a ==> b && c", "forall k :: f(k) && g(k)"):
        assert split(whole, "&&") == [whole]


def test_chains_of_comparisons_are_taken_apart() -> None:
    assert split_chain("r * r <= n < (r + 1) * (r + 1)") == [
        "r * r <= n",
        "n < (r + 1) * (r + 1)",
    ]
    assert split_chain("a <= b") == []
    assert split_chain("a < b < c ==> d") == []


def test_a_loop_that_adds_up() -> None:
    program = """function Sum(n: nat): nat { if n == 0 then 0 else n + Sum(n - 1) }
method Add(n: nat) returns (r: nat)
  requires n < 100
  ensures r == Sum(n)
{
  r := 0;
  var i := 0;
  while i < n
  {
    i := i + 1;
    r := r + i;
  }
}
"""
    hints = all_of(program, 5)
    at = "9:3 invariant "
    # The guard and where it ends, where the counters begin, and what is required.
    assert {f"{at}i <= n", f"{at}0 <= i", f"{at}0 <= r"} <= hints
    assert f"{at}n < 100" not in hints  # Nothing of it changes.
    # The constant of the postcondition is replaced by the counter, and by its neighbours.
    assert {f"{at}r == Sum({i})" for i in ("n", "i", "i + 1", "i - 1")} <= hints
    assert all(hint.startswith("9:3 ") for hint in hints)
    # The function is partial: what is joined must not nest too deep.
    assert {len(batch) for batch in guess(program, 5)[:-1]} <= set(range(1, 25))
    # Of a declaration that does not fail nothing is guessed.
    assert guess(program, 1) == []


def test_an_array_that_is_filled() -> None:
    program = """method Fill(a: array<int>, v: int)
  modifies a
  ensures forall k :: 0 <= k < a.Length ==> a[k] == v
{
  var i := 0;
  while i < a.Length
  {
    a[i] := v;
    i := i + 1;
  }
}
"""
    bounds, facts = guess(program, 4)
    at = "7:3 invariant "
    assert f"{at}i <= a.Length" in bounds
    assert f"{at}forall k :: 0 <= k < i ==> a[k] == v" in facts
    # What was written, and what is still as it was.
    assert f"{at}forall k_ :: 0 <= k_ < i ==> a[k_] == v" in facts
    assert f"{at}forall k_ :: i <= k_ < a.Length ==> a[k_] == old(a[k_])" in facts


def test_a_search_whose_result_is_returned_from_inside() -> None:
    program = """method Find(s: seq<int>, x: int) returns (found: bool)
  ensures found <==> exists k :: 0 <= k < |s| && s[k] == x
{
  var i := 0;
  while i != |s|
  {
    if s[i] == x { return true; }
    i := i + 1;
  }
  return false;
}
"""
    bounds, facts = guess(program, 3)
    at = "6:3 "
    assert {f"{at}invariant i <= |s|", f"{at}decreases |s| - i"} <= set(bounds)
    assert f"{at}invariant !(exists k :: 0 <= k < i && s[k] == x)" in facts


def test_elements_that_are_swapped_and_the_largest_of_them() -> None:
    program = """method Reverse(a: array<int>) returns (m: int)
  modifies a
  ensures forall k :: 0 <= k < a.Length ==> a[k] == old(a[a.Length - 1 - k])
{
  m := a[0];
  var i := 0;
  while i < a.Length / 2
  {
    a[i], a[a.Length - 1 - i] := a[a.Length - 1 - i], a[i];
    if a[i] > m { m := a[i]; }
    i := i + 1;
  }
}
"""
    hints = {hint for stage in guess(program, 4) for hint in stage}
    at = "8:3 invariant forall k"
    old = "a[k] == old(a[a.Length - 1 - k])"
    assert f"{at} :: 0 <= k < i ==> {old}" in hints
    assert f"{at} :: a.Length - i <= k < a.Length ==> {old}" in hints
    assert f"{at}_ :: i <= k_ < a.Length - i ==> a[k_] == old(a[k_])" in hints
    assert f"{at}_ :: 0 <= k_ < i ==> a[k_] <= m" in hints


READABLE = {
    "an empty conjunct": """predicate P(x: int) { && x > 0 && x < 9 }
method M(n: nat) returns (r: nat)
  ensures P(r)
{ r := 0; while r < n { r := r + 1; } }""",
    "negated and joined guards": """method M(n: nat, b: bool) returns (r: nat)
  ensures r == n
{ r := 0; while !(r >= n) { r := r + 1; } while (r < n) || b { r := r + 1; } }""",
    "a value that is not known": """method M(n: nat) returns (r: int)
  ensures r == n
{ var i: int := *; r := 0; while r < n { r := r + 1; i := i + 1; } }""",
    "what methods return": """method H(i: int) returns (x: int) { x := i; }
class C { method G(i: int) returns (x: int) { x := i; } }
method M(n: nat, c: C) returns (r: int)
  ensures r == n
{ var i := 0; r := c.G(3); while i < n { i := i + 1; } return H(i); }""",
    "a trigger": """function F(s: set<int>): int { 0 }
method M(n: nat) returns (r: int)
  ensures r == F(set x {:trigger x in {n}} | x in {n})
{ var i := 0; r := 0; while i < n { i := i + 1; r := r + 1; } }""",
    "a limit that is all of a call": """function F(n: nat): nat { n }
method M(n: nat) returns (r: nat)
  ensures r == F(n)
{ r := 0; while r < F(n) { r := r + 1; } }""",
    "types with types": """method M<T(==)>(a: array<T>, m: map<T, seq<T>>, n: nat) returns (r: int)
  ensures r == n
{ r := 0; label L: while r < n { r := r + 1; } }""",
    "signs that are brackets of types": """class Foo<T> {}
method M(n: nat, x: object) returns (r: nat)
  ensures r == n
{ r := 0; while r < n && x is Foo<int> { r := r + 1; } }""",
    "downwards": """method M(a: array<int>)
  modifies a
  ensures forall k :: 0 <= k < a.Length ==> a[k] == 1
{ for i := a.Length downto 0 { a[i] := 1; } for i := 0 to * { } }""",
}


@pytest.mark.parametrize("text", READABLE.values(), ids=READABLE)
def test_every_guess_can_be_read(text: str) -> None:
    lines = set(range(1, 1 + text.count("\n") + 1))
    problem = pose("p", text)
    program = read_text(text, admitted=True, trusts=True)
    batches = guess_hints(program, lines, lines)
    assert sum(map(len, batches)) > 4
    for batch in batches:
        texts = [hint.text for hint in list_hints(problem, put_together(problem, batch))]
        assert texts == list(dict.fromkeys(batch))


def test_what_is_read_of_loops() -> None:
    typed = all_of(READABLE["types with types"], 1)
    assert "3:32 invariant r <= n" in typed
    down = all_of(READABLE["downwards"], 4)
    assert "4:30 invariant forall k_ :: i <= k_ < a.Length ==> a[k_] == 1" in down
    branches = """method M(c: bool, n: nat) returns (r: int)
  ensures r == n
{
  var x := 0;
  if c { x := 5; } else { r := 1; }
  while r < n { r := r + 1; x := x + 1; }
  var later: seq<int> := [];
}
"""
    found = all_of(branches, 2)
    assert not [hint for hint in found if "later" in hint or "0 <= x && x <= 0" in hint]
    assert "6:15 invariant x <= 0" not in found
    swapped = """method M(x: int, y: int) returns (p: int, q: int)
  ensures p < q
{
  var i := 0;
  while i < x { i := i + 1; }
  return q, p;
}
"""
    assert "5:15 invariant q < p" in all_of(swapped, 2)
    captured = """predicate P(s: seq<int>, n: int) { forall i :: 0 <= i < n ==> s[i] > 0 }
method M(s: seq<int>) returns (i: int)
  ensures P(s, i)
{ i := 0; while i < |s| { i := i + 1; } }
"""
    assert "4:25 invariant forall j :: 0 <= j < i ==> s[j] > 0" in all_of(captured, 3)


@pytest.mark.parametrize(
    ("head", "call", "measure"),
    [("i: nat, n: nat", "F(i + 1, n)", "n - i"), ("x: int, k: nat", "F(x + 1, k - 1)", "k")],
)
def test_a_function_that_calls_itself(head: str, call: str, measure: str) -> None:
    first = head.split(":")[0]
    program = f"function F({head}): nat\n{{ if {first} > 9 then 0 else {call} }}\n"
    [hints] = guess(program, 2)
    assert f"2:1 decreases {measure}" in hints
    # One that has a measure gets no other.
    assert guess(program.replace("\n{", f"\n  decreases {measure}\n{{"), 2) == []


LEMMAS = """function Odds(n: nat): nat { if n == 0 then 0 else Odds(n - 1) + 2 * n - 1 }

lemma Square(n: nat)
  ensures Odds(n) == n * n
{
}

lemma Other(n: int)
  ensures n * n >= 0
{
}

method Fast(n: nat, m: int, s: seq<int>) returns (r: nat)
  ensures r == Odds(n)
{
  r := n * n;
}
"""


def test_lemmas_are_called_that_conclude_something_of_what_is_ensured() -> None:
    assert guess(LEMMAS, 14) == [["16:3 Square(n);", "16:3 Square(m);"]]
    # What is called has no need of itself; and what one that fails concludes may be false.
    assert guess(LEMMAS, 4) == []
    program = read_text(LEMMAS, admitted=True, trusts=True)
    assert guess_hints(program, {4, 14}, set()) == []
    looped = LEMMAS.replace(
        "  r := n * n;", "  var i := 0;\n  while i < n\n  {\n    i := i + 1;\n  }"
    )
    calls = [hint for hint in guess(looped, 14)[-1] if "Square" in hint]
    assert calls == [f"{at} Square({name});" for at in ("19:5", "21:1") for name in "nmri"]


def test_names_with_a_prime_are_known() -> None:
    problem = pose("add", "method Add'(n': nat) {\n  var i' := 0;\n  while i' < n' {}\n}\n")
    hints = ["3:17 invariant i' <= n'", "3:17 invariant forall k' :: 0 <= k'"]
    assert [hint.text for hint in list_hints(problem, put_together(problem, hints))] == hints
    unknown = put_together(problem, ["3:17 invariant j' <= n'"])
    assert list_hints(problem, unknown) == []


def test_a_file_may_hold_what_a_newer_dafny_is_asked_about() -> None:
    text = "method M(s: seq<nat>, t: seq<int>)\n{\n  var r: seq<int> := s + t;\n}\n"
    problem = pose("c", text)
    asserted = text.replace("var r", "assert true; var r")
    assert find_fault(problem, asserted) is None
    with pytest.raises(ProblemError, match="wider collection"):
        audit_candidate(Candidate(problem, asserted))
    changed = find_fault(problem, text.replace("s + t", "t + s"))
    assert changed is not None
    assert changed.rule == "changed-program"
