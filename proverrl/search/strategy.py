"""Strategies: the base with its tree, and those that come with ProverRL.

Flows in: the constants of ``[search]`` and the functions of a search. Flows out: jobs for
``proverrl.search.run`` and a tree that has learned from their expansions. Not handled here: costs,
and the end of a search (``proverrl.search.run``).
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from proverrl.config.search import SearchConfig
from proverrl.errors import ConfigError
from proverrl.plugins import refuse
from proverrl.search.base import Functions, Job, JudgedProposal
from proverrl.search.metering import MeteredFunctions
from proverrl.search.tree import MIN_COUNT, Node, Tree, discount_jobs, steps_of
from proverrl.seeds import derive_seed


@dataclass(frozen=True, slots=True)
class Expansion:
    """The result of a job: judged bodies in the order of writing."""

    judged: tuple[JudgedProposal, ...]


def text_of(judged: JudgedProposal) -> str:
    """The body, or, where all of it is kept for more to follow, the body with its line break."""
    body, segments = judged.proposal.body, judged.segments
    return body + "\n" if segments and segments[-1].text == body + "\n" else body


_REMEDIES = {"segment": "states: set search.states"}
"""Remedies for a search that lacks a function, where it is not given from Python."""


class Strategy(ABC):
    """Chooses the node that is expanded next, and learns from its expansion.

    ``WIDTH`` is how many bodies an expansion writes when ``config.width`` is 0, ``NEEDS`` names
    the functions that the strategy cannot do without.
    """

    WIDTH: ClassVar[int] = 1
    NEEDS: ClassVar[tuple[str, ...]] = ("segment",)

    def __init__(self, config: SearchConfig, functions: Functions, *, gamma: float = 1) -> None:
        for name in self.NEEDS:
            if getattr(functions, name) is None:
                remedy = _REMEDIES.get(name, f"a function {name}")
                raise ConfigError(f'search.name = "{config.name}" needs {remedy}')
        self.config = config
        self.functions = functions
        self.width = config.width or self.WIDTH
        self.tree = Tree(gamma=gamma)

    @abstractmethod
    def pick(self) -> Node | None:
        """The node to expand next; None when there is none before a job under way ends."""

    @abstractmethod
    def absorb(self, job: Job, expansion: Expansion) -> None:
        """Learn from an expansion that ended."""

    def choose(self, number: int, seed: int, num: int) -> Job | None:
        """The next job, marked as under way. ``num`` bodies at most."""
        node = self.pick()
        if node is None:
            return None
        if not isinstance(node, Node):
            wanted = "a node of its tree, or None"
            raise refuse("search", self.config.name, node, "the next state", wanted)
        self.tree.start(node)
        return Job(number, node.id, self.tree.prefix(node, seed), num, seed)

    async def expand(self, job: Job, functions: MeteredFunctions) -> Expansion:
        """Write ``job.num`` bodies after the prefix and have them judged."""
        written = await functions.propose(job.prefix, job.num, job.seed)
        return Expansion(await functions.judge(written))

    def withdraw(self, job: Job) -> None:
        """Forget a job that says nothing, as when the budget ended before it could ask."""
        self.tree.withdraw(self.tree.nodes[job.node])

    def insert(self, job: Job, judged: JudgedProposal) -> tuple[list[Node], list[Node]]:
        """The way of a body's states below the job's node, and the nodes new on it."""
        return self.tree.insert(
            self.tree.nodes[job.node],
            len(job.prefix.text),
            text_of(judged),
            self.usable_steps(judged),
        )

    def usable_steps(self, judged: JudgedProposal) -> Sequence[tuple[int, str]]:
        """The steps that may become nodes: a finished proof is no place to continue from."""
        body = text_of(judged)
        steps = steps_of(body, judged.segments)
        if not judged.verdict.proved:
            return steps
        whole = len(body.rstrip())
        return tuple(step for step in steps if step[0] < whole)

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed search needs, as JSON values."""
        return {"tree": self.tree.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replace everything by what ``state_dict`` gave."""
        self.tree.load_state_dict(state["tree"])


_CORRECTIONS = 2


class BestOfN(Strategy):
    """The baseline of every search: ``width`` bodies are written together, always from the root.
    Bodies written together are paid together, so one at a time is the fair baseline at equal
    tokens. States decide nothing."""

    NEEDS: ClassVar[tuple[str, ...]] = ()

    def pick(self) -> Node:
        return self.tree.root

    def absorb(self, job: Job, expansion: Expansion) -> None:
        """Count one expansion; the reward is 1 for a proof."""
        for judged in expansion.judged:
            self.insert(job, judged)
        proved = any(judged.verdict.proved for judged in expansion.judged)
        self.tree.finish(self.tree.nodes[job.node], float(proved))


class SelfCorrect(BestOfN):
    """Sequential self-correction. A chain is a body from nothing and up to two corrections,
    each made from the last body and what the verifier said of it. Every link is a verifier call;
    ``width`` is ignored.

    Goedel-Prover-V2 (Lin et al. 2025, arXiv 2508.03613) makes two corrections, and its figures at
    equal calls are about those of resampling. Here a correction sees the last attempt only.
    """

    NEEDS: ClassVar[tuple[str, ...]] = ("correct",)

    def __init__(self, config: SearchConfig, functions: Functions) -> None:
        super().__init__(config, functions)
        self.width = 1 + _CORRECTIONS

    async def expand(self, job: Job, functions: MeteredFunctions) -> Expansion:
        """One chain; it ends with a proof, or with a body that could not be judged."""
        judged: list[JudgedProposal] = []
        written = await functions.propose(job.prefix, 1, job.seed)
        while written:
            found = await functions.judge(written)
            judged += found
            if not found or found[0].verdict.proved or len(judged) >= job.num:
                break
            seed = derive_seed(job.seed, len(judged))
            last = found[0]
            written = [await functions.correct(last.proposal.body, last.verdict, seed)]
        return Expansion(tuple(judged))


class BestFirst(Strategy):
    """Expands the state whose way the policy found likeliest, by length-normalised log-probability.

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


GAMMA = 0.99
"""The discount of old rewards."""


def bonus(total: float, count: float) -> float:
    """sqrt(2 ln(max(total, 2)) / max(count, 0.01)): what was tried ``count`` of ``total`` times."""
    return math.sqrt(2 * math.log(max(total, 2.0)) / max(count, MIN_COUNT))


class RMaxTS(Strategy):
    """Monte-Carlo tree search, rewarded for new states: 1 for an expansion that added a node, else
    0; sums are discounted by ``GAMMA``.

    From the root, every step chooses between a node's children and expanding the node itself; a tie
    favours the node. Whole bodies are written, so a node may be expanded again beside its children.
    The score is a discounted mean plus a bonus for what was tried little. Expansions under way
    count as zero rewards (virtual loss), so many may run. Xin et al. 2024 (DeepSeek-Prover-V1.5),
    arXiv 2408.08152, with the constants of its code. Here a node keeps at most ``max_prefixes``
    texts (there: all), and states that leave the goals unchanged keep the shorter text.
    """

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
