"""Compares sampling engines on the same prompts: distance from the learner, and speed.

Flows in: a configuration file, ``--set key=value``. Flows out: a line of JSON per engine and number
of ``--prompts``: tokens per CPU second and per second of generation, and the mean and largest
difference between the sampler's log-probabilities and the learner's, over all sampled tokens. Needs
vLLM (docs/engines.md), unless ``--engine`` asks for others. ``library`` is ``generate`` of
transformers with its own attention and cache, which gives no log-probabilities.

    python scripts/compare_engines.py configs/demo.toml --set policy.hidden_size=128
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.config import Config, EngineName, VllmDtype, load_config
from proverrl.learner.packed_rows import batch_rows, pack_rows, packed_logprobs
from proverrl.policy.decoding import pad_left
from proverrl.policy.engines import open_sampler
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.samples import TrainingSample
from proverrl.run.session import load_training, make_policy
from proverrl.types import Completion, Problem, Prompt, Sampling
from scripts.arguments import at_least

ENGINES: tuple[tuple[EngineName, VllmDtype], ...] = (
    ("transformers", "float32"),
    ("vllm", "float32"),
    ("vllm", "bfloat16"),
)


def main() -> None:
    """Measure each engine ``--rounds`` times; the first generation warms up and is not counted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    names = ["transformers", "vllm", "library"]
    parser.add_argument("--engine", choices=names, nargs="+", help="these, in vllm.dtype")
    parser.add_argument("--prompts", type=at_least(1), nargs="+", default=[16])
    parser.add_argument("--samples", type=at_least(1), default=4)
    parser.add_argument("--rounds", type=at_least(1), default=3)
    arguments = parser.parse_args()
    config = load_config(arguments.config, arguments.overrides)
    torch.set_num_threads(config.threads or torch.get_num_threads())
    problems = load_training(config)
    policy = make_policy(config, problems)
    chosen = [(engine, config.vllm.dtype) for engine in arguments.engine or ()] or ENGINES
    for engine, dtype in chosen:
        if engine == "library":
            sampler: Any = contextlib.closing(Library(policy))
        else:
            changed = config.model_copy(
                update={
                    "policy": config.policy.model_copy(update={"engine": engine}),
                    "vllm": config.vllm.model_copy(update={"dtype": dtype}),
                }
            )
            sampler = contextlib.closing(open_sampler(policy, changed, problems.all))
        for figures in measure(sampler, config, policy, problems.all, arguments):
            print(json.dumps({"engine": engine, "dtype": dtype, **figures}), flush=True)


class Library:
    """``generate`` of transformers, for prompts together as ``policy.max_rows`` allows."""

    def __init__(self, policy: TransformersPolicy) -> None:
        self._policy = policy
        self._attention = policy.model.config._attn_implementation
        policy.model.set_attn_implementation("sdpa")

    def close(self) -> None:
        """Give the model back as it was."""
        self._policy.model.set_attn_implementation(self._attention)

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """See ``Policy.generate``."""
        policy = self._policy
        torch.manual_seed(sampling.seed)
        at_once, written = max(1, policy.max_rows // n), []
        for first in range(0, len(prompts), at_once):
            batch = prompts[first : first + at_once]
            ids, mask = pad_left([p.token_ids for p in batch], policy.end_id, policy.device)
            out = policy.model.generate(
                input_ids=ids,
                attention_mask=mask,
                do_sample=True,
                temperature=sampling.temperature,
                top_k=0,
                top_p=1.0,
                max_new_tokens=sampling.max_new_tokens,
                num_return_sequences=n,
                eos_token_id=list(policy.end_ids),
                pad_token_id=policy.end_id,
            )
            for number, row in enumerate(out[:, ids.shape[1] :].tolist()):
                ends = [place for place, token in enumerate(row) if token in policy.end_ids]
                new = row[: ends[0] + 1] if ends else row
                prompt = batch[number // n].token_ids
                written.append(policy.make_completion(prompt, new, None, stopped=bool(ends)))
        return [written[start : start + n] for start in range(0, len(written), n)]


def measure(
    opened: Any,
    config: Config,
    policy: TransformersPolicy,
    problems: tuple[Problem, ...],
    arguments: argparse.Namespace,
) -> Iterator[dict[str, float]]:
    """One engine's figures for each number of prompts."""
    with opened as sampler:
        for num in arguments.prompts:
            prompts = [policy.prompt(problem) for problem in problems[:num]]
            seconds, cpu_seconds, drawn = 0.0, 0.0, list[Completion]()
            for number in range(arguments.rounds + 1):
                sampling = Sampling(
                    config.sampling.temperature, config.sampling.max_new_tokens, seed=number
                )
                started, cpu_started = time.monotonic(), time.process_time()
                groups = asyncio.run(
                    sampler.generate(prompts, n=arguments.samples, sampling=sampling)
                )
                if number:
                    seconds += time.monotonic() - started
                    cpu_seconds += time.process_time() - cpu_started
                    drawn += [completion for group in groups for completion in group]
            tokens = sum(len(completion.token_ids) for completion in drawn)
            figures = {
                "in_flight": min(len(prompts) * arguments.samples, policy.max_rows),
                "completions": len(prompts) * arguments.samples,
                "tokens": tokens,
                "tokens_per_cpu_second": round(tokens / cpu_seconds, 1),
                "tokens_per_second": round(tokens / seconds, 1),
            }
            if drawn[0].logprobs:
                gaps = compare(policy, drawn, config)
                figures["mean_abs_dlogp"] = float(gaps.mean())
                figures["max_abs_dlogp"] = float(gaps.max())
            yield figures


def compare(
    policy: TransformersPolicy, completions: list[Completion], config: Config
) -> torch.Tensor:
    """|sampler's - learner's log-probability| of every sampled token, in nats."""
    samples = []
    for number, completion in enumerate(completions):
        old, new = completion.prompt_ids, completion.token_ids
        sample = TrainingSample(
            rollout_id=str(number),
            policy_version=completion.policy_version,
            prompt_length=len(old),
            token_ids=old + new,
            loss_mask=(0,) * len(old) + (1,) * len(new),
            logprobs=(0.0,) * len(old) + completion.logprobs,
            advantages=(0.0,) * (len(old) + len(new)),
        )
        samples.append(sample)
    gaps = []
    for rows in batch_rows(pack_rows(samples), config.learner.micro_batch_tokens):
        with torch.no_grad():
            scored, _ = packed_logprobs(policy.model, rows, temperature=config.sampling.temperature)
        held = [v for row in rows for s in row.samples for v in s.logprobs[s.prompt_length :]]
        gaps.append((scored.cpu() - torch.tensor(held)).abs())
    return torch.cat(gaps)


if __name__ == "__main__":
    main()
