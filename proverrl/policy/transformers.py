"""The policy that generates with transformers, on CPU or CUDA.

Flows in: prompts as token ids. Flows out: completions with exact token ids and the sampler's
own log-probabilities at the sampling temperature. Prompts are prefilled once and their cache is
shared by the ``n`` completions; rows that have ended are dropped from the batch as it shrinks.
A completion ends where the model's context does. A generation that is cancelled stops at its next
token.
Not handled here: weight updates (``proverrl.learner`` owns the optimizer), log-probabilities under
top-p (what is drawn with it has none), top-k.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
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
from transformers.utils import logging as transformers_logging

from proverrl.config import LayoutName, PolicyConfig, PrecisionName
from proverrl.disk import loading
from proverrl.errors import UsageError
from proverrl.parallel import SINGLE, World
from proverrl.policy.base import Exchange
from proverrl.policy.conversation import encode_prompt, resume_prompt
from proverrl.policy.kv_cache import make_cache
from proverrl.policy.lora import (
    ADAPTER_FOLDER,
    adapter_weights,
    has_adapter,
    merged_state,
    save_adapter,
)
from proverrl.policy.sampling import draw_tokens, pad_left
from proverrl.problems.prompt import render_body
from proverrl.seeds import derive_seed
from proverrl.types import Completion, FinishReason, Problem, Prompt, Sampling

# Its bar for every saved checkpoint would tear the live display.
transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]

DTYPES: dict[PrecisionName, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}
"""The dtype of the weights that generate; the learner updates the same ones."""

COMPACT_BELOW = 0.75
"""The batch is compacted when fewer than this share of its rows are still being written."""


class TransformersPolicy:
    """A causal language model and its tokenizer; ``model`` is shared with the learner."""

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        *,
        layout: LayoutName = "plain",
        device: str = "cpu",
        max_rows: int = 256,
        version: int = 0,
        world: World = SINGLE,
    ) -> None:
        self.model = model.to(device).eval()
        self.tokenizer = tokenizer
        self.layout = layout
        self.device = device
        self.max_rows = max_rows
        self.version = version
        self.world = world

    @property
    def engine(self) -> str:
        """Engine, device and size, for people to read."""
        num_parameters = sum(parameter.numel() for parameter in self.model.parameters())
        dtype = str(self.model.dtype).removeprefix("torch.")
        text = f"transformers on {self.device}, {num_parameters / 1e6:.2f} M parameters in {dtype}"
        if self.world.size > 1:
            text += f", {self.world.size} processes"
        if not has_adapter(self.model):
            return text
        trained = sum(weight.numel() for weight in adapter_weights(self.model).values())
        return f"{text}, {trained / 1e6:.3f} M of them trained (LoRA)"

    @property
    def end_id(self) -> int:
        """The token that ends a completion."""
        return int(self.tokenizer.eos_token_id)

    def prompt(self, problem: Problem) -> Prompt:
        return encode_prompt(self.tokenizer, problem, self.layout)

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        return resume_prompt(self.tokenizer, prompt, history, self.layout)

    def body_ids(self, problem: Problem, body: str) -> tuple[int, ...]:
        """The token ids of a reference body, end token included: what warm start trains on."""
        text = render_body(problem, body, self.layout)
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return (*ids, self.end_id)

    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and completion together, at most."""
        config = self.model.config.get_text_config(decoder=True)
        # A recurrent model has no such limit.
        return int(getattr(config, "max_position_embeddings", None) or sys.maxsize)

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """See ``Policy.generate``.

        Raises:
            UsageError: a prompt leaves no room for a token.
        """
        longest = max((len(prompt.token_ids) for prompt in prompts), default=0)
        if longest >= self.context_tokens:
            raise UsageError(
                f"a prompt of {longest} tokens leaves no room in the {self.context_tokens} tokens "
                "of the model; lower rollout.history_tokens, or take a model with a longer context"
            )
        cancelled = threading.Event()
        try:
            # The event loop goes on feeding verifiers while torch works in the thread.
            return await asyncio.to_thread(
                self.generate_shared, list(prompts), n, sampling, cancelled
            )
        finally:
            cancelled.set()

    def generate_shared(
        self,
        prompts: list[Prompt],
        n: int,
        sampling: Sampling,
        cancelled: threading.Event | None = None,
    ) -> list[list[Completion]]:
        """``generate`` in this thread; of several processes each writes for some of the prompts.
        Once ``cancelled`` is set, whatever comes back is cut short.

        Rank 0 tells the others (``proverrl.loops.follow``), which call this with the same values.
        """
        cancelled = cancelled or threading.Event()
        if self.world.size == 1:
            return self._generate(prompts, n, sampling, cancelled)
        if self.world.leads:
            self.world.share(("generate", (prompts, n, sampling, self.version)))
        seed = derive_seed(sampling.seed, "rank", self.world.rank)
        mine = prompts[self.world.rank :: self.world.size]
        written = self._generate(mine, n, replace(sampling, seed=seed), cancelled)
        parts = self.world.gather(written)
        return [parts[i % self.world.size][i // self.world.size] for i in range(len(prompts))]

    def push(self, version: int) -> dict[str, float]:
        """The model that is trained is the one that samples: only the version changes."""
        self.version = version
        return {}

    def close(self) -> None:
        """Nothing is held besides the model."""

    def save(self, folder: Path) -> None:
        """Write an ordinary Hugging Face folder; an adapter is merged into its weights, and written
        beside them as well."""
        if has_adapter(self.model):
            self.model.save_pretrained(folder, state_dict=merged_state(self.model))
            save_adapter(self.model, folder / ADAPTER_FOLDER)
        else:
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def _generate(
        self, prompts: list[Prompt], n: int, sampling: Sampling, cancelled: threading.Event
    ) -> list[list[Completion]]:
        generator = torch.Generator(device=self.device).manual_seed(sampling.seed)
        # Prompts of like length share a batch, so that little padding is computed.
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i].token_ids))
        per_batch = max(1, self.max_rows // n)
        results: list[list[Completion]] = [[] for _ in prompts]
        for start in range(0, len(order), per_batch):
            chosen = order[start : start + per_batch]
            batch = [prompts[i] for i in chosen]
            rows = self._generate_rows(batch, n, sampling, generator, cancelled)
            for position, index in enumerate(chosen):
                results[index] = rows[position * n : (position + 1) * n]
        return results

    @torch.inference_mode()
    def _generate_rows(
        self,
        prompts: list[Prompt],
        n: int,
        sampling: Sampling,
        generator: torch.Generator,
        cancelled: threading.Event,
    ) -> list[Completion]:
        self.model.eval()
        ids, mask = pad_left([p.token_ids for p in prompts], self._pad_id(), self.device)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        cache = make_cache(self.model)
        out = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache.batch_repeat_interleave(n)
        logits = out.logits[:, -1].repeat_interleave(n, dim=0)
        mask = mask.repeat_interleave(n, dim=0)
        position = positions[:, -1:].repeat_interleave(n, dim=0)
        num_rows = len(prompts) * n
        alive = torch.arange(num_rows, device=self.device)
        drawn = torch.full((num_rows, sampling.max_new_tokens), self._pad_id(), device=self.device)
        logprobs = torch.zeros((num_rows, sampling.max_new_tokens), device=self.device)
        lengths = torch.full((num_rows,), sampling.max_new_tokens, device=self.device)
        writing = torch.ones(num_rows, dtype=torch.bool, device=self.device)
        for step in range(sampling.max_new_tokens):
            token, logprob = draw_tokens(logits, sampling.temperature, generator, sampling.top_p)
            live = alive[writing]
            drawn[live, step] = token[writing]
            logprobs[live, step] = logprob[writing]
            ended = writing & (token == self.end_id)
            if sampling.stop:
                ended |= writing & self._has_stopped(drawn[alive, : step + 1], sampling.stop)
            # The place of the token that was just drawn is one more than that of the last.
            ended |= writing & (position.squeeze(-1) + 2 >= self.context_tokens)
            lengths[alive[ended]] = step + 1
            writing = writing & ~ended
            num_writing = int(writing.sum())
            if num_writing == 0 or step + 1 == sampling.max_new_tokens or cancelled.is_set():
                break
            if num_writing < COMPACT_BELOW * len(alive):
                kept = writing.nonzero().squeeze(-1)
                cache.batch_select_indices(kept)
                alive, token, mask, position = (
                    alive[kept],
                    token[kept],
                    mask[kept],
                    position[kept],
                )
                writing = torch.ones(len(kept), dtype=torch.bool, device=self.device)
            mask = torch.cat([mask, mask.new_ones((len(mask), 1))], dim=1)
            position = position + 1
            out = self.model(
                input_ids=token[:, None],
                attention_mask=mask,
                position_ids=position,
                past_key_values=cache,
                use_cache=True,
            )
            logits = out.logits[:, -1]
        return self._collect(prompts, n, drawn, logprobs, lengths, sampling)

    def _collect(
        self,
        prompts: list[Prompt],
        n: int,
        drawn: torch.Tensor,
        logprobs: torch.Tensor,
        lengths: torch.Tensor,
        sampling: Sampling,
    ) -> list[Completion]:
        stop, is_whole = sampling.stop, sampling.top_p == 1.0
        completions = []
        rows = zip(drawn.tolist(), logprobs.tolist(), lengths.tolist(), strict=True)
        for row, (tokens, values, length) in enumerate(rows):
            token_ids = tokens[:length]
            ended = token_ids[-1] == self.end_id
            stopped = ended or (bool(stop) and self._ends_with(token_ids, stop))
            reason: FinishReason = "stop" if stopped else "length"
            # Special tokens stay visible: a pad in the middle is garbage, not a blank.
            text = str(self.tokenizer.decode(token_ids[:-1] if ended else token_ids))
            completions.append(
                Completion(
                    text=text,
                    prompt_ids=prompts[row // n].token_ids,
                    token_ids=tuple(token_ids),
                    logprobs=tuple(values[:length]) if is_whole else (),
                    finish_reason=reason,
                    policy_version=self.version,
                    missing=() if is_whole else ("logprobs",),
                )
            )
        return completions

    def _has_stopped(self, rows: torch.Tensor, stop: tuple[str, ...]) -> torch.Tensor:
        """Which rows of tokens end in a stop text; shape (rows,)."""
        found = [self._ends_with(row, stop) for row in rows.tolist()]
        return torch.tensor(found, device=self.device)

    def _ends_with(self, token_ids: list[int], stop: tuple[str, ...]) -> bool:
        """Whether the last token completed a stop text; more may stand after it in that token."""
        longest = max(len(text.encode()) for text in stop)
        # A token is at least a byte of text, so that the stop text lies within the last tokens.
        tail = token_ids[-longest:]
        before, now = (str(self.tokenizer.decode(ids)) for ids in (tail[:-1], tail))
        return any(now.count(text) > before.count(text) for text in stop)

    def _pad_id(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(self.end_id if pad is None else pad)


def choose_device(name: str) -> str:
    """``auto`` takes CUDA when it is there.

    Raises:
        UsageError: CUDA was asked for by name and is not there.
    """
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
    path: str | Path, config: PolicyConfig, *, device: str, precision: PrecisionName = "fp32"
) -> TransformersPolicy:
    """Load a Hugging Face folder or id with weights of ``precision``, whatever it was saved in;
    layout and batch size come from ``config``.

    Raises:
        UsageError: it cannot be loaded, or its tokenizer has no end token.
    """
    with loading(Path(path)):
        try:
            tokenizer = AutoTokenizer.from_pretrained(path)
            model = AutoModelForCausalLM.from_pretrained(path, dtype=DTYPES[precision])
        except (AttributeError, KeyError, TypeError) as error:
            # What the library says of a file that is JSON and not what it should be.
            raise UsageError(f"policy.path {str(path)!r} cannot be loaded: {error!r}") from error
        except (OSError, ValueError, SafetensorError) as error:
            line = str(error).partition("\n")[0]
            raise UsageError(f"policy.path {str(path)!r} cannot be loaded: {line}") from error
    for parameter in model.parameters():
        # Loaded tensors are views at any offset in the file, and the math library sums in another
        # order when memory is aligned otherwise: a resumed run would drift from an unbroken one.
        parameter.data = parameter.data.clone()
    if tokenizer.eos_token_id is None:
        raise UsageError(f"policy.path {str(path)!r}: its tokenizer has no end-of-sequence token")
    return TransformersPolicy(
        model, tokenizer, layout=config.layout, device=device, max_rows=config.max_rows
    )


def cast_parameters(model: Any, dtype: torch.dtype) -> None:
    """Round the parameters in place. Buffers stay as they are: the frequencies of rotary positions
    in bfloat16 would put far tokens at wrong places."""
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

    Llama, because transformers gives a Qwen2 folder Qwen2's own tokenizer whatever it holds.
    """
    torch.manual_seed(seed)
    model = LlamaForCausalLM(  # type: ignore[no-untyped-call]
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            num_key_value_heads=config.num_heads,
            intermediate_size=config.intermediate_size,
            max_position_embeddings=1024,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    cast_parameters(model, DTYPES[precision])
    return TransformersPolicy(
        model, tokenizer, layout=config.layout, device=device, max_rows=config.max_rows
    )
