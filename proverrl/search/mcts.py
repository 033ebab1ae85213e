"""Monte-Carlo tree search: rewarded for new states (RMaxTS), or with a value model (PUCT).

Flows in: expansions. Flows out: where to expand next. From the root, every step chooses between a
node's children and expanding the node itself; a tie favours the node. Whole bodies are written, so
a node may be expanded again beside its children. Not handled here: training the value model, and
when the search ends (``proverrl.search.run``).
"""

from __future__ import annotations

import math
from typing import ClassVar

from proverrl.config.search import SearchConfig
from proverrl.search.base import Functions, Job
from proverrl.search.metering import MeteredFunctions
from proverrl.search.strategy import Expansion, Strategy
from proverrl.search.tree import MIN_COUNT, Node, discount_jobs


def bonus(total: float, count: float) -> float:
    """sqrt(2 ln(max(total, 2)) / max(count, 0.01)): what was tried ``count`` of ``total`` times."""
    return math.sqrt(2 * math.log(max(total, 2.0)) / max(count, MIN_COUNT))


class RMaxTS(Strategy):
    """Reward 1 for an expansion that added a node, else 0; sums are discounted by ``gamma``.

    The score is a discounted mean plus a bonus for what was tried little. Expansions under way
    count as zero rewards (virtual loss), so many may run. Xin et al. 2024 (DeepSeek-Prover-V1.5),
    arXiv 2408.08152, with the constants of its code. Here a node keeps at most ``max_prefixes``
    texts (there: all), and states that leave the goals unchanged keep the shorter text.
    """

    WIDTH: ClassVar[int] = 1

    def __init__(self, config: SearchConfig, functions: Functions) -> None:
        super().__init__(config, functions, gamma=config.gamma)

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


def exploration_bonus(c: float, parent_count: float, count: float) -> float:
    """c sqrt((1 + ln N_parent) / (0.1 + N)); a parent never visited counts as visited once."""
    return c * math.sqrt((1 + math.log(max(parent_count, 1.0))) / (0.1 + count))


class Puct(Strategy):
    """PUCT with a value model (VM-MCTS). ``Node.value`` is the value model's.

    The score is V + c sqrt((1 + ln N_parent) / (0.1 + N)), c = 0.2; five bodies are written, and
    the states of the three whose last state the model values most are kept (the constants of
    VM-MCTS, design note of this project). V is the mean of the model's value and of the rewards
    below; expansions under way count as worth 0. There a policy writes one step at a time.
    """

    WIDTH: ClassVar[int] = 5
    NEEDS: ClassVar[tuple[str, ...]] = ("segment", "value")

    def pick(self) -> Node:
        c, node = self.config.exploration, self.tree.root
        while node.children:
            parent = node.sub_count + node.sub_jobs
            count = node.own_count + node.own_jobs
            best: Node | None = None
            best_score = (node.value + node.own_reward) / (1 + count)
            best_score += exploration_bonus(c, parent, count)
            for child in node.children.values():
                score = (child.value + child.sub_reward) / (1 + child.count)
                score += exploration_bonus(c, parent, child.count)
                if score > best_score:
                    best, best_score = child, score
            if best is None:
                return node
            node = best
        return node

    async def expand(self, job: Job, functions: MeteredFunctions) -> Expansion:
        """Write bodies, and then value the states of each."""
        plain = await super().expand(job, functions)
        prefixes = [self.fresh_prefixes(job, judged) for judged in plain.judged]
        flat = iter(await functions.value([p for group in prefixes for p in group]))
        values = tuple(tuple(next(flat) for _ in group) for group in prefixes)
        return Expansion(plain.judged, values)

    def absorb(self, job: Job, expansion: Expansion) -> None:
        """Insert the best ``keep`` ways; the expansion is worth the best last state, or 0."""
        rated = [(-values[-1], place) for place, values in enumerate(expansion.values) if values]
        best = sorted(rated)[: self.config.keep]
        for _, place in best:
            judged = expansion.judged[place]
            ends = [len(prefix.text) for prefix in self.fresh_prefixes(job, judged)]
            by_end = dict(zip(ends, expansion.values[place], strict=True))
            for fresh in self.insert(job, judged)[1]:
                fresh.value = by_end[fresh.prefixes[0][1]]
        worth = min(1.0, max(0.0, -best[0][0])) if best else 0.0
        self.tree.finish(self.tree.nodes[job.node], worth)
