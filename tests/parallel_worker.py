"""Two steps of a learner on a tiny model, by one process or by several.

python -m tests.parallel_worker OUT CASES runs in each of the processes that the environment names.
CASES is a JSON list of settings: ``learner``, ``loss``, ``lora``, ``model``, ``spoil``,
``bucket_bytes``, the rank that ``skips`` its pushes, and ``file``, where the learner's state goes
after the two steps. With ``supervised``, fields of ``WarmStartConfig``, the steps are supervised
ones; with ``apart`` completions are written while a learner makes steps; with ``lost`` the last
process is killed, and the others have so many seconds.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import os
import random
import signal
import sys
import threading
import time
import unittest.mock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from proverrl import parallel
from proverrl.cli.main import run_to_the_end
from proverrl.config import LearnerConfig, LoraConfig, LossConfig, VllmConfig
from proverrl.config.training import WarmStartConfig
from proverrl.errors import ProverRLError, WeightSyncError
from proverrl.learner.learner import TorchLearner, Update
from proverrl.learner.packed_rows import PackedRow, batch_rows, packed_logprobs
from proverrl.parallel import World, close_world, open_world
from proverrl.policy.base import SharedSampler
from proverrl.policy.loading import cast_parameters, train_tokenizer
from proverrl.policy.lora import attach_adapter
from proverrl.policy.transformers import TransformersPolicy
from proverrl.policy.vllm import VllmPolicy
from proverrl.run.follow import Follower, check_weights, dismiss, push_weights, start_learners
from proverrl.run.pairs import Pair
from proverrl.run.samplers import PublishedSampler, PushedSampler, SamplerCopy
from proverrl.run.supervised import Imitation, SupervisedLearner, SupervisedLoss, score_tokens
from proverrl.types import Completion, Prompt, Sampling
from tests.builders import build_problem
from tests.fake_sampler import FakeEngine
from tests.tiny_model import VOCABULARY, tiny_model, tiny_samples


@dataclass
class Seen:
    """A check that remembers what it saw."""

    updates: list[Update]

    def __call__(self, update: Update) -> None:
        self.updates.append(update)


class Imitating:
    """A term of somebody's own: the likelihood of its items."""

    def backward(
        self, model: Any, items: Sequence[PackedRow], *, mine: Sequence[PackedRow], max_tokens: int
    ) -> dict[str, float]:
        num = sum(sum(sample.loss_mask) for row in items for sample in row.samples)
        total = 0.0
        for row in mine:
            logprobs, _ = packed_logprobs(model, [row], temperature=1.0)
            loss = -0.5 * logprobs.sum() / num
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return {"own_loss": total, "loss": total}

    def follow(self, model: Any) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Couple:
    """Two answers, of which the first is preferred."""

    chosen: Pair
    rejected: Pair

    @property
    def num_tokens(self) -> int:
        return 2 * max(self.chosen.num_tokens, self.rejected.num_tokens)


@dataclass(frozen=True)
class Preferring:
    """A loss over other items than pairs, with a figure of its own and scores before the first
    step."""

    def cut(self, items: Sequence[Couple], max_tokens: int) -> Iterator[list[Couple]]:
        return batch_rows(items, max_tokens, padded=True)

    def denominator(self, batch: Sequence[Couple]) -> float:
        return len(batch)

    def compute(
        self, model: Any, part: Sequence[Couple], denominator: float
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        margins = self.score(model, part) @ torch.tensor([0.5, -0.5])
        loss = -torch.nn.functional.logsigmoid(margins).sum() / denominator
        return loss, {"margin": margins.detach().sum() / denominator}

    def score(self, model: Any, part: Sequence[Couple]) -> torch.Tensor:
        answers = [*(item.chosen for item in part), *(item.rejected for item in part)]
        losses, picked, _ = score_tokens(model, answers, 0.0)
        rows = picked.nonzero()[:, 0]
        return torch.zeros(len(answers)).index_add(0, rows, -losses).view(2, len(part)).T


def run_case(world: World, case: dict[str, Any]) -> dict[str, Any]:
    """What rank 0 has after two steps and a draw; nothing on the others."""
    parallel.BUCKET_BYTES = case.get("bucket_bytes", 2**26)
    # Other weights on the others: they must get those of rank 0.
    model = tiny_model(seed=world.rank, **case.get("model", {}))
    config = LearnerConfig.model_validate(case.get("learner", {}))
    loss = LossConfig.model_validate(case.get("loss", {}))
    if config.precision == "bf16":
        cast_parameters(model, torch.bfloat16)
    samples = tiny_samples(model, prompts=5, each=2, shift=0.05)
    if "lora" in case:
        attach_adapter(model, LoraConfig.model_validate(case["lora"]), seed=world.rank)
    policy = TransformersPolicy(model, train_tokenizer(["a b c"], vocab_size=24), world=world)
    check = Seen([])

    rows = [s.token_ids for s in samples[:8]]

    def open_learner() -> TorchLearner:
        learner = TorchLearner(
            model,
            config,
            temperature=1.0,
            loss=loss,
            check=check,
            world=world,
            probe_rows=rows,
            terms={"own": Imitating()} if "term" in case else {},
        )
        if world.rank == case.get("skips"):
            # The messages are sent, and what comes goes nowhere.
            weights: Any = learner.weights
            copy_to = weights.run.copy_to
            weights.run.copy_to = lambda _: copy_to([w.clone() for w in model.parameters()])
        return learner

    if not world.leads:
        follower = Follower(world, policy, open_learner)
        follower.run()
        assert not check.updates
        if config.shard != "none":
            world.gather(count_bytes(follower.learner))
        return {}
    push_weights(world, policy)
    start_learners(world, None)
    learner = open_learner()
    items = {"own": [PackedRow((sample,)) for sample in samples[:3]]} if "term" in case else {}
    try:
        steps = [learner.step(samples, lambda: samples[:3], items) for _ in range(2)]
    except WeightSyncError as error:
        dismiss(world)
        return {"complaint": str(error)}
    prompts = [Prompt(problem_id=f"p{i}", text="", token_ids=(1, 2 + i)) for i in range(5)]
    sampling = Sampling(temperature=1.0, max_new_tokens=6, seed=7)
    written = policy.generate_shared(prompts, 3, sampling)
    if "spoil" in case:
        with torch.no_grad():
            next(model.parameters()).add_(1e-6)
    try:
        check_weights(world, policy)
        complaint = ""
    except ProverRLError as error:
        complaint = str(error)
    if "file" in case:
        learner.save(Path(case["file"]))
    masters: list[torch.Tensor] = []
    if config.precision == "bf16":
        if config.shard != "none":
            world.share(("state", ()))
        masters = learner.state()["masters"]
    dismiss(world)
    return {
        "bytes": world.gather(count_bytes(learner)) if config.shard != "none" else [],
        "processes": world.size,
        "steps": steps,
        "weights": [w.detach().clone() for w in masters or trained_parts(model)],
        "seen": [
            {s.rollout_id: v.tolist() for s, v in zip(u.samples, u.logprobs, strict=True)}
            for u in check.updates
        ],
        "written": [[(c.prompt_ids, len(c.token_ids)) for c in row] for row in written],
        "complaint": complaint,
    }


def run_supervised(world: World, case: dict[str, Any]) -> dict[str, Any]:
    """What rank 0 has after four supervised steps on uneven batches, and what each process held at
    once."""
    model = tiny_model(seed=world.rank)
    if "lora" in case:
        attach_adapter(model, LoraConfig.model_validate(case["lora"]), seed=world.rank)
    policy = TransformersPolicy(model, train_tokenizer(["a b c"], vocab_size=24), world=world)
    held: list[int] = []
    layers: list[int] = []
    decoder = model.get_decoder()
    decoder.register_forward_pre_hook(
        lambda _, __, given: held.append(given["input_ids"].numel()), with_kwargs=True
    )
    decoder.layers[0].mlp.register_forward_pre_hook(lambda *_: layers.append(1))
    pairs = tiny_pairs()
    if not world.leads:
        Follower(world, policy, lambda: TorchLearner(model, LearnerConfig(), temperature=1.0)).run()
        world.gather((held, len(layers)))
        return {}
    fields = {"optimizer": "adamw", "learning_rate": 1e-3}
    settings = WarmStartConfig.model_validate(fields | case["supervised"])
    fields = {"micro_batch_tokens": 64, "gradient_checkpointing": False}
    config = LearnerConfig.model_validate(fields | case.get("learner", {}))
    loss: SupervisedLoss = Imitation(0.3)
    items: Sequence[Any] = pairs
    scores = []
    if case.get("prefers"):
        loss = preferring = Preferring()
        items = [Couple(one, two) for one, two in zip(pairs, reversed(pairs), strict=True)]
    learner = SupervisedLearner(policy, settings, config, 3, loss, ((1, 2, 3), (4, 5, 6)))
    if case.get("prefers"):
        scores = learner.score(items, preferring.score)
    batches = [items[:7], items[4:], items[:1], items]
    steps = [learner.step(batch, rate) for batch, rate in zip(batches, (1, 1, 0.5, 1), strict=True)]
    is_cut = learner._weights.lockstep
    learner.close()
    kept = [type(o).__name__ for o in gc.get_objects() if issubclass(type(o), FSDPModule)]
    kept += [name for name, weight in model.named_parameters() if weight.grad is not None]
    check_weights(world, policy)
    dismiss(world)
    return {
        "processes": world.size,
        "is_cut": is_cut,
        "kept": kept,
        "steps": steps,
        "scores": scores,
        "weights": [w.detach().clone() for w in trained_parts(model)],
        "held": world.gather((held, len(layers))),
    }


def run_apart(world: World, case: dict[str, Any]) -> dict[str, Any]:
    """What rank 0 got while it learned, the weights of each version, and on how many prompts each
    process wrote; then a batch that was cancelled."""
    model = tiny_model(seed=world.rank)
    policy = TransformersPolicy(model, train_tokenizer(["a b c"], vocab_size=24), world=world)
    samples = tiny_samples(model, prompts=3, each=2)
    num_prompts = 0
    begun = threading.Event()
    kind: Any = VllmPolicy if case["apart"] == "engine" else TransformersPolicy
    generate = kind._generate

    def count(self: Any, prompts: list[Prompt], *others: Any) -> Any:
        nonlocal num_prompts
        # The engine is told of all prompts, and which of them are its own.
        num_prompts += len(prompts if kind is TransformersPolicy else others[0])
        begun.set()
        if case["apart"] == "fault" and not world.leads:
            raise RuntimeError("no memory is left")
        return generate(self, prompts, *others)

    def open_engine() -> SharedSampler:
        settings = VllmConfig()
        short: Any = policy
        # Of tokens that the tiny model has.
        short.prompt = lambda problem: Prompt(problem.id, "", tuple(map(int, problem.id[1:] * 3)))
        problems = [build_problem(f"p{i}", n=10**i) for i in range(8)]
        return VllmPolicy(policy, lambda: FakeEngine(policy, settings), settings, problems)

    def open_learner() -> TorchLearner:
        config = LearnerConfig(learning_rate=1e-2)
        return TorchLearner(model, config, temperature=1.0, world=world)

    with unittest.mock.patch.object(kind, "_generate", count):
        engine = open_engine() if kind is VllmPolicy else None
        if not world.leads:
            Follower(world, policy, open_learner, engine).run()
            world.gather(num_prompts)
            return {}
        push_weights(world, policy)
        start_learners(world, None)
        learner = open_learner()
        sampler: PublishedSampler = (
            SamplerCopy(policy, 0) if engine is None else open_pushed(policy, engine)
        )
        weights = {0: copy.deepcopy(model.state_dict())}
        prompts = [Prompt(problem_id=f"p{i}", text="", token_ids=(1, 2 + i)) for i in range(5)]

        async def write(number: int, most: int = 8) -> list[list[Completion]]:
            sampling = Sampling(temperature=1.0, max_new_tokens=most, seed=number)
            return await sampler.generate(prompts, n=2, sampling=sampling)

        async def learn() -> None:
            for step in range(1, 9):
                await asyncio.to_thread(learner.step, samples)
                policy.version = learner.version
                weights[learner.version] = copy.deepcopy(model.state_dict())
                await sampler.publish(step)

        async def work() -> tuple[list[list[list[Completion]]], bool]:
            learning = asyncio.create_task(learn())
            written = [await write(number) for number in range(6)]
            await learning
            written.append(await write(6))
            begun.clear()
            last = asyncio.create_task(write(7, most=60))
            await asyncio.to_thread(begun.wait)
            last.cancel()
            await asyncio.wait([last])
            await sampler.aclose()
            return written, last.cancelled()

        written, was_cancelled = asyncio.run(work())
        # The learner's conversation goes on.
        learner.step(samples)
        check_weights(world, policy)
        dismiss(world)
    return {
        "written": written,
        "weights": weights,
        "was_cancelled": was_cancelled,
        "num_prompts": world.gather(num_prompts),
    }


def run_lost(world: World, case: dict[str, Any]) -> dict[str, Any]:
    """The last process dies while the others wait in something that does not hear of it."""
    parallel.GRACE_SECONDS = case["lost"]
    world.gather(None)
    # The others must be out of it before the last one dies.
    store = torch.distributed.distributed_c10d._get_default_store()
    store.set(f"out {world.rank}", "")
    if world.rank == world.size - 1:
        store.wait([f"out {rank}" for rank in range(world.size)])
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60.0)
    raise AssertionError("nothing has ended this process")


def open_pushed(policy: TransformersPolicy, engine: SharedSampler) -> PushedSampler:
    """The sampler over an engine that has the first weights."""
    engine.push(0)
    session: Any = SimpleNamespace(sampler=engine, policy=policy)
    return PushedSampler(session, 0)


def tiny_pairs(num: int = 9) -> list[Pair]:
    """Pairs of 3 to 31 tokens; the last tokens of some prompts are only shown."""
    rng = random.Random(3)

    def draw(most: int) -> tuple[int, ...]:
        return tuple(rng.randrange(VOCABULARY) for _ in range(rng.randrange(2, most)))

    return [Pair(draw(20), draw(12), num_shown=i % 2) for i in range(num)]


def trained_parts(model: Any) -> list[torch.Tensor]:
    """What learns, in the model's order."""
    return [p for p in model.parameters() if p.requires_grad]


def count_bytes(learner: TorchLearner) -> int:
    """What this process holds of the learner's weights and optimizer state."""
    states = [state for built in learner.weights.optimizers for state in built.state.values()]
    tensors = [value for state in states for value in state.values() if value.ndim]
    parts = [t.to_local() if isinstance(t, DTensor) else t for t in learner.weights.masters]
    parts += [t.to_local() if isinstance(t, DTensor) else t for t in tensors]
    return sum(part.numel() * part.element_size() for part in parts)


def main(out: Path, cases: list[dict[str, Any]]) -> None:
    torch.set_num_threads(1)
    world = open_world("fsdp2" if "fsdp2" in str(cases) else "none")
    found = []
    for case in cases:
        try:
            runs = {"supervised": run_supervised, "apart": run_apart, "lost": run_lost}
            found.append(next((runs[k] for k in runs if k in case), run_case)(world, case))
        except ProverRLError:
            # A follower that was told to compare, and found a difference.
            world.share(None)
            found.append({})
    if world.leads:
        torch.save(found, out)
    close_world(world)


if __name__ == "__main__":
    run_to_the_end(lambda: main(Path(sys.argv[1]), json.loads(sys.argv[2])))
