"""Subgoals and lemmas, on examples by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import get_args

import pytest

from proverrl.config.search import TierName
from proverrl.errors import RecordError
from proverrl.lang.records import Lemma, Sketch, Subgoal
from proverrl.search.lemma_search import TIERS, LemmaPool, settle_open
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

    def splice(self, problem: Problem, sketch: Sketch, bodies: Mapping[str, str]) -> str:
        text = sketch.body
        for name, body in bodies.items():
            text = text.replace(f"<{name}>", body)
        return text

    def run(self, max_depth: int = 2) -> Decomposition:
        functions = SubgoalFunctions(self.sketch, self.lift, self.solve, self.splice)
        problem = build_problem("p")
        return asyncio.run(decompose(problem, functions, calls=8, max_depth=max_depth))


def test_parts_are_tried_after_what_they_need_and_spliced() -> None:
    parts = Parts({"p.a", "p.b+a", "p.c+a", "p.d"}, {"p": DIAMOND})
    found = parts.run()
    # d before a (both free, in the sketch's order); c before b.
    assert parts.tried == ["p", "p.d", "p.a", "p.c+a", "p.b+a"]
    assert found.body == "[p.d][p.c+a][p.b+a][p.a]"
    assert found.blocking == {}
    # Both forms of every hole are kept for a curriculum.
    assert [(x.alone and x.alone.id, x.given.id) for x in found.lifted] == [
        ("p.d", "p.d"),
        ("p.a", "p.a"),
        ("p.c", "p.c+a"),
        ("p.b", "p.b+a"),
    ]


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


def build_pool() -> LemmaPool:
    pool = LemmaPool()
    for lemma in (
        Lemma("easy", "1 + 1 = 2", "proved", "trivial", attempts=8, proofs=8),
        Lemma("rare", "P", "proved", "long proof", ("easy",), attempts=8, proofs=1),
        Lemma("used", "Q", "proved", "q", ("rare",), attempts=8, proofs=7, uses=1),
        Lemma("open", "R"),
        Lemma("wrong", "1 = 2", "disproved", "no"),
    ):
        assert pool.add(lemma)
    return pool


def test_lemmas_rank_by_use_then_rarity() -> None:
    pool = build_pool()
    # Rates: easy 9/10, rare 2/10, used 8/10; used was used once.
    assert [lemma.proof_rate for lemma in pool.rank(9)] == pytest.approx([0.8, 0.2, 0.9])
    assert [lemma.name for lemma in pool.rank(2)] == ["used", "rare"]


def test_a_lemma_counts_only_if_the_final_proof_depends_on_it() -> None:
    pool = build_pool()
    assert pool.credit(["rare"]) == ["easy", "rare"]
    uses = {name: lemma.uses for name, lemma in pool.lemmas.items()}
    assert uses == {"easy": 1, "rare": 1, "used": 1, "open": 0, "wrong": 0}
    assert pool.credit([]) == []


def test_nothing_rests_on_what_is_not_proved() -> None:
    pool = build_pool()
    assert pool.closure(["used"]) == ["easy", "rare", "used"]
    pool.add(Lemma("late", "S", "proved", "s", ("open",)))
    for name in ("open", "wrong", "late"):
        with pytest.raises(RecordError, match="is needed and not proved"):
            pool.closure([name])
    with pytest.raises(RecordError, match="no lemma is called 'none'"):
        pool.closure(["none"])
    pool.add(Lemma("x", "X", "proved", "x", ("y",)))
    pool.add(Lemma("y", "Y", "proved", "y", ("x",)))
    with pytest.raises(RecordError, match="circle"):
        pool.closure(["x"])


def test_a_statement_is_kept_once() -> None:
    pool = build_pool()
    assert not pool.add(Lemma("again", "1  +  1 =\n2"))
    with pytest.raises(RecordError, match="two lemmas are called 'easy'"):
        pool.add(Lemma("easy", "other"))


def test_the_tiers_are_those_of_the_configuration() -> None:
    assert set(TIERS) == set(get_args(TierName))
    assert TIERS["light"].calls == 64


def test_open_lemmas_are_proved_or_disproved() -> None:
    asked: list[tuple[str, int]] = []

    async def prove(statement: str, calls: int) -> tuple[str, int, int] | None:
        asked.append((statement, calls))
        answers = {"S0": ("zero", 5, 2), "not S1": ("one", 1, 1)}
        return answers.get(statement)

    pool = LemmaPool()
    for number in range(32):
        pool.add(Lemma(f"l{number}", f"S{number}"))
    asyncio.run(settle_open(pool, TIERS["heavy"].calls, prove, "not {}".format))
    first, second, third = (pool.lemmas[name] for name in ("l0", "l1", "l2"))
    assert (first.status, first.body, first.attempts, first.proofs) == ("proved", "zero", 5, 2)
    assert (second.status, second.body, second.attempts) == ("disproved", "one", 64)
    assert (third.status, third.attempts) == ("open", 64)
    assert asked[:3] == [("S0", 64), ("S1", 64), ("not S1", 64)]
    # 32 lemmas, and the negation of all but the first.
    assert len(asked) == 63
