"""The interface of every search: its functions, its records and its result.

Flows out: the records below, the types of the functions that a search takes, and ``Search``. Not
handled here: what was spent and learned (``spending``), how states are read from a verdict and how
a policy is asked (the caller brings both).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import astuple, dataclass, replace
from typing import Any, Literal, Self

from proverrl.config.search import SearchConfig
from proverrl.errors import RunError
from proverrl.lang.records import Prefix, Segment, SegmentFn, Verify
from proverrl.policy.base import Policy
from proverrl.search.spending import FoundProof, SearchSpending, SearchTurn
from proverrl.search.tree import Tree
from proverrl.types import Candidate, Problem, Verdict

StopReason = Literal["proved", "calls", "idle", "exhausted"]

# Keys that may change when a search is continued: how long, and how many at once.
_FREE_KEYS = frozenset({"calls", "stop_after", "max_in_flight", "max_idle"})


@dataclass(frozen=True, slots=True)
class Proposal:
    """One continuation written after a prefix.

    ``body`` is the whole body: the prefix's text and what was written. ``logprob`` is the sum over
    the ``num_tokens`` tokens that were written. ``truncated`` says that they were cut off at the
    limit. ``reason`` says why the answer has no body; then only its tokens count.
    """

    body: str
    num_tokens: int
    logprob: float
    truncated: bool = False
    reason: str = ""

    @property
    def is_read(self) -> bool:
        """True if a body was found."""
        return not self.reason


Propose = Callable[[Problem, Prefix, int, int], Awaitable[list[Proposal]]]
"""Problem, prefix, how many, seed."""

CorrectFn = Callable[[Problem, str, Verdict, int], Awaitable[Proposal]]
"""Problem, refused body, its verdict, seed: a corrected body."""


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions that a search calls. Only ``verify`` is always needed, and ``propose`` but for
    hints that are guessed.

    ``confirm`` is a verifier with fresh workers: a proof counts only when it agrees. Its calls are
    counted apart. ``policy`` is what ``propose`` asks, for a search of somebody's own.
    """

    propose: Propose | None
    verify: Verify
    segment: SegmentFn | None = None
    correct: CorrectFn | None = None
    confirm: Verify | None = None
    policy: Policy | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One expansion: up to ``num`` proposals after ``prefix``, from the node ``node``.

    ``number`` counts expansions from 0; with the search's seed it gives ``seed``.
    """

    number: int
    node: int
    prefix: Prefix
    num: int
    seed: int


@dataclass(frozen=True, slots=True)
class CountedProposal:
    """A proposal whose tokens are counted: ``tokens`` of the search up to its last one, and its
    place among the turns of its expansion."""

    proposal: Proposal
    tokens: int
    place: int


@dataclass(frozen=True, slots=True)
class JudgedProposal:
    """A proposal, what the verifier said (always judged), and the states on its way."""

    proposal: Proposal
    verdict: Verdict
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The spending and the results up to the end of an expansion."""

    calls: int
    tokens: int
    proofs: int
    nodes: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The findings of a search and its spending.

    ``refuted`` holds bodies that ``verify`` called proved and ``confirm`` did not, with the second
    verdict. ``tree`` is the strategy's state as JSON values (``Tree.state_dict`` under "tree").
    """

    name: str
    problem_id: str
    stopped: StopReason
    proofs: tuple[FoundProof, ...]
    refuted: tuple[tuple[str, Verdict], ...]
    calls: int
    tokens: int
    confirmations: int
    expansions: int
    curve: tuple[CurvePoint, ...]
    turns: tuple[SearchTurn, ...]
    tree: dict[str, Any]

    @property
    def proved(self) -> bool:
        return bool(self.proofs)

    @property
    def judged(self) -> bool:
        """False where every call ended without a verdict: the search says nothing of the problem.
        One that had nothing to ask has failed."""
        calls = [turn.judged for turn in self.turns if turn.is_call]
        return not calls or any(calls)

    @property
    def verifier_seconds(self) -> float:
        """The time of the calls that ended, second verdicts on proofs not counted."""
        return sum(turn.seconds or 0.0 for turn in self.turns if turn.is_call)


class Search(ABC):
    """A search of a problem that can be run, watched, saved and continued.

    ``config.calls`` bounds the verifier calls of all its parts together. ``run`` may be called
    again after an error or a cancellation: what was under way is then made again.
    """

    def __init__(
        self, problem: Problem, functions: Functions, config: SearchConfig, *, seed: int = 0
    ) -> None:
        self.problem = problem
        self.functions = functions
        self.config = config
        self.seed = seed
        self.spent = SearchSpending()
        self.curve: list[CurvePoint] = []
        self.find_known: Callable[[Candidate], Verdict | None] = lambda _: None
        """the verdict that another search on the same budget got on a candidate"""

    @property
    @abstractmethod
    def calls(self) -> int:
        """Verifier calls so far, those under way included."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Generated tokens so far."""

    @property
    def confirmations(self) -> int:
        """Second verdicts on proofs so far."""
        return self.spent.confirmations

    @property
    @abstractmethod
    def num_expansions(self) -> int:
        """Expansions that have ended."""

    @property
    def num_proofs(self) -> int:
        """Proofs of the problem found so far."""
        return len(self.spent.proofs)

    @property
    def all_proofs(self) -> list[FoundProof]:
        """Proofs of the problem by all that has ended, also where ``run`` was stopped."""
        return list(self.spent.proofs)

    @property
    @abstractmethod
    def all_turns(self) -> list[SearchTurn]:
        """All turns so far, those of parts under way as well."""

    @abstractmethod
    async def run(self, watch: Callable[[Self], None] | None = None) -> SearchResult:
        """Search until a proof or the end of the budget; ``watch`` is told of every expansion.

        Cancelled or failing, it leaves nothing running.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """All that the search knows, as JSON values; the tree under "tree"."""

    @property
    @abstractmethod
    def tree(self) -> Tree | None:
        """Its tree; None where no search of whole bodies has begun."""

    @property
    def is_enough(self) -> bool:
        """True if there are as many proofs as are wanted."""
        return self.num_proofs >= self.config.stop_after

    async def judge_proofs_again(
        self, new_verdicts: dict[str, Verdict] | None = None
    ) -> list[Verdict]:
        """Keep the proofs that both verifiers prove now: what a file says proves nothing. Returns
        what they said. Bodies in ``new_verdicts`` are not asked again, and the others are added."""
        new_verdicts = {} if new_verdicts is None else new_verdicts
        asked: list[Verdict] = []

        async def ask(body: str) -> Verdict:
            if body not in new_verdicts:
                candidate = Candidate(self.problem, body)
                verdict = await self.functions.verify(candidate)
                if verdict.proved and self.functions.confirm is not None:
                    second = await self.functions.confirm(candidate)
                    # Only the first verifier's verdict may hold the states of a proof.
                    verdict = verdict if second.proved else second
                new_verdicts[body] = verdict
                asked.append(verdict)
            return new_verdicts[body]

        claimed = [(proof, await ask(proof.body)) for proof in self.spent.proofs]
        # All at once: what is stopped before loses none.
        self.spent.proofs = [replace(proof, verdict=now) for proof, now in claimed if now.proved]
        self.spent.refuted += [(proof.body, now) for proof, now in claimed if not now.proved]
        differ = {body for body, _ in self.spent.refuted} - {*new_verdicts}
        for body, verdict in self.spent.verdicts.items():
            if verdict.proved and body not in differ:
                # The order stays: a walk that is repeated counts them.
                self.spent.verdicts[body] = await ask(body)
        return asked

    def _add_point(self) -> None:
        nodes = len(self.tree) if self.tree is not None else 0
        self.curve.append(CurvePoint(self.calls, self.tokens, self.num_proofs, nodes))

    def _stop_reason(self) -> StopReason | None:
        if self.is_enough:
            return "proved"
        return "calls" if self.calls >= self.config.calls else None

    def _result(self) -> SearchResult:
        return SearchResult(
            name=self.config.name,
            problem_id=self.problem.id,
            stopped=self._stop_reason() or "exhausted",
            proofs=tuple(self.spent.proofs),
            refuted=tuple(self.spent.refuted),
            calls=self.calls,
            tokens=self.tokens,
            confirmations=self.confirmations,
            expansions=self.num_expansions,
            curve=tuple(self.curve),
            turns=tuple(self.spent.turns),
            tree=self.describe(),
        )

    def _identity(self) -> dict[str, Any]:
        """The settings that must be the same when a search is continued."""
        values = self.config.model_dump(mode="json")
        kept = {f"search.{key}": value for key, value in values.items() if key not in _FREE_KEYS}
        return {"problem": Candidate(self.problem, "").key, "seed": self.seed, **kept}

    def state_dict(self) -> dict[str, Any]:
        """Everything as JSON values, without what is under way."""
        return {
            "of": self._identity(),
            "spent": self.spent.state_dict(),
            "curve": [astuple(point) for point in self.curve],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken; ``RunError`` when it is of another problem, seed or
        kind of search."""
        saved = state["of"]
        other = [key for key, value in self._identity().items() if saved.get(key) != value]
        if other:
            raise RunError(
                f"this saved search differs in {', '.join(other)}: continue with its own settings, "
                "or start in another folder"
            )
        self.spent = SearchSpending.from_state(state["spent"])
        self.curve = [CurvePoint(*point) for point in state["curve"]]
