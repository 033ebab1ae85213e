"""Subgoals, on examples by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from proverrl.errors import RecordError
from proverrl.lang.records import Sketch, Subgoal
from proverrl.search.subgoal_search import Decomposition, build_graph, find_blocking
from proverrl.types import Problem
from tests.builders import build_problem
from tests.decompose import SubgoalFunctions, decompose

# p needs three facts: b and c rest on a, and d stands alone.
DIAMOND = Sketch(
    "<d><c><b><a>", (Subgoal("d"), Subgoal("c", ("a",)), Subgoal("b", ("a",)), Subgoal("a"))
)


class Parts:
    """Problems are solved when their id is in ``solvable``; sketches are by id."""

    def __init__(self, solvable: set[str], sketches: dict[str, Sketch]) -> None:
        self.solvable = solvable
        self.sketches = sketches
        self.tried: list[str] = []

    async def sketch(self, problem: Problem, depth: int) -> Sketch | None:
        return self.sketches.get(problem.id)

    def lift(
        self, problem: Problem, sketch: Sketch, subgoal: Subgoal, given: tuple[str, ...]
    ) -> Problem:
        return build_problem(f"{problem.id}.{subgoal.name}" + "".join(f"+{g}" for g in given))

    async def solve(self, problem: Problem, calls: int) -> str | None:
        assert calls == 8
        self.tried.append(problem.id)
        return f"[{problem.id}]" if problem.id in self.solvable else None

    def fill(self, sketch: Sketch, bodies: Mapping[str, str]) -> Sketch:
        text = sketch.body
        for name, body in bodies.items():
            text = text.replace(f"<{name}>", body)
        return Sketch(text, ())

    def run(self, max_depth: int = 2) -> Decomposition:
        functions = SubgoalFunctions(self.sketch, self.lift, self.solve, self.fill)
        problem = build_problem("p")
        return asyncio.run(decompose(problem, functions, calls=8, max_depth=max_depth))


def test_parts_are_tried_after_what_they_need_and_spliced() -> None:
    parts = Parts({"p.a", "p.b+a", "p.c+a", "p.d"}, {"p": DIAMOND})
    found = parts.run()
    # d before a (both free, in the sketch's order); c before b.
    assert parts.tried == ["p", "p.d", "p.a", "p.c+a", "p.b+a"]
    assert found.body == "[p.d][p.c+a][p.b+a][p.a]"
    assert found.blocking == {}
    assert found.num_lifted == 4


def test_what_is_unsolved_says_what_waits_for_it() -> None:
    found = Parts({"p.b+a", "p.d"}, {"p": DIAMOND}).run()
    assert found.body is None
    # b was solved given a; c was not. a blocks both.
    assert list(found.blocking.items()) == [("a", ("b", "c")), ("c", ())]
    assert found.bodies["b"] == "[p.b+a]"


def test_a_part_has_parts_down_to_the_depth() -> None:
    sketches = {"p": Sketch("(<x>)", (Subgoal("x"),)), "p.x": Sketch("{<y>}", (Subgoal("y"),))}
    assert Parts({"p.x.y"}, sketches).run(2).body == "({[p.x.y]})"
    shallow = Parts({"p.x.y"}, sketches)
    assert shallow.run(1).body is None
    assert shallow.tried == ["p", "p.x"]
    assert Parts({"p"}, sketches).run().body == "[p]"


@pytest.mark.parametrize(
    ("subgoals", "message"),
    [
        ((Subgoal("a"), Subgoal("a")), "twice"),
        ((Subgoal("a", ("z",)),), "needs 'z', which is no hole"),
        ((Subgoal("a", ("b",)), Subgoal("b", ("a",))), "in a circle: a -> b|circle: b -> a"),
    ],
)
def test_a_sketch_that_cannot_be_ordered_is_refused(
    subgoals: tuple[Subgoal, ...], message: str
) -> None:
    with pytest.raises(RecordError, match=message):
        build_graph(Sketch("", subgoals))


def test_blocking_is_through_others_too() -> None:
    chain = Sketch("", (Subgoal("a"), Subgoal("b", ("a",)), Subgoal("c", ("b",))))
    assert find_blocking(build_graph(chain), ["b", "a"]) == {"a": ("b", "c"), "b": ("c",)}
