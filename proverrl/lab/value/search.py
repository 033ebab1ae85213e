"""A tree search with a value model (VM-MCTS).

Flows in: expansions, and the value of each new state. Flows out: where to expand next. From the
root, every step chooses between a node's children and expanding the node itself; a tie favours the
node. Not handled here: fitting the model (``command``).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from proverrl.config.base import Positive, PositiveFloat, Section
from proverrl.config.search import SearchConfig
from proverrl.errors import UsageError
from proverrl.lab.value.model import ValueModel, load_value
from proverrl.lang.records import Prefix
from proverrl.policy.transformers import TransformersPolicy
from proverrl.search.base import Functions, Job, JudgedProposal
from proverrl.search.metering import MeteredFunctions
from proverrl.search.strategy import Expansion, Strategy, text_of
from proverrl.search.tree import Node
from proverrl.types import Problem

ValueFn = Callable[[Problem, Sequence[Prefix]], Awaitable[list[float]]]


def exploration_bonus(c: float, parent_count: float, count: float) -> float:
    """c sqrt((1 + ln N_parent) / (0.1 + N)); a parent never visited counts as visited once."""
    return c * math.sqrt((1 + math.log(max(parent_count, 1.0))) / (0.1 + count))


@dataclass(frozen=True, slots=True)
class ValuedExpansion(Expansion):
    """An expansion with, for each body, the values of its states after the prefix."""

    values: tuple[tuple[float, ...], ...] = ()


class PuctOptions(Section):
    """``search.options`` of ``puct``."""

    value: Path
    """folder of the value model"""
    exploration: PositiveFloat = 0.2
    """weight of the bonus for rarely tried states"""
    keep: Positive = 3
    """bodies of an expansion whose states are kept"""


def puct(config: SearchConfig, functions: Functions, *, options: PuctOptions) -> Puct:
    """The plug-in ``search.name = "puct"``. Raises ``UsageError`` as ``load_value``, and if the
    policy's model is not in this process."""
    if not isinstance(functions.policy, TransformersPolicy):
        raise UsageError(
            "search.name: puct reads hidden states of the policy's own model, which this one does "
            'not give; set policy.engine = "transformers"'
        )
    return Puct(config, functions, options, _load_once(functions.policy, options.value))


@lru_cache(maxsize=1)
def _load_once(policy: TransformersPolicy, folder: Path) -> ValueModel:
    """All searches of a command ask one model."""
    return load_value(policy, folder)


class Puct(Strategy):
    """PUCT with a value model (VM-MCTS). ``Node.value`` is the value model's.

    The score is V + c sqrt((1 + ln N_parent) / (0.1 + N)), c = 0.2. Five bodies are written, and
    the states of the three whose last state the model values most are kept (the constants of
    VM-MCTS). V is the mean of the model's value and of the rewards below; expansions under way
    count as worth 0. There a policy writes one step at a time.
    """

    WIDTH: ClassVar[int] = 5

    def __init__(
        self, config: SearchConfig, functions: Functions, options: PuctOptions, value: ValueFn
    ) -> None:
        super().__init__(config, functions)
        self.options = options
        self.value = value

    def pick(self) -> Node:
        c, node = self.options.exploration, self.tree.root
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

    async def expand(self, job: Job, functions: MeteredFunctions) -> ValuedExpansion:
        """Write bodies, and then value the states of each."""
        plain = await super().expand(job, functions)
        prefixes = [self.fresh_prefixes(job, judged) for judged in plain.judged]
        asked = [prefix for group in prefixes for prefix in group]
        flat = iter(await self.value(functions.problem, asked))
        values = tuple(tuple(next(flat) for _ in group) for group in prefixes)
        return ValuedExpansion(plain.judged, values)

    def fresh_prefixes(self, job: Job, judged: JudgedProposal) -> list[Prefix]:
        """The places after the job's prefix that a body leads to, in order."""
        body, start = text_of(judged), len(job.prefix.text)
        return [
            Prefix(body[:end], state) for end, state in self.usable_steps(judged) if end > start
        ]

    def absorb(self, job: Job, expansion: Expansion) -> None:
        """Insert the best ``keep`` ways; the expansion is worth the best last state, or 0."""
        assert isinstance(expansion, ValuedExpansion)
        rated = [(-values[-1], place) for place, values in enumerate(expansion.values) if values]
        best = sorted(rated)[: self.options.keep]
        for _, place in best:
            judged = expansion.judged[place]
            ends = [len(prefix.text) for prefix in self.fresh_prefixes(job, judged)]
            by_end = dict(zip(ends, expansion.values[place], strict=True))
            for fresh in self.insert(job, judged)[1]:
                fresh.value = by_end[fresh.prefixes[0][1]]
        worth = min(1.0, max(0.0, -best[0][0])) if best else 0.0
        self.tree.finish(self.tree.nodes[job.node], worth)
