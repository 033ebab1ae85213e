"""The cache that writes in place gives what the library's gives."""

import torch
from transformers import DynamicCache, LlamaConfig
from transformers.cache_utils import Cache

from proverrl.policy.decoding import RoomyLayer, make_cache


class Holder:
    """As much of a model as ``make_cache`` looks at."""

    def __init__(self, config: LlamaConfig) -> None:
        self.config = config


def make_config(sliding_window: int | None = None) -> LlamaConfig:
    config = LlamaConfig(hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    config.sliding_window = sliding_window
    return config


def test_the_same_keys_and_values_through_growth_repeats_and_selections() -> None:
    generator = torch.Generator().manual_seed(0)
    ours, theirs = Cache(layer_class_to_replicate=RoomyLayer), DynamicCache()
    rows = 3
    prompt = torch.randn(rows, 2, 5, 4, generator=generator)
    for cache in (ours, theirs):
        cache.update(prompt, -prompt, 0)
        cache.batch_repeat_interleave(2)
    rows = 6
    for step in range(150):
        new = torch.randn(rows, 2, 1, 4, generator=generator)
        got, want = ours.update(new, -new, 0), theirs.update(new, -new, 0)
        assert torch.equal(got[0], want[0])
        assert torch.equal(got[1], want[1])
        if step in (10, 100):
            kept = torch.tensor([0, 2, 3])[: rows - 1]
            for cache in (ours, theirs):
                cache.batch_select_indices(kept)
            rows = len(kept)
    assert ours.get_seq_length() == theirs.get_seq_length() == 155


def test_tokens_are_written_into_the_room_that_is_there() -> None:
    layer = RoomyLayer()  # type: ignore[no-untyped-call]
    layer.update(torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 3, 2))
    first, _ = layer.update(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2))
    second, _ = layer.update(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2))
    assert first.shape == (1, 1, 4, 2)
    assert second.shape == (1, 1, 5, 2)
    assert first.data_ptr() == second.data_ptr()


def test_models_with_windows_keep_the_library_cache() -> None:
    plain = make_cache(Holder(make_config()))
    windowed = make_cache(Holder(make_config(sliding_window=4)))
    assert plain.layer_class_to_replicate is RoomyLayer
    assert type(windowed) is DynamicCache
