"""Prompt layouts: canonical names are a pure renaming, and bodies come back rightly named."""

from __future__ import annotations

import random

import pytest

from proverrl.config import LayoutName
from proverrl.lang.dafny.syntax.text import normalise
from proverrl.problems.prompt import BODY_HEADING, render_body, render_prompt
from proverrl.rollout.extract import extract
from proverrl.types import HOLE, Problem
from tests.dafny_drafts import generate_drafts

STATEMENT = (
    f"method Go(n: nat) returns (acc: int)\n{{\n  var i := 0;\n  while i < n\n    {HOLE}\n"
    "  { i := i + 1; }\n}\n"
)


def problem(statement: str = STATEMENT, preamble: str = "") -> Problem:
    return Problem("p", "dafny", "invariants", preamble, statement)


def read_body(given: Problem, text: str, layout: LayoutName) -> str:
    body = extract(given, text, layout).body
    assert body is not None
    return body


def test_canonical_prompt_by_hand() -> None:
    assert render_prompt(problem(), "canonical") == (
        f"method A(a: nat) returns (b: int)\n{{\n  var c := 0;\n  while c < a\n    {HOLE}\n"
        "  { c := c + 1; }\n}" + BODY_HEADING
    )
    assert render_prompt(problem(), "plain") == STATEMENT.rstrip() + BODY_HEADING


def test_names_do_not_change_the_canonical_prompt() -> None:
    other = (
        STATEMENT.replace("acc", "zz").replace("Go", "Run").replace("while i < n", "while q < n")
    )
    other = other.replace("i := i + 1", "q := q + 1").replace("var i", "var q")
    assert render_prompt(problem(other), "canonical") == render_prompt(problem(), "canonical")


def test_constants_by_hand() -> None:
    statement = (
        f"lemma Low(n: int, x7: int)\n  requires 12 <= n < 345 && n != 0x1F && n != 1_000\n"
        f"  ensures 12 * n > 2 && 1.5 == 1.5 && [5, 345, 3..9][1..] != []\n{{\n  {HOLE}\n}}\n"
    )
    given = problem(statement)
    assert render_prompt(given, "canonical") == (
        "lemma A(a: int, b: int)\n  requires _1 <= a < _2 && a != 0x1F && a != 1_000\n"
        f"  ensures _1 * a > 2 && 1.5 == 1.5 && [_3, _2, _4.._5][1..] != []\n{{\n  {HOLE}\n}}"
        + BODY_HEADING
    )
    # 7 is no constant of the statement and stays; so does a number that it has, as digits.
    assert render_body(given, "assert 12 * n == 7 * x7;", "canonical") == "assert _1 * a == 7 * b;"
    assert read_body(given, "assert _1 * a == 7 * b;", "canonical") == "assert 12 * n == 7 * x7;"
    assert read_body(given, "assert 345 * a == _2;", "canonical") == "assert 345 * n == 345;"
    # What stands for no constant stays as it is, and is no Dafny.
    assert read_body(given, "assert _6 == a;", "canonical") == "assert _6 == n;"


def test_body_comes_back_under_the_programs_names() -> None:
    assert read_body(problem(), " invariant 0 <= c <= a\n", "canonical") == "invariant 0 <= i <= n"
    assert read_body(problem(), "invariant b == 1", "plain") == "invariant b == 1"


def test_a_new_name_never_becomes_one_of_the_programs() -> None:
    # `i` is no letter of the canonical program, so that it is a new bound variable there; it
    # must not be read as the program's own `i`.
    body = read_body(problem(), "invariant forall i :: i < c", "canonical")
    assert body == "invariant forall i1 :: i1 < i"
    # A letter that is new and not taken stays.
    assert read_body(problem(), "invariant forall q :: q < c", "canonical") == (
        "invariant forall q :: q < i"
    )


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["plain", "canonical"])
def test_references_round_trip_up_to_bound_names(layout: str) -> None:
    for number, draft in enumerate(generate_drafts((1, 2, 3, 4, 5), 300, 7, "train")):
        given = Problem(f"p{number}", "dafny", draft.kind, "", draft.statement)
        written = render_body(given, draft.reference, layout)  # type: ignore[arg-type]
        again = read_body(given, written, layout)  # type: ignore[arg-type]
        whole = [given.statement.replace(HOLE, body) for body in (draft.reference, again)]
        assert normalise(whole[0]) == normalise(whole[1])


def test_fences_and_missing_ends() -> None:
    text = "I think\n```dafny\ninvariant c == 1\n```\nthen\n```\ninvariant c == 2\n```"
    # A block that names the language is the answer, whatever comes behind it.
    assert read_body(problem(), text, "plain") == "invariant c == 1"
    assert read_body(problem(), "```dafny\ninvariant c == 3", "plain") == "invariant c == 3"


def test_garbage_is_read_without_raising() -> None:
    rng = random.Random(0)
    alphabet = "ab 0123.AB_'?/*{}:\n\"\\é\u2200`"
    for _ in range(300):
        text = "".join(rng.choice(alphabet) for _ in range(rng.randrange(40)))
        for layout in ("plain", "canonical"):
            assert isinstance(read_body(problem(), text, layout), str)
