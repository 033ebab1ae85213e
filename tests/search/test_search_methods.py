"""The searches one by one: where they expand, by hand; and the tree's size and cost."""

from __future__ import annotations

import asyncio
import gc
import math
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.config.search import SearchConfig
from proverrl.search.minimise import minimise
from proverrl.search.strategy import BestFirst, RMaxTS
from proverrl.search.tree import Node, Tree
from proverrl.types import Candidate, Status, Verdict
from tests.builders import build_verdict
from tests.search_world import PROBLEM, World, build_search, check_invariants, run_search


def expanded(world: World, **config: Any) -> list[str]:
    """The prefixes that a search expanded, in order."""
    run_search(world, **config)
    return [text for text, *_ in world.asked]


# --- RMaxTS against its definition ---


def naive_score(rewards: list[float], jobs: int, total: float, gamma: float) -> float:
    weight = count = 0.0
    for reward in [*rewards, *[0.0] * jobs]:
        weight, count = gamma * weight + reward, gamma * count + 1
    count = max(count, 0.01)
    return weight / count + math.sqrt(2 * math.log(max(total, 2)) / count)


def naive_count(updates: int, gamma: float) -> float:
    return float(sum(gamma**k for k in range(updates)))


@settings(max_examples=40, deadline=None)
@given(moves=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=60))
def test_every_selection_is_that_of_the_definition(moves: list[tuple[int, int]]) -> None:
    """Jobs begin, end with new states or none, in any order; scores come from plain lists."""
    strategy = RMaxTS(SearchConfig(), World().functions())
    tree = strategy.tree
    tree.gamma = 0.9
    own: dict[int, list[float]] = {0: []}
    below: dict[int, list[float]] = {0: []}
    jobs: list[Node] = []
    for kind, number in moves:
        if kind == 0 and jobs:
            node = jobs.pop(number % len(jobs))
            steps = [(k + 1, f"{number}.{k}") for k in range(number % 3)]
            new = tree.insert(node, 0, "..", steps)[1]
            for fresh in new:
                own[fresh.id], below[fresh.id] = [], []
            reward = float(bool(new))
            own[node.id].append(reward)
            for here in tree.ancestors(node):
                below[here.id].append(reward)
            tree.finish(node, reward)
            continue
        # Sums in another order differ in the last bits, so that of scores nearly the same any may
        # be the largest: all that could be picked then.
        right: list[Node] = []
        waiting = [tree.root]
        while waiting:
            here = waiting.pop()
            if not here.children:
                right.append(here)
                continue
            counts = [
                naive_count(len(below[c.id]) + c.sub_jobs, 0.9) for c in here.children.values()
            ]
            total = naive_count(len(own[here.id]) + here.own_jobs, 0.9) + sum(counts)
            scores = [naive_score(own[here.id], here.own_jobs, total, 0.9)] + [
                naive_score(below[c.id], c.sub_jobs, total, 0.9) for c in here.children.values()
            ]
            best = [k for k, score in enumerate(scores) if score > max(scores) - 1e-9]
            nodes = list(here.children.values())
            right += [here] * (0 in best)
            waiting += [nodes[k - 1] for k in best if k]
        chosen = strategy.pick()
        assert chosen in right
        tree.start(chosen)
        jobs.append(chosen)
    check_invariants(tree)


# --- best of n, self-correction ---


def test_best_of_n_begins_at_nothing_every_time() -> None:
    world = World(target="abababab")
    assert set(expanded(world, name="best_of_n", calls=20)) == {""}
    # One body a time; of a larger width the last expansion asks for what may still be judged.
    for width, asked in ((0, [1] * 5), (4, [4, 1])):
        world = World(target="none", script=["a", "b", "ab", "ba", "aa"])
        expanded(world, name="best_of_n", calls=5, width=width)
        assert [num for _, _, num, _ in world.asked] == asked


def test_self_correction_is_chains_of_three() -> None:
    world = World(target="none", script=["a", "b", "ab"])
    corrected: list[tuple[str, Status, int]] = []

    async def correct(problem: Any, body: str, verdict: Verdict, seed: int) -> Any:
        corrected.append((body, verdict.status, seed))
        return world.proposal(body + "a")

    functions = world.functions(correct=correct)
    search = build_search(world, name="self_correct", calls=7)
    object.__setattr__(search, "functions", functions)
    found = asyncio.run(search.run())
    # 3 + 3 calls, and one is left for the third chain.
    assert world.verified == ["a", "aa", "aaa", "b", "ba", "baa", "ab"]
    assert [body for body, *_ in corrected] == ["a", "aa", "b", "ba"]
    assert {status for _, status, _ in corrected} == {Status.REJECTED}
    assert len({seed for *_, seed in corrected}) == 4
    assert (found.calls, found.expansions) == (7, 3)


# --- best-first ---


def test_best_first_expands_the_likeliest_state_for_its_depth() -> None:
    world = World()
    config = SearchConfig(name="best_first")
    strategy = BestFirst(config, world.functions())
    tree = strategy.tree
    for body, logprob in (("ab", -0.3), ("b", -0.2)):
        way, _ = tree.insert(tree.root, 0, body, [(k + 1, body[: k + 1]) for k in range(len(body))])
        for node in way:
            node.value = logprob * node.prefixes[0][1] / len(body)
    scores = {node.state: strategy.score(node) for node in tree.nodes[1:]}
    # By length of text, "a" has half of -0.3.
    assert scores == pytest.approx({"a": -0.15, "ab": -0.3 / math.sqrt(2), "b": -0.2})


def test_best_first_takes_states_in_order_and_each_once() -> None:
    world = World(target="none", script=["ab", "aab", "aba", "aabb"])
    # "ab" -0.3: a -0.15, ab -0.3 / 1.41 = -0.212. a first: "aab" adds -0.3 over two letters to
    # -0.15: aa -0.30 / 1.41 = -0.212, aab -0.45 / 1.73 = -0.26. ab and aa tie; ab is the
    # older, and "aba" adds aba: (-0.3 - 0.1) / 1.73 = -0.231. Then aa.
    found = expanded(world, name="best_first", width=1, calls=4)
    assert found == ["", "a", "ab", "aa"]


def test_best_first_does_not_stay_where_every_body_runs_into_the_deadline() -> None:
    script = ["ax", "bx", "aa", "ab", "bbx", "bax"]
    world = World(script=script, statuses=dict.fromkeys(("aa", "ab"), Status.TIMEOUT))
    assert expanded(world, name="best_first", width=2, calls=6) == ["", "a", "b"]


def test_best_first_goes_on_where_it_was_least_when_nothing_is_open() -> None:
    """A sure policy writes the same again: the tree is not left for the root."""
    world = World(target="none", script=["ab"] * 6)
    search = build_search(world, name="best_first", width=1, calls=9, max_idle=5)
    asyncio.run(search.run())
    # The root, a and ab; then again, the root first, whose score is the highest.
    assert [prefix for _, prefix, _, _ in world.asked][:6] == ["", "a", "ab", "", "a", "ab"]


# --- minimisation ---


def minimise_letters(body: str, needed: str, calls: int = 99, **kwargs: Any) -> Any:
    """A body of one letter a line proves what needs these letters, in this order."""
    asked: list[str] = []

    async def verify(candidate: Candidate) -> Verdict:
        asked.append(candidate.body)
        rest = iter(candidate.body)
        done = all(letter in rest for letter in needed)
        return build_verdict(Status.PROVED if done else Status.REJECTED)

    lines = "".join(f"{letter}\n" for letter in body)
    found = asyncio.run(minimise(PROBLEM, lines, verify, calls=calls, **kwargs))
    assert found.calls == len(asked) == len(set(asked)) <= calls
    left, refuted = (text.replace("\n", "") for text in (found.body, found.refuted))
    return replace(found, body=left, refuted=refuted)


def test_a_proof_loses_what_it_does_not_need() -> None:
    found = minimise_letters("abcdefgh", "be")
    assert (found.body, found.num_dropped, found.complete) == ("be", 6, True)
    assert found.verdict.proved
    # Halves of 4 from the end: fails twice. Quarters: gh goes, ef stays, cd goes, ab stays: abef.
    # Singles: f goes, e stays, b stays, a goes. A last pass over b and e. To drop ef is to keep
    # abcd, which was tried as a half: 2 + 3 + 4 + 2.
    assert found.calls == 11


def test_a_proof_that_needs_everything_stays() -> None:
    found = minimise_letters("abc", "abc")
    # Halves of 1 are single parts: three calls.
    assert (found.body, found.verdict, found.calls, found.complete) == ("abc", None, 3, True)


def test_a_proof_that_needs_nothing_loses_all() -> None:
    found = minimise_letters("abcd", "")
    assert (found.body, found.calls, found.complete) == ("", 2, True)


def test_minimisation_ends_with_its_calls_and_keeps_what_is_proved() -> None:
    found = minimise_letters("abcdefgh", "be", calls=3)
    assert (found.body, found.num_dropped, found.complete) == ("abcdef", 2, False)


@given(body=st.text("abc", max_size=12), picks=st.lists(st.integers(0, 11), max_size=4))
def test_no_single_part_can_be_dropped_in_the_end(body: str, picks: list[int]) -> None:
    needed = "".join(body[i] for i in sorted({p for p in picks if p < len(body)}))
    found = minimise_letters(body, needed, calls=999)
    assert found.complete
    assert found.body == needed


def test_the_fresh_verifier_has_the_last_word() -> None:
    async def refuse(candidate: Candidate) -> Verdict:
        return build_verdict(Status.REJECTED)

    found = minimise_letters("abc", "b", confirm=refuse)
    assert (found.body, found.refuted, found.num_dropped) == ("abc", "b", 0)


def test_only_proved_counts_when_parts_are_dropped() -> None:
    async def verify(candidate: Candidate) -> Verdict:
        return build_verdict(Status.TIMEOUT)

    found = asyncio.run(minimise(PROBLEM, "a\nb\n", verify, calls=9))
    assert (found.body, found.calls) == ("a\nb\n", 2)


# --- size ---


def test_a_node_takes_less_than_two_kilobytes() -> None:
    """10,000 nodes in bodies of ten states; goals of 200 characters and bodies of 600."""
    gc.collect()
    tracemalloc.start()
    tree = Tree(gamma=0.99)
    node = tree.root
    for number in range(1000):
        body = f"{number:06}" * 100
        steps = [(60 * (k + 1), f"{number:05}{k:05}" * 20) for k in range(10)]
        way, _ = tree.insert(node, 0, body, steps)
        tree.start(way[-1])
        tree.finish(way[-1], 1.0)
        node = tree.nodes[number % 100]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(tree) == 10_001
    per_node = size / len(tree)
    # Below 200 it would not hold the goals themselves: then this would measure nothing.
    assert 200 < per_node < 2000
