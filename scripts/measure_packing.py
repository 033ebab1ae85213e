"""CPU seconds per thousand tokens of a warm start's forward and backward passes, padded and packed.

Usage: python scripts/measure_packing.py [CONFIG.toml] [ROUNDS]

Batches are those that the warm start draws (bodies of similar length together), and mixed ones from
a shuffle. Both methods learn from the same batches in turn; the figure is the median of the rounds.
Tokens are those of prompts and bodies, without padding.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from pathlib import Path

import torch

from proverrl.config import load_config
from proverrl.policy.transformers import TransformersPolicy
from proverrl.run.imitation import Imitation
from proverrl.run.pairs import Pair, make_source
from proverrl.run.session import load_training, make_policy
from proverrl.run.supervised import draw_batches

BATCHES = 2
BUDGETS = (0, 256, 512)


def main(config_file: Path, rounds: int) -> None:
    """Print the figures of both kinds of batches."""
    config = load_config(config_file)
    torch.set_num_threads(config.threads or 1)
    problems = load_training(config)
    policy = make_policy(config, problems)
    sources = [make_source(policy, p, body) for p, body in problems.references]
    size = config.warm_start.batch_size
    drawn = draw_batches(sources, size, random.Random(0))
    pairs = [source() for source in sources]
    random.Random(0).shuffle(pairs)
    kinds = {
        "like lengths": [next(drawn) for _ in range(BATCHES)],
        "mixed": [pairs[i * size : (i + 1) * size] for i in range(BATCHES)],
    }
    for name, batches in kinds.items():
        real = sum(map(count_tokens, batches))
        padded = sum(size * max(count_tokens([pair]) for pair in batch) for batch in batches)
        print(
            f"{name}: {real} tokens, {100 * (1 - real / padded):.1f} % of padded batches is padding"
        )
        seconds: dict[int, list[float]] = {budget: [] for budget in BUDGETS}
        for _ in range(rounds):
            for budget in BUDGETS:
                seconds[budget].append(measure(policy, batches, budget))
        base = statistics.median(seconds[0])
        for budget, measured in seconds.items():
            median = statistics.median(measured)
            way = f"packed, {budget} tokens a row" if budget else "padded"
            print(f"  {way:<28}{1000 * median / real:.3f} s per 1,000 tokens, {base / median:.2f}x")


def count_tokens(batch: list[Pair]) -> int:
    """Tokens of prompts and bodies."""
    return sum(len(pair.prompt_ids) + len(pair.target_ids) for pair in batch)


def measure(policy: TransformersPolicy, batches: list[list[Pair]], pack_tokens: int) -> float:
    """CPU seconds of a pass over the batches."""
    started = time.process_time()
    for batch in batches:
        policy.model.zero_grad(set_to_none=True)
        imitation = Imitation(0.3, pack_tokens)
        total = imitation.denominator(batch)
        parts = imitation.cut(batch, pack_tokens or sys.maxsize)
        torch.stack(
            [imitation.compute(policy.model, part, total)[0] for part in parts]
        ).sum().backward()
    return time.process_time() - started


if __name__ == "__main__":
    main(
        Path(sys.argv[1] if len(sys.argv) > 1 else "configs/demo.toml"),
        int(sys.argv[2]) if len(sys.argv) > 2 else 5,
    )
