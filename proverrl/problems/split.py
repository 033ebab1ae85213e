"""Divides problems into two sides, one of which is held out.

Flows in: problems. Flows out: the side of each. What is the same or nearly the same
(``contamination``), and what comes from one project, stays on one side, so that a figure on the
held-out side is no memory of the other. Not handled here: reading and writing of files.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import networkx as nx

from proverrl.problems.contamination import NEAR_SHARE, OverlapIndex, take_statements
from proverrl.seeds import derive_seed
from proverrl.types import Problem


def find_groups(problems: Sequence[Problem], project: re.Pattern[str] | None) -> list[list[int]]:
    """The places of problems that belong together: those that hold half of what another states, and
    those in whose id ``project`` first matches the same text."""
    graph: nx.Graph[int | str] = nx.Graph()
    graph.add_nodes_from(range(len(problems)))
    # Problems of two files may have one id.
    statements = [
        replace(statement, id=str(place))
        for place, statement in enumerate(take_statements(problems))
    ]
    index = OverlapIndex(statements)
    for place, statement in enumerate(statements):
        if project and (named := project.search(problems[place].id)):
            graph.add_edge(place, named.group())
        for match in index.find(statement):
            if match.share >= NEAR_SHARE:
                graph.add_edge(place, int(match.benchmark_id))
    groups = nx.connected_components(graph)
    return [sorted(node for node in group if isinstance(node, int)) for group in groups]


def divide(
    problems: Sequence[Problem], share: float, *, seed: int, project: re.Pattern[str] | None = None
) -> list[bool]:
    """For each problem whether it is held out: each group goes where the ``share`` of all problems,
    and those of its families, are nearer to what is wanted, the largest group first. ``seed``
    orders groups of one size."""
    held = [False] * len(problems)
    # By how many problems more are held out than their share of those placed: of each family, and
    # of all (None).
    excess = defaultdict[str | None, float](float)

    def rank(group: Sequence[int]) -> tuple[int, int]:
        return -len(group), derive_seed(seed, "split", problems[group[0]].id)

    for group in sorted(find_groups(problems, project), key=rank):
        families = Counter[str | None](problems[place].family for place in group)
        families[None] = len(group)

        def weigh(added: float, families: Counter[str | None] = families) -> float:
            return sum(abs(excess[name] + n * added) for name, n in families.items())

        is_held = weigh(1.0 - share) < weigh(-share)
        for name, n in families.items():
            excess[name] += n * (is_held - share)
        for place in group:
            held[place] = is_held
    return held
