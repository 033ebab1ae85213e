"""States of Lean proofs: truncate-and-resume by hand, on recorded answers, and in tactic mode over
the fake REPL (nothing here says anything about a real Lean)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from proverrl.lang.lean.workers.repl_worker import LeanReplWorker

from proverrl.errors import ProblemError, UsageError
from proverrl.lang.lean.goals import find_states
from proverrl.lang.lean.judge import KnownStatements, LeanLimits, judge_messages
from proverrl.lang.lean.search.states import find_cut, resume_comment, segment_lean
from proverrl.lang.lean.search.tactic_mode import PlacedTactic, TacticMode, split_tactics
from proverrl.lang.lean.search.tactic_states import LeanStates
from proverrl.lang.lean.workers.protocol import CommandAnswer, parse_answer
from proverrl.lang.lean.workers.repl import Elaboration
from proverrl.lang.records import Prefix, Segment
from proverrl.types import HOLE, BodyState, Candidate, Diagnostic, Problem, Status, Verdict
from tests.lean_builders import FAKE_LEAN, build_lean_candidate, build_lean_problem
from tests.test_lean_replay import OWN, RECORDED, TRANSCRIPTS, load

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


def test_unsolved_goals_do_not_cut() -> None:
    candidate = Candidate(PROBLEM, BODY)
    inner = error(1, 0, "unsolved goals\n⊢ q")
    assert find_cut(candidate, judged(inner)) == len(BODY)
    cut = find_cut(candidate, judged(inner, error(5, 10)))
    assert BODY[cut:] == "h.3"
    # Goals of a block inside the body are not what is open after it.
    assert len(segment_lean(candidate, judged(inner))) == 3
    # Those of the theorem are.
    outer = error(None, 0, "unsolved goals\ncase right\nh : p ∧ q\n⊢ p  ∧ p\n\n⊢ q")
    segments = segment_lean(candidate, judged(outer))
    assert segments[3:] == (Segment(BODY, "h : p ∧ q\n⊢ p ∧ p\n\n⊢ q"),)


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


def answers() -> list[tuple[str, CommandAnswer]]:
    """The texts that a REPL was asked to run with all tactics, with its answers."""
    found = []
    for transcript in [*load(OWN), *load(RECORDED / TRANSCRIPTS)]:
        for exchange in transcript["exchanges"]:
            answer = parse_answer(json.dumps(exchange["response"]))
            if isinstance(answer, CommandAnswer) and answer.tactics:
                found.append((exchange["request"]["cmd"], answer))
    return found


def test_recorded_answers_of_a_repl_are_cut() -> None:
    """The made-up proof and the recorded one: its first ``sorry`` stands in the first step of a
    calculation, before which no tactic ends."""
    cut = {}
    for text, answer in answers():
        head, body = text.partition("by ")[::2]
        if not body:
            head, body = text.partition("by\n")[::2]
            head += "by\n"
        else:
            head += "by "
        candidate = Candidate(Problem("r", "lean", "tactics", "", head + HOLE), body)
        done = Elaboration(answer.env, answer.messages, answer.sorries, answer.tactics)
        judgement = judge_messages(done, candidate, 0)
        status = Status.PROVED if judgement is None else judgement.status
        verdict = Verdict(
            status,
            () if judgement is None else judgement.diagnostics,
            states=find_states(answer.tactics, candidate, 0),
            checks=("fake",),
        )
        cut[body] = segment_lean(candidate, verdict)
    assert cut["  skip\n  trivial"] == (
        Segment("  skip", "⊢ True"),
        Segment("  skip\n  trivial", "no goals"),
    )
    calculation = "calc\n  3 = 4 := by sorry\n  4 = 5 := by sorry"
    assert cut[calculation] == ()
    assert len(cut) == 2


# Tactic mode


def run(work: Callable[[TacticMode, LeanReplWorker], Awaitable[None]]) -> None:
    async def spawn() -> LeanReplWorker:
        return await LeanReplWorker.start(FAKE_LEAN, LeanLimits(), KnownStatements())

    async def main() -> None:
        worker, states = await spawn(), LeanStates(spawn)
        try:
            await work(TacticMode(states, worker.judge), worker)
        finally:
            worker.kill()
            await worker.join()
            await states.aclose()

    asyncio.run(main())


def test_tactics_are_split() -> None:
    body = "intro h\n  cases h with\n  | inl a =>\n    exact a\n  done"
    # The hole stands in column 2: a line in that column begins a tactic, but for an alternative.
    assert split_tactics(PROBLEM, body) == [
        PlacedTactic("intro h", 1, 0),
        PlacedTactic("cases h with\n| inl a =>\n  exact a", 2, 2),
        PlacedTactic("done", 5, 2),
    ]


def test_steps_in_tactic_mode() -> None:
    async def work(mode: TacticMode, worker: LeanReplWorker) -> None:
        problem = build_lean_problem("t", "p")
        bad, half, done = await mode.step(problem, (), ["bad", "split", "exact choice"])
        assert bad.is_failure
        assert half.goals == ("⊢ p (half)",)
        assert done.status == "completed"
        (twice,) = await mode.step(problem, ("split",), ["split"])
        assert twice.goals == ("⊢ p (half) (half)",)
        assert mode.states.num_steps == 4
        # A failed path stays failed, and nothing is computed twice.
        (after,) = await mode.step(problem, ("bad",), ["split"])
        assert after.is_failure
        assert mode.states.num_steps == 4
        broken = Problem("b", "lean", "tactics", "", f"theorem b : wrong := wrong\n  {HOLE}\n")
        with pytest.raises(ProblemError, match="its own statement fails"):
            await mode.step(broken, (), ["split"])

    run(work)


def test_a_search_goes_on_from_the_last_state_until_the_whole_file_is_judged() -> None:
    """Three attempts, each after what was kept of the one before."""

    async def work(mode: TacticMode, worker: LeanReplWorker) -> None:
        problem = build_lean_problem("t", "p")
        prefix = Prefix("", "")
        seen = []
        for written in ("split\n  bad", "split", "exact choice"):
            body = f"{prefix.text}\n  {written}" if prefix.text else written
            candidate = Candidate(problem, body)
            verdict = await mode.verify(candidate)
            last = segment_lean(candidate, verdict)[-1]
            prefix = Prefix(last.text, last.state)
            seen.append((verdict.status, last))
        assert seen == [
            (Status.REJECTED, Segment("split", "⊢ p (half)")),
            (Status.REJECTED, Segment("split\n  split", "⊢ p (half) (half)")),
            (Status.PROVED, Segment("split\n  split\n  exact choice", "no goals")),
        ]

    run(work)


def test_tactic_mode_alone_proves_nothing() -> None:
    async def work(mode: TacticMode, worker: LeanReplWorker) -> None:
        # The fake completes any tactic that it does not know; the whole file fails on this word.
        verdict = await mode.verify(build_lean_candidate("split\n  wrong"))
        assert verdict.status is Status.REJECTED
        assert verdict.states == ((1, 0, "⊢ True"), (2, 2, "⊢ True (half)"))
        left = await mode.verify(build_lean_candidate("split\n  sorry"))
        assert left.status is Status.INCOMPLETE
        assert segment_lean(build_lean_candidate("split\n  sorry"), left) == (
            Segment("split", "⊢ True (half)"),
        )

    run(work)
