"""Flash attention over sequences that lie end to end and share prompts, without a mask.

Flows in: queries, keys and values of one row of tokens, and which tokens are whose. Flows out: what
each token reads. A span reads itself (a causal pass over like spans side by side) and its prompt
(one pass for all spans of a prompt, none of which copies it). Each pass gives the logarithm of what
it divided by, and with these the parts are joined exactly, as kernels join the blocks of keys that
they read after one another (FlashAttention-2, Dao 2023, arXiv 2307.08691; between devices: Ring
Attention, Liu et al. 2023, arXiv 2310.01889). The kernels' backward passes get the joined output
and normaliser, from which each gives its part of the gradient of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.backends.cuda import SDPAParams, can_use_flash_attention
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

_OPS = torch.ops.aten
_ALIGNED = 8
"""The kernels on CUDA want heads of a multiple of this size."""


@dataclass(frozen=True, slots=True)
class _OwnBatch:
    """Spans of like length side by side: ``tokens`` (spans, longest), where padding repeats a
    span's last token, and which of them are ``padding``, or None if none is."""

    tokens: Tensor
    padding: Tensor | None


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """``own``: the causal passes, and ``order`` (tokens,) each token's place in them laid end to
    end. ``prompts``: the passes of the spans of a prompt over that prompt, as (queries, keys)."""

    own: tuple[_OwnBatch, ...]
    order: Tensor
    prompts: tuple[tuple[slice, slice], ...]


def plan_split(spans: Sequence[tuple[range, range]], device: torch.device) -> SplitPlan:
    """The passes for spans of (own tokens, tokens of the prompt), each token in one span. Spans
    whose lengths are equal within a factor of two go side by side."""
    by_size: dict[int, list[range]] = {}
    for own, _ in spans:
        by_size.setdefault(len(own).bit_length(), []).append(own)
    batches = []
    order = torch.empty(sum(len(own) for own, _ in spans), dtype=torch.long)
    start = 0
    for chosen in by_size.values():
        longest = max(map(len, chosen))
        ends = torch.tensor([own[-1] for own in chosen])[:, None]
        tokens = pad_sequence([torch.tensor(own) for own in chosen], True, padding_value=-1)
        padding = tokens < 0
        for row, own in enumerate(chosen):
            first = start + row * longest
            order[own.start : own.stop] = torch.arange(first, first + len(own))
        start += tokens.numel()
        tokens = torch.where(padding, ends, tokens).to(device)
        batches.append(_OwnBatch(tokens, padding.to(device) if padding.any() else None))
    prompts = []
    for prompt, sharing in groupby((span for span in spans if span[1]), key=lambda span: span[1]):
        owns = [own for own, _ in sharing]
        queries = slice(owns[0].start, owns[-1].stop)
        if queries.stop - queries.start != sum(map(len, owns)):
            raise ValueError(f"the spans behind the prompt {prompt} do not lie end to end: {owns}")
        prompts.append((queries, slice(prompt.start, prompt.stop)))
    return SplitPlan(tuple(batches), order.to(device), tuple(prompts))


def why_not_split(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> str:
    """The reason why torch has no flash attention for these; empty if it has."""
    if dropout:
        return "dropout"
    if query.device.type == "cpu":
        return ""
    if query.device.type == "cuda":
        q, k, v = _align(query, key, value)
        if can_use_flash_attention(SDPAParams(q, k, v, None, 0.0, True, True)):
            return ""
    return f"no flash attention in {query.dtype} on {query.device.type}"


def split_attention(
    query: Tensor, key: Tensor, value: Tensor, plan: SplitPlan, scale: float
) -> Tensor:
    """The values that each token reads, of shape (1, tokens, heads, head size), from tensors of
    shape (1, heads, tokens, head size); keys and values may have fewer heads, each for as many
    queries'."""
    aligned = _align(query, key, value)
    out: Tensor = _SplitAttention.apply(*aligned, plan, scale)  # type: ignore[no-untyped-call]
    return out[..., : value.shape[-1]]


class _SplitAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, plan: SplitPlan, scale: float
    ) -> Tensor:
        outs, norms = [], []
        for batch in plan.own:
            q, k, v = (_pick(tensor, batch.tokens) for tensor in (query, key, value))
            out, norm = _forward(q, k, v, scale, causal=True)
            outs.append(out.transpose(1, 2).flatten(0, 1))
            norms.append(norm.transpose(1, 2).flatten(0, 1))
        joined = torch.cat(outs)[plan.order].transpose(0, 1)[None]
        total = torch.cat(norms)[plan.order].transpose(0, 1)[None]
        for queries, keys in plan.prompts:
            q, k, v = query[:, :, queries], key[:, :, keys], value[:, :, keys]
            out, norm = _forward(q, k, v, scale, causal=False)
            before, rows = total[:, :, queries], joined[:, :, queries]
            both = torch.logaddexp(before, norm)
            rows.copy_(
                rows * (before - both).exp()[..., None] + out * (norm - both).exp()[..., None]
            )
            before.copy_(both)
        result = joined.transpose(1, 2)
        ctx.save_for_backward(query, key, value, result, total)
        ctx.plan, ctx.scale = plan, scale
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, result, total = ctx.saved_tensors
        plan: SplitPlan = ctx.plan
        joined, grad = result.transpose(1, 2), grad.transpose(1, 2)
        parts = []
        for batch in plan.own:
            q, k, v, o, g = (
                _pick(tensor, batch.tokens) for tensor in (query, key, value, joined, grad)
            )
            norm = _pick(total[..., None], batch.tokens)[..., 0]
            if batch.padding is not None:
                # Padding attends to its span's tokens as the last of them does; nobody reads it.
                g = g.masked_fill(batch.padding[:, None, :, None], 0.0)
            found = _backward(g, q, k, v, o, norm, ctx.scale, causal=True)
            parts.append([tensor.transpose(1, 2).flatten(0, 1) for tensor in found])
        grads = [
            torch.cat(part)[plan.order].transpose(0, 1)[None] for part in zip(*parts, strict=True)
        ]
        for queries, keys in plan.prompts:
            q, k, v = query[:, :, queries], key[:, :, keys], value[:, :, keys]
            o, g, norm = (tensor[:, :, queries] for tensor in (joined, grad, total))
            found = _backward(g, q, k, v, o, norm, ctx.scale, causal=False)
            for whole, place, part in zip(grads, (queries, keys, keys), found, strict=True):
                whole[:, :, place] += part
        return *grads, None, None


def _forward(
    query: Tensor, key: Tensor, value: Tensor, scale: float, *, causal: bool
) -> tuple[Tensor, Tensor]:
    """One pass: its output and the logarithms of its normalisers (rows, heads, queries)."""
    if query.device.type == "cpu":
        flash = _OPS._scaled_dot_product_flash_attention_for_cpu
        out, norm = flash(query, key, value, 0.0, causal, scale=scale)
    else:
        flash = _OPS._scaled_dot_product_flash_attention
        out, norm, *_ = flash(query, key, value, 0.0, causal, False, scale=scale)
    return out, norm


def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    norm: Tensor,
    scale: float,
    *,
    causal: bool,
) -> Sequence[Tensor]:
    """The addition of one pass to the gradients of its queries, keys and values, where ``out`` and
    ``norm`` are those of all passes together."""
    given = (grad, query, key, value, out, norm.contiguous())
    found: Sequence[Tensor]
    if query.device.type == "cpu":
        flash = _OPS._scaled_dot_product_flash_attention_for_cpu_backward
        found = flash(*given, 0.0, causal, scale=scale)
    else:
        flash = _OPS._scaled_dot_product_flash_attention_backward
        # Without dropout no random state is read; a row of equal lengths has no list of them.
        state = torch.zeros(2, dtype=torch.uint64, device=query.device)
        lengths = (None, None, query.shape[2], key.shape[2])
        found = flash(*given, *lengths, 0.0, causal, state, state, scale=scale)
    return found


def _pick(tensor: Tensor, tokens: Tensor) -> Tensor:
    """Of (1, heads, tokens, size) the tokens (spans, longest), as (spans, heads, longest, size)."""
    flat = tensor[0].transpose(0, 1).flatten(1)
    picked = flat.index_select(0, tokens.flatten())
    return picked.view(*tokens.shape, *tensor.shape[1::2]).transpose(1, 2)


def _align(*tensors: Tensor) -> list[Tensor]:
    """The tensors with heads of one size, as long as the longest and, on CUDA, a multiple of eight;
    what is added is zero, which changes no product."""
    size = max(tensor.shape[-1] for tensor in tensors)
    if tensors[0].device.type == "cuda":
        size += -size % _ALIGNED
    return [pad(x, (0, size - x.shape[-1])) if x.shape[-1] < size else x for x in tensors]
