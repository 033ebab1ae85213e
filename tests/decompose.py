"""Problems solved by their parts, and these by parts of their own, with functions by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from proverrl.lang.records import Sketch, Subgoal
from proverrl.search.subgoal_search import Decomposition, FillFn, LiftFn, work_on_sketch
from proverrl.types import Problem


@dataclass(frozen=True, slots=True)
class SubgoalFunctions:
    """``sketch`` is given a problem and its depth, ``solve`` a problem and verifier calls."""

    sketch: Callable[[Problem, int], Awaitable[Sketch | None]]
    lift: LiftFn
    solve: Callable[[Problem, int], Awaitable[str | None]]
    fill: FillFn


async def decompose(
    problem: Problem, functions: SubgoalFunctions, *, calls: int, max_depth: int, depth: int = 0
) -> Decomposition:
    """Solve a problem as a whole; failing that, by its parts, each after what it needs."""
    body = await functions.solve(problem, calls)
    sketch = None
    if body is None and depth < max_depth:
        sketch = await functions.sketch(problem, depth)
    if sketch is None or not sketch.subgoals:
        return Decomposition(body, {}, {}, 0)

    async def attack(_: Subgoal, part: Problem) -> str | None:
        deeper = depth + 1
        found = await decompose(part, functions, calls=calls, max_depth=max_depth, depth=deeper)
        return found.body

    return await work_on_sketch(problem, sketch, functions.lift, functions.fill, attack)
