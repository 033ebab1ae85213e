"""Loads a model and its tokenizer: a Hugging Face folder, a new model, or two averaged.

The tokenizer of a new model is byte-level BPE, trained on a training split. Digits stay single, so
that constants are read digit by digit. A name is the same token everywhere: spaces belong to the
punctuation or keyword next to it, because a small model would first have to learn that `` k`` and
``k`` are the same.

Not handled here: which share of an average is best
(``proverrl.jobs.evaluate``).
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import httpx2
import torch
from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, StrictDataclassError
from safetensors import SafetensorError
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.core_model_loading import revert_weight_conversion

from proverrl.config import Config, PolicyConfig, PrecisionName
from proverrl.errors import UsageError, name_some
from proverrl.files.disk import loading, saving
from proverrl.policy.lora import base_weights, list_adapters, merge_saved
from proverrl.policy.transformers import TransformersPolicy

BOS, EOS, PAD = "<|start|>", "<|end|>", "<|pad|>"

_MALFORMED = (AttributeError, KeyError, TypeError, ArithmeticError, StrictDataclassError)
"""What the library raises for JSON that is not what it should be."""
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


def name_device(name: str) -> str:
    """The device that is meant, be it here or not: a GPU may be planned for where none is."""
    return choose_device(name) if name == "auto" else name


def choose_precision(config: Config, device: str) -> PrecisionName:
    """The meaning of ``learner.precision`` on a device, by torch's name of it."""
    asked, path = config.learner.precision, config.policy.path
    if asked != "auto":
        return asked
    if not path or config.policy.endpoint or config.policy.is_function:
        return "fp32"
    if device.startswith("cuda"):
        return "bf16"
    stored = _read_dtype(path)
    return "bf16" if stored not in (None, torch.float32) and bfloat16_is_faster() else "fp32"


def bfloat16_is_faster() -> bool:
    """True if this processor has instructions for bfloat16; without them it is slower than float32.
    A short measurement said otherwise in one of six tries on a busy machine."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


@functools.cache
def _read_dtype(path: str) -> torch.dtype | None:
    """The number type that a checkpoint was saved in, as far as its configuration says."""
    try:
        place = find_model(path, "policy.path")
        found = AutoConfig.from_pretrained(place, trust_remote_code=False).dtype
    except (UsageError, OSError, ValueError, *_MALFORMED):
        # Who loads the checkpoint says what is wrong with it.
        return None
    return found if isinstance(found, torch.dtype) else None


def load_policy(
    path: str | Path,
    config: PolicyConfig,
    *,
    device: str,
    precision: PrecisionName = "fp32",
    key: str = "policy.path",
) -> TransformersPolicy:
    """Load a Hugging Face folder or id with weights of ``precision``, whatever it was saved in. A
    folder with an adapter that peft wrote is its base with the adapter merged. Raises
    ``UsageError``, which names it by its ``key``, if it is not there or cannot be loaded, its
    weights are not all there or not all numbers, its tokenizer is missing or has no end token or
    more tokens than the model, or it caps its attention."""
    name = f"{key} {str(path)!r}"
    with loading(Path(path)):
        model, tokenizer = _read_checkpoint(path, DTYPES[precision], key, name)
    for parameter in model.parameters():
        # Loaded tensors are views at any offset in the file, and the math library sums in another
        # order when memory is aligned otherwise: a resumed run would drift from an unbroken one.
        parameter.data = parameter.data.clone()
    if reason := _find_fault(model, tokenizer):
        raise UsageError(f"{name}: {reason}")
    return _make_policy(model, tokenizer, config, device)


def _read_checkpoint(
    path: str | Path, dtype: torch.dtype | Literal["auto"], key: str, name: str
) -> tuple[Any, PreTrainedTokenizerBase]:
    """The model and the tokenizer of a checkpoint, which errors call ``name``."""
    place, (adapters, _) = find_model(path, key), list_adapters(path)
    # Who trains an adapter may add tokens or a chat template.
    named = [str(folder) for folder in adapters if (folder / "tokenizer_config.json").exists()]
    try:
        tokenizer = AutoTokenizer.from_pretrained([*named, place][0], trust_remote_code=False)
        config = AutoConfig.from_pretrained(place, trust_remote_code=False)
        names = ("quantization_config", "compression_config")
        if quantised := next(filter(None, (getattr(config, name, None) for name in names)), None):
            method = quantised.get("quant_method", "in a way of its own")
            raise UsageError(
                f"{name} is quantised ({method}), and rounded weights are neither trained nor "
                "sampled from here; take the unquantised weights of that model"
            )
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            place,
            config=config,
            dtype=dtype,
            # Neither code of a checkpoint is run, nor what a pickle would run.
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
        model, report = loaded
    except _MALFORMED as error:
        raise UsageError(f"{name} cannot be loaded as a checkpoint: {error!r}") from error
    except torch.OutOfMemoryError:
        raise
    except (ImportError, OSError, ValueError, RuntimeError, SafetensorError) as error:
        lines = str(error).split("\n")
        # The first line of some messages only opens a list.
        line = " ".join(lines[: 2 if lines[0].rstrip().endswith(":") else 1])
        raise UsageError(f"{name} cannot be loaded as a checkpoint: {line}") from error
    if missing := sorted(report["missing_keys"]):
        raise UsageError(f"{name} lacks weights: {name_some(missing)}")
    if unused := sorted(report["unexpected_keys"]):
        text = f"{name} has weights that its config.json has no place for: {name_some(unused)}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    for folder in reversed(adapters):
        model = merge_saved(model, folder)
    _allow_saving(model)
    return model, tokenizer


def find_model(path: str | Path, key: str) -> str:
    """From where a model is loaded, for an adapter its base: a folder, or the name of one on the
    hub; where the hub cannot be reached, the folder in which its client stored the model. The hub
    is asked once, for the model's configuration: the libraries would ask for every file, six times
    each. Raises ``UsageError``, which begins with ``key``, for what is neither."""
    adapters, base = list_adapters(path)
    if adapters:
        return find_model(base, f"{key} {str(path)!r} is an adapter, and its base")
    name, place = str(path), Path(path).absolute()
    if place.is_dir():
        weights = Path(path) / "policy"
        if (place / "config.json").exists():
            return name
        if (weights / "config.json").exists():
            raise UsageError(f"{key} {name!r} is the folder of a run; its weights: {weights}")
        raise UsageError(f"{key} {name!r} holds no weights: there is no {place / 'config.json'}")
    if place.suffix.lower() == ".gguf":
        raise UsageError(
            f"{key} {name!r} is a GGUF file, whose weights are rounded and are not trained here; "
            "name the model that it was made from, or serve it (llama.cpp) and name the server, "
            "endpoint:NAME"
        )
    nowhere = f"{key} {name!r}: there is no folder {place}"
    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"))
    except HFValidationError:
        raise UsageError(
            f"{nowhere}, and a model on the hub is called OWNER/NAME; check the spelling, or train "
            "the run first whose weights it names"
        ) from None
    except HfHubHTTPError as error:
        status = error.response.status_code
        # What passes is left to the library, which tries again.
        if status != 429 and status < 500:
            raise UsageError(
                f"{nowhere}, and {constants.ENDPOINT} answered {status} when it was asked for that "
                "model's config.json; check the spelling. A private or gated model needs HF_TOKEN, "
                "or `hf auth login`"
            ) from error
    except (httpx2.HTTPError, OSError) as error:
        line = str(error).partition("\n")[0]
        stored = try_to_load_from_cache(name, "config.json")
        if not isinstance(stored, str):
            raise UsageError(
                f"{nowhere}, the hub's client has no such model in {constants.HF_HUB_CACHE}, and "
                f"{constants.ENDPOINT} cannot be reached ({line}); check the spelling, name the "
                "folder of a model, or go on with a network"
            ) from error
        text = f"{constants.ENDPOINT} cannot be reached ({line}): {key} is what is stored of {name}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return str(Path(stored).parent)
    return name


def _find_fault(model: Any, tokenizer: PreTrainedTokenizerBase) -> str:
    """The reason why a checkpoint can neither be sampled from nor trained; empty when it can."""
    spoilt = [name for name, p in model.named_parameters() if not torch.isfinite(p).all()]
    if spoilt:
        return f"these weights are not all numbers: {name_some(spoilt)}"
    matrices = {name: p for name, p in model.named_parameters() if p.ndim > 1}
    # A row shows for nearly all that they are not; each look at all of one costs copies of it.
    rows = [n for n, p in matrices.items() if torch.equal(p[0], p[0].round())]
    if whole := [n for n in rows if _are_whole(matrices[n])]:
        return (
            f"these weights are all whole numbers: {name_some(whole)}; they are quantised, and "
            "nothing says at which scale; take the unquantised weights of that model"
        )
    if not tokenizer("text")["input_ids"]:
        return "it has no tokenizer (transformers made an empty one); save one into the folder"
    if tokenizer.eos_token_id is None:
        return "its tokenizer has no end-of-sequence token"
    ends = getattr(model.generation_config, "eos_token_id", None)
    if not all(isinstance(end, int) for end in (ends if isinstance(ends, list) else [ends or 0])):
        return f"its generation_config.json has the end token {ends!r}, where numbers stand"
    largest, known = (
        max(tokenizer.get_vocab().values()),
        model.get_input_embeddings().num_embeddings,
    )
    if largest >= known:
        return (
            f"its tokenizer has a token number {largest}, and the model's embedding ends at "
            f"{known - 1}; take the tokenizer that belongs to the weights, or resize the embedding"
        )
    # torch's attention leaves the cap out without a word, and vLLM's does not.
    if cap := getattr(model.config.get_text_config(decoder=True), "attn_logit_softcapping", None):
        return (
            f"{type(model).__name__} caps the logits of its attention at {cap:g}, which neither "
            "sampling nor training here computes; take a model without attn_logit_softcapping"
        )
    return ""


def _are_whole(weights: torch.Tensor) -> bool:
    return bool(weights.abs().max() > 1) and torch.equal(weights, weights.round())


def _allow_saving(model: Any) -> None:
    """Some ``generation_config.json`` name a temperature and do not say that one samples; the
    library reads such a file and refuses to write it."""
    try:
        model.generation_config.validate(strict=True)
    except ValueError:
        model.generation_config.do_sample = True


def checkpoint_weights(model: Any) -> dict[str, torch.Tensor]:
    """The parameters, without adapters, by the names of the family's checkpoints, which for experts
    are not those of the library; tied tensors come once, under their first name. Only experts are
    copied."""
    found: dict[str, torch.Tensor] = revert_weight_conversion(model, base_weights(model))
    return found


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
    return _make_policy(model, tokenizer, config, device)


def _make_policy(
    model: Any, tokenizer: PreTrainedTokenizerBase, config: PolicyConfig, device: str
) -> TransformersPolicy:
    return TransformersPolicy(
        model,
        tokenizer,
        layout=config.layout,
        device=device,
        max_rows=config.max_rows,
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
    model, tokenizer = _read_checkpoint(first, "auto", "policy", str(first))
    other, other_tokenizer = _read_checkpoint(second, "auto", "policy", str(second))
    for place, *read in ((first, model, tokenizer), (second, other, other_tokenizer)):
        if reason := _find_fault(*read):
            raise UsageError(f"{place}: {reason}")
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


def train_tokenizer(
    texts: Iterable[str], *, vocab_size: int, keywords: Iterable[str] = ()
) -> PreTrainedTokenizerFast:
    """Train byte-level BPE (Sennrich et al. 2016, over bytes as in GPT-2) of ``vocab_size``,
    deterministic in ``texts`` and their order. Each of ``keywords`` is kept with the blank behind
    it in one piece. Any text round-trips exactly, because the 256 bytes are always in the
    vocabulary."""
    whole = "|".join(sorted(sorted(keywords), key=len, reverse=True))
    words = rf"\b(?:{whole})\b ?|" if whole else ""
    pieces = rf"{words}[A-Za-z_][A-Za-z0-9_'?]*|[0-9]|[^A-Za-z0-9_]+"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
    )
