"""Searches that begin every body anew: independent samples, and chains of corrections.

Flows in: expansions. Flows out: the root, always. States decide nothing; where a caller reads them
(``proverrl search`` does not) they are kept for the picture of the tree.
"""

from __future__ import annotations

from typing import ClassVar

from proverrl.config.search import SearchConfig
from proverrl.search.base import Functions, Job, JudgedProposal
from proverrl.search.metering import MeteredFunctions
from proverrl.search.strategy import Expansion, Strategy
from proverrl.search.tree import Node
from proverrl.seeds import derive_seed

_CORRECTIONS = 2


class BestOfN(Strategy):
    """``width`` bodies are written together: the baseline of every search. What is written
    together is paid together, so that one at a time is the fair baseline at equal tokens."""

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
