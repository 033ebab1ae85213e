"""A policy of somebody's own: a function that answers prompts, for evaluation and search.

Flows in: ``policy.engine = "package.module:function"`` and its options. Flows out: completions
without token ids, which can be judged and never learned from; searches need the log-probabilities
that a function may give. The function has no say in what is proved. Not handled here: weights
(nothing is trained), the beginning of an answer (searches by states need a tokenizer).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from proverrl.config import LayoutName
from proverrl.config.policy import PolicyConfig
from proverrl.errors import UsageError
from proverrl.plugins import bind, refuse
from proverrl.policy.base import Exchange, continue_messages
from proverrl.problems.prompt import NOTHING_BEFORE, Before, join_messages
from proverrl.seeds import derive_seed
from proverrl.types import Completion, Problem, Prompt, Sampling, TokenField


class FunctionPolicy:
    """Asks ``f(prompt, n, sampling)``, plain or async, for ``n`` texts, each alone or in a pair
    with the log-probabilities of its tokens; ``sampling.seed`` is the prompt's own. ``version``
    stays 0. Raises ``UsageError`` as ``plugins.bind``."""

    version = 0

    def __init__(self, config: PolicyConfig, before: Before = NOTHING_BEFORE) -> None:
        self._write = bind("policy", config.engine, config.options)
        self.layout: LayoutName = config.layout
        self.before = before
        options = ", ".join(f"{key} = {value!r}" for key, value in sorted(config.options.items()))
        self.engine = f"{config.engine} ({options})" if options else config.engine

    def prompt(self, problem: Problem) -> Prompt:
        messages = self.before.messages(problem, self.layout)
        return Prompt(problem.id, join_messages(messages, self.layout), (), messages)

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        """The conversation so far, in ``messages``. Raises ``UsageError`` if an answer itself must
        continue."""
        return continue_messages(prompt, history)

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """See ``Policy.generate``; one prompt after another. Raises ``UsageError`` if the function
        gives anything but ``n`` of them."""
        written = []
        for index, prompt in enumerate(prompts):
            seed = derive_seed(sampling.seed, "prompt", index)
            texts = self._write(prompt, n, replace(sampling, seed=seed))
            if inspect.isawaitable(texts):
                texts = await texts
            if not isinstance(texts, list | tuple) or len(texts) != n:
                raise self._refuse(texts, prompt, n)
            written.append([self._complete(text, prompt, n) for text in texts])
        return written

    def _complete(self, given: object, prompt: Prompt, n: int) -> Completion:
        text, logprobs = given if isinstance(given, tuple) and len(given) == 2 else (given, ())
        numbers = isinstance(logprobs, list | tuple) and all(
            isinstance(each, float) and each <= 0.0 for each in logprobs
        )
        if not isinstance(text, str) or not numbers:
            raise self._refuse(given, prompt, n)
        fields: dict[TokenField, tuple[Any, ...]] = {
            "prompt_ids": (),
            "token_ids": (),
            "logprobs": tuple(logprobs),
        }
        missing = tuple(name for name, value in fields.items() if not value)
        return Completion(text, **fields, finish_reason="stop", policy_version=0, missing=missing)

    def _refuse(self, given: object, prompt: Prompt, n: int) -> UsageError:
        texts = f"a list of {n} texts, or of texts with the log-probabilities of their tokens"
        wanted = f"{texts}, (text, [-0.5, ...])"
        return refuse("policy", self.engine, given, prompt.problem_id, wanted)
