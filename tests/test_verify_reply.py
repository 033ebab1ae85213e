"""The reading of Dafny's words: each false accept that they invite is refused."""

import pytest

from proverrl.errors import ProblemError, WorkerError
from proverrl.types import HOLE, Candidate, Problem, Status
from proverrl.verify.dafny_judge import ExpectedEntries, find_body_line, judge_reply
from proverrl.verify.dafny_reply import parse_reply

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
        (entry("errors") + DONE, Status.REJECTED),
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
    nothing = judge_reply(parse_reply(DONE), FILE, None)
    assert nothing.status is Status.REJECTED
    assert "nothing to verify" in nothing.diagnostics[0].message
    assert judge_reply(parse_reply(entry("verified")), FILE, None).checks[2] == "some-entries:1"


def test_positions_are_of_the_body() -> None:
    text = "p.dfy(4,7): Error: unresolved identifier: x\np.dfy(1,6): Related location: here\n"
    found = judge_reply(parse_reply(text), CANDIDATE, frozenset([ENTRY])).diagnostics
    assert [(d.severity, d.line, d.column, d.body_line) for d in found] == [
        ("error", 4, 7, 2),
        ("info", 1, 6, None),
    ]


@pytest.mark.parametrize(
    ("line", "column", "body_line"),
    [(3, 1, None), (3, 2, 1), (3, 13, 1), (4, 0, 2), (4, 9, 2), (4, 10, None), (5, 0, None)],
)
def test_edges_of_the_body(line: int, column: int, body_line: int | None) -> None:
    assert find_body_line(CANDIDATE, line, column) == body_line


def test_repeated_messages_are_told_once() -> None:
    again = "p.dfy(1,6): Timed out on BP5003: A postcondition might not hold.\n" * 5
    found = judge_reply(parse_reply(entry("timed out") + again), CANDIDATE, frozenset([ENTRY]))
    assert [d.message for d in found.diagnostics] == [
        "out of resources on: A postcondition might not hold."
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
    known = ExpectedEntries()
    with pytest.raises(ProblemError, match="name it in the problem's metadata"):
        known.record(PROBLEM, parse_reply("p.dfy(1,2): Error: unresolved identifier: y\n"))
    assert known.record(PROBLEM, parse_reply(entry("error"))) == {ENTRY}
    assert known.find(PROBLEM) == frozenset([ENTRY])
