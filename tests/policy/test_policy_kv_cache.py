"""The cache that writes in place gives what the library's gives."""

import pytest
import torch
from transformers import DynamicCache, LlamaConfig
from transformers.cache_utils import Cache

from proverrl.policy import decoding
from proverrl.policy.decoding import (
    CachedRows,
    RoomyLayer,
    group_heads,
    grouped_attention,
    make_cache,
)
from tests.tiny_model import tiny_model
from tests.tolerance import FLOAT32


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
        cache.batch_select_indices(torch.tensor([0, 0, 1, 1, 2, 2]))
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


# The shortest row is all padding in the first pieces; or none is padded.
@pytest.mark.parametrize("lengths", [(20, 3, 6), (20, 20, 20)])
def test_prompts_that_are_read_in_pieces_give_the_same(
    monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, ...]
) -> None:
    model = tiny_model()
    prompts = [tuple((7 * i + row) % 24 for i in range(n)) for row, n in enumerate(lengths)]
    copies = torch.tensor([0, 2, 2, 1])

    def read() -> list[torch.Tensor]:
        with torch.no_grad():
            rows = CachedRows(model, prompts, pad_id=0, device="cpu")
            rows.repeat(copies)
            found = [rows.logits, rows.position]
            rows.add(torch.tensor([7, 8, 9, 10]))
            return [*found, rows.logits, rows.position]

    whole = read()
    passes: list[tuple[int, int]] = []
    forward = model.forward

    def count(**given: torch.Tensor) -> object:
        passes.append(tuple(given["input_ids"].shape))  # type: ignore[arg-type]
        return forward(**given)

    monkeypatch.setattr(model, "forward", count)
    monkeypatch.setattr(decoding, "PREFILL_TOKENS", 24)
    pieces = read()
    assert passes == [(3, 8), (3, 8), (3, 4), (4, 1)]
    for one, other in zip(whole, pieces, strict=True):
        assert float((one - other).abs().max()) < FLOAT32
    # Row 1 and row 2 are the same prompt.
    assert torch.equal(whole[0][1], whole[0][2])
    assert not torch.equal(whole[0][0], whole[0][1])


@pytest.mark.parametrize("first", [(9, 4), (3, 3)])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_rows_that_join_go_on_as_alone(first: tuple[int, ...], kv_heads: int) -> None:
    model = tiny_model(num_key_value_heads=kv_heads)
    group_heads(model)
    prompts = [tuple((7 * i + row) % 24 for i in range(n)) for row, n in enumerate((*first, 6, 5))]

    def open_rows(chosen: list[tuple[int, ...]]) -> CachedRows:
        return CachedRows(model, chosen, pad_id=0, device="cpu")

    with torch.no_grad():
        rows = open_rows(prompts[:2])
        for step in range(3):
            rows.add(torch.tensor([step + 1, step + 5]))
        # The longest row leaves, and with it the places that it alone had.
        rows.keep(torch.tensor([1]))
        rows.add(torch.tensor([9]))
        rows.join(open_rows(prompts[2:]))
        assert rows.can_join
        found = [rows.logits]
        for step in range(70):
            rows.add(torch.tensor([step % 24, 3, 4]))
            found.append(rows.logits)
            if len(rows._mask[0]) > 60:
                break
        held = rows._layers[0].keys
        assert held is not None
        assert held.shape[2] == len(rows._mask[0]) == int(rows._mask.sum(1).max())
        texts = [
            [*prompts[1], 5, 6, 7, 9, *(step % 24 for step in range(len(found) - 1))],
            [*prompts[2], *[3] * (len(found) - 1)],
            [*prompts[3], *[4] * (len(found) - 1)],
        ]
        model.set_attn_implementation("eager")
        for row, ids in enumerate(texts):
            alone = model(input_ids=torch.tensor([ids])).logits[0, -len(found) :]
            got = torch.stack([logits[row] for logits in found])
            assert float((alone - got).abs().max()) < 10 * FLOAT32


def test_heads_in_groups_attend_as_each_by_itself() -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(3, 6, 1, 4, generator=generator)
    key, value = (torch.randn(3, 2, 7, 4, generator=generator) for _ in range(2))
    mask = torch.ones(3, 1, 1, 7, dtype=torch.bool)
    mask[1, ..., :3] = False
    for given in (None, mask):
        found, _ = grouped_attention(None, query, key, value, given, scaling=0.3)
        for row in range(3):
            for head in range(6):
                scores = 0.3 * (key[row, head // 3] @ query[row, head, 0])
                if given is not None:
                    scores = scores.masked_fill(~given[row, 0, 0], -torch.inf)
                wanted = scores.softmax(-1) @ value[row, head // 3]
                assert float((found[row, 0, head] - wanted).abs().max()) < FLOAT32
