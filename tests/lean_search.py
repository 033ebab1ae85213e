"""Real Lean behind one event loop for the tests of searches, and a toy that needs no Lean.

In the toy ``theorem t : walk abba`` is proved by a tactic a line: ``step a`` takes the first letter
off, ``idle`` changes nothing, ``stray`` loses the way for good.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from proverrl.config.search import SearchConfig
from proverrl.errors import ToolchainError
from proverrl.lang.base import BackendOptions
from proverrl.lang.lean.search.states import segment_lean
from proverrl.lang.open import open_router
from proverrl.lang.records import NO_GOALS, Prefix
from proverrl.search.base import Functions, Proposal, Propose, SearchResult
from proverrl.search.run import TreeSearch
from proverrl.search.wiring import make_search
from proverrl.types import HOLE, BodyState, Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verifier.base import Limits
from tests.lean_builders import build_lean_problem
from tests.search_world import check_invariants

SPLIT = Problem(
    "split",
    "lean",
    "tactics",
    "",
    "theorem split (x : Nat) (p q : Prop) (hp : p ∨ q) (h0 : 0 < x) : x ≠ 0 ∧ (q ∨ p) := by\n"
    f"  {HOLE}\n",
)
TACTICS = ("step a", "step b", "step a", "step b", "idle", "stray")


class Lean:
    """Real Lean with the goals before each tactic; verdicts are kept for all tests."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        limits = Limits(rlimit=1_000_000)
        self.verifier = open_router(BackendOptions(workers=1, limits=limits, trace_states=True))
        self.known: dict[str, Verdict] = {}

    async def verify(self, candidate: Candidate) -> Verdict:
        if candidate.key not in self.known:
            self.known[candidate.key] = await self.verifier.verify(
                candidate, deadline_seconds=120.0
            )
        return self.known[candidate.key]

    def judge(self, problem: Problem, body: str) -> Verdict:
        return self.runner.run(self.verify(Candidate(problem, body)))

    def search(self, propose: Propose, problem: Problem, **config: object) -> SearchResult:
        functions = Functions(propose, self.verify, segment=segment_lean, confirm=self.verify)
        settings = SearchConfig.model_validate({"calls": 16, "width": 1, **config})
        return self.runner.run(make_search(problem, functions, settings).run())


def follow_proof(proof: str) -> Propose:
    """Writes the next line of a proof, once with a line behind it that fails and once without."""
    lines = proof.split("\n")

    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        done = len(prefix.text.split("\n")) if prefix.text else 0
        body = "\n".join([*([prefix.text] if prefix.text else []), *lines[done:][:1]])
        return [Proposal(f"{body}\n      exact wrong", 2, -2.0), Proposal(body, 1, -1.0)]

    return propose


def open_lean() -> Iterator[Lean]:
    """For a fixture; skips where there is no Lean."""
    try:
        lean = Lean()
        lean.judge(SPLIT, "skip")
    except ToolchainError as error:
        pytest.skip(str(error))
    yield lean
    lean.runner.run(lean.verifier.aclose())
    lean.runner.close()


def build_walk_problem(word: str = "abba") -> Problem:
    return build_lean_problem("t", f"walk {word}")


def judge_walk(candidate: Candidate) -> Verdict:
    """What Lean would say of a walk, with the goals before each tactic."""
    goal = "⊢ " + candidate.problem.statement.partition(": ")[2].partition(" :=")[0]
    states: list[BodyState] = []
    for number, line in enumerate(candidate.body.split("\n"), 1):
        tactic = line.strip()
        if not tactic or tactic.startswith(("--", "/-", "⊢", "-/")):
            continue
        column = len(line) - len(line.lstrip())
        states.append((number, column, goal))
        word = goal.removeprefix("⊢ walk ")
        if tactic == "stray":
            goal = "⊢ lost"
        elif tactic != "idle":
            if goal == NO_GOALS or tactic != f"step {word[:1]}":
                error = Diagnostic("error", "no", body_line=number, body_column=column)
                return Verdict(Status.REJECTED, (error,), states=tuple(states))
            goal = f"⊢ walk {word[1:]}" if word[1:] else NO_GOALS
    if goal == NO_GOALS:
        return Verdict(Status.PROVED, states=tuple(states), checks=("walk",))
    left = Diagnostic("error", f"unsolved goals\n{goal}", line=1)
    return Verdict(Status.REJECTED, (left,), (goal,), states=tuple(states))


async def verify_walk(candidate: Candidate) -> Verdict:
    return judge_walk(candidate)


@dataclass
class Guesser:
    """Writes up to ``length`` tactics by chance."""

    length: int = 3
    word: str = "abba"
    asked: list[Prefix] = field(default_factory=list)

    async def propose(
        self, problem: Problem, prefix: Prefix, num: int, seed: int
    ) -> list[Proposal]:
        self.asked.append(prefix)
        rng = random.Random(seed)
        found = []
        for _ in range(num):
            tactics = rng.choices(TACTICS, k=rng.randint(1, self.length))
            body = "\n  ".join([prefix.text, *tactics] if prefix.text else tactics)
            found.append(Proposal(body, len(tactics), -0.5 * len(tactics)))
        return found


def run_walk_search(
    name: str, guesser: Guesser, *, seed: int, **config: object
) -> tuple[SearchResult, TreeSearch]:
    functions = Functions(guesser.propose, verify_walk, segment=segment_lean, confirm=verify_walk)
    settings = SearchConfig.model_validate({"name": name, **config})
    search = TreeSearch(build_walk_problem(guesser.word), functions, settings, seed=seed)
    found = asyncio.run(search.run(lambda one: check_invariants(one.strategy.tree)))
    return found, search
