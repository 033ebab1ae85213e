"""Tiny checkpoints of public families with random weights, as a hub would give them.

Each folder has bfloat16 weights in several safetensors files, a tokenizer of the family's kind with
its special tokens and chat template (in sentences of our own), the ends that
``generation_config.json`` lists, and the family's rotary scaling.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AutoModelForCausalLM,
    DeepseekV2Config,
    Gemma3TextConfig,
    GemmaTokenizer,
    GenerationConfig,
    LlamaConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2Tokenizer,
    Qwen3Config,
)

from proverrl.problems.prompt import render_body, render_messages
from tests.builders import build_problem

CHATML = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nAnswer well.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}"
    "<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
DEEPSEEK = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}<｜Assistant｜>"
    "{{ m.content }}{{ eos_token }}{% elif m.role == 'user' %}<｜User｜>{{ m.content }}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<｜Assistant｜>{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}"
    "{% set first = messages[0].content + '\n\n' %}{% set rest = messages[1:] %}"
    "{% else %}{% set first = '' %}{% set rest = messages %}{% endif %}{% for m in rest %}"
    "<start_of_turn>{{ 'model' if m.role == 'assistant' else 'user' }}\n"
    "{{ first if loop.first else '' }}{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)

SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "initializer_range": 0.08,
    "max_position_embeddings": 2048,
}
"""Heads are of 32, the smallest that vLLM's attention takes on a CPU."""
GROUPED: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}


def texts() -> list[str]:
    """What the tokenizers are trained on: prompts and answers of a few problems."""
    problems = [build_problem(f"p{i}", n=7**i) for i in range(6)]
    found = [m.content for p in problems for m in render_messages(p, "dafny")]
    found += [
        render_body(p, f"invariant {name} <= 12", "dafny") for p in problems for name in "ijk"
    ]
    return found + [p.statement for p in problems]


def byte_vocabulary(size: int = 420) -> tuple[dict[str, int], Any]:
    """Byte-level BPE: its words and its merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts(), trainer)
    return _parts(tokenizer)


def _parts(tokenizer: Tokenizer) -> tuple[dict[str, int], Any]:
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [(a, b) for a, b in model["merges"]]


def qwen_tokenizer(eos: str = "<|im_end|>") -> PreTrainedTokenizerBase:
    vocab, merges = byte_vocabulary()
    tokenizer = Qwen2Tokenizer(vocab, merges, eos_token=eos, pad_token="<|endoftext|>")
    tokenizer.add_special_tokens(
        {"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]},
    )
    # Words of Qwen3 that were added and are not special: they are read as text.
    tokenizer.add_tokens(["<think>", "</think>"])
    return tokenizer


def _fast(bos: str, eos: str, others: list[str], pad: str | None) -> PreTrainedTokenizerBase:
    vocab, merges = byte_vocabulary()
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([bos, eos, *others])
    # Their tokenizers put the first token there themselves, so that it could come twice.
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=bos,
        eos_token=eos,
        pad_token=pad,
        clean_up_tokenization_spaces=False,
    )


def llama_tokenizer() -> PreTrainedTokenizerBase:
    others = ["<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"]
    return _fast("<|begin_of_text|>", "<|eot_id|>", others, pad=None)


def deepseek_tokenizer() -> PreTrainedTokenizerBase:
    eos = "<｜end▁of▁sentence｜>"
    return _fast("<｜begin▁of▁sentence｜>", eos, ["<｜User｜>", "<｜Assistant｜>"], pad=eos)


def gemma_tokenizer() -> PreTrainedTokenizerBase:
    """Blanks are words of their own letter, and unknown letters are bytes."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    trainer = trainers.BpeTrainer(
        vocab_size=640,
        special_tokens=special + [f"<0x{byte:02X}>" for byte in range(256)],
        show_progress=False,
        max_token_length=12,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    vocab, merges = _parts(tokenizer)
    made = GemmaTokenizer(vocab, merges)
    turns = ["<start_of_turn>", "<end_of_turn>"]
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", vocab["<bos>"])]
    )
    made.add_special_tokens({"additional_special_tokens": turns})
    return made


@dataclass(frozen=True)
class Family:
    """One kind of checkpoint; ``ends`` are the words that end a generation, its own first."""

    name: str
    config: Callable[..., Any]
    tokenizer: Callable[[], PreTrainedTokenizerBase]
    template: str
    ends: tuple[str, ...]
    shape: dict[str, Any] = field(default_factory=dict)


YARN = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 512,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
}
FAMILIES = [
    Family(
        "qwen2",
        Qwen2Config,
        qwen_tokenizer,
        CHATML,
        ("<|im_end|>", "<|endoftext|>"),
        {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True},
    ),
    Family(
        "qwen3",
        Qwen3Config,
        qwen_tokenizer,
        CHATML,
        ("<|im_end|>", "<|endoftext|>"),
        {**GROUPED, "tie_word_embeddings": False, "rope_parameters": YARN},
    ),
    Family(
        "llama3",
        LlamaConfig,
        llama_tokenizer,
        LLAMA,
        ("<|eot_id|>", "<|end_of_text|>"),
        {
            **GROUPED,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500_000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 256,
            },
        },
    ),
    Family(
        "deepseek_v2",
        DeepseekV2Config,
        deepseek_tokenizer,
        DEEPSEEK,
        ("<｜end▁of▁sentence｜>",),
        {
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "q_lora_rank": None,
            "kv_lora_rank": 32,
            "qk_nope_head_dim": 32,
            "qk_rope_head_dim": 32,
            "v_head_dim": 32,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_shared_experts": 1,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 1,
            "rope_parameters": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
        },
    ),
    Family(
        "gemma3",
        Gemma3TextConfig,
        gemma_tokenizer,
        GEMMA,
        ("<end_of_turn>", "<eos>"),
        {
            **GROUPED,
            "tie_word_embeddings": True,
            "query_pre_attn_scalar": 32,
            # Shorter than the prompts, so that it is felt.
            "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 32,
        },
    ),
]


def write_checkpoint(family: Family, folder: Path, *, spare: int = 5, **changes: Any) -> Path:
    """The family's checkpoint; its model has ``spare`` more words than its tokenizer, as public
    ones have."""
    tokenizer = family.tokenizer()
    tokenizer.chat_template = family.template
    ends = [tokenizer.get_vocab()[word] for word in family.ends]
    shape = {**SHAPE, **family.shape, **changes}
    bos = tokenizer.bos_token_id
    config = family.config(
        vocab_size=len(tokenizer) + spare,
        bos_token_id=bos,
        eos_token_id=ends if len(ends) > 1 else ends[0],
        pad_token_id=tokenizer.pad_token_id,
        **shape,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model = model.to(torch.bfloat16)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=ends, bos_token_id=bos
    )
    model.save_pretrained(folder, max_shard_size="60KB")
    tokenizer.save_pretrained(folder)
    return folder
