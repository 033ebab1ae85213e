"""A problem in parts: a sketch with holes, each hole a problem of its own, put together again.

Flows in: functions that write a sketch, lift its holes to problems, solve a problem and splice the
parts. Flows out: a whole body, or which parts stand in its way. Not handled here: text of any
language (the four functions), and whether the spliced body is a proof (the caller verifies it).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import networkx as nx

from proverrl.errors import RecordError
from proverrl.lang.records import Sketch, Subgoal
from proverrl.types import Problem

SketchFn = Callable[[Problem, int], Awaitable[Sketch | None]]
"""Problem and depth: a sketch, or None when there is none."""

LiftFn = Callable[[Problem, Sketch, Subgoal, tuple[str, ...]], Problem | None]
"""The hole as a problem, with the statements of the named holes as hypotheses; None when there is
no such problem."""

SolveFn = Callable[[Problem, int], Awaitable[str | None]]
"""Problem and verifier calls: a proof, or None."""

SpliceFn = Callable[[Problem, Sketch, Mapping[str, str]], str]
"""The sketch with each hole filled."""


@dataclass(frozen=True, slots=True)
class SubgoalFunctions:
    """What a decomposition calls."""

    sketch: SketchFn
    lift: LiftFn
    solve: SolveFn
    splice: SpliceFn


@dataclass(frozen=True, slots=True)
class Lifted:
    """A hole as two problems: ``alone`` with the hypotheses of the problem only, ``given`` with
    the statements of the holes that it needs as well (DeepSeek-Prover-V2's two forms). ``alone`` is
    None where the hole cannot be said without the others."""

    subgoal: Subgoal
    alone: Problem | None
    given: Problem


@dataclass(frozen=True, slots=True)
class Decomposition:
    """What became of a problem. ``body`` is None while a part is open.

    ``blocking`` maps each unsolved hole to the holes that wait for it; ``lifted`` holds every
    problem that was made, for a curriculum; ``parts`` what became of the holes.
    """

    problem: Problem
    body: str | None
    depth: int
    blocking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lifted: tuple[Lifted, ...] = ()
    parts: Mapping[str, Decomposition] = field(default_factory=dict)


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


async def decompose(
    problem: Problem, functions: SubgoalFunctions, *, calls: int, max_depth: int = 2
) -> Decomposition:
    """Solve a problem as a whole with ``calls`` calls; failing that, by its parts.

    Each hole is attacked in its ``given`` form with the same ``calls``, in an order in which
    nothing comes before what it needs, and by parts of its own down to ``max_depth``. A hole may
    assume what it needs even while that is unsolved, so that all holes are tried. The parts are
    spliced when all are solved (Ren et al. 2025, DeepSeek-Prover-V2, arXiv 2504.21801).
    """
    return await _decompose(problem, functions, calls, max_depth, 0)


async def _decompose(
    problem: Problem, functions: SubgoalFunctions, calls: int, max_depth: int, depth: int
) -> Decomposition:
    body = await functions.solve(problem, calls)
    if body is not None or depth >= max_depth:
        return Decomposition(problem, body, depth)
    sketch = await functions.sketch(problem, depth)
    if sketch is None or not sketch.subgoals:
        return Decomposition(problem, None, depth)

    async def attack(_: Subgoal, part: Problem) -> Decomposition:
        return await _decompose(part, functions, calls, max_depth, depth + 1)

    return await work_on_sketch(
        problem, sketch, functions.lift, functions.splice, attack, depth=depth
    )


AttackFn = Callable[[Subgoal, Problem], Awaitable[Decomposition]]
"""A hole and its problem: what became of it."""


async def work_on_sketch(
    problem: Problem,
    sketch: Sketch,
    lift: LiftFn,
    splice: SpliceFn,
    attack: AttackFn,
    *,
    depth: int,
) -> Decomposition:
    """Attack each hole of a sketch in its ``given`` form, nothing before what it needs, and put
    the parts together when all are solved. A hole without a problem counts as unsolved."""
    graph = build_graph(sketch)
    by_name = {subgoal.name: subgoal for subgoal in sketch.subgoals}
    lifted: list[Lifted] = []
    parts: dict[str, Decomposition] = {}
    places = {name: place for place, name in enumerate(by_name)}
    for name in nx.lexicographical_topological_sort(graph, key=lambda name: places[name]):
        subgoal = by_name[name]
        given = lift(problem, sketch, subgoal, subgoal.needs)
        if given is not None:
            lifted.append(Lifted(subgoal, lift(problem, sketch, subgoal, ()), given))
            parts[name] = await attack(subgoal, given)
    bodies = {name: part.body for name, part in parts.items() if part.body is not None}
    unsolved = [name for name in by_name if name not in bodies]
    whole = None if unsolved else splice(problem, sketch, bodies)
    blocking = find_blocking(graph, unsolved)
    return Decomposition(problem, whole, depth, blocking, tuple(lifted), parts)
