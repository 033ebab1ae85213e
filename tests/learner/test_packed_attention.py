"""Attention without padding: the layout by hand, the numbers of single rows, and the kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    MistralConfig,
    Qwen2Config,
    Qwen2MoeConfig,
)

from proverrl.errors import UsageError
from proverrl.learner import packed_attention
from proverrl.learner.learner import enable_checkpointing
from proverrl.learner.packed_attention import (
    NAME,
    Span,
    _plan_masked,
    plan_attention,
    use_packed_attention,
)
from proverrl.learner.packed_rows import pack_rows, packed_logprobs
from proverrl.learner.split_attention import plan_split, split_attention
from tests.learner.test_learner import padded_logprobs
from tests.policy.test_vocabulary import peak_bytes
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
        Span(range(2)),
        Span(range(2, 5), range(2)),
        Span(range(5, 7), range(2)),
        Span(range(7, 10)),
        Span(range(10, 11), range(7, 10)),
    ]
    plan = plan_attention(spans, torch.device("cpu"))
    several, one = plan.split.own
    # Lengths 2 and 3 share a block, since 2 <= n < 4; length 1 has one of its own.
    assert several.tokens.tolist() == [[0, 1, 1], [2, 3, 4], [5, 6, 6], [7, 8, 9]]
    assert several.padding is not None
    assert several.padding.int().tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert (one.tokens.tolist(), one.padding) == ([[10]], None)
    assert plan.split.order.tolist() == [0, 1, 3, 4, 5, 6, 7, 9, 10, 11, 12]
    assert plan.split.prompts == ((slice(2, 7), slice(0, 2)), (slice(10, 11), slice(7, 10)))
    apart = [Span(range(2)), Span(range(2, 4), range(2)), Span(range(6, 8), range(2))]
    with pytest.raises(ValueError, match="do not lie end to end"):
        plan_attention([*apart, Span(range(4, 6))], torch.device("cpu"))


def test_the_masks_by_hand() -> None:
    spans = [Span(range(2)), Span(range(2, 5), range(2)), Span(range(5, 7), range(2))]
    plan = plan_attention(spans, torch.device("cpu"))
    prompt, several = _plan_masked(plan, 0).batches
    assert prompt.queries.tolist() == prompt.keys.tolist() == [[0, 1]]
    assert prompt.mask is None
    assert several.queries.tolist() == [[2, 3, 4], [5, 6, 0]]
    assert several.keys.tolist() == [[0, 1, 2, 3, 4], [0, 1, 5, 6, 0]]
    assert several.mask is not None
    assert several.mask[0, 0].int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1] * 5]
    assert several.mask[1, 0, :2].int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    # Places in the batches' queries end to end, with padding at the last.
    assert _plan_masked(plan, 0).order.tolist() == [0, 1, 2, 3, 4, 5, 6]
    (windowed,) = _plan_masked(plan, 2).batches
    assert windowed.mask is not None
    assert windowed.mask[1, 0].int().tolist() == [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]


def check_against_single_rows(build: Callable[[], Any], *, checkpointing: bool = False) -> None:
    """Packed rows give the numbers and the gradients of samples that are computed one by one."""
    found = []
    for packed in (True, False):
        model = build().double()
        samples = samples_of_lengths(model)
        if checkpointing:
            enable_checkpointing(model)
            model.train()
        if packed:
            logprobs, _ = packed_logprobs(model, pack_rows(samples), temperature=1.0)
        else:
            logprobs = torch.cat([padded_logprobs(model, [sample]) for sample in samples])
        loss = (logprobs * torch.linspace(-1, 1, len(logprobs), dtype=torch.float64)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
        found.append((logprobs.detach(), gradient))
    assert len(found[0][0]) == 2 * (1 + 2 + 9 + 33)
    assert float((found[0][0] - found[1][0]).abs().max()) < FLOAT64
    largest = float(found[1][1].abs().max())
    assert largest > 1e-2
    assert float((found[0][1] - found[1][1]).abs().max()) < FLOAT64 * largest


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("reason", ["", "a test"])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_numbers_and_gradients_are_those_of_single_rows(
    monkeypatch: pytest.MonkeyPatch, kv_heads: int, reason: str, checkpointing: bool
) -> None:
    monkeypatch.setattr(packed_attention, "why_not_split", lambda *_: reason)
    check_against_single_rows(
        lambda: tiny_model(num_key_value_heads=kv_heads), checkpointing=checkpointing
    )


def build_windowed(name: str, window: int) -> Any:
    """A model with layers that see ``window`` tokens, some of them or all."""
    torch.manual_seed(0)
    mixed = ["sliding_attention", "full_attention"]
    configs: dict[str, Callable[[], Any]] = {
        "mistral": lambda: MistralConfig(**SIZES, sliding_window=window),
        "qwen2": lambda: Qwen2Config(
            **SIZES, use_sliding_window=True, sliding_window=window, layer_types=mixed
        ),
        # Does not tell its attention of the window.
        "qwen2_moe": lambda: Qwen2MoeConfig(
            **SIZES,
            use_sliding_window=True,
            sliding_window=window,
            layer_types=mixed,
            num_experts=2,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=16,
        ),
        "gemma3": lambda: Gemma3TextConfig(
            **SIZES, head_dim=8, sliding_window=window, layer_types=mixed
        ),
    }
    config = configs[name]()
    config.initializer_range = 0.3
    # The fast experts of transformers do not compute in float64.
    chosen = {"attn_implementation": "sdpa", "experts_implementation": "eager"}
    model: Any = AutoModelForCausalLM.from_config(config, **chosen)  # type: ignore[no-untyped-call]
    return model.eval()


@pytest.mark.parametrize("window", [5, 35])
@pytest.mark.parametrize("name", ["mistral", "qwen2", "qwen2_moe", "gemma3"])
def test_a_window_is_kept_and_one_that_nothing_exceeds_is_none(
    monkeypatch: pytest.MonkeyPatch, name: str, window: int
) -> None:
    masked: set[int] = set()
    make = packed_attention._plan_masked

    def note(plan: packed_attention.AttentionPlan, size: int) -> Any:
        masked.add(size)
        return make(plan, size)

    monkeypatch.setattr(packed_attention, "_plan_masked", note)
    check_against_single_rows(lambda: build_windowed(name, window))
    # The longest sequence has 3 tokens of a prompt and 32 that are fed of 33.
    assert masked == ({5} if window == 5 else set())


def test_the_way_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    packed_attention._tell.cache_clear()
    caplog.set_level("INFO")
    model = tiny_model()
    rows = pack_rows(samples_of_lengths(model))
    packed_logprobs(model, rows, temperature=1.0)
    monkeypatch.setattr(packed_attention, "why_not_split", lambda *_: "a test")
    for _ in range(2):
        packed_logprobs(model, rows, temperature=1.0)
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("INFO", "packed rows attend through flash attention, without a mask"),
        ("WARNING", "packed rows attend through a mask and copied prompts: a test"),
    ]


def test_heads_of_unlike_sizes() -> None:
    draw = torch.Generator().manual_seed(0)
    sizes = ((2, 12), (1, 12), (1, 5))
    query, key, value = (
        torch.randn(1, heads, 4, size, generator=draw, dtype=torch.float64, requires_grad=True)
        for heads, size in sizes
    )
    plan = plan_attention([Span(range(2)), Span(range(2, 4), range(2))], torch.device("cpu"))
    out = split_attention(query, key, value, plan.split, 0.3)
    scores = (query @ key.transpose(2, 3) * 0.3).masked_fill(~torch.ones(4, 4).tril().bool(), -1e9)
    right = (scores.softmax(-1) @ value).transpose(1, 2)
    assert out.shape == (1, 4, 2, 5)
    assert torch.allclose(out, right, rtol=0, atol=1e-12)
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view(out.shape)
    found, wanted = (
        torch.autograd.grad((x * weights).sum(), [query, key, value]) for x in (out, right)
    )
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12)


@contextmanager
def record_attention() -> Iterator[dict[str, list[Any]]]:
    """Torch's attention operations that run within, with the shapes of each call's arguments."""
    calls: dict[str, list[Any]] = {}
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        yield calls
    for event in profile.events() or ():
        if event.name.startswith("aten::") and "attention" in event.name:
            calls.setdefault(event.name, []).append(event.input_shapes)


def test_which_kernels_run() -> None:
    model = tiny_model(num_key_value_heads=1)
    rows = pack_rows(samples_of_lengths(model))
    with record_attention() as calls:
        logprobs, _ = packed_logprobs(model, rows, temperature=1.0)
        logprobs.sum().backward()  # type: ignore[no-untyped-call]
    flash = "aten::_scaled_dot_product_flash_attention_for_cpu"
    # No other attention, and no composite that could choose one.
    assert set(calls) == {flash, f"{flash}_backward"}
    # Completions feed 0, 1, 8 and 32 tokens, prompts have 2 and 3: own passes over lengths of 1, 2
    # to 3, 8 and 32, and one over each prompt, in two layers.
    assert len(calls[flash]) == len(calls[f"{flash}_backward"]) == 2 * (4 + 2)
    for shapes in calls[flash]:
        query, key, value = shapes[:3]
        assert (query[1], key[1], value[1]) == (2, 1, 1)
        assert key == value
        # The mask stands behind dropout and is_causal.
        assert not any(shapes[3:])
    # The prompts' keys as they lie there, once for all completions.
    whole = [(q, k) for q, k, *_ in calls[flash][4:6]]
    assert whole == [
        ([1, 2, 41, 8], [1, 1, 2, 8]),
        ([1, 2, 41, 8], [1, 1, 3, 8]),
    ]


def test_the_kernels_of_a_gpu_take_these_arguments() -> None:
    # Tensors without numbers go the way of those on CUDA, and no kernel of a CPU knows them.
    spans = [Span(range(2)), Span(range(2, 5), range(2)), Span(range(5, 6), range(2))]
    plan = plan_split([(span.own, span.prompt) for span in spans], torch.device("meta"))
    with torch.device("meta"):
        query = torch.empty(1, 4, 6, 8, dtype=torch.bfloat16, requires_grad=True)
        key, value = (
            torch.empty(1, 2, 6, 8, dtype=torch.bfloat16, requires_grad=True) for _ in range(2)
        )
        with record_attention() as calls:
            out = split_attention(query, key, value, plan, 0.3)
            out.sum().backward()  # type: ignore[no-untyped-call]
    flash = "aten::_scaled_dot_product_flash_attention"
    assert {name: len(shapes) for name, shapes in calls.items()} == {
        flash: 3,
        f"{flash}_backward": 3,
    }
    assert out.shape == (1, 6, 4, 8)
    assert key.grad is not None
    assert key.grad.shape == key.shape


def test_no_mask_is_held_at_four_thousand_tokens() -> None:
    heads, size, prompt, each, completions = 2, 8, 2048, 256, 8
    tokens = prompt + completions * each
    starts = range(prompt, tokens, each)
    spans = [Span(range(prompt)), *(Span(range(i, i + each), range(prompt)) for i in starts)]
    plan = plan_attention(spans, torch.device("cpu"))
    query, key, value = (torch.randn(1, heads, tokens, size) for _ in range(3))
    query.requires_grad_()

    def step() -> None:
        out = split_attention(query, key, value, plan.split, 1.0)
        out.sum().backward()  # type: ignore[no-untyped-call]

    threads = torch.get_num_threads()
    # Each thread of the kernel has a block of its own.
    torch.set_num_threads(1)
    try:
        peak = peak_bytes(step)
    finally:
        torch.set_num_threads(threads)
    state = 4 * heads * tokens * size
    # The output, its gradient, and at most: queries, keys, values, outputs and gradients of own
    # passes picked apart, their three gradients, and those three laid end to end.
    assert peak < (2 + 5 + 3 + 3) * state + 2**20
    # A mask of the completions alone, in bytes, and one of all tokens.
    assert peak < completions * each * (prompt + each) + 2**20 < tokens**2


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


def test_attention_that_cannot_be_packed_is_refused() -> None:
    config = SimpleNamespace(
        layer_types=["full_attention", "chunked_attention"], _attn_implementation="sdpa"
    )
    config.get_text_config = lambda **_: config
    with pytest.raises(UsageError, match="has chunked_attention, full_attention, and training"):
        use_packed_attention(SimpleNamespace(config=config))
    capped = Gemma2Config(**SIZES, head_dim=8)
    model: Any = AutoModelForCausalLM.from_config(capped)  # type: ignore[no-untyped-call]
    with pytest.raises(UsageError, match="Gemma2Attention asks its attention for 'softcap'"):
        packed_logprobs(model, pack_rows(samples_of_lengths(tiny_model())), temperature=1.0)


def test_a_window_that_is_switched_off_is_none() -> None:
    config = Qwen2Config(**SIZES)
    assert config.layer_types == ["full_attention", "full_attention"]
    use_packed_attention(AutoModelForCausalLM.from_config(config))  # type: ignore[no-untyped-call]
