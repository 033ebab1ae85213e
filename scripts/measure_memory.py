"""Peak memory of an update on a GPU beside what ``proverrl plan`` says, for a few sizes.

Run by scripts/first_gpu_run.sh. On a machine without a GPU it says so and measures nothing. Exit
status 1: the plan is off by more than a third.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from proverrl.config import Config
from proverrl.learner.learner import TorchLearner
from proverrl.learner.memory import GIB, plan_memory
from proverrl.policy.loading import DTYPES
from proverrl.rollout.samples import build_replay_sample

SIZES = {"0.1 B": (768, 2048, 12), "0.5 B": (896, 4864, 24)}
VOCABULARY, TOKENS, LENGTH = 151_936, 8_192, 1_024


def measure(hidden: int, wide: int, layers: int, *, checkpointing: bool, folder: Path) -> bool:
    """Print one row; whether the plan was near enough."""
    shape = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=wide,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    shape.save_pretrained(folder)
    learner = {
        "precision": "bf16",
        "gradient_checkpointing": checkpointing,
        "micro_batch_tokens": TOKENS,
    }
    sampling = {"max_new_tokens": LENGTH - 64}
    config = Config.model_validate(
        {"policy": {"path": str(folder)}, "learner": learner, "sampling": sampling}
    )
    plan = plan_memory(config, prompt_tokens=64)
    planned = sum(plan.always.values()) + sum(plan.update.values())
    model = AutoModelForCausalLM.from_config(shape, dtype=DTYPES["bf16"]).cuda()  # type: ignore[no-untyped-call]
    trained = TorchLearner(model, config.learner, temperature=1.0)
    ids = torch.randint(VOCABULARY, (TOKENS // LENGTH, LENGTH)).tolist()
    samples = [build_replay_sample(tuple(row[:64]), tuple(row[64:])) for row in ids]
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        trained.step(samples)
    peak = torch.cuda.max_memory_allocated()
    print(
        f"{plan.parameters / 1e9:.2f} B parameters, checkpointing {checkpointing}: peak "
        f"{peak / GIB:.2f} GiB, planned {planned / GIB:.2f} GiB, {peak / planned:.2f} of it"
    )
    return 2 / 3 < peak / planned < 4 / 3


def main() -> None:
    """Measure all sizes that fit on the card."""
    if not torch.cuda.is_available():
        print("no GPU: nothing was measured")
        return
    near = []
    for hidden, wide, layers in SIZES.values():
        for checkpointing in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                near.append(
                    measure(hidden, wide, layers, checkpointing=checkpointing, folder=Path(folder))
                )
            # A learner's parts hold each other, and would be held while the next is measured.
            gc.collect()
            torch.cuda.empty_cache()
    sys.exit(0 if all(near) else 1)


if __name__ == "__main__":
    main()
