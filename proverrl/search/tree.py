"""The tree of proof states that searches grow.

Flows in: bodies with the states on their way. Flows out: nodes with discounted counts. A node is a
state reached from its parent; an edge is named by that state, so that the same state under two
parents is two nodes (DeepSeek-Prover-V1.5, Xin et al. 2024, arXiv 2408.08152). A node keeps several
texts that reach it, each as a body and a length, so that a body is stored once however many nodes
lie on it. Not handled here: which node comes next (the strategies).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from proverrl.errors import RecordError
from proverrl.lang.records import Prefix, Segment

MIN_COUNT = 0.01
"""A node that was never visited counts as visited this often."""


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """A state, the texts that reach it, and two pairs of sums: its own and its subtree's.

    ``own_*`` tell of expansions made here, ``sub_*`` of those made here or below. ``*_jobs`` are
    expansions under way. ``value`` is what the strategy knows of the state by itself. ``mean`` and
    ``count`` are those of the subtree with the jobs under way, and ``scale`` is 1/sqrt(count):
    kept ready, because a selection reads them for every child.
    """

    id: int
    parent: Node | None
    state: str
    depth: int = 0
    children: dict[str, Node] | None = None
    prefixes: list[tuple[str, int]] = field(default_factory=list)
    own_reward: float = 0.0
    own_count: float = 0.0
    own_jobs: int = 0
    sub_reward: float = 0.0
    sub_count: float = 0.0
    sub_jobs: int = 0
    value: float = 0.0
    mean: float = 0.0
    count: float = 0.0
    scale: float = 1 / math.sqrt(MIN_COUNT)

    def __post_init__(self) -> None:
        if self.parent is not None:
            self.depth = self.parent.depth + 1


def discount_jobs(reward: float, count: float, jobs: int, gamma: float) -> tuple[float, float]:
    """The sums as if the ``jobs`` under way had come back with reward 0 (virtual loss)."""
    if not jobs:
        return reward, count
    kept = gamma**jobs
    zeros = float(jobs) if gamma == 1 else (1 - kept) / (1 - gamma)
    return reward * kept, count * kept + zeros


class Tree:
    """Nodes by number, the root first. ``gamma`` 1 makes all sums plain.

    ``max_prefixes`` bounds the texts that a node keeps.
    """

    def __init__(self, *, gamma: float = 1.0, max_prefixes: int = 16) -> None:
        self.gamma = gamma
        self.max_prefixes = max_prefixes
        self.root = Node(0, None, "")
        self.root.prefixes.append(("", 0))
        self.nodes = [self.root]

    def __len__(self) -> int:
        return len(self.nodes)

    def prefix(self, node: Node, draw: int = 0) -> Prefix:
        """One of the node's texts, chosen by any number."""
        body, end = node.prefixes[draw % len(node.prefixes)]
        return Prefix(body[:end], node.state)

    def path(self, node: Node) -> list[Node]:
        """The nodes from the root to the node, both included."""
        return list(self.ancestors(node))[::-1]

    def ancestors(self, node: Node) -> Iterator[Node]:
        """The node itself, its parent, and so on to the root."""
        here: Node | None = node
        while here is not None:
            yield here
            here = here.parent

    def insert(
        self, node: Node, start: int, body: str, steps: Sequence[tuple[int, str]]
    ) -> tuple[list[Node], list[Node]]:
        """Add the states of a body below ``node``: the way (without ``node``) and its new nodes.

        ``steps`` are ends in the body and the states there; those up to ``start``, the length of
        the prefix, are passed over. Steps that leave the state as it is collapse: the shorter text
        reaches it already.
        """
        way: list[Node] = []
        new: list[Node] = []
        for end, state in steps:
            if end <= start or state == node.state:
                continue
            child = None if node.children is None else node.children.get(state)
            if child is None:
                child = self._add(Node(len(self.nodes), node, state))
                new.append(child)
            self._keep(child, body, end)
            way.append(child)
            node = child
        return way, new

    def _add(self, node: Node) -> Node:
        self.nodes.append(node)
        if node.parent is not None:
            if node.parent.children is None:
                node.parent.children = {}
            node.parent.children[node.state] = node
        return node

    def _keep(self, node: Node, body: str, end: int) -> None:
        if len(node.prefixes) >= self.max_prefixes:
            return
        if any(e == end and (b is body or b[:e] == body[:end]) for b, e in node.prefixes):
            return
        node.prefixes.append((body, end))

    def start(self, node: Node) -> None:
        """An expansion of the node is under way."""
        node.own_jobs += 1
        for here in self.ancestors(node):
            here.sub_jobs += 1
            self._refresh(here)

    def withdraw(self, node: Node) -> None:
        """An expansion ended that says nothing, as when the budget ended before it could ask."""
        node.own_jobs -= 1
        for here in self.ancestors(node):
            here.sub_jobs -= 1
            self._refresh(here)

    def finish(self, node: Node, reward: float) -> None:
        """An expansion ended: its reward first, and then it is no longer under way."""
        self.record(node, reward)
        self.withdraw(node)

    def record(self, node: Node, reward: float) -> None:
        """A reward for the node; its ancestors get it in their subtree's sums."""
        gamma = self.gamma
        node.own_reward = gamma * node.own_reward + reward
        node.own_count = gamma * node.own_count + 1
        for here in self.ancestors(node):
            here.sub_reward = gamma * here.sub_reward + reward
            here.sub_count = gamma * here.sub_count + 1
            self._refresh(here)

    def _refresh(self, node: Node) -> None:
        reward, count = discount_jobs(node.sub_reward, node.sub_count, node.sub_jobs, self.gamma)
        floor = count if count > MIN_COUNT else MIN_COUNT
        node.count = count
        node.mean = reward / floor
        node.scale = 1 / math.sqrt(floor)

    def state_dict(self) -> dict[str, Any]:
        """Everything, as JSON values; each body once."""
        bodies: dict[str, int] = {}
        nodes = [
            {
                "parent": None if node.parent is None else node.parent.id,
                "state": node.state,
                "texts": [[bodies.setdefault(b, len(bodies)), end] for b, end in node.prefixes],
                "own": [node.own_reward, node.own_count, node.own_jobs],
                "subtree": [node.sub_reward, node.sub_count, node.sub_jobs],
                "value": node.value,
            }
            for node in self.nodes
        ]
        return {"bodies": list(bodies), "nodes": nodes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replace everything by what ``state_dict`` gave."""
        bodies, self.nodes = state["bodies"], []
        for number, raw in enumerate(state["nodes"]):
            parent = None if raw["parent"] is None else self.nodes[raw["parent"]]
            node = self._add(Node(number, parent, raw["state"]))
            node.prefixes = [(bodies[index], end) for index, end in raw["texts"]]
            if any(isinstance(n, str) or not n >= 0 for n in (*raw["own"], *raw["subtree"])):
                raise ValueError(f"node {number}: wrong counts")
            node.own_reward, node.own_count, node.own_jobs = raw["own"]
            node.sub_reward, node.sub_count, node.sub_jobs = raw["subtree"]
            node.value = raw["value"]
            self._refresh(node)
        self.root = self.nodes[0]


def steps_of(body: str, segments: Sequence[Segment]) -> tuple[tuple[int, str], ...]:
    """Ends and states of a body's segments; ``RecordError`` for one that is no part of the body."""
    for segment in segments:
        if not body.startswith(segment.text):
            raise RecordError(
                f"a segment's text is not the beginning of its body: {segment.text[:60]!r}"
            )
    return tuple((len(segment.text), segment.state) for segment in segments)
