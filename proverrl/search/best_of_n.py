"""Whole proofs from nothing, again and again: the baseline of every search.

Flows in: expansions. Flows out: the root, always. The states that bodies reach are kept for the
picture of the tree and decide nothing.
"""

from __future__ import annotations

from typing import ClassVar

from proverrl.search.base import Job
from proverrl.search.strategy import Expansion, Strategy
from proverrl.search.tree import Node


class BestOfN(Strategy):
    """``width`` bodies are written together."""

    WIDTH: ClassVar[int] = 4
    NEEDS: ClassVar[tuple[str, ...]] = ()

    def pick(self) -> Node:
        """The root."""
        return self.tree.root

    def absorb(self, job: Job, expansion: Expansion) -> None:
        """Count one expansion; the reward is 1 for a proof."""
        for judged in expansion.judged:
            self.insert(job, judged)
        proved = any(judged.verdict.proved for judged in expansion.judged)
        self.tree.finish(self.tree.nodes[job.node], float(proved))
