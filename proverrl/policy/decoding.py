"""One token after the other: rows of tokens in a model's key-value cache, and how a token is drawn.

Flows in: token ids, then one more token of each row at a time. Flows out: logits of the next token,
and draws from them. transformers' own dynamic cache copies all that it holds at every step; the one
here reserves room and copies once per ``ROOM`` steps. Models with sliding windows or linear
attention keep the library's cache. Nothing here waits for the device while tokens are added, but
for models whose masks the library has to make.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask

LOWEST = -1e4
"""A log-probability below this is one of 0: its exponential is 0 in float64 too, and so is their
product, while -inf times 0 is no number."""
ROOM = 64
"""Tokens for which room is made at once."""

BLOCK = 128
"""Weights that are summed at once in a draw."""

GROUPED = "proverrl_grouped"
"""The name in transformers of torch's attention, with heads in groups where one token is added."""

PREFILL_TOKENS = 32_768
"""Tokens of prompts that are read at once, all rows together: what a layer computes of them is
there until the next has read it."""


def find_context_tokens(model: Any) -> int:
    """The most tokens of prompt and completion together."""
    config = model.config.get_text_config(decoder=True)
    # A recurrent model has no such limit.
    return int(getattr(config, "max_position_embeddings", None) or sys.maxsize)


def group_heads(model: Any) -> None:
    """Let the model attend through ``grouped_attention`` where it attends through torch's own."""
    config = model.config.get_text_config(decoder=True)
    if config._attn_implementation == "sdpa":
        model.set_attn_implementation(GROUPED)


def grouped_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **settings: Any,
) -> tuple[Tensor, None]:
    """Attention for transformers' interface: tensors are (rows, heads, tokens, head size), and the
    first value returned is (rows, tokens, heads, head size). Of one token a row, the heads that
    share their keys and values (grouped queries, Ainslie et al. 2023, arXiv 2305.13245) are its
    queries: the library would copy all keys for each head."""
    rows, heads, tokens, size = query.shape
    groups = key.shape[1]
    plain = settings.get("dropout", 0.0) == 0.0 and settings.get("position_bias") is None
    if tokens > 1 or groups == heads or not plain:
        out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
        return out, None
    grouped = query.reshape(rows, groups, heads // groups, size)
    mask = None if attention_mask is None else attention_mask[..., : key.shape[-2]]
    scale = settings.get("scaling")
    found = F.scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scale)
    return found.reshape(rows, 1, heads, value.shape[-1]), None


class RoomyLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer; tensors are (rows, heads, tokens, head size)."""

    _buffers: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new tokens; returns all of them."""
        length = self.get_seq_length()
        if length == 0:
            # The prompt. Rows are repeated after it, so that room would be copied for nothing.
            self.is_initialized = True
            self.dtype, self.device = key_states.dtype, key_states.device
            self.keys, self.values = key_states, value_states
            return self.keys, self.values
        end = length + key_states.shape[-2]
        if self._buffers is None or end > self._buffers[0].shape[-2]:
            keys, values = self._held()
            self._buffers = (_with_room(keys, end), _with_room(values, end))
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[..., length:end, :] = new
        self.keys, self.values = (buffer[..., :end, :] for buffer in self._buffers)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        self._buffers = None
        super().batch_select_indices(indices)

    def cut(self, start: int) -> None:
        """Forget the first places of all rows, which no row needs."""
        self._buffers = None
        keys, values = self._held()
        self.keys, self.values = keys[..., start:, :], values[..., start:, :]

    def join(self, other: RoomyLayer) -> None:
        """Take in other rows, behind these; all end at the same place."""
        self._buffers = None
        pairs = zip(self._held(), other._held(), strict=True)
        self.keys, self.values = (torch.cat(_align(*pair, dim=-2)) for pair in pairs)

    def _held(self) -> tuple[Tensor, Tensor]:
        assert self.keys is not None
        assert self.values is not None
        return self.keys, self.values


def make_cache(model: Any) -> Cache:
    """A cache for the model: this one where every layer attends to all tokens."""
    config = model.config.get_text_config(decoder=True)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds == {"full_attention"} and not getattr(config, "sliding_window", None):
        return Cache(layer_class_to_replicate=RoomyLayer)
    return DynamicCache(config=model.config)


class CachedRows:
    """Rows of tokens that a model has read; ``logits`` of each row's next token are of shape (rows,
    vocabulary), ``position`` of its last one (rows, 1)."""

    logits: Tensor
    position: Tensor

    def __init__(
        self, model: Any, rows: Sequence[Sequence[int]], *, pad_id: int, device: str
    ) -> None:
        self._model = model
        self._cache = make_cache(model)
        # The library reads each mask to see whether it may be left out; here it is known.
        self._is_padded = len({len(row) for row in rows}) > 1
        self._masks_itself = _takes_masks(model, self._cache)
        self._last_position = find_context_tokens(model) - 1
        ids, mask = pad_left(rows, pad_id, device)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        piece = max(1, PREFILL_TOKENS // len(rows))
        if not self.can_join:
            # Layers that are not full attention may know no more than a first piece and a token.
            piece = ids.shape[1]
        for start in range(0, ids.shape[1], piece):
            self._mask = mask[:, : start + piece]
            self._read(ids[:, start : start + piece], positions[:, start : start + piece])

    @property
    def num_places(self) -> int:
        """How many tokens of each row are held, padding among them."""
        return self._mask.shape[1]

    @property
    def can_join(self) -> bool:
        """True if rows may be added to these."""
        return not isinstance(self._cache, DynamicCache)

    @property
    def _layers(self) -> list[RoomyLayer]:
        return [layer for layer in self._cache.layers if isinstance(layer, RoomyLayer)]

    def join(self, other: CachedRows) -> None:
        """Have the other rows as well, behind these."""
        for mine, others in zip(self._layers, other._layers, strict=True):
            mine.join(others)
        self._mask = torch.cat(_align(self._mask, other._mask, dim=-1))
        self.logits, self.position = (
            torch.cat(pair)
            for pair in ((self.logits, other.logits), (self.position, other.position))
        )
        self._is_padded = not bool(self._mask.all())

    def repeat(self, rows: Tensor) -> None:
        """From here on have these of the rows, each as often as it is named."""
        self._cache.batch_select_indices(rows)
        self.logits, self._mask, self.position = (
            tensor[rows] for tensor in (self.logits, self._mask, self.position)
        )

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these; from here on ``logits`` are those of the next ``add``."""
        self._cache.batch_select_indices(rows)
        self._mask, self.position = self._mask[rows], self.position[rows]
        if self._is_padded and self.can_join:
            # Where the longest of the rows begins.
            start = int(self._mask.any(0).int().argmax())
            self._mask = self._mask[:, start:]
            for layer in self._layers:
                layer.cut(start)
        self._is_padded = self._is_padded and not bool(self._mask.all())

    def add(self, tokens: Tensor) -> None:
        """One more token for each row, of shape (rows,)."""
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(self._mask), 1))], dim=1)
        # Rows that have ended and are still here have no place in the model behind its context.
        self._read(tokens[:, None], (self.position + 1).clamp(max=self._last_position))

    def _read(self, ids: Tensor, positions: Tensor) -> None:
        mask: Tensor | None = self._mask
        num_new, is_first = ids.shape[1], ids.shape[1] == self._mask.shape[1]
        if self._masks_itself and not self._is_padded and (num_new == 1 or is_first):
            mask = None
        elif self._masks_itself and num_new == 1:
            mask = self._mask.bool()[:, None, None]
        # By an index the last places are copied. A view of them that meets frozen weights is
        # multiplied by a copy of these for each row (torch.matmul): 2 GB and 5 seconds for 8 rows
        # of a model with 152,000 tokens.
        last = 1 if num_new == 1 else torch.tensor([num_new - 1], device=ids.device)
        out = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=last,
        )
        self.logits = out.logits[:, -1]
        self.position = positions[:, -1:]


def _takes_masks(model: Any, cache: Cache) -> bool:
    """True if a model can be given no mask where nothing is padded, and for one token its row of a
    mask as it is: one kind of layer, and torch's attention."""
    config = model.config.get_text_config(decoder=True)
    return (
        getattr(cache, "layer_class_to_replicate", None) is RoomyLayer
        and ALL_MASK_ATTENTION_FUNCTIONS.get(config._attn_implementation) is sdpa_mask
        and not getattr(config, "alibi", False)
    )


def draw_tokens(
    logits: Tensor,
    temperature: float,
    generator: torch.Generator,
    top_p: float = 1.0,
    top_k: int = 0,
) -> tuple[Tensor, Tensor]:
    """Sample one token per row; returns ids and their log-probabilities, both of shape (rows,).

    Temperature 0 takes the likeliest token and reports its log-probability at temperature 1. Of
    logits that are not numbers the log-probabilities are none either.
    ``top_k`` above 0 draws from so many likeliest tokens (Fan et al. 2018, arXiv 1805.04833), and
    the log-probabilities are those among them. ``top_p`` draws from the fewest likeliest of these
    that together have at least this probability (nucleus sampling, Holtzman et al. 2020, arXiv
    1904.09751); the log-probabilities do not count it.
    """
    scale = temperature if temperature > 0 else 1.0
    # Every pass over the vocabulary counts: on a CPU a draw may take as long as the model.
    wide = logits.float() if scale == 1.0 else logits.float() / scale
    if top_k:
        wide = _keep_likeliest(wide, top_k)
    most = wide.amax(dim=-1, keepdim=True)
    weights = (wide - most).exp_()
    total = weights.sum(dim=-1, keepdim=True)
    if temperature == 0:
        token = wide.argmax(dim=-1)
    else:
        if top_p < 1.0:
            ordered, order = (weights / total).sort(dim=-1, descending=True)
            likelier = ordered.cumsum(-1) - ordered
            weights = weights.scatter(-1, order, ordered.masked_fill(likelier >= top_p, 0.0))
        token = _draw_weighted(weights, generator)
    chosen = wide.gather(-1, token[:, None])
    return token, (chosen - most - total.log()).squeeze(-1)


def _draw_weighted(weights: Tensor, generator: torch.Generator) -> Tensor:
    """One index per row of ``weights`` (rows, vocabulary), by the inverse of their running sum.
    torch.multinomial draws a number for every weight, which takes a quarter of the time that a
    model of 0.5 B needs for a token on a CPU, and waits for the device to look for faults."""
    if missing := -weights.shape[-1] % BLOCK:
        weights = F.pad(weights, (0, missing))
    blocks = weights.reshape(len(weights), -1, BLOCK)
    sums = blocks.sum(-1).double().cumsum(-1)
    uniform = torch.rand((len(sums), 1), dtype=sums.dtype, device=sums.device, generator=generator)
    target = uniform * sums[:, -1:]
    block = _first_above(sums, target)
    before = F.pad(sums, (1, 0)).gather(-1, block)
    rows = torch.arange(len(sums), device=sums.device)
    inside = blocks[rows, block.squeeze(-1)].double().cumsum(-1)
    return (block * BLOCK + _first_above(inside, target - before)).squeeze(-1)


def _first_above(sums: Tensor, target: Tensor) -> Tensor:
    """The first place at which a row's running sum exceeds its target, of shape (rows, 1); where
    rounding leaves none, that at which the sum is complete, whose weight is not 0 either."""
    complete = sums.argmax(-1, keepdim=True)
    return torch.minimum((sums <= target).sum(-1, keepdim=True), complete)


def _keep_likeliest(logits: Tensor, top_k: int) -> Tensor:
    """Logits of shape (rows, vocabulary) with -inf for all but the ``top_k`` largest of each row;
    of equal logits at the limit as many are kept as there is room for."""
    kept = logits.topk(min(top_k, logits.shape[-1]), dim=-1).indices
    left_out = torch.ones_like(logits, dtype=torch.bool).scatter(-1, kept, False)
    return logits.masked_fill(left_out, -torch.inf)


def pad_left(rows: Sequence[Sequence[int]], pad_id: int, device: str) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask, both (rows, longest), padded on the left."""
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), pad_id)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, longest - len(row) :] = torch.tensor(row)
        mask[index, longest - len(row) :] = 1
    return ids.to(device), mask.to(device)


def _align(first: Tensor, second: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Both with as many places, zeros before the first of the shorter."""
    longest = max(first.shape[dim], second.shape[dim])
    pads = (0, 0) * (-1 - dim)
    padded = [F.pad(each, (*pads, longest - each.shape[dim], 0)) for each in (first, second)]
    return padded[0], padded[1]


def _with_room(tensor: Tensor, length: int) -> Tensor:
    rows, heads, held, size = tensor.shape
    buffer = tensor.new_empty((rows, heads, length + ROOM, size))
    buffer[..., :held, :] = tensor
    return buffer


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)
