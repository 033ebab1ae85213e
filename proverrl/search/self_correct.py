"""Sequential self-correction on the budget of a search.

Flows in: chains of attempts. Flows out: the root, always. A chain is a body from nothing and up to
``rounds`` corrections of it, each made from the last body and what the verifier said of it; then a
new chain begins. Every link is a verifier call. Goedel-Prover-V2 (Lin et al. 2025, arXiv
2508.03613) makes two corrections, and its figures at equal calls are about those of resampling.
Here a correction sees the last attempt only, not the whole history.
"""

from __future__ import annotations

from typing import ClassVar

from proverrl.config.search import SearchConfig
from proverrl.search.base import Desk, Functions, Job, Judged
from proverrl.search.best_of_n import BestOfN
from proverrl.search.strategy import Expansion
from proverrl.seeds import derive_seed


class SelfCorrect(BestOfN):
    """``width`` is left aside: a chain has 1 + ``rounds`` bodies."""

    NEEDS: ClassVar[tuple[str, ...]] = ("correct",)

    def __init__(self, config: SearchConfig, functions: Functions, *, root_state: str = "") -> None:
        super().__init__(config, functions, root_state=root_state)
        self.width = 1 + config.rounds

    async def expand(self, job: Job, desk: Desk) -> Expansion:
        """One chain; it ends with a proof, or with a body that could not be judged."""
        judged: list[Judged] = []
        written = await desk.propose(job.prefix, 1, job.seed)
        while written:
            found = await desk.judge(written)
            judged += found
            if not found or found[0].verdict.proved or len(judged) >= job.num:
                break
            seed = derive_seed(job.seed, len(judged))
            last = found[0]
            written = [await desk.correct(last.proposal.body, last.verdict, seed)]
        return Expansion(tuple(judged))
