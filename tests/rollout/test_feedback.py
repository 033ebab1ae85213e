"""Feedback by hand: marked spans, limits, and what has no place in the file."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proverrl.config import FeedbackName
from proverrl.rollout.feedback import FEEDBACK, compact, goedel, render_missing
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Status, Verdict

PROBLEM = Problem("p", "lean", "tactics", "import A\n", f"theorem t : P := by\n  {HOLE}\n\nend\n")
BODY = "one\n  two here\n  three\n  four"
CANDIDATE = Candidate(PROBLEM, BODY)
# 1 import A | 2 theorem | 3 "  one" | 4 "  two here" | 5 "  three" | 6 "  four" | 7 "" | 8 end


def error(line: int = 0, column: int = 0, **more: int) -> Diagnostic:
    return Diagnostic("error", f"bad {line}", line, column, **more)


def rejected(*errors: Diagnostic, goals: tuple[str, ...] = ()) -> Verdict:
    return Verdict(Status.REJECTED, errors, goals=goals)


def test_goedel_marks_a_span_with_four_lines_before_and_one_after() -> None:
    text = goedel(CANDIDATE, rejected(error(6, 2, end_line=6, end_column=5)), 8)
    assert text == (
        "The proof does not pass the verifier.\nError 1:\n```lean4\ntheorem t : P := by\n  one\n"
        "  two here\n  three\n  <error>fou</error>r\n\n```\nMessage: bad 6\nFirst analyse in "
        "detail why it fails, then write the whole corrected answer."
    )


def test_goedel_marks_to_the_end_of_the_line_without_an_end() -> None:
    text = goedel(CANDIDATE, rejected(error(4, 6)), 8)
    assert "\n  two <error>here</error>\n  three\n```" in text


def test_goedel_cuts_long_spans_after_six_lines() -> None:
    long = Candidate(PROBLEM, "\n".join(f"l{i}" for i in range(9)))
    # Lines 3 to 10 of the file are l0 to l7: 8 lines, of which 2 are cut.
    text = goedel(long, rejected(error(3, 2, end_line=10, end_column=2)), 8)
    assert "  <error>l0\nl1\nl2\nl3\nl4\nl5\n... (2 lines cut)</error>\nl8\n```" in text
    whole = goedel(long, rejected(error(3, 2, end_line=8, end_column=1)), 8)
    assert "  <error>l0\nl1\nl2\nl3\nl4\nl</error>5\nl6\n```" in whole


def test_only_so_many_errors_are_shown_and_the_rest_counted() -> None:
    warning = Diagnostic("warning", "never shown", 3)
    verdict = rejected(warning, *(error(n) for n in (3, 4, 5, 6, 8)))
    text = goedel(CANDIDATE, verdict, 2)
    assert text.count("Message: ") == 2
    assert "(3 further errors are not shown)" in text
    assert "never shown" not in text
    assert compact(CANDIDATE, verdict, 2).endswith("\n(3 further errors)")


def test_compact_counts_lines_in_the_candidates_own_text() -> None:
    assert compact(CANDIDATE, rejected(error(4, 2, body_line=2), error(2), error()), 3) == (
        "verification failed, error at line 2: bad 4\nverification failed, error at line 2: bad 2\n"
        "verification failed, error: bad 0"
    )
    proved = Verdict(Status.PROVED, checks=("x",))
    assert compact(CANDIDATE, proved, 3) == "verification succeeded"
    exhausted = compact(CANDIDATE, Verdict(Status.EXHAUSTED), 3)
    assert exhausted == (
        "verification failed: the proof needs more resources than the verifier allows"
    )


def test_dafny_code_is_fenced_as_such() -> None:
    dafny = Problem("d", "dafny", "statements", "", f"lemma L() {{\n  {HOLE}\n}}\n")
    assert "```dafny\nlemma L() {\n  <error>x</error>\n}\n```" in goedel(
        Candidate(dafny, "x"), rejected(error(2, 2)), 8
    )


def test_a_missing_candidate_is_told_with_its_reason() -> None:
    assert render_missing("no code block in the answer") == (
        "No proof was found in the answer: no code block in the answer. Write the whole answer "
        "again."
    )


place = st.integers(-2, 12)


@given(
    place, place, st.none() | place, st.none() | place, st.sampled_from(get_args(FeedbackName)),
    st.text(max_size=30), st.sampled_from([s for s in Status if s.judged and s != Status.PROVED]),
)  # fmt: skip
def test_no_place_and_no_body_raises(
    line: int,
    column: int,
    end_line: int | None,
    end_column: int | None,
    name: FeedbackName,
    body: str,
    status: Status,
) -> None:
    diagnostic = Diagnostic("error", "m", line, max(0, column), end_line, end_column)
    text = FEEDBACK[name](Candidate(PROBLEM, body), Verdict(status, (diagnostic,)), 1)
    assert text
    if "error>" not in body:
        assert text.count("<error>") == text.count("</error>")


def test_feedback_agrees_with_its_names() -> None:
    assert set(FEEDBACK) == set(get_args(FeedbackName))


def test_unjudged_verdicts_have_no_feedback() -> None:
    with pytest.raises(KeyError):
        goedel(CANDIDATE, Verdict(Status.TIMEOUT), 8)
