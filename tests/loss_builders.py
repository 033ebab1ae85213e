"""Inputs of losses that many tests build, with numbers that a reader can follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from proverrl.config import LossConfig
from proverrl.losses import LossInputs


def logs(values: Sequence[float]) -> list[float]:
    """Natural logarithms, so that a test can name probabilities or ratios."""
    return [math.log(value) for value in values]


def leaf(values: Sequence[float]) -> Tensor:
    """Log-probabilities with a gradient, in double precision."""
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def build_inputs(
    logprobs: Tensor,
    old: Sequence[float],
    advantages: Sequence[float],
    sample: Sequence[int] | None = None,
    *,
    sampler: Sequence[float] | None = None,
    reference: Sequence[float] | None = None,
    entropy: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
    group: Sequence[int] | None = None,
    batch_tokens: int | None = None,
    batch_samples: int | None = None,
    **settings: Any,
) -> LossInputs:
    """Tokens with the sampler's log-probabilities ``old``; without ``sample`` each token is a
    sample of its own, and without ``group`` all samples are one group."""

    def tensor(values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=logprobs.dtype)

    index = list(range(len(old))) if sample is None else list(sample)
    num_samples = max(index) + 1
    return LossInputs(
        logprobs=logprobs,
        old_logprobs=tensor(old),
        sampler_logprobs=tensor(old if sampler is None else sampler),
        ref_logprobs=None if reference is None else tensor(reference),
        entropy=tensor([0.0] * len(old) if entropy is None else entropy),
        advantages=tensor(advantages),
        weights=tensor([1.0] * len(old) if weights is None else weights),
        sample=torch.tensor(index),
        position=torch.tensor([index[:i].count(s) for i, s in enumerate(index)]),
        group=torch.tensor([0] * num_samples if group is None else list(group)),
        truncated=torch.zeros(num_samples, dtype=torch.bool),
        batch_tokens=len(old) if batch_tokens is None else batch_tokens,
        batch_samples=num_samples if batch_samples is None else batch_samples,
        settings=LossConfig.model_validate(settings),
    )


def gradient(loss: Tensor, logprobs: Tensor) -> list[float]:
    """The loss's gradient in the log-probabilities."""
    loss.backward()  # type: ignore[no-untyped-call]
    assert logprobs.grad is not None
    return [float(value) for value in logprobs.grad]
