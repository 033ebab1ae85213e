"""The search that expands the best open state, wherever it is in the tree.

Flows in: expansions. Flows out: the open state with the highest score. When none is open, the state
that was expanded least is expanded again.
"""

from __future__ import annotations

import heapq
from typing import Any, ClassVar

from proverrl.config.search import SearchConfig
from proverrl.search.base import Functions, Job
from proverrl.search.strategy import Expansion, Strategy, text_of
from proverrl.search.tree import Node


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
