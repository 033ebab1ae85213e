"""Invariants of a loop as they are sent to Dafny 2.3."""

import pytest

from proverrl.lang.dafny.known_bugs.joined_invariants import join_invariants
from proverrl.lang.dafny.syntax.cursor import GrammarError

FUNCTION = "function F(n: int): int requires n > 0 { n }\n"


def write(clauses: str) -> str:
    loop = f"  while r > 0 {clauses}\n  {{ r := r - 1; }}\n"
    return f"{FUNCTION}method M() {{\n  var r := 5;\n{loop}}}\n"


def test_invariants_up_to_the_last_that_calls_a_partial_function_are_joined() -> None:
    given = write(
        "invariant r > 0; // one\n  invariant F(r) == 5\n  invariant F(r) < 6 invariant r < 9"
    )
    joined = join_invariants(given)
    assert joined.text == write(
        "invariant (r > 0)  // one\n  &&        ((F(r) == 5)\n  &&        (F(r) < 6)) "
        "invariant r < 9"
    )
    line = given.split("\n")[5]
    sent = joined.text.split("\n")[5]
    assert joined.find_column(6, sent.index("F(r) < 6")) == line.index("F(r) < 6")
    assert joined.find_column(6, sent.index("r < 9")) == line.index("r < 9")


@pytest.mark.parametrize(
    "clauses",
    [
        "invariant r >= 0 invariant r < 9",
        "invariant r > 0 && F(r) == 5",
        "invariant r > 0 ==> F(r) == 5 invariant r < 9",
    ],
)
def test_what_needs_no_earlier_invariant_is_sent_as_it_is(clauses: str) -> None:
    assert join_invariants(write(clauses)).text == write(clauses)


def test_a_call_of_an_object_is_joined_too() -> None:
    member = "class C { function G(): int { 5 } }\n" + write(
        "invariant o != null invariant o.G() == 5"
    )
    assert "invariant (o != null) &&        (o.G() == 5)\n" in join_invariants(member).text


def test_types_that_were_written_into_patterns_are_read_as_ours() -> None:
    typed = write("invariant r > 0 invariant F(r) == 5").replace(
        "method M", "predicate P(d: D) { match d case B(e: D) => true }\nmethod M"
    )
    with pytest.raises(GrammarError, match="a type in the pattern of a case is believed"):
        join_invariants(typed)
    joined = join_invariants(typed, admitted=True)
    assert "  while r > 0 invariant (r > 0) &&        (F(r) == 5)\n" in joined.text


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        (
            "invariant r > 0 decreases r invariant F(r) == 5",
            "write the invariants of this loop one after the other",
        ),
        (
            "invariant r > 0 invariant {:induction false} F(r) == 5",
            "this invariant may not have an attribute",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused(clauses: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message) as caught:
        join_invariants(write(clauses))
    assert caught.value.finding.line == 4
