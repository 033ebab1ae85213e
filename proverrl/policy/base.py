"""The seam between what writes completions and everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from proverrl.config import LayoutName
from proverrl.errors import UsageError
from proverrl.types import Completion, Problem, Prompt, Sampling


@dataclass(frozen=True, slots=True)
class Exchange:
    """A completion and what the policy was told of it.

    ``inside`` feedback is part of the same answer, which goes on after it; other feedback is a
    message of its own, and a new answer follows.
    """

    completion: Completion
    feedback: str
    inside: bool = False


class Policy(Protocol):
    """Writes completions. ``version`` counts the weight updates that it has seen."""

    @property
    def version(self) -> int: ...

    @property
    def engine(self) -> str:
        """Which engine and device are in use, for people to read."""
        ...

    @property
    def layout(self) -> LayoutName:
        """How problems are shown to it, and so how its answers are to be read."""
        ...

    def prompt(self, problem: Problem) -> Prompt:
        """The problem as text and as exact token ids."""
        ...

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        """The prompt of the next turn: the problem's, with the exchanges that followed it.

        Token ids of prompt and completions are kept as they are.
        """
        ...

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """``n`` completions for each prompt, in the order of the prompts."""
        ...


class Sampler(Policy, Protocol):
    """A policy that samples from a model which is trained in this process."""

    def push(self, version: int) -> dict[str, float]:
        """Sample from the trained weights as they are now, and call them ``version``; returns
        figures for the metrics. Nobody may change the weights meanwhile.

        Raises:
            WeightSyncError: the engine that samples does not hold them.
        """
        ...

    def close(self) -> None:
        """Give back what the engine holds; nothing is sampled after it."""
        ...


def require_room(prompts: Sequence[Prompt], max_tokens: int, remedy: str) -> None:
    """Raise ``UsageError`` for a prompt that leaves no token of a model's context for an answer."""
    longest = max((len(prompt.token_ids) for prompt in prompts), default=0)
    if longest >= max_tokens:
        raise UsageError(
            f"a prompt of {longest} tokens leaves no room in the {max_tokens} tokens of the model; "
            f"{remedy}"
        )
