"""What is left out of the policy loss: whole samples before the forward pass, tokens after it. A
masked token still counts in the loss's divisor; a sample that is left out does not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from proverrl.config import LossConfig
from proverrl.losses.base import LossInputs
from proverrl.rollout.samples import TrainingSample


def select_samples(
    samples: Sequence[TrainingSample], settings: LossConfig, version: int
) -> tuple[list[TrainingSample], dict[str, float]]:
    """The samples that may train a policy of ``version``, and counts of the others.

    ``mask_truncated`` drops those cut off at the token limit (overlong filtering: DAPO, Yu et al.
    2025, arXiv 2503.14476), and samples older than ``weights.max_staleness`` versions are dropped
    too. Advantages stay as they are, because the group was compared with them.
    """
    limit = settings.weights.max_staleness
    fresh = [s for s in samples if not limit or version - s.policy_version <= limit]
    kept = [s for s in fresh if not (settings.mask_truncated and s.truncated)]
    counts: dict[str, float] = {}
    if limit:
        counts["samples_too_old"] = len(samples) - len(fresh)
    if settings.mask_truncated:
        counts["samples_truncated"] = len(fresh) - len(kept)
    return kept, counts


def top_entropy_mask(entropy: Tensor, share: float) -> Tensor:
    """True for the ``share`` of tokens with the highest entropy, rounded up, ties included: the
    forks (80/20, Wang et al. 2025, arXiv 2506.01939). Within the micro-batch."""
    count = math.ceil(share * len(entropy))
    return entropy >= entropy.topk(count).values[-1]


def positive_mask(inputs: LossInputs) -> Tensor:
    """True for tokens that stay when entropy is low: not those with A > 0 that already have at
    least ``positive_mask_probability`` (UloRL, Du et al. 2025, arXiv 2507.19766)."""
    certain = inputs.logprobs.detach().exp() >= inputs.settings.positive_mask_probability
    return ~((inputs.advantages > 0) & certain)
