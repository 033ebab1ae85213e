"""The base of all strategies: a tree, an expansion of whole bodies, and the insertion of states.

Flows in: the constants of ``[search]`` and the functions of a search. Flows out: jobs for
``proverrl.search.run`` and a tree that has learned from what came of them. Not handled here: what
is spent, and which node comes next (each strategy's ``pick``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from proverrl.config.search import SearchConfig
from proverrl.errors import ConfigError
from proverrl.lang.records import Prefix
from proverrl.plugins import refuse
from proverrl.search.base import Functions, Job, JudgedProposal
from proverrl.search.metering import MeteredFunctions
from proverrl.search.tree import Node, Tree, steps_of


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
            raise refuse("search", self.config.base_name, node, "the next state", wanted)
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

    def fresh_prefixes(self, job: Job, judged: JudgedProposal) -> list[Prefix]:
        """The places after the job's prefix that a body leads to, in order."""
        body, start = text_of(judged), len(job.prefix.text)
        return [
            Prefix(body[:end], state) for end, state in self.usable_steps(judged) if end > start
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed search needs, as JSON values."""
        return {"tree": self.tree.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replace everything by what ``state_dict`` gave."""
        self.tree.load_state_dict(state["tree"])
