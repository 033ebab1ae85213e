"""A pool of lemmas about one problem: conjectured, proved or disproved, ranked, counted if used.

Flows in: functions that conjecture, solve, negate and prove with lemmas. Flows out: the pool, and a
proof with the lemmas that it depends on. The shape is Seed-Prover's (Chen et al. 2025, arXiv
2507.23726); its numbers per tier are for a cluster, the presets here keep the ratios. Not handled
here: text of any language, and relevance as a model would judge it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import networkx as nx

from proverrl.config.search import TierName
from proverrl.errors import RecordError
from proverrl.lang.records import Lemma


@dataclass(frozen=True, slots=True)
class Tier:
    """How much an inference spends: ``refinements`` of a proof in turn, ``chains`` of them side by
    side, ``conjectures`` about the problem, and how many ``shown`` lemmas a prompt holds."""

    refinements: int
    chains: int
    conjectures: int
    shown: int

    @property
    def calls(self) -> int:
        """Verifier calls of one light run."""
        return self.refinements * self.chains


TIERS: dict[TierName, Tier] = {
    "light": Tier(refinements=8, chains=8, conjectures=0, shown=0),
    "medium": Tier(refinements=8, chains=8, conjectures=16, shown=8),
    "heavy": Tier(refinements=8, chains=8, conjectures=32, shown=16),
}

ConjectureFn = Callable[[int], Awaitable[Sequence[Lemma]]]
"""How many: new conjectures."""

ProveFn = Callable[[str, int], Awaitable[tuple[str, int, int] | None]]
"""Statement and calls: a proof, how many attempts were made and how many of them proved it; None
when none did."""

NegateFn = Callable[[str], str]


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

    def graph(self) -> nx.DiGraph[str]:
        """Lemmas, with an edge from each to those whose proofs need it."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(self.lemmas)
        for lemma in self.lemmas.values():
            graph.add_edges_from((need, lemma.name) for need in lemma.needs)
        return graph

    def closure(self, names: Iterable[str]) -> list[str]:
        """The lemmas and all that their proofs need, in an order in which they can be stated.

        ``RecordError`` for one that is not proved, or a circle.
        """
        graph = self.graph()
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
        """Count a use of each lemma that a final proof depends on, through others or not.

        What was only written beside the proof earns nothing.
        """
        used = self.closure(names)
        for name in used:
            self.lemmas[name] = replace(self.lemmas[name], uses=self.lemmas[name].uses + 1)
        return used

    def state_dict(self) -> list[dict[str, Any]]:
        """Everything as JSON values."""
        return [asdict(lemma) for lemma in self.lemmas.values()]

    def load_state_dict(self, state: Sequence[Mapping[str, Any]]) -> None:
        """What ``state_dict`` gave."""
        self.lemmas.clear()
        self._statements.clear()
        for raw in state:
            self.add(Lemma(**{**raw, "needs": tuple(raw["needs"])}))


async def work_on_pool(
    pool: LemmaPool,
    tier: Tier,
    *,
    conjecture: ConjectureFn | None,
    prove: ProveFn,
    negate: NegateFn,
) -> LemmaPool:
    """Conjecture as the tier says, then try each open lemma and, failing that, its negation."""
    if tier.conjectures:
        if conjecture is None:
            raise RecordError("this tier conjectures lemmas and needs a function that does")
        for lemma in (await conjecture(tier.conjectures))[: tier.conjectures]:
            pool.add(lemma)
    for name in [lemma.name for lemma in pool.lemmas.values() if lemma.status == "open"]:
        pool.lemmas[name] = await _settle(pool.lemmas[name], tier.calls, prove, negate)
    return pool


async def _settle(lemma: Lemma, calls: int, prove: ProveFn, negate: NegateFn) -> Lemma:
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
