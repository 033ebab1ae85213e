"""One search of one problem: expansions under way, the budget, and what is kept for a resume.

Flows in: ``[search]`` and the functions of the search. Flows out: a ``SearchResult``. The budget is
in verifier calls. A body that was judged in this search costs no second call. With one job in
flight a search repeats bit for bit; with more, expansions end in any order. An expansion under way
is saved as a job and made again. What a strategy of somebody's own leaves as proofs is judged again
when it ends. Not handled here: which node comes next (strategies), files.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Self

from proverrl.concurrency import cancel_all
from proverrl.config.search import SearchConfig, TreeSearchName
from proverrl.errors import UsageError
from proverrl.lang.records import Prefix
from proverrl.plugins import choose, refuse, refuse_exit
from proverrl.search.base import Functions, Job, Search, SearchResult, StopReason
from proverrl.search.metering import Asked, MeteredFunctions
from proverrl.search.spending import SearchSpending, SearchTurn, check_count
from proverrl.search.strategy import BestFirst, BestOfN, Expansion, RMaxTS, SelfCorrect, Strategy
from proverrl.search.tree import Tree
from proverrl.seeds import derive_seed
from proverrl.types import Problem

SEARCHES: dict[TreeSearchName, type[Strategy]] = {
    "best_of_n": BestOfN,
    "self_correct": SelfCorrect,
    "best_first": BestFirst,
    "rmax_ts": RMaxTS,
}


class TreeSearch(Search):
    """A search that grows one tree, as its strategy says. Raises ``ConfigError`` if the strategy
    needs a function that is not there, and ``UsageError`` if somebody's own is none."""

    def __init__(
        self, problem: Problem, functions: Functions, config: SearchConfig, *, seed: int = 0
    ) -> None:
        super().__init__(problem, functions, config, seed=seed)
        name = config.name
        self.strategy: Strategy = choose("search", SEARCHES, name, config.options)(
            config, functions
        )
        if not isinstance(self.strategy, Strategy):
            raise UsageError(
                f"search.name: {name} gave a {type(self.strategy).__name__}; return a "
                "proverrl.search.strategy.Strategy"
            )
        self._num_expansions = 0
        self._next = 0
        self._idle = 0
        self._jobs: dict[int, Job] = {}
        self._spent_by_job: dict[int, SearchSpending] = {}
        self._asked = Asked({}, asyncio.Semaphore(config.max_in_flight))

    @property
    def tree(self) -> Tree:
        return self.strategy.tree

    @property
    def calls(self) -> int:
        return self.spent.calls + sum(spending.calls for spending in self._spent_by_job.values())

    @property
    def tokens(self) -> int:
        return self.spent.tokens + sum(spending.tokens for spending in self._spent_by_job.values())

    @property
    def num_expansions(self) -> int:
        return self._num_expansions

    @property
    def num_proofs(self) -> int:
        running = self._spent_by_job.values()
        return len(self.spent.proofs) + sum(len(spending.proofs) for spending in running)

    @property
    def all_turns(self) -> list[SearchTurn]:
        running = self._spent_by_job.values()
        return [*self.spent.turns, *(turn for spending in running for turn in spending.turns)]

    async def run(self, watch: Callable[[Self], None] | None = None) -> SearchResult:
        self._spent_by_job.clear()
        free = asyncio.Semaphore(self.config.max_in_flight)
        self._asked = Asked(dict(self.spent.verdicts), free)
        tasks: dict[asyncio.Task[Expansion | None], Job] = {}
        waiting = sorted(self._jobs.values(), key=lambda job: job.number, reverse=True)
        try:
            while True:
                self._fill(tasks, waiting)
                if not tasks or self.is_enough:
                    break
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(done, key=lambda task: tasks[task].number):
                    job = tasks.pop(task)
                    self._end(job, task.result())
                    if watch is not None:
                        watch(self)
        finally:
            await cancel_all(tasks)
        for job in [*tasks.values(), *waiting]:
            self.strategy.withdraw(job)
            self._close(job)
        if not self.config.is_ours:
            # A strategy of somebody's own could write into its spending.
            await self.judge_proofs_again()
        return self._result()

    def _fill(self, tasks: dict[asyncio.Task[Expansion | None], Job], waiting: list[Job]) -> None:
        """Start as many jobs as may be under way, those of a saved search first."""
        while len(tasks) < self.config.max_in_flight:
            if self.is_enough:
                return
            job = waiting.pop() if waiting else self._choose()
            if job is None:
                return
            self._spent_by_job[job.number] = SearchSpending()
            tasks[asyncio.ensure_future(self._expand(job))] = job

    def _choose(self) -> Job | None:
        # Calls that jobs under way may still make are theirs: no body is written that none may
        # judge.
        promised = sum(
            max(0, job.num - self._spent_by_job.get(number, SearchSpending()).calls)
            for number, job in self._jobs.items()
        )
        left = self.config.calls - self.calls - promised
        if left <= 0 or self._stop_reason():
            return None
        seed = derive_seed(self.seed, self.problem.id, self._next)
        job = self.strategy.choose(self._next, seed, min(self.strategy.width, left))
        if job is not None:
            self._jobs[job.number] = job
            self._next += 1
        return job

    async def _expand(self, job: Job) -> Expansion | None:
        """None when the budget ended before anything that was written could be judged."""
        functions = MeteredFunctions(self, self._spent_by_job[job.number], self._asked)
        name = self.config.name
        with refuse_exit("search.name", name):
            expansion = await self.strategy.expand(job, functions)
        if not isinstance(expansion, Expansion):
            wanted = "a proverrl.search.strategy.Expansion"
            raise refuse("search", name, expansion, "an expansion", wanted)
        return None if functions.num_unasked and not expansion.judged else expansion

    def _end(self, job: Job, expansion: Expansion | None) -> None:
        if expansion is None:
            self.strategy.withdraw(job)
        else:
            self.strategy.absorb(job, expansion)
        spending = self._close(job)
        self._idle = 0 if spending.calls else self._idle + 1
        self._num_expansions += 1
        self._add_point()

    def _close(self, job: Job) -> SearchSpending:
        """End a job; what it spent stays spent."""
        del self._jobs[job.number]
        spending = self._spent_by_job.pop(job.number, SearchSpending())
        self.spent.take_in(spending)
        return spending

    def _stop_reason(self) -> StopReason | None:
        is_idle = self._idle >= self.config.max_idle
        return super()._stop_reason() or ("idle" if is_idle else None)

    def describe(self) -> dict[str, Any]:
        return self.strategy.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """Everything as JSON values; jobs under way as jobs, without what they spent so far."""
        return super().state_dict() | {
            "expansions": self.num_expansions,
            "next": self._next,
            "idle": self._idle,
            "jobs": [asdict(job) for job in self._jobs.values()],
            "strategy": self._strategy_state(),
        }

    def _strategy_state(self) -> dict[str, Any]:
        state = self.strategy.state_dict()
        if not self.config.is_ours:
            try:
                json.dumps(state)
            except (TypeError, ValueError) as error:
                wanted = f"JSON values ({error})"
                raise refuse("search", self.config.name, state, "its state", wanted) from error
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._num_expansions = check_count(state["expansions"])
        self._next, self._idle = check_count(state["next"]), check_count(state["idle"])
        jobs = [Job(**{**raw, "prefix": Prefix(**raw["prefix"])}) for raw in state["jobs"]]
        self._jobs = {job.number: job for job in jobs}
        self._spent_by_job.clear()
        self.strategy.load_state_dict(state["strategy"])
