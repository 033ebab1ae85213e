"""Whether the model that samples is the model that learns, measured on fixed sequences.

Flows in: log-probabilities of the same tokens from two paths, each of shape (sequences, tokens).
Flows out: their distance, and what is wrong with it. If weights are pushed but not used, a run
keeps sampling from its first policy without any error; a few forward passes reveal it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from proverrl.config import PrecisionName
from proverrl.policy.decoding import CachedRows
from proverrl.policy.transformers import TransformersPolicy

LogProbs = Sequence[Sequence[float]]

TOLERANCES: dict[PrecisionName, float] = {"fp32": 1e-4, "bf16": 3e-2}
"""How far sampler and learner may differ per token, on average, in nats."""

MIN_SEQUENCES = 8


def mean_abs_difference(a: LogProbs, b: LogProbs) -> float:
    """The mean over all tokens of |a - b|.

    Raises:
        ValueError: the shapes differ, or there is no token.
    """
    pairs = [
        (x, y) for row, other in zip(a, b, strict=True) for x, y in zip(row, other, strict=True)
    ]
    if not pairs:
        raise ValueError("no token to compare")
    return sum(abs(x - y) for x, y in pairs) / len(pairs)


def explain_disagreement(sampler: LogProbs, learner: LogProbs, tolerance: float) -> str:
    """Why sampler and learner cannot have the same weights; empty when they agree."""
    distance = mean_abs_difference(sampler, learner)
    # Written so that what is not a number disagrees.
    if distance <= tolerance:
        return ""
    return (
        f"sampler and learner disagree by {distance:.3g} nats per token on {len(sampler)} fixed "
        f"sequences, more than {tolerance:g}: the sampler does not have the learner's weights"
    )


def explain_no_effect(sampler: LogProbs, base: LogProbs, *, moved: bool) -> str:
    """Why an adapter has no effect on the sampler; empty when it has one or has not moved."""
    if not moved or mean_abs_difference(sampler, base) != 0.0:
        return ""
    return (
        f"the adapter has moved, and the sampler gives {len(sampler)} fixed sequences exactly the "
        "log-probabilities of the base model: it samples without the adapter"
    )


@torch.inference_mode()
def score_by_sampling(
    policy: TransformersPolicy, sequences: Sequence[Sequence[int]], *, tokens: int
) -> list[list[float]]:
    """Log-probabilities at temperature 1 of the last ``tokens`` of each sequence, computed as in
    generation: the rest is prefilled, padded on the left, then one token at a time from the cache.
    """
    policy.model.eval()
    prompts = [sequence[:-tokens] for sequence in sequences]
    forced = torch.tensor([sequence[-tokens:] for sequence in sequences], device=policy.device)
    rows = CachedRows(policy.model, prompts, pad_id=policy.end_id, device=policy.device)
    found = []
    for step in range(tokens):
        if step:
            rows.add(forced[:, step - 1])
        logprobs = torch.log_softmax(rows.logits.float(), dim=-1)
        found.append(logprobs.gather(-1, forced[:, step : step + 1]))
    scores: list[list[float]] = torch.cat(found, dim=1).tolist()
    return scores
