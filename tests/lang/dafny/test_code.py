"""The kind ``program`` where the contract is given, so that only code is to be written: what Dafny
proves, what it is worth, what is shown and told, what families and benchmarks give."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from proverrl.benchmarks.open import open_benchmark
from proverrl.errors import ProblemError, ToolchainError
from proverrl.generate.dafny.code import GENERATOR, UNSEEN
from proverrl.generate.families import CurriculumDraft
from proverrl.lang import find_language
from proverrl.lang.dafny.audit.bodies import PROGRAM, check_problem
from proverrl.lang.dafny.audit.methods import gives_contract
from proverrl.problems.drafts import DraftChecker, build_problem
from proverrl.problems.prompt import render_messages
from proverrl.rollout.feedback import FEEDBACK
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from tests.shared_verifier import judge

DAFNY = find_language("dafny")
LOOP = """{
  r := k;
  var i := 0;
  while i < n
    invariant 0 <= i <= n
    invariant r == 7 * i + k
  {
    r := r + 7;
    i := i + 1;
  }
}"""
CONTRACT = "  requires k > 2\n  ensures r == 7 * n + k\n"
STATEMENT = (
    f"method Sum_up(n: nat, k: int) returns (r: int)\n{CONTRACT}  {HOLE}\n"
    "method Behind() returns (r: int)\n  ensures r == Seven() + 4\n{\n  r := Sum_up(1, 4);\n}\n"
    "function method Seven(): int { 7 }\n"
)
ASKED = Problem("p", "dafny", PROGRAM, "", STATEMENT)
PROVED = (
    LOOP,
    "{ r := 7 * n + k; }",
    "decreases n\n{ if n == 0 { return k; } r := Sum_up(n - 1, k); r := r + 7; }",
    # What stands behind the hole is ours as well, and may be used.
    "{ r := Seven() * n + k; }",
)
UNPROVED = (
    "{ }",
    "{ r := 7 * n; }",
    LOOP.replace("i < n", "i <= n"),
    "{ r := Sum_up(n, k); }",
    "{ r := 7 * n + k; assert k > 3; }",
    # Its own promise is the caller's as well.
    "{ r := Behind(); }",
)
UNREAD = ("{ r := true; }", "{ r := 7 * n + m; }", "{ r := 0 }")
REFUSED = (
    "",
    f"requires false\n{LOOP}",
    f"ensures r > 0\n{LOOP}",
    f"requires k > 2\n{LOOP}",
    "{ r :| r == 7 * n + k; }",
    "{ assume false; }",
    "decreases *\n{ while true decreases * { } }",
)


@pytest.mark.dafny
@pytest.mark.parametrize(
    ("bodies", "proved"),
    [(PROVED, True), (UNPROVED, False), (UNREAD, False), (REFUSED, False)],
    ids=["proved", "unproved", "unread", "refused"],
)
@pytest.mark.usefixtures("recorded_dafny")
def test_dafny_decides_what_code_is_right(bodies: Sequence[str], proved: bool) -> None:
    verdicts = judge(ASKED, bodies)
    assert [verdict.proved for verdict in verdicts] == [proved] * len(bodies)


def test_nothing_is_hidden_and_no_words_are_needed() -> None:
    assert gives_contract(ASKED)
    assert not DAFNY.hides_rest(ASKED)
    # Words beside it change neither what is verified nor what is shown.
    told = replace(ASKED, informal="It adds `n` to itself.")
    assert gives_contract(told)
    assert Candidate(told, LOOP).key == Candidate(ASKED, LOOP).key
    assert render_messages(told, "dafny") == render_messages(ASKED, "dafny")
    _, asked = render_messages(ASKED, "dafny")
    assert "block of code with loop invariants that meets the contract" in asked.content
    assert "Write the contract" not in asked.content
    assert CONTRACT.strip() in asked.content
    assert "Seven" in asked.content
    error = Diagnostic("error", "assertion violation", line=7, column=2)
    said = FEEDBACK["compact"](Candidate(ASKED, "{ }"), Verdict(Status.REJECTED, (error,)), 3)
    assert "assertion violation" in said
    # An 'ensures' of another method does not give this one a contract.
    other = "method A() ensures true { }\nmethod B(n: nat) returns (r: nat)\n"
    asked_for = Problem("q", "dafny", PROGRAM, "", f"{other}  {HOLE}\nmethod Meant() {{ }}\n")
    assert not gives_contract(asked_for)
    with pytest.raises(ProblemError, match="its head does not give a contract"):
        check_problem(Problem("q", "dafny", PROGRAM, "", f"{other}  {HOLE}\n"))
    with pytest.raises(ProblemError, match="all that follows the head of a method outside"):
        check_problem(Problem("q", "dafny", PROGRAM, "", f"lemma L() ensures true\n  {HOLE}\n"))


def draw(split: str, per_level: int) -> list[CurriculumDraft]:
    streams = (GENERATOR.stream_level(level, 3, split) for level in (1, 2, 3, 5))  # type: ignore[arg-type]
    return [draft for s in streams for draft in itertools.islice(s, per_level)]


def test_families_give_their_contracts() -> None:
    drafts = draw("train", 40)
    assert len(drafts) == 160
    assert not {draft.family for draft in drafts} & UNSEEN
    for draft in drafts:
        problem = build_problem(GENERATOR, draft, "train")
        assert problem.id.endswith("-c")
        assert problem.informal == ""
        assert gives_contract(problem)
        assert DAFNY.find_objection(problem, draft.reference) == ""
        assert draft.reference.startswith("{")


@pytest.mark.dafny
@pytest.mark.slow
@pytest.mark.usefixtures("recorded_dafny")
def test_dafny_proves_the_code_of_each_family_and_drops_what_idle_code_meets() -> None:
    drafts = list({draft.family: draft for draft in draw("heldout", 30)}.values())
    assert len(drafts) >= 20

    async def check() -> list[bool]:
        verifier, learn = GENERATOR.open_verifier(2)
        checker = DraftChecker(GENERATOR, verifier, learn, "heldout")
        idle = STATEMENT.replace("r == 7 * n + k", "r >= 0")
        weak = CurriculumDraft(1, "l1_x", PROGRAM, idle, "{ r := 7; }", "")
        try:
            return [bool(await checker.check(draft)) for draft in (*drafts, weak)]
        finally:
            await verifier.aclose()

    try:
        kept = asyncio.run(check())
    except ToolchainError as error:
        pytest.skip(str(error))
    assert kept == [True] * len(drafts) + [False]


def test_programs_of_a_benchmark_become_code_to_be_written(tmp_path: Path) -> None:
    one = "method One(n: nat) returns (r: nat)\n  ensures r == n + 1\n{\n  r := n + 1; // so\n}\n"
    two = "method Two(n: nat) returns (r: nat)\n  ensures r == n\n  decreases n\n{ r := n; }\n"
    files = {
        "one.dfy": f"// Adds.\n{one}",
        "both.dfy": one + two,
        "one_tests.dfy": one,
        "lemma.dfy": "lemma L() ensures true { }\n",
        "twice.dfy": one + one,
        "read.dfy": "method M( {\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = open_benchmark(str(tmp_path), format_name="dafny_code")
    problems = {problem.id: problem for problem in found.problems}
    assert sorted(problems) == ["both-One", "both-Two", "one"]
    assert found.references["one"] == "{\n  r := n + 1; // so\n}"
    assert problems["one"].statement == (
        f"// Adds.\nmethod One(n: nat) returns (r: nat)\n  ensures r == n + 1\n\n{HOLE}\n\n"
    )
    assert found.references["both-Two"] == "{ r := n; }"
    assert one in problems["both-Two"].statement
    assert sorted(refused.reason for refused in found.refused) == [
        "'One' is declared more than once",
        "line 1: outside the Dafny that can be read: expected a name, found '{'",
        "no method outside classes has a contract and code",
        "unit tests of a program, not a task",
    ]
    # By what the folder holds it is another format, or none.
    with pytest.raises(ProblemError, match="of no known format"):
        open_benchmark(str(tmp_path))


def test_programs_of_a_tree_lose_their_hints(tmp_path: Path) -> None:
    one = "method One()\n{\n  var i := 0;\n  while i < 9\n    invariant i <= 9\n  { i := i + 1; }\n"
    uses = 'include "deep/one.dfy"\nmethod Two() { One(); assert true; }\n'
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.dfy").write_text(f"{one}}}\n")
    (tmp_path / "two.dfy").write_text(uses)
    (tmp_path / "three.dfy").write_text("method Three() { }\n")
    found = open_benchmark(str(tmp_path), format_name="dafny_hints")
    by_id = {problem.id: problem for problem in found.problems}
    assert sorted(by_id) == ["one", "two"]
    bare = one.replace("    invariant i <= 9\n", "")
    assert by_id["one"].statement == f"{bare}}}\n\n{HOLE}"
    assert by_id["one"].kind == "annotate"
    # With what it includes, whose hints are taken too.
    assert "assert" not in by_id["two"].statement
    assert bare in by_id["two"].statement
    assert "invariant i <= 9" in found.references["two"]
    assert [refused.reason for refused in found.refused] == [
        "it holds no proof hints, so that nothing is left to write"
    ]


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_attributes_and_a_head_in_the_preamble_do_not_hide_the_method() -> None:
    for attribute in ("{:main}", "{:fuel Seven, 3}", "{:tailrecursion false}"):
        marked = STATEMENT.replace("method Sum_up", f"method {attribute} Sum_up")
        problem = Problem("p", "dafny", PROGRAM, "", marked)
        assert judge(problem, [LOOP])[0].proved, attribute
    start, end = STATEMENT.split("  requires", 1)
    split = Problem("p", "dafny", PROGRAM, start, f"  requires{end}")
    assert gives_contract(split)
    proved, wrong, more = judge(split, [LOOP, "{ }", f"requires false\n{LOOP}"])
    assert [v.status for v in (proved, wrong, more)] == [
        Status.PROVED,
        Status.REJECTED,
        Status.UNSOUND,
    ]
