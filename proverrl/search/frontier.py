"""Searches that expand the best open state, wherever it is in the tree.

Flows in: expansions. Flows out: the open state with the highest score. When none is open, the state
that was expanded least is expanded again. Not handled here: tokens (``TrainingPath`` counts
characters of the body).
"""

from __future__ import annotations

import heapq
import math
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from proverrl.config.search import SearchConfig
from proverrl.search.base import Functions, Job, JudgedProposal, Proposal
from proverrl.search.strategy import Expansion, Strategy, text_of
from proverrl.search.tree import Node

MIN_WEIGHT = 0.1


class BestFirst(Strategy):
    """By length-normalised log-probability: the state whose way the policy found likeliest.

    A state's score is the log-probability of the way to it (``Node.value``, of the first way)
    divided by its depth to the power ``length_power`` (Xin et al. 2025, BFS-Prover, arXiv
    2502.03438). There a policy writes one tactic at a time; here it writes whole bodies, whose
    log-probability is shared out over their states by length of text.
    """

    WIDTH: ClassVar[int] = 4

    def __init__(self, config: SearchConfig, functions: Functions) -> None:
        super().__init__(config, functions)
        self._open: list[tuple[float, int]] = []

    def score(self, node: Node) -> float:
        """Log-probability of the way over depth ** ``length_power``."""
        return float(node.value / max(1, node.depth) ** self.config.length_power)

    def pick(self) -> Node:
        """The best open node, and when there is none the best of those expanded least; ties go to
        the older one."""
        if self._open:
            return self.tree.nodes[heapq.heappop(self._open)[1]]
        return max(
            self.tree.nodes, key=lambda node: (-node.own_count - node.own_jobs, self.score(node))
        )

    def absorb(self, job: Job, expansion: Expansion) -> None:
        """New states become open, each with its share of the body's log-probability."""
        node = self.tree.nodes[job.node]
        num_new = 0
        for judged in expansion.judged:
            _, new = self.insert(job, judged)
            num_new += len(new)
            proposal, start = judged.proposal, len(job.prefix.text)
            length = max(1, len(text_of(judged)) - start)
            for fresh in new:
                share = (fresh.prefixes[0][1] - start) / length
                fresh.value = node.value + proposal.logprob * share
                heapq.heappush(self._open, (-self.score(fresh), fresh.id))
        self.tree.finish(node, float(num_new > 0))

    def withdraw(self, job: Job) -> None:
        """The node is open again: nothing was learned from it."""
        super().withdraw(job)
        if job.node:
            heapq.heappush(self._open, (-self.score(self.tree.nodes[job.node]), job.node))

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "open": sorted(number for _, number in self._open)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        nodes = self.tree.nodes
        self._open = [(-self.score(nodes[number]), number) for number in state["open"]]
        heapq.heapify(self._open)


class TrainingPath(NamedTuple):
    """A body with an advantage for each stretch of it: ``ends`` (in characters, the last is the
    body's length), ``values`` (of the states there) and ``advantages`` go together."""

    body: str
    proved: bool
    ends: tuple[int, ...]
    values: tuple[float, ...]
    advantages: tuple[float, ...]


def mean_surprise(proposal: Proposal) -> float:
    """Minus the mean log-probability per token: the policy's entropy as one sample shows it."""
    return -proposal.logprob / max(1, proposal.num_tokens)


def back_up(value: float, outcome: float, place: int, length: int) -> float:
    """Q of the state at ``place`` (from 0) of ``length`` on a way worth ``outcome`` (+1 or -1)."""
    worth = outcome * max((place + 1) / length, MIN_WEIGHT)
    if value * worth >= 0:
        return value + worth
    return value if value > 0 else worth


class DeepSearch(Strategy):
    """The most promising open state anywhere in the tree, and paths to learn from (Wu et al. 2025,
    arXiv 2509.25454, with the constants of its code).

    ``Node.value`` is Q. The next state is the open one with the highest
    ``value_weight tanh(Q_parent) + entropy_weight H + depth_weight sqrt(depth / max_depth)``.
    H is estimated as minus the mean log-probability of a token in the body that first reached the
    state. A proof is worth +1 to the states on its way. When an expansion has no proof, its most
    confident body is worth -1 to those on its way, and the others nothing. The worth is weighted by
    max((place + 1) / length, 0.1), and never makes a state on the way to a proof negative. Whole
    bodies are written, so no UCT step chooses between siblings on the way down.
    """

    WIDTH: ClassVar[int] = 8

    def __init__(self, config: SearchConfig, functions: Functions) -> None:
        super().__init__(config, functions)
        # What does not change of an open state's score, by parent; and the parents by their best.
        # A parent's Q changes for all its children at once, so one new entry serves them all.
        self._open: dict[int, list[tuple[float, int]]] = {}
        self._parents: list[tuple[float, int]] = []
        self._entropy: dict[int, float] = {}
        self._ends: list[tuple[int, str, bool]] = []

    def _fixed(self, node: Node) -> float:
        config = self.config
        share = math.sqrt(node.depth / config.max_depth)
        return config.entropy_weight * self._entropy[node.id] + config.depth_weight * share

    def score(self, node: Node) -> float:
        """The frontier score of a node other than the root."""
        assert node.parent is not None
        return self.config.value_weight * math.tanh(node.parent.value) + self._fixed(node)

    def _list_parent(self, parent: int) -> None:
        if self._open.get(parent):
            best = self.tree.nodes[self._open[parent][0][1]]
            heapq.heappush(self._parents, (-self.score(best), parent))

    def _open_node(self, node: Node) -> None:
        assert node.parent is not None
        heap = self._open.setdefault(node.parent.id, [])
        heapq.heappush(heap, (-self._fixed(node), node.id))
        self._list_parent(node.parent.id)

    def pick(self) -> Node:
        """The best open node; ties go to the older parent, then to the older node."""
        while self._parents:
            score, parent = heapq.heappop(self._parents)
            heap = self._open.get(parent)
            # An entry from before the parent's Q or its best child changed has a newer twin.
            if not heap or -self.score(self.tree.nodes[heap[0][1]]) != score:
                continue
            node = self.tree.nodes[heapq.heappop(heap)[1]]
            self._list_parent(parent)
            return node
        return self.tree.root

    def absorb(self, job: Job, expansion: Expansion) -> None:
        """Insert all ways, open what is new, and back up the outcomes."""
        node = self.tree.nodes[job.node]
        last: list[tuple[JudgedProposal, Node]] = []
        for judged in expansion.judged:
            way, new = self.insert(job, judged)
            for fresh in new:
                self._entropy[fresh.id] = mean_surprise(judged.proposal)
                if fresh.depth < self.config.max_depth:
                    self._open_node(fresh)
            last.append((judged, way[-1] if way else node))
        proofs = [pair for pair in last if pair[0].verdict.proved]
        failures = [pair for pair in last if not pair[0].verdict.proved]
        for judged, end in proofs:
            self._learn(judged, end, 1.0)
        if failures and not proofs:
            # min keeps the first of equals, so that a repeated run does too.
            self._learn(*min(failures, key=lambda pair: mean_surprise(pair[0].proposal)), -1.0)
        self.tree.withdraw(node)

    def _learn(self, judged: JudgedProposal, end: Node, outcome: float) -> None:
        path = self.tree.path(end)
        for place, node in enumerate(path):
            node.value = back_up(node.value, outcome, place, len(path))
            self._list_parent(node.id)
        self.tree.record(end, outcome)
        self._ends.append((end.id, judged.proposal.body, outcome > 0))

    def withdraw(self, job: Job) -> None:
        """The node is open again."""
        super().withdraw(job)
        if job.node:
            self._open_node(self.tree.nodes[job.node])

    def training_paths(self) -> list[TrainingPath]:
        """The proofs, and the most confident failures, that were learned from.

        The advantage of a state is its Q less the mean outcome below its parent; the rest of a
        body, after its last state, has the advantage of its outcome less the mean there.
        """
        paths = []
        for number, body, proved in self._ends:
            way = self.tree.path(self.tree.nodes[number])
            ends: list[int] = []
            values: list[float] = []
            advantages: list[float] = []
            for parent, node in pairwise(way):
                end = _end_in(node, body, ends[-1] if ends else 0)
                if end:
                    ends.append(end)
                    values.append(node.value)
                    advantages.append(node.value - parent.sub_reward / parent.sub_count)
            if not ends or ends[-1] < len(body):
                outcome = 1.0 if proved else -1.0
                ends.append(len(body))
                values.append(outcome)
                advantages.append(outcome - way[-1].sub_reward / way[-1].sub_count)
            paths.append(TrainingPath(body, proved, tuple(ends), tuple(values), tuple(advantages)))
        return paths

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "open": sorted(number for heap in self._open.values() for _, number in heap),
            "entropy": [[number, value] for number, value in self._entropy.items()],
            "ends": [list(end) for end in self._ends],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._entropy = dict(state["entropy"])
        self._ends = [(number, body, proved) for number, body, proved in state["ends"]]
        self._open, self._parents = {}, []
        for number in state["open"]:
            self._open_node(self.tree.nodes[number])


def _end_in(node: Node, body: str, after: int) -> int:
    """How much of the body reaches the node; 0 when the node did not keep that text."""
    ends = [end for text, end in node.prefixes if end > after and body.startswith(text[:end])]
    return min(ends, default=0)
