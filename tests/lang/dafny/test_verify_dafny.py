"""Real Dafny: known bodies are proved, empty ones are not, and a killed server loses nothing."""

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from proverrl.errors import ToolchainError
from proverrl.lang.dafny.verify.backend import make_spawn
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain, find_dafny_toolchain
from proverrl.lang.open import open_verifier
from proverrl.problems.inputs import make_file_candidate
from proverrl.types import HOLE, Candidate, Problem, Stage, Status, Verdict
from proverrl.verifier.base import Limits, verify_all
from proverrl.verifier.cache import CachedVerifier
from proverrl.verifier.pool import VerifierPool
from tests import ROOT
from tests.shared_verifier import ask_verifier

pytestmark = pytest.mark.dafny

EXAMPLES = ROOT.parent / "shared" / "data" / "dafny_curriculum_examples.jsonl"
PATIENCE_SECONDS = 120.0

SUM = """\
function Sum(n: nat): nat { if n == 0 then 0 else n + Sum(n - 1) }
"""
TREE = """\
datatype Tree = Leaf | Node(left: Tree, value: int, right: Tree)
function Flip(t: Tree): Tree {
  match t case Leaf => Leaf case Node(l, v, r) => Node(Flip(r), v, Flip(l))
}
"""

# name, kind, preamble, statement, reference body
PROBLEMS: list[tuple[str, str, str, str, str]] = [
    (
        "double",
        "invariants",
        "",
        f"method M(n: nat) returns (r: int)\n  ensures r == 2 * n\n{{\n  r := 0;\n  var i := 0;\n"
        f"  while i < n\n    {HOLE}\n  {{\n    r := r + 2;\n    i := i + 1;\n  }}\n}}\n",
        "invariant 0 <= i <= n\ninvariant r == 2 * i",
    ),
    (
        "gauss-loop",
        "invariants",
        SUM,
        f"method M(n: nat) returns (r: nat)\n  ensures r == Sum(n)\n{{\n  r := 0;\n  var i := 0;\n"
        f"  while i < n\n    {HOLE}\n  {{\n    i := i + 1;\n    r := r + i;\n  }}\n}}\n",
        "invariant 0 <= i <= n\ninvariant r == Sum(i)",
    ),
    (
        "largest",
        "invariants",
        "",
        "method Max(a: array<int>) returns (m: int)\n  requires a.Length > 0\n"
        "  ensures forall k :: 0 <= k < a.Length ==> a[k] <= m\n{\n  m := a[0];\n  var i := 1;\n"
        f"  while i < a.Length\n    {HOLE}\n  {{\n    if m < a[i] {{ m := a[i]; }}\n"
        "    i := i + 1;\n  }\n}\n",
        "invariant 1 <= i <= a.Length\ninvariant forall k :: 0 <= k < i ==> a[k] <= m\n"
        "decreases a.Length - i",
    ),
    (
        "count-down",
        "invariants",
        "",
        f"method M(n: nat) returns (r: int)\n  ensures r == 0\n{{\n  r := n;\n  while r != 0\n"
        f"    {HOLE}\n  {{\n    r := r - 1;\n  }}\n}}\n",
        "invariant r >= 0;\ndecreases r;",
    ),
    (
        "gauss-lemma",
        "statements",
        SUM,
        "lemma {:induction false} L(n: nat)\n  ensures 2 * Sum(n) == n * (n + 1)\n{\n"
        f"  {HOLE}\n}}\n",
        "if n > 0 { L(n - 1); }",
    ),
    (
        "flip-twice",
        "statements",
        TREE,
        f"lemma {{:induction false}} L(t: Tree)\n  ensures Flip(Flip(t)) == t\n{{\n  {HOLE}\n}}\n",
        "match t {\n  case Leaf =>\n  case Node(l, v, r) => L(l); L(r);\n}",
    ),
    (
        "all-sums",
        "statements",
        SUM + "lemma {:induction false} Pos(n: nat)\n  ensures Sum(n) >= n\n"
        "{ if n > 0 { Pos(n - 1); } }\n",
        f"lemma All()\n  ensures forall n: nat :: Sum(n) >= n\n{{\n  {HOLE}\n}}\n",
        "forall n: nat ensures Sum(n) >= n { Pos(n); }",
    ),
    (
        "square",
        "calc",
        "",
        "lemma L(a: int, b: int)\n  ensures (a + b) * (a + b) == a * a + 2 * a * b + b * b\n{\n"
        f"  calc {{\n    (a + b) * (a + b);\n    {HOLE}\n"
        "    a * a + 2 * a * b + b * b + 0;\n  }\n}\n",
        "== a * (a + b) + b * (a + b);\n==",
    ),
    (
        "drop-last",
        "assertions",
        "",
        "lemma L(s: seq<int>, x: int)\n  ensures exists t: seq<int> :: t + [x] == s + [x]\n{\n"
        f"  {HOLE}\n}}\n",
        "assert s + [x] == s + [x];",
    ),
    (
        "local-ghost",
        "statements",
        SUM,
        f"lemma L()\n  ensures Sum(3) == 6\n{{\n  {HOLE}\n}}\n",
        "ghost var two := Sum(2);\nassert two == 3 by { assert Sum(1) == 1; }",
    ),
]
# These hold without help.
FREE = {"all-sums", "drop-last", "local-ghost", "square"}


def find_toolchain() -> DafnyToolchain:
    try:
        return find_dafny_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))


def make_problems() -> list[tuple[Problem, str]]:
    return [
        (Problem(name, "dafny", kind, preamble, statement), reference)
        for name, kind, preamble, statement, reference in PROBLEMS
    ]


def judge_all(candidates: Sequence[Candidate]) -> list[Verdict]:
    return ask_verifier(
        lambda verifier: verify_all(verifier, candidates, deadline_seconds=PATIENCE_SECONDS)
    )


def judge_alone(
    candidates: Sequence[Candidate], *, workers: int = 2, rlimit: int = 3_000_000
) -> list[Verdict]:
    """By a verifier of their own."""

    async def main() -> list[Verdict]:
        verifier = open_verifier(workers=workers, rlimit=rlimit, toolchain=find_toolchain())
        try:
            return await asyncio.gather(
                *(verifier.verify(c, deadline_seconds=PATIENCE_SECONDS) for c in candidates)
            )
        finally:
            await verifier.aclose()

    return asyncio.run(main())


@pytest.mark.slow
def test_references_are_proved_and_blanks_are_not() -> None:
    problems = make_problems()
    truths = judge_all([Candidate(problem, reference) for problem, reference in problems])
    assert {p.id: v.status for (p, _), v in zip(problems, truths, strict=True)} == {
        p.id: Status.PROVED for p, _ in problems
    }
    needy = [problem for problem, _ in problems if problem.id not in FREE]
    blanks = judge_all([Candidate(problem, "") for problem in needy])
    assert [v.status for v in blanks] == [Status.REJECTED] * 6
    assert all(v.diagnostics[0].severity == "error" for v in blanks)


@pytest.mark.slow
@pytest.mark.skipif(not EXAMPLES.exists(), reason="the example problems are not here")
@pytest.mark.usefixtures("recorded_dafny")
def test_all_sixty_examples() -> None:
    lines = [json.loads(line) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
    candidates = []
    for line in lines:
        kind = "calc" if "calc" in line["family"] else "statements"
        kind = "invariants" if line["truth"].startswith("invariant") else kind
        problem = Problem(line["id"], "dafny", kind, "", line["prompt"])
        candidates += [Candidate(problem, line["truth"]), Candidate(problem, "")]
    verdicts = judge_all(candidates)
    assert [v.status for v in verdicts[0::2]] == [Status.PROVED] * 60
    assert [v.status for v in verdicts[1::2]] == [Status.REJECTED] * 60


@pytest.mark.slow
def test_diagnostics_point_into_the_body() -> None:
    problem = make_problems()[0][0]
    bad = [
        Candidate(problem, "invariant 0 <= i <= n\ninvariant r == 3 * i"),
        Candidate(problem, "invariant 0 <= i <= n\ninvariant r == 2 * k"),
    ]
    wrong, unknown = judge_all(bad)
    assert (wrong.status, unknown.status) == (Status.REJECTED, Status.REJECTED)
    inside = [d for d in wrong.diagnostics if d.severity == "error" and d.body_line]
    assert [(d.line, d.column, d.body_line) for d in inside] == [(8, 12, 2)]
    assert "might not be maintained" in inside[0].message
    assert unknown.diagnostics[0].body_line == 2
    assert unknown.diagnostics[0].message == "unresolved identifier: k"
    assert (wrong.stage, unknown.stage) == (Stage.PROVER, Stage.READING)


@pytest.mark.slow
def test_running_out_of_resources_is_a_verdict() -> None:
    text = (
        "lemma Hard(x: int, y: int, z: int)\n  requires x > 2 && y > 2 && z > 2\n"
        f"  ensures x * x * x + y * y * y != z * z * z\n{{\n  {HOLE}\n}}\n"
    )
    problem = Problem("hard", "dafny", "statements", "", text)
    first, second = judge_alone([Candidate(problem, ""), Candidate(problem, "")], rlimit=300_000)
    assert first.status is Status.EXHAUSTED
    assert second.status is Status.EXHAUSTED
    assert first.diagnostics[0].message == "at the limit: the proof ran out of its resources"


@pytest.mark.slow
def test_entries_named_by_the_problem_are_demanded() -> None:
    problem, reference = make_problems()[1]
    names = ["CheckWellformed$$_module.__default.Sum", "Impl$$_module.__default.M"]
    right = replace(problem, id="right", metadata={"expected_entries": names})
    wrong = replace(problem, id="wrong", metadata={"expected_entries": [*names, "Impl$$X"]})
    good, bad = judge_all([Candidate(right, reference), Candidate(wrong, reference)])
    assert good.status is Status.PROVED
    assert "entries:2" in good.checks
    assert bad.status is Status.UNSOUND
    assert "missing ['Impl$$X']" in bad.diagnostics[0].message


@pytest.mark.slow
def test_whole_files() -> None:
    good, false, empty = judge_all(
        [
            make_file_candidate("good", SUM + "lemma T()\n  ensures Sum(2) == 3\n{}\n"),
            make_file_candidate("false", SUM + "lemma T()\n  ensures Sum(2) == 4\n{}\n"),
            make_file_candidate("empty", "// nothing\n"),
        ]
    )
    assert (good.status, good.checks[2]) == (Status.PROVED, "some-entries:3")
    assert false.status is Status.REJECTED
    assert empty.status is Status.REJECTED


OWN_FAILURE = Problem(
    "own-failure",
    "dafny",
    "statements",
    "",
    f"method M(a: array<int>)\n  ensures a.Length >= 0\n{{\n  var i := 0;\n  {HOLE}\n}}\n",
)


@pytest.mark.slow
def test_what_kills_dafny_by_itself_is_a_rejection() -> None:
    """Dafny 2.3 dies of these at every try; a policy must not leave its group that way."""
    bodies = [
        "assert a[..i >= 1];",
        "assert nobody;\n  assert a[..i >= 1];",
        "assert (1 as bv0) == (1 as bv0);",
        "assert i == 0;",
    ]
    verdicts = judge_alone([Candidate(OWN_FAILURE, body) for body in bodies], workers=1)
    assert [v.status for v in verdicts] == [Status.REJECTED] * 3 + [Status.PROVED]
    assert [v.fatal for v in verdicts] == [True] * 3 + [False]
    said = [v.diagnostics[0].message for v in verdicts[:3]]
    assert all(text.startswith("this text made 2 fresh workers fail: ") for text in said)
    assert "Index (zero based) must be greater than or equal to zero" in said[0]
    assert "Index (zero based) must be greater than or equal to zero" in said[1]
    assert "Assertion failed." in said[2]


@pytest.mark.slow
def test_killing_the_servers_loses_no_verdict() -> None:
    toolchain = find_toolchain()
    if toolchain.server is None:
        pytest.skip("DafnyServer is not installed")
    problems = make_problems()
    candidates = [
        Candidate(problem, body)
        for problem, reference in problems
        for body in (reference, "")
        if not (body == "" and problem.id in FREE)
    ]

    async def main() -> tuple[list[Verdict], int]:
        pool = VerifierPool(
            make_spawn(toolchain, Limits()),
            workers=2,
            audit=lambda _: None,
            toolchain=toolchain.name,
        )
        tasks = [
            asyncio.create_task(pool.verify(c, deadline_seconds=PATIENCE_SECONDS))
            for c in candidates
        ]
        await asyncio.wait(tasks[:6])
        pids = [slot.worker.pid for slot in pool._slots if slot.worker]  # type: ignore[attr-defined]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        verdicts = await asyncio.gather(*tasks)
        restarts = pool.stats().restarts
        await pool.aclose()
        return verdicts, restarts

    verdicts, restarts = asyncio.run(main())
    assert restarts == 2
    expected = [
        Status.REJECTED if not candidate.body.strip() else Status.PROVED for candidate in candidates
    ]
    assert [v.status for v in verdicts] == expected


@pytest.mark.slow
def test_the_command_line_judges_alike() -> None:
    toolchain = replace(find_toolchain(), server=None)
    problem, reference = make_problems()[4]
    candidates = [
        Candidate(problem, reference),
        Candidate(problem, ""),
        Candidate(problem, "L(x);"),
        make_file_candidate("loop", "method M() ensures 1 == 1 { }\n"),
        Candidate(OWN_FAILURE, "assert a[..i >= 1];"),
        Candidate(OWN_FAILURE, "assert (1 as bv0) == (1 as bv0);"),
    ]

    async def main() -> tuple[str, list[Verdict]]:
        verifier: CachedVerifier = open_verifier(workers=1, toolchain=toolchain)
        try:
            return verifier.described, await asyncio.gather(
                *(verifier.verify(c, deadline_seconds=PATIENCE_SECONDS) for c in candidates)
            )
        finally:
            await verifier.aclose()

    described, verdicts = asyncio.run(main())
    assert described == toolchain.name
    assert [v.status for v in verdicts] == [
        Status.PROVED,
        Status.REJECTED,
        Status.REJECTED,
        Status.PROVED,
        Status.REJECTED,
        Status.REJECTED,
    ]
    assert verdicts[0].toolchain.startswith("dafny 2.3.0 (dafny-cli), z3 ")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/usr/bin/z3").exists(), reason="Debian's z3 is not here")
def test_the_z3_that_debian_brings_judges_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # A newer z3 counts the reading of the axioms as well, which the canary of /rlimit must know.
    monkeypatch.setenv("PROVERRL_Z3", "/usr/bin/z3")
    truths = [Candidate(problem, reference) for problem, reference in make_problems()[:3]]
    verdicts = judge_alone([*truths, *(Candidate(truth.problem, "") for truth in truths)])
    assert [v.status for v in verdicts] == [Status.PROVED] * 3 + [Status.REJECTED] * 3
    assert {v.toolchain.rpartition(" ")[2] for v in verdicts} == {find_toolchain().z3_version}
