"""Architectures of public checkpoints, as their ``config.json`` gives them."""

from __future__ import annotations

from typing import Any

from transformers import LlamaConfig, Qwen2Config, Qwen3Config

VOCABULARY = 151_936


def _qwen3(hidden: int, wide: int, layers: int, heads: int, *, tied: bool) -> Any:
    return Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=wide,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40_960,
        tie_word_embeddings=tied,
    )


def _qwen2(hidden: int, wide: int, layers: int, heads: int, *, tied: bool) -> Any:
    return Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=wide,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=2,
        max_position_embeddings=32_768,
        tie_word_embeddings=tied,
    )


def _deepseek_7b() -> Any:
    return LlamaConfig(
        vocab_size=102_400,
        hidden_size=4096,
        intermediate_size=11_008,
        num_hidden_layers=30,
        num_attention_heads=32,
        num_key_value_heads=32,
        max_position_embeddings=65_536,
        tie_word_embeddings=False,
    )


SHAPES: dict[str, Any] = {
    "goedel_v2_8b": _qwen3(4096, 12_288, 36, 32, tied=False),
    "kimina_8b": _qwen3(4096, 12_288, 36, 32, tied=False),
    "kimina_1_7b": _qwen3(2048, 6144, 28, 16, tied=True),
    "deepseek_v2_7b": _deepseek_7b(),
    "reform_0_5b": _qwen2(896, 4864, 24, 14, tied=True),
    "reform_3b": _qwen2(2048, 11_008, 36, 16, tied=True),
    "tina": _qwen2(1536, 8960, 28, 12, tied=False),
}
"""By the names of ``configs/presets/pretrained``."""

_WHOLE = (
    "learner.shard=fsdp2 policy.engine=transformers policy.lora.rank=0 learner.learning_rate=1e-6"
)
EIGHT: dict[str, list[str]] = {
    "goedel_v2_8b": [*_WHOLE.split(), "policy.max_rows=8"],
    "kimina_8b": [*_WHOLE.split(), "policy.max_rows=32"],
    "deepseek_v2_7b": [*_WHOLE.split(), "policy.max_rows=8"],
}
"""What is set to train all weights on eight cards."""
