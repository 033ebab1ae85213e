"""What there is to see of a search tree: its nodes as rows, its figures, and the way to a proof.

Flows in: a tree and bodies that were proved. Flows out: rows for ``tree.json``, and the figures
that a terminal shows while it grows. Not handled here: drawing (``picture``, ``display``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Protocol, runtime_checkable

from proverrl.lang import find_language
from proverrl.search.base import Searching
from proverrl.search.run import Search
from proverrl.search.tree import Node, Tree


@dataclass(frozen=True, slots=True)
class TreeFigures:
    """``open_states`` are those that nobody has expanded or is expanding. The best state is the
    deepest, of several that with the fewest obligations known to be open: ``num_open`` of them
    (None when its key does not say); ``way`` has the states to it from the root's child on.
    ``widths`` counts the nodes of each depth, the root's first."""

    nodes: int
    depth: int
    open_states: int
    num_open: int | None
    way: tuple[str, ...]
    widths: tuple[int, ...]


@runtime_checkable
class HasTrees(Protocol):
    """A search that is made of several: their trees with the ids of their problems, that of the
    whole problem first."""

    def trees(self) -> list[tuple[str, Tree]]: ...


def count_open(state: str, language: str) -> int | None:
    """See ``Searching.count_open``; None for a language without states."""
    searching = find_language(language).searching
    return None if searching is None else searching.count_open(state)


def find_trees(search: Searching) -> list[tuple[str, Tree]]:
    """The trees of a search with the ids of their problems: its own, and for one that is made of
    several what its ``trees`` gives; none where it has no such method."""
    if isinstance(search, Search):
        return [(search.problem.id, search.strategy.tree)]
    if isinstance(search, HasTrees):
        return search.trees()
    return []


def measure_trees(trees: Sequence[tuple[str, Tree]], language: str) -> TreeFigures:
    """The figures of trees side by side; ``best`` is that of the first that is as deep as any.
    O(nodes)."""
    measured = [_measure_tree(tree, language) for _, tree in trees]
    if not measured:
        return TreeFigures(0, 0, 0, None, (), ())
    deepest = max(measured, key=lambda figures: figures.depth)
    widths = zip_longest(*(figures.widths for figures in measured), fillvalue=0)
    return TreeFigures(
        nodes=sum(figures.nodes for figures in measured),
        depth=deepest.depth,
        open_states=sum(figures.open_states for figures in measured),
        num_open=deepest.num_open,
        way=deepest.way,
        widths=tuple(map(sum, widths)),
    )


def _measure_tree(tree: Tree, language: str) -> TreeFigures:
    widths: list[int] = []
    for node in tree.nodes:
        widths += [0] * (node.depth + 1 - len(widths))
        widths[node.depth] += 1
    deepest = [node for node in tree.nodes if node.depth == len(widths) - 1]

    def rank(node: Node) -> tuple[float, int]:
        num = count_open(node.state, language)
        return (math.inf if num is None else num), node.id

    best = min(deepest, key=rank)
    return TreeFigures(
        nodes=len(tree),
        depth=len(widths) - 1,
        open_states=sum(not node.own_count and not node.own_jobs for node in tree.nodes),
        num_open=count_open(best.state, language),
        way=tuple(node.state for node in tree.path(best)[1:]),
        widths=tuple(widths),
    )


def describe_trees(
    trees: Sequence[tuple[str, Tree]], *, problem_id: str, name: str, bodies: Sequence[str]
) -> dict[str, Any]:
    """What ``tree.json`` holds: the nodes, parents first, and for each proof those on its way.

    ``text`` is the first text that reached a state; ``visits`` and ``reward`` are the sums of its
    subtree and ``expansions`` counts its own, all three discounted where the search discounts.
    Further trees hang below the first one's root; ``part`` names their problems.
    """
    nodes: list[dict[str, Any]] = []
    for part, tree in trees:
        start = len(nodes)
        for node in tree.nodes:
            row = _describe_node(node, tree)
            row["id"] += start
            row["depth"] += bool(start)
            row["parent"] = 0 if node.parent is None else row["parent"] + start
            nodes.append(row | {"part": part})
    if nodes:
        nodes[0]["parent"] = None
    first = trees[0][1] if trees else None
    ways = [find_way(first, body) if first else [] for body in bodies]
    return {
        "problem": problem_id,
        "search": name,
        "nodes": nodes,
        "proofs": [{"way": way, "body": body} for way, body in zip(ways, bodies, strict=True)],
    }


def _describe_node(node: Node, tree: Tree) -> dict[str, Any]:
    return {
        "id": node.id,
        "parent": -1 if node.parent is None else node.parent.id,
        "depth": node.depth,
        "state": node.state,
        "text": tree.prefix(node).text,
        "texts": len(node.prefixes),
        "visits": node.sub_count,
        "reward": node.sub_reward,
        "expansions": node.own_count,
        "value": node.value,
        "under_way": node.own_jobs,
    }


def find_way(tree: Tree, body: str) -> list[int]:
    """The nodes that a proof passes, the root first: those with a text that the body begins with,
    as far down as they go."""
    way = [tree.root]
    found = way
    waiting = [way]
    while waiting:
        way = waiting.pop()
        if len(way) > len(found):
            found = way
        children = (way[-1].children or {}).values()
        waiting += [[*way, child] for child in children if _reaches(child, body)]
    return [node.id for node in found]


def _reaches(node: Node, body: str) -> bool:
    return any(body.startswith(text[:end]) for text, end in node.prefixes)
