"""Methods written from words, contract and code: what Dafny proves, what it is worth, what is
refused before Dafny is asked, and what the generator makes of its families."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Sequence

import pytest

from proverrl.errors import ProblemError, RecordError, ToolchainError
from proverrl.evaluation.store import attempt_row
from proverrl.generate.families import CurriculumDraft
from proverrl.lab.words.dafny.program import PROGRAMMING, is_trivial
from proverrl.lab.words.drafts import StatementGenerator
from proverrl.lab.words.kinds import IMPLEMENT
from proverrl.lab.words.rewards import program
from proverrl.lab.words.written import tell_grades
from proverrl.lang import find_language
from proverrl.lang.dafny.audit.bodies import PROGRAM, audit, check_problem
from proverrl.lang.dafny.syntax.text import normalise
from proverrl.problems.drafts import DraftChecker, build_problem
from proverrl.problems.prompt import render_body, render_messages, render_prompt, use_problem_words
from proverrl.rollout.feedback import FEEDBACK
from proverrl.types import (
    HOLE,
    Candidate,
    Diagnostic,
    Obligations,
    Problem,
    Rollout,
    Split,
    Stage,
    Status,
    Turn,
    Verdict,
)
from tests.builders import build_problem as build_loop
from tests.builders import build_rollout
from tests.lang.dafny import test_code
from tests.lang.dafny.test_code import LOOP
from tests.shared_verifier import judge

DAFNY = find_language("dafny")
GENERATOR = StatementGenerator(DAFNY, programs=True)
OWN = "Impl$$_module.__default.Sum__up"
FORM = "CheckWellformed$$_module.__default.Sum__up"
MEANT = "Impl$$_module.__default.Meant"


def ask(promise: str = "r == 7 * n + k", head: str = "n: nat, k: int") -> Problem:
    """The underscore in the name is written as two in the names of Dafny's entries."""
    names = ", ".join(part.partition(":")[0] for part in head.split(", "))
    text = f"method Sum_up({head}) returns (r: int)\n  {HOLE}\n"
    text += f"method Meant({head}) returns (r: int)\n  requires k > 2\n  ensures {promise}\n"
    text += f"{{\n  r := Sum_up({names});\n}}\n"
    return Problem("p", "dafny", IMPLEMENT, "", text, informal="`r` is 7 times `n` plus `k`.")


PROVED = (
    f"requires k > 2\nensures r == 7 * n + k\n{LOOP}",
    f"ensures r == 7 * n + k\n{LOOP}",
    f"requires k > 0 ensures r - k == 7 * n ensures r > 7 * n; {LOOP}",
    "ensures r == 7 * n + k { r := 7 * n + k; }",
    "ensures r == k + 7 * n\ndecreases n\n"
    "{ if n == 0 { return k; } r := Sum_up(n - 1, k); r := r + 7; }",
    "// as it is said\nensures r == 7 * n + k // \u2264\n{ r := n * 7; /* and */ r := r + k; }",
)
VERIFIED = (
    f"requires k > 3\nensures r == 7 * n + k\n{LOOP}",
    "ensures r > 7 || n > 0 || k < 8 { r := 8; }",
    "requires n == 0 ensures r == k { r := k; }",
    "requires k > 2 && k < 2 ensures r == 7 * n + k { }",
)
UNPROVED = (
    "ensures r == 7 * n + k { }",
    f"ensures r == 7 * n + k\n{LOOP.replace('r + 7', 'r + 8')}",
    f"ensures r == 7 * n + k\n{LOOP.replace('i < n', 'i <= n')}",
    "ensures r == 7 * n + k { r := k; var i := 0; while i < n { r := r + 7; i := i + 1; } }",
    "ensures r == 7 * n + k { r := Sum_up(n, k); }",
    "ensures r == 7 * n + k ensures 8 / (k - 3) == 0 { r := 7 * n + k; }",
)
UNREAD = (
    "ensures r == 7 * n + m { r := 0; }",
    "ensures r == 7 * n + k { r := true; }",
    "ensures r == 7 * n + k { r := 7 * n + k }",
    "ensures r == 7 * n + k { ghost var x := n; r := x; }",
)
REFUSED = (
    "",
    "{ }",
    "{ r := 7 * n + k; }",
    "requires false ensures r == 7 * n + k { }",
    "ensures true { r := 7 * n + k; }",
    "ensures r == r ensures true { r := 7 * n + k; }",
    "ensures false { }",
    "ensures r == 7 * n + k { r := Meant(n, k); }",
    "ensures r == 7 * n + k { r :| r == 7 * n + k; }",
    "ensures r == 7 * n + k { assume false; }",
)


def earn(body: str, verdict: Verdict, problem: Problem | None = None) -> float:
    problem = problem or ask()
    turn = build_rollout(problem, 0, Status.REJECTED).turns[0]
    judged = Turn(turn.completion, Candidate(problem, body), verdict)
    reward = program(Rollout("p", problem, "solver", (judged,)))
    assert reward.parts == {"program": reward.total}
    return reward.total


@pytest.mark.dafny
@pytest.mark.parametrize(
    ("bodies", "score"),
    [(PROVED, 1.0), (VERIFIED, 0.6), (UNPROVED, 0.2), (UNREAD, 0.01), (REFUSED, 0.0)],
    ids=["meant", "verified", "unproved", "unread", "refused"],
)
@pytest.mark.usefixtures("recorded_dafny")
def test_dafny_decides_what_a_program_is_worth(bodies: Sequence[str], score: float) -> None:
    verdicts = judge(ask(), bodies)
    assert [v.proved for v in verdicts] == [score == 1.0] * len(bodies), verdicts
    scores = [earn(body, verdict) for body, verdict in zip(bodies, verdicts, strict=True)]
    assert scores == [score] * len(bodies), verdicts


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_a_proof_verifies_the_code_even_where_its_contract_asks_for_nothing() -> None:
    (verdict,) = judge(ask("k > 1"), ["{ }"])
    assert verdict.status is Status.UNSOUND
    assert f"missing ['{OWN}']" in verdict.diagnostics[0].message


def test_a_limit_is_never_a_success() -> None:
    body = f"ensures r == 7 * n + k\n{LOOP}"

    def score(**proved: int) -> float:
        """The score where so many of two obligations each are proved."""
        entries = {"form": FORM, "own": OWN, "meant": MEANT}
        counted = tuple(Obligations(entries[name], 2, num) for name, num in proved.items())
        return earn(body, Verdict(Status.EXHAUSTED, obligations=counted, stage=Stage.PROVER))

    assert score(form=2, own=2, meant=0) == 0.6
    assert score(form=2, own=2, meant=1) == 0.6
    assert score(form=2, own=0, meant=2) == 0.2
    assert score(form=1, own=2, meant=2) == 0.2
    assert score(meant=2) == 0.2


def test_evaluations_say_who_meets_which_contract() -> None:
    body = f"ensures r == 7 * n + k\n{LOOP}"
    counted = (Obligations(FORM, 1, 1), Obligations(OWN, 2, 2), Obligations(MEANT, 1, 0))
    verified = Verdict(Status.REJECTED, obligations=counted, stage=Stage.PROVER)

    def find(verdict: Verdict, problem: Problem) -> str | None:
        turn = build_rollout(problem, 0, Status.REJECTED).turns[0]
        judged = Turn(turn.completion, Candidate(problem, body), verdict)
        row = attempt_row(Rollout("p", problem, "solver", (judged,)), 0)
        return str(row["grade"]) if "grade" in row else None

    assert find(verified, ask()) == "verified"
    proved = Verdict(Status.PROVED, obligations=counted, stage=Stage.PROVER, checks=("entries:2",))
    assert find(proved, ask()) == "meant"
    assert find(Verdict(Status.TIMEOUT), ask()) is None
    assert find(proved, build_loop("p")) is None
    grades = {"meant": 3, "verified": 1, "unproved": 4}
    assert tell_grades("After", {"grades": grades}) == (
        "After: 50.0% of the programs meet their own contract, 37.5% the one that is meant"
    )
    assert tell_grades("After", {}) == ""


@pytest.mark.dafny
@pytest.mark.parametrize(
    ("bodies", "score"),
    [
        (test_code.PROVED, 1.0),
        (test_code.UNPROVED, 0.2),
        (test_code.UNREAD, 0.01),
        (test_code.REFUSED, 0.0),
    ],
    ids=["proved", "unproved", "unread", "refused"],
)
@pytest.mark.usefixtures("recorded_dafny")
def test_dafny_decides_what_code_is_worth(bodies: Sequence[str], score: float) -> None:
    verdicts = judge(test_code.ASKED, bodies)
    assert [earn(b, v, test_code.ASKED) for b, v in zip(bodies, verdicts, strict=True)] == (
        [score] * len(bodies)
    )
    assert PROGRAMMING.ask_empty(test_code.ASKED, test_code.LOOP) == ()


def test_an_unconfirmed_program_is_refused() -> None:
    refused = Verdict(Status.UNCONFIRMED)
    assert PROGRAMMING.grade(Candidate(ask(), PROVED[0]), refused) == "refused"


def test_other_problems_have_no_such_reward() -> None:
    with pytest.raises(RecordError, match="asks for no program"):
        program(build_rollout(build_loop("q"), 0, Status.PROVED))


@pytest.mark.parametrize(
    ("contract", "trivial"),
    [
        ("", True),
        ("requires k > 2", True),
        ("ensures true", True),
        ("ensures r == r", True),
        ("ensures r + n == r  +  n ensures true", True),
        ("ensures false", True),
        ("ensures r == k requires false", True),
        ("ensures true ensures r == k", False),
        ("ensures r == k", False),
        ("ensures r == n == r", False),
        ("ensures", False),
    ],
)
def test_trivial_contracts(contract: str, trivial: bool) -> None:
    assert is_trivial(Candidate(ask(), contract + " { r := k; }")) is trivial


def test_refused_at_the_place_in_the_body() -> None:
    findings = audit(PROGRAM, "ensures r == k\n{\n  r := Meant(n, k);\n}", problem=ask())
    assert [(f.rule, f.line, f.column) for f in findings] == [("names", 3, 7)]
    findings = audit(PROGRAM, "ensures r == k\n{\n  while true }", problem=ask())
    assert [(f.rule, f.line, f.column) for f in findings] == [("missing-body", 3, 13)]
    with pytest.raises(ProblemError, match="against its problem"):
        audit(PROGRAM, "{ }")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (f"method M() {{ {HOLE} }}\nmethod Meant() {{ M(); }}\n", "follows the head"),
        (
            f"method M()\n  {HOLE}\n  ensures true\nmethod Meant() {{ M(); }}\n",
            "cannot be held|no ",
        ),
        (f"lemma M()\n  {HOLE}\nmethod Meant() {{ }}\n", "follows the head"),
        (f"class C {{ method M()\n  {HOLE}\n}}\nmethod Meant() {{ }}\n", "follows the head"),
        (f"method M()\n  {HOLE}\n", "says what is meant"),
        (f"lemma L() ensures false\nmethod M()\n  {HOLE}\nmethod Meant() {{ }}\n", "has no body"),
        (f"method M()\n  {HOLE}\nmethod Meant() {{ assume false; }}\n", "assumes"),
    ],
)
def test_problems_that_hold_no_program(statement: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        check_problem(Problem("p", "dafny", PROGRAM, "", statement))


def test_feedback_and_answers_know_nothing_of_what_is_meant() -> None:
    problem = ask("r == 70 * n")
    inside = Diagnostic("error", "unresolved identifier: m", 2, 15, body_line=1, body_column=13)
    behind = Diagnostic("error", "not 70 * n", 6, 4)
    verdict = Verdict(Status.REJECTED, (behind, inside), goals=("r == 70 * n",))
    for render in FEEDBACK.values():
        told = render(Candidate(problem, "ensures r == m { }"), verdict, 8)
        assert "70 * n" not in told
        assert "Meant" not in told
        assert "unresolved identifier" in told
    head = problem.statement.partition(HOLE)[0]
    assert DAFNY.read_body(problem, head + PROVED[1]).body == PROVED[1]


@functools.cache
def draw(split: Split, per_level: int) -> list[CurriculumDraft]:
    streams = (GENERATOR.stream_level(level, 3, split) for level in (1, 2, 3, 5))
    return [draft for s in streams for draft in itertools.islice(s, per_level)]


def test_the_families_with_loops_give_programs() -> None:
    drafts = draw("train", 40)
    assert len(drafts) == 4 * 40
    families = {draft.family for draft in drafts}
    assert len(families) == 25
    assert not families & PROGRAMMING.unseen
    assert list(GENERATOR.stream_level(4, 3, "train")) == []
    for draft in drafts:
        problem = build_problem(GENERATOR, draft, "train")
        assert problem.id.endswith("-p")
        assert DAFNY.find_objection(problem, draft.reference) == ""
        assert "ensures " in draft.reference
        shown = [render_prompt(problem, layout) for layout in ("plain", "canonical")]
        shown += [message.content for message in render_messages(problem, "dafny")]
        for text in shown:
            assert "Meant" not in text
            assert "ensures" not in text.partition("```dafny")[2]
        written = render_body(problem, draft.reference, "canonical")
        read = use_problem_words(problem, written, "canonical")
        assert normalise(read) == normalise(draft.reference)


def test_no_meaning_is_in_two_splits() -> None:
    drawn: dict[Split, set[str]] = {
        split: {GENERATOR.normalise(draft.statement) for draft in draw(split, 40)}
        for split in ("train", "valid", "heldout")
    }
    assert [len(found) for found in drawn.values()] == 3 * [4 * 40]
    for one, other in itertools.combinations(drawn.values(), 2):
        assert not one & other


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_what_idle_code_meets_is_dropped() -> None:
    """Of three contracts only the last asks for code that does something."""

    async def check() -> tuple[list[bool], dict[str, int]]:
        verifier, learn = GENERATOR.open_verifier(2)
        checker = DraftChecker(GENERATOR, verifier, learn, "train")
        kept = []
        try:
            for promise, code in (
                ("r >= 0", "r := 1;"),
                ("r <= n + k", "r := n;"),
                ("r == n + 1", "r := n + 1;"),
            ):
                statement = ask(promise).statement
                reference = f"requires k > 2\nensures {promise}\n{{ {code} }}"
                draft = CurriculumDraft(1, "l1_x", IMPLEMENT, statement, reference, "Words.")
                kept.append(bool(await checker.check(draft)))
        finally:
            await verifier.aclose()
        return kept, dict(checker.counts.dropped)

    try:
        kept, dropped = asyncio.run(check())
    except ToolchainError as error:
        pytest.skip(str(error))
    assert kept == [False, False, True]
    assert sorted(dropped.values()) == [1, 1]
    assert all("r := 0;" in reason for reason in dropped)


@pytest.mark.dafny
@pytest.mark.slow
@pytest.mark.usefixtures("recorded_dafny")
def test_dafny_proves_the_reference_of_each_family() -> None:
    drafts = list({draft.family: draft for draft in draw("heldout", 40)}.values())
    for draft in drafts:
        problem = build_problem(GENERATOR, draft, "heldout")
        own = judge(problem, [draft.reference, *GENERATOR.list_trivial(draft)])
        assert [v.proved for v in own] == [True] + [False] * (len(own) - 1), draft
