"""The search ``puct``, by hand: in the world of letters, and in the toy of Lean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from proverrl.config.search import SearchConfig
from proverrl.errors import UsageError
from proverrl.lab.value.search import Puct, PuctOptions, exploration_bonus, puct
from proverrl.lang.records import Prefix
from proverrl.search.base import Functions
from proverrl.types import Problem
from tests.lean_search import Guesser, run_walk_search
from tests.search_world import World, run_search

TARGET = "abba"
LETTERS = "tests.lab.test_value_search:search_letters"
WALK = "tests.lab.test_value_search:search_walk"
OPTIONS = {"value": "nowhere"}


async def value_letters(problem: Problem, prefixes: Sequence[Prefix]) -> list[float]:
    """The share of the target that a state agrees with, from the beginning."""
    values = []
    for prefix in prefixes:
        same = 0
        while prefix.state[: same + 1] == TARGET[: same + 1] and same < len(TARGET):
            same += 1
        values.append(same / len(TARGET))
    return values


async def value_walk(problem: Problem, prefixes: Sequence[Prefix]) -> list[float]:
    """The share of six letters that are done."""
    done = [6 - len(p.state.removeprefix("⊢ walk ")) for p in prefixes]
    return [max(0.0, number / 6) for number in done]


def search_letters(config: SearchConfig, functions: Functions, *, options: PuctOptions) -> Puct:
    return Puct(config, functions, options, value_letters)


def search_walk(config: SearchConfig, functions: Functions, *, options: PuctOptions) -> Puct:
    return Puct(config, functions, options, value_walk)


def test_a_policy_that_is_not_here_has_no_hidden_states() -> None:
    with pytest.raises(UsageError, match="which this one does not give"):
        puct(SearchConfig(), World().functions(), options=PuctOptions(value=Path("v")))


@pytest.mark.parametrize("seed", [0, 1])
def test_it_finds_a_proof_and_repeats(seed: int) -> None:
    def find() -> list[str]:
        world = World(target="ab", letters="ab", length=2)
        found = run_search(world, name=LETTERS, options=OPTIONS, calls=64, seed=seed)
        assert found.proved
        return world.verified

    assert find() == find()


def test_it_finds_a_proof_of_several_levels() -> None:
    guesser = Guesser(3, "ababab")
    given = {"calls": 600, "max_idle": 300, "options": OPTIONS}
    result, grown = run_walk_search(WALK, guesser, seed=2, **given)
    assert result.stopped == "proved"
    assert max(node.depth for node in grown.strategy.tree.nodes) >= 2


def test_the_bonus_of_puct() -> None:
    # 0.2 * sqrt((1 + ln 4) / (0.1 + 1)) = 0.2 * sqrt(2.386294 / 1.1)
    assert exploration_bonus(0.2, 4, 1) == pytest.approx(0.294575, abs=1e-6)
    assert exploration_bonus(0.2, 0, 0) == pytest.approx(0.2 * math.sqrt(10))


def test_puct_keeps_the_three_best_by_value() -> None:
    # Values of the last states: aab 1/4, ab 2/4, b 0, abb 3/4, a 1/4.
    world = World(target="abba", script=["aab", "ab", "b", "abb", "a"])
    found = run_search(world, name=LETTERS, options=OPTIONS, calls=5)
    nodes = found.tree["tree"]["nodes"]
    # abb and ab lie on one way; of aab and a, both 1/4, the first is kept.
    assert [(n["state"], n["value"]) for n in nodes] == [
        ("", 0.0),
        ("a", 0.25),
        ("ab", 0.5),
        ("abb", 0.75),
        ("aa", 0.25),
        ("aab", 0.25),
    ]
    # The expansion is worth its best last state.
    assert nodes[0]["own"] == [0.75, 1.0, 0]


def test_puct_weighs_value_and_visits() -> None:
    strategy = search_letters(
        SearchConfig(name=LETTERS), World().functions(), options=PuctOptions(value=Path())
    )
    tree = strategy.tree
    ends = [tree.insert(tree.root, 0, letter, [(1, letter)])[0][0] for letter in "ab"]
    ends[0].value, ends[1].value = 0.2, 0.5
    # Nothing visited: 0.2 * sqrt(10) = 0.632 for all three; b has the best value.
    assert strategy.pick() is ends[1]
    for _ in range(3):
        tree.start(ends[1])
        tree.finish(ends[1], 0.0)
    # N_root = 3: b (0.5 + 0) / 4 + 0.2 sqrt(2.0986 / 3.1) = 0.29; a 0.2 + 0.2 sqrt(20.986) = 1.12.
    assert strategy.pick() is ends[0]
    tree.start(ends[0])
    # A job counts as a visit worth 0: a 0.1 + 0.2 sqrt(2.386 / 1.1) = 0.39; the root itself 0.98.
    assert strategy.pick() is tree.root
