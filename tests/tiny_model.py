"""A very small Llama and samples that it could have written."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from proverrl.learner.packed_rows import PackedRow, packed_logprobs
from proverrl.rollout.samples import TrainingSample

VOCABULARY = 24


def tiny_model(seed: int = 0, **changes: Any) -> Any:
    torch.manual_seed(seed)
    model: Any = LlamaForCausalLM(  # type: ignore[no-untyped-call]
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=64,
            initializer_range=0.3,
            **{"num_key_value_heads": 2, "intermediate_size": 32, **changes},
        )
    )
    return model.eval()


def tiny_samples(
    model: Any, *, prompts: int = 3, each: int = 2, version: int = 0, shift: float = 0.0
) -> list[TrainingSample]:
    """Samples of different lengths, two a prompt, with the model's own log-probabilities plus
    ``shift``; advantages 0.5 and -0.5 in turn, and a masked token inside every third sample."""
    rng = random.Random(1)
    samples = []
    for p in range(prompts):
        prompt = tuple(rng.randrange(VOCABULARY) for _ in range(2 + p))
        for i in range(each):
            new = tuple(rng.randrange(VOCABULARY) for _ in range(rng.randrange(3, 9)))
            mask = [1] * len(new)
            if (p * each + i) % 3 == 0:
                mask[1] = 0
            bare = _sample(f"r{p}-{i}/0", prompt, new, mask, [0.0] * len(new), 0.0, version)
            with torch.no_grad():
                logprobs, _ = packed_logprobs(model, [PackedRow((bare,))], temperature=1.0)
            values = [v + shift for v in logprobs.tolist()]
            advantage = 0.5 if i % 2 == 0 else -0.5
            samples.append(_sample(f"r{p}-{i}/0", prompt, new, mask, values, advantage, version))
    return samples


def _sample(
    name: str,
    prompt: tuple[int, ...],
    new: tuple[int, ...],
    mask: list[int],
    logprobs: list[float],
    advantage: float,
    version: int,
) -> TrainingSample:
    zeros = (0,) * len(prompt)
    return TrainingSample(
        rollout_id=name,
        policy_version=version,
        prompt_length=len(prompt),
        token_ids=prompt + new,
        loss_mask=(*zeros, *mask),
        logprobs=(*map(float, zeros), *(v * m for v, m in zip(logprobs, mask, strict=True))),
        advantages=(*map(float, zeros), *(advantage * m for m in mask)),
    )


def samples_of_lengths(model: Any) -> list[TrainingSample]:
    """Two prompts of 2 and 3 tokens; completions of 1, 2, 9 and 33 tokens each."""
    samples = []
    for base in tiny_samples(model, prompts=2, each=1):
        for new in (1, 2, 9, 33):
            head = base.token_ids[: base.prompt_length]
            tail = tuple((7 * i + new) % VOCABULARY for i in range(new))
            zeros = (0.0,) * len(head)
            samples.append(
                replace(
                    base,
                    token_ids=head + tail,
                    loss_mask=(0,) * len(head) + (1,) * new,
                    logprobs=zeros + (0.0,) * new,
                    advantages=zeros + (1.0,) * new,
                )
            )
    return samples
