"""One search of one problem: expansions under way, the budget, and what is kept for a resume.

Flows in: a strategy and the functions of the search. Flows out: a ``SearchResult``. The budget is
in verifier calls (and, second, generated tokens). A body that was judged in this search costs no
second call. With one job in flight a search repeats bit for bit; with more, expansions end in any
order. An expansion under way is saved as a job and made again. Not handled here: which node comes
next (strategies), files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, replace
from typing import Any

from proverrl.concurrency import cancel_all, finish_all
from proverrl.config.search import SearchConfig
from proverrl.errors import RecordError, RunError
from proverrl.lang.records import Prefix
from proverrl.search.base import (
    CurvePoint,
    FoundProof,
    Functions,
    Job,
    Judged,
    Proposal,
    SearchResult,
    SearchTurn,
    StopReason,
    Written,
)
from proverrl.search.spending import Ledger
from proverrl.search.strategy import Expansion, Strategy
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem, Verdict

# What may change when a search is continued: how long, and how many at once.
_FREE_KEYS = frozenset({"calls", "tokens", "stop_after", "max_in_flight", "max_idle", "check"})


class Search:
    """A search that can be run, watched, saved and continued.

    ``run`` may be called again after an error or a cancellation: jobs that were under way are then
    made again.
    """

    def __init__(
        self,
        problem: Problem,
        functions: Functions,
        config: SearchConfig,
        strategy: Strategy,
        *,
        seed: int = 0,
    ) -> None:
        self.problem = problem
        self.functions = functions
        self.config = config
        self.strategy = strategy
        self.seed = seed
        self.spent = Ledger()
        self.curve: list[CurvePoint] = []
        self.num_expansions = 0
        self._next = 0
        self._idle = 0
        self._jobs: dict[int, Job] = {}
        self._ledgers: dict[int, Ledger] = {}
        self._known: dict[str, Verdict] = {}
        self._asked: dict[str, asyncio.Future[Verdict | None]] = {}
        self._free = asyncio.Semaphore(config.max_in_flight)

    @property
    def calls(self) -> int:
        """Verifier calls so far, those under way included."""
        return self.spent.calls + sum(ledger.calls for ledger in self._ledgers.values())

    @property
    def tokens(self) -> int:
        """Generated tokens so far."""
        return self.spent.tokens + sum(ledger.tokens for ledger in self._ledgers.values())

    @property
    def num_proofs(self) -> int:
        """Proofs found so far."""
        ledgers = self._ledgers.values()
        return len(self.spent.proofs) + sum(len(ledger.proofs) for ledger in ledgers)

    @property
    def all_turns(self) -> list[SearchTurn]:
        """What was written so far."""
        ledgers = self._ledgers.values()
        return [*self.spent.turns, *(turn for ledger in ledgers for turn in ledger.turns)]

    @property
    def num_in_flight(self) -> int:
        """Expansions under way."""
        return len(self._jobs)

    async def run(self, watch: Callable[[Search], None] | None = None) -> SearchResult:
        """Search until a proof or the end of the budget; ``watch`` is told of every expansion.

        Cancelled or failing, it leaves nothing running.
        """
        self._ledgers.clear()
        self._asked.clear()
        self._known = dict(self.spent.verdicts)
        self._free = asyncio.Semaphore(self.config.max_in_flight)
        tasks: dict[asyncio.Task[Expansion | None], Job] = {}
        waiting = sorted(self._jobs.values(), key=lambda job: job.number, reverse=True)
        try:
            while True:
                self._fill(tasks, waiting)
                if not tasks or self._enough:
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
            self._drop(job)
        return self._result(self._stop_reason() or "exhausted")

    def _fill(self, tasks: dict[asyncio.Task[Expansion | None], Job], waiting: list[Job]) -> None:
        """Start as many jobs as may be under way, those of a saved search first."""
        while len(tasks) < self.config.max_in_flight:
            if self._enough:
                return
            job = waiting.pop() if waiting else self._choose()
            if job is None:
                return
            self._ledgers[job.number] = Ledger()
            tasks[asyncio.ensure_future(self._expand(job))] = job

    def _choose(self) -> Job | None:
        # What jobs under way may still ask for is theirs: nothing is written that none may judge.
        promised = sum(
            max(0, job.num - self._ledgers.get(number, Ledger()).calls)
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
        """None when nothing that was written could be judged."""
        desk = SearchDesk(self, self._ledgers[job.number])
        expansion = await self.strategy.expand(job, desk)
        return None if desk.num_unjudged and not expansion.judged else expansion

    def _end(self, job: Job, expansion: Expansion | None) -> None:
        if expansion is None:
            self.strategy.withdraw(job)
        else:
            self.strategy.absorb(job, expansion)
        del self._jobs[job.number]
        ledger = self._ledgers.pop(job.number)
        self._idle = 0 if ledger.calls else self._idle + 1
        self.spent.take_in(ledger)
        self.num_expansions += 1
        point = CurvePoint(self.calls, self.tokens, self.num_proofs, len(self.strategy.tree))
        self.curve.append(point)
        if self.config.check:
            self.strategy.check_invariants()

    def _drop(self, job: Job) -> None:
        """A job that is no longer wanted; what it spent stays spent."""
        self.strategy.withdraw(job)
        del self._jobs[job.number]
        self.spent.take_in(self._ledgers.pop(job.number, Ledger()))

    @property
    def _enough(self) -> bool:
        return self.num_proofs >= self.config.stop_after

    def _stop_reason(self) -> StopReason | None:
        config = self.config
        if self._enough:
            return "proved"
        if self.calls >= config.calls:
            return "calls"
        if config.tokens and self.tokens >= config.tokens:
            return "tokens"
        return "idle" if self._idle >= config.max_idle else None

    def _result(self, stopped: StopReason) -> SearchResult:
        return SearchResult(
            name=self.config.name,
            problem_id=self.problem.id,
            stopped=stopped,
            proofs=tuple(self.spent.proofs),
            refuted=tuple(self.spent.refuted),
            calls=self.calls,
            tokens=self.tokens,
            confirmations=self.spent.confirmations,
            expansions=self.num_expansions,
            curve=tuple(self.curve),
            turns=tuple(self.spent.turns),
            tree=self.strategy.state_dict(),
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything as JSON values; jobs under way as jobs, without what they spent so far."""
        return {
            "of": self._identity(),
            "spent": self.spent.state_dict(),
            "curve": [astuple(point) for point in self.curve],
            "expansions": self.num_expansions,
            "next": self._next,
            "idle": self._idle,
            "jobs": [asdict(job) for job in self._jobs.values()],
            "strategy": self.strategy.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken; ``RunError`` when it is of another search."""
        check_identity(self._identity(), state["of"])
        self.spent = Ledger.from_state(state["spent"])
        self.curve = [CurvePoint(*point) for point in state["curve"]]
        self.num_expansions, self._next = state["expansions"], state["next"]
        self._idle = state["idle"]
        jobs = [Job(**{**raw, "prefix": Prefix(**raw["prefix"])}) for raw in state["jobs"]]
        self._jobs = {job.number: job for job in jobs}
        self._ledgers.clear()
        self.strategy.load_state_dict(state["strategy"])

    def _identity(self) -> dict[str, Any]:
        return identify(self.problem, self.config, self.seed)


def identify(problem: Problem, config: SearchConfig, seed: int) -> dict[str, Any]:
    """What must be the same when a search is continued."""
    values = config.model_dump(mode="json")
    kept = {f"search.{key}": value for key, value in values.items() if key not in _FREE_KEYS}
    return {"problem": Candidate(problem, "").key, "seed": seed, **kept}


def check_identity(ours: dict[str, Any], saved: dict[str, Any]) -> None:
    """Raise ``RunError`` when a saved search is of another problem, seed or kind."""
    other = [key for key in ours if saved.get(key) != ours[key]]
    if other:
        raise RunError(
            f"this saved search differs in {', '.join(other)}: continue with its own settings, "
            "or start in another folder"
        )


class SearchDesk:
    """The ``Desk`` of one expansion; it writes down what proposals and verdicts cost."""

    def __init__(self, search: Search, ledger: Ledger) -> None:
        self._search = search
        self._ledger = ledger
        self.num_unjudged = 0

    async def propose(self, prefix: Prefix, num: int, seed: int) -> list[Written]:
        """Up to ``num`` bodies that begin with the prefix; fewer where the policy wrote fewer."""
        search = self._search
        proposals = await search.functions.propose(search.problem, prefix, num, seed)
        for proposal in proposals:
            if proposal.is_read and not proposal.body.startswith(prefix.text):
                raise RecordError(f"a proposal does not begin with its prefix {prefix.text[:60]!r}")
        written = [self._count(proposal) for proposal in proposals[:num]]
        return [item for item in written if item.proposal.is_read]

    async def correct(self, body: str, verdict: Verdict, seed: int) -> Written:
        """A body that mends a refused one."""
        search = self._search
        assert search.functions.correct is not None  # Strategy.NEEDS
        return self._count(await search.functions.correct(search.problem, body, verdict, seed))

    async def judge(self, written: Sequence[Written]) -> tuple[Judged, ...]:
        """Those that could be judged, in order: not after the budget's end or the last proof."""
        found = await finish_all(self._judge_one(item) for item in written)
        return tuple(judged for judged in found if judged is not None)

    async def value(self, prefixes: Sequence[Prefix]) -> list[float]:
        """The value model's estimates, one a prefix."""
        search = self._search
        assert search.functions.value is not None  # Strategy.NEEDS
        if not prefixes:
            return []
        values = await search.functions.value(search.problem, prefixes)
        if len(values) != len(prefixes):
            raise RecordError(f"{len(values)} values for {len(prefixes)} prefixes")
        return values

    def _count(self, proposal: Proposal) -> Written:
        ledger, body = self._ledger, proposal.body if proposal.is_read else ""
        ledger.tokens += proposal.num_tokens
        turn = SearchTurn(
            body,
            proposal.num_tokens,
            is_call=False,
            truncated=proposal.truncated,
            reason=proposal.reason,
        )
        ledger.turns.append(turn)
        return Written(proposal, self._search.tokens, len(ledger.turns) - 1)

    async def _judge_one(self, written: Written) -> Judged | None:
        search = self._search
        candidate = Candidate(search.problem, written.proposal.body)
        verdict = await self._verdict_of(candidate, written)
        if verdict is None or not verdict.status.judged:
            self.num_unjudged += 1
            return None
        segment = search.functions.segment
        return Judged(
            written.proposal, verdict, () if segment is None else segment(candidate, verdict)
        )

    async def _verdict_of(self, candidate: Candidate, written: Written) -> Verdict | None:
        """What is known, or what is being asked already, or a new call. None: none may be made."""
        search, body = self._search, candidate.body
        if body in search._known:
            return search._known[body]
        if body in search._asked:
            return await asyncio.shield(search._asked[body])
        asked = search._asked[body] = asyncio.get_running_loop().create_future()
        verdict: Verdict | None = None
        try:
            async with search._free:
                verdict = await self._ask(candidate, written)
        finally:
            del search._asked[body]
            if not asked.done():
                asked.set_result(verdict)
        return verdict

    async def _ask(self, candidate: Candidate, written: Written) -> Verdict | None:
        search, config = self._search, self._search.config
        late = config.tokens and written.tokens > config.tokens
        if search._enough or search.calls >= config.calls or late:
            return None
        self._ledger.calls += 1
        turns = self._ledger.turns
        turns[written.place] = replace(turns[written.place], is_call=True)
        calls = search.calls
        verdict = await search.functions.verify(candidate)
        if verdict.proved:
            verdict = await self._confirm(candidate, verdict, calls, written.tokens)
        if verdict.status.judged:
            search._known[candidate.body] = self._ledger.verdicts[candidate.body] = verdict
        return verdict

    async def _confirm(
        self, candidate: Candidate, verdict: Verdict, calls: int, tokens: int
    ) -> Verdict:
        """Write the proof down, unless the second verifier does not prove it."""
        confirm = self._search.functions.confirm
        if confirm is not None:
            self._ledger.confirmations += 1
            second = await confirm(candidate)
            if not second.proved:
                self._ledger.refuted.append((candidate.body, second))
                return second
        proof = FoundProof(candidate.body, verdict, calls, tokens, confirm is not None)
        self._ledger.proofs.append(proof)
        return verdict
