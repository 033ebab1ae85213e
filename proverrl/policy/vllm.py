"""The policy that samples with vLLM while a transformers model is trained.

Flows in: prompts as token ids; the weights of a ``TransformersPolicy``, pushed after every update.
Flows out: completions with exact token ids and the log-probabilities of the distribution that each
token was drawn from. Prompts and further turns are the ``TransformersPolicy``'s. One thread owns
the engine, so that a generation sees either the weights before a push or those after it and its
probe; after a failed push the engine refuses to generate. Of several processes each has an engine
and writes for its share of the prompts. Of a model with adapters the adapters alone are pushed,
while the weights below them stay as they are. Not handled here: one model on several GPUs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from proverrl.concurrency import in_thread
from proverrl.config import LayoutName, VllmConfig
from proverrl.errors import WeightSyncError
from proverrl.policy.base import Exchange, place_rows
from proverrl.policy.loading import checkpoint_weights
from proverrl.policy.lora import base_weights, has_adapter, save_adapter
from proverrl.policy.probe import PushProbe, choose_rows, score_rows
from proverrl.policy.transformers import TransformersPolicy
from proverrl.policy.vllm_engine import Request, VllmEngine
from proverrl.problems.prompt import Before
from proverrl.seeds import derive_seed
from proverrl.types import Completion, Problem, Prompt, Sampling

PROBE_SEQUENCES, PROBE_TOKENS = 8, 64
"""After each push both engines score so many sequences, each of at most so many tokens: enough
that no lost layer hides, and less than a second of an update."""


def push_limit(dtype: str, device: str) -> float:
    """The largest mean difference of log-probabilities, in nats, that a push may leave in vLLM on
    this kind of device: rounding in bfloat16, else of attention in TF32 on a GPU."""
    if dtype != "float32":
        return 3e-2
    return 1e-3 if device == "cuda" else 1e-4


class VllmPolicy:
    """Samples with ``build()``'s engine from the weights of ``trained``; ``version`` is that of the
    weights that the engine holds. The first push happens here. Raises ``UsageError`` if vLLM is
    missing or refuses the settings, and ``WeightSyncError`` if the engine does not hold the
    weights."""

    def __init__(
        self,
        trained: TransformersPolicy,
        build: Callable[[], VllmEngine],
        config: VllmConfig,
        problems: Sequence[Problem],
    ) -> None:
        self.trained = trained
        self.world = trained.world
        self.version = trained.version
        # torch counts threads for each thread that starts work, and vLLM's kernels ask OpenMP.
        self._thread = ThreadPoolExecutor(
            1, "vllm", initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),)
        )
        self._whole = False
        self._sleeps = config.sleep
        self._is_asleep = False
        self._base: tuple[tuple[int, int], ...] = ()
        try:
            self._engine = self._thread.submit(build).result()
            dtype = config.dtype_for(trained.model.dtype)
            rows = choose_rows(
                [trained.prompt(problem).token_ids for problem in problems],
                count=PROBE_SEQUENCES,
                max_tokens=min(PROBE_TOKENS, self._engine.max_tokens - 1),
            )
            self._probe = PushProbe(
                partial(score_rows, trained.model),
                self._engine.score,
                rows,
                limit=push_limit(dtype, trained.model.device.type),
                dtype=dtype,
            )
            self._thread.submit(self._push, trained.version).result()
        except BaseException:
            self.close()
            raise

    @property
    def engine(self) -> str:
        return f"{self._engine.description}; trained by {self.trained.engine}"

    @property
    def layout(self) -> LayoutName:
        return self.trained.layout

    @property
    def before(self) -> Before:
        return self.trained.before

    @property
    def context_tokens(self) -> int:
        return self._engine.max_tokens

    def prompt(self, problem: Problem) -> Prompt:
        return self.trained.prompt(problem)

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        return self.trained.resume(prompt, history)

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """See ``Policy.generate``. Raises ``WeightSyncError`` if the last push failed."""
        most = self.context_tokens
        fitting = [prompt for prompt in prompts if len(prompt.token_ids) < most]
        # One process may leave what it writes; several would talk across each other.
        run = in_thread if self.world.size > 1 else asyncio.to_thread
        written = await run(self.generate_shared, fitting, n, sampling) if fitting else []
        return place_rows(prompts, written, n, most, "raise vllm.max_model_tokens")

    def generate_shared(
        self, prompts: list[Prompt], n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """``generate`` in this thread; of several processes each writes for some of the prompts, as
        ``TransformersPolicy.generate_shared`` says. A completion's seed does not depend on which
        of them writes it."""
        if self.world.size > 1 and self.world.leads:
            self.world.share(("generate", (prompts, n, sampling, self.version)))
        mine = range(self.world.rank, len(prompts), self.world.size)
        written = self._thread.submit(self._generate, prompts, mine, n, sampling).result()
        parts = self.world.gather(written)
        return [parts[i % self.world.size][i // self.world.size] for i in range(len(prompts))]

    def take(self, version: int) -> None:
        """The engine's weights are numbered as they are pushed."""

    def push(self, version: int) -> dict[str, float]:
        """Copy the trained weights into the engine as ``version``, then compare both; returns
        figures for the metrics: the mean and the largest difference in nats, and seconds. Waits for
        a generation in progress. The trained weights must not change meanwhile. Raises
        ``WeightSyncError`` if the engine's log-probabilities are not those of the trained model, of
        several processes on any of them, all of which call this."""
        if self.world.size > 1 and self.world.leads:
            self.world.share(("load", (version,)))
        figures, complaint = dict[str, float](), ""
        try:
            figures = self._thread.submit(self._push, version).result()
        except WeightSyncError as error:
            complaint = str(error)
        for rank, text in enumerate(self.world.gather(complaint)):
            if text:
                raise WeightSyncError(f"process {rank}: {text}" if self.world.size > 1 else text)
        return figures

    def sleep(self) -> None:
        """See ``Sampler.sleep``; with ``vllm.sleep`` only. What is asked for next wakes the engine
        and pushes the weights."""
        if self._sleeps and not self._is_asleep:
            self._thread.submit(self._engine.sleep).result()
            self._is_asleep, self._whole, self._base = True, False, ()

    def close(self) -> None:
        """Stop the engine; the policy cannot be used afterwards."""
        self._whole = False
        engine = getattr(self, "_engine", None)
        if engine is not None:
            self._thread.submit(engine.close).result()
        self._thread.shutdown()

    def _push(self, version: int) -> dict[str, float]:
        started = time.monotonic()
        self._whole = False
        model = self.trained.model
        adapted = has_adapter(model)
        base = base_weights(model).values() if adapted else ()
        fingerprint = tuple((p.data_ptr(), p._version) for p in base)
        if self._is_asleep:
            self._engine.wake("weights")
        # Adapters stand on weights that only the end of a supervised phase changes, by merging.
        if fingerprint != self._base or not adapted:
            self._engine.load(checkpoint_weights(model).items())
            self._base = fingerprint
        if self._is_asleep:
            # After the weights: what loading them takes for a moment is free again.
            self._engine.wake("kv_cache")
            self._is_asleep = False
        if adapted:
            self._engine.load_adapter(partial(save_adapter, model))
        figures = self._probe.check()
        self.version = self.trained.version = version
        self._whole = True
        return figures | {"push_seconds": round(time.monotonic() - started, 4)}

    def _generate(
        self, prompts: list[Prompt], mine: Sequence[int], n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        if self._is_asleep:
            self._push(self.trained.version)
        if not self._whole:
            raise WeightSyncError("the sampler holds no whole set of weights; it cannot generate")
        requests = [
            Request(prompts[index].token_ids, derive_seed(sampling.seed, "prompt", index, number))
            for index in mine
            for number in range(n)
        ]
        drawn = self._engine.generate(requests, sampling=sampling, end_ids=self.trained.end_ids)
        # Of tokens that tie with the k-th vLLM keeps all, and the learner could not tell how many.
        is_whole = sampling.top_p == 1.0 and not sampling.top_k
        rows = [
            self.trained.make_completion(
                request.prompt_ids,
                one.token_ids,
                one.logprobs if is_whole else None,
                stopped=one.stopped,
                # The trained policy may be further, where it learns at the same time.
                version=self.version,
            )
            for request, one in zip(requests, drawn, strict=True)
        ]
        return [rows[start : start + n] for start in range(0, len(rows), n)]
