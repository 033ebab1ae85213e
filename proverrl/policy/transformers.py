"""The policy that generates with transformers, on CPU or CUDA.

Flows in: prompts as token ids. Flows out: completions with exact token ids and the sampler's own
log-probabilities at the sampling temperature. Prompts are prefilled once for all of their
completions; rows that have ended make room for those of further prompts (continuous batching: Orca,
Yu et al. 2022, OSDI). A completion ends where the model's context does; a generation that is
cancelled stops at its next token. Not handled here: weight updates, log-probabilities under top-p
(what is drawn with it has none).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from proverrl.concurrency import in_thread
from proverrl.config import LayoutName
from proverrl.parallel import SINGLE, World
from proverrl.policy.base import Exchange, place_rows
from proverrl.policy.conversation import encode_messages, find_ends, resume_prompt
from proverrl.policy.decoding import CachedRows, draw_tokens, find_context_tokens, group_heads
from proverrl.policy.in_flight import RowsInFlight
from proverrl.policy.lora import (
    ADAPTER_FOLDER,
    adapter_weights,
    has_adapter,
    merged_state,
    save_adapter,
)
from proverrl.problems.prompt import NOTHING_BEFORE, Before, render_body
from proverrl.seeds import derive_seed
from proverrl.types import Completion, Problem, Prompt, Sampling

# Its bar for every saved checkpoint would tear the live display.
transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]

MAX_CACHED_TOKENS = 2**20
"""The most tokens in the key-value cache, each completion counted at its full length; more rows
of long completions than that fit on no device that ``max_rows`` was set for."""

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
        before: Before = NOTHING_BEFORE,
    ) -> None:
        self.model = model.to(device).eval()
        group_heads(self.model)
        self.tokenizer = tokenizer
        self.layout = layout
        self.device = device
        self.max_rows = max_rows
        self.version = version
        self.world = world
        self.before = before
        listed = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
        self.end_ids = find_ends(tokenizer, layout, listed)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of a policy with another model and the same tokenizer."""
        names = ("layout", "device", "max_rows", "before")
        return {name: getattr(self, name) for name in names}

    @property
    def engine(self) -> str:
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
        """The end token that an answer is taught to end with; a completion ends with any of
        ``end_ids``."""
        return self.end_ids[0]

    def prompt(self, problem: Problem) -> Prompt:
        """See ``Policy.prompt``. Raises ``UsageError`` if the chat template refuses the layout's
        messages."""
        messages = self.before.messages(problem, self.layout)
        return encode_messages(self.tokenizer, problem.id, messages, self.layout)

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        return resume_prompt(self.tokenizer, prompt, history, self.layout, self.end_ids)

    def body_ids(self, problem: Problem, body: str) -> tuple[int, ...]:
        """The token ids of a reference body, end token included: what warm start trains on."""
        text = render_body(problem, body, self.layout)
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return (*ids, self.end_id)

    @property
    def context_tokens(self) -> int:
        """The most tokens of prompt and completion together."""
        return find_context_tokens(self.model)

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """See ``Policy.generate``."""
        most = self.context_tokens
        fitting = [prompt for prompt in prompts if len(prompt.token_ids) < most]
        cancelled = threading.Event()
        # One process may leave what it writes; several would talk across each other.
        run = in_thread if self.world.size > 1 else asyncio.to_thread
        try:
            # The event loop goes on feeding verifiers while torch works in the thread.
            written = (
                await run(self.generate_shared, fitting, n, sampling, cancelled) if fitting else []
            )
        finally:
            cancelled.set()
        return place_rows(prompts, written, n, most, "take a model with a longer context")

    def generate_shared(
        self,
        prompts: list[Prompt],
        n: int,
        sampling: Sampling,
        cancelled: threading.Event | None = None,
    ) -> list[list[Completion]]:
        """``generate`` in this thread; of several processes each writes for some of the prompts
        (rank 0 tells the others, which call this with the same values). Once ``cancelled`` is set,
        the returned completions are incomplete."""
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

    def take(self, version: int) -> None:
        """There is one set of weights, and rank 0 knows its number."""
        self.version = version

    def push(self, version: int) -> dict[str, float]:
        """The trained model is the one that samples, so only the version changes."""
        self.version = version
        return {}

    def sleep(self) -> None:
        """The weights are needed to learn, and nothing else is held."""

    def close(self) -> None:
        """Nothing is held besides the model."""

    def save(self, folder: Path) -> None:
        """Write an ordinary Hugging Face folder; an adapter is merged into its weights, and also
        written beside them."""
        if has_adapter(self.model):
            self.model.save_pretrained(folder, state_dict=merged_state(self.model))
            save_adapter(self.model, folder / ADAPTER_FOLDER)
        else:
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def save_trained(self, folder: Path) -> None:
        """As ``save``, without what an adapter stands on, which is saved already."""
        if has_adapter(self.model):
            save_adapter(self.model, folder / ADAPTER_FOLDER)
            self.tokenizer.save_pretrained(folder)
        else:
            self.save(folder)

    @torch.inference_mode()
    def _generate(
        self, prompts: list[Prompt], n: int, sampling: Sampling, cancelled: threading.Event
    ) -> list[list[Completion]]:
        self.model.eval()
        generator = torch.Generator(device=self.device).manual_seed(sampling.seed)
        written = RowsInFlight(sampling, self.end_ids, self.ends_with, self.device)
        waiting = deque(self._cut_portions(prompts, n, sampling.max_new_tokens))
        if not waiting:
            # One of several processes may have nothing to write.
            return [[] for _ in prompts]
        portions = self._take(waiting, 0)
        rows = self._begin(written, prompts, portions)
        while True:
            token, logprob = draw_tokens(
                rows.logits, sampling.temperature, generator, sampling.top_p, sampling.top_k
            )
            # The place of the token that was just drawn is one more than that of the last.
            full = rows.position.squeeze(-1) + 2 >= self.context_tokens
            num_writing = written.add(token, logprob, full)
            if cancelled.is_set() or (num_writing == 0 and not waiting):
                return self._complete(prompts, sampling, written)
            # Rows that have ended take no more room than those that are written may.
            is_full = rows.num_places >= portions[-1].length and num_writing < written.num_rows
            if num_writing >= COMPACT_BELOW * written.num_rows and not is_full:
                rows.add(token)
                continue
            kept = written.drop_ended()
            if num_writing:
                rows.keep(kept)
                rows.add(token[kept])
            can_begin = num_writing == 0 or rows.can_join
            if can_begin and (taken := self._take(waiting, num_writing)):
                portions = taken
                begun = self._begin(written, prompts, portions)
                if num_writing:
                    rows.join(begun)
                else:
                    rows = begun

    def _cut_portions(self, prompts: Sequence[Prompt], n: int, most: int) -> Iterator[_Portion]:
        """What is written at once of each prompt: ``n`` completions, but for a prompt that has no
        room for so many. Prompts of like length come together, so that little padding is
        computed."""
        lengths = [min(len(prompt.token_ids) + most, self.context_tokens) for prompt in prompts]
        for index in sorted(range(len(prompts)), key=lambda i: len(prompts[i].token_ids)):
            room = max(1, min(self.max_rows, MAX_CACHED_TOKENS // lengths[index]))
            for done in range(0, n, room):
                yield _Portion(index, min(room, n - done), room, lengths[index])

    def _take(self, waiting: deque[_Portion], num_rows: int) -> list[_Portion]:
        """The next portions for which there is room beside so many rows of shorter portions."""
        taken = []
        while waiting and num_rows + waiting[0].num <= waiting[0].room:
            taken.append(waiting.popleft())
            num_rows += taken[-1].num
        return taken

    def _begin(
        self, written: RowsInFlight, prompts: Sequence[Prompt], portions: list[_Portion]
    ) -> CachedRows:
        """Read the prompts of these portions, equal ones once, and open their rows."""
        pad = self.tokenizer.pad_token_id
        prompt_ids = [prompts[portion.prompt].token_ids for portion in portions]
        places = {ids: place for place, ids in enumerate(dict.fromkeys(prompt_ids))}
        rows = CachedRows(
            self.model,
            list(places),
            pad_id=self.end_id if pad is None else int(pad),
            device=self.device,
        )
        copies = [
            places[ids]
            for ids, portion in zip(prompt_ids, portions, strict=True)
            for _ in range(portion.num)
        ]
        rows.repeat(torch.tensor(copies, device=self.device))
        written.open(portion.prompt for portion in portions for _ in range(portion.num))
        return rows

    def _complete(
        self, prompts: Sequence[Prompt], sampling: Sampling, written: RowsInFlight
    ) -> list[list[Completion]]:
        found: list[list[Completion]] = [[] for _ in prompts]
        for owner, ids, logprobs in written.collect():
            stopped = ids[-1] in self.end_ids or self.ends_with(ids, sampling.stop)
            known = logprobs if sampling.top_p == 1.0 else None
            prompt_ids = prompts[owner].token_ids
            found[owner].append(self.make_completion(prompt_ids, ids, known, stopped=stopped))
        return found

    def make_completion(
        self,
        prompt_ids: tuple[int, ...],
        token_ids: Sequence[int],
        logprobs: Sequence[float] | None,
        *,
        stopped: bool,
        version: int | None = None,
    ) -> Completion:
        """The draw after a prompt, its end token included; ``logprobs`` are None where those
        of the whole distribution are not known, ``stopped`` says that it ended of itself or with a
        stop text, and ``version`` whose weights wrote it where these are not the policy's own."""
        ended = len(token_ids) > 0 and token_ids[-1] in self.end_ids
        # Special tokens stay visible: a pad in the middle is garbage, not a blank.
        text = str(self.tokenizer.decode(list(token_ids[:-1] if ended else token_ids)))
        return Completion(
            text=text,
            prompt_ids=prompt_ids,
            token_ids=tuple(token_ids),
            logprobs=() if logprobs is None else tuple(logprobs),
            finish_reason="stop" if stopped else "length",
            policy_version=self.version if version is None else version,
            missing=("logprobs",) if logprobs is None else (),
        )

    def ends_with(self, token_ids: list[int], stop: tuple[str, ...]) -> bool:
        """True if the last token completed a stop text, whatever else the token contains."""
        if not stop:
            return False
        longest = max(len(text.encode()) for text in stop)
        # A token is at least a byte of text, so that the stop text lies within the last tokens.
        tail = token_ids[-longest:]
        before, now = (str(self.tokenizer.decode(ids)) for ids in (tail[:-1], tail))
        return any(now.count(text) > before.count(text) for text in stop)


class _Portion(NamedTuple):
    """``num`` completions of a prompt, the most rows in flight with them, and the most places that
    a completion takes with its prompt."""

    prompt: int
    num: int
    room: int
    length: int
