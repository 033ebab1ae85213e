"""A policy beside the one that is trained, whose weights never change, asked once a question.

Flows in: problems, or questions in words. Flows out: one completion for each, in their order. Not
handled here: where it comes from (``loops.session``), what its answers are worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from proverrl.policy.base import Policy
from proverrl.policy.conversation import encode_messages
from proverrl.policy.transformers import TransformersPolicy
from proverrl.types import Completion, Message, Problem, Prompt, Sampling


@dataclass(frozen=True, slots=True)
class FrozenPolicy:
    """A policy, and how it samples."""

    policy: Policy
    sampling: Sampling

    async def answer(self, problems: Sequence[Problem], *, seed: int) -> list[Completion]:
        """What it writes on each problem, in its layout."""
        return await self._write([self.policy.prompt(problem) for problem in problems], seed)

    async def ask(self, questions: Sequence[tuple[str, str]], *, seed: int) -> list[Completion]:
        """What it answers to each question in words, which has a name."""
        return await self._write([self._encode(name, text) for name, text in questions], seed)

    def _encode(self, name: str, text: str) -> Prompt:
        messages = (Message("user", text),)
        if isinstance(self.policy, TransformersPolicy):
            return encode_messages(self.policy.tokenizer, name, messages, self.policy.layout)
        return Prompt(name, text, (), messages)

    async def _write(self, prompts: Sequence[Prompt], seed: int) -> list[Completion]:
        if not prompts:
            return []
        sampling = replace(self.sampling, seed=seed)
        written = await self.policy.generate(prompts, n=1, sampling=sampling)
        return [completion for (completion,) in written]
