"""The store of proofs: which bodies are kept, what they are stamped with, which a round learns."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proverrl.config import ProblemsConfig
from proverrl.errors import ProblemError
from proverrl.lang import find_language
from proverrl.problems.load import write_problems
from proverrl.rollout.proofs import (
    Conditions,
    Proof,
    ProofStore,
    describe_conditions,
)
from proverrl.run.pairs import choose_proofs, load_sft_data
from proverrl.types import Candidate, Completion, Problem, Rollout, Status, Turn
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


def entry(problem: str, number: int, version: int) -> tuple[str, Proof]:
    return problem, Proof(f"{problem}-{number}", number, version, Conditions("", ""))


OLD = [entry("easy", n, 0) for n in range(6)] + [entry("hard", 0, 0)]
NEW = [entry("fresh", n, 1) for n in range(4)]


def choose(share: float, most: int = 0, seed: int = 0) -> list[tuple[str, Proof]]:
    return choose_proofs(
        OLD + NEW,
        policy_version=1,
        earlier_share=share,
        max_per_problem=most,
        rng=random.Random(seed),
    )


@pytest.mark.parametrize(
    ("share", "earlier"),
    [
        (1.0, 7),  # no limit: all seven
        (0.5, 4),  # 4 new are one half, so 4 earlier ones
        (0.2, 1),  # 4 new are four fifths, so 1
        (0.6, 6),  # 4 new are two fifths, so 6
        (0.1, 0),  # 4 new are nine tenths: 0.44, so none
        (0.0, 0),
    ],
)
def test_the_share_of_earlier_proofs(share: float, earlier: int) -> None:
    chosen = choose(share)
    assert sum(proof.policy_version == 0 for _, proof in chosen) == earlier
    assert [e for e in chosen if e[1].policy_version == 1] == NEW
    assert chosen == [e for e in OLD + NEW if e in chosen]


def test_no_problem_outweighs_the_rest() -> None:
    # 2 of easy's six, hard's one, 2 of fresh's four.
    names = [name for name, _ in choose(1.0, most=2)]
    assert names == ["easy", "easy", "hard", "fresh", "fresh"]
    assert choose(1.0, most=2, seed=1) == choose(1.0, most=2, seed=1)
    drawn = {proof.body for seed in range(40) for _, proof in choose(1.0, most=2, seed=seed)}
    assert len(drawn) == 11  # over the rounds every proof is learned from
    # The share counts what is left: 2 new, so 2 earlier.
    assert sum(proof.policy_version == 0 for _, proof in choose(0.5, most=2)) == 2


def test_a_round_without_new_proofs_takes_the_earlier_ones() -> None:
    chosen = choose_proofs(
        OLD, policy_version=1, earlier_share=0.2, max_per_problem=0, rng=random.Random(0)
    )
    assert chosen == OLD


@given(
    versions=st.lists(st.integers(0, 1), min_size=1, max_size=40),
    share=st.floats(0.0, 0.99),
    most=st.integers(0, 4),
)
def test_limits_hold(versions: list[int], share: float, most: int) -> None:
    entries = [entry(f"p{n % 5}", n, version) for n, version in enumerate(versions)]
    chosen = choose_proofs(
        entries, policy_version=1, earlier_share=share, max_per_problem=most, rng=random.Random(0)
    )
    new = sum(proof.policy_version == 1 for _, proof in chosen)
    if new:
        assert len(chosen) - new <= share * len(chosen) + 1e-6
    if most:
        assert all(sum(n == name for n, _ in chosen) <= most for name, _ in chosen)
    assert len(set(chosen)) == len(chosen)


def write_data(path: Path, problems: list[Problem], *, reference: bool = True) -> Path:
    write_problems(
        path,
        [
            {
                "id": p.id,
                "language": p.language,
                "kind": p.kind,
                "statement": p.statement,
                **({"reference": "invariant true"} if reference else {}),
            }
            for p in problems
        ],
    )
    return path


def test_sft_data_is_kept_apart_from_what_is_evaluated(tmp_path: Path) -> None:
    held = write_data(tmp_path / "heldout.jsonl", [build_problem("h", n=7)])
    splits = ProblemsConfig(valid=tmp_path / "none.jsonl", heldout=held)
    good = write_data(tmp_path / "good.jsonl", [build_problem("a", n=3), build_problem("b", n=4)])
    assert [(p.id, body) for p, body in load_sft_data(good, splits)] == [
        ("a", "invariant true"),
        ("b", "invariant true"),
    ]
    # The same statement under another id.
    leak = write_data(tmp_path / "leak.jsonl", [build_problem("a", n=3), build_problem("c", n=7)])
    with pytest.raises(ProblemError, match=r"'c' has the statement of 'h'.*heldout\.jsonl"):
        load_sft_data(leak, splits)
    bare = write_data(tmp_path / "bare.jsonl", [build_problem("a")], reference=False)
    with pytest.raises(ProblemError, match=r"bare\.jsonl, line 1: no field 'reference'"):
        load_sft_data(bare, splits)
