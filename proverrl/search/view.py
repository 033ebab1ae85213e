"""Views of a search tree: its nodes as rows, and its figures.

Flows in: a tree and bodies that were proved. Flows out: rows for ``tree.json``, and the figures
that a terminal shows while a tree grows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.lang import find_language
from proverrl.search.tree import Node, Tree

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TreeFigures:
    """``open_states`` were not expanded and are not being expanded. The best state is the deepest;
    of several, the one with the fewest obligations known to be open, ``num_open``
    (None when its key does not say). ``way`` has the states to it from the root's child on.
    ``widths`` counts the nodes of each depth, the root's first."""

    nodes: int
    depth: int
    open_states: int
    num_open: int | None
    way: tuple[str, ...]
    widths: tuple[int, ...]


def count_open(state: str, language: str) -> int | None:
    """See ``Searching.count_open``; None for a language without states."""
    searching = find_language(language).searching
    return None if searching is None else searching.count_open(state)


def measure_tree(tree: Tree | None, language: str) -> TreeFigures:
    """The figures of a tree, of one that has not begun too. O(nodes)."""
    if tree is None:
        return TreeFigures(0, 0, 0, None, (), ())
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


def describe_tree(
    tree: Tree | None, *, problem_id: str, name: str, bodies: Sequence[str]
) -> dict[str, Any]:
    """The content of ``tree.json``: the nodes, parents first, and for each proof those on its way.

    ``text`` is the first text that reached a state; ``visits`` and ``reward`` are the sums of its
    subtree and ``expansions`` counts its own, all three discounted where the search discounts.
    """
    return {
        "problem": problem_id,
        "search": name,
        "nodes": [] if tree is None else [_describe_node(tree, node) for node in tree.nodes],
        "proofs": [
            {"way": [] if tree is None else find_way(tree, body), "body": body} for body in bodies
        ],
    }


def _describe_node(tree: Tree, node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "parent": node.parent.id if node.parent else None,
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
        waiting += [
            [*way, child]
            for child in (way[-1].children or {}).values()
            if any(body.startswith(text[:end]) for text, end in child.prefixes)
        ]
    return [node.id for node in found]
