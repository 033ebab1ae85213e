"""Annotated programs: what may be added to a program of ours, and that nothing else passes.

The real tasks are read from the shared data where it is present. A normal run
lets real Dafny judge a few, and all of them with
``PROVERRL_ALL_DAFNYBENCH=1 pytest tests/lang/dafny/test_dafny_annotate.py -k every_real_task``.
"""

import asyncio
import json
import os
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.errors import ProblemError, ToolchainError
from proverrl.lang.dafny.audit.annotated import (
    Alignment,
    align_admitted,
    audit_annotated,
    get_program_text,
    list_entry_names,
)
from proverrl.lang.dafny.audit.bodies import audit, audit_candidate
from proverrl.lang.dafny.audit.hints import AddedHint
from proverrl.lang.dafny.syntax.cursor import RESERVED
from proverrl.lang.dafny.syntax.hint_grammar import FORMS, OPERANDS, OPERATORS, STATEMENTS
from proverrl.lang.dafny.syntax.tokens import read_file
from proverrl.lang.dafny.verify.backend import start_dafny_worker
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem, Status
from proverrl.verifier.base import Limits, Worker
from tests.dafnybench_tasks import TASKS, Task, read_tasks

# The curriculum's limit is too small for some of the real tasks.
LIMITS = Limits(rlimit=20_000_000)
NUM_SAMPLED = 6
DAFNY_4 = TASKS.with_name("dafnybench_dafny4.jsonl")
needs_tasks = pytest.mark.skipif(not TASKS.exists(), reason="the real tasks are not here")

PROGRAM = """\
function Sum(n: nat): nat { if n == 0 then 0 else n + Sum(n - 1) }
lemma Grow(n: nat)
  ensures Sum(n) >= n
{ }
method Run(n: nat) returns (r: nat)
  ensures r == Sum(n)
{
  r := 0;
  var i := 0;
  while i < n
  {
    i := i + 1;
    r := r + i;
  }
}
"""
LOOP = "  while i < n\n"
END = "    r := r + i;\n  }\n"


def make_problem(program: str = PROGRAM) -> Problem:
    return Problem("p", "dafny", ANNOTATE, "", program + HOLE)


def refuse(body: str, program: str = PROGRAM) -> tuple[str, str] | None:
    """Rule and category of the first finding; None when the body is admitted."""
    findings = audit(ANNOTATE, body, problem=make_problem(program))
    return (findings[0].rule, findings[0].category) if findings else None


HINTS = [
    PROGRAM,
    "// a comment\n" + PROGRAM.replace("{ }", "{\n\n}") + "/* at the end */",
    PROGRAM.replace(LOOP, LOOP + "    invariant i <= n && r == Sum(i)\n    decreases n - i;\n"),
    PROGRAM.replace(END, END + "  assert r == Sum(n);\n"),
    PROGRAM.replace(END, END + "  assert r == Sum(n) by { Grow(n); var x := r; assert x >= n; }\n"),
    PROGRAM.replace(END, END + "  calc { r; == { Grow(n); } r; }\n  reveal Sum();\n"),
    PROGRAM.replace(END, END + "  forall k: nat | k > 0 ensures Sum(k) >= k { Grow(k); }\n"),
    PROGRAM.replace(END, END + "  Grow(n);\n  if n > 2 { Grow(2); } else { assert n <= 2; }\n"),
    PROGRAM.replace(LOOP, "  ghost var g := 0;\n" + LOOP).replace(END, "    g := g + 1;\n" + END),
    PROGRAM.replace(LOOP, "  ghost var g, h := 0, 1;\n  g, h := h, g;\n" + LOOP),
    PROGRAM.replace("  ensures r ==", "  decreases n\n  ensures r =="),
    PROGRAM.replace("  ensures r == Sum(n)\n", "  ensures r == Sum(n)\n  decreases n, 0;\n"),
    PROGRAM.replace("then 0 else", "then assert n == 0; 0 else calc { n; } assert n > 0;"),
    "lemma Mine(n: nat) requires n > 1 ensures Sum(n) > n decreases n { var x := n; x := x + 1; }\n"
    + PROGRAM.replace(END, END + "  if n > 1 { Mine(n); }\n"),
    "predicate Ok<T(==)>(s: seq<T>) { |s| > 0 }\nfunction Two(n: int): (int, int) { (n, n) }\n"
    + PROGRAM,
    PROGRAM + "lemma Both(n: nat) returns (m: nat, k: nat) ensures m == k { m, k := n, n; }\n",
    PROGRAM.replace("{ }", "{\n  var m := n;\n  match (m, n) { case (a, b) => assert a == b; }\n}"),
]


@pytest.mark.parametrize("body", HINTS)
def test_hints_are_admitted(body: str) -> None:
    assert refuse(body) is None


@pytest.mark.parametrize(
    ("body", "rule", "category"),
    [
        (PROGRAM.replace("r == Sum(n)", "r >= 0"), "changed-program", "cheat"),
        (PROGRAM.replace("r := r + i;", "r := r + i + 0;"), "changed-program", "cheat"),
        (PROGRAM[: PROGRAM.index("method")], "changed-program", "cheat"),
        ("", "changed-program", "cheat"),
        (PROGRAM.replace(LOOP, "  r := 0;\n" + LOOP), "assignment", "cheat"),
        (PROGRAM.replace(LOOP, "  var g := 0;\n" + LOOP), "not-ghost", "cheat"),
        (PROGRAM.replace(LOOP, "  ghost var i := 0;\n" + LOOP), "names", "cheat"),
        (PROGRAM.replace(LOOP, LOOP + "    modifies {}\n"), "contract", "cheat"),
        (PROGRAM.replace(LOOP, LOOP + "    decreases *\n"), "wildcard", "cheat"),
        (PROGRAM.replace(END, END + "  Sum(n);\n"), "names", "cheat"),
        (PROGRAM.replace(END, END + "  Run(n);\n"), "names", "cheat"),
        (PROGRAM.replace(END, END + "  ghost var g := Run(n);\n"), "names", "cheat"),
        (PROGRAM.replace(END, END + "  assert r == ;\n"), "grammar", "syntax"),
        (PROGRAM + "lemma Sum2() {}\nlemma Sum2() {}\n", "names", "cheat"),
        (PROGRAM + "lemma Run() {}\n", "names", "cheat"),
        (PROGRAM + "lemma i() {}\n", "names", "cheat"),
        (PROGRAM + "lemma Valid() {}\n", "names", "cheat"),
        (PROGRAM + "ghost method Go() {}\n", "declaration", "cheat"),
        (PROGRAM + "lemma New() modifies {} {}\n", "keywords", "cheat"),
        (PROGRAM + "twostate lemma New() {}\n", "declaration", "cheat"),
        (PROGRAM + "lemma {:fuel Sum, 3} New() {}\n", "attributes", "syntax"),
        (PROGRAM + "lemma New() { while true { } }\n", "keywords", "cheat"),
        (PROGRAM + "datatype D = E\n", "declaration", "cheat"),
        (PROGRAM + "}\n", "grammar", "syntax"),
    ],
)
def test_anything_else_is_refused(body: str, rule: str, category: str) -> None:
    assert refuse(body) == (rule, category)


def test_a_name_may_be_used_again_where_ours_is_not_in_sight() -> None:
    two = PROGRAM + "method Other(k: nat) { var j := k; }\n"
    assert refuse(two.replace("var i := 0;", "var i := 0; ghost var j := 1;"), two) is None
    updated = two.replace("var i := 0;", "var i := 0; ghost var j := 1; j := 2;")
    assert refuse(updated, two) == ("assignment", "cheat")


def test_what_is_ours_stays_ours_even_when_it_is_a_hint() -> None:
    ours = PROGRAM.replace(END, END + "  assert r == Sum(n);\n  assert n >= 0;\n")
    assert refuse(ours, ours) is None
    more = ours.replace("  assert n >= 0;\n", "  assert i >= 0;\n  assert n >= 0;\n")
    assert refuse(more, ours) is None
    assert refuse(ours.replace("  assert n >= 0;\n", ""), ours) == ("changed-program", "cheat")
    swapped = ours.replace("assert r == Sum(n);\n  assert n >= 0;", "assert n >= 0;")
    assert refuse(swapped, ours) == ("changed-program", "cheat")


def test_the_place_of_a_change_is_told() -> None:
    problem = make_problem()
    verdict = audit_candidate(Candidate(problem, PROGRAM.replace("r := 0;", "r := 1;")))
    assert verdict is not None
    assert (verdict.status, verdict.rule) == (Status.UNSOUND, "changed-program")
    found = verdict.diagnostics[0]
    assert found.message == (
        "changed-program: the program was changed: expected '0' (line 8 of the problem), found '1'"
    )
    assert (found.line, found.column, found.body_line, found.body_column) == (8, 7, 8, 7)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("method M() { assume false; }\n", "'assume' assumes what is to be proved"),
        ("method M() ensures false { while true }\n", "a loop needs a body"),
        ("method M() ensures false { while true decreases * { } }\n", "'decreases \\*'"),
        ("lemma {:axiom} L() ensures false\n", "the attribute 'axiom' is not allowed"),
        ("lemma L() ensures false\n", "this lemma has no body"),
        ("method {:verify false} M() { }\n", "the attribute 'verify' is not allowed"),
        ("method M() {\n", "a bracket is not closed"),
        ("method M() { x := ; }\n", "expected an expression"),
        ('include "x.dfy"\n', "'include' brings in another file"),
    ],
)
def test_a_program_that_proves_nothing_is_the_problems_fault(program: str, why: str) -> None:
    problem = make_problem(program)
    with pytest.raises(
        ProblemError, match=f"no proof can be held to its program: line [12]: .*{why}"
    ):
        audit_candidate(Candidate(problem, program))


def test_the_shape_of_the_statement() -> None:
    assert get_program_text(make_problem("method M() { }\n")) == "method M() { }\n"
    behind = Problem("p", "dafny", ANNOTATE, "", f"{HOLE}\nmethod M() {{ }}\n")
    with pytest.raises(ProblemError, match="text follows the hole"):
        audit_candidate(Candidate(behind, ""))
    with pytest.raises(ProblemError, match="audited against its problem"):
        audit(ANNOTATE, PROGRAM)


def test_entry_names_are_those_of_dafny() -> None:
    text = (
        "lemma Foo_x'() {}\nclass C { constructor() {} predicate Ok?() { true } method M() {} }\n"
    )
    names = {"Foo__x_k", "Ok_q", "M", "__ctor"}
    assert list_entry_names(text + "function method F(): int { 1 }\n") == names | {"F"}


@needs_tasks
def test_every_ground_truth_is_admitted() -> None:
    tasks = read_tasks()
    assert len(tasks) == 212
    for task in tasks:
        for body in (task.blank, task.truth):
            assert audit_candidate(Candidate(task.problem, body)) is None, task.problem.id


# What stands in hints beside the forms of the hint grammar: clauses, types, and parts of forms.
PARTS = frozenset(
    """invariant decreases by then else . , : :: ; ) ] } .. => ! as int nat requires
    reads""".split()
)
LISTED = frozenset((*STATEMENTS, *FORMS, *OPERATORS, *OPERANDS))
# How many hints of DafnyBench's truths hold what, and how many truths the audit refuses for what.
HELD = Counter(
    {"<=": 1490, "==": 1349, "[": 1131, "(": 1056, "assert": 896, "<": 826, "forall": 660}
    | {"==>": 659, "-": 637, "+": 491, "|": 460, "&&": 446, "*": 276, ">=": 166, "old": 154}
    | {"!=": 149, "in": 121, "exists": 110, "{": 95, "%": 66, "/": 68, "||": 52}
    | {"multiset": 50, ">": 46, "<==>": 37, "if": 19, "this": 13, "false": 12, "true": 9}
    | {"!in": 9, "fresh": 6, "!!": 4, "set": 4, "<==": 3, "null": 2}
)
REFUSED = Counter(
    {
        "the program itself": 60,
        "changed-program: the program was changed": 2,
        "wildcard: 'decreases *' gives up termination": 2,
        "grammar: expected an expression, found '#'": 1,
        "narrow-type: Dafny may take a wider collection for one of a narrow type here and check "
        "nothing; write it with collections over 'int', or over one type only (var n: nat := ...; "
        "s + [n])": 1,
        "keywords: 'label' changes the program": 1,
        "labelled-assertion: Dafny believes what is revealed of results that were assigned to "
        "since; drop the label": 1,
    }
)


@pytest.mark.skipif(not DAFNY_4.exists(), reason="the real tasks are not here")
def test_what_the_hints_of_dafnybench_hold() -> None:
    """Each construct of a hint is one of the list, or its truth is refused and counted here."""
    rows = [json.loads(line) for line in DAFNY_4.read_text("utf-8").splitlines()]
    asked = [(task.problem, task.truth) for task in read_tasks()]
    asked += [(make_problem(row["hints_removed"] + "\n"), row["ground_truth"]) for row in rows]
    held: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for problem, truth in asked:
        try:
            findings = audit_annotated(problem, truth)
        except ProblemError:
            refused["the program itself"] += 1
            continue
        if findings:
            message = findings[0].message.partition(": expected '")[0]
            refused[f"{findings[0].rule}: {message}"] += 1
            continue
        aligned = align_admitted(problem, truth)
        held.update(word for hint in aligned.added for word in list_words(aligned, hint))
    table = "\n".join(f"{count:5} {what}" for what, count in (held + refused).most_common())
    assert set(held) <= LISTED | PARTS, table
    assert Counter({what: count for what, count in held.items() if what in LISTED}) == HELD, table
    assert refused == REFUSED, table


def list_words(aligned: Alignment, hint: AddedHint) -> set[str]:
    """The reserved words and operators of a hint."""
    return {
        token.sign
        for token in aligned.theirs[hint.start : hint.end]
        if token.sign in RESERVED or token.kind == "operator" or token.text in ("requires", "!in")
    }


@needs_tasks
def test_a_lost_body_is_not_a_hint() -> None:
    refused = Counter(
        verdict.rule
        for task in read_tasks(repaired=False)
        if (verdict := audit_candidate(Candidate(task.problem, task.truth)))
    )
    assert refused == {"changed-program": 2}


@pytest.mark.slow
@needs_tasks
def test_no_real_program_may_lose_a_token_or_gain_one() -> None:
    """Each token of a sample of programs is dropped and doubled, far more than any hint adds."""
    for task in read_tasks()[::23]:
        tokens = [token.text for token in read_file(task.blank)[0]][:-1]
        allowed = {";", "(", ")"}
        for place, text in enumerate(tokens):
            dropped = " ".join(tokens[:place] + tokens[place + 1 :])
            findings = audit(ANNOTATE, dropped, problem=task.problem)
            assert findings or text in allowed, (task.problem.id, place, text)
            doubled = " ".join([*tokens[: place + 1], *tokens[place:]])
            findings = audit(ANNOTATE, doubled, problem=task.problem)
            assert findings or text in allowed, (task.problem.id, place, text)


TOKENS = [token.text for token in read_file(PROGRAM)[0]][:-1]
EXTRA = (
    "assume assert ghost var while invariant decreases * { } ( ) ; := lemma requires false g"
).split()


@settings(max_examples=400, deadline=None)
@given(
    place=st.integers(0, len(TOKENS)),
    removed=st.integers(0, 2),
    added=st.lists(st.sampled_from(EXTRA + TOKENS), max_size=6),
)
def test_what_is_admitted_contains_ours_in_order(
    place: int, removed: int, added: list[str]
) -> None:
    mutated = [*TOKENS[:place], *added, *TOKENS[place + removed :]]
    if refuse(" ".join(mutated)) is not None:
        return
    rest = iter(mutated)
    assert all(token in rest for token in TOKENS)
    assert Counter(mutated)["assume"] == Counter(mutated)["requires"] == 0


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=80))
def test_nothing_raises(text: str) -> None:
    assert refuse(text) is not None


async def judge(tasks: list[Task]) -> tuple[Counter[Status], Counter[Status], list[str]]:
    """Statuses of truths and of blanks, and what went wrong."""
    toolchain, expected = find_dafny_toolchain(), KnownProblems()
    truths: Counter[Status] = Counter()
    blanks: Counter[Status] = Counter()
    odd = []
    worker: Worker | None = None
    for place, task in enumerate(tasks):
        if worker is None or place % 100 == 0:
            if worker is not None:
                worker.kill()
                await worker.join()
            worker = await start_dafny_worker(toolchain, LIMITS, expected)
        truth = await worker.judge(Candidate(task.problem, task.truth))
        blank = await worker.judge(Candidate(task.problem, task.blank))
        truths[truth.status] += 1
        blanks[blank.status] += 1
        if truth.status is not Status.PROVED or blank.status is Status.PROVED:
            odd.append(f"{task.problem.id}: {truth.status} {blank.status} {truth.diagnostics[:2]}")
        assert all(o.proved == o.total for o in truth.obligations)
        assert any(o.proved < o.total for o in blank.obligations)
    if worker is not None:
        worker.kill()
        await worker.join()
    return truths, blanks, odd


def run_tasks(tasks: list[Task]) -> None:
    try:
        find_dafny_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    truths, blanks, odd = asyncio.run(judge(tasks))
    assert odd == []
    assert truths == {Status.PROVED: len(tasks)}
    assert blanks[Status.PROVED] == 0
    assert blanks.total() == len(tasks)


@pytest.mark.slow
@needs_tasks
@pytest.mark.dafny
def test_a_few_real_tasks() -> None:
    short = sorted(read_tasks(), key=lambda task: len(task.truth))
    run_tasks(short[:: len(short) // NUM_SAMPLED][:NUM_SAMPLED])


@needs_tasks
@pytest.mark.dafny
@pytest.mark.skipif(
    not os.environ.get("PROVERRL_ALL_DAFNYBENCH"),
    reason="about ten minutes; set PROVERRL_ALL_DAFNYBENCH=1",
)
def test_every_real_task() -> None:
    run_tasks(read_tasks())


@pytest.mark.slow
@pytest.mark.dafny
def test_own_lemmas_are_verified_too() -> None:
    program = "method M(n: nat) returns (r: int)\n  ensures r >= n\n{\n  r := n * n;\n}\n"
    lemma = "lemma Grow_'(n: nat) ensures n * n >= n { }\n"
    used = program.replace("n * n;\n", "n * n;\n  Grow_'(n);\n")
    false = "lemma Grow_'(n: nat) ensures n * n >= n && n < 9 { }\n"
    problem = make_problem(program)
    bodies = [lemma + used, false + used, lemma + program]

    async def main() -> list[tuple[Status, int]]:
        try:
            toolchain = find_dafny_toolchain()
        except ToolchainError as error:
            pytest.skip(str(error))
        worker = await start_dafny_worker(toolchain, LIMITS, KnownProblems())
        found = []
        for body in bodies:
            assert audit(ANNOTATE, body, problem=problem) == []
            verdict = await worker.judge(Candidate(problem, body))
            found.append((verdict.status, len(verdict.obligations)))
        worker.kill()
        await worker.join()
        return found

    assert asyncio.run(main()) == [
        (Status.PROVED, 2),
        (Status.REJECTED, 2),
        (Status.PROVED, 2),
    ]
