"""The seam between what writes completions and everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from proverrl.types import Completion, Problem, Prompt, Sampling


class Policy(Protocol):
    """Writes completions. ``version`` counts the weight updates that it has seen."""

    @property
    def version(self) -> int: ...

    @property
    def engine(self) -> str:
        """Which engine and device are in use, for people to read."""
        ...

    def prompt(self, problem: Problem) -> Prompt:
        """The problem as text and as exact token ids."""
        ...

    def body(self, problem: Problem, completion: Completion) -> str:
        """The body that a completion proposes for the problem."""
        ...

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """``n`` completions for each prompt, in the order of the prompts."""
        ...
