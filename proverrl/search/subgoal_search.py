"""Whole proofs, and failing them the parts of those that failed, on one budget of verifier calls.

Flows in: a problem. Flows out: proofs of it, and what became of its parts. A turn writes
whole bodies with a share of the calls that are left (``config.whole_share``); the bodies that
failed are the sketches. A sketch is closed first: with the statements of its holes given, all else
must hold, and what does not is a hole more. Its holes share half of what is left, each searched
like a problem, by parts of its own down to ``config.part_depth``; solved parts are put together and
the whole is verified as any body. Holes that stay open are tried once more with the solved ones
in place. What is left of the budget goes to the next turn. (After DeepSeek-Prover-V2, Ren et al.
2025, arXiv 2504.21801, where a large model writes the sketches; here they are the policy's own
failures.)
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

import networkx as nx

from proverrl.config.search import SearchConfig
from proverrl.errors import RecordError
from proverrl.lang import find_language
from proverrl.lang.parts import Sketching
from proverrl.lang.records import Sketch, Subgoal
from proverrl.search.base import Functions
from proverrl.search.composite import ROOT, Composite
from proverrl.search.run import TreeSearch
from proverrl.types import HOLE, Candidate, Problem, Verdict

MAX_SKETCHES = 4
"""Sketches that a turn tries."""

MAX_HOLES = 6
_MAX_CLOSINGS = 4


@dataclass(slots=True)
class SketchRecord:
    """What became of a sketch of the problem or part ``of``.

    ``outcome`` is ``no lift`` (its holes cannot be said as problems), ``open`` (the closed form
    fails and shows no hole more), ``unsolved``, ``unproved`` (the spliced body is refused) or
    ``solved``. ``solved`` names the holes that were, ``blocking`` the others with those that wait.
    """

    of: str
    depth: int
    body: str
    outcome: str = "open"
    holes: list[dict[str, Any]] = field(default_factory=list)
    solved: list[str] = field(default_factory=list)
    blocking: dict[str, list[str]] = field(default_factory=dict)


LiftFn = Callable[[Problem, Sketch, Subgoal, tuple[str, ...]], Problem | None]
"""The hole as a problem, with the statements of the named holes as hypotheses; None when there is
no such problem."""

FillFn = Callable[[Sketch, Mapping[str, str]], Sketch]
"""The sketch with some holes filled."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """What became of a sketch. ``body`` is None while a hole is open.

    ``bodies`` are those of the solved holes; ``blocking`` maps each unsolved hole to the holes that
    wait for it; ``num_lifted`` holes could be said as problems.
    """

    body: str | None
    bodies: Mapping[str, str]
    blocking: Mapping[str, tuple[str, ...]]
    num_lifted: int


def build_graph(sketch: Sketch) -> nx.DiGraph[str]:
    """Holes, with an edge from each to those that need it.

    ``RecordError`` for a name twice, a need that is no hole, and needs that go in a circle.
    """
    names = [subgoal.name for subgoal in sketch.subgoals]
    if len(set(names)) != len(names):
        raise RecordError(f"a sketch names a hole twice: {names}")
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(names)
    for subgoal in sketch.subgoals:
        for need in subgoal.needs:
            if need not in graph:
                raise RecordError(f"hole {subgoal.name!r} needs {need!r}, which is no hole")
            graph.add_edge(need, subgoal.name)
    if not nx.is_directed_acyclic_graph(graph):
        circle = " -> ".join(edge[0] for edge in nx.find_cycle(graph))
        raise RecordError(f"the holes of a sketch need each other in a circle: {circle}")
    return graph


def find_blocking(graph: nx.DiGraph[str], unsolved: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Each unsolved hole with all that wait for it, those that block most first."""
    found = {name: tuple(sorted(nx.descendants(graph, name))) for name in unsolved}
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


AttackFn = Callable[[Subgoal, Problem], Awaitable[str | None]]
"""A hole and its problem: a body, or None."""


async def work_on_sketch(
    problem: Problem, sketch: Sketch, lift: LiftFn, fill: FillFn, attack: AttackFn
) -> Decomposition:
    """Attack each hole of a sketch with the statements of the holes that it needs as hypotheses
    (the second form of DeepSeek-Prover-V2), nothing before what it needs, and put the parts
    together when all are solved. A hole without a problem counts as unsolved."""
    graph = build_graph(sketch)
    by_name = {subgoal.name: subgoal for subgoal in sketch.subgoals}
    num_lifted = 0
    found: dict[str, str | None] = {}
    for name in nx.lexicographical_topological_sort(graph, key=list(by_name).index):
        subgoal = by_name[name]
        given = lift(problem, sketch, subgoal, subgoal.needs)
        if given is not None:
            num_lifted += 1
            found[name] = await attack(subgoal, given)
    bodies = {name: body for name, body in found.items() if body is not None}
    unsolved = [name for name in by_name if name not in bodies]
    whole = None if unsolved else fill(sketch, bodies).body
    return Decomposition(whole, bodies, find_blocking(graph, unsolved), num_lifted)


class SubgoalSearch(Composite):
    """Whole proofs and subgoals."""

    NEEDS: ClassVar[Literal["sketching"]] = "sketching"
    LACK: ClassVar[str] = "sketches"

    def __init__(
        self, problem: Problem, functions: Functions, config: SearchConfig, *, seed: int = 0
    ) -> None:
        super().__init__(problem, functions, config, seed=seed)
        sketching = find_language(problem.language).sketching
        assert sketching is not None  # NEEDS
        self._parts: Sketching = sketching
        self.sketches: dict[str, SketchRecord] = {}
        self._tried: set[tuple[str, str]] = set()

    async def work(self) -> None:
        """Turns of whole proofs and sketches."""
        self.sketches.clear()
        self._tried.clear()
        turn = 0
        while self.left:
            before = self.decide(f"turn {turn}", self.calls)
            calls = math.ceil(self.left * self.config.whole_share)
            search = await self.search_part(ROOT, self.problem, calls, turn)
            if self.left:
                body = await self._work_on(ROOT, search, self.left, 0, turn)
                if body is not None:
                    await self.prove(body)
            if not self.decide(f"turn {turn}/moved", int(self.calls > before)):
                return
            turn += 1

    def describe_walk(self) -> dict[str, Any]:
        """The sketches, and the graph of problems, sketches and holes."""
        return {
            "sketches": {key: asdict(record) for key, record in self.sketches.items()},
            "graph": nx.node_link_data(self.graph(), edges="edges"),
        }

    def graph(self) -> nx.DiGraph[str]:
        """An edge from each hole to those that need it, and to its sketch; from each sketch to the
        problem or hole that it is of."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        for key, record in self.sketches.items():
            graph.add_node(key, outcome=record.outcome)
            graph.add_edge(key, record.of)
            for hole in record.holes:
                name = f"{key}.{hole['name']}"
                graph.add_node(name, solved=hole["name"] in record.solved)
                graph.add_edge(name, key)
                graph.add_edges_from((f"{key}.{need}", name) for need in hole["needs"])
        return graph

    async def _solve(self, key: str, problem: Problem, calls: int, depth: int) -> str | None:
        """A body of a part, in at most so many calls."""
        is_last = depth >= self.config.part_depth
        whole = calls if is_last else math.ceil(calls * self.config.whole_share)
        start = self.decide(f"{key}/start", self.calls)
        search = await self.search_part(key, problem, whole)
        if search.spent.proofs:
            return search.spent.proofs[0].body
        if is_last:
            return None
        body = await self._work_on(key, search, calls - whole, depth, 0)
        rest = self.decide(f"{key}/rest", calls - (self.calls - start))
        if body is None and rest > 0:
            search = await self.search_part(key, problem, rest, 1)
            return search.spent.proofs[0].body if search.spent.proofs else None
        return body

    async def _work_on(
        self, key: str, search: TreeSearch, calls: int, depth: int, turn: int
    ) -> str | None:
        """A body made of the parts of those that failed in ``search``."""
        name = f"{key}/{turn}"
        start = self.decide(f"{name}/start", self.calls)
        calls = self.decide(f"{name}/calls", calls)
        seen = self.decide(f"{name}/seen", len(search.spent.verdicts))
        verdicts = dict(list(search.spent.verdicts.items())[:seen])
        number = 0
        for sketch in self._rank_sketches(search.problem, verdicts):
            left = calls - (self.decide(f"{name}.{number}/start", self.calls) - start)
            if left < 2 or number >= MAX_SKETCHES or not self.left:
                break
            if (search.problem.id, sketch.body) in self._tried:
                continue
            self._tried.add((search.problem.id, sketch.body))
            part = f"{name}.{number}"
            budget = self.decide(f"{part}/calls", max(2, left // 2))
            body = await self._attack(part, key, search.problem, sketch, budget, depth)
            if body is not None:
                return body
            number += 1
        return None

    async def _attack(
        self, key: str, of: str, problem: Problem, sketch: Sketch, calls: int, depth: int
    ) -> str | None:
        """A proof by a sketch. A proof that shows while it is closed counts too."""
        record = self.sketches[key] = SketchRecord(of, depth, sketch.body)
        start = self.decide(f"{key}/start", self.calls)
        for _ in range(_MAX_CLOSINGS):
            closed = self._parts.close(problem, sketch)
            verdict = None if closed is None else await self.judge(closed)
            if closed is None or verdict is None:
                record.outcome = "no lift" if closed is None else "open"
                return None
            if verdict.proved and closed.problem == problem:
                record.outcome = "solved"
                return closed.body
            better = self._parts.refine(problem, sketch, closed, verdict)
            if better is None:
                return None
            if better == sketch:
                left = calls - (self.calls - start)
                return await self._fill_holes(key, problem, sketch, left, depth, record)
            sketch = better
            record.body = sketch.body
        return None

    async def _fill_holes(
        self,
        key: str,
        problem: Problem,
        sketch: Sketch,
        calls: int,
        depth: int,
        record: SketchRecord,
    ) -> str | None:
        start = self.decide(f"{key}/holes", self.calls)
        calls = self.decide(f"{key}/left", calls)
        waiting = len(sketch.subgoals)
        record.holes = [{"name": s.name, "needs": list(s.needs)} for s in sketch.subgoals]
        record.outcome = "unsolved"
        if waiting > MAX_HOLES:
            return None

        async def attack(subgoal: Subgoal, part: Problem) -> str | None:
            nonlocal waiting
            name = f"{key}.{subgoal.name}"
            # One call is kept for the whole.
            left = calls - (self.calls - start) - 1
            budget = self.decide(f"{name}/calls", max(0, left // waiting))
            waiting -= 1
            return await self._solve(name, part, budget, depth + 1) if budget else None

        found = await work_on_sketch(problem, sketch, self._parts.lift, self._parts.fill, attack)
        record.solved = list(found.bodies)
        record.blocking = {name: list(waits) for name, waits in found.blocking.items()}
        if not found.num_lifted:
            record.outcome = "no lift"
        if found.body is None:
            if not found.bodies:
                return None
            rest = self._parts.fill(sketch, found.bodies)
            again = f"{key}+"
            then = self.sketches[again] = SketchRecord(key, depth, rest.body)
            left = calls - (self.calls - start)
            return await self._fill_holes(again, problem, rest, left, depth, then)
        verdict = await self.judge(Candidate(problem, found.body))
        is_proved = verdict is not None and verdict.proved
        record.outcome = "solved" if is_proved else "unproved"
        return found.body if is_proved else None

    def _rank_sketches(self, problem: Problem, verdicts: Mapping[str, Verdict]) -> Iterator[Sketch]:
        """The sketches of bodies that failed: those with fewer holes first, then those with more
        text, each once."""
        made: dict[str, Sketch] = {}
        for body, verdict in verdicts.items():
            if HOLE in body:
                # Its parts could not be said: a problem has one hole.
                continue
            sketch = self._parts.make_sketch(Candidate(problem, body), verdict)
            if sketch is not None:
                build_graph(sketch)
                made.setdefault(" ".join(sketch.body.split()), sketch)
        yield from sorted(made.values(), key=lambda one: (len(one.subgoals), -len(one.body)))
