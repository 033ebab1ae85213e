"""Monte-Carlo tree search, rewarded for new states (RMaxTS).

Flows in: expansions. Flows out: where to expand next. From the root, every step chooses between a
node's children and expanding the node itself; a tie favours the node. Whole bodies are written, so
a node may be expanded again beside its children. Not handled here: when the
search ends (``proverrl.search.run``).
"""

from __future__ import annotations

import math
from typing import ClassVar

from proverrl.config.search import SearchConfig
from proverrl.search.base import Functions, Job
from proverrl.search.strategy import Expansion, Strategy
from proverrl.search.tree import MIN_COUNT, Node, discount_jobs

GAMMA = 0.99
"""The discount of old rewards."""


def bonus(total: float, count: float) -> float:
    """sqrt(2 ln(max(total, 2)) / max(count, 0.01)): what was tried ``count`` of ``total`` times."""
    return math.sqrt(2 * math.log(max(total, 2.0)) / max(count, MIN_COUNT))


class RMaxTS(Strategy):
    """Reward 1 for an expansion that added a node, else 0; sums are discounted by ``GAMMA``.

    The score is a discounted mean plus a bonus for what was tried little. Expansions under way
    count as zero rewards (virtual loss), so many may run. Xin et al. 2024 (DeepSeek-Prover-V1.5),
    arXiv 2408.08152, with the constants of its code. Here a node keeps at most ``max_prefixes``
    texts (there: all), and states that leave the goals unchanged keep the shorter text.
    """

    WIDTH: ClassVar[int] = 1

    def __init__(self, config: SearchConfig, functions: Functions) -> None:
        super().__init__(config, functions, gamma=GAMMA)

    def pick(self) -> Node:
        node = self.tree.root
        while node.children:
            reward, count = discount_jobs(
                node.own_reward, node.own_count, node.own_jobs, self.tree.gamma
            )
            total = count
            for child in node.children.values():
                total += child.count
            # The bonus of a child, without a logarithm and a root for each of them.
            spread = bonus(total, 1.0)
            floor = max(count, MIN_COUNT)
            best, best_score = None, reward / floor + spread * (1 / math.sqrt(floor))
            for child in node.children.values():
                score = child.mean + spread * child.scale
                if score > best_score:
                    best, best_score = child, score
            if best is None:
                return node
            node = best
        return node

    def absorb(self, job: Job, expansion: Expansion) -> None:
        """Insert all states of all bodies; reward 1 if any was new."""
        num_new = sum(len(self.insert(job, judged)[1]) for judged in expansion.judged)
        self.tree.finish(self.tree.nodes[job.node], float(num_new > 0))
