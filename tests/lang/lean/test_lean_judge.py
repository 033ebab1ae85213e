"""The verdict rule of Lean, on messages written down by hand."""

import pytest

from proverrl.errors import UsageError, WorkerError
from proverrl.lang.lean.verify.identity import (
    DeclarationReport,
    make_axioms_question,
    make_report_question,
    parse_axioms,
    read_axioms,
    read_report,
)
from proverrl.lang.lean.verify.judge import (
    STANDARD_AXIOMS,
    KnownStatement,
    KnownStatements,
    LeanLimits,
    find_open_goals,
    judge_declaration,
    judge_file,
    judge_messages,
    make_diagnostics,
)
from proverrl.lang.lean.verify.workers.messages import (
    Elaboration,
    LeanMessage,
    Position,
    Severity,
)
from proverrl.types import Candidate, Diagnostic, Stage, Status
from proverrl.verifier.body_place import find_body_place
from tests.lean_builders import build_lean_candidate, build_lean_problem

HEARTBEATS = "(deterministic) timeout at `whnf`, maximum number of heartbeats (200000) has been"


def say(severity: Severity, text: str, line: int = 1, column: int = 0) -> LeanMessage:
    return LeanMessage(severity, text, Position(line, column))


def judge(*messages: LeanMessage, reached_end: bool = True) -> Status | None:
    done = Elaboration(None, messages, reached_end=reached_end)
    judgement = judge_messages(done, build_lean_candidate("x"), 0)
    return None if judgement is None else judgement.status


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (say("info", "Try this: rfl"), None),
        (say("trace", "declaration uses sorry"), None),
        (say("warning", "unused variable `h`"), None),
        (say("warning", "unused variable `sorry_free`"), None),
        (say("warning", "declaration uses 'sorry'"), Status.INCOMPLETE),
        (say("warning", "declaration uses `sorry`"), Status.INCOMPLETE),
        (say("warning", "depends on sorryAx"), Status.INCOMPLETE),
        (say("error", "unsolved goals\n⊢ False"), Status.REJECTED),
        (say("error", HEARTBEATS), Status.EXHAUSTED),
        (say("error", "maximum recursion depth has been reached"), Status.EXHAUSTED),
        (say("error", "(kernel) deterministic timeout"), Status.EXHAUSTED),
        (say("error", "(kernel) deep recursion detected"), Status.EXHAUSTED),
        (say("error", "(kernel) declaration has metavariables '_example'"), Status.REJECTED),
        (say("warning", HEARTBEATS), None),
    ],
)
def test_one_message_decides(message: LeanMessage, status: Status | None) -> None:
    assert judge(message) is status


def test_errors_come_before_limits_and_those_before_holes() -> None:
    hole, limit = say("warning", "declaration uses `sorry`"), say("error", HEARTBEATS)
    assert judge(hole, limit) is Status.EXHAUSTED
    assert judge(hole, limit, say("error", "no")) is Status.REJECTED
    assert judge(reached_end=False) is Status.UNSOUND
    assert judge(say("error", "unterminated comment"), reached_end=False) is Status.REJECTED


@pytest.mark.parametrize(
    ("report", "status", "last_check"),
    [
        (DeclarationReport("@t : True"), Status.PROVED, "axioms:0"),
        (DeclarationReport("@t : True", ("propext",)), Status.PROVED, "axioms:1"),
        (DeclarationReport("@t : True", ("propext", "evil")), Status.UNSOUND, "type"),
        (DeclarationReport("@t : True", ("Lean.trustCompiler",)), Status.UNSOUND, "type"),
        (DeclarationReport("@t : False"), Status.UNSOUND, "target"),
        (DeclarationReport("@t :  True"), Status.UNSOUND, "target"),
        (DeclarationReport(missing="Unknown constant `t`"), Status.UNSOUND, "no-sorry"),
    ],
)
def test_the_declaration_decides(
    report: DeclarationReport, status: Status, last_check: str
) -> None:
    judgement = judge_declaration(report, "@t : True", STANDARD_AXIOMS)
    assert (judgement.status, judgement.checks[-1]) == (status, last_check)
    assert (judgement.stage, judgement.failed_in_prover) == (Stage.PROVER, False)


def test_a_file_is_proved_only_when_every_theorem_was_asked_for() -> None:
    proved = judge_file({"a": ("propext",), "b": ()}, STANDARD_AXIOMS)
    assert (proved.status, proved.axioms) == (Status.PROVED, ("propext",))
    assert proved.checks[-3:] == ("no-statement", "theorems:2", "axioms:1")
    assert judge_file({}, STANDARD_AXIOMS).status is Status.REJECTED
    assert judge_file({"a": (), "b": None}, STANDARD_AXIOMS).status is Status.UNSOUND
    assert judge_file({"a": ("evil",)}, STANDARD_AXIOMS).status is Status.UNSOUND


@pytest.mark.parametrize(
    ("text", "axioms"),
    [
        ("'a.b' does not depend on any axioms", ()),
        ("'a.b' depends on axioms: [propext]", ("propext",)),
        (
            "'a.b' depends on axioms: [propext,\n Classical.choice,\n Quot.sound]",
            ("propext", "Classical.choice", "Quot.sound"),
        ),
    ],
)
def test_both_answers_about_axioms_are_read(text: str, axioms: tuple[str, ...]) -> None:
    assert parse_axioms(text, "a.b") == axioms


@pytest.mark.parametrize(
    ("said", "asked", "same"),
    [
        # Lean 4.35.0 says 'theorem' and '«a.b».c'.
        ("theorem", "«theorem»", True),
        ("foo", "«foo»", True),
        ("«a.b».c", "«a.b».c", True),
        ("a.b", "a.«b»", True),
        ("_private.«external:file:///a/B.lean».0.t", "t", True),
        ("a.b.c", "«a.b».c", False),
        ("«a.b».c", "a.b.c", False),
        ("a b", "«a.b»", False),
        ("_private.M.0.t", "t", True),
        ("_private.M.0.X.t", "t", False),
        ("_private.M.0.«0».t", "t", False),
        ("_private.M.0.0.t", "t", False),
        ("_private.t", "t", False),
        ("_private.0", "0", False),
    ],
)
def test_a_name_is_the_same_with_signs_around_its_parts(said: str, asked: str, same: bool) -> None:
    text = f"'{said}' does not depend on any axioms"
    if same:
        assert parse_axioms(text, asked) == ()
        return
    with pytest.raises(WorkerError, match="is not understood"):
        parse_axioms(text, asked)


@pytest.mark.parametrize(
    "text",
    [
        "t : True",
        "@t : ∀ {p : Prop}, p → p",
        "«a b» : True",
        "@«a b».«c: d».{u_1} : ∀ {α : Type u_1} (x : α), @Eq.{u_1 + 1} α x x",
        "α₁ : True",
        "foo' : True",
        "t.{u, v} :\n  True",
    ],
)
def test_each_way_to_print_a_type_is_understood(text: str) -> None:
    done = Elaboration(None, (say("info", text, CHECK_LINE), AXIOMS))
    assert read_report(done, "t") == DeclarationReport(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "'other' does not depend on any axioms",
        "'xa.b' does not depend on any axioms",
        "'a.b' does not depend on any axioms, almost",
        "'a.b' depends on axioms: []",
        "'a.b' depends on axioms: [propext",
        "'a.b' depends on axioms: [propext,]",
        "'a.b' depends on axioms: [propext] 'a.b' does not depend on any axioms",
        "a.b does not depend on any axioms",
        "'_private.Main.0.b' does not depend on any axioms",
    ],
)
def test_an_answer_about_axioms_that_is_odd_is_not_believed(text: str) -> None:
    with pytest.raises(WorkerError, match=r"axioms of a\.b is not understood"):
        parse_axioms(text, "a.b")


QUESTION = make_report_question("t").split("\n")
CHECK_LINE = QUESTION.index("#check @_root_.t") + 1
CHECK = say("info", "@t : True", CHECK_LINE)
AXIOMS = say("info", "'t' does not depend on any axioms", len(QUESTION))


def test_a_report_is_read_from_its_two_messages() -> None:
    assert read_report(Elaboration(None, (CHECK, AXIOMS)), "t") == DeclarationReport("@t : True")
    unknown = say("error", "Unknown constant `t`", CHECK_LINE)
    assert read_report(Elaboration(None, (unknown,)), "t").missing == "Unknown constant `t`"


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (CHECK,),
        (AXIOMS, CHECK),
        (CHECK, AXIOMS, AXIOMS),
        (say("info", "more", 1), CHECK, AXIOMS),
        (say("info", "@t : True", CHECK_LINE, 1), AXIOMS),
        (say("warning", "@t : True", CHECK_LINE), AXIOMS),
        (say("info", "@t : And True ⋯", CHECK_LINE), AXIOMS),
        (say("info", "t", CHECK_LINE), AXIOMS),
    ],
)
def test_a_report_with_anything_else_in_it_is_not_believed(
    messages: tuple[LeanMessage, ...],
) -> None:
    with pytest.raises(WorkerError, match=r"about t|of t|out of place"):
        read_report(Elaboration(None, messages), "t")


def test_a_report_that_was_cut_short_is_not_believed() -> None:
    with pytest.raises(WorkerError, match="did not finish"):
        read_report(Elaboration(None, (CHECK, AXIOMS), reached_end=False), "t")


def test_the_axioms_of_several_theorems_are_told_apart_by_their_lines() -> None:
    assert make_axioms_question(["a", "b"]) == (
        "set_option maxRecDepth 10000\nset_option maxHeartbeats 0\n"
        "set_option pp.fullNames true\nset_option pp.privateNames true\n"
        "#print axioms _root_.a\n#print axioms _root_.b"
    )
    clean = say("info", "'a' does not depend on any axioms", 5)
    unknown = say("error", "Unknown constant `b`", 6)
    assert read_axioms(Elaboration(None, (clean, unknown)), ["a", "b"]) == {"a": (), "b": None}
    for messages in [(clean,), (clean, clean), (clean, say("info", "x", 7)), (unknown, unknown)]:
        with pytest.raises(WorkerError, match="axioms"):
            read_axioms(Elaboration(None, messages), ["a", "b"])


def test_open_goals_are_cut_apart() -> None:
    two = say("error", "unsolved goals\ncase a\nx : Nat\n⊢ x = x\n\ncase b\n⊢ q")
    other = say("error", "Type mismatch\n⊢ no goal")
    assert find_open_goals((other, two)) == ("case a\nx : Nat\n⊢ x = x", "case b\n⊢ q")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ((3, 2), (1, 0)),
        ((3, 1), None),
        ((2, 9), None),
        ((3, 5), (1, 3)),
        ((4, 0), (2, 0)),
        ((4, 5), (2, 5)),
        ((4, 6), None),
        ((5, 0), None),
    ],
)
def test_a_place_of_the_file_is_found_in_the_body(
    place: tuple[int, int], expected: tuple[int, int] | None
) -> None:
    # Line 3 of the file starts with two blanks before the hole.
    candidate = Candidate(build_lean_problem(preamble="open A\n"), "∀😀b\nsecon")
    assert find_body_place(candidate, *place) == expected


def test_diagnostics_are_shifted_sorted_and_shortened() -> None:
    messages = (
        say("info", "i"),
        say("trace", "t"),
        say("warning", "w"),
        LeanMessage("error", "e" * 20_007, Position(2, 3), Position(2, 4)),
    )
    made = make_diagnostics(messages, build_lean_candidate("body"), 10)
    assert [d.severity for d in made] == ["error", "warning", "info", "info"]
    assert made[0] == Diagnostic("error", "e" * 20_000 + "… (7 more characters)", 12, 3, 12, 4)


def test_known_statements_do_not_depend_on_the_body() -> None:
    known = KnownStatements()
    problem = build_lean_problem()
    assert known.find(problem) is None
    known.record(problem, KnownStatement("@t : True"))
    assert known.find(build_lean_problem()) == KnownStatement("@t : True", b"")
    assert known.find(build_lean_problem(preamble="open A\n")) is None


def test_the_oldest_challenges_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proverrl.lang.lean.verify.judge._MAX_CHALLENGE_BYTES", 8)
    known = KnownStatements()
    problems = [build_lean_problem(preamble=f"open A{i}\n") for i in range(4)]
    for problem, size in zip((*problems, problems[2]), (3, 3, 3, 2, 6), strict=True):
        known.record(problem, KnownStatement("", b"x" * size))
    found = [known.find(problem) for problem in problems]
    assert [f and len(f.challenge) for f in found] == [None, None, 6, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_heartbeats": 0},
        {"memory_mb": 0.0},
        {"allowed_axioms": frozenset({"sorryAx"})},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=r"must be positive|cannot be allowed"):
        LeanLimits(**wrong)  # type: ignore[arg-type]
