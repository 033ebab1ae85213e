"""Subgoals of Dafny proofs: sketches and their problems by hand, and the search on real Dafny."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from proverrl.config.search import SearchConfig
from proverrl.errors import ToolchainError, UsageError
from proverrl.search.base import Functions, Prefix, Proposal, SearchResult
from proverrl.search.dafny_branches import are_disjoint, read_branches
from proverrl.search.dafny_sketch import blank, fill, make_sketch
from proverrl.search.methods import make_search
from proverrl.search.subgoal_search import SubgoalSearch
from proverrl.search.subgoals import Sketch, Subgoal
from proverrl.search.subgoals_dafny import close, is_circular, lift, refine
from proverrl.types import HOLE, Candidate, Problem, Verdict
from proverrl.verify.make import open_verifier

LEM = Problem(
    "lem",
    "dafny",
    "statements",
    "function Val(p: nat): int { if p < 1 then 22 else Val(p - 1) + 18 }\n",
    f"lemma {{:induction false}} Lem(m: nat)\n  ensures Val(m) == 18 * m + 22\n{{\n  {HOLE}\n}}\n",
)
# In the even branch the value is known from one lemma, in the odd branch from another.
TWO = Problem(
    "two",
    "dafny",
    "statements",
    "function F(n: nat): int { if n == 0 then 5 else F(n - 1) + 3 }\n"
    "function G(n: nat): int { if n == 0 then 7 else G(n - 1) + 2 }\n"
    "function H(n: nat): int { if n % 2 == 0 then F(n) else G(n) }\n"
    "lemma {:induction false} ForF(n: nat)\n  ensures F(n) == 3 * n + 5\n"
    "{ if n > 0 { ForF(n - 1); } }\n"
    "lemma {:induction false} ForG(n: nat)\n  ensures G(n) == 2 * n + 7\n"
    "{ if n > 0 { ForG(n - 1); } }\n",
    "lemma {:induction false} Both(n: nat)\n"
    "  ensures H(n) == if n % 2 == 0 then 3 * n + 5 else 2 * n + 7\n"
    f"{{\n  {HOLE}\n}}\n",
)
WRONG = "if n % 2 == 0 { ForG(n); } else { ForF(n); }"
LOOP = Problem(
    "loop",
    "dafny",
    "invariants",
    "",
    "method M(cap: nat) returns (b: int)\n  ensures b == 10 * cap + 54\n{\n  b := 54;\n"
    f"  var m := 0;\n  while m < cap\n    {HOLE}\n  {{\n    b := b + 10;\n    m := m + 1;\n"
    "  }\n}\n",
)
CALC = Problem(
    "calc",
    "dafny",
    "calc",
    "function Fn(q: nat): int { if q == 0 then 19 else Fn(q - 1) + 23 * q }\n",
    "lemma {:induction false} Show(n: nat)\n  ensures 2 * Fn(n) == 23 * n * (n + 1) + 38\n"
    f"{{\n  if n != 0 {{\n    calc {{\n      2 * Fn(n);\n      {HOLE}\n"
    "      23 * n * (n + 1) + 38;\n    }\n  }\n}\n",
)


class Dafny:
    """Real Dafny behind one event loop; verdicts are kept for all tests."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.verifier = open_verifier(workers=1)
        self.known: dict[str, Verdict] = {}

    async def verify(self, candidate: Candidate) -> Verdict:
        if candidate.key not in self.known:
            self.known[candidate.key] = await self.verifier.verify(
                candidate, deadline_seconds=120.0
            )
        return self.known[candidate.key]

    def judge(self, problem: Problem, body: str) -> Verdict:
        return self.runner.run(self.verify(Candidate(problem, body)))

    def sketch(self, problem: Problem, body: str) -> Sketch | None:
        return make_sketch(Candidate(problem, body), self.judge(problem, body))

    def closed(self, problem: Problem, sketch: Sketch) -> Sketch | None:
        candidate = close(problem, sketch)
        assert candidate is not None
        verdict = self.runner.run(self.verify(candidate))
        return refine(problem, sketch, candidate, verdict)


@pytest.fixture(scope="module")
def dafny() -> Iterator[Dafny]:
    try:
        dafny = Dafny()
        dafny.judge(LEM, "")
    except ToolchainError as error:
        pytest.skip(str(error))
    yield dafny
    dafny.runner.run(dafny.verifier.aclose())
    dafny.runner.close()


class Script:
    """Writes the bodies of a script in turn, by what the statement around the hole is like: the
    first key that is found in it. A body is one token."""

    def __init__(self, bodies: Mapping[str, Sequence[str]]) -> None:
        self.bodies = bodies
        self.asked: list[str] = []
        self.counts = dict.fromkeys(bodies, 0)

    async def propose(
        self, problem: Problem, prefix: Prefix, num: int, seed: int
    ) -> list[Proposal]:
        key = next(key for key in self.bodies if key in problem.statement)
        self.asked.append(problem.statement)
        written = []
        for _ in range(num):
            row = self.bodies[key]
            written.append(Proposal(row[self.counts[key] % len(row)], 1, -1.0))
            self.counts[key] += 1
        return written


def run(dafny: Dafny, script: Script, problem: Problem, **config: object) -> SearchResult:
    functions = Functions(script.propose, dafny.verify, confirm=dafny.verify)
    settings = SearchConfig.model_validate({"calls": 16, "width": 1, **config})
    return dafny.runner.run(make_search(problem, functions, settings).run())


# Text --------------------------------------------------------------------------------------------


def test_branches_have_paths_and_exclude_each_other() -> None:
    text = "if a > 3 { A(); } else if x in {1, 2} { match l { case N(h, t) => B(h); } }"
    branches, _ = read_branches(text)
    assert [(text[b.start : b.end].strip(), b.path) for b in branches] == [
        ("A();", ("a > 3",)),
        ("match l { case N(h, t) => B(h); }", ("!(a > 3)", "x in {1, 2}")),
        ("B(h);", ("!(a > 3)", "x in {1, 2}", "(l).N?")),
        ("", ("!(a > 3)", "!(x in {1, 2})")),
    ]
    assert branches[3].is_missing
    assert are_disjoint(branches[0].arms, branches[2].arms)
    assert not are_disjoint(branches[1].arms, branches[2].arms)


def test_a_path_over_names_of_its_own_cannot_be_said_outside() -> None:
    branches, claims = read_branches("var k := m; if k > 0 { assert m > 0; } assert k >= 0;")
    assert [b.path for b in branches] == [None, None]
    # m is known outside, but not the path to it; k is not known at all.
    assert [(c.text, c.path) for c in claims] == [("m > 0", None), ("k >= 0", None)]


def test_filled_holes_are_needed_no_more() -> None:
    sketch = Sketch("a /*{H1}*/ b /*{H2}*/", (Subgoal("H1"), Subgoal("H2", ("H1",))))
    assert fill(sketch, {"H1": " x "}) == Sketch("a x b /*{H2}*/", (Subgoal("H2"),))
    # The marks have eight characters.
    assert blank(sketch) == "a          b         "


# Real Dafny --------------------------------------------------------------------------------------


def test_failing_branches_become_holes(dafny: Dafny) -> None:
    sketch = dafny.sketch(LEM, "if m > 3 { Lem(m); } else { assert m == 7; }")
    assert sketch is not None
    # The branch that calls the lemma comes last, where it may use the others.
    assert sketch.body == "if m > 3 { /*{R2}*/ } else { /*{H1}*/ }"
    assert sketch.subgoals == (Subgoal("H1"), Subgoal("R2", ("H1",)))
    first = lift(LEM, sketch, sketch.subgoals[0], ())
    last = lift(LEM, sketch, sketch.subgoals[1], ("H1",))
    assert first is not None
    assert last is not None
    assert "requires !(m > 3)\n  ensures" in first.statement
    hypothesis = "requires forall m: nat :: (!(m > 3)) ==> (Val(m) == 18 * m + 22)\n"
    assert hypothesis in last.statement
    # In the last hole the lemma may be called for less, and never for the same.
    assert dafny.judge(last, "Lem(m - 1);").proved
    assert not dafny.judge(last, "Lem(m);").proved
    assert not dafny.judge(last, "").proved
    assert dafny.judge(first, "if m > 0 { Lem(m - 1); }").proved
    assert not dafny.judge(first, "Lem(m);").proved


def test_a_branch_that_dafny_did_not_name_is_found_when_the_sketch_is_closed(
    dafny: Dafny,
) -> None:
    body = "if m > 3 { } else if m == 0 { }"
    sketch = dafny.sketch(LEM, body)
    assert sketch is not None
    assert sketch.body == "if m > 3 { /*{H1}*/ } else if m == 0 { }"
    better = dafny.closed(LEM, sketch)
    assert better is not None
    assert better.body == "if m > 3 { /*{H1}*/ } else if m == 0 { } else { /*{H2}*/ }"
    assert dafny.closed(LEM, better) == better


def test_what_is_no_part_of_a_problem_is_refused(dafny: Dafny) -> None:
    # The only hole would be the whole body.
    assert dafny.sketch(LEM, "Lem(m);") is None
    assert dafny.sketch(LEM, "assert m >= 0;") is None
    assert dafny.sketch(LEM, "nonsense") is None
    # A lemma of its own that promises the same is the problem again.
    twice = dafny.sketch(LEM, "assert Val(m) == 18 * m + 22; assert Val(m) > 21;")
    assert twice is not None
    assert lift(LEM, twice, twice.subgoals[0], ()) is None
    assert is_circular(LEM, replace(LEM, statement=LEM.statement.replace("Lem", "Other")))
    asks = LEM.statement.replace("  ensures", "  requires Val(m) == 18 * m + 22\n  ensures")
    assert is_circular(LEM, replace(LEM, statement=asks))
    fewer = LEM.statement.replace("  ensures", "  requires m > 3\n  ensures")
    assert not is_circular(LEM, replace(LEM, statement=fewer))


def test_assertions_become_lemmas_that_know_the_ones_before(dafny: Dafny) -> None:
    sketch = dafny.sketch(LEM, "assert Val(m) >= 22; assert Val(m) > m;")
    # All of the proof would be left: the postcondition fails too.
    assert sketch is None
    body = "assert Val(m) % 2 == 0; assert Val(m) >= 22; assert Val(m) == 18 * m + 22;"
    sketch = dafny.sketch(LEM, body)
    assert sketch is not None
    second = lift(LEM, sketch, sketch.subgoals[1], ("H1",))
    assert second is not None
    assert second.statement == (
        "lemma {:induction false} LemH2(m: nat)\n  requires Val(m) % 2 == 0\n"
        f"  ensures Val(m) >= 22\n{{\n  {HOLE}\n}}\n"
    )
    alone = lift(LEM, sketch, sketch.subgoals[1], ())
    assert alone is not None
    assert dafny.judge(alone, "if m > 0 { LemH2(m - 1); }").proved
    # The lemma that it comes from is not there to be called.
    assert not dafny.judge(alone, "Lem(m);").proved


def test_a_calculation_keeps_its_steps(dafny: Dafny) -> None:
    body = "== 2 * Fn(n - 1) + 46 * n;\n== 23 * (n - 1) * n + 38 + 46 * n;"
    sketch = dafny.sketch(CALC, body)
    assert sketch is not None
    assert sketch.body == body.replace("== 23", "== { /*{H1}*/ } 23")
    part = lift(CALC, sketch, sketch.subgoals[0], ())
    assert part is not None
    assert part.kind == "statements"
    assert dafny.judge(part, "Show(n - 1);").proved
    assert dafny.judge(CALC, body.replace("== 23", "== { Show(n - 1); } 23")).proved


def test_the_last_step_of_a_calculation_is_written_once_more(dafny: Dafny) -> None:
    sketch = dafny.sketch(CALC, "== 2 * Fn(n - 1) + 46 * n;")
    assert sketch is not None
    last = "== 2 * Fn(n - 1) + 46 * n;\n== { /*{H1}*/ } 23 * n * (n + 1) + 38;"
    assert sketch.body == last
    assert dafny.judge(CALC, last.replace("/*{H1}*/", "Show(n - 1);")).proved


def test_clauses_that_hold_stay(dafny: Dafny) -> None:
    sketch = dafny.sketch(LOOP, "invariant 0 <= m <= cap\ninvariant b == 11 * m + 54")
    assert sketch is not None
    assert sketch.body == "invariant 0 <= m <= cap\n/*{H1}*/"
    assert dafny.closed(LOOP, sketch) == sketch
    part = lift(LOOP, sketch, sketch.subgoals[0], ())
    assert part is not None
    assert part.kind == "invariants"
    assert dafny.judge(part, "invariant b == 10 * m + 54").proved
    # A clause that held only beside a wrong one goes too when the sketch is closed.
    pair = dafny.sketch(LOOP, "invariant 0 <= m\ninvariant b == 54\ninvariant b >= 54 && b < 55")
    assert pair is None or "b == 54" not in pair.body


def test_two_branches_found_apart_are_a_proof(dafny: Dafny) -> None:
    halves = ["ForG(n);", "ForF(n);"]
    script = {f"{{\n  {HOLE}": [WRONG], "": halves}
    result = run(dafny, Script(script), TWO, name="subgoals")
    assert result.proved
    assert result.proofs[0].body == "if n % 2 == 0 { ForF(n); } else { ForG(n); }"
    assert result.proofs[0].confirmed
    assert result.calls <= 16
    assert result.proofs[0].calls == result.calls
    (record,) = result.tree["sketches"].values()
    assert record["outcome"] == "solved"
    assert record["solved"] == ["H1", "H2"]
    # The same writer of whole bodies proves nothing with the same calls.
    again = run(dafny, Script(script), TWO, name="best_of_n")
    assert not again.proved


def test_it_says_what_blocks(dafny: Dafny) -> None:
    script = {f"{{\n  {HOLE}": [WRONG], "": ["ForG(n);"]}
    result = run(dafny, Script(script), TWO, name="subgoals", calls=10)
    assert not result.proved
    # The second hole was solved with the first one given; the first one stays open in both tries.
    records = list(result.tree["sketches"].values())
    assert records[0]["solved"] == ["H2"]
    assert records[0]["blocking"] == {"H1": ["H2"]}
    assert records[1]["blocking"] == {"H1": []}
    nodes = {node["id"]: node for node in result.tree["graph"]["nodes"]}
    first, second = (name for name in nodes if name.endswith(("0.0.H1", "0.0.H2")))
    assert nodes[first]["solved"] is False
    assert nodes[second]["solved"] is True
    assert {"source": first, "target": second} in result.tree["graph"]["edges"]


@pytest.mark.parametrize("after", [1, 4, 7, 9])
def test_it_goes_on_where_it_was(dafny: Dafny, after: int) -> None:
    class StopError(Exception):
        pass

    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        # What is written depends on the seed alone.
        if f"{{\n  {HOLE}" in problem.statement:
            return [Proposal(f"assert {seed % 2} >= 0; {WRONG}", 2, -1.0)]
        return [Proposal("ForF(n);" if seed % 3 == 0 else "ForG(n);", 1, -1.0)]

    def build() -> SubgoalSearch:
        functions = Functions(propose, dafny.verify)
        config = SearchConfig(name="subgoals", calls=16, width=1)
        search = make_search(TWO, functions, config, seed=5)
        assert isinstance(search, SubgoalSearch)
        return search

    whole = dafny.runner.run(build().run())
    saved: list[dict[str, object]] = []
    broken = build()

    def watch(search: SubgoalSearch) -> None:
        if len(search.curve) == after:
            saved.append(search.state_dict())
            raise StopError

    with pytest.raises(StopError):
        dafny.runner.run(broken.run(watch))
    resumed = build()
    resumed.load_state_dict(saved[0])
    assert dafny.runner.run(resumed.run()) == whole


def test_other_problems_are_refused() -> None:
    functions = Functions(Script({"": [""]}).propose, Dafny.verify)  # type: ignore[arg-type]
    lean = replace(LEM, language="lean", kind="tactic")
    with pytest.raises(UsageError, match="has no sketches"):
        make_search(lean, functions, SearchConfig(name="subgoals"))
