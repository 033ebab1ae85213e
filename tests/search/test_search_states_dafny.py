"""States of Dafny proofs: by hand, and on what real Dafny says of bodies written by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.errors import ToolchainError, UsageError
from proverrl.lang.dafny.search.places import find_branch_end, find_cuts, rename_new
from proverrl.lang.dafny.search.states import KINDS, NOTHING_KNOWN, segment_dafny, step_segments
from proverrl.lang.open import open_verifier
from proverrl.lang.records import Segment
from proverrl.search.base import JudgedProposal, Proposal
from proverrl.search.strategy import text_of
from proverrl.search.tree import steps_of
from proverrl.types import (
    HOLE,
    Candidate,
    Diagnostic,
    Obligations,
    Problem,
    Status,
    Verdict,
)

CLOSED = Problem(
    "closed",
    "dafny",
    "statements",
    "function Val(p: nat): int { if p < 1 then 22 else Val(p - 1) + 18 }\n",
    f"lemma {{:induction false}} Lem(m: nat)\n  ensures Val(m) == 18 * m + 22\n{{\n  {HOLE}\n}}\n",
)
CALC = Problem(
    "calc",
    "dafny",
    "calc",
    "function Fn(q: nat): int { if q == 0 then 19 else Fn(q - 1) + 23 * q }\n",
    "lemma {:induction false} Show(lim: nat)\n  ensures 2 * Fn(lim) == 23 * lim * (lim + 1) + 38\n"
    "{\n  if lim != 0 {\n    calc {\n      2 * Fn(lim);\n"
    f"      {HOLE}\n      23 * lim * (lim + 1) + 38;\n    }}\n  }}\n}}\n",
)
SUM = Problem(
    "sum",
    "dafny",
    "assertions",
    "function G(s: seq<int>): int { if |s| == 0 then 0 else G(s[..|s| - 1]) + s[|s| - 1] }\n",
    "method M(b: array<int>) returns (r: int)\n  ensures r == G(b[..])\n{\n  r := 0;\n"
    "  var idx := 0;\n  while idx < b.Length\n    invariant 0 <= idx <= b.Length\n"
    f"    invariant r == G(b[..idx])\n  {{\n    {HOLE}\n    r := r + b[idx];\n"
    "    idx := idx + 1;\n  }\n  assert b[..idx] == b[..];\n}\n",
)
INSERT = Problem(
    "insert",
    "dafny",
    "invariants",
    "",
    "method Solve(arr: array<int>, m: int)\n  requires 0 <= m < arr.Length\n"
    "  requires forall f, e :: 0 <= f < e < m ==> arr[f] <= arr[e]\n  modifies arr\n"
    "  ensures forall f, e :: 0 <= f < e <= m ==> arr[f] <= arr[e]\n{\n  var p := m;\n"
    f"  while p != 0 && arr[p - 1] > arr[p]\n    {HOLE}\n  {{\n"
    "    arr[p - 1], arr[p] := arr[p], arr[p - 1];\n    p := p - 1;\n  }\n}\n",
)
TREE = Problem(
    "tree",
    "dafny",
    "statements",
    "datatype L = Z | N(e: int, q: L)\nfunction S(u: L): nat { match u case Z => 0 "
    "case N(h, t) => S(t) + 2 }\n",
    f"lemma {{:induction false}} P(u: L)\n  ensures S(u) % 2 == 0\n{{\n  {HOLE}\n}}\n",
)
SORTED = "invariant forall f, e :: 0 <= f < e <= m && e != p ==> arr[f] <= arr[e]"

# problem, body, what is kept ("" for no segment)
CASES: dict[str, tuple[Problem, str, str]] = {
    "proved": (CLOSED, "if m >= 1 { Lem(m - 1); }", "if m >= 1 { Lem(m - 1); }"),
    "empty": (CLOSED, "", ""),
    "post": (CLOSED, "assert m >= 0;", "assert m >= 0;\n"),
    "post, and a comment": (CLOSED, "assert m >= 0; // so", "assert m >= 0; // so\n"),
    "post, and a blank": (CLOSED, "assert m >= 0; /* so */ ", "assert m >= 0; /* so */ \n"),
    "post again": (CLOSED, "assert m > -7;", "assert m > -7;\n"),
    "post in a branch": (CLOSED, "if m >= 1 { assert true; }", "if m >= 1 { assert true;"),
    "post in a case": (
        TREE,
        "match u {\n  case Z =>\n  case N(h, t) => assert h < 9 || h >= 9;\n}",
        "match u {\n  case Z =>\n  case N(h, t) => assert h < 9 || h >= 9;",
    ),
    "post in a case, other names": (
        TREE,
        "match u {\n  case Z =>\n  case N(x, y) =>\n}",
        "match u {\n  case Z =>\n  case N(x, y) =>",
    ),
    "second fails": (
        CLOSED,
        "if m >= 1 { assert Val(m) == Val(m - 1) + 18; assert Val(m) == 7; Lem(m - 1); }",
        "if m >= 1 { assert Val(m) == Val(m - 1) + 18;",
    ),
    "termination": (CLOSED, "if m >= 1 { Lem(m); }", "if m >= 1 {"),
    "first of several": (CLOSED, "if m >= 1 { assert m == 3; } Lem(m - 1);", "if m >= 1 {"),
    "first statement fails": (CLOSED, "Lem(m);", ""),
    "does not parse": (CLOSED, "assert m >= 0; Lem(m - 1)", ""),
    "does not resolve": (CLOSED, "assert m >= 0; Foo();", ""),
    "refused": (CLOSED, "assert m >= 0; assume false;", ""),
    "calc second": (
        CALC,
        "== 2 * Fn(lim - 1) + 46 * lim;\n== 7;",
        "== 2 * Fn(lim - 1) + 46 * lim;",
    ),
    "calc last": (
        CALC,
        "== 2 * Fn(lim - 1) + 46 * lim;",
        "== 2 * Fn(lim - 1) + 46 * lim;\n",
    ),
    "calc last, with a hint": (
        CALC,
        "== { assert lim > 0; } 2 * Fn(lim - 1) + 46 * lim;",
        "== { assert lim > 0; } 2 * Fn(lim - 1) + 46 * lim;\n",
    ),
    "outside": (SUM, "assert idx < b.Length;", "assert idx < b.Length;\n"),
    "inside": (SUM, "assert idx >= 0;\nassert idx > 5;", "assert idx >= 0;"),
    "clause missing": (INSERT, "invariant 0 <= p <= m", "invariant 0 <= p <= m\n"),
    "clause missing, and a comment": (
        INSERT,
        "invariant 0 <= p <= m // in bounds",
        "invariant 0 <= p <= m // in bounds\n",
    ),
    "clause missing, other words": (INSERT, "invariant p <= m", "invariant p <= m\n"),
    "clause fails": (
        INSERT,
        f"invariant 0 <= p <= m\ninvariant p > 3\n{SORTED}",
        "invariant 0 <= p <= m",
    ),
    "decreases fails": (INSERT, f"{SORTED}\ndecreases 0", SORTED),
}


@cache
def verdicts() -> dict[str, Verdict]:
    """Real verdicts on all cases."""

    async def go() -> list[Verdict]:
        verifier = open_verifier(workers=1)
        try:
            return [
                await verifier.verify(Candidate(problem, body), deadline_seconds=120.0)
                for problem, body, _ in CASES.values()
            ]
        finally:
            await verifier.aclose()

    try:
        return dict(zip(CASES, asyncio.run(go()), strict=True))
    except ToolchainError as error:
        pytest.skip(str(error))


def segments_of(name: str) -> tuple[Segment, ...]:
    problem, body, _ = CASES[name]
    return segment_dafny(Candidate(problem, body), verdicts()[name])


def state_of(name: str) -> str:
    (segment,) = segments_of(name)
    return segment.state


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_real_dafny_lets_keep(name: str) -> None:
    kept = CASES[name][2]
    assert [segment.text for segment in segments_of(name)] == ([kept] if kept else [])


@pytest.mark.slow
def test_a_state_is_what_is_left_open() -> None:
    assert state_of("proved") == "no goals"
    # The ensures clause is two lines above the hole, in column 17.
    post = (
        "A postcondition might not hold on this return path. [return]\n"
        "This is the postcondition that might not hold. [-2:17]"
    )
    assert state_of("post") == post
    assert state_of("post again") == post
    assert state_of("second fails") == f"{NOTHING_KNOWN}\nin: if m >= 1 {{"
    assert state_of("calc last") == (
        "the calculation step between the previous line and this line might not hold [+1:27]\n"
        "at: 2 * Fn ( lim - 1 ) + 46 * lim"
    )
    assert state_of("calc last, with a hint") == state_of("calc last")
    # The same term was reached, whatever failed after it.
    assert state_of("calc second") == state_of("calc last")
    assert "[-2:16]" in state_of("outside")
    assert state_of("clause missing") == state_of("clause missing, other words")
    assert state_of("clause missing") == state_of("clause missing, and a comment")
    assert state_of("post") == state_of("post, and a comment")
    for name, like in (("post, and a comment", "post"), ("post, and a blank", "post again")):
        problem, body, _ = CASES[name]
        steps = step_segments(Candidate(problem, body), verdicts()[name])
        text = text_of(JudgedProposal(Proposal(body, 1, -1.0), verdicts()[name], steps))
        assert len(steps_of(text, steps)) == len(segments_of(like)) == 1


def test_names_of_the_body_do_not_tell_states_apart() -> None:
    state = state_of("post in a case")
    assert state.endswith("in: match u { | case N ( ?1 , ?2 ) =>")
    assert state_of("post in a case, other names") == state


@pytest.mark.slow
def test_a_kept_prefix_goes_on_to_a_proof() -> None:
    """What is kept is used as a search uses it: it is the beginning of a whole body."""
    rests = {
        "termination": " Lem(m - 1); }",
        "clause missing": SORTED,
        "post": "if m >= 1 { Lem(m - 1); }",
    }

    async def go() -> list[Status]:
        verifier = open_verifier(workers=1)
        try:
            return [
                (
                    await verifier.verify(
                        Candidate(CASES[name][0], CASES[name][2] + rest), deadline_seconds=120.0
                    )
                ).status
                for name, rest in rests.items()
            ]
        finally:
            await verifier.aclose()

    verdicts()
    assert asyncio.run(go()) == [Status.PROVED] * 3


def rejected(*diagnostics: Diagnostic, status: Status = Status.REJECTED) -> Verdict:
    return Verdict(status, diagnostics, obligations=(Obligations("Impl", 2, 1),))


def test_nothing_is_kept_where_nothing_was_verified() -> None:
    candidate = Candidate(CLOSED, "assert m >= 0; Lem(m);")
    error = Diagnostic("error", "no", body_line=1, body_column=15)
    assert len(segment_dafny(candidate, rejected(error))) == 1
    assert segment_dafny(candidate, Verdict(Status.REJECTED, (error,))) == ()
    for status in (Status.EXHAUSTED, Status.TIMEOUT, Status.CRASHED, Status.UNSOUND):
        assert segment_dafny(candidate, rejected(error, status=status)) == ()
    assert segment_dafny(candidate, rejected()) == ()
    unread = replace(candidate, body="assert x; /* open")
    assert segment_dafny(unread, rejected(replace(error, body_line=None))) == ()


def test_messages_lose_numbers_and_names_of_the_body() -> None:
    candidate = Candidate(CLOSED, "assert m >= 0; var mine := 1;")
    outside = Diagnostic("error", "'mine' is above 31 but not m", candidate.head.count("\n"), 3)
    inside = Diagnostic("error", "no", body_line=1, body_column=15)
    (segment,) = segment_dafny(candidate, rejected(outside, inside))
    assert segment == Segment("assert m >= 0;", "'?' is above # but not m [-1:3]")
    # What fails in the text that is dropped does not tell states apart.
    (other,) = segment_dafny(candidate, rejected(outside, replace(inside, message="else")))
    assert other == segment


def test_a_place_after_the_hole_counts_from_the_end_of_the_body() -> None:
    """Bodies of one line and of three, and an error on the line of the closing brace."""
    states = set()
    for body in ("assert m >= 0;", "assert m >= 0;\n\nassert m > -1;"):
        candidate = Candidate(CLOSED, body)
        line = candidate.source.rstrip().count("\n") + 1
        (segment,) = segment_dafny(candidate, rejected(Diagnostic("error", "no", line, 0)))
        states.add(segment.state)
    assert states == {"no [+1:0]"}


def test_earlier_steps_have_their_text_as_key() -> None:
    candidate = Candidate(CLOSED, "assert m >= 0; var a := 1;\nassert a > 1; Lem(m);")
    error = Diagnostic("error", "assertion violation", body_line=2, body_column=9)
    steps = step_segments(candidate, rejected(error))
    assert steps == (
        Segment("assert m >= 0;", "text: assert m >= 0 ;"),
        Segment("assert m >= 0; var a := 1;", NOTHING_KNOWN),
    )
    # A name of the body's own is numbered: the same steps with another name are the same states.
    for name in ("a", "other"):
        body = f"assert m >= 0; var {name} := 1; assert {name} > 1; Lem(m);"
        late = Diagnostic("error", "no", body_line=1, body_column=body.index("Lem"))
        texts = [s.state for s in step_segments(Candidate(CLOSED, body), rejected(late))]
        assert texts == [
            "text: assert m >= 0 ;",
            "text: assert m >= 0 ; var ?1 := 1 ;",
            NOTHING_KNOWN,
        ]


def test_cuts_by_hand() -> None:
    def ends(body: str) -> list[str]:
        return [body[: cut.end] for cut in find_cuts(body)]

    assert ends("invariant x in {1, 2}\ninvariant y") == [
        "invariant x in {1, 2}",
        "invariant x in {1, 2}\ninvariant y",
    ]
    hint = "== { A(); B(); } 2;"
    assert ends(f"{hint} == 3;") == [hint, f"{hint} == 3;"]
    assert ends("assert p by { A(); }") == [
        "assert p by {",
        "assert p by { A();",
        "assert p by { A(); }",
    ]
    assert ends("/* never closed") == []
    cuts = find_cuts("if a { match u { case Z => B(); case N => C(); } }")
    assert [cut.blocks for cut in cuts] == [
        ("if a {",),
        ("if a {", "match u {"),
        ("if a {", "match u {", "case Z =>"),
        ("if a {", "match u {", "case Z =>"),
        ("if a {", "match u {", "case N =>"),
        ("if a {", "match u {", "case N =>"),
        ("if a {",),
        (),
    ]


def test_the_end_of_a_branch_by_hand() -> None:
    body = "if a { B({1}); } else { C(); }"
    assert body[find_branch_end(body, 5) :] == "} else { C(); }"
    assert body[find_branch_end(body, 22) :] == "}"
    match = "match u { case Z => if p { A(); } case N => }"
    assert match[find_branch_end(match, 10) :] == "case N => }"
    assert match[find_branch_end(match, 34) :] == "}"
    assert find_branch_end(body, 7) == len(body)


def test_new_names_are_numbered() -> None:
    assert rename_new(["x", "+", "m", "*", "y", "-", "x"], frozenset({"m"})) == "?1 + m * ?2 - ?1"


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab{};()=> \nié", max_size=40), st.integers(1, 4), st.integers(0, 20))
def test_what_is_kept_is_a_beginning(body: str, line: int, column: int) -> None:
    candidate = Candidate(CLOSED, body)
    error = Diagnostic("error", "no", body_line=line, body_column=column)
    for segment in step_segments(candidate, rejected(error)):
        assert body.startswith(segment.text.removesuffix("\n"))
        assert segment.text.strip()


def test_other_kinds_are_refused() -> None:
    whole = Problem("w", "dafny", "annotate", "method M() {}\n", HOLE)
    assert "annotate" not in KINDS
    with pytest.raises(UsageError, match=r"'w' \(dafny, annotate\) has no states"):
        segment_dafny(Candidate(whole, "method M() {}"), rejected())
