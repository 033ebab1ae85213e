"""PUCT with a value model (VM-MCTS).

Flows in: expansions with values of the states that they reached. Flows out: where to expand next.
The score is V + c sqrt((1 + ln N_parent) / (0.1 + N)), c = 0.2; five bodies are written, and the
states of the three whose last state the model values most are kept (the constants of VM-MCTS,
design note of this project). V is the mean of the model's value and of everything that came of
expansions below. There a policy writes one step at a time; here whole bodies, so that a node may
be expanded again beside its children, as in RMaxTS. Not handled here: training the value model.
"""

from __future__ import annotations

import math
from typing import ClassVar

from proverrl.search.base import Desk, Job
from proverrl.search.strategy import Expansion, Strategy
from proverrl.search.tree import Node


def exploration_bonus(c: float, parent_count: float, count: float) -> float:
    """c sqrt((1 + ln N_parent) / (0.1 + N)); a parent never visited counts as visited once."""
    return c * math.sqrt((1 + math.log(max(parent_count, 1.0))) / (0.1 + count))


class Puct(Strategy):
    """``Node.value`` is the value model's; expansions under way count as worth 0."""

    WIDTH: ClassVar[int] = 5
    NEEDS: ClassVar[tuple[str, ...]] = ("segment", "value")

    def pick(self) -> Node:
        """From the root downwards; a tie favours expanding where we stand."""
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

    async def expand(self, job: Job, desk: Desk) -> Expansion:
        """As ever, and then the values of the states of each body."""
        plain = await super().expand(job, desk)
        prefixes = [self.fresh_prefixes(job, judged) for judged in plain.judged]
        flat = iter(await desk.value([p for group in prefixes for p in group]))
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
