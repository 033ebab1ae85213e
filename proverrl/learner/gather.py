"""Extracts the tokens in the loss from packed rows.

Flows in: rows of training samples and what a model said of their tokens. Flows out: the tensors of
``LossInputs``. Not handled here: the forward pass (``proverrl.learner.packing``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from proverrl.learner.packing import PackedRow


def gather_tokens(
    rows: Sequence[PackedRow],
    logprobs: Tensor,
    entropy: Tensor,
    old: Mapping[int, Tensor],
    reference: Mapping[int, Tensor],
    version: int,
) -> dict[str, Any]:
    """The tensors of ``LossInputs`` for the tokens in the loss.

    ``logprobs`` and ``entropy`` hold all tokens after the prompts, in the order of
    ``packed_logprobs``; ``old`` and ``reference`` hold those of each sample, by ``id()``, and are
    empty where the sampler's values stand for the old policy or there is no reference.
    """
    samples = [sample for row in rows for sample in row.samples]
    device = logprobs.device
    lengths = [len(s.token_ids) - s.prompt_length for s in samples]
    keep = _flatten([s.loss_mask[s.prompt_length :] for s in samples]).bool().to(device)
    sampler = _flatten([s.logprobs[s.prompt_length :] for s in samples]).to(device)[keep]
    advantages = _flatten([s.advantages[s.prompt_length :] for s in samples]).to(device)[keep]
    repeats = torch.tensor(lengths)
    index = torch.arange(len(samples)).repeat_interleave(repeats)
    position = torch.cat([torch.arange(length) for length in lengths])
    return {
        "logprobs": logprobs[keep],
        "old_logprobs": torch.cat([old[id(s)] for s in samples])[keep] if old else sampler,
        "sampler_logprobs": sampler,
        "ref_logprobs": torch.cat([reference[id(s)] for s in samples])[keep] if reference else None,
        "entropy": entropy[keep],
        "advantages": advantages,
        "weights": torch.ones_like(sampler),
        "sample": index.to(device)[keep],
        "position": position.to(device)[keep],
        "group": torch.tensor([g for g, row in enumerate(rows) for _ in row.samples]).to(device),
        "truncated": torch.tensor([s.truncated for s in samples]).to(device),
        "staleness": torch.tensor([version - s.policy_version for s in samples]).to(device),
    }


def _flatten(parts: Sequence[Sequence[float]]) -> Tensor:
    return torch.tensor([value for part in parts for value in part])
