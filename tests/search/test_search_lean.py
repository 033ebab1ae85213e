"""Searches of Lean proofs end to end: over a toy that needs no Lean, and on a real one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl.cli.search import search
from proverrl.config.search import SearchName
from proverrl.problems.load import load_problems
from tests import ROOT
from tests.lean_search import (
    SPLIT,
    Guesser,
    Lean,
    follow_proof,
    open_lean,
    run_walk_search,
)

PROOF = (
    "have h1 : 0 < x := by\n    exact h0\n  constructor\n  · intro h\n    omega\n"
    "  · cases hp with\n    | inl a =>\n      exact Or.inr a\n    | inr b => exact Or.inl b"
)
SEEDS: dict[SearchName, int] = {"rmax_ts": 3, "best_first": 0, "best_of_n": 1}
"""Seeds with which a proof comes soon, so that the tests are short; others take longer."""


@pytest.mark.parametrize("name", SEEDS)
def test_each_search_finds_a_proof_of_several_levels(name: SearchName) -> None:
    # A policy of at most three tactics needs more for six letters; best-of-n has no second level.
    flat = name == "best_of_n"
    guesser = Guesser(6, "abba") if flat else Guesser(3, "ababab")
    result, grown = run_walk_search(name, guesser, seed=SEEDS[name], calls=600, max_idle=300)
    assert result.stopped == "proved"
    (proof,) = result.proofs
    steps = [line.split()[1] for line in proof.body.split("\n") if "step" in line]
    assert "".join(steps) == guesser.word
    assert "stray" not in proof.body
    assert proof.confirmed
    assert max(node.depth for node in grown.strategy.tree.nodes) >= 2
    deepest = max(len(prefix.text.split("\n")) for prefix in guesser.asked)
    assert deepest == 1 if flat else deepest >= 3


# Real Lean


@pytest.fixture(scope="module")
def lean() -> Iterator[Lean]:
    yield from open_lean()


@pytest.mark.lean
@pytest.mark.parametrize("name", ["rmax_ts", "best_first"])
def test_a_search_goes_on_from_what_holds(lean: Lean, name: SearchName) -> None:
    """A line at a time: the proof is made of what is kept, inside blocks and between alternatives.
    What fails behind a line leaves no state but those before it."""
    result = lean.search(follow_proof(PROOF), SPLIT, name=name, width=2, calls=60)
    assert (result.stopped, result.proofs[0].body) == ("proved", PROOF)
    assert len(result.tree["tree"]["nodes"]) == len(PROOF.split("\n"))


@pytest.mark.lean
def test_the_command_proves_a_problem_of_the_benchmark(tmp_path: Path) -> None:
    """With a policy that writes nothing of use: the path from the command to Lean and back."""
    from tests.policy.test_policy import tiny_policy

    if not os.environ.get("PROVERRL_LEAN"):
        pytest.skip("no real Lean here")
    tiny_policy().save(tmp_path / "policy")
    benchmark = ROOT / "lean" / "benchmark.jsonl"
    problem = next(p for p in load_problems(benchmark) if p.kind == "tactics")
    (tmp_path / "search.toml").write_text(
        f"[policy]\npath = {str(tmp_path / 'policy')!r}\n[pool]\nworkers = 1\n"
    )
    given = [problem.id, "--benchmark", str(benchmark), "--config", str(tmp_path / "search.toml")]
    given += ["--out", str(tmp_path / "out"), "--set", "search.calls=2"]
    given += ["--set", "sampling.max_new_tokens=4", "--set", "search.max_idle=2"]
    done = CliRunner().invoke(search, given)
    assert done.exit_code == 1, done.output
    assert "0 of 1 proved" in done.output
    assert "lean-server" in done.output
