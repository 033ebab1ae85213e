"""The reading of Dafny's words: each false accept that they invite is refused."""

import pytest

from proverrl.errors import ProblemError, WorkerError
from proverrl.lang.dafny.syntax.reply import parse_reply
from proverrl.lang.dafny.verify.judge import count_obligations, judge_reply
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem, Stage, Status
from proverrl.verifier.body_place import find_body_place

PROBLEM = Problem("p", "dafny", "statements", "", f"lemma L()\n{{\n  {HOLE}\n}}\n")
CANDIDATE = Candidate(PROBLEM, "assert true;\nassert x;")
FILE = Candidate(Problem("f", "dafny", "file", "", HOLE), "lemma L() {}")
ENTRY = "Impl$$_module.__default.L"
DONE = "Verification completed successfully!\n"


def entry(outcome: str, name: str = ENTRY, num: int = 3) -> str:
    plural = "" if num == 1 else "s"
    return f"\nVerifying {name} ...\n  [{num} proof obligation{plural}]  {outcome}\n"


def judge(text: str, *names: str) -> Status:
    return judge_reply(parse_reply(text), CANDIDATE, frozenset(names or (ENTRY,))).status


def test_a_proof() -> None:
    judgement = judge_reply(parse_reply(entry("verified") + DONE), CANDIDATE, frozenset([ENTRY]))
    assert judgement.status is Status.PROVED
    assert judgement.checks == (
        "audit",
        "resolve",
        "entries:1",
        "obligations:3",
        "no-errors",
        "no-missing-body",
        "no-unknown-lines",
    )


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (DONE, Status.UNSOUND),
        ("", Status.UNSOUND),
        (entry("error") + DONE, Status.REJECTED),
        (entry("errors") + "p.dfy(1,2): Error: might not hold.\n" + DONE, Status.REJECTED),
        # z3 4.8.12 whose resource is spent on the axioms: no error is printed.
        (entry("errors") + DONE, Status.EXHAUSTED),
        ("p.dfy(1,9): Error: closeparen expected\n" + DONE, Status.REJECTED),
        ("p.dfy(1,-1): Error: Unrecognized pragma: #if X\n" + DONE, Status.REJECTED),
        (entry("verified") + "p.dfy(1,2): Error BP5003: might not hold.\n", Status.REJECTED),
        (entry("verified") + "p.dfy(1,2): something new\n", Status.REJECTED),
        (entry("timed out") + DONE, Status.EXHAUSTED),
        (entry("out of resource") + DONE, Status.EXHAUSTED),
        (entry("timed out") + entry("error", "Impl$$M") + DONE, Status.REJECTED),
        (
            "p.dfy(1,2): Warning: note, this loop has no body\n" + entry("verified"),
            Status.UNSOUND,
        ),
        (entry("verified", "Impl$$M") + DONE, Status.UNSOUND),
        (entry("verified") + entry("verified", "Impl$$M") + DONE, Status.UNSOUND),
        ("p.dfy(1,2): Warning: /!\\ No terms found.\n" + entry("verified"), Status.PROVED),
        ("p.dfy(1,2): Info: {f(x),\n g(x)}\n" + entry("verified") + DONE, Status.PROVED),
        (
            "Prover error: line 18 column 28: unknown parameter 'model_compress'\n"
            "Legal parameters are:\n  auto_config (bool) (default: true)\n" + entry("verified"),
            Status.PROVED,
        ),
    ],
)
def test_statuses(text: str, status: Status) -> None:
    assert judge(text) is status


@pytest.mark.parametrize(
    "text",
    [
        entry("inconclusive"),
        entry("out of memory"),
        entry("verified") + "Prover error: Prover died\n",
        entry("verified") + "what is this\n",
        "\nVerifying Impl$$X ...\n" + entry("verified"),
        entry("verified") + "\nVerifying Impl$$X ...\n",
    ],
)
def test_doubt_is_no_verdict(text: str) -> None:
    with pytest.raises(WorkerError):
        judge(text)


def test_a_file_needs_something_that_was_verified() -> None:
    # A program of ours without an obligation is no proof either, and no cheating.
    truth = "datatype T = A | B\n"
    ours = Candidate(Problem("p", "dafny", ANNOTATE, "", truth + HOLE), truth)
    for candidate, expected in ((FILE, None), (ours, frozenset[str]())):
        nothing = judge_reply(parse_reply(DONE), candidate, expected)
        assert (nothing.status, nothing.stage) == (Status.REJECTED, Stage.READING)
        assert "nothing to verify" in nothing.diagnostics[0].message
    assert judge_reply(parse_reply(DONE), ours, frozenset([ENTRY])).status is Status.UNSOUND
    assert judge_reply(parse_reply(entry("verified")), FILE, None).checks[2] == "some-entries:1"


@pytest.mark.parametrize(
    ("text", "stage", "failed"),
    [
        (entry("verified") + DONE, Stage.PROVER, False),
        (entry("error") + DONE, Stage.PROVER, True),
        (entry("out of resource") + DONE, Stage.PROVER, True),
        ("p.dfy(1,2): Error: might not hold.\n" + entry("error") + DONE, Stage.PROVER, True),
        ("p.dfy(1,9): Error: closeparen expected\n" + DONE, Stage.READING, False),
        # It was proved, and is not what was to be proved.
        (entry("verified", "Impl$$M") + DONE, Stage.PROVER, False),
        ("p.dfy(1,2): Warning: note, it has no body\n" + entry("verified"), Stage.PROVER, False),
    ],
)
def test_a_verdict_says_who_decided(text: str, stage: Stage, failed: bool) -> None:
    found = judge_reply(parse_reply(text), CANDIDATE, frozenset([ENTRY]))
    assert (found.stage, found.failed_in_prover) == (stage, failed)


def test_a_note_follows_each_error_that_has_it() -> None:
    related = "p.dfy(2,3): Related location: This is the precondition that might not hold.\n"
    first, second = (f"p.dfy({line},1): Error: might not hold.\n" for line in (5, 6))
    text = entry("errors") + first + related + second + related + first + related
    found = judge_reply(parse_reply(text + DONE), CANDIDATE, frozenset([ENTRY])).diagnostics
    assert [(one.severity, one.line) for one in found] == [
        ("error", 5), ("info", 2), ("error", 6), ("info", 2)
    ]  # fmt: skip


def test_positions_are_of_the_body() -> None:
    text = "p.dfy(4,7): Error: unresolved identifier: x\np.dfy(1,6): Related location: here\n"
    found = judge_reply(parse_reply(text), CANDIDATE, frozenset([ENTRY])).diagnostics
    assert [(d.severity, d.line, d.column, d.body_line, d.body_column) for d in found] == [
        ("error", 4, 7, 2, 7),
        ("info", 1, 6, None, None),
    ]


@pytest.mark.parametrize(
    ("line", "column", "place"),
    [
        (3, 1, None),
        (3, 2, (1, 0)),
        (3, 13, (1, 11)),
        (4, 0, (2, 0)),
        (4, 9, (2, 9)),
        (4, 10, None),
        (5, 0, None),
    ],
)
def test_edges_of_the_body(line: int, column: int, place: tuple[int, int] | None) -> None:
    assert find_body_place(CANDIDATE, line, column) == place


# What Dafny 2.3 printed for a program with seven things to prove in C.Go: one assertion and one
# index fail, and one of two postconditions on one path; the loop of M fails on entry and more.
REAL_REPLY = """\
p.dfy(14,14): Info: decreases i - j

Verifying Impl$$_0_A_k.__default.Foo__x_k ...
  [1 proof obligation]  verified

Verifying CheckWellformed$$_0_A_k.__default.Ok_q ...
  [1 proof obligation]  error
p.dfy(3,28): Error: possible division by zero
Execution trace:
    (0,0): anon0
    (0,0): anon4_Else

Verifying Impl$$_module.C.Go ...
  [7 proof obligations]  errors
p.dfy(11,36): Error: assertion violation
Execution trace:
    (0,0): anon0
p.dfy(11,58): Error BP5003: A postcondition might not hold on this return path.
p.dfy(9,14): Related location: This is the postcondition that might not hold.
Execution trace:
    (0,0): anon0
    (0,0): anon3_Then
p.dfy(11,66): Error: index out of range
Execution trace:
    (0,0): anon0
    (0,0): anon3_Then

Verifying Impl$$_module.__default.M ...
  [6 proof obligations]  error
p.dfy(14,38): Error BP5004: This loop invariant might not hold on entry.
p.dfy(14,38): Related message: loop invariant violation
Execution trace:
    (0,0): anon0
Verification completed successfully!
"""


def test_obligations_of_a_real_reply() -> None:
    counted = count_obligations(parse_reply(REAL_REPLY))
    assert [(o.entry.rpartition(".")[2], o.total, o.proved) for o in counted] == [
        ("Foo__x_k", 1, 1),
        ("Ok_q", 1, 0),
        ("Go", 7, 4),
        ("M", 6, 5),
    ]
    judged = judge_reply(parse_reply(REAL_REPLY), CANDIDATE, frozenset([ENTRY]))
    assert (judged.status, judged.obligations) == (Status.REJECTED, counted)


def test_one_error_on_two_paths_is_one_obligation_and_two_clauses_are_two() -> None:
    error = "p.dfy(5,0): Error BP5003: A postcondition might not hold on this return path.\n"
    clauses = [
        f"p.dfy({line},9): Related location: This is the postcondition.\n" for line in (2, 3)
    ]
    twice = entry("errors", num=4) + error + clauses[0] + error + clauses[0]
    both = entry("errors", num=4) + error + clauses[0] + error + clauses[1]
    assert [o.proved for o in count_obligations(parse_reply(twice))] == [3]
    assert [o.proved for o in count_obligations(parse_reply(both))] == [2]


def test_obligations_at_the_edges() -> None:
    def prove(text: str) -> list[int]:
        return [o.proved for o in count_obligations(parse_reply(text))]

    assert prove(entry("timed out", num=9)) == [0]
    assert prove(entry("out of resource", num=9)) == [0]
    assert prove(entry("error", num=5)) == [4]
    assert prove(entry("error", num=0)) == [0]
    many = "".join(f"p.dfy({line},0): Error: assertion violation\n" for line in range(1, 5))
    assert prove(entry("errors", num=2) + many) == [0]
    assert prove("p.dfy(1,2): Error: no such type\n") == []
    assert prove(entry("verified", num=3) + entry("error", "Impl$$M", 3) + many[:37]) == [3, 2]


def test_an_annotated_program_may_have_entries_for_what_it_declares() -> None:
    text = "method M() ensures 1 == 1 {}\n"
    problem = Problem("a", "dafny", ANNOTATE, "", text + HOLE)
    mine = "Impl$$_module.__default.M"
    whole = Candidate(problem, "lemma My_L'() {}\n" + text)
    extra = "Impl$$_module.__default.My__L_k"

    def status(reply: str) -> Status:
        return judge_reply(parse_reply(reply), whole, frozenset([mine])).status

    assert status(entry("verified", mine) + entry("verified", extra)) is Status.PROVED
    assert status(entry("verified", mine)) is Status.PROVED
    assert status(entry("verified", extra)) is Status.UNSOUND
    assert status(entry("verified", mine) + entry("error", extra)) is Status.REJECTED
    assert status(entry("verified", mine) + entry("timed out", extra)) is Status.EXHAUSTED
    foreign = entry("verified", mine) + entry("verified", "Impl$$_module.__default.Other")
    assert status(foreign) is Status.UNSOUND


def test_the_prover_is_read_where_it_is_told() -> None:
    text = "[TRACE] Using prover: /opt/z3\n" + entry("verified")
    assert parse_reply(text).prover == "/opt/z3"
    assert parse_reply(entry("verified")).prover == ""


@pytest.mark.parametrize(
    "said",
    [
        "p.dfy(1,6): Verification of 'Impl$$_module.__default.L' timed out after 3600 seconds\n"
        "p.dfy(2,9): Timed out on BP5003: A postcondition might not hold on this return path.\n"
        "p.dfy(2,3): Related location: This is the postcondition that might not hold.\n",
        "p.dfy(1,6): Verification out of resource (Impl$$_module.__default.L)\n"
        "p.dfy(2,9): Out of resource on: assertion violation\n"
        "p.dfy(2,3): Related location\n",
    ],
)
@pytest.mark.parametrize("outcome", ["timed out", "out of resource"])
def test_every_word_for_the_limit_is_exhausted(outcome: str, said: str) -> None:
    reply = parse_reply(entry(outcome) + said)
    assert [message.kind for message in reply.messages] == ["limit", "limit", "related"]
    assert (reply.errors, reply.unknown) == ([], ())
    verdict = judge_reply(reply, CANDIDATE, frozenset([ENTRY]))
    assert verdict.status is Status.EXHAUSTED
    assert verdict.diagnostics[0].message == "at the limit: the proof ran out of its resources"
    failed = judge_reply(
        parse_reply(entry(outcome) + said + "p.dfy(2,9): Error: assertion violation\n"),
        CANDIDATE,
        frozenset([ENTRY]),
    )
    assert failed.status is Status.REJECTED


def test_a_prover_out_of_memory_judges_nothing() -> None:
    said = "p.dfy(1,6): Verification out of memory (L)\np.dfy(2,9): Out of memory on: assertion\n"
    with pytest.raises(WorkerError, match="the prover gave no result: out of memory"):
        judge_reply(parse_reply(entry("out of memory") + said), CANDIDATE, frozenset([ENTRY]))


def test_repeated_messages_are_told_once() -> None:
    again = "p.dfy(1,6): Timed out on BP5003: A postcondition might not hold.\n" * 5
    found = judge_reply(parse_reply(entry("timed out") + again), CANDIDATE, frozenset([ENTRY]))
    assert [d.message for d in found.diagnostics] == [
        "at the limit: out of resources on: A postcondition might not hold."
    ]


def test_cli_words_are_understood() -> None:
    text = (
        "[TRACE] Using prover: /x/z3\nParsing p.dfy\nCoalescing blocks...\nInlining...\n\n"
        "Running abstract interpretation...\n  [0.020325 s]\n"
        f"\nVerifying {ENTRY} ...\n  [0.207 s, 1 proof obligation]  verified\n"
        "\nDafny program verifier finished with 1 verified, 0 errors\n"
    )
    assert judge(text) is Status.PROVED


def test_a_problem_that_does_not_resolve_when_blank() -> None:
    known = KnownProblems()
    with pytest.raises(ProblemError, match="name it in the problem's metadata"):
        known.record_entries(PROBLEM, parse_reply("p.dfy(1,2): Error: unresolved identifier: y\n"))
    assert known.record_entries(PROBLEM, parse_reply(entry("error"))) == {ENTRY}
    assert known.find_entries(PROBLEM) == frozenset([ENTRY])
