"""A key-value cache that writes new tokens in place.

Flows in: keys and values of each step. Flows out: those of all steps so far. transformers' own
dynamic cache copies everything that it holds at every step; this one reserves room for some steps
ahead and copies once per ``_ROOM`` steps. Not handled here: sliding windows and linear attention;
models with such layers keep the library's cache.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

_ROOM = 64


class RoomyLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer; tensors are (rows, heads, tokens, head size)."""

    _buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
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
        """Repeat each row."""
        self._buffers = None
        super().batch_repeat_interleave(repeats)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep some rows."""
        self._buffers = None
        super().batch_select_indices(indices)


def make_cache(model: Any) -> Cache:
    """A cache for the model: this one where every layer attends to all tokens."""
    config = model.config.get_text_config(decoder=True)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds == {"full_attention"} and not getattr(config, "sliding_window", None):
        return Cache(layer_class_to_replicate=RoomyLayer)
    return DynamicCache(config=model.config)


def _with_room(tensor: torch.Tensor, length: int) -> torch.Tensor:
    rows, heads, held, size = tensor.shape
    buffer = tensor.new_empty((rows, heads, length + _ROOM, size))
    buffer[..., :held, :] = tensor
    return buffer
