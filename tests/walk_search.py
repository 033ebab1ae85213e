"""Searches of walks (``tests.fake_walks``): a policy that guesses, and verifiers over the fake."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from proverrl.lang.lean.workers.repl_worker import LeanReplWorker

from proverrl.config.search import SearchConfig, SearchName
from proverrl.lang.lean.audit import audit_lean_candidate
from proverrl.lang.lean.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.search.states import segment_lean
from proverrl.lang.lean.search.tactic_mode import TacticMode
from proverrl.lang.lean.search.tactic_states import LeanStates
from proverrl.lang.records import Prefix, Verify
from proverrl.search.base import Functions, Proposal, SearchResult
from proverrl.search.run import TreeSearch
from proverrl.types import Candidate, Problem, Verdict
from proverrl.verify.pool import VerifierPool
from tests.lean_builders import WALKS_LEAN, build_walk_problem

TACTICS = ("step a", "step b", "step a", "step b", "idle", "stray")
StatesFrom = Literal["tactic-mode", "whole-file"]


@dataclass
class Guesser:
    """Writes up to ``length`` tactics by chance, and asks a value: the letters that are done."""

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
            found.append(Proposal(body, 2 * len(tactics), -0.5 * len(tactics)))
        return found

    async def value(self, problem: Problem, prefixes: Sequence[Prefix]) -> list[float]:
        return [self.rate(prefix.state) for prefix in prefixes]

    def rate(self, state: str) -> float:
        left = state.partition("⊢ walk ")[2]
        return 1 - len(left) / len(self.word) if left else 0.0


async def spawn() -> LeanReplWorker:
    return await LeanReplWorker.start(WALKS_LEAN, LeanLimits(), KnownStatements())


async def spawn_tracing() -> LeanReplWorker:
    limits = LeanLimits(trace_states=True)
    return await LeanReplWorker.start(WALKS_LEAN, limits, KnownStatements())


@dataclass
class Confirmer:
    """Judges each candidate in a worker of its own; ``pids`` names them."""

    pids: list[int] = field(default_factory=list)

    async def __call__(self, candidate: Candidate) -> Verdict:
        worker = await spawn()
        self.pids.append(worker.pid)
        try:
            return await worker.judge(candidate)
        finally:
            worker.kill()
            await worker.join()


@dataclass
class Tools:
    """What a search of walks is made of. ``states`` is None for verdicts on whole files."""

    functions: Functions
    guesser: Guesser
    confirmer: Confirmer
    states: LeanStates | None


def make_pool() -> VerifierPool:
    return VerifierPool(
        spawn_tracing,
        workers=1,
        audit=audit_lean_candidate,
        toolchain=WALKS_LEAN.name,
        languages=frozenset({"lean"}),
    )


@asynccontextmanager
async def open_tools(
    states_from: StatesFrom = "tactic-mode", *, workers: int = 1, **guesser: Any
) -> AsyncIterator[Tools]:
    pool, states = make_pool(), None

    async def judge(candidate: Candidate) -> Verdict:
        return await pool.verify(candidate, deadline_seconds=60)

    verify: Verify = judge
    if states_from == "tactic-mode":
        states = LeanStates(spawn, workers=workers)
        verify = TacticMode(states, judge).verify
    guess, confirm = Guesser(**guesser), Confirmer()
    functions = Functions(
        propose=guess.propose,
        verify=verify,
        segment=segment_lean,
        value=guess.value,
        confirm=confirm,
    )
    try:
        yield Tools(functions, guess, confirm, states)
    finally:
        await pool.aclose()
        if states is not None:
            await states.aclose()


def build_walk_search(
    tools: Tools, name: SearchName = "rmax_ts", *, word: str = "abba", seed: int = 0, **config: Any
) -> TreeSearch:
    settings = SearchConfig(name=name, check=True, **config)
    return TreeSearch(build_walk_problem(word), tools.functions, settings, seed=seed)


def run_walk_search(
    name: SearchName,
    states_from: StatesFrom,
    *,
    seed: int = 0,
    watch: Callable[[TreeSearch, Tools], None] | None = None,
    workers: int = 1,
    length: int = 3,
    **config: Any,
) -> tuple[SearchResult, TreeSearch, Tools]:
    async def main() -> tuple[SearchResult, TreeSearch, Tools]:
        async with open_tools(states_from, workers=workers, length=length) as tools:
            search = build_walk_search(tools, name, seed=seed, **config)
            told = None if watch is None else lambda one: watch(one, tools)
            return await search.run(told), search, tools

    return asyncio.run(main())
