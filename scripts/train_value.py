"""Fits a value head to the rollouts of a run and says what it is worth on held-back problems.

Usage: python scripts/train_value.py RUN OUT [SEED] [STEPS]

RUN is the folder of a run with the policy in ``policy/`` and its rollouts in ``rollouts/``; the
head goes to OUT. With STEPS only the rollouts of so many last steps are read. Figures are of
problems that were in no training pair.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import torch

from proverrl.config import PolicyConfig
from proverrl.policy.transformers import load_policy
from proverrl.search.value_metrics import measure_values
from proverrl.search.values import (
    ValueSettings,
    is_held_back,
    load_value,
    read_pairs,
    save_value,
    train_value,
)


def main(run: Path, out: Path, seed: int, steps: int) -> None:
    """Read, fit, save, measure."""
    config = PolicyConfig(
        layout=json.loads((run / "resolved.json").read_text())["config"]["policy"]["layout"]
    )
    policy = load_policy(run / "policy", config, device="cpu")
    settings = ValueSettings(seed=seed)
    files = sorted((run / "rollouts").glob("*.jsonl"), key=lambda f: int(f.stem.split("_")[-1]))
    pairs = read_pairs(files[-steps:])
    distinct = len({(pair.problem.id, pair.prefix) for pair in pairs})
    num_problems = len({pair.problem.id for pair in pairs})
    print(f"{policy.engine}; {len(pairs)} pairs, {distinct} prefixes, {num_problems} problems")
    model, metrics = train_value(policy, pairs, settings)
    save_value(model, out, settings, metrics)
    print("all prefixes:", {k: round(v, 4) for k, v in asdict(metrics).items()})
    held = [p for p in pairs if p.prefix and is_held_back(p.problem.id, settings)]
    scores = load_value(policy, out).score([(p.problem, p.prefix) for p in held])
    inner = measure_values(scores, [p.solved for p in held], [p.problem.id for p in held])
    print("prefixes with text:", {k: round(v, 4) for k, v in asdict(inner).items()})
    print("their labels:", Counter(p.solved for p in held))


if __name__ == "__main__":
    torch.set_num_threads(1)
    words = [int(word) for word in sys.argv[3:]]
    seed, steps = (*words, *(0, 0)[len(words) :])
    main(Path(sys.argv[1]), Path(sys.argv[2]), seed, steps)
