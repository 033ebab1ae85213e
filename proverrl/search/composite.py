"""What searches that are made of several searches share: one budget, and how they are continued.

Flows in: a problem, functions, ``[search]``. Flows out: a ``SearchResult``, as of any search. A
composite is written as a walk (``work``). When a saved search is continued, the walk is repeated
from its beginning: every number that it decided by, every verdict and every search of a part was
saved, so it comes back to where it was without a call. One that had ended is not walked again.
Not handled here: what the parts are (``subgoal_search``, ``pooled_hints``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

from pydantic import TypeAdapter

from proverrl.config.search import SearchConfig
from proverrl.errors import ProblemError, UsageError
from proverrl.lang import find_language, list_languages
from proverrl.problems.load import make_row
from proverrl.search.base import Functions, Search, SearchResult
from proverrl.search.run import TreeSearch
from proverrl.search.spending import FoundProof, SearchTurn, dump_verdict, read_verdict
from proverrl.search.tree import Tree
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem, Verdict

ROOT = "root"
_NUMBERS: TypeAdapter[dict[str, int]] = TypeAdapter(dict[str, int], config={"strict": True})


class Composite(Search):
    """One budget of calls and tokens over the searches of a problem and of its parts.

    A call is one of any part's, or one of ``judge``. Only proofs of the problem itself are
    confirmed and reported. ``NEEDS`` is what the language must offer, and ``LACK`` what problems
    lack without it. Raises ``UsageError`` if the language does not offer it for problems of this
    kind.
    """

    NEEDS: ClassVar[Literal["pooling", "sketching"]]
    LACK: ClassVar[str]

    def __init__(
        self, problem: Problem, functions: Functions, config: SearchConfig, *, seed: int = 0
    ) -> None:
        offered = getattr(find_language(problem.language), self.NEEDS)
        if offered is None or problem.kind not in offered.kinds:
            raise UsageError(
                f"problem {problem.id!r} ({problem.language}, {problem.kind}) has no {self.LACK}; "
                f"{_explain_kinds(self.NEEDS)}: choose another search.name"
            )
        super().__init__(problem, functions, config, seed=seed)
        self.searches: dict[str, TreeSearch] = {}
        self._log: dict[str, int] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._unjudged: dict[str, list[Verdict]] = {}
        self._repeated: Counter[str] = Counter()
        self._walk: dict[str, Any] | None = None
        self._taken: dict[str, int] = {}
        self._watch: Callable[[Any], None] | None = None
        self.malformed: dict[str, str] = {}
        """Parts whose statement the verifier could not read, with what it said."""

    @abstractmethod
    async def work(self) -> None:
        """Walk until there is a proof, the budget is spent or nothing is left to try."""

    @abstractmethod
    def describe_walk(self) -> dict[str, Any]:
        """What the walk came to, as JSON values."""

    @property
    def calls(self) -> int:
        return self.spent.calls + sum(one.calls for one in self.searches.values())

    @property
    def tokens(self) -> int:
        return self.spent.tokens + sum(one.tokens for one in self.searches.values())

    @property
    def all_proofs(self) -> list[FoundProof]:
        root = self.searches.get(ROOT)
        found = [*self.spent.proofs, *(root.spent.proofs if root is not None else ())]
        return list({proof.body: proof for proof in reversed(found)}.values())[::-1]

    @property
    def all_turns(self) -> list[SearchTurn]:
        """What was written so far, by parts under way last."""
        parts = self.searches.items()
        rest = [turn for key, one in parts for turn in one.all_turns[self._taken.get(key, 0) :]]
        return [*self.spent.turns, *rest]

    @property
    def num_expansions(self) -> int:
        return sum(one.num_expansions for one in self.searches.values())

    @property
    def confirmations(self) -> int:
        parts = self.searches.values()
        return self.spent.confirmations + sum(one.confirmations for one in parts)

    @property
    def left(self) -> int:
        """Calls that may still be made; 0 too when the tokens or the proofs are enough."""
        return 0 if self._stop_reason() else self.config.calls - self.calls

    def trees(self) -> list[tuple[str, Tree]]:
        return [tree for one in self.searches.values() for tree in one.trees()]

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

    async def search_part(
        self, key: str, problem: Problem, calls: int, turn: int = 0
    ) -> TreeSearch:
        """The search of a part, run until it has made ``calls`` more calls, in its turn ``turn``.
        That of the problem itself hands its proofs on."""
        search = self._open_part(key, problem)
        name = f"{key}#{turn}"
        before = self.decide(f"{name}/calls before", search.calls)
        apart = self.decide(f"{name}/calls apart", self.calls - search.calls)
        tokens = self.decide(f"{name}/tokens apart", self.tokens - search.tokens)
        limit = min(before + self.decide(f"{name}/calls", calls), search.calls + self.left)
        if f"{name}/ended" not in self._log and search.calls < limit:
            rest = max(1, self.config.tokens - tokens) if self.config.tokens else 0
            search.config = search.config.model_copy(update={"calls": limit, "tokens": rest})
            await self._run_part(key, search)
        self.decide(f"{name}/ended", 1)
        self._take_turns(key, search)
        if key == ROOT:
            self._take_proofs(search, apart, tokens)
        return search

    async def _run_part(self, key: str, search: TreeSearch) -> None:
        if key in self.malformed:
            return
        try:
            await search.run(lambda _: self._tick())
        except ProblemError as error:
            # A part is made of what a policy and a verifier wrote; a problem of ours must be read.
            if key == ROOT:
                raise
            self.malformed[key] = str(error)

    async def judge(self, candidate: Candidate) -> Verdict | None:
        """What the verifier says; no call for what it was asked before, None without one left. What
        was not judged is asked again, and a walk that is repeated is told so as often as before."""
        key, is_own = candidate.key, candidate.problem == self.problem
        unjudged, known = self._unjudged.get(key, []), self._find_known(candidate)
        if self._repeated[key] < len(unjudged):
            known = unjudged[self._repeated[key]]
            self._repeated[key] += 1
        if known is None and is_own and ROOT in self.searches:
            known = self.searches[ROOT].spent.verdicts.get(candidate.body)
        if known is not None:
            return known
        if not self.left:
            return None
        verdict = await self.functions.verify(candidate)
        # Counted when it has ended: what a stop cuts off is asked again.
        self.spent.calls += 1
        body, judged = self._tell_apart(candidate), verdict.status.judged
        self.spent.turns.append(
            SearchTurn(body, 0, is_call=True, seconds=verdict.seconds, judged=judged)
        )
        if judged and is_own:
            self.spent.verdicts[candidate.body] = verdict
        elif judged:
            self._verdicts[key] = verdict
        else:
            self._unjudged.setdefault(key, []).append(verdict)
            self._repeated[key] += 1
        self._tick()
        return verdict

    async def prove(self, body: str) -> bool:
        """Judge a body of the problem itself; what is proved is confirmed and written down."""
        candidate = Candidate(self.problem, body)
        is_known = any(proof.body == body for proof in self.spent.proofs)
        verdict = await self.judge(candidate)
        if is_known or verdict is None or not verdict.proved:
            return is_known
        confirm = self.functions.confirm
        if confirm is not None and not any(body == refused for refused, _ in self.spent.refuted):
            second = await confirm(candidate)
            self.spent.confirmations += 1
            if not second.proved:
                # Without a verdict too, so that a walk which is repeated takes the same path.
                self.spent.refuted.append((body, second))
            if not second.status.judged:
                self._withhold(self._tell_apart(candidate))
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
        """See ``Search``; those of parts too, since the problem's own search may have found some
        that are not handed on."""
        told = {} if told is None else told
        asked = await super().judge_proofs_again(told)
        for key, search in self.searches.items():
            asked += await search.judge_proofs_again(told if key == ROOT else None)
        return asked

    def _find_known(self, candidate: Candidate) -> Verdict | None:
        if candidate.problem == self.problem:
            return self.spent.verdicts.get(candidate.body)
        return self._verdicts.get(candidate.key)

    def _open_part(self, key: str, problem: Problem) -> TreeSearch:
        if key not in self.searches:
            is_root = key == ROOT
            functions = self.functions if is_root else replace(self.functions, confirm=None)
            changes = {"name": self.config.base, "stop_after": self.config.stop_after}
            config = self.config.model_copy(
                update=changes if is_root else {**changes, "stop_after": 1}
            )
            seed = self.seed if is_root else derive_seed(self.seed, key)
            search = TreeSearch(problem, functions, config, seed=seed)
            search.find_known = self._find_known
            self.searches[key] = search
        return self.searches[key]

    def _tell_apart(self, candidate: Candidate) -> str:
        """A body as it stands among the turns: that of a part is told from the problem's own."""
        if candidate.problem == self.problem:
            return candidate.body
        comment = find_language(self.problem.language).comment
        return f"{comment} for {candidate.problem.id}\n{candidate.body}"

    def _take_turns(self, key: str, search: TreeSearch) -> None:
        """Hand on what was written since the last time."""
        for turn in search.spent.turns[self._taken.get(key, 0) :]:
            body = self._tell_apart(Candidate(search.problem, turn.body)) if turn.body else ""
            self.spent.turns.append(replace(turn, body=body))
        self._taken[key] = len(search.spent.turns)

    def _take_proofs(self, search: TreeSearch, apart: int, tokens: int) -> None:
        """Hand on the proofs of the search of the problem itself, with what all had spent."""
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
        root = self.searches.get(ROOT)
        described = {**(root.describe() if root else {}), **self.last_walk}
        return described | ({"malformed": dict(self.malformed)} if self.malformed else {})

    @property
    def last_walk(self) -> dict[str, Any]:
        """What the walk came to, also where the search had ended before it was loaded."""
        return self.describe_walk() if self._walk is None else self._walk

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "walk": self.last_walk,
            "log": dict(self._log),
            "taken": dict(self._taken),
            "malformed": dict(self.malformed),
            "verdicts": [[key, dump_verdict(verdict)] for key, verdict in self._verdicts.items()],
            "unjudged": {
                key: [dump_verdict(verdict) for verdict in found]
                for key, found in self._unjudged.items()
            },
            "searches": {
                key: {"problem": make_row(search.problem), **search.state_dict()}
                for key, search in self.searches.items()
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._walk = state["walk"]
        self._log = _NUMBERS.validate_python(state["log"])
        self._taken = _NUMBERS.validate_python(state["taken"])
        self.malformed = dict(state["malformed"])
        self._verdicts = {key: read_verdict(raw) for key, raw in state["verdicts"]}
        self._unjudged = {
            key: [read_verdict(raw) for raw in found] for key, found in state["unjudged"].items()
        }
        self.searches = {}
        for key, saved in state["searches"].items():
            # Not as a line of a file is read: a policy may have written some of it. What the whole
            # problem says is no matter of the file.
            problem = self.problem if key == ROOT else Problem(**saved["problem"])
            self._open_part(key, problem).load_state_dict(saved)


def _explain_kinds(part: Literal["pooling", "sketching"]) -> str:
    """Which problems have hints to pool, or sketches, in words."""
    found = [(one.title, getattr(one, part)) for one in list_languages()]
    return "; ".join(
        f"{title} problems of the kinds {', '.join(sorted(has.kinds))} have some"
        for title, has in found
        if has is not None
    )
