"""Time and memory of a pass over packed rows: flash attention without a mask beside masked copies.

Usage: python -m scripts.measure_attention [ROUNDS]

One forward and backward pass of a model with grouped keys (256 wide, 2 layers, 4 heads, 2 of keys)
over prompts with many completions each. Both ways take turns in one process; seconds are the
processor's on a CPU and the clock's on a GPU (there in bfloat16), each the median of the rounds;
memory is the most that is held beside the weights. Exit status 1: the two ways' gradients differ by
more than rounding.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from proverrl.learner import packed_attention
from proverrl.learner.packed_rows import PackedRow, pack_rows, packed_logprobs
from proverrl.learner.split_attention import why_not_split
from proverrl.rollout.samples import build_replay_sample
from tests.policy.test_vocabulary import peak_bytes

VOCABULARY = 576
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 3e-2}
"""How far gradients may lie apart, as a share of their norm."""
SHAPE = Qwen2Config(
    vocab_size=VOCABULARY,
    hidden_size=256,
    intermediate_size=704,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
BATCHES = {
    "one short prompt": (1, 64, 512, 8),
    "one long prompt": (1, 2_048, 128, 16),
    "groups like the demo's": (16, 150, 60, 8),
}
"""Prompts, tokens of each, of each completion, and completions of a prompt."""
WAYS: dict[str, Callable[..., str]] = {
    "masked copies": lambda *_: "measured",
    "without a mask": why_not_split,
}


def make_rows(prompts: int, prompt_tokens: int, new: int, completions: int) -> list[PackedRow]:
    """A row for each prompt; lengths of completions differ by up to a half."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.linspace(new / 2, new * 3 / 2, completions).int().tolist()

    def words(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(VOCABULARY, (count,), generator=draw).tolist())

    starts = [words(prompt_tokens) for _ in range(prompts)]
    return pack_rows([build_replay_sample(start, words(n)) for start in starts for n in lengths])


def measure_peak(step: Callable[[], None]) -> int:
    """The most bytes that a step holds beside what was there before."""
    if not torch.cuda.is_available():
        return peak_bytes(step)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    return torch.cuda.max_memory_allocated() - before


def main(rounds: int) -> None:
    """Print two rows for each batch."""
    torch.set_num_threads(1)
    on_gpu = torch.cuda.is_available()
    model: Any = AutoModelForCausalLM.from_config(SHAPE)  # type: ignore[no-untyped-call]
    if on_gpu:
        model = model.to("cuda", torch.bfloat16)
    near = []
    for name, sizes in BATCHES.items():
        rows = make_rows(*sizes)

        def step(rows: list[PackedRow] = rows) -> None:
            model.zero_grad()
            logprobs, _ = packed_logprobs(model, rows, temperature=1.0)
            logprobs.sum().backward()  # type: ignore[no-untyped-call]
            if on_gpu:
                torch.cuda.synchronize()

        clock = time.perf_counter if on_gpu else time.process_time
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        peaks, gradients = {}, {}
        for number in range(rounds + 1):
            for way, reason in WAYS.items():
                with patch.object(packed_attention, "why_not_split", reason):
                    if not number:
                        peaks[way] = measure_peak(step)
                        gradients[way] = torch.cat([p.grad.flatten() for p in model.parameters()])
                        continue
                    started = clock()
                    step()
                    seconds[way].append(clock() - started)
        print(f"{name}: {sum(row.num_tokens for row in rows):,} tokens")
        for way in WAYS:
            median = statistics.median(seconds[way])
            base = statistics.median(seconds["masked copies"])
            print(
                f"  {way:<16}{median:8.2f} s, {median / base:.2f} of it; {peaks[way] / 2**20:8.1f} "
                f"MB, {peaks[way] / peaks['masked copies']:.2f} of it",
                flush=True,
            )
        masked, split = (gradients[way].float() for way in WAYS)
        apart = float((masked - split).norm() / masked.norm())
        print(f"  gradients differ by {apart:.1e} of their norm")
        near.append(apart < TOLERANCES[model.dtype])
    sys.exit(0 if all(near) else 1)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
