"""An archive as a picture for the report: who was made from whom, by which operator.

Flows in: an archive. Flows out: SVG text that needs nothing else.
Not handled here: archives of thousands in one view; the newest are drawn with their ancestors, and
the picture says how many are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from statistics import fmean
from typing import Any

import networkx as nx

from proverrl.compose.archive import ProblemArchive

MAX_NODES = 900
_ROWS, _STEP_X, _STEP_Y, _GAP, _MARGIN, _RADIUS = 48, 16, 16, 110, 24, 5
_LEGEND = 160
_COLOURS = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f"),
    *("#5b3a9e", "#d37295", "#499894", "#b6992d", "#79706e", "#fabfd2", "#8cd17d", "#a0cbe8"),
)
_BASE_COLOUR = "#a8a8a8"

Places = dict[str, tuple[int, int]]


def draw_archive(archive: ProblemArchive, drawn: nx.DiGraph[str] | None = None) -> str:
    """The graph from left (problems that were not composed) to right, a block a generation, in
    which rounds follow each other downwards, column after column. ``drawn`` is the part of it to
    draw, by itself what ``choose_newest`` gives.

    A circle is a problem, its colour the operator; hollow when a filter stopped it. ``data-id`` is
    its id; its title says what it was made of, its solve rate, and why it was stopped.
    """
    graph = choose_newest(archive) if drawn is None else drawn
    places, width = _place(graph)
    operators = sorted({str(op) for _, op in graph.nodes(data="operator")} - {"base"})
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(operators)}
    legend_y = [_MARGIN + 20 + row * _STEP_Y for row in range(len(operators) + 1)]
    height = max([y for _, y in places.values()] + legend_y) + _MARGIN
    left_out = len(archive) - sum(name in archive for name in graph)
    head = f"{len(archive)} composed problems" + (f", {left_out} not drawn" if left_out else "")
    text = f'font-family="sans-serif" font-size="11" viewBox="0 0 {width + _LEGEND} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + _LEGEND}" height="{height}" '
        f'fill="currentColor" {text}>',
        f'<text x="{_MARGIN}" y="{_MARGIN}">{escape(head)}</text>',
        f'<path stroke="#888" stroke-opacity="0.25" fill="none" d="{_draw_edges(graph, places)}"/>',
    ]
    for name, facts in graph.nodes(data=True):
        x, y = places[name]
        colour = colours.get(facts["operator"], _BASE_COLOUR)
        # Not "none": a hollow circle is to be hit by the pointer in its middle too.
        hollow = ' fill-opacity="0"' if facts.get("stopped_by") else ""
        parents = " + ".join(sorted(graph.predecessors(name)))
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="{_RADIUS}" fill="{colour}"{hollow} stroke="{colour}" '
            f'data-id="{escape(name)}"><title>{escape(_describe(name, parents, facts))}</title>'
            "</circle>"
        )
    for y, name in zip(legend_y, ["base", *operators], strict=True):
        colour = colours.get(name, _BASE_COLOUR)
        parts.append(f'<circle cx="{width}" cy="{y}" r="{_RADIUS}" fill="{colour}"/>')
        parts.append(f'<text x="{width + 10}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def choose_newest(archive: ProblemArchive, max_nodes: int = MAX_NODES) -> nx.DiGraph[str]:
    """The newest problems with all that they were made from, up to a number of nodes."""
    graph = archive.graph
    chosen: set[str] = set()
    for composed in reversed(list(archive)):
        family = {composed.problem.id, *nx.ancestors(graph, composed.problem.id)}
        if len(chosen | family) > max_nodes:
            break
        chosen |= family
    return nx.DiGraph(graph.subgraph(chosen))


def _describe(name: str, parents: str, facts: Mapping[str, Any]) -> str:
    if facts["operator"] == "base":
        return f"{name}: a base problem"
    text = f"{name}: {facts['operator']} of {parents}, round {facts['round']}"
    if facts.get("stopped_by"):
        return f"{text}, stopped by {facts['stopped_by']}: {facts.get('reason', '')}"
    rate = facts.get("solve_rate")
    return text if rate is None else f"{text}, p {rate:.2f}"


def _place(graph: nx.DiGraph[str]) -> tuple[Places, int]:
    """Where each problem stands, and where the last block ends; base problems stand about where
    their first children do."""
    order = {name: number for number, name in enumerate(graph)}
    rounds = nx.get_node_attributes(graph, "round")

    def by_round(name: str) -> tuple[float, int]:
        return rounds[name], order[name]

    def by_children(name: str) -> tuple[float, int]:
        return fmean(rounds[child] for child in graph.successors(name)), order[name]

    places: Places = {}
    x = _MARGIN
    for number, names in enumerate(nx.topological_generations(graph)):
        for row, name in enumerate(sorted(names, key=by_round if number else by_children)):
            column, line = divmod(row, _ROWS)
            places[name] = (x + column * _STEP_X, _MARGIN + 20 + line * _STEP_Y)
        x = max(at for at, _ in places.values()) + _GAP
    return places, x


def _draw_edges(graph: nx.DiGraph[str], places: Places) -> str:
    edges = sorted((places[start], places[end]) for start, end in graph.edges)
    return "".join(f"M{x1} {y1}L{x2} {y2}" for (x1, y1), (x2, y2) in edges)
