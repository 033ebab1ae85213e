"""Lemmas of Dafny proofs: facts by hand, and the search on real Dafny."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from proverrl.config.search import SearchConfig, TierName
from proverrl.errors import UsageError
from proverrl.lang.dafny.search.facts import (
    find_standing,
    list_facts,
    negate,
    prove_alone,
    put_together,
)
from proverrl.lang.records import Prefix
from proverrl.search.base import Functions, Proposal, Search
from proverrl.search.lemma_search import LemmaSearch
from proverrl.search.wiring import make_search
from proverrl.types import HOLE, Candidate, Diagnostic, Obligations, Problem, Status, Verdict
from tests.dafny_search import CALC, LEM, LOOP, TWO, Dafny, Script, open_dafny, run
from tests.search_world import run_stopped

RANGE, SUM = "invariant 0 <= m <= cap", "invariant b == 10 * m + 54"


@pytest.fixture(scope="module")
def dafny() -> Iterator[Dafny]:
    yield from open_dafny()


def build_refused(*places: tuple[int, int]) -> Verdict:
    """Errors at these lines and columns of the file."""
    errors = tuple(Diagnostic("error", "wrong", line, column) for line, column in places)
    return Verdict(Status.REJECTED, errors, obligations=(Obligations("M", 9, 5),))


@pytest.mark.slow
def test_facts_stand_under_their_conditions() -> None:
    body = "if m > 3 { Lem(m - 1); } else { var k := m; assert k > 0;\n assert  m >= 0; } Lem(2);"
    verdict = build_refused((5, 0))
    assert list_facts(LEM, {body: verdict, "Lem(2);": verdict, "assert m": build_refused()}) == {
        # In the order of assertions, then calls; what is about k is left out.
        "if !(m > 3) { assert m >= 0; }": 1,
        "if m > 3 { Lem(m - 1); }": 1,
        "Lem(2);": 2,
    }
    clauses = f"{RANGE}\n{SUM}\ndecreases cap - m"
    assert list_facts(LOOP, {clauses: verdict}) == {RANGE: 1, SUM: 1}
    # What Dafny did not read says nothing.
    assert list_facts(LOOP, {clauses: Verdict(Status.REJECTED)}) == {}


@pytest.mark.slow
def test_a_fact_stands_when_nothing_fails_in_it() -> None:
    facts = ["Lem(1);", "assert m > 2;", "Lem(2);"]
    candidate = Candidate(LEM, put_together(LEM, facts))
    # Line 5 of the file is the first of the body, which begins in column 2.
    assert candidate.source.split("\n")[4] == "  Lem(1);"
    assert find_standing(candidate, build_refused((6, 9)), facts) == ["Lem(1);", "Lem(2);"]
    assert find_standing(candidate, build_refused((5, 2), (7, 5)), facts) == ["assert m > 2;"]
    # A postcondition fails at the problem's own brace.
    assert find_standing(candidate, build_refused((4, 0)), facts) == facts
    assert find_standing(candidate, Verdict(Status.REJECTED), facts) == []


@pytest.mark.slow
def test_a_fact_alone_and_its_negation_are_lemmas() -> None:
    fact = "if m > 3 { assert Val(m) > 9; }"
    refuted = negate(LEM, fact)
    assert refuted is not None
    assert refuted.statement == (
        f"lemma {{:induction false}} LemAlone(m: nat)\n  requires m > 3\n"
        f"  ensures !(Val(m) > 9)\n{{\n  {HOLE}\n}}\n"
    )
    assert prove_alone(LEM, fact, "Lem(m);\n") == "if m > 3 { assert Val(m) > 9 by { Lem(m); } }"
    assert negate(LEM, "Lem(2);") is None
    assert negate(LOOP, SUM) is None


@pytest.mark.slow
def test_clauses_of_different_bodies_are_a_proof_and_idle_ones_do_not_count(dafny: Dafny) -> None:
    bodies = [f"{RANGE}\ninvariant b == 11 * m + 54", f"invariant b >= 54\n{SUM}"]
    script = {"": bodies}
    result = run(dafny, Script(script), LOOP, name="lemmas", calls=8)
    assert result.proved
    # A turn of four bodies, then the clauses: all but one stand, and are a proof.
    assert result.proofs[0].body == f"{RANGE}\ninvariant b >= 54\n{SUM}"
    assert result.proofs[0].confirmed
    uses = {one["statement"]: (one["status"], one["uses"]) for one in result.tree["lemmas"]}
    assert uses == {
        RANGE: ("proved", 1),
        "invariant b == 11 * m + 54": ("open", 0),
        "invariant b >= 54": ("proved", 0),
        SUM: ("proved", 1),
    }
    assert result.tree["used"] == ["L1", "L4"]
    assert not run(dafny, Script(script), LOOP, name="best_of_n", calls=8).proved
    assert not run(dafny, Script(script), LOOP, name="lemmas", calls=8, tier="light").proved


@pytest.mark.slow
def test_a_body_is_written_with_what_stands(dafny: Dafny) -> None:
    script = {f"ForF(n);\n  {HOLE}": ["ForG(n);"], "": ["ForF(n); assert H(n) == 1;"]}
    result = run(dafny, Script(script), TWO, name="lemmas", calls=8)
    assert [proof.body for proof in result.proofs] == ["ForF(n);\nForG(n);"]
    assert result.tree["turns"][0]["shown"] == result.tree["used"] == ["L2"]


@pytest.mark.slow
def test_the_heavy_tier_proves_and_disproves_what_did_not_stand(dafny: Dafny) -> None:
    script = {"BothAlone": ["ForF(n);"], "": ["assert F(n) > 4; assert F(n) < 2 * n;"]}
    result = run(dafny, Script(script), TWO, name="lemmas", calls=40, tier="heavy")
    assert not result.proved
    assert result.calls <= 40
    # Every call and every token is one of a turn's.
    assert sum(turn.is_call for turn in result.turns) == result.calls
    assert sum(turn.num_tokens for turn in result.turns) == result.tokens
    first, second = result.tree["lemmas"]
    assert (first["statement"], first["status"], first["body"]) == (
        "assert F(n) > 4;",
        "proved",
        "ForF(n);",
    )
    assert (second["statement"], second["status"]) == ("assert F(n) < 2 * n;", "disproved")


@pytest.mark.slow
@pytest.mark.parametrize("after", [2, 5, 7])
def test_it_goes_on_where_it_was(dafny: Dafny, after: int) -> None:
    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        # What is written depends on the seed alone.
        if f"ForF(n);\n  {HOLE}" in problem.statement:
            return [Proposal("assert H(n) == 2;", 1, -1.0)]
        return [Proposal("ForF(n); assert H(n) == 1;", 1 + seed % 3, -1.0)]

    def build() -> Search:
        functions = Functions(propose, dafny.verify)
        config = SearchConfig(name="lemmas", calls=8, width=1, max_idle=3)
        return make_search(TWO, functions, config, seed=5)

    whole = dafny.runner.run(build().run())
    assert run_stopped(build, dafny.runner.run, after) == whole


@pytest.mark.slow
def test_other_problems_are_refused() -> None:
    async def verify(candidate: Candidate) -> Verdict:
        raise AssertionError

    functions = Functions(Script({"": [""]}).propose, verify)
    for problem in (CALC, replace(LEM, language="lean", kind="tactic")):
        with pytest.raises(UsageError, match="has no lemmas"):
            make_search(problem, functions, SearchConfig(name="lemmas"))


def test_what_stands_together_is_a_proof_also_where_fewer_are_shown() -> None:
    """Ten facts prove the lemma, and the tier shows eight."""
    facts = [f"assert m >= {-number};" for number in range(1, 11)]
    halves = itertools.cycle(["\n".join(facts[:5]), "\n".join(facts[5:])])

    async def verify(candidate: Candidate) -> Verdict:
        if candidate.problem == LEM and all(fact in candidate.body for fact in facts):
            return Verdict(Status.PROVED, checks=("obligations:4",))
        post = Diagnostic("error", "A postcondition might not hold on this return path.")
        entry = (Obligations("M", 9, 5),)
        return Verdict(Status.REJECTED, (post,), obligations=entry, checks=("audit", "resolve"))

    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        return [Proposal(next(halves), 2, -1.0) for _ in range(num)]

    config = SearchConfig(name="lemmas", calls=16, width=2)
    result = asyncio.run(make_search(LEM, Functions(propose, verify), config).run())
    # Two bodies, then all facts of both; each of them is needed.
    assert (result.proved, result.calls, result.confirmations) == (True, 3, 10)
    assert set(result.tree["used"]) == {f"L{number}" for number in range(1, 11)}


@pytest.mark.parametrize(("tier", "num"), [("light", 0), ("medium", 16), ("heavy", 32)])
def test_a_turn_takes_up_as_many_facts_as_its_tier_allows(tier: TierName, num: int) -> None:
    async def verify(candidate: Candidate) -> Verdict:
        raise AssertionError

    functions = Functions(Script({}).propose, verify)
    search = make_search(TWO, functions, SearchConfig(name="lemmas", tier=tier))
    assert isinstance(search, LemmaSearch)
    facts = {f"assert F(n) > {i};": i for i in range(40)}
    search._conjecture(facts, 50)
    taken = list(search.pool.lemmas.values())
    assert [(one.name, one.statement, one.attempts, one.proofs) for one in taken] == [
        (f"L{i + 1}", f"assert F(n) > {i};", 50, i) for i in range(num)
    ]
    # The limit is that of a turn, and a fact that is known takes no place.
    search._conjecture(facts, 50)
    assert len(search.pool.lemmas) == min(40, 2 * num)
