"""Whole proofs, and a pool of lemmas that is drawn from those that failed, on one budget.

Flows in: a problem. Flows out: proofs of it, and the pool. A turn writes whole bodies with a
share of the calls that are left; then, by the tier:

- ``light``: nothing more;
- ``medium``: the facts of bodies that failed (``Facts`` of ``proverrl.lang.base``) are
  conjectures. All are verified together, those in which something fails are left out, and again,
  until all stand (after Houdini, Flanagan and Leino 2001). Those that are worth most are put before
  the hole, and the policy writes bodies for the problem in which they stand;
- ``heavy``: as well, assertions that did not stand are attacked as lemmas of their own, and so are
  their negations.

A proof is a body of the problem itself, facts included, verified as such; facts stand in it with
their proofs in place. A lemma counts as used
when the proof fails without it: those that can be dropped one after another are not. What that
costs is counted with the confirmations. (The shape is Seed-Prover's, Chen et al. 2025, arXiv
2507.23726.) Not handled here: relevance as a model would judge it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import networkx as nx

from proverrl.config.search import SearchConfig, TierName
from proverrl.errors import RecordError
from proverrl.lang import find_language
from proverrl.lang.parts import Facts
from proverrl.lang.records import Lemma, LemmaStatus
from proverrl.search.base import Functions
from proverrl.search.composite import ROOT, Composite
from proverrl.types import HOLE, Candidate, Problem

_MAX_ROUNDS = 6
_NOT = "not: "


class Tier(NamedTuple):
    """How much a tier spends: ``calls`` for each lemma at most, ``conjectures`` a turn, and how
    many lemmas are ``shown`` to the policy. The ratios are Seed-Prover's."""

    calls: int
    conjectures: int
    shown: int


TIERS: dict[TierName, Tier] = {
    "light": Tier(calls=64, conjectures=0, shown=0),
    "medium": Tier(calls=64, conjectures=16, shown=8),
    "heavy": Tier(calls=64, conjectures=32, shown=16),
}

ProveFn = Callable[[str, int], Awaitable[tuple[str, int, int] | None]]
"""Statement and calls: a proof, how many attempts were made and how many of them proved it; None
when none did."""


@dataclass(slots=True)
class LemmaPool:
    """Lemmas by name. A statement is kept once, white space aside."""

    lemmas: dict[str, Lemma] = field(default_factory=dict)
    _statements: set[str] = field(default_factory=set)

    def add(self, lemma: Lemma) -> bool:
        """Keep a lemma; False when its statement is there already."""
        statement = " ".join(lemma.statement.split())
        if statement in self._statements:
            return False
        if lemma.name in self.lemmas:
            raise RecordError(f"two lemmas are called {lemma.name!r}")
        self.lemmas[lemma.name] = lemma
        self._statements.add(statement)
        return True

    def rank(self, limit: int) -> list[Lemma]:
        """The proved lemmas that are worth showing: those used before, then those rarely proved,
        then those with short proofs."""
        proved = [lemma for lemma in self.lemmas.values() if lemma.status == "proved"]
        proved.sort(key=lambda one: (-one.uses, one.proof_rate, len(one.body), one.name))
        return proved[:limit]

    def closure(self, names: Iterable[str]) -> list[str]:
        """The lemmas and all that their proofs need, in an order in which they can be stated.

        ``RecordError`` for one that is not proved, or a circle.
        """
        # Lemmas, with an edge from each to those whose proofs need it.
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(self.lemmas)
        for lemma in self.lemmas.values():
            graph.add_edges_from((need, lemma.name) for need in lemma.needs)
        wanted = set(names)
        for name in list(wanted):
            if name not in graph:
                raise RecordError(f"no lemma is called {name!r}")
            wanted |= nx.ancestors(graph, name)
        for name in sorted(wanted):
            if name not in self.lemmas or self.lemmas[name].status != "proved":
                raise RecordError(f"the lemma {name!r} is needed and not proved")
        kept = graph.subgraph(wanted)
        if not nx.is_directed_acyclic_graph(kept):
            raise RecordError(f"lemmas need each other in a circle: {sorted(wanted)}")
        return list(nx.lexicographical_topological_sort(kept))

    def credit(self, names: Collection[str]) -> list[str]:
        """Count a use of each lemma that a final proof depends on, directly or through others."""
        used = self.closure(names)
        for name in used:
            self.lemmas[name] = replace(self.lemmas[name], uses=self.lemmas[name].uses + 1)
        return used

    def state_dict(self) -> list[dict[str, Any]]:
        """Everything as JSON values."""
        return [asdict(lemma) for lemma in self.lemmas.values()]


async def settle_open(
    pool: LemmaPool, calls: int, prove: ProveFn, negate: Callable[[str], str]
) -> None:
    """Try to prove each open lemma and, failing that, its negation, with ``calls`` for each."""
    for name in [lemma.name for lemma in pool.lemmas.values() if lemma.status == "open"]:
        pool.lemmas[name] = await _settle(pool.lemmas[name], calls, prove, negate)


async def _settle(lemma: Lemma, calls: int, prove: ProveFn, negate: Callable[[str], str]) -> Lemma:
    found = await prove(lemma.statement, calls)
    if found is not None:
        body, attempts, proofs = found
        return replace(
            lemma,
            status="proved",
            body=body,
            attempts=lemma.attempts + attempts,
            proofs=lemma.proofs + proofs,
        )
    tried = replace(lemma, attempts=lemma.attempts + calls)
    against = await prove(negate(lemma.statement), calls)
    return tried if against is None else replace(tried, status="disproved", body=against[0])


class LemmaSearch(Composite):
    """Whole proofs and lemmas."""

    NEEDS: ClassVar[Literal["facts"]] = "facts"
    LACK: ClassVar[str] = "lemmas that a body could hold"

    def __init__(
        self, problem: Problem, functions: Functions, config: SearchConfig, *, seed: int = 0
    ) -> None:
        super().__init__(problem, functions, config, seed=seed)
        facts = find_language(problem.language).facts
        assert facts is not None  # NEEDS
        self._facts: Facts = facts
        self.tier = TIERS[config.tier]
        self.pool = LemmaPool()
        self.turns: list[dict[str, Any]] = []
        self.used: list[str] = []

    async def work(self) -> None:
        """Turns of whole proofs and lemmas."""
        self.pool = LemmaPool()
        self.turns.clear()
        self.used = []
        turn = 0
        while self.left:
            before = self.decide(f"turn {turn}", self.calls)
            share = self.config.whole_share if self.tier.shown else 1.0
            calls = math.ceil(self.left * share)
            search = await self.search_part(ROOT, self.problem, calls, turn)
            seen = self.decide(f"turn {turn}/seen", len(search.spent.verdicts))
            if self.left and self.tier.shown:
                verdicts = dict(list(search.spent.verdicts.items())[:seen])
                self._conjecture(self._facts.list_facts(self.problem, verdicts), seen)
                await self._use_pool(turn)
            if not self.decide(f"turn {turn}/moved", int(self.calls > before)):
                break
            turn += 1

    def describe_walk(self) -> dict[str, Any]:
        """The pool, what each turn showed, and the lemmas that the last proof depends on."""
        return {"lemmas": self.pool.state_dict(), "turns": self.turns, "used": self.used}

    def _conjecture(self, facts: dict[str, int], num_bodies: int) -> None:
        """Take up new facts. ``attempts`` and ``proofs`` say how many bodies there were and in how
        many a fact stood: a rare one is worth more."""
        limit = len(self.pool.lemmas) + self.tier.conjectures
        for fact, count in facts.items():
            if len(self.pool.lemmas) >= limit:
                break
            if HOLE in fact:
                # It cannot stand in a problem, which has one hole.
                continue
            name = f"L{len(self.pool.lemmas) + 1}"
            self.pool.add(Lemma(name, fact, attempts=num_bodies, proofs=count))

    async def _use_pool(self, turn: int) -> None:
        """Find out what stands, and have bodies written with it."""
        alive = [name for name, one in self.pool.lemmas.items() if one.status != "disproved"]
        standing = await self._let_stand(alive)
        for name in alive:
            status: LemmaStatus = "proved" if name in standing else "open"
            self.pool.lemmas[name] = replace(self.pool.lemmas[name], status=status)
        # All that stand were verified as one body just now; fewer of them are shown.
        if standing and await self.prove(self._write(standing)):
            await self._credit(standing, "")
            return
        if self.config.tier == "heavy":
            await self._attack(turn)
        shown = [lemma.name for lemma in self.pool.rank(self.tier.shown)]
        # In the order of the pool: what was written first may be needed by what came later.
        shown = [name for name in self.pool.lemmas if name in shown]
        if set(shown) != set(standing):
            shown = await self._let_stand(shown)
        self.turns.append({"turn": turn, "standing": standing, "shown": shown})
        if not shown or not self.left:
            return
        if await self.prove(self._write(shown)):
            await self._credit(shown, "")
            return
        part = self._facts.show(self.problem, self._texts(shown))
        budget = self.decide(f"turn {turn}/shown", math.ceil(self.left / 2))
        search = await self.search_part(f"shown {turn}", part, budget)
        for proof in search.spent.proofs:
            if await self.prove(
                self._facts.put_together(self.problem, self._texts(shown), proof.body)
            ):
                await self._credit(shown, proof.body)

    def _texts(self, names: list[str]) -> list[str]:
        prove_alone, problem = self._facts.prove_alone, self.problem
        lemmas = [self.pool.lemmas[name] for name in names]
        return [
            prove_alone(problem, one.statement, one.body) if one.body else one.statement
            for one in lemmas
        ]

    def _write(self, names: list[str], body: str = "") -> str:
        return self._facts.put_together(self.problem, self._texts(names), body)

    async def _let_stand(self, names: list[str]) -> list[str]:
        """Those of the lemmas that hold together; none when that was not found out."""
        for _ in range(_MAX_ROUNDS):
            if not names:
                break
            texts = self._texts(names)
            candidate = Candidate(self.problem, self._write(names))
            verdict = await self.judge(candidate)
            if verdict is None:
                return []
            standing = self._facts.find_standing(candidate, verdict, texts)
            left = [name for name, text in zip(names, texts, strict=True) if text in standing]
            if left == names:
                return names
            names = left
        return []

    async def _attack(self, turn: int) -> None:
        """Prove or disprove what did not stand, with a quarter of what is left."""
        open_names = [n for n, one in self.pool.lemmas.items() if one.status == "open"]
        budget = self.decide(f"turn {turn}/attack", self.left // 4)
        each = budget // (2 * max(1, len(open_names)))
        if not each:
            return

        async def prove(statement: str, calls: int) -> tuple[str, int, int] | None:
            is_negated = statement.startswith(_NOT)
            fact = statement.removeprefix(_NOT)
            part = self._facts.negate(self.problem, fact, says_not=is_negated)
            if part is None:
                return None
            name = next(n for n, one in self.pool.lemmas.items() if one.statement == fact)
            key = f"{name} {'not' if is_negated else 'alone'}"
            search = await self.search_part(key, part, calls, turn)
            calls_itself = self._facts.calls_itself
            proofs = [
                proof
                for proof in search.spent.proofs
                if HOLE not in proof.body and not calls_itself(self.problem, proof.body)
            ]
            return (proofs[0].body, search.calls, len(proofs)) if proofs else None

        await settle_open(self.pool, min(each, self.tier.calls), prove, lambda text: _NOT + text)

    async def _credit(self, shown: list[str], body: str) -> None:
        """Which lemmas a proof cannot do without."""
        used = list(shown)
        for name in shown:
            fewer = [one for one in used if one != name]
            candidate = Candidate(
                self.problem, self._facts.put_together(self.problem, self._texts(fewer), body)
            )
            if (await self.functions.verify(candidate)).proved:
                used = fewer
            self.spent.confirmations += 1
        self.used = self.pool.credit(used)
