"""One token after the other: rows of tokens in a model's key-value cache, and how a token is drawn.

Flows in: token ids, then one more token of each row at a time. Flows out: logits of the next token,
and draws from them. transformers' own dynamic cache copies all that it holds at every step; the one
here reserves room and copies once per ``ROOM`` steps. Models with sliding windows or linear
attention keep the library's cache. Nothing here waits for the device while tokens are added, but
for models whose masks the library has to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask

LOWEST = -1e4
"""A log-probability below this is one of 0: its exponential is 0 in float64 too, and so is their
product, while -inf times 0 is no number."""
ROOM = 64
"""Tokens for which room is made at once."""

PREFILL_TOKENS = 32_768
"""Tokens of prompts that are read at once, all rows together: what a layer computes of them is
there until the next has read it."""


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
            assert self.keys is not None
            assert self.values is not None
            self._buffers = (_with_room(self.keys, end), _with_room(self.values, end))
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[..., length:end, :] = new
        self.keys, self.values = (buffer[..., :end, :] for buffer in self._buffers)
        return self.keys, self.values

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._buffers = None
        super().batch_repeat_interleave(repeats)

    def batch_select_indices(self, indices: Tensor) -> None:
        self._buffers = None
        super().batch_select_indices(indices)


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
        ids, mask = pad_left(rows, pad_id, device)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        piece = max(1, PREFILL_TOKENS // len(rows))
        if isinstance(self._cache, DynamicCache):
            # Layers that are not full attention may know no more than a first piece and a token.
            piece = ids.shape[1]
        for start in range(0, ids.shape[1], piece):
            self._mask = mask[:, : start + piece]
            self._read(ids[:, start : start + piece], positions[:, start : start + piece])

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
        self._is_padded = self._is_padded and not bool(self._mask.all())

    def add(self, tokens: Tensor) -> None:
        """One more token for each row, of shape (rows,)."""
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(self._mask), 1))], dim=1)
        self._read(tokens[:, None], self.position + 1)

    def _read(self, ids: Tensor, positions: Tensor) -> None:
        mask: Tensor | None = self._mask
        num_new, is_first = ids.shape[1], ids.shape[1] == self._mask.shape[1]
        if self._masks_itself and not self._is_padded and (num_new == 1 or is_first):
            mask = None
        elif self._masks_itself and num_new == 1:
            mask = self._mask.bool()[:, None, None]
        out = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
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
    wide = logits.float() / scale
    logprobs = torch.log_softmax(_keep_likeliest(wide, top_k) if top_k else wide, dim=-1)
    if temperature == 0:
        token = logprobs.argmax(dim=-1)
    else:
        weights = logprobs.exp()
        if top_p < 1.0:
            ordered, order = weights.sort(dim=-1, descending=True)
            likelier = ordered.cumsum(-1) - ordered
            weights = weights.scatter(-1, order, ordered.masked_fill(likelier >= top_p, 0.0))
        # What torch.multinomial draws, which would wait for the device to look for faults.
        race = torch.empty_like(weights).exponential_(1.0, generator=generator)
        token = weights.div_(race).argmax(dim=-1)
    return token, logprobs.gather(-1, token[:, None]).squeeze(-1)


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


def _with_room(tensor: Tensor, length: int) -> Tensor:
    rows, heads, held, size = tensor.shape
    buffer = tensor.new_empty((rows, heads, length + ROOM, size))
    buffer[..., :held, :] = tensor
    return buffer
