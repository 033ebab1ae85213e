"""Two processes that hold half of the weights each, against one that holds them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from proverrl.parallel import SINGLE
from tests.parallel_worker import run_case
from tests.test_parallel import launch

SHARD = {"shard": "fsdp2"}
CASES: dict[str, dict[str, Any]] = {
    # Two groups an update and few tokens a micro-batch: one process has more of them.
    "plain": {
        "learner": {"groups_per_update": 3, "replay_samples": 3, "micro_batch_tokens": 24},
        # 33 rows in two parts: 17 and 16.
        "model": {"intermediate_size": 33, "tie_word_embeddings": True},
    },
    # One group an update: the other process has nothing at all.
    "terms": {
        "loss": {"kl": {"coefficient": 0.1}, "weights": {"name": "geometric_mask"}},
        "learner": {"groups_per_update": 1, "gradient_checkpointing": True, "epochs": 2},
    },
    "bf16": {"learner": {"precision": "bf16"}, "loss": {"kl": {"coefficient": 0.1}}},
    "skips": {"skips": 1, "learner": {}},
}


def test_try(tmp_path: Path) -> None:
    cases = []
    for name, case in CASES.items():
        cases.append(
            {**case, "learner": {**case["learner"], **SHARD}, "file": str(tmp_path / name)}
        )
    out = tmp_path / "found.pt"
    done = launch(2, "tests.parallel_worker", str(out), json.dumps(cases))
    for d in done:
        print(d.stdout[-3000:], d.stderr[-3000:])
    assert [d.returncode for d in done] == [0, 0]
    found = torch.load(out)
    for name, two in zip(CASES, found, strict=True):
        if name == "skips":
            print(two)
            continue
        one = run_case(SINGLE, CASES[name])
        for a, b in zip(one["steps"], two["steps"], strict=True):
            print(name, {k: (v, b[k], abs(v - b[k])) for k, v in a.items()}, b.keys() - a.keys())
        print([float((x - y).abs().max()) for x, y in zip(one["weights"], two["weights"])])
        print(two["bytes"], sum(w.numel() for w in one["weights"]) * 12, two["complaint"])
