"""The command line with a policy that draws lines of Dafny; it can be killed while it writes.

``python tests/search_process.py SIGNAL NUMBER ARGUMENTS``: before the policy writes for the
NUMBER-th time, the process sends itself the signal. With ``none 0`` nothing is sent.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Sequence
from unittest.mock import patch

from proverrl.cli.main import main
from proverrl.jobs import search as search_run
from proverrl.policy.transformers import TransformersPolicy
from proverrl.types import Completion, Prompt, Sampling
from tests.policy.test_policy import tiny_policy

LINES = (
    "invariant 0 <= m <= x",
    "invariant n == m * 38",
    "invariant n == m * 37",
    "invariant m <= n",
    "invariant n < x",
)


def draw_policy(name: str, number: int) -> TransformersPolicy:
    """Each answer has one to three of ``LINES``, as its seed and its prompt say."""
    policy = tiny_policy()
    num_calls = 0

    async def generate(
        prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        nonlocal num_calls
        num_calls += 1
        if num_calls == number:
            os.kill(os.getpid(), getattr(signal, name))
        return [[say(prompt, sampling.seed, i) for i in range(n)] for prompt in prompts]

    policy.generate = generate  # type: ignore[method-assign]
    return policy


def say(prompt: Prompt, seed: int, index: int) -> Completion:
    rng = random.Random(f"{seed} {index} {prompt.text}")
    lines = rng.choices(LINES, k=rng.randint(1, 3))
    text = "".join(f"\n{line}" for line in lines)
    return Completion(text, prompt.token_ids, (7,) * len(lines), (-0.5,) * len(lines), "stop", 0)


if __name__ == "__main__":
    # Whoever runs the tests in the background has them ignore the key.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _, given_name, given_number, *arguments = sys.argv
    # A shell starts what it puts into the background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    drawn = draw_policy(given_name, int(given_number))
    sys.argv = ["proverrl", *arguments]
    with patch.object(search_run, "open_policy", lambda config, run: drawn):
        main()
