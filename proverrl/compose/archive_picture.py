"""An archive as a picture for the report: who was made from whom, by which operator.

Flows in: an archive. Flows out: SVG text that needs nothing else.
Not handled here: archives of thousands in one view; the newest are drawn with their ancestors, and
the picture says how many are left out.
"""

from __future__ import annotations

from html import escape

import networkx as nx

from proverrl.compose.archive import ProblemArchive

MAX_NODES = 240
_STEP_X, _STEP_Y, _MARGIN, _RADIUS = 130, 16, 24, 5
_COLOURS = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f"),
    *("#86bcb6", "#d37295", "#499894", "#b6992d", "#79706e", "#fabfd2", "#8cd17d", "#a0cbe8"),
)
_BASE_COLOUR = "#c8c8c8"


def draw_archive(archive: ProblemArchive, *, max_nodes: int = MAX_NODES) -> str:
    """The graph from left (problems that were not composed) to right, a column a generation.

    A circle is a problem, its colour the operator; hollow when a guard stopped it. Its title holds
    id, operator, round and facts.
    """
    graph = _choose(archive, max_nodes)
    columns = [sorted(column) for column in nx.topological_generations(graph)]
    places = {
        name: (_MARGIN + x * _STEP_X, _MARGIN + 20 + y * _STEP_Y)
        for x, column in enumerate(columns)
        for y, name in enumerate(column)
    }
    operators = sorted({str(op) for _, op in graph.nodes(data="operator")} - {"base"})
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(operators)}
    width = 2 * _MARGIN + max(1, len(columns)) * _STEP_X + 160
    rows = max([len(column) for column in columns] + [len(operators) + 1])
    height = 2 * _MARGIN + 20 + rows * _STEP_Y
    left_out = len(archive) - sum(name in archive for name in graph)
    head = f"{len(archive)} composed problems" + (f", {left_out} not drawn" if left_out else "")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<text x="{_MARGIN}" y="{_MARGIN}">{escape(head)}</text>',
    ]
    for start, end in graph.edges:
        (x1, y1), (x2, y2) = places[start], places[end]
        parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#999" stroke-opacity="0.4"/>'
        )
    for name, facts in graph.nodes(data=True):
        x, y = places[name]
        colour = colours.get(facts["operator"], _BASE_COLOUR)
        fill = "none" if facts.get("stopped_by") else colour
        title = ", ".join([name, *(f"{key} {value}" for key, value in sorted(facts.items()))])
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="{_RADIUS}" fill="{fill}" stroke="{colour}">'
            f"<title>{escape(title)}</title></circle>"
        )
    for row, name in enumerate(["base", *operators]):
        x, y = width - 160, _MARGIN + 20 + row * _STEP_Y
        colour = colours.get(name, _BASE_COLOUR)
        parts.append(f'<circle cx="{x}" cy="{y}" r="{_RADIUS}" fill="{colour}"/>')
        parts.append(f'<text x="{x + 10}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _choose(archive: ProblemArchive, max_nodes: int) -> nx.DiGraph[str]:
    """The newest problems with all that they were made from, up to a number of nodes."""
    graph = archive.graph
    chosen: set[str] = set()
    for composed in reversed(list(archive)):
        family = {composed.problem.id, *nx.ancestors(graph, composed.problem.id)}
        if len(chosen | family) > max_nodes:
            break
        chosen |= family
    return graph.subgraph(chosen)
