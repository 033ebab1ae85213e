"""The memory that a run will hold on each device, by arithmetic, before a weight is loaded.

Flows in: a configuration, the number of processes, and the architecture that it names (of a
checkpoint only ``config.json`` is read). Flows out: bytes by what they are for. The activations are
those of a decoder with gated feed-forward layers (Llama, Qwen, Mistral), counted from what torch
keeps for the backward pass (Korthikanti et al. 2022, arXiv 2205.05198, count likewise). Not handled
here: what CUDA itself takes, fragments between tensors, and the layer that sharded weights have
whole at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from proverrl.config import Config, OptimizerName, PrecisionName
from proverrl.errors import UsageError
from proverrl.learner.optimizers import build_optimizers
from proverrl.learner.vocabulary import CHUNK_BYTES
from proverrl.policy.loading import (
    DTYPES,
    choose_precision,
    find_model,
    name_device,
    small_llama,
)
from proverrl.policy.lora import attach_adapter, has_adapter
from proverrl.policy.transformers import MAX_CACHED_TOKENS, TransformersPolicy
from proverrl.policy.vllm_engine import WORK_BYTES

GIB = 2**30

CLAIMED = 0.9
"""The share of a device that is planned; CUDA itself and fragments take of the rest."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes on each device, by what they are for, with weights in ``precision``; ``parameters`` and
    ``trained`` are counts.

    ``always`` is held throughout, ``update`` while the learner computes, ``sampling`` while
    completions are written, and ``warm_start`` is all of one by whole weights before sharded ones
    are cut. In the sampler's cache a token takes ``kv_token``, and ``kv_draw`` is what all
    completions of a draw take when each is as long as it may be. ``together``: the sampler writes
    while the learner computes."""

    parameters: int
    trained: int
    always: dict[str, int]
    update: dict[str, int]
    sampling: dict[str, int]
    kv_token: int
    kv_draw: int
    together: bool
    warm_start: dict[str, int]
    precision: PrecisionName

    @property
    def peak(self) -> int:
        """The most at once; vLLM's memory stands under ``always``."""
        update, sampling = sum(self.update.values()), sum(self.sampling.values())
        rest = update + sampling if self.together else max(update, sampling)
        return max(sum(self.always.values()) + rest, sum(self.warm_start.values()))


def plan_memory(config: Config, *, processes: int = 1, prompt_tokens: int = 512) -> MemoryPlan:
    """The plan of ``loop = "grpo"`` by so many processes, for prompts of so many tokens. Raises
    ``UsageError``: the checkpoint has no configuration that transformers reads, the run could not
    start, or it holds what is not counted here."""
    if reason := _find_obstacle(config, processes):
        raise UsageError(f"there is no plan of this run: {reason}")
    model = _empty_model(config)
    shape = model.config.get_text_config(decoder=True)
    parameters = sum(p.numel() for p in model.parameters())
    weights = [p for p in model.parameters() if p.requires_grad]
    trained = sum(p.numel() for p in weights)
    precision = choose_precision(config, name_device(config.policy.device))
    dtype = DTYPES[precision]
    size = dtype.itemsize
    masters = 0 if size == 4 else 4 * trained
    states = sum(_state_bytes(optimizer) for optimizer in _optimizers(config, model))
    cut = processes if config.learner.shard != "none" else 1
    always = {"weights": size * parameters}
    if cut > 1:
        # The learner's own weights: the sampler keeps the whole ones.
        masters = 4 * trained
    always["float32 copies of trained weights"] = masters // cut
    always["optimizer"] = states // cut
    if config.loss.needs_reference and not has_adapter(model):
        always["reference model"] = size * parameters // cut
    keys = _key_width(shape)
    # Latent attention (DeepSeek-V2, arXiv 2405.04434) caches what keys and values are made of.
    latent = getattr(shape, "kv_lora_rank", None)
    cached = latent + shape.qk_rope_head_dim if latent else 2 * keys
    kv_token = cached * shape.num_hidden_layers
    most = config.sampling.max_new_tokens
    length = prompt_tokens + most
    # One sample that is longer than a micro-batch goes alone, or a group that must be whole.
    alone = config.grpo.group_size if config.loss.needs_groups else 1
    tokens = max(config.learner.micro_batch_tokens, prompt_tokens + alone * most)
    update = {
        "gradients": 4 * trained // cut,
        "activations": tokens
        * _activation_bytes(shape, keys, size, recomputed=config.learner.recomputes(parameters)),
        "logits of one chunk": min(CHUNK_BYTES, 4 * tokens * shape.vocab_size) * 9 // 8,
    }
    warm = dict[str, int]()
    if cut > 1 and config.warm_start.steps and config.warm_start.optimizer == "muon":
        whole = 4 * trained
        states = sum(_state_bytes(o) for o in _optimizers(config, model, "muon"))
        warm = {"weights": size * parameters, "optimizer": states, **update, "gradients": whole}
        if size != 4:
            warm["float32 copies of trained weights"] = whole
    sampling = dict[str, int]()
    if config.policy.engine == "vllm":
        vllm_size = getattr(torch, config.vllm.dtype_for(dtype)).itemsize
        kv_token *= vllm_size
        # An engine that sleeps gives its memory to the update.
        held = sampling if config.vllm.sleep else always
        held["vLLM's weights"] = vllm_size * parameters
        held["vLLM's key-value cache"] = int(config.vllm.kv_cache_gb * GIB)
        held["what vLLM computes with"] = WORK_BYTES
    else:
        kv_token *= size
        rows = max(1, min(config.policy.max_rows, MAX_CACHED_TOKENS // length))
        sampling["key-value cache"] = rows * length * kv_token
        # In float32: divided, as probabilities, and these once more in blocks.
        sampling["logits of the next token"] = rows * shape.vocab_size * (size + 12)
    together = not config.grpo.in_order and config.grpo.max_staleness > 0
    if together and config.policy.engine != "vllm":
        # The sampler's model, and the weights that wait for it (``proverrl.run.samplers``).
        always["sampler's own model"] = size * parameters
        always["weights that wait for it"] = 2 * size * trained
    always = {name: value for name, value in always.items() if value}
    kv_draw = kv_token * _draw_tokens(config, processes, prompt_tokens)
    return MemoryPlan(
        parameters, trained, always, update, sampling, kv_token, kv_draw, together, warm, precision
    )


def settle_cache(config: Config, policy: TransformersPolicy) -> Config:
    """The configuration with which the policy's sampler is opened: where a GPU's cache is left to
    the plan (``vllm.kv_cache_gb = 0``), with its size. Raises ``UsageError`` as ``plan_memory`` and
    ``choose_cache_gb`` do."""
    vllm, device = config.vllm, policy.model.device
    if config.policy.engine != "vllm" or vllm.kv_cache_gb or device.type != "cuda":
        return config
    try:
        plan = plan_memory(config, processes=policy.world.size)
    except UsageError as error:
        raise UsageError(f"{error}; set vllm.kv_cache_gb") from error
    total = torch.cuda.get_device_properties(device).total_memory
    size = choose_cache_gb(config, plan, device_bytes=total)
    return config.model_copy(update={"vllm": vllm.model_copy(update={"kv_cache_gb": size})})


def choose_cache_gb(config: Config, plan: MemoryPlan, *, device_bytes: int) -> float:
    """The GiB of ``vllm.kv_cache_gb = 0`` on a GPU: what the plan leaves of ``CLAIMED`` of its
    bytes, and at most what a draw takes. Raises ``UsageError`` if not one completion of full length
    has room."""
    # An engine that sleeps has the update's memory while it is awake.
    beside = plan.sampling if config.vllm.sleep else plan.update
    others = sum(plan.always.values()) + sum(beside.values())
    left = min(int(CLAIMED * device_bytes) - others, plan.kv_draw)
    one = plan.kv_token * config.sampling.max_new_tokens
    if left < one:
        raise UsageError(
            f"a completion of {config.sampling.max_new_tokens} tokens takes {one / GIB:.1f} GiB of "
            f"vLLM's cache, and the rest of the run leaves {max(0, left) / GIB:.1f}; proverrl plan "
            "says what takes how much. Set vllm.sleep = true, or vllm.kv_cache_gb, or lower "
            "sampling.max_new_tokens"
        )
    return left / GIB


def _draw_tokens(config: Config, processes: int, prompt_tokens: int) -> int:
    """The most tokens that one of the processes has in its sampler's cache for a draw, if that
    holds all completions of its prompts."""
    rows = math.ceil(config.grpo.groups_per_draw / processes) * config.grpo.group_size
    return rows * (prompt_tokens + config.sampling.max_new_tokens)


def _key_width(shape: Any) -> int:
    """Numbers of a token's keys in one layer, while they are computed."""
    heads = int(shape.num_attention_heads)
    size = getattr(shape, "qk_head_dim", None) or getattr(shape, "head_dim", None)
    grouped = getattr(shape, "num_key_value_heads", None) or heads
    return int(grouped * (size or shape.hidden_size // heads))


def _find_obstacle(config: Config, processes: int) -> str:
    if config.policy.endpoint or config.policy.is_function:
        return "its policy has no weights here (policy.path, policy.engine)"
    if config.learner.shard != "none" and processes == 1:
        return f"learner.shard = {config.learner.shard!r} needs several processes (--processes)"
    if config.experiments:
        return f"the memory of {', '.join(config.experiments)} is not counted (experiments)"
    return ""


def _empty_model(config: Config) -> Any:
    """The model without its numbers, on no device; with adapters where they are trained."""
    path = config.policy.path
    try:
        if path:
            shape = AutoConfig.from_pretrained(find_model(path, "policy.path"))
        else:
            shape = small_llama(config.policy)
    except (OSError, ValueError) as error:
        line = str(error).partition("\n")[0]
        raise UsageError(f"policy.path {path!r} has no configuration to plan for: {line}") from None
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(shape)  # type: ignore[no-untyped-call]
        if config.policy.lora.rank:
            attach_adapter(model, config.policy.lora, seed=0)
    return model


def _optimizers(
    config: Config, model: Any, name: OptimizerName | None = None
) -> list[torch.optim.Optimizer]:
    settings = config.learner
    return build_optimizers(
        name or settings.optimizer,
        model,
        learning_rate=settings.learning_rate,
        weight_decay=0.0,
    )


def _state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Two moments in float32 for AdamW, one for Muon."""
    moments = 1 if isinstance(optimizer, torch.optim.Muon) else 2
    return sum(4 * moments * p.numel() for group in optimizer.param_groups for p in group["params"])


def _activation_bytes(shape: Any, keys: int, size: int, *, recomputed: bool) -> int:
    """Bytes that the backward pass needs for a token. A layer keeps the inputs and outputs of its
    norms (in float32 within), queries and attention (8 hidden states, 10 in bfloat16), keys and
    values, and four states of the feed-forward width."""
    hidden, layers = int(shape.hidden_size), int(shape.num_hidden_layers)
    wide = int(getattr(shape, "moe_intermediate_size", None) or shape.intermediate_size)
    # Of several experts those that a token goes to.
    wide *= getattr(shape, "num_experts_per_tok", None) or 1
    layer = 4 * wide + (8 if size == 4 else 10) * hidden + 2 * keys
    outside = 8 * hidden
    if recomputed:
        # Each layer's input; one layer at a time is computed again.
        return size * (layers * hidden + layer + outside)
    return size * (layers * layer + outside)
