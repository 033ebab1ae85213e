"""vLLM inside this process: the only module that imports it, and only on request.

Flows in: the configuration and tokenizer of a transformers model, weights, token ids. Flows out:
sampled tokens with the log-probabilities of the distribution after the temperature, and scores of
given tokens. The engine starts with random weights and gets the real ones by ``load``: nothing but
a configuration and a tokenizer is written to the disk. Not handled here: top-k and penalties (they
would bias the log-probabilities), one model on several GPUs.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from proverrl.config import VllmConfig
from proverrl.errors import UsageError, WeightSyncError
from proverrl.files.extras import install_extra
from proverrl.policy.lora import adapter_rank, adapter_targets, has_adapter
from proverrl.policy.probe import Rows, Scores
from proverrl.policy.transformers import TransformersPolicy
from proverrl.types import Sampling

ENVIRONMENT = {
    # An engine in a process of its own could only be given weights over a pipe or the disk.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
}
"""Set before vLLM is imported."""

WORK_BYTES = 2**31
"""The memory reserved for vLLM's computations beside its weights and its cache; its cache does not
depend on this."""

ADAPTER_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The sizes for which vLLM reserves room; an adapter may have a lower rank."""

MIN_BATCHED_TOKENS = 4096
"""Prompt tokens that are computed at once, where prompts cannot be computed in parts."""


@dataclass(frozen=True, slots=True)
class Request:
    """One completion to be drawn after a prompt, under its own seed (63 bits)."""

    prompt_ids: tuple[int, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """The draw for a request: ids, the end token included when it was drawn, and the
    log-probability of each. ``stopped`` when it ended by itself or with a stop text."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stopped: bool


def import_vllm() -> Any:
    """The module ``vllm``, set up to run inside this process. It is found by importing it, because
    the CPU build is installed under another name. Raises ``UsageError`` if vLLM is not installed or
    does not start here."""
    os.environ.update(ENVIRONMENT)
    # Its log lines would tear the live display; whoever asks for them gets them.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    try:
        return importlib.import_module("vllm")
    except (ImportError, OSError) as error:
        raise UsageError(
            f"policy.engine is 'vllm' and vLLM cannot be imported ({error}); install the extra "
            f"with {install_extra('vllm')} (docs/engines.md says how on a CPU), or set "
            "policy.engine = 'transformers'"
        ) from error


def claimed_share(weight_bytes: int, config: VllmConfig, total_bytes: int) -> float:
    """The share of a device's memory that vLLM takes: weights, cache, and what it computes with."""
    claimed = weight_bytes + _cache_bytes(config) + WORK_BYTES
    return float(min(0.95, claimed / total_bytes))


def _cache_bytes(config: VllmConfig) -> int:
    """1 GiB where nothing is said: what a GPU has left is put in before
    (``proverrl.learner.memory``)."""
    return int((config.kv_cache_gb or 1.0) * 2**30)


class VllmEngine:
    """One vLLM engine for ``policy``'s architecture and tokenizer; ``load`` brings the weights. All
    calls come from one thread. Raises ``UsageError`` if vLLM is not there, or refuses the model or
    the settings."""

    def __init__(self, policy: TransformersPolicy, config: VllmConfig) -> None:
        self._vllm = import_vllm()
        if config.sleep and not self._vllm.platforms.current_platform.is_sleep_mode_available():
            raise UsageError("vllm.sleep = true is for GPUs; set it to false")
        self._shares_group = policy.world.size > 1
        self._folder = tempfile.TemporaryDirectory(prefix="proverrl-vllm-")
        policy.model.config.save_pretrained(self._folder.name)
        policy.tokenizer.save_pretrained(self._folder.name)
        self._dtype = config.dtype_for(policy.model.dtype)
        self._adapter: Any = None
        self._num_adapters = 0
        preload, set_threads = os.environ.get("LD_PRELOAD"), torch.set_num_threads
        try:
            self._llm = self._vllm.LLM(
                model=self._folder.name,
                load_format="dummy",
                dtype=self._dtype,
                enforce_eager=config.eager,
                enable_sleep_mode=config.sleep,
                kv_cache_memory_bytes=_cache_bytes(config),
                **self._memory_settings(policy, config),
                **self._process_settings(),
                max_model_len=config.max_model_tokens or None,
                max_num_seqs=policy.max_rows,
                **self._adapter_settings(policy),
                **self._prefill_settings(policy, config),
                # That of the distribution that was drawn from, temperature included.
                logprobs_mode="processed_logprobs",
                # The model's own defaults may hold a top-k or a temperature.
                generation_config="vllm",
                seed=0,
            )
        except (ValueError, RuntimeError, OSError) as error:
            self._folder.cleanup()
            raise UsageError(
                f"vLLM refuses this model or these settings: {error}; see vllm.dtype, "
                "vllm.kv_cache_gb and vllm.max_model_tokens, or set policy.engine = "
                "'transformers'"
            ) from error
        finally:
            # On a CPU vLLM preloads its allocator into whatever is started next, the verifiers
            # too, and switches off how torch's threads are set.
            _restore_variable("LD_PRELOAD", preload)
            torch.set_num_threads = set_threads
        self._device = str(self._vllm.platforms.current_platform.device_type)

    def _prefill_settings(
        self, policy: TransformersPolicy, config: VllmConfig
    ) -> dict[str, bool | int]:
        """On a CPU vLLM cannot compute a prompt in parts when its request has a seed: there torch's
        generator has no offset that could be reset. So prompts are computed whole."""
        if not self._vllm.platforms.current_platform.is_cpu():
            return {}
        known = policy.model.config.get_text_config(decoder=True).max_position_embeddings
        longest = config.max_model_tokens or int(known)
        return {
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(longest, MIN_BATCHED_TOKENS),
        }

    def _process_settings(self) -> dict[str, str]:
        """Each of several processes has a whole engine: the launcher has started them, and vLLM
        joins their group, for which all of them open their engines at the same time."""
        return {"distributed_executor_backend": "external_launcher"} if self._shares_group else {}

    def _memory_settings(self, policy: TransformersPolicy, config: VllmConfig) -> dict[str, float]:
        """The share of a GPU that must be free when vLLM starts. Its own default is nearly all of
        it, and here the model that is trained lies beside."""
        if self._vllm.platforms.current_platform.is_cpu():
            return {}
        size = getattr(torch, self._dtype).itemsize
        weights = size * sum(p.numel() for p in policy.model.parameters())
        total = torch.cuda.get_device_properties(policy.model.device).total_memory
        return {"gpu_memory_utilization": claimed_share(weights, config, total)}

    def _adapter_settings(self, policy: TransformersPolicy) -> dict[str, Any]:
        if not has_adapter(policy.model):
            return {}
        rank = adapter_rank(policy.model)
        allowed = [size for size in ADAPTER_RANKS if size >= rank]
        if not allowed:
            raise UsageError(
                f"vLLM takes adapters of rank {ADAPTER_RANKS[-1]} at most, and policy.lora.rank is "
                f"{rank}; lower it, or set policy.engine = 'transformers'"
            )
        return {
            "enable_lora": True,
            "max_loras": 1,
            "max_lora_rank": allowed[0],
            # Else the output layer has room for one too, and prompts cannot be scored.
            "lora_target_modules": adapter_targets(policy.model),
        }

    @property
    def description(self) -> str:
        version = self._vllm.__version__
        return f"vllm {version} in this process on {self._device}, {self._dtype}"

    @property
    def max_tokens(self) -> int:
        """Tokens of prompt and completion together, at most."""
        return int(self._llm.llm_engine.model_config.max_model_len)

    def generate(
        self, requests: Sequence[Request], *, sampling: Sampling, end_ids: Sequence[int]
    ) -> list[Drawn]:
        """One completion per request, each under its own seed; ``sampling.seed`` is not used.
        Prompts that several requests share are computed once; nothing is kept between calls, so a
        call gives the same result whatever came before it."""
        self._forget_prefixes()
        outputs = self._run(
            [request.prompt_ids for request in requests],
            [self._parameters(request, sampling, end_ids) for request in requests],
        )
        return [_read(output.outputs[0]) for output in outputs]

    def score(self, rows: Rows) -> Scores:
        """Log-probabilities at temperature 1 of every token but a row's first."""
        parameters = self._vllm.SamplingParams(
            temperature=0.0, max_tokens=1, prompt_logprobs=0, detokenize=False
        )
        outputs = self._run(rows, [parameters] * len(rows))
        # The first token stands after nothing, and vLLM has no entry for it.
        return [
            [
                float(entry[token].logprob)
                for entry, token in zip(output.prompt_logprobs[1:], row[1:], strict=True)
            ]
            for output, row in zip(outputs, rows, strict=True)
        ]

    def load(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Replace all weights, named as in the transformers model; tensors are copied, and
        everything computed with the old ones is discarded. Raises ``UsageError`` if vLLM cannot
        replace the weights of this kind of model."""
        # Its CPU build packs the experts of DeepSeek-V2 for good, say.
        with _taking("new weights of this model"):
            self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights)})
        self._llm.apply_model(_pack_heads)
        self._forget_prefixes()

    def load_adapter(self, save: Callable[[Path], None]) -> None:
        """Sample with the adapter that ``save`` writes into a folder as peft does, and with no
        earlier one. Raises ``UsageError`` if vLLM has no such adapter for this kind of model."""
        engine = self._llm.llm_engine
        number = self._num_adapters = self._num_adapters + 1
        folder = Path(self._folder.name) / f"adapter_{number}"
        save(folder)
        request = self._vllm.lora.request.LoRARequest(f"{number}", number, str(folder))
        for old in engine.list_loras():
            engine.remove_lora(old)
        with _taking("this adapter", "see policy.lora.rank, or "):
            added = engine.add_lora(request)
        if not added or engine.list_loras() != {number}:
            raise WeightSyncError("vLLM did not take the adapter")
        self._adapter = request
        self._forget_prefixes()
        # It reads the files once more where it dropped the adapter, which one of one never is.
        if number > 1:
            shutil.rmtree(folder.with_name(f"adapter_{number - 1}"))

    def sleep(self) -> None:
        """Drop weights and cache (its level 2): all of them come anew with the next push."""
        self._llm.sleep(level=2)

    def wake(self, part: Literal["weights", "kv_cache"]) -> None:
        """Take the memory of one of the two again; weights are loaded before they are used."""
        if torch.cuda.is_available():
            # What the learner has freed is kept by torch, and vLLM asks the device.
            torch.cuda.empty_cache()
        self._llm.wake_up(tags=[part])

    def close(self) -> None:
        if self._shares_group:
            # Its end would be that of the group of processes, which is the run's and still needed.
            self._llm.llm_engine.engine_core._finalizer.detach()
            del self._llm
        else:
            self._llm.llm_engine.engine_core.shutdown()
            del self._llm
            self._vllm.distributed.cleanup_dist_env_and_memory()
        self._folder.cleanup()

    def _run(self, rows: Rows, parameters: list[Any]) -> list[Any]:
        prompts = [{"prompt_token_ids": list(row)} for row in rows]
        try:
            outputs: list[Any] = self._llm.generate(
                prompts, parameters, use_tqdm=False, lora_request=self._adapter
            )
        except RuntimeError as error:
            # Some shapes are only refused when they are computed: heads of 16 on a CPU, say.
            raise UsageError(
                f"vLLM cannot run this model: {error}; set policy.engine = 'transformers'"
            ) from error
        return outputs

    def _forget_prefixes(self) -> None:
        if not self._llm.reset_prefix_cache():
            raise WeightSyncError("vLLM did not forget what it computed with earlier weights")

    def _parameters(self, request: Request, sampling: Sampling, end_ids: Sequence[int]) -> Any:
        return self._vllm.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_tokens=sampling.max_new_tokens,
            seed=request.seed,
            logprobs=0,
            # What ends a completion is the policy's matter, and none of vLLM's own finding.
            ignore_eos=True,
            stop_token_ids=list(end_ids),
            stop=list(sampling.stop) or None,
            include_stop_str_in_output=True,
            detokenize=bool(sampling.stop),
            skip_special_tokens=False,
        )


@contextlib.contextmanager
def _taking(what: str, remedy: str = "") -> Iterator[None]:
    """Raises ``UsageError`` where vLLM refuses what it is given; out of memory stays what it is."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, KeyError) as error:
        raise UsageError(
            f"vLLM cannot take {what}: {error!r}; {remedy}set policy.engine = 'transformers'"
        ) from error


def _pack_heads(model: Any) -> int:
    """Repack output layers, which on a CPU hold a packed copy of their weight: one that is tied to
    the embedding gets no weight in a reload, so its copy would stay stale."""
    packed = 0
    for name, module in model.named_modules():
        if name.rpartition(".")[2] == "lm_head" and hasattr(module, "quant_method"):
            module.quant_method.process_weights_after_loading(module)
            packed += 1
    return packed


def _read(output: Any) -> Drawn:
    ids = tuple(int(token) for token in output.token_ids)
    logprobs = tuple(
        float(entry[token].logprob) for entry, token in zip(output.logprobs, ids, strict=True)
    )
    return Drawn(ids, logprobs, stopped=output.finish_reason == "stop")


def _restore_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
