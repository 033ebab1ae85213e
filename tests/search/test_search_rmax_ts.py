"""RMaxTS: the published numbers, the rules one by one, and a tree that is kept as a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proverrl.config.search import SearchConfig
from proverrl.search.strategy import RMaxTS, bonus
from proverrl.search.tree import Node, Tree, discount_jobs
from proverrl.types import Status
from tests import ROOT
from tests.search_world import World, check_invariants, run_search

GOLDEN = ROOT / "tests" / "golden" / "rmax_ts.json"


def grow(tree: Tree, node: Node, *states: str) -> list[Node]:
    """A way of new states below a node, each one letter further."""
    steps = [(place + 1, state) for place, state in enumerate(states)]
    return tree.insert(node, 0, "." * len(states), steps)[0]


def build_strategy() -> RMaxTS:
    return RMaxTS(SearchConfig(), World().functions())


def test_the_sums_after_rewards_one_zero_one() -> None:
    tree = Tree(gamma=0.99)
    for reward in (1.0, 0.0, 1.0):
        tree.start(tree.root)
        tree.finish(tree.root, reward)
    # W = 0.99 * (0.99 * 1 + 0) + 1, N = 0.99 * (0.99 * 1 + 1) + 1.
    assert tree.root.own_reward == pytest.approx(1.9801, abs=1e-9)
    assert tree.root.own_count == pytest.approx(2.9701, abs=1e-9)
    assert tree.root.own_reward / tree.root.own_count == pytest.approx(0.666678, abs=5e-7)
    assert (tree.root.sub_reward, tree.root.sub_count) == (
        tree.root.own_reward,
        tree.root.own_count,
    )


def test_two_jobs_under_way_count_as_two_zeros() -> None:
    reward, count = discount_jobs(1.9801, 2.9701, 2, 0.99)
    # N' = 2.9701 * 0.9801 + (1 - 0.9801) / 0.01 = 2.910995 + 1.99.
    assert reward == pytest.approx(1.940696, abs=5e-7)
    assert count == pytest.approx(4.900995, abs=5e-7)
    assert reward / count == pytest.approx(0.395980, abs=5e-7)
    two_zeros = (1.9801 * 0.99 * 0.99, (2.9701 * 0.99 + 1) * 0.99 + 1)
    assert (reward, count) == pytest.approx(two_zeros)


def test_the_bonus() -> None:
    total = 4.900995 + 1
    assert total == pytest.approx(5.900995)
    assert bonus(total, 4.900995) == pytest.approx(0.851112, abs=5e-7)
    assert bonus(total, 1.0) == pytest.approx(1.884209, abs=5e-7)
    assert bonus(2, 0) == pytest.approx(11.7741, abs=5e-5)
    assert bonus(0, 0) == bonus(2, 0)


def test_the_tree_keeps_the_sums_with_jobs_ready() -> None:
    tree = Tree(gamma=0.99)
    (child,) = grow(tree, tree.root, "s")
    for reward in (1.0, 0.0, 1.0):
        tree.start(child)
        tree.finish(child, reward)
    tree.start(child)
    tree.start(child)
    for node in (child, tree.root):
        assert node.count == pytest.approx(4.900995, abs=5e-7)
        assert node.mean == pytest.approx(0.395980, abs=5e-7)
        assert node.scale == pytest.approx(4.900995**-0.5, abs=1e-7)
    assert (tree.root.own_count, tree.root.own_jobs, tree.root.sub_jobs) == (0, 0, 2)
    check_invariants(tree)


def test_a_tie_favours_expanding_here_and_jobs_push_away() -> None:
    strategy = build_strategy()
    tree = strategy.tree
    assert strategy.pick() is tree.root
    first, second = (grow(tree, tree.root, state)[0] for state in "st")
    # Three arms that were never tried: all scores are 11.77.
    assert strategy.pick() is tree.root
    tree.start(tree.root)
    # One job: the root's own N' is 1, those of the children 0; the older child comes first.
    assert strategy.pick() is first
    tree.start(first)
    assert strategy.pick() is second
    tree.withdraw(first)
    assert strategy.pick() is first


def test_selection_weighs_mean_and_bonus_down_to_a_leaf() -> None:
    strategy = build_strategy()
    tree = strategy.tree
    first, leaf = grow(tree, tree.root, "s", "t")
    other, _ = grow(tree, tree.root, "u", "v")
    for node, reward in ((tree.root, 0.0), (first, 0.0), (leaf, 1.0), (other, 1.0)):
        tree.start(node)
        tree.finish(node, reward)
    # N: root itself 1; first's subtree 1.99 with W 1; other's subtree 1 with W 1.
    # T = 3.99: other 1 + sqrt(2 ln 3.99) = 2.66 beats first 0.50 + 1.18 and the root 0 + 1.66.
    # At other: own N 1, its child 0.01: the child's bonus is larger, and it is a leaf.
    assert strategy.pick().state == "v"
    for _ in range(20):
        tree.start(other)
        tree.finish(other, 0.0)
    # other after 20 zeros: W = 0.99**20 = 0.818, N = (1 - 0.99**21) / 0.01 = 19.03, so T = 22.02
    # and 2 ln T = 6.184: other 0.04 + 0.57, first 1 / 1.99 + 1.76 = 2.27, the root 0 + 2.49.
    assert strategy.pick() is tree.root
    tree.start(tree.root)
    # The root's N' is 1.99 now, and first has the better mean.
    assert strategy.pick() is leaf


def insert(states: list[tuple[int, str]], start: int = 0) -> tuple[Tree, list[str], list[str]]:
    tree = Tree()
    tree.root.state = "r"
    way, new = tree.insert(tree.root, start, "abcdef", states)
    return tree, [node.state for node in way], [node.state for node in new]


def test_unchanged_goals_collapse_and_the_prefix_is_passed_over() -> None:
    tree, way, new = insert([(1, "r"), (2, "s"), (3, "s"), (4, "t"), (5, "s")])
    assert way == new == ["s", "t", "s"]
    assert [tree.prefix(node).text for node in tree.nodes] == ["", "ab", "abcd", "abcde"]
    assert insert([(1, "s"), (2, "t"), (3, "u")], start=2)[1] == ["u"]
    assert insert([(1, "r"), (2, "r")])[1] == []


def test_the_same_state_under_two_parents_is_two_nodes_and_texts_gather() -> None:
    tree = Tree(max_prefixes=2)
    tree.insert(tree.root, 0, "ac", [(1, "s"), (2, "z")])
    tree.insert(tree.root, 0, "bc", [(1, "t"), (2, "z")])
    tree.insert(tree.root, 0, "dc", [(1, "s"), (2, "z")])
    tree.insert(tree.root, 0, "acc", [(1, "s"), (2, "z")])
    assert [node.state for node in tree.nodes] == ["", "s", "z", "t", "z"]
    z = tree.nodes[2]
    assert [tree.prefix(z, draw).text for draw in range(3)] == ["ac", "dc", "ac"]
    tree.insert(tree.root, 0, "ec", [(1, "s"), (2, "z")])
    assert len(z.prefixes) == 2  # the bound
    check_invariants(tree)


def test_the_reward_is_one_for_a_new_node_and_nothing_else() -> None:
    # A new state, the same again in other words, an error at once, then a further state.
    world = World(script=["a", "an", "x", "ab"])
    tree = run_search(world, calls=4, max_in_flight=1).tree["tree"]
    assert world.verified == ["a", "an", "x", "ab"]
    gained = [(node["state"], node["subtree"][:2]) for node in tree["nodes"]]
    # Rewards in order 1, 0, 0, 1 over the whole tree: W = 0.99**3 + 1.
    assert gained[0][1][0] == pytest.approx(0.99**3 + 1)
    assert [state for state, _ in gained] == ["", "a", "ab"]


def test_an_expansion_of_which_nothing_was_judged_found_nothing_new() -> None:
    world = World(script=["a", "b"], statuses={"a": Status.TIMEOUT})
    found = run_search(world, calls=2)
    root = found.tree["tree"]["nodes"][0]
    assert (found.calls, found.expansions) == (2, 2)
    # Rewards in order 0, 1: gamma is 0.99.
    assert root["subtree"] == pytest.approx([1.0, 1.99, 0])


def describe(tree: dict[str, Any]) -> list[dict[str, Any]]:
    """A tree as a reader wants it, sums to six places."""
    return [
        {
            "parent": node["parent"],
            "state": node["state"],
            "texts": [tree["bodies"][body][:end] for body, end in node["texts"]],
            "own": [round(value, 6) for value in node["own"]],
            "subtree": [round(value, 6) for value in node["subtree"]],
        }
        for node in tree["nodes"]
    ]


def test_the_golden_tree() -> None:
    """Twelve calls in the world of letters, small enough to be read by hand."""
    world = World(target="abab", letters="aabbnx", length=2)
    found = run_search(world, seed=2, calls=12, name="rmax_ts")
    stored = json.loads(GOLDEN.read_text("utf-8"))
    assert world.verified == stored["verified"]
    assert [text for text, *_ in world.asked] == stored["expanded"]
    assert describe(found.tree["tree"]) == stored["nodes"]
