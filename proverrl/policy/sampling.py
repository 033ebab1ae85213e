"""Draws one token per row from a model's logits, and pads rows of token ids into tensors.

Flows in: tensors. Flows out: tensors. Not handled here: what a completion is
(``proverrl.policy.transformers``).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def draw_tokens(
    logits: torch.Tensor, temperature: float, generator: torch.Generator, top_p: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample one token per row; returns ids and their log-probabilities in the whole distribution,
    both of shape (rows,).

    Temperature 0 takes the likeliest token and reports its log-probability at temperature 1.
    ``top_p`` draws from the fewest likeliest tokens that together have at least this probability
    (nucleus sampling, Holtzman et al. 2020, arXiv 1904.09751).
    """
    scale = temperature if temperature > 0 else 1.0
    logprobs = torch.log_softmax(logits.float() / scale, dim=-1)
    if temperature == 0:
        token = logprobs.argmax(dim=-1)
    else:
        weights = logprobs.exp()
        if top_p < 1.0:
            ordered, order = weights.sort(dim=-1, descending=True)
            likelier = ordered.cumsum(-1) - ordered
            weights = weights.scatter(-1, order, ordered.masked_fill(likelier >= top_p, 0.0))
        token = torch.multinomial(weights, 1, generator=generator).squeeze(-1)
    return token, logprobs.gather(-1, token[:, None]).squeeze(-1)


def pad_left(
    rows: Sequence[Sequence[int]], pad_id: int, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, both (rows, longest), padded on the left."""
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), pad_id)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, longest - len(row) :] = torch.tensor(row)
        mask[index, longest - len(row) :] = 1
    return ids.to(device), mask.to(device)
