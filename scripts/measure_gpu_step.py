"""What a step of a public architecture costs on a GPU: writing, learning, the push into vLLM.

Usage: python -m scripts.measure_gpu_step [SHAPE [KEY=VALUE...]]

SHAPE is a name of tests/public_shapes.py (``tina``: 1.8 B). Weights are random, and the tokenizer
is a small one beside the shape's whole vocabulary. Settings are those of ``proverrl train`` over
the defaults below; model settings begin with ``shape.`` (``shape.hidden_size=256``). Each step
writes ``grpo.groups_per_draw`` times ``grpo.group_size`` completions of ``sampling.max_new_tokens``
tokens (random weights hardly ever end one), learns from all of them, and pushes the weights, which
compares both engines. It prints seconds, tokens a second, and on a GPU the most that torch held,
vLLM's part included, beside what ``proverrl plan`` says.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from itertools import pairwise

import torch
from transformers import AutoModelForCausalLM

from proverrl.config import Config, load_config
from proverrl.learner.learner import TorchLearner
from proverrl.learner.memory import GIB, plan_memory, settle_cache
from proverrl.policy.base import SharedSampler
from proverrl.policy.engines import open_sampler
from proverrl.policy.loading import DTYPES, choose_device, choose_precision, train_tokenizer
from proverrl.policy.lora import attach_adapter
from proverrl.policy.transformers import TransformersPolicy
from proverrl.types import Problem, Prompt, Sampling
from scripts.bench.grpo_side import make_sample
from tests.public_shapes import SHAPES

STEPS = 3
DEFAULTS = (
    "policy.engine=vllm",
    "policy.max_rows=256",
    "vllm.dtype=bfloat16",
    "learner.precision=bf16",
    "learner.optimizer=adamw",
    "learner.learning_rate=1e-6",
    "learner.gradient_checkpointing=true",
    "learner.micro_batch_tokens=16384",
    "grpo.groups_per_draw=16",
    "grpo.group_size=16",
    "sampling.max_new_tokens=1024",
    "sampling.temperature=1.0",
)
STATEMENT = "method M{0}(k: nat) returns (r: int)\n  ensures r == {0} * k\n{{\n  /*{{HOLE}}*/\n}}\n"


def main(name: str, arguments: list[str]) -> None:
    """Time ``STEPS`` steps of the shape ``name``."""
    if name not in SHAPES:
        sys.exit(f"no shape is called {name}; they are {', '.join(SHAPES)}")
    shape = SHAPES[name]
    settings = [one for one in arguments if not one.startswith("shape.")]
    for one in arguments:
        if one.startswith("shape."):
            key, _, value = one.removeprefix("shape.").partition("=")
            setattr(shape, key, json.loads(value))
    with tempfile.TemporaryDirectory() as place:
        shape.save_pretrained(place)
        config = load_config("demo", [*DEFAULTS, f"policy.path={place}", *settings])
        problems = [
            Problem(f"p{n}", "dafny", "invariants", "", STATEMENT.format(n))
            for n in range(config.grpo.groups_per_draw)
        ]
        policy = make_policy(config, shape, problems)
        begun = time.monotonic()
        config = settle_cache(config, policy)
        plan = plan_memory(config, prompt_tokens=64)
        sampler = open_sampler(policy, config, problems)
    print(f"{plan.parameters / 1e9:.2f} B parameters: {sampler.engine}")
    print(f"sampler opened and weights pushed in {time.monotonic() - begun:.1f} s", flush=True)
    learner = TorchLearner(policy.model, config.learner, temperature=1.0)
    prompts = [policy.prompt(problem) for problem in problems]
    for step in range(STEPS):
        print(run_step(config, sampler, learner, prompts, step), flush=True)
    if torch.cuda.is_available():
        planned = sum(plan.always.values()) + sum(plan.update.values())
        peak = torch.cuda.max_memory_allocated()
        print(f"torch held at most {peak / GIB:.1f} GiB; the plan says {planned / GIB:.1f} GiB")
    sampler.close()


def make_policy(config: Config, shape: object, problems: list[Problem]) -> TransformersPolicy:
    """Random weights of the shape, with the adapter that the settings ask for."""
    device = choose_device(config.policy.device)
    torch.manual_seed(config.seed)
    with torch.device(device):
        dtype = DTYPES[choose_precision(config, device)]
        model = AutoModelForCausalLM.from_config(shape, dtype=dtype)  # type: ignore[no-untyped-call]
    policy = TransformersPolicy(
        model,
        train_tokenizer([problem.statement for problem in problems], vocab_size=512),
        layout=config.policy.layout,
        device=device,
        max_rows=config.policy.max_rows,
    )
    if config.policy.lora.rank:
        attach_adapter(model, config.policy.lora, seed=config.seed)
    return policy


def run_step(
    config: Config, sampler: SharedSampler, learner: TorchLearner, prompts: list[Prompt], step: int
) -> str:
    """One draw, one update from all of it, one push; what each took."""
    marks = [time.monotonic()]

    def mark() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        marks.append(time.monotonic())

    sampling = Sampling(max_new_tokens=config.sampling.max_new_tokens, seed=step)
    groups = asyncio.run(sampler.generate(prompts, n=config.grpo.group_size, sampling=sampling))
    mark()
    sampler.sleep()
    learner.step([make_sample(one, 0.5 - n % 2) for group in groups for n, one in enumerate(group)])
    mark()
    figures = sampler.push(learner.version)
    mark()
    written, learned, pushed = (after - before for before, after in pairwise(marks))
    count = sum(len(one.token_ids) for group in groups for one in group)
    return (
        f"step {step + 1}: {count} tokens; written in {written:.1f} s ({count / written:.0f}/s), "
        f"learned in {learned:.1f} s ({count / learned:.0f}/s), pushed in {pushed:.1f} s; {figures}"
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tina", sys.argv[2:])
