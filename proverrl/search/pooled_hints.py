"""Whole bodies, and the proof hints of all of them put together, on one budget.

Flows in: a problem. Flows out: proofs of it, and the pool of hints. A share of the calls goes to
whole bodies, by ``best_of_n``. Then, in turns, the hints of all bodies so far (``Pooling`` of
``proverrl.lang.parts``), those of refused bodies too, are verified as one body. Refused hints are
left out, and again, until nothing more is (Houdini, Flanagan and Leino, FME 2001). When the hints
that stand prove the problem, that body is the proof. Otherwise the policy continues the body that
begins with them, and its hints are pooled as well. Such bodies are not judged one by one where the
pool proves all that they would. When nothing new is written, it is the turn of whole bodies again.

A hint is tried again when others stand that did not before, unless it was refuted for good.

A search is a walk (``_work``). When a saved search is continued, the walk is repeated from its
beginning. Every number that it decided by, every verdict and the search of whole bodies were saved,
so it comes back to where it was without a call. One that had ended is not walked again. Not handled
here: which hints a proof could do without (``minimise``).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Self

from pydantic import TypeAdapter

from proverrl.config.search import SearchConfig
from proverrl.errors import UsageError
from proverrl.lang import find_language, list_languages
from proverrl.lang.parts import Pooling
from proverrl.lang.records import PooledHint, Prefix, RefusedHints
from proverrl.search.base import Functions, Search, SearchResult
from proverrl.search.run import TreeSearch
from proverrl.search.spending import FoundProof, SearchTurn, check_count, dump_verdict, read_verdict
from proverrl.search.tree import Tree
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem, Verdict

_WRITTEN: TypeAdapter[dict[str, list[str]]] = TypeAdapter(dict[str, list[str]])
_NUMBERS: TypeAdapter[dict[str, int]] = TypeAdapter(dict[str, int], config={"strict": True})
_WIDTH = 8
_OPENINGS = 4


class PooledHints(Search):
    """One budget of calls over ``best_of_n``, the search of whole bodies, and the pool of their
    hints; a call is one of either. Raises ``UsageError`` if the language has no hints for problems
    of this kind."""

    def __init__(
        self, problem: Problem, functions: Functions, config: SearchConfig, *, seed: int = 0
    ) -> None:
        super().__init__(problem, functions, config, seed=seed)
        pooling = find_language(problem.language).pooling
        if pooling is None or problem.kind not in pooling.kinds:
            raise UsageError(
                f"problem {problem.id!r} ({problem.language}, {problem.kind}) has no proof hints "
                f"that bodies share; {_explain_kinds()}: choose another search.name"
            )
        self._pooling: Pooling = pooling
        self.best_of_n: TreeSearch | None = None
        self._written: dict[str, list[str]] = {}
        self._log: dict[str, int] = {}
        self._unjudged: dict[str, list[Verdict]] = {}
        self._repeated: Counter[str] = Counter()
        self._walk: dict[str, Any] | None = None
        self._num_turns_taken = 0
        self._watch: Callable[[Any], None] | None = None
        self._begin()

    @property
    def calls(self) -> int:
        return self.spent.calls + (self.best_of_n.calls if self.best_of_n else 0)

    @property
    def tokens(self) -> int:
        return self.spent.tokens + (self.best_of_n.tokens if self.best_of_n else 0)

    @property
    def all_proofs(self) -> list[FoundProof]:
        found = [*self.spent.proofs, *(self.best_of_n.spent.proofs if self.best_of_n else ())]
        return list({proof.body: proof for proof in reversed(found)}.values())[::-1]

    @property
    def all_turns(self) -> list[SearchTurn]:
        """All turns so far, those of whole bodies under way last."""
        rest = self.best_of_n.all_turns[self._num_turns_taken :] if self.best_of_n else []
        return [*self.spent.turns, *rest]

    @property
    def num_expansions(self) -> int:
        return self.best_of_n.num_expansions if self.best_of_n else 0

    @property
    def confirmations(self) -> int:
        return self.spent.confirmations + (self.best_of_n.confirmations if self.best_of_n else 0)

    @property
    def tree(self) -> Tree | None:
        return self.best_of_n.tree if self.best_of_n else None

    @property
    def calls_left(self) -> int:
        """Calls that may still be made; 0 too when the proofs are enough."""
        left = self.config.calls - self.calls - self._held_back
        return 0 if self._stop_reason() else max(0, left)

    async def run(self, watch: Callable[[Self], None] | None = None) -> SearchResult:
        """Search until a proof or the end of the budget; ``watch`` is told of every expansion."""
        self._watch = watch
        self._repeated.clear()
        if self.calls_left:
            self._walk = None
            await self._work()
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
        pool_calls = self.decide(f"{name}/calls apart", self.spent.calls)
        pool_tokens = self.decide(f"{name}/tokens apart", self.spent.tokens)
        limit = min(before + self.decide(f"{name}/calls", calls), search.calls + self.calls_left)
        if f"{name}/ended" not in self._log and search.calls < limit:
            search.config = search.config.model_copy(update={"calls": limit})
            await search.run(lambda _: self._tick())
        self.decide(f"{name}/ended", 1)
        self.spent.turns += search.spent.turns[self._num_turns_taken :]
        self._num_turns_taken = len(search.spent.turns)
        self._take_proofs(search, pool_calls, pool_tokens)
        return search

    async def judge(self, body: str) -> Verdict | None:
        """The verdict on a body; one that was judged before costs no call. None if no call is left.
        A body that was not judged is asked again; a repeated walk is told so as often as before."""
        unjudged, known = self._unjudged.get(body, []), self.spent.verdicts.get(body)
        if self._repeated[body] < len(unjudged):
            known = unjudged[self._repeated[body]]
            self._repeated[body] += 1
        if known is None and self.best_of_n is not None:
            known = self.best_of_n.spent.verdicts.get(body)
        if known is not None:
            return known
        if not self.calls_left:
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

    async def judge_proofs_again(
        self, new_verdicts: dict[str, Verdict] | None = None
    ) -> list[Verdict]:
        """See ``Search``; those of whole bodies too, since some may not be handed on."""
        new_verdicts = {} if new_verdicts is None else new_verdicts
        asked = await super().judge_proofs_again(new_verdicts)
        if self.best_of_n is not None:
            asked += await self.best_of_n.judge_proofs_again(new_verdicts)
        return asked

    def _open_whole(self) -> TreeSearch:
        if self.best_of_n is None:
            config = self.config.model_copy(update={"name": "best_of_n"})
            self.best_of_n = TreeSearch(self.problem, self.functions, config, seed=self.seed)
            self.best_of_n.find_known = lambda candidate: self.spent.verdicts.get(candidate.body)
        return self.best_of_n

    def _take_proofs(self, search: TreeSearch, pool_calls: int, pool_tokens: int) -> None:
        """Hand on the proofs of whole bodies, with what all had spent; the pool had spent so many
        calls and tokens before them."""
        known = {proof.body for proof in self.spent.proofs}
        for proof in search.spent.proofs:
            if proof.body not in known:
                calls, tokens = proof.calls + pool_calls, proof.tokens + pool_tokens
                self.spent.proofs.append(replace(proof, calls=calls, tokens=tokens))
        refuted = {body for body, _ in self.spent.refuted}
        self.spent.refuted += [pair for pair in search.spent.refuted if pair[0] not in refuted]

    def _tick(self) -> None:
        self._add_point()
        if self._watch is not None:
            self._watch(self)

    def describe(self) -> dict[str, Any]:
        return {**(self.best_of_n.describe() if self.best_of_n else {}), **self.last_walk}

    @property
    def last_walk(self) -> dict[str, Any]:
        """The findings of the walk, also where the search had ended before it was loaded."""
        return self._describe_walk() if self._walk is None else self._walk

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "walk": self.last_walk,
            "log": dict(self._log),
            "taken": self._num_turns_taken,
            "unjudged": {
                body: [dump_verdict(verdict) for verdict in found]
                for body, found in self._unjudged.items()
            },
            "whole": self.best_of_n.state_dict() if self.best_of_n else None,
            "written": dict(self._written),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._walk = state["walk"]
        self._log = _NUMBERS.validate_python(state["log"])
        self._num_turns_taken = check_count(state["taken"])
        self._unjudged = {
            body: [read_verdict(raw) for raw in found] for body, found in state["unjudged"].items()
        }
        self.best_of_n = None
        if state["whole"] is not None:
            self._open_whole().load_state_dict(state["whole"])
        self._written = _WRITTEN.validate_python(state["written"])

    def _begin(self) -> None:
        self._held_back = 0
        self.pool: dict[str, PooledHint] = {}
        self.counts: Counter[str] = Counter()
        self.refuted: set[str] = set()
        self.standing: list[str] = []
        self._left_out: list[str] = []
        self.turns: list[dict[str, Any]] = []
        self.bodies: list[list[str]] = []
        self.continued: Counter[str] = Counter()
        self._num_seen = 0

    async def _work(self) -> None:
        """Rounds of whole bodies and of the pool."""
        self._begin()
        await self._guess()
        number, moved = 0, self.functions.propose is not None
        while self.calls_left and moved:
            before = self.decide(f"round {number}", self.calls)
            await self._run_round(number)
            moved = self.calls > before
            number += 1

    async def _guess(self) -> None:
        """What the problem's own text suggests, pooled before a policy writes anything; that takes
        at most half of the calls from it."""
        if self.problem.kind not in self._pooling.guessed_kinds:
            return
        bare = self._pooling.put_together(self.problem, [])
        if await self.prove(bare):
            return
        if self.functions.propose is not None:
            most = self.decide("guesses/calls", math.ceil(self.config.calls / 2))
            self._held_back = self.config.calls - most
        verdict = self.spent.verdicts.get(bare)
        batches = self._pooling.guess(self.problem, verdict) if verdict else []
        for batch in batches:
            for hint in batch:
                self.pool.setdefault(hint.key, hint)
        # What stood already when a batch was asked: what does not hold may do so beside more.
        asked = [-1] * len(batches)
        while self.calls_left and min(asked, default=0) < len(self.standing):
            number = asked.index(min(asked))
            new = [hint.key for hint in batches[number] if hint.key not in self.standing]
            self._left_out.clear()
            await self._settle(new, again=False)
            asked[number] = len(self.standing)
            if 0 < len(self._left_out) < len(new):
                batches.append([self.pool[key] for key in self._left_out])
                asked.append(-1)
        self._held_back = 0

    async def _run_round(self, number: int) -> None:
        """Whole bodies with a share of the calls; then the pool, until nothing new is written."""
        calls = math.ceil(self.calls_left * self.config.whole_share)
        search = await self.search_whole(calls, number)
        seen = self.decide(f"round {number}/seen", len(search.spent.verdicts))
        verdicts = dict(list(search.spent.verdicts.items())[self._num_seen : seen])
        self._num_seen = seen
        for body, verdict in verdicts.items():
            if self._pooling.is_covered(self.problem, body):
                self._refute(Candidate(self.problem, body), verdict)
        if new := self._take_up(verdicts):
            await self._settle(new)
        idle = turn = 0
        name = f"round {number}/max_idle"
        most_idle = self._log.get(name, self.config.max_idle)
        if f"round {number + 1}" not in self._log:
            # The last round may go on; one that ended is repeated as it was.
            most_idle = self._log[name] = max(most_idle, self.config.max_idle)
        while self.calls_left and idle < most_idle:
            bodies = await self._continue()
            if new := self._take_up(bodies):
                await self._settle(new)
            idle = 0 if new else idle + max(1, len(bodies))
            if not self.calls_left:
                break
            others = [b for b in bodies if b and not self._pooling.is_covered(self.problem, b)]
            # A turn has up to 32 of them, which would spend the budget on what the pool may prove.
            most = math.ceil(self.calls_left * self.config.whole_share)
            for body in others[: self.decide(f"round {number}/others {turn}", most)]:
                await self.prove(body)
            turn += 1

    def _describe_walk(self) -> dict[str, Any]:
        """The hints with the number of bodies that held each, and what stood in each turn."""
        hints = [
            {"text": hint.text, "bodies": self.counts[key], "refuted": key in self.refuted}
            for key, hint in self.pool.items()
        ]
        return {"hints": hints, "turns": self.turns}

    def _take_up(self, bodies: Iterable[str]) -> list[str]:
        """Pool the hints of bodies; the keys of those that are new."""
        before = set(self.pool)
        for body in bodies:
            hints = self._pooling.list_hints(self.problem, body)
            for hint in hints:
                self.pool.setdefault(hint.key, hint)
                self.counts[hint.key] += 1
            self.bodies.append([hint.key for hint in hints])
        return [key for key in self.pool if key not in before]

    def _refute(self, candidate: Candidate, verdict: Verdict) -> RefusedHints | None:
        """The hints that a verdict refuses; those that are refuted for good are noted."""
        refused = self._pooling.find_refused(candidate, verdict)
        if refused is not None:
            self.refuted |= refused.refuted
        return refused

    async def _settle(self, new: list[str], *, again: bool = True) -> None:
        """Find what stands: first what stood with what is new; then, if ``again``, and as long as
        that helped, all others after it, which are asked at once where nothing stood. What stood
        stays when no more was found."""
        asked = [*self.standing, *new] if self.standing or not again else list(self.pool)
        found = await self._let_stand(asked)
        while len(found) > len(self.standing):
            self.standing = found
            others = [key for key in self.pool if key not in found]
            was_whole = len(asked) == len(self.pool)
            if (
                not again
                or not others
                or (was_whole and not self._pooling.is_ordered(self.problem))
            ):
                break
            asked = [*found, *others]
            found = await self._let_stand(asked)
        texts = [self.pool[key].text for key in self.standing]
        self.turns.append({"pool": len(self.pool), "standing": texts})

    async def _let_stand(self, keys: list[str]) -> list[str]:
        """Those of the hints that hold together, at most one measure for each loop among them; what
        stood before when the budget ends earlier."""
        hints = [self.pool[key] for key in keys if key not in self.refuted]
        alive = [h.key for h in sorted(hints, key=lambda h: h.rank) if not h.measure]
        queues = self._line_up(hints)
        settled = set[str]()
        while alive or any(any(queue) for queue in queues.values()):
            chosen = [*alive, *(queue[0] for queue in queues.values() if queue[0])]
            texts = [self.pool[key].text for key in chosen]
            if (apart := self._pooling.assert_apart(self.problem, texts)) and apart not in settled:
                settled.add(apart)
                verdict = await self.judge(apart)
                if verdict is None:
                    return self.standing
                failing = {chosen[i] for i in self._pooling.list_false(apart, verdict)}
                if refused := self._pooling.find_refused(Candidate(self.problem, apart), verdict):
                    failing |= refused.failed & set(alive)
                if not verdict.obligations:
                    # What cannot be resolved hides what fails.
                    self.refuted |= failing
                if failing:
                    alive = [key for key in alive if key not in failing]
                    continue
            body = self._pooling.put_together(self.problem, texts)
            candidate = Candidate(self.problem, body)
            verdict = await self.judge(body)
            if verdict is None:
                return self.standing
            if verdict.proved:
                await self.prove(body)
                return chosen
            refused = self._refute(candidate, verdict)
            if refused is None:
                # It ran out of a limit: of those that never stood, or else of all, the half that
                # fewest bodies hold is left out.
                stood = [key for key in alive if key in self.standing]
                fresh = [key for key in alive if key not in stood]
                if fresh:
                    kept = [*stood, *self._choose_common(fresh, len(fresh) // 2)]
                    self._left_out += [key for key in fresh if key not in kept]
                else:
                    kept = self._choose_common(alive, len(alive) // 2)
                queues = {name: q[:1] if kept else [""] for name, q in queues.items()}
                alive = kept
                continue
            bad = refused.refuted | refused.failed
            left = [key for key in alive if key not in bad]
            spoiled = {n for n, q in queues.items() if n in refused.endless or q[0] in bad}
            if left == alive and not any(queues[name][1:] for name in spoiled):
                good = (q[0] for name, q in queues.items() if name not in spoiled)
                return [*alive, *filter(None, good)]
            alive = left
            for name in spoiled:
                queues[name] = queues[name][1:] or [""]
        return []

    def _line_up(self, hints: Sequence[PooledHint]) -> dict[str, list[str]]:
        """The measures of each loop or declaration in the order in which they are tried: what
        stands, then what most bodies have. Most need none, which is ""."""
        queues: dict[str, list[str]] = {}
        for hint in hints:
            if hint.measure:
                queues.setdefault(hint.measure, [""]).append(hint.key)
        for queue in queues.values():
            num = {key: self.counts[key] for key in queue}
            num[""] = len(self.bodies) - sum(num.values())
            queue.sort(key=lambda key: (key not in self.standing, -num[key]))
        return queues

    def _choose_common(self, keys: list[str], num: int) -> list[str]:
        """The hints that most bodies hold, in the order in which they are given."""
        common = set(sorted(keys, key=lambda key: -self.counts[key])[:num])
        return [key for key in keys if key in common]

    def _choose_openings(self) -> list[str]:
        """Beginnings of bodies up to the first hint that does not stand, and none: those that were
        continued least, then those that most bodies share."""
        standing = set(self.standing)
        shared: Counter[str] = Counter({"": 1})
        for hints in self.bodies:
            kept = itertools.takewhile(lambda key: key in standing, hints)
            shared[self._pooling.begin(self.problem, [self.pool[k].text for k in kept])] += 1
        order = sorted(shared, key=lambda text: (self.continued[text], -shared[text]))
        return order[:_OPENINGS]

    async def _continue(self) -> list[str]:
        """New bodies after each opening."""
        bodies: list[str] = []
        for opening in self._choose_openings():
            self.continued[opening] += 1
            name = f"{opening}#{self.continued[opening]}"
            if name not in self._written:
                await self._write(name, opening)
            bodies += self._written[name]
        return bodies

    async def _write(self, name: str, opening: str) -> None:
        seed = derive_seed(self.seed, self.problem.id, name)
        width = self.config.width or _WIDTH
        assert self.functions.propose is not None
        written = await self.functions.propose(self.problem, Prefix(opening, ""), width, seed)
        for one in written:
            body = one.body if one.is_read else ""
            self.spent.tokens += one.num_tokens
            self.spent.turns.append(
                SearchTurn(body, one.num_tokens, False, one.truncated, one.reason)
            )
        self._written[name] = [one.body if one.is_read else "" for one in written]
        self._tick()


def _explain_kinds() -> str:
    """The problems that have hints to pool, in words."""
    found = [(one.title, one.pooling) for one in list_languages()]
    return "; ".join(
        f"{title} problems of the kinds {', '.join(sorted(has.kinds))} have some"
        for title, has in found
        if has is not None
    )
