"""Attention without padding: the layout by hand, and the numbers of padded rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, MistralConfig, Qwen2Config

from proverrl.errors import UsageError
from proverrl.learner.learner import enable_checkpointing
from proverrl.learner.packed_attention import NAME, Span, plan_attention, use_packed_attention
from proverrl.learner.packed_rows import pack_rows, packed_logprobs
from tests.test_learner import padded_logprobs
from tests.tiny_model import samples_of_lengths, tiny_model
from tests.tolerance import FLOAT64

SIZES: dict[str, Any] = {
    "vocab_size": 24,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 32,
}


def test_the_layout_by_hand() -> None:
    # Row 0: prompt 0 1, completions 2 3 4 and 5 6; row 1: prompt 7 8 9, completion 10.
    spans = [
        Span(2, torch.tensor([0, 1])),
        Span(3, torch.tensor([0, 1, 2, 3, 4])),
        Span(2, torch.tensor([0, 1, 5, 6])),
        Span(3, torch.tensor([7, 8, 9])),
        Span(1, torch.tensor([7, 8, 9, 10])),
    ]
    plan = plan_attention(spans, torch.device("cpu"))
    prompts, several, one = plan.batches
    # Lengths 2 and 3 share a block, since 2 <= n < 4; length 1 has one of its own.
    assert prompts.queries.tolist() == prompts.keys.tolist() == [[0, 1, 0], [7, 8, 9]]
    assert prompts.mask is None
    assert several.queries.tolist() == [[2, 3, 4], [5, 6, 0]]
    assert several.keys.tolist() == [[0, 1, 2, 3, 4], [0, 1, 5, 6, 0]]
    assert several.mask is not None
    assert several.mask[0, 0].int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1] * 5]
    assert several.mask[1, 0, :2].int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    assert (one.queries.tolist(), one.keys.tolist()) == ([[10]], [[7, 8, 9, 10]])
    # Places in the blocks' queries end to end, with padding at places 2 and 11.
    assert plan.order.tolist() == [0, 1, 6, 7, 8, 9, 10, 3, 4, 5, 12]


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_numbers_and_gradients_are_those_of_padded_rows(kv_heads: int, checkpointing: bool) -> None:
    found = []
    for packed in (True, False):
        model = tiny_model(num_key_value_heads=kv_heads).double()
        samples = samples_of_lengths(model)
        if checkpointing:
            enable_checkpointing(model)
            model.train()
        if packed:
            logprobs, _ = packed_logprobs(model, pack_rows(samples), temperature=1.0)
        else:
            logprobs = padded_logprobs(model, samples)
        loss = (logprobs * torch.linspace(-1, 1, len(logprobs), dtype=torch.float64)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
        found.append((logprobs.detach(), gradient))
    assert len(found[0][0]) == 2 * (1 + 2 + 9 + 33)
    assert float((found[0][0] - found[1][0]).abs().max()) < FLOAT64
    largest = float(found[1][1].abs().max())
    assert largest > 1e-2
    assert float((found[0][1] - found[1][1]).abs().max()) < FLOAT64 * largest


def test_a_prompt_is_computed_once_and_no_token_is_padding() -> None:
    model = tiny_model()
    samples = samples_of_lengths(model)
    shapes = []
    model.model.layers[0].mlp.register_forward_hook(lambda _, given, __: shapes.append(given[0]))
    packed_logprobs(model, pack_rows(samples), temperature=1.0)
    # Prompts 2 and 3 once, and all but the last token of completions of 1, 2, 9 and 33 tokens.
    assert [tuple(s.shape[:2]) for s in shapes] == [(1, 2 + 3 + 2 * (0 + 1 + 8 + 32))]


def test_a_model_attends_as_before_where_no_segments_are_given() -> None:
    model = tiny_model(attn_implementation="sdpa")
    ids = torch.tensor([[0, 0, 5, 3, 9], [4, 2, 7, 1, 1]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    with torch.no_grad():
        before = model(input_ids=ids, attention_mask=mask).logits
        use_packed_attention(model)
        after = model(input_ids=ids, attention_mask=mask).logits
    assert model.config._attn_implementation == NAME
    assert torch.equal(before, after)
    # A folder that is saved from it names no attention that others lack.
    assert NAME not in str(model.config.to_dict())


def test_a_model_with_attention_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    monkeypatch.setattr(type(model), "_can_set_attn_implementation", classmethod(lambda _: False))
    with pytest.raises(UsageError, match="has attention of its own"):
        use_packed_attention(model)


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (MistralConfig(sliding_window=8), "a window of 8 tokens"),
        (
            Qwen2Config(
                num_hidden_layers=2,
                use_sliding_window=True,
                sliding_window=8,
                layer_types=["full_attention", "sliding_attention"],
            ),
            "full_attention, sliding_attention",
        ),
    ],
)
def test_layers_that_do_not_see_everything_are_refused(config: Any, found: str) -> None:
    model = SimpleNamespace(config=config)
    with pytest.raises(UsageError, match=f"has {found}, and training packs"):
        use_packed_attention(model)


def test_a_window_that_is_switched_off_is_none() -> None:
    config = Qwen2Config(**SIZES)
    assert config.layer_types == ["full_attention", "full_attention"]
    use_packed_attention(AutoModelForCausalLM.from_config(config))  # type: ignore[no-untyped-call]
