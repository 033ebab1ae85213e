"""Views of a search tree: its nodes as rows, its figures, and a picture of it.

Flows in: a tree and bodies that were proved. Flows out: rows for ``tree.json``, the figures that a
terminal shows while a tree grows, and an SVG that stands alone. The root is on the left, with a
column for each depth and a row for each leaf. The size of a node follows its visits; the ways to
proofs are green and end in a square; pointing at a node shows its state and text. In a large tree,
the nodes on the way to a proof are drawn first, then those visited most, and the picture says how
many are left out."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from proverrl.lang import find_language
from proverrl.search.tree import Node, Tree

MAX_NODES = 1500
MAX_TITLE = 2000
COLUMN, ROW, MARGIN, TOP = 96, 22, 28, 72

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #57606a }
text.head { font-size: 14px; font-weight: 600; fill: #24292f }
path { fill: none; stroke: #afb8c1; stroke-width: 1.2 }
path.proved { stroke: #1a7f37; stroke-width: 2.6 }
circle, rect.node { stroke: #57606a; fill: #ddf4ff }
circle.open { fill: #ffffff }
.node.proved { fill: #2da44e; stroke: #116329 }
.node:hover { stroke: #0969da; stroke-width: 3 }
"""

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


def draw_tree(described: Mapping[str, Any], *, heading: str, line: str = "") -> str:
    """The picture; ``heading`` and ``line`` stand above it."""
    green = {number for proof in described["proofs"] for number in proof["way"]}
    nodes: Sequence[Row] = described["nodes"]
    kept = choose_rows(nodes, green)
    shown = [*kept, *_make_ends(described)]
    places = place_rows(shown)
    most = max((row["visits"] for row in kept), default=0.0)
    svg = _open_picture(places, heading, line, num_left=len(nodes) - len(kept))
    for row in shown:
        if row["parent"] is not None:
            is_green = row["id"] < 0 or row["id"] in green
            _add_edge(svg, places[row["parent"]], places[row["id"]], is_green=is_green)
    for row in shown:
        _add_node(svg, row, places[row["id"]], most, is_green=row["id"] in green)
    return ET.tostring(svg, encoding="unicode") + "\n"


def choose_rows(nodes: Sequence[Row], green: set[int], limit: int = MAX_NODES) -> list[Row]:
    """At most about ``limit`` nodes with all their ancestors: those in ``green``, then those that
    were visited most, the older first."""
    if len(nodes) <= limit:
        return list(nodes)
    kept = {0, *green}
    for row in sorted(nodes, key=lambda row: (-row["visits"], row["id"])):
        if len(kept) >= limit:
            break
        number: int | None = row["id"]
        while number is not None and number not in kept:
            kept.add(number)
            number = nodes[number]["parent"]
    return [row for row in nodes if row["id"] in kept]


def place_rows(rows: Sequence[Row]) -> dict[int, tuple[float, float]]:
    """The place of each row's node, in pixels: leaves one below the other, a node in the middle of
    its first and its last child. Parents come before their children in ``rows``."""
    children: dict[int, list[int]] = {row["id"]: [] for row in rows}
    for row in rows:
        if row["parent"] is not None:
            children[row["parent"]].append(row["id"])
    depths = {row["id"]: row["depth"] for row in rows}
    heights: dict[int, float] = {}
    num_leaves = 0
    waiting = [(rows[0]["id"], False)] if rows else []
    while waiting:
        number, is_placed_below = waiting.pop()
        below = children[number]
        if is_placed_below:
            heights[number] = (heights[below[0]] + heights[below[-1]]) / 2
        elif below:
            waiting.append((number, True))
            waiting += [(child, False) for child in reversed(below)]
        else:
            heights[number] = float(num_leaves)
            num_leaves += 1
    return {
        number: (MARGIN + COLUMN * depths[number], TOP + ROW * height)
        for number, height in heights.items()
    }


def _make_ends(described: Mapping[str, Any]) -> list[Row]:
    """A row for each proof, below the last state on its way; their numbers are negative."""
    return [
        {
            "id": -1 - index,
            "parent": proof["way"][-1],
            "depth": len(proof["way"]),
            "state": "proved",
            "text": proof["body"],
            "visits": 0.0,
        }
        for index, proof in enumerate(described["proofs"] if described["nodes"] else ())
    ]


def _open_picture(
    places: Mapping[int, tuple[float, float]], heading: str, line: str, *, num_left: int
) -> ET.Element:
    width = max(760.0, MARGIN + max((x for x, _ in places.values()), default=0.0) + COLUMN)
    height = MARGIN + max((y for _, y in places.values()), default=float(TOP))
    svg = ET.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
    )
    ET.SubElement(svg, "style").text = _STYLE
    ET.SubElement(svg, "rect", width="100%", height="100%", fill="#ffffff")
    _add_text(svg, 22, heading, "head")
    _add_text(svg, 40, line)
    if num_left:
        _add_text(svg, 56, f"{num_left} nodes that were visited less are not drawn")
    return svg


def _add_text(svg: ET.Element, y: int, text: str, kind: str = "") -> None:
    element = ET.SubElement(svg, "text", x=str(MARGIN // 2), y=str(y))
    if kind:
        element.set("class", kind)
    element.text = _clean(text)


def _add_edge(
    svg: ET.Element, start: tuple[float, float], end: tuple[float, float], *, is_green: bool
) -> None:
    middle = (start[0] + end[0]) / 2
    bend = f"M{start[0]:.1f},{start[1]:.1f} C{middle:.1f},{start[1]:.1f} {middle:.1f},{end[1]:.1f}"
    edge = ET.SubElement(svg, "path", d=f"{bend} {end[0]:.1f},{end[1]:.1f}")
    if is_green:
        edge.set("class", "proved")


def _add_node(
    svg: ET.Element, row: Row, place: tuple[float, float], most: float, *, is_green: bool
) -> None:
    x, y = place
    if row["id"] < 0:
        node = ET.SubElement(
            svg, "rect", x=f"{x - 7:.1f}", y=f"{y - 7:.1f}", width="14", height="14"
        )
        node.set("class", "node proved")
    else:
        radius = 4 + 5 * math.sqrt(row["visits"] / most) if most > 0 else 4
        node = ET.SubElement(svg, "circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{radius:.1f}")
        is_open = not row["expansions"]
        kinds = ["node", *(["open"] if is_open else []), *(["proved"] if is_green else [])]
        node.set("class", " ".join(kinds))
    ET.SubElement(node, "title").text = _clean(_describe(row))


def _describe(row: Row) -> str:
    if row["id"] < 0:
        return f"proof:\n{_cut(row['text'])}"
    counts = {name: f"{row[name]:.3g}" for name in ("visits", "reward", "expansions", "value")}
    figures = ", ".join(f"{name} {value}" for name, value in counts.items())
    head = f"node {row['id']}, depth {row['depth']}, {figures}"
    state = row["state"] or "(not known)"
    return f"{head}\nstate: {_cut(state)}\ntext:\n{_cut(row['text']) or '(empty)'}"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TITLE else f"{text[:MAX_TITLE]} ..."


def _clean(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return _FORBIDDEN.sub("\ufffd", text)
