"""Attention over tokens that are laid end to end, where sequences share their prompts.

Flows in: the tokens of many sequences in one row without padding, and spans that say which of them
each sequence reads. Flows out: what every token attends to, in the same order. All else in a model
works token by token, so that a prompt is computed once for all sequences that continue from it
(shared prefixes: Hydragen, Juravsky et al. 2024, arXiv 2402.05099). What a token reads of its own
span and what it reads of the prompt are computed apart and joined by their normalisers
(``proverrl.learner.split_attention``), without a mask and without a copy of the prompt. Where that
cannot be, each span reads a copy of its prompt through a mask. Layers with neither full attention
nor a window are refused.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from proverrl.errors import UsageError
from proverrl.learner.split_attention import SplitPlan, plan_split, split_attention, why_not_split
from proverrl.policy.decoding import grouped_attention

logger = logging.getLogger(__name__)

NAME = "proverrl_packed"
"""The name of the attention in transformers; without a plan it is the sampler's."""

NO_MASK = torch.empty(1, 1, 0, 0)
"""Given as the attention mask, so that the library builds none: the plan says it all."""

_KINDS = {"full_attention", "sliding_attention"}
_UNKNOWN = ("softcap", "s_aux", "position_bias")
"""Arguments that some models give their attention, and torch's own does not know."""


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens of one sequence: each reads all of ``prompt``, another span's tokens, and then its
    ``own`` up to itself."""

    own: range
    prompt: range = range(0)

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.own)


@dataclass(frozen=True, slots=True)
class _SpanBatch:
    """Spans of like length, padded: ``queries`` (spans, longest query), ``keys`` (spans, longest),
    ``mask`` (spans, 1, longest query, longest), or None where all is causal from the first key."""

    queries: Tensor
    keys: Tensor
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class _MaskedPlan:
    """All batches of spans, and each token's query as an index into those of all batches."""

    batches: tuple[_SpanBatch, ...]
    order: Tensor


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """The plan that the layers of one forward pass share."""

    spans: tuple[Span, ...]
    split: SplitPlan
    device: torch.device
    masked: dict[int, _MaskedPlan] = field(default_factory=dict)
    """By window (0 is none), made when a layer first asks."""


def plan_attention(spans: Sequence[Span], device: torch.device) -> AttentionPlan:
    """The plan of a row that is made of ``spans``, each token in exactly one of them."""
    split = plan_split([(span.own, span.prompt) for span in spans], device)
    return AttentionPlan(tuple(spans), split, device)


def use_packed_attention(model: Any) -> None:
    """Let the model attend through this module; it goes on as before where no plan is given. Raises
    ``UsageError`` if the model does not look its attention up by name, or has layers that do not
    attend to all that came before or to a window of it."""
    config = model.config.get_text_config(decoder=True)
    if config._attn_implementation == NAME:
        return
    kinds = set(getattr(config, "layer_types", None) or ())
    if kinds - _KINDS:
        raise UsageError(
            f"{type(model).__name__} has {', '.join(sorted(kinds))}, and training packs sequences "
            "for full attention and sliding windows; use another model"
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
    first value returned is (rows, tokens, heads, head size). With a plan there is one row. Raises
    ``UsageError`` if the model wants attention that torch's own does not compute."""
    if attention_plan is None:
        return grouped_attention(module, query, key, value, attention_mask, **settings)
    for name in _UNKNOWN:
        if settings.get(name) is not None:
            raise UsageError(
                f"{type(module).__name__} asks its attention for {name!r}, which packed training "
                "does not compute; use another model"
            )
    window = _find_window(module, settings)
    if window >= max(span.length for span in attention_plan.spans):
        window = 0
    reason = f"a window of {window} tokens" if window else ""
    reason = reason or why_not_split(query, key, value, settings.get("dropout", 0.0))
    _tell(reason)
    if not reason:
        scale = settings.get("scaling") or query.shape[-1] ** -0.5
        return split_attention(query, key, value, attention_plan.split, scale), None
    if window not in attention_plan.masked:
        attention_plan.masked[window] = _plan_masked(attention_plan, window)
    plan = attention_plan.masked[window]
    heads, size = query.shape[1], value.shape[-1]
    flat = [tensor[0].transpose(0, 1).flatten(1) for tensor in (query, key, value)]
    outs = []
    for batch in plan.batches:
        indices = (batch.queries, batch.keys, batch.keys)
        q, k, v = (
            embedding(index, tensor).view(*index.shape, -1, like.shape[-1]).transpose(1, 2)
            for index, tensor, like in zip(indices, flat, (query, key, value), strict=True)
        )
        out, _ = sdpa_attention_forward(module, q, k, v, batch.mask, **settings)
        outs.append(out.reshape(-1, heads * size))
    return embedding(plan.order, torch.cat(outs)).view(1, -1, heads, size), None


def _find_window(module: Any, settings: dict[str, Any]) -> int:
    """The number of tokens that a token of this layer sees, itself included; 0 is all. Not every
    model tells its attention, so that the configuration is asked too."""
    if told := settings.get("sliding_window"):
        return int(told)
    config = module.config
    kinds = getattr(config, "layer_types", None)
    if kinds and kinds[module.layer_idx] != "sliding_attention":
        return 0
    return int(getattr(config, "sliding_window", None) or 0)


@functools.cache
def _tell(reason: str) -> None:
    """Say once a process which way is taken."""
    if reason:
        logger.warning("packed rows attend through a mask and copied prompts: %s", reason)
    else:
        logger.info("packed rows attend through flash attention, without a mask")


def _plan_masked(plan: AttentionPlan, window: int) -> _MaskedPlan:
    """Batches of spans whose own tokens are as many within a factor of two."""
    by_size: dict[tuple[bool, int], list[Span]] = {}
    for span in plan.spans:
        size = len(span.own).bit_length()
        by_size.setdefault((bool(span.prompt) or window > 0, size), []).append(span)
    batches = []
    queries = []
    for (needs_mask, _), chosen in by_size.items():
        batch = _pad_spans(chosen, window, needs_mask, plan.device)
        counts = torch.tensor([len(span.own) for span in chosen], device=plan.device)
        longest = torch.arange(batch.queries.shape[1], device=plan.device)
        queries.append(torch.where(longest < counts[:, None], batch.queries, -1).flatten())
        batches.append(batch)
    order = torch.cat(queries).argsort(stable=True)
    return _MaskedPlan(tuple(batches), order[-sum(len(span.own) for span in plan.spans) :])


def _pad_spans(
    spans: Sequence[Span], window: int, needs_mask: bool, device: torch.device
) -> _SpanBatch:
    own = [torch.tensor(span.own) for span in spans]
    queries = pad_sequence(own, batch_first=True)
    keys = pad_sequence(
        [torch.tensor([*span.prompt, *span.own]) for span in spans], batch_first=True
    )
    if not needs_mask:
        return _SpanBatch(queries.to(device), keys.to(device), None)
    before = torch.tensor([len(span.prompt) for span in spans])
    # Padding comes last, so that no token but padding itself looks that far.
    last = (before[:, None] + torch.arange(queries.shape[1]))[:, :, None]
    place = torch.arange(keys.shape[1])
    mask = (place <= last) & (place > last - (window or keys.shape[1]))
    return _SpanBatch(queries.to(device), keys.to(device), mask[:, None].to(device))


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
