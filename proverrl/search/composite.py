"""A search that is made around another: one budget, and how it is continued.

Flows in: a problem, functions, ``[search]``. Flows out: a ``SearchResult``, as of any search. A
composite is written as a walk (``work``). When a saved search is continued, the walk is repeated
from its beginning: every number that it decided by, every verdict and the search of whole bodies
was saved, so it comes back to where it was without a call. One that had ended is not walked again.
Not handled here: what the walk does (``pooled_hints``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from pydantic import TypeAdapter

from proverrl.config.search import SearchConfig
from proverrl.search.base import Functions, Search, SearchResult
from proverrl.search.run import TreeSearch
from proverrl.search.spending import FoundProof, SearchTurn, check_count, dump_verdict, read_verdict
from proverrl.search.tree import Tree
from proverrl.types import Candidate, Problem, Verdict

_NUMBERS: TypeAdapter[dict[str, int]] = TypeAdapter(dict[str, int], config={"strict": True})


class Composite(Search):
    """One budget of calls and tokens over ``whole``, the search of whole bodies, and the walk. A
    call is one of either."""

    def __init__(
        self, problem: Problem, functions: Functions, config: SearchConfig, *, seed: int = 0
    ) -> None:
        super().__init__(problem, functions, config, seed=seed)
        self.whole: TreeSearch | None = None
        self._log: dict[str, int] = {}
        self._unjudged: dict[str, list[Verdict]] = {}
        self._repeated: Counter[str] = Counter()
        self._walk: dict[str, Any] | None = None
        self._taken = 0
        self._watch: Callable[[Any], None] | None = None

    @abstractmethod
    async def work(self) -> None:
        """Walk until there is a proof, the budget is spent or nothing is left to try."""

    @abstractmethod
    def describe_walk(self) -> dict[str, Any]:
        """The findings of the walk, as JSON values."""

    @property
    def calls(self) -> int:
        return self.spent.calls + (self.whole.calls if self.whole else 0)

    @property
    def tokens(self) -> int:
        return self.spent.tokens + (self.whole.tokens if self.whole else 0)

    @property
    def all_proofs(self) -> list[FoundProof]:
        found = [*self.spent.proofs, *(self.whole.spent.proofs if self.whole else ())]
        return list({proof.body: proof for proof in reversed(found)}.values())[::-1]

    @property
    def all_turns(self) -> list[SearchTurn]:
        """All turns so far, those of whole bodies under way last."""
        rest = self.whole.all_turns[self._taken :] if self.whole else []
        return [*self.spent.turns, *rest]

    @property
    def num_expansions(self) -> int:
        return self.whole.num_expansions if self.whole else 0

    @property
    def confirmations(self) -> int:
        return self.spent.confirmations + (self.whole.confirmations if self.whole else 0)

    @property
    def tree(self) -> Tree | None:
        return self.whole.tree if self.whole else None

    @property
    def left(self) -> int:
        """Calls that may still be made; 0 too when the tokens or the proofs are enough."""
        return 0 if self._stop_reason() else self.config.calls - self.calls

    async def run(self, watch: Callable[[Self], None] | None = None) -> SearchResult:
        """Search until a proof or the end of the budget; ``watch`` is told of every expansion."""
        self._watch = watch
        self._repeated.clear()
        if self.left:
            self._walk = None
            await self.work()
        return self._result()

    def decide(self, key: str, number: int) -> int:
        """The number that the walk decided by at ``key``: now, or when it was there first."""
        return self._log.setdefault(key, number)

    async def search_whole(self, calls: int, turn: int) -> TreeSearch:
        """The search of whole bodies, run until it has made ``calls`` more calls, in its turn
        ``turn``. Its proofs are handed on."""
        search = self._open_whole()
        name = f"whole#{turn}"
        before = self.decide(f"{name}/calls before", search.calls)
        apart = self.decide(f"{name}/calls apart", self.spent.calls)
        tokens = self.decide(f"{name}/tokens apart", self.spent.tokens)
        limit = min(before + self.decide(f"{name}/calls", calls), search.calls + self.left)
        if f"{name}/ended" not in self._log and search.calls < limit:
            rest = max(1, self.config.tokens - tokens) if self.config.tokens else 0
            search.config = search.config.model_copy(update={"calls": limit, "tokens": rest})
            await search.run(lambda _: self._tick())
        self.decide(f"{name}/ended", 1)
        self.spent.turns += search.spent.turns[self._taken :]
        self._taken = len(search.spent.turns)
        self._take_proofs(search, apart, tokens)
        return search

    async def judge(self, body: str) -> Verdict | None:
        """The verdict on a body; one that was judged before costs no call. None if no call is left.
        A body that was not judged is asked again; a repeated walk is told so as often as before."""
        unjudged, known = self._unjudged.get(body, []), self.spent.verdicts.get(body)
        if self._repeated[body] < len(unjudged):
            known = unjudged[self._repeated[body]]
            self._repeated[body] += 1
        if known is None and self.whole is not None:
            known = self.whole.spent.verdicts.get(body)
        if known is not None:
            return known
        if not self.left:
            return None
        verdict = await self.functions.verify(Candidate(self.problem, body))
        # Counted when it has ended: what a stop cuts off is asked again.
        self.spent.calls += 1
        judged = verdict.status.judged
        self.spent.turns.append(
            SearchTurn(body, 0, is_call=True, seconds=verdict.seconds, judged=judged)
        )
        if judged:
            self.spent.verdicts[body] = verdict
        else:
            self._unjudged.setdefault(body, []).append(verdict)
            self._repeated[body] += 1
        self._tick()
        return verdict

    async def prove(self, body: str) -> bool:
        """Judge a body; what is proved is confirmed and written down."""
        is_known = any(proof.body == body for proof in self.spent.proofs)
        verdict = await self.judge(body)
        if is_known or verdict is None or not verdict.proved:
            return is_known
        confirm = self.functions.confirm
        if confirm is not None and not any(body == refused for refused, _ in self.spent.refuted):
            second = await confirm(Candidate(self.problem, body))
            self.spent.confirmations += 1
            if not second.proved:
                # Without a verdict too, so that a walk which is repeated takes the same path.
                self.spent.refuted.append((body, second))
            if not second.status.judged:
                self._withhold(body)
        if any(body == refused for refused, _ in self.spent.refuted):
            return False
        self.spent.proofs.append(
            FoundProof(body, verdict, self.calls, self.tokens, confirm is not None)
        )
        self._tick()
        return True

    def _withhold(self, body: str) -> None:
        """A call whose proof the second verifier could not judge ended without a verdict."""
        for place, turn in enumerate(self.spent.turns):
            if turn.body == body:
                self.spent.turns[place] = replace(turn, judged=False)

    async def judge_proofs_again(self, told: dict[str, Verdict] | None = None) -> list[Verdict]:
        """See ``Search``; those of whole bodies too, since some may not be handed on."""
        told = {} if told is None else told
        asked = await super().judge_proofs_again(told)
        return asked + (await self.whole.judge_proofs_again(told) if self.whole else [])

    def _open_whole(self) -> TreeSearch:
        if self.whole is None:
            config = self.config.model_copy(update={"name": self.config.base})
            self.whole = TreeSearch(self.problem, self.functions, config, seed=self.seed)
            self.whole.find_known = lambda candidate: self.spent.verdicts.get(candidate.body)
        return self.whole

    def _take_proofs(self, search: TreeSearch, apart: int, tokens: int) -> None:
        """Hand on the proofs of whole bodies, with what all had spent."""
        known = {proof.body for proof in self.spent.proofs}
        for proof in search.spent.proofs:
            if proof.body not in known:
                calls, written = proof.calls + apart, proof.tokens + tokens
                self.spent.proofs.append(replace(proof, calls=calls, tokens=written))
        refuted = {body for body, _ in self.spent.refuted}
        self.spent.refuted += [pair for pair in search.spent.refuted if pair[0] not in refuted]

    def _tick(self) -> None:
        self._add_point()
        if self._watch is not None:
            self._watch(self)

    def describe(self) -> dict[str, Any]:
        return {**(self.whole.describe() if self.whole else {}), **self.last_walk}

    @property
    def last_walk(self) -> dict[str, Any]:
        """The findings of the walk, also where the search had ended before it was loaded."""
        return self.describe_walk() if self._walk is None else self._walk

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "walk": self.last_walk,
            "log": dict(self._log),
            "taken": self._taken,
            "unjudged": {
                body: [dump_verdict(verdict) for verdict in found]
                for body, found in self._unjudged.items()
            },
            "whole": self.whole.state_dict() if self.whole else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._walk = state["walk"]
        self._log = _NUMBERS.validate_python(state["log"])
        self._taken = check_count(state["taken"])
        self._unjudged = {
            body: [read_verdict(raw) for raw in found] for body, found in state["unjudged"].items()
        }
        self.whole = None
        if state["whole"] is not None:
            self._open_whole().load_state_dict(state["whole"])
