"""Attention over tokens that are laid end to end, where sequences share their prompts.

Flows in: the tokens of many sequences in one row without padding, and spans that say which of them
each sequence reads. Flows out: what every token attends to, in the same order. All else in a model
works token by token, so that a prompt is computed once for all sequences that continue from it
(shared prefixes: Hydragen, Juravsky et al. 2024, arXiv 2402.05099). Layers without full attention
are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from proverrl.errors import UsageError

NAME = "proverrl_packed"
"""What transformers knows the attention as; without a plan it is torch's own (sdpa)."""

NO_MASK = torch.empty(1, 1, 0, 0)
"""Given as the attention mask, so that the library builds none: the plan says it all."""


@dataclass(frozen=True, slots=True)
class Span:
    """A sequence: the indices of its tokens, of shape (tokens,), the last ``num_queries`` of which
    attend here; the ones before them attend in another span."""

    num_queries: int
    tokens: Tensor


@dataclass(frozen=True, slots=True)
class _SpanBatch:
    """Spans of like length, padded: ``queries`` (spans, longest query), ``keys`` (spans, longest),
    ``mask`` (spans, 1, longest query, longest), or None where all is causal from the first key."""

    queries: Tensor
    keys: Tensor
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """All batches of spans, and each token's query as an index into those of all batches."""

    batches: tuple[_SpanBatch, ...]
    order: Tensor


def plan_attention(spans: Sequence[Span], device: torch.device) -> AttentionPlan:
    """Batches of spans whose queries are as many within a factor of two; each token of the row is a
    query of exactly one span."""
    by_size: dict[tuple[bool, int], list[Span]] = {}
    for span in spans:
        is_whole = span.num_queries == len(span.tokens)
        by_size.setdefault((is_whole, span.num_queries.bit_length()), []).append(span)
    batches = []
    queries = []
    for (is_whole, _), chosen in by_size.items():
        batch = _pad_spans(chosen, is_whole, device)
        counts = torch.tensor([span.num_queries for span in chosen], device=device)
        used = torch.arange(batch.queries.shape[1], device=device) < counts[:, None]
        queries.append(torch.where(used, batch.queries, -1).flatten())
        batches.append(batch)
    order = torch.cat(queries).argsort(stable=True)
    return AttentionPlan(tuple(batches), order[-sum(span.num_queries for span in spans) :])


def use_packed_attention(model: Any) -> None:
    """Let the model attend through this module; it goes on as before where no plan is given. Raises
    ``UsageError`` if the model does not look its attention up by name, or has layers that do not
    attend to all that came before."""
    config = model.config.get_text_config(decoder=True)
    if config._attn_implementation == NAME:
        return
    kinds = set(getattr(config, "layer_types", None) or ())
    window = None if kinds else getattr(config, "sliding_window", None)
    if window or kinds - {"full_attention"}:
        found = f"a window of {window} tokens" if window else ", ".join(sorted(kinds))
        raise UsageError(
            f"{type(model).__name__} has {found}, and training packs sequences for full attention; "
            "where no sequence is longer than the window, set sliding_window to null in the "
            "checkpoint's config.json, otherwise use another model"
        )
    model.set_attn_implementation(NAME)
    found = config._attn_implementation
    if found != NAME:
        raise UsageError(
            f"{type(model).__name__} has attention of its own ({found}) that cannot be packed; "
            "use a model that supports transformers' attention interface"
        )


def packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    attention_plan: AttentionPlan | None = None,
    **settings: Any,
) -> tuple[Tensor, None]:
    """Attention for transformers' interface: tensors are (rows, heads, tokens, head size), and the
    first value returned is (rows, tokens, heads, head size). With a plan there is one row."""
    if attention_plan is None:
        out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
        return out, None
    heads, size = query.shape[1], value.shape[-1]
    flat = [tensor[0].transpose(0, 1).flatten(1) for tensor in (query, key, value)]
    outs = []
    for batch in attention_plan.batches:
        indices = (batch.queries, batch.keys, batch.keys)
        q, k, v = (
            embedding(index, tensor).view(*index.shape, -1, like.shape[-1]).transpose(1, 2)
            for index, tensor, like in zip(indices, flat, (query, key, value), strict=True)
        )
        out, _ = sdpa_attention_forward(module, q, k, v, batch.mask, **settings)
        outs.append(out.reshape(-1, heads * size))
    return embedding(attention_plan.order, torch.cat(outs)).view(1, -1, heads, size), None


def _pad_spans(spans: Sequence[Span], is_whole: bool, device: torch.device) -> _SpanBatch:
    keys = pad_sequence([span.tokens for span in spans], batch_first=True)
    queries = pad_sequence([s.tokens[-s.num_queries :] for s in spans], batch_first=True)
    if is_whole:
        return _SpanBatch(queries.to(device), keys.to(device), None)
    before = torch.tensor([len(span.tokens) - span.num_queries for span in spans])
    # Padding comes last, so that no token but padding itself looks that far.
    seen = before[:, None] + torch.arange(queries.shape[1])
    mask = torch.arange(keys.shape[1]) <= seen[:, :, None]
    return _SpanBatch(queries.to(device), keys.to(device), mask[:, None].to(device))


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
