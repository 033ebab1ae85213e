"""Counts the calls of an expansion to the policy and the verifier as it makes them.

Flows in: a search and the spending of one of its expansions. Flows out: proposals and verdicts. A
body that the search has judged, or is judging, costs no second call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from proverrl.concurrency import finish_all
from proverrl.errors import RecordError
from proverrl.lang.records import Prefix
from proverrl.plugins import refuse
from proverrl.search.base import CountedProposal, JudgedProposal, Proposal, Search
from proverrl.search.spending import FoundProof, SearchSpending, SearchTurn
from proverrl.types import Candidate, Problem, Verdict


@dataclass(slots=True)
class Asked:
    """The verifier calls of all expansions of a search: ``known`` verdicts by body, and those that
    are on their way. ``free`` bounds the calls at once."""

    known: dict[str, Verdict]
    free: asyncio.Semaphore
    waiting: dict[str, asyncio.Future[Verdict | None]] = field(default_factory=dict)


class MeteredFunctions:
    """The functions that one expansion calls; its spending says what each call cost."""

    def __init__(self, search: Search, spending: SearchSpending, asked: Asked) -> None:
        self._search = search
        self._spending = spending
        self._asked = asked
        self.num_unasked = 0

    @property
    def problem(self) -> Problem:
        """The problem that is to be proved."""
        return self._search.problem

    async def propose(self, prefix: Prefix, num: int, seed: int) -> list[CountedProposal]:
        """Up to ``num`` bodies that begin with the prefix; fewer where the policy wrote fewer."""
        search = self._search
        assert search.functions.propose is not None  # Only pooled hints do without.
        proposals = await search.functions.propose(search.problem, prefix, num, seed)
        for proposal in proposals:
            if proposal.is_read and not proposal.body.startswith(prefix.text):
                raise RecordError(f"a proposal does not begin with its prefix {prefix.text[:60]!r}")
        written = [self.count(proposal) for proposal in proposals[:num]]
        return [item for item in written if item.proposal.is_read]

    async def correct(self, body: str, verdict: Verdict, seed: int) -> CountedProposal:
        """A body that mends a refused one."""
        search = self._search
        assert search.functions.correct is not None  # Strategy.NEEDS
        return self.count(await search.functions.correct(search.problem, body, verdict, seed))

    async def judge(self, proposals: Sequence[CountedProposal]) -> tuple[JudgedProposal, ...]:
        """The proposals that could be judged, in order: none after the budget's end or the last
        proof."""
        found = await finish_all(self._judge_one(item) for item in proposals)
        return tuple(judged for judged in found if judged is not None)

    def count(self, proposal: Proposal) -> CountedProposal:
        """Write a proposal into the spending, before it can be judged. A strategy that writes a
        body itself counts it with 0 tokens."""
        if not isinstance(proposal.body, str) or proposal.num_tokens < 0:
            wanted = "a Proposal with a text and the number of its tokens"
            raise refuse("search", self._search.config.name, proposal, "a body", wanted)
        spending, body = self._spending, proposal.body if proposal.is_read else ""
        spending.tokens += proposal.num_tokens
        turn = SearchTurn(
            body,
            proposal.num_tokens,
            is_call=False,
            truncated=proposal.truncated,
            reason=proposal.reason,
        )
        spending.turns.append(turn)
        return CountedProposal(proposal, self._search.tokens, len(spending.turns) - 1)

    async def _judge_one(self, written: CountedProposal) -> JudgedProposal | None:
        search = self._search
        candidate = Candidate(search.problem, written.proposal.body)
        verdict = await self._verdict_of(candidate, written)
        if verdict is None:
            self.num_unasked += 1
            return None
        if not verdict.status.judged:
            return None
        segment = search.functions.segment
        return JudgedProposal(
            written.proposal, verdict, () if segment is None else segment(candidate, verdict)
        )

    async def _verdict_of(self, candidate: Candidate, written: CountedProposal) -> Verdict | None:
        """The known verdict, or that of a call under way, or of a new one; None if none may be
        made."""
        body = candidate.body
        if body in self._asked.known:
            return self._asked.known[body]
        if (known := self._search.find_known(candidate)) is not None:
            return known
        if body in self._asked.waiting:
            return await asyncio.shield(self._asked.waiting[body])
        asked = self._asked.waiting[body] = asyncio.get_running_loop().create_future()
        verdict: Verdict | None = None
        try:
            async with self._asked.free:
                verdict = await self._ask(candidate, written)
        finally:
            del self._asked.waiting[body]
            if not asked.done():
                asked.set_result(verdict)
        return verdict

    async def _ask(self, candidate: Candidate, written: CountedProposal) -> Verdict | None:
        search, config = self._search, self._search.config
        if search.is_enough or search.calls >= config.calls:
            return None
        self._spending.calls += 1
        turns = self._spending.turns
        turns[written.place] = replace(turns[written.place], is_call=True)
        calls = search.calls
        verdict = await search.functions.verify(candidate)
        turns[written.place] = replace(turns[written.place], seconds=verdict.seconds)
        if verdict.proved:
            verdict = await self._confirm(candidate, verdict, calls, written.tokens)
        judged = verdict.status.judged
        turns[written.place] = replace(turns[written.place], judged=judged)
        if judged:
            self._asked.known[candidate.body] = self._spending.verdicts[candidate.body] = verdict
        return verdict

    async def _confirm(
        self, candidate: Candidate, verdict: Verdict, calls: int, tokens: int
    ) -> Verdict:
        """Write the proof down, unless the second verifier does not prove it. One that it could not
        judge is neither proved nor refuted."""
        confirm = self._search.functions.confirm
        if confirm is not None:
            self._spending.confirmations += 1
            second = await confirm(candidate)
            if not second.proved:
                if second.status.judged:
                    self._spending.refuted.append((candidate.body, second))
                return second
        proof = FoundProof(candidate.body, verdict, calls, tokens, confirm is not None)
        self._spending.proofs.append(proof)
        return verdict
