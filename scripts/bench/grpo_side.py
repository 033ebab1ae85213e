"""One side of ``python -m scripts.bench grpo``, in a process of its own.

Flows in: the work as JSON. Flows out: a file of each process, ``out-RANK.json``, with what a step
costs it. Run as ``python -m scripts.bench.grpo_side SIDE ORDER``, by torchrun for several; side
``model`` makes the checkpoint of both.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from proverrl.config import LearnerConfig, LoraConfig, PolicyConfig, VllmConfig
from proverrl.learner.learner import TorchLearner
from proverrl.parallel import close_world, open_world, prepare_process
from proverrl.policy.engines import ENGINES
from proverrl.policy.loading import build_policy, choose_device, load_policy, train_tokenizer
from proverrl.policy.lora import attach_adapter
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.samples import TrainingSample
from proverrl.run.follow import Follower, dismiss, start_learners
from proverrl.types import Completion, Problem, Prompt, Sampling
from scripts.bench.grpo import SIDES, StepCost, Work

_TEXTS = tuple(
    f"method M{n}(a: array<int>, k: nat) returns (r: int)\n  requires k <= a.Length\n"
    f"  ensures r == {n} * k\n{{\n  r := 0;\n  var i := 0;\n  while i < k\n    /*{{HOLE}}*/\n  "
    f"{{\n    r := r + {n};\n    i := i + 1;\n  }}\n}}\n"
    for n in range(64)
)


class Clock:
    """Wall and processor time of each step; ``mark`` ends one."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float, int]] = []
        self._last = (time.perf_counter(), time.process_time())

    def mark(self, num_tokens: int) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = (time.perf_counter(), time.process_time())
        self.steps.append((now[0] - self._last[0], now[1] - self._last[1], num_tokens))
        self._last = now

    def cost(self, side: str, device: str) -> StepCost:
        """Medians over all steps but the first, which warms up."""
        steps = self.steps[1:]
        seconds = statistics.median(step[0] for step in steps)
        tokens = statistics.median(step[2] for step in steps)
        if device == "cuda":
            peak = torch.cuda.max_memory_allocated() / 1e6
        else:
            # Kilobytes of 1,024 bytes on Linux.
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        return StepCost(
            side=side,
            seconds=seconds,
            cpu_seconds=statistics.median(step[1] for step in steps),
            tokens=tokens,
            tokens_per_second=tokens / seconds,
            peak_mb=peak,
        )


def run_proverrl(work: Work, folder: Path) -> StepCost:
    """Generation, rewards, advantages and one update of this package, ``steps`` times."""
    prepare_process(work.threads)
    policy = load_policy(
        folder,
        PolicyConfig(max_rows=512),
        device=choose_device(work.device),
        precision=work.precision,
    )
    if work.lora_rank:
        lora = LoraConfig(rank=work.lora_rank, alpha=2.0 * work.lora_rank)
        attach_adapter(policy.model, lora, seed=work.seed)
    policy.world = world = open_world()
    vllm = VllmConfig(eager=work.device == "cpu")
    problems = [_make_problem(text) for text in _TEXTS]
    sampler = ENGINES[work.engine](policy, vllm, problems)

    def open_learner() -> TorchLearner:
        limit = _padded_tokens(policy, work) // world.size
        config = LearnerConfig(
            learning_rate=work.learning_rate,
            micro_batch_tokens=limit,
            precision=work.precision,
            gradient_checkpointing=False,
        )
        return TorchLearner(policy.model, config, temperature=1.0, world=world)

    clock = Clock()
    if not world.leads:
        follower = Follower(world, policy, open_learner, sampler)
        update = follower.orders["step"]

        def marked_update(*what: Any) -> None:
            update(*what)
            # Rank 0 counts the tokens of all.
            clock.mark(0)

        follower.orders["step"] = marked_update
        follower.run()
        close_world(world)
        return clock.cost("proverrl", work.device)
    start_learners(world, None)
    learner = open_learner()
    prompts = _make_prompts(policy, work)
    for step in range(work.steps):
        sampling = Sampling(max_new_tokens=work.max_new_tokens, seed=work.seed + step)
        groups = asyncio.run(sampler.generate(prompts, n=work.group_size, sampling=sampling))
        samples = [
            make_sample(completion, 0.5 if index % 2 == 0 else -0.5)
            for group in groups
            for index, completion in enumerate(group)
        ]
        learner.step(samples)
        sampler.push(learner.version)
        clock.mark(sum(len(c.token_ids) for group in groups for c in group))
    dismiss(world)
    sampler.close()
    close_world(world)
    return clock.cost("proverrl", work.device)


def run_trl(work: Work, folder: Path) -> StepCost:
    """TRL's trainer on the same checkpoint and prompts."""
    import datasets
    import transformers
    from trl import GRPOConfig, GRPOTrainer

    clock = Clock()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lengths: list[int] = []

    def reward(completion_ids: list[list[int]], **_: object) -> list[float]:
        lengths.append(sum(len(ids) for ids in completion_ids))
        return [float(index % 2 == 0) for index in range(len(completion_ids))]

    class Marks(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.mark(lengths[-1])

    adapter = None
    if work.lora_rank:
        import peft

        adapter = peft.LoraConfig(
            r=work.lora_rank,
            lora_alpha=2 * work.lora_rank,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        )
    rows = work.prompts * work.group_size
    uses_vllm = work.engine == "vllm"
    trainer = GRPOTrainer(
        model=str(folder),
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=str(folder / "trl"),
            per_device_train_batch_size=min(rows, work.micro_batch) // work.processes,
            gradient_accumulation_steps=max(1, rows // work.micro_batch),
            num_generations=work.group_size,
            max_completion_length=work.max_new_tokens,
            max_steps=work.steps,
            learning_rate=work.learning_rate,
            beta=0.0,
            temperature=1.0,
            seed=work.seed,
            bf16=work.precision == "bf16",
            use_cpu=work.device == "cpu",
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": {"fp32": "float32", "bf16": "bfloat16"}[work.precision]},
            report_to=[],
            logging_steps=1000,
            save_strategy="no",
            use_vllm=uses_vllm,
            **({"vllm_mode": "colocate"} if uses_vllm else {}),
            disable_tqdm=True,
        ),
        train_dataset=datasets.Dataset.from_dict(
            {"prompt": [_TEXTS[n % len(_TEXTS)] for n in range(work.prompts * work.steps)]}
        ),
        processing_class=tokenizer,
        callbacks=[Marks()],
        peft_config=adapter,
    )
    trainer.train()
    return clock.cost("trl", work.device)


def make_model(folder: Path, work: Work) -> None:
    """A fresh model of the demo's size with its tokenizer, saved for both sides."""
    tokenizer = train_tokenizer(list(_TEXTS), vocab_size=576)
    policy = build_policy(PolicyConfig(), tokenizer, seed=work.seed, device="cpu")
    if work.vocab_size:
        # Ids above the tokenizer's have no text, which neither side reads.
        policy.model.resize_token_embeddings(work.vocab_size)
    policy.save(folder)


def _make_problem(text: str) -> Problem:
    return Problem("bench", "dafny", "invariants", preamble="", statement=text)


def _make_prompts(policy: TransformersPolicy, work: Work) -> list[Prompt]:
    prompts = []
    for number in range(work.prompts):
        text = _TEXTS[number % len(_TEXTS)]
        ids = policy.tokenizer(text, add_special_tokens=True)["input_ids"]
        prompts.append(Prompt(f"p{number}", text, tuple(ids)))
    return prompts


def _padded_tokens(policy: TransformersPolicy, work: Work) -> int:
    longest = max(len(prompt.token_ids) for prompt in _make_prompts(policy, work))
    return work.micro_batch * (longest + work.max_new_tokens)


def make_sample(completion: Completion, advantage: float) -> TrainingSample:
    """What is learned from a completion whose every token has this advantage."""
    before, new = len(completion.prompt_ids), len(completion.token_ids)
    return TrainingSample(
        rollout_id="bench",
        policy_version=completion.policy_version,
        prompt_length=before,
        token_ids=completion.prompt_ids + completion.token_ids,
        loss_mask=(0,) * before + (1,) * new,
        logprobs=(0.0,) * before + completion.logprobs,
        advantages=(0.0,) * before + (advantage,) * new,
    )


def main(side: str, order: str) -> None:
    """Do this process's share of one side's work and write what it cost."""
    given = json.loads(order)
    work = Work(**given["work"])
    torch.set_num_threads(work.threads)
    folder = Path(given["model"])
    if side == "model":
        make_model(folder, work)
        return
    run: dict[str, Callable[[Work, Path], StepCost]] = {"proverrl": run_proverrl, "trl": run_trl}
    assert set(run) == set(SIDES)
    cost = run[side](work, folder)
    out = Path(given["folder"]) / f"out-{os.environ.get('RANK', '0')}.json"
    out.write_text(json.dumps(asdict(cost)))


if __name__ == "__main__":
    main(*sys.argv[1:])
