"""An engine that samples from its own copy of a model: what vLLM is to a run, without vLLM."""

from __future__ import annotations

import copy
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

from proverrl.config import VllmConfig
from proverrl.policy.decoding import draw_tokens
from proverrl.policy.lora import base_weights, load_adapter
from proverrl.policy.probe import Rows, Scores, score_rows
from proverrl.policy.transformers import TransformersPolicy
from proverrl.policy.vllm_engine import Drawn, Request, VllmEngine
from proverrl.types import Sampling


class FakeEngine(VllmEngine):
    """Starts with wrong weights. ``skips(name)`` says which weights a push leaves as they are;
    ``shift`` is added to every score; ``gate`` holds a generation back until it is set."""

    description = "fake engine"
    max_tokens = 1024

    def __init__(self, policy: TransformersPolicy, config: VllmConfig) -> None:
        self.policy = policy
        self.model = copy.deepcopy(policy.model)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.normal_(generator=torch.Generator().manual_seed(0))
        self.skips: Callable[[str], bool] = lambda name: False
        self.shift = 0.0
        self.gate = threading.Event()
        self.gate.set()
        self.events: list[str] = []
        self.requests: list[Request] = []
        self.closed = False

    def generate(
        self, requests: Sequence[Request], *, sampling: Sampling, end_ids: Sequence[int]
    ) -> list[Drawn]:
        self.events.append("generate begins")
        self.gate.wait()
        self.requests = list(requests)
        drawn = [self._draw(request, sampling, end_ids) for request in requests]
        self.events.append("generate ends")
        return drawn

    @torch.no_grad()
    def _draw(self, request: Request, sampling: Sampling, end_ids: Sequence[int]) -> Drawn:
        generator = torch.Generator().manual_seed(request.seed)
        ids: list[int] = []
        logprobs: list[float] = []
        while len(ids) < sampling.max_new_tokens:
            logits = self.model(input_ids=torch.tensor([[*request.prompt_ids, *ids]])).logits
            token, logprob = draw_tokens(logits[:, -1], sampling.temperature, generator)
            ids.append(int(token))
            logprobs.append(float(logprob))
            text = self.policy.tokenizer.decode(ids)
            if ids[-1] in end_ids or any(stop in text for stop in sampling.stop):
                return Drawn(tuple(ids), tuple(logprobs), stopped=True)
        return Drawn(tuple(ids), tuple(logprobs), stopped=False)

    def score(self, rows: Rows) -> Scores:
        return [[v + self.shift for v in row] for row in score_rows(self.model, rows)]

    @torch.no_grad()
    def load(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.events.append("load begins")
        mine = base_weights(self.model)
        for name, tensor in weights:
            if not self.skips(name):
                mine[name].copy_(tensor)
        self.events.append("load ends")

    def sleep(self) -> None:
        self.events.append("sleep")
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.fill_(torch.nan)

    def wake(self, part: str) -> None:
        self.events.append(f"wake {part}")

    def load_adapter(self, save: Callable[[Path], None]) -> None:
        self.events.append("adapter")
        with tempfile.TemporaryDirectory() as folder:
            save(Path(folder))
            if not self.skips("adapter"):
                load_adapter(self.model, Path(folder))

    def close(self) -> None:
        self.closed = True
