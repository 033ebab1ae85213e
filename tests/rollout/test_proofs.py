"""The store of proofs: which bodies are kept, what they are stamped with, which a round learns."""

from __future__ import annotations

from dataclasses import replace

from proverrl.lang import find_language
from proverrl.rollout.proofs import (
    ProofStore,
    describe_conditions,
)
from proverrl.types import Candidate, Completion, Rollout, Status, Turn
from tests.builders import build_problem, build_verdict

PROBLEM = build_problem("p0")


def rollout(
    body: str, *, tokens: int, status: Status = Status.PROVED, version: int = 0, prelude: str = ""
) -> Rollout:
    completion = Completion(body, (1,), tuple(range(tokens)), (-1.0,) * tokens, "stop", version)
    turn = Turn(completion, Candidate(PROBLEM, body, prelude), build_verdict(status))
    return Rollout(f"r-{body}", PROBLEM, "solver", (turn,))


def make_store(keep_shortest: int = 2, judge: str = "Dafny 2.3.0; audit 4") -> ProofStore:
    return ProofStore(keep_shortest, lambda problem: describe_conditions(problem, judge))


def test_store_keeps_the_shortest_distinct_proofs() -> None:
    store = make_store()
    for body, tokens in (("long", 9), ("mid", 5), ("mid", 5), ("short", 2), ("longest", 12)):
        store.add(rollout(body, tokens=tokens))
    store.add(rollout("wrong", tokens=1, status=Status.REJECTED))
    store.add(rollout("leaning", tokens=1, prelude="lemma L() {}"))
    assert store.pairs() == [("p0", "short"), ("p0", "mid")]
    again = make_store()
    again.load_state_dict(store.state_dict())
    assert again.entries() == store.entries()


def test_of_bodies_that_differ_in_layout_alone_the_shortest_stays() -> None:
    store = make_store(keep_shortest=4)
    store.add(rollout("invariant  k <= n", tokens=7))
    store.add(rollout("invariant k<=n // easy", tokens=9))
    assert store.pairs() == [("p0", "invariant  k <= n")]
    store.add(rollout("invariant k<=n", tokens=5))
    assert store.pairs() == [("p0", "invariant k<=n")]
    # Another name is another body, since it may be another variable.
    store.add(rollout("invariant j<=n", tokens=5))
    assert len(store.pairs()) == 2


def test_normal_forms() -> None:
    assert find_language("dafny").normal_form("invariant a\n  /* x /* y */ */ invariant b") == (
        "invariant a invariant b"
    )
    # "ab" is one name and "a b" are two.
    assert find_language("dafny").normal_form("ab") != find_language("dafny").normal_form("a b")
    one, two = "  simp  -- done\n\n  ring\n", "  simp\n  ring"
    assert find_language("lean").normal_form(one) == find_language("lean").normal_form(two) == two
    # In Lean indentation has a meaning.
    assert find_language("lean").normal_form("  simp\n    ring") != find_language(
        "lean"
    ).normal_form(two)


def test_a_proof_names_what_it_rests_on() -> None:
    store = make_store(judge="Dafny 2.3.0; audit 4")
    store.add(rollout("body", tokens=3, version=6))
    [(_, proof)] = store.entries()
    assert proof.policy_version == 6
    assert proof.conditions.judge == "Dafny 2.3.0; audit 4"
    same = describe_conditions(PROBLEM, "Dafny 2.3.0; audit 4")
    assert proof.conditions == same
    # Each of these is another question, or another judge.
    demands = replace(PROBLEM, metadata={**PROBLEM.metadata, "expected_entries": ["M"]})
    edited = replace(PROBLEM, statement=PROBLEM.statement.replace("k", "j"))
    for problem, judge in (
        (demands, same.judge),
        (edited, same.judge),
        (PROBLEM, "Dafny 2.3.0; audit 5"),
    ):
        assert describe_conditions(problem, judge) != same
    # These change nothing that is proved.
    relabelled = replace(PROBLEM, informal="words", metadata={"level": 3})
    assert describe_conditions(relabelled, same.judge) == same
