"""Where a model and its tokenizer come from: a Hugging Face folder, a new model, or two averaged.

Not handled here: adapters (``proverrl.policy.lora``); which share of an average is best
(``proverrl.loops.evaluate_run``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
)

from proverrl.config import PolicyConfig, PrecisionName
from proverrl.errors import UsageError
from proverrl.files.disk import loading, saving
from proverrl.policy.transformers import TransformersPolicy

DTYPES: dict[PrecisionName, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}
"""The dtype of the weights that generate; the learner updates the same ones."""


def choose_device(name: str) -> str:
    """``auto`` takes CUDA when it is available. Raises ``UsageError`` if CUDA was requested by name
    and is not available."""
    if name == "auto":
        wants_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true"
        name = "cuda" if torch.cuda.is_available() and not wants_cpu else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("policy.device is 'cuda' but torch sees no GPU; use 'auto' or 'cpu'")
    if name == "cuda" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # By number: which GPU is the current one is a matter of the thread.
        return f"cuda:{os.environ['LOCAL_RANK']}"
    return name


def load_policy(
    path: str | Path,
    config: PolicyConfig,
    *,
    device: str,
    precision: PrecisionName = "fp32",
    key: str = "policy.path",
) -> TransformersPolicy:
    """Load a Hugging Face folder or id with weights of ``precision``, whatever it was saved in.
    Raises ``UsageError``, which names it by its ``key``, if it cannot be loaded, or its tokenizer
    has no end token."""
    with loading(Path(path)):
        try:
            tokenizer = AutoTokenizer.from_pretrained(path)
            model = AutoModelForCausalLM.from_pretrained(path, dtype=DTYPES[precision])
        except (AttributeError, KeyError, TypeError) as error:
            # What the library says of a file that is JSON and not what it should be.
            raise UsageError(f"{key} {str(path)!r} cannot be loaded: {error!r}") from error
        except (OSError, ValueError, SafetensorError) as error:
            line = str(error).partition("\n")[0]
            here = "" if Path(path).is_dir() else " There is no folder of that name either."
            raise UsageError(f"{key} {str(path)!r} cannot be loaded: {line}{here}") from error
    for parameter in model.parameters():
        # Loaded tensors are views at any offset in the file, and the math library sums in another
        # order when memory is aligned otherwise: a resumed run would drift from an unbroken one.
        parameter.data = parameter.data.clone()
    if tokenizer.eos_token_id is None:
        raise UsageError(f"{key} {str(path)!r}: its tokenizer has no end-of-sequence token")
    return TransformersPolicy(
        model, tokenizer, layout=config.layout, device=device, max_rows=config.max_rows
    )


def cast_parameters(model: Any, dtype: torch.dtype) -> None:
    """Round the parameters in place, but no buffers: in bfloat16 the frequencies of rotary
    positions would misplace distant tokens."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)


def build_policy(
    config: PolicyConfig,
    tokenizer: PreTrainedTokenizerBase,
    *,
    seed: int,
    device: str,
    precision: PrecisionName = "fp32",
) -> TransformersPolicy:
    """A small Llama model with fresh weights drawn under ``seed``, then rounded to ``precision``.
    Llama, because transformers gives a Qwen2 folder Qwen2's own tokenizer whatever it contains."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(small_llama(config, tokenizer))  # type: ignore[no-untyped-call]
    cast_parameters(model, DTYPES[precision])
    return TransformersPolicy(
        model, tokenizer, layout=config.layout, device=device, max_rows=config.max_rows
    )


def small_llama(
    config: PolicyConfig, tokenizer: PreTrainedTokenizerBase | None = None
) -> LlamaConfig:
    """The architecture of a policy from scratch; without a tokenizer with the largest vocabulary
    that it may have."""
    return LlamaConfig(
        vocab_size=config.vocab_size if tokenizer is None else len(tokenizer),
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_heads,
        intermediate_size=config.intermediate_size,
        max_position_embeddings=1024,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        tie_word_embeddings=True,
        bos_token_id=getattr(tokenizer, "bos_token_id", None),
        eos_token_id=getattr(tokenizer, "eos_token_id", None),
        pad_token_id=getattr(tokenizer, "pad_token_id", None),
    )


def merge_policies(first: Path, second: Path, *, alpha: float, out: Path) -> None:
    """Write (1 - alpha) first + alpha second to ``out``, with the second's tokenizer. Averaging a
    model with the one that it was trained from restores variety that training lost
    (Goedel-Prover-V2, Lin et al. 2025, arXiv 2508.03613). Raises ``UsageError`` if a folder cannot
    be loaded, the two are not of one model or vocabulary, or ``alpha`` is outside [0, 1]."""
    if not 0.0 <= alpha <= 1.0:
        raise UsageError(f"alpha must be between 0 and 1, got {alpha}")
    model, tokenizer = _load(first)
    other, other_tokenizer = _load(second)
    if tokenizer.get_vocab() != other_tokenizer.get_vocab():
        raise UsageError(f"{first} and {second} have different vocabularies: no average of them")
    # Parameters, not the state: a tied weight stands there twice and would be averaged twice.
    weights, others = dict(model.named_parameters()), dict(other.named_parameters())
    shapes = {name: tuple(value.shape) for name, value in weights.items()}
    if shapes != {name: tuple(value.shape) for name, value in others.items()}:
        raise UsageError(f"{first} and {second} are not the same kind of model: no average of them")
    with torch.no_grad():
        for name, value in weights.items():
            # In double precision, so that alpha 0 and 1 give the checkpoints themselves.
            mixed = (1.0 - alpha) * value.double() + alpha * others[name].double()
            value.copy_(mixed.to(value.dtype))
    with saving(out):
        model.save_pretrained(out)
        other_tokenizer.save_pretrained(out)


def _load(folder: Path) -> tuple[Any, Any]:
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return AutoModelForCausalLM.from_pretrained(folder, dtype="auto"), tokenizer
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} cannot be loaded as a checkpoint: {error}") from error
