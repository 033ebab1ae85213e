"""What there is to see of a search tree: its nodes as rows, its figures, and the way to a proof.

Flows in: a tree and bodies that were proved. Flows out: rows for ``tree.json``, and the figures
that a terminal shows while it grows. Not handled here: drawing (``picture``, ``display``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.search.states_dafny import NOTHING_KNOWN
from proverrl.search.tree import Node, Tree
from proverrl.types import Language
from proverrl.verify.lean_goals import NO_GOALS

_NO_OBLIGATION = ("in: ", "at: ")
_RELATED = "Related location"


@dataclass(frozen=True, slots=True)
class TreeFigures:
    """``open_states`` are those that nobody has expanded or is expanding. ``best`` is the deepest
    state, of several that with the fewest obligations known to be open, ``num_open`` (None when
    its key does not say), ``way`` its states from the root's child on. ``widths`` counts the
    nodes of each depth, the root's first."""

    nodes: int
    depth: int
    open_states: int
    best: int
    num_open: int | None
    way: tuple[str, ...]
    widths: tuple[int, ...]


def count_open(state: str, language: Language) -> int | None:
    """The obligations that a state's key names as open, at least; None when it names none and does
    not say that there are none either (the root, states that are texts)."""
    if not state or state.startswith("text: "):
        return None
    if language == "lean":
        return 0 if state == NO_GOALS else state.count("\n\n") + 1
    if NO_GOALS in (state, state.partition("\n")[0]):
        return 0
    lines = [line for line in state.split("\n") if not line.startswith(_NO_OBLIGATION)]
    if lines == [NOTHING_KNOWN]:
        return 0
    # Dafny names a return path once, and each postcondition that fails on it as a place.
    num_places = sum(line.startswith(_RELATED) for line in lines)
    return max(num_places, len(lines) - num_places)


def measure_tree(tree: Tree, language: Language) -> TreeFigures:
    """The figures of a tree as it is. O(nodes)."""
    widths: list[int] = []
    for node in tree.nodes:
        widths += [0] * (node.depth + 1 - len(widths))
        widths[node.depth] += 1
    deepest = [node for node in tree.nodes if node.depth == len(widths) - 1]

    def rank(node: Node) -> tuple[float, int]:
        num = count_open(node.state, language)
        return (float("inf") if num is None else num), node.id

    best = min(deepest, key=rank)
    return TreeFigures(
        nodes=len(tree),
        depth=len(widths) - 1,
        open_states=sum(not node.own_count and not node.own_jobs for node in tree.nodes),
        best=best.id,
        num_open=count_open(best.state, language),
        way=tuple(node.state for node in tree.path(best)[1:]),
        widths=tuple(widths),
    )


def list_nodes(tree: Tree) -> list[dict[str, Any]]:
    """The nodes as JSON values, parents first. ``text`` is the first text that reached the state;
    ``visits`` and ``reward`` are the sums of its subtree and ``expansions`` counts its own, all
    three discounted where the search discounts."""
    return [
        {
            "id": node.id,
            "parent": None if node.parent is None else node.parent.id,
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
        for node in tree.nodes
    ]


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


def describe_tree(
    tree: Tree, *, problem_id: str, name: str, bodies: Sequence[str]
) -> dict[str, Any]:
    """What ``tree.json`` holds: the nodes, and for each proof the nodes on its way."""
    return {
        "problem": problem_id,
        "search": name,
        "nodes": list_nodes(tree),
        "proofs": [{"way": find_way(tree, body), "body": body} for body in bodies],
    }
