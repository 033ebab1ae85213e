"""States of Lean proofs: truncate-and-resume by hand, and on a real Lean where one is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proverrl.errors import UsageError
from proverrl.lang.lean.search.blocks import Block, find_blocks
from proverrl.lang.lean.search.states import SEARCHING, Cut, find_cut, resume_comment, segment_lean
from proverrl.lang.records import Prefix, Segment
from proverrl.types import HOLE, BodyState, Candidate, Diagnostic, Problem, Status, Verdict
from tests.lean_builders import build_lean_problem
from tests.lean_search import SPLIT, Lean, open_lean

PROBLEM = build_lean_problem("t", "p ∧ q → q ∧ p")
BODY = "intro h\n  -- split it\n  constructor\n  · exact h.2\n  · exact h.3"
STATES: tuple[BodyState, ...] = (
    (1, 0, "⊢ p ∧ q → q ∧ p"),
    (3, 2, "h : p ∧ q\n⊢ q ∧ p"),
    (4, 2, "h : p ∧ q\n⊢ q\n\nh : p ∧ q\n⊢ p"),
    (4, 4, "h : p ∧ q\n⊢ q"),
    (5, 2, "h : p ∧ q\n⊢ p"),
    (5, 4, "h : p ∧ q\n⊢ p"),
)


def error(line: int | None, column: int = 0, text: str = "no") -> Diagnostic:
    return Diagnostic("error", text, body_line=line, body_column=column)


def judged(*diagnostics: Diagnostic, status: Status = Status.REJECTED) -> Verdict:
    checks = ("fake",) if status is Status.PROVED else ()
    return Verdict(status, diagnostics, states=STATES, checks=checks)


def test_a_failed_proof_is_cut_at_its_first_error() -> None:
    segments = segment_lean(Candidate(PROBLEM, BODY), judged(error(5, 10)))
    assert segments == (
        Segment("intro h", "h : p ∧ q\n⊢ q ∧ p"),
        Segment("intro h\n  -- split it\n  constructor", STATES[2][2]),
        Segment("intro h\n  -- split it\n  constructor\n  · exact h.2", "h : p ∧ q\n⊢ p"),
    )
    # The earliest error counts, wherever Lean reports it.
    assert segment_lean(Candidate(PROBLEM, BODY), judged(error(5, 10), error(3, 2))) == segments[:1]
    assert segment_lean(Candidate(PROBLEM, BODY), judged(error(1, 2))) == ()


def test_what_a_block_leaves_open_cuts_where_the_block_ends() -> None:
    candidate = Candidate(PROBLEM, BODY)
    blocks = find_blocks(PROBLEM, BODY)
    # The first bullet leaves its goal: more could be written behind ``h.2``.
    inner = error(4, 2, "unsolved goals\nh : p ∧ q\n⊢ q")
    cut = find_cut(candidate, judged(inner), blocks)
    assert BODY[: cut.place].endswith("· exact h.2")
    assert cut.state == "h : p ∧ q\n⊢ q"
    assert segment_lean(candidate, judged(inner))[2:] == (
        Segment("intro h\n  -- split it\n  constructor\n  · exact h.2", cut.state),
    )
    # An error before the end of the block comes first.
    assert find_cut(candidate, judged(inner, error(4, 10)), blocks) == Cut(BODY.index("h.2"))
    # An error of no block that is known stands where it is.
    assert BODY[find_cut(candidate, judged(error(5, 10, inner.message)), blocks).place :] == "h.3"
    # What the theorem leaves open is open at the end.
    outer = error(None, 0, "unsolved goals\ncase right\nh : p ∧ q\n⊢ p  ∧ p\n\n⊢ q")
    segments = segment_lean(candidate, judged(outer))
    assert segments[3:] == (Segment(BODY, "h : p ∧ q\n⊢ p ∧ p\n\n⊢ q"),)
    # The last block and the theorem end together: the inner goals are what is open.
    both = find_cut(candidate, judged(outer, error(5, 2, "unsolved goals\n⊢ r")), blocks)
    assert both == Cut(len(BODY), "⊢ r")


def test_alternatives_that_are_missing_are_open_at_the_end() -> None:
    body = "intro h\n  cases h with\n  | inl a => exact a"
    states: tuple[BodyState, ...] = ((1, 0, "a"), (2, 2, "h : p ∨ q\n⊢ r"), (3, 2, "a : p\n⊢ r"))
    missing = error(2, 2, "Alternative `inr` has not been provided")
    verdict = Verdict(Status.REJECTED, (missing,), states=states)
    assert segment_lean(Candidate(PROBLEM, body), verdict)[-1] == Segment(
        body, "h : p ∨ q\n⊢ r\nAlternative `inr` has not been provided"
    )
    # Behind another tactic none can be written.
    after = segment_lean(Candidate(PROBLEM, body + "\n  simp"), verdict)
    assert after == (Segment("intro h", "h : p ∨ q\n⊢ r"),)


def test_a_finished_block_is_not_the_proof() -> None:
    body = "have a : p := by\n    simp\n    simp\n  exact a"
    states: tuple[BodyState, ...] = ((1, 0, "a"), (2, 4, "⊢ p"), (3, 4, "no goals"), (4, 2, "b"))
    verdict = Verdict(Status.REJECTED, (error(3, 4),), states=states)
    assert segment_lean(Candidate(PROBLEM, body), verdict) == ()


@pytest.mark.parametrize(
    ("body", "blocks"),
    [
        ("intro h\n  simp", []),
        ("have h : p := by simp\n  exact h", ["simp"]),
        ("have h : p := by\n    a\n    b\n  exact h", ["a\n    b"]),
        ("have h : p := by\n    have g : q := by c\n    b", ["have g : q := by c\n    b", "c"]),
        ("constructor\n  · a\n    b\n  · c", ["a\n    b", "c"]),
        (". a\n  . b", ["a", "b"]),
        (
            "cases h with\n  | inl a => b\n  | inr c =>\n    d\n    e",
            ["b", "d\n    e"],
        ),
        ("case left => a\n  next h => b", ["a", "b"]),
        # Alternatives of a term, and blocks in brackets, are part of their tactic.
        ("exact match h with\n  | .inl a => b", []),
        ("exact foo (by simp) (by\n    omega)", []),
        ("exact h.1\n  .trans g", []),
        ("have h : p := by", [""]),
        ("calc a = b := by c\n    _ = d := by e\n  f", ["c", "e"]),
    ],
)
def test_blocks(body: str, blocks: list[str]) -> None:
    own, *inner = find_blocks(PROBLEM, body)
    assert own == Block(-1, 0, len(body), 2, -1)
    assert [body[block.start : block.end] for block in inner] == blocks
    term = find_blocks(build_lean_problem(kind="term"), body)
    assert all(block.opener >= 0 for block in term)


def test_the_column_of_what_comes_next() -> None:
    columns = {
        text: SEARCHING.next_column(PROBLEM, text)
        for text in ("intro h", "have h : p := by", "have h : p := by\n    simp", "split\n  ·")
    }
    assert list(columns.values()) == [2, 4, 2, 4]


def test_a_proof_ends_in_no_goals() -> None:
    segments = segment_lean(Candidate(PROBLEM, BODY + "\n"), judged(status=Status.PROVED))
    assert [segment.state for segment in segments[2:]] == ["h : p ∧ q\n⊢ p", "no goals"]
    assert segments[-1].text == BODY
    term = Candidate(build_lean_problem(kind="term"), "trivial")
    assert segment_lean(term, Verdict(Status.PROVED, checks=("a",))) == (
        Segment("trivial", "no goals"),
    )


def test_a_sorry_cuts_but_not_in_a_comment() -> None:
    body = "intro h -- sorry\n  constructor\n  sorry"
    states: tuple[BodyState, ...] = ((1, 0, "a"), (2, 2, "b"), (3, 2, "c"))
    verdict = Verdict(Status.INCOMPLETE, states=states)
    assert segment_lean(Candidate(PROBLEM, body), verdict) == (
        Segment("intro h", "b"),
        Segment("intro h -- sorry\n  constructor", "c"),
    )
    early = Candidate(PROBLEM, "intro h\n  have a : p := by sorry\n  exact a")
    after: tuple[BodyState, ...] = ((1, 0, "a"), (2, 2, "b"), (2, 19, "i"), (3, 2, "c"))
    assert segment_lean(early, Verdict(Status.INCOMPLETE, states=after)) == (
        Segment("intro h", "b"),
    )


def test_a_line_that_opens_a_block_closes_no_segment() -> None:
    body = "have a : p := by\n    exact h\n  /- two\n  lines -/\n  exact wrong"
    states: tuple[BodyState, ...] = ((1, 0, "a"), (2, 4, "inner"), (5, 2, "after"))
    verdict = Verdict(Status.REJECTED, (error(5, 8),), states=states)
    assert segment_lean(Candidate(PROBLEM, body), verdict) == (
        Segment("have a : p := by\n    exact h", "after"),
    )


def test_tactics_on_one_line_are_one_segment() -> None:
    body = "intro h; constructor\n  exact wrong"
    states: tuple[BodyState, ...] = ((1, 0, "a"), (1, 9, "b"), (2, 2, "c"))
    verdict = Verdict(Status.REJECTED, (error(2, 8),), states=states)
    assert segment_lean(Candidate(PROBLEM, body), verdict) == (
        Segment("intro h; constructor", "c"),
    )


def test_what_was_not_run_has_no_segments_and_missing_states_are_told() -> None:
    candidate = Candidate(PROBLEM, BODY)
    for status in (Status.TIMEOUT, Status.CRASHED, Status.EXHAUSTED, Status.UNSOUND):
        assert segment_lean(candidate, judged(error(5, 10), status=status)) == ()
    assert segment_lean(candidate, Verdict(Status.REJECTED, (error(5, 10),))) == ()
    with pytest.raises(UsageError, match="trace_states = True"):
        segment_lean(candidate, Verdict(Status.PROVED, checks=("a",)))
    dafny = Problem("d", "dafny", "invariants", "", HOLE)
    with pytest.raises(UsageError, match="is in dafny"):
        segment_lean(Candidate(dafny, "x"), judged())


def test_the_state_is_a_comment_before_what_is_written_next() -> None:
    prefix = Prefix("intro h", "h : p\n⊢ q -/ r")
    assert resume_comment(PROBLEM, prefix) == (
        "\n  /- tactic state:\n    h : p\n    ⊢ q - / r\n  -/\n"
    )
    deep = Prefix("constructor\n  · intro h", "⊢ q")
    assert resume_comment(PROBLEM, deep) == "\n    /- tactic state:\n      ⊢ q\n    -/\n"
    assert resume_comment(PROBLEM, Prefix("", "")) == ""
    # What is not known is not shown: a policy never met a comment without goals.
    assert resume_comment(PROBLEM, Prefix("intro h", "")) == "\n"


# Real Lean


@pytest.fixture(scope="module")
def lean() -> Iterator[Lean]:
    yield from open_lean()


PROOF = (
    "have h1 : 0 < x := by\n    exact h0\n  constructor\n  · intro h\n    omega\n"
    "  · cases hp with\n    | inl a =>\n      exact Or.inr a\n    | inr b => exact Or.inl b"
)


@pytest.mark.lean
def test_every_beginning_of_a_proof_is_a_state_to_go_on_from(lean: Lean) -> None:
    """Line by line, inside blocks and between alternatives: each is kept, and no two are one."""
    lines = PROOF.split("\n")
    reached = []
    for number in range(1, len(lines)):
        body = "\n".join(lines[:number])
        verdict = lean.judge(SPLIT, body)
        assert verdict.status is Status.REJECTED, body
        segments = segment_lean(Candidate(SPLIT, body), verdict)
        assert segments[-1].text == body
        reached.append(segments[-1].state)
    assert len(set(reached)) == len(lines) - 1
    shown = [state.partition("\n\n")[0].split("⊢")[1].split("\n") for state in reached]
    assert shown == [
        [" 0 < x"],
        [" x ≠ 0 ∧ (q ∨ p)"],
        [" x ≠ 0"],
        [" False"],
        [" q ∨ p"],
        [" q ∨ p", "Alternative `inl` has not been provided"],
        [" q ∨ p"],
        [" q ∨ p", "Alternative `inr` has not been provided"],
    ]
    # Each missing alternative counts as open.
    assert [SEARCHING.count_open(state) for state in reached] == [1, 1, 2, 1, 1, 2, 1, 1]
    assert segment_lean(Candidate(SPLIT, PROOF), lean.judge(SPLIT, PROOF))[-1].state == "no goals"


@pytest.mark.lean
@pytest.mark.parametrize(
    ("body", "kept", "state"),
    [
        # An error inside a block; what stands before it in the block is kept.
        (
            "constructor\n  · intro h\n    exact wrong\n  · simp",
            "constructor\n  · intro h",
            "h : x = 0\n⊢ False",
        ),
        # A block that is left open before other tactics.
        (
            "have h1 : x = x + 0 := by\n    skip\n  constructor",
            "have h1 : x = x + 0 := by\n    skip",
            "⊢ x = x + 0",
        ),
        ("constructor <;> skip", "constructor <;> skip", "⊢ x ≠ 0"),
    ],
)
def test_real_errors_are_cut(lean: Lean, body: str, kept: str, state: str) -> None:
    last = segment_lean(Candidate(SPLIT, body), lean.judge(SPLIT, body))[-1]
    assert last.text == kept
    assert last.state.partition("\n\n")[0].endswith(state)


@pytest.mark.lean
def test_a_term_has_states_in_its_blocks(lean: Lean) -> None:
    statement = SPLIT.statement.replace(":= by", ":=")
    problem = Problem("split", "lean", "term", "", statement)
    body = "by\n    constructor\n    intro h"
    segments = segment_lean(Candidate(problem, body), lean.judge(problem, body))
    assert [segment.text for segment in segments] == ["by\n    constructor", body]
    # Without a block there is none.
    bare = "⟨fun h => by omega, wrong⟩"
    assert segment_lean(Candidate(problem, bare), lean.judge(problem, bare)) == ()
