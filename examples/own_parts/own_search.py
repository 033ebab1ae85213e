"""A search of somebody's own: cheap bodies first, then the policy's (docs/plugins.md)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel

from proverrl.config.search import SearchConfig
from proverrl.search.base import Functions, Job, Proposal
from proverrl.search.metering import MeteredFunctions
from proverrl.search.strategy import Expansion, Strategy
from proverrl.search.tree import Node


class Bodies(BaseModel):
    """The options of ``CheapFirst``."""

    bodies: list[str] = [""]
    """what is tried before anything is generated, one verifier call each"""


class CheapFirst(Strategy):
    """Best of n, after some bodies that need no policy."""

    NEEDS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: SearchConfig, functions: Functions, *, options: Bodies) -> None:
        super().__init__(config, functions)
        self.bodies = list(options.bodies)

    def pick(self) -> Node:
        return self.tree.root

    async def expand(self, job: Job, functions: MeteredFunctions) -> Expansion:
        """The next cheap body; when none is left, what the policy writes."""
        if job.number >= len(self.bodies):
            return await super().expand(job, functions)
        own = Proposal(self.bodies[job.number], num_tokens=0, logprob=0.0)
        return Expansion(await functions.judge([functions.count(own)]))

    def absorb(self, job: Job, expansion: Expansion) -> None:
        proved = any(judged.verdict.proved for judged in expansion.judged)
        self.tree.finish(self.tree.nodes[job.node], float(proved))
