"""The command that says what a run will hold: ``plan``.

Flows in: a configuration. Flows out: a table of memory, and an exit status.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from proverrl.cli.options import AS_JSON, FiniteRange, config_arguments, count_option, read_config

EXIT_TOO_LARGE = 1


@click.command()
@config_arguments
@count_option("--processes", 1, "Processes of the run, each with a device of its own.")
@count_option("--prompt-tokens", 512, "The longest prompt, for the cache of the sampler.")
@click.option(
    "--memory-gib",
    type=FiniteRange(0.1),
    help="Memory of a device, in GiB.  [this machine's GPU, if any]",
)
@AS_JSON
def plan(
    config_file: Path | None,
    overrides: tuple[str, ...],
    processes: int,
    prompt_tokens: int,
    memory_gib: float | None,
    as_json: bool,
) -> None:
    """Say what GRPO by CONFIG_FILE will hold on each device, before anything is loaded.

    Exit status 1: more than the device has. An estimate: what CUDA and fragments take is not in
    it.
    """
    import torch

    from proverrl.learner.memory import GIB, choose_cache_gb, plan_memory
    from proverrl.run.run_folder import settle

    config = read_config(config_file, None, overrides, ask="give a configuration file")
    config = settle(config)
    found = plan_memory(config, processes=processes, prompt_tokens=prompt_tokens)
    if memory_gib is None and torch.cuda.is_available():
        memory_gib = torch.cuda.get_device_properties(0).total_memory / GIB
    fits = None if memory_gib is None else found.peak <= memory_gib * GIB
    if as_json:
        click.echo(json.dumps({**asdict(found), "peak": found.peak, "fits": fits}))
    else:
        click.echo(
            f"{found.parameters / 1e6:,.1f} M parameters, {found.trained / 1e6:,.1f} M trained"
        )
        learner, engine = config.learner, config.policy.engine
        click.echo(
            f"{learner.optimizer}, {learner.precision}; {learner.micro_batch_tokens:,} tokens a "
            f"micro-batch; prompts of {prompt_tokens:,} tokens, {config.sampling.max_new_tokens:,} "
            f"new ones, {config.policy.max_rows} rows at once, {engine}"
        )
        parts = {"always": found.always, "update": found.update, "sampling": found.sampling}
        parts["warm"] = found.warm_start
        for when, rows in parts.items():
            for name, size in rows.items():
                click.echo(f"{when:9} {name:36} {size / GIB:10.3f} GiB")
        click.echo(f"{'most':9} {'at once, on each device':36} {found.peak / GIB:10.3f} GiB")
        click.echo(
            f"a token takes {found.kv_token / 1024:,.1f} KiB of the sampler's cache, all "
            f"completions of a draw at most {found.kv_draw / GIB:,.3f} GiB"
        )
        if memory_gib is not None:
            click.echo(f"{'left':9} {'of a device':36} {memory_gib - found.peak / GIB:10.3f} GiB")
            if config.policy.engine == "vllm" and not config.vllm.kv_cache_gb and fits:
                total = int(memory_gib * GIB)
                cache = choose_cache_gb(config, found, device_bytes=total)
                click.echo(f"vllm.kv_cache_gb = 0: vLLM's cache gets {cache:.3f} GiB of it")
        if fits is False:
            click.echo(
                "A device is too small: lower learner.micro_batch_tokens, set "
                "learner.gradient_checkpointing or policy.lora.rank, or\n"
                + (
                    "lower vllm.kv_cache_gb, set vllm.sleep or vllm.dtype = 'bfloat16'"
                    if engine == "vllm"
                    else "lower policy.max_rows, or with several processes set "
                    "learner.shard = 'fsdp2' and warm_start.optimizer = 'adamw'"
                )
            )
    if fits is False:
        sys.exit(EXIT_TOO_LARGE)
