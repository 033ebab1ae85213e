"""Divides problems into two halves that share nothing.

Flows in: problems. Flows out: the side of each. What is the same or nearly the same
(``contamination``), and what comes from one project, stays on one side, so that a figure on the
held-out side is no memory of the other. Not handled here: reading and writing of files.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import networkx as nx

from proverrl.problems.contamination import NEAR_SHARE, OverlapIndex, take_statements
from proverrl.seeds import derive_seed
from proverrl.types import Problem


def find_groups(problems: Sequence[Problem], project: re.Pattern[str] | None) -> list[list[int]]:
    """The places of problems that belong together. The problems of a project are those in whose id
    ``project`` first matches the same text."""
    graph: nx.Graph[int | str] = nx.Graph()
    graph.add_nodes_from(range(len(problems)))
    statements = take_statements(problems)
    index = OverlapIndex(statements)
    # Two problems may have one id.
    places: dict[str, list[int]] = {}
    for place, problem in enumerate(problems):
        places.setdefault(problem.id, []).append(place)
        if project and (named := project.search(problem.id)):
            graph.add_edge(place, named.group())
    for place, statement in enumerate(statements):
        for match in index.find(statement):
            if match.share >= NEAR_SHARE:
                graph.add_edges_from((place, other) for other in places[match.benchmark_id])
    groups = nx.connected_components(graph)
    return [sorted(node for node in group if isinstance(node, int)) for group in groups]


def divide(
    problems: Sequence[Problem], share: float, *, seed: int, project: re.Pattern[str] | None = None
) -> list[bool]:
    """For each problem whether it is held out: of each family so large a ``share`` as groups allow.
    Larger groups are placed first, and ``seed`` orders those of one size."""
    held = [False] * len(problems)
    # Of each family, by how many problems more are held out than its share of those placed.
    excess = defaultdict[str, float](float)

    def rank(group: Sequence[int]) -> tuple[int, int]:
        return -len(group), derive_seed(seed, "split", problems[group[0]].id)

    for group in sorted(find_groups(problems, project), key=rank):
        families = Counter(problems[place].family for place in group)

        def weigh(added: float, families: Counter[str] = families) -> float:
            return sum(abs(excess[name] + n * added) for name, n in families.items())

        is_held = weigh(1.0 - share) < weigh(-share)
        for name, n in families.items():
            excess[name] += n * (is_held - share)
        for place in group:
            held[place] = is_held
    return held
