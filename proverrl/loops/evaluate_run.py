"""Evaluation of a run's policy, as a stage of training or by itself.

Flows in: a ``Config``, and what is to be evaluated. Flows out: ``evals/NAME.json`` and
``evals/NAME.jsonl`` in the run folder. Interrupted, the same call goes on.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from proverrl.benchmarks.dafny_strip import DAFNY_4
from proverrl.benchmarks.open import Benchmark, open_benchmark
from proverrl.checkpoint import latest_checkpoint
from proverrl.config import Config
from proverrl.errors import RunError, UsageError
from proverrl.evaluate import Evaluation, evaluate
from proverrl.loops.session import RESOLVED_FILE, lock_run, write_resolved
from proverrl.monitor.display import LiveDisplay, PlainDisplay, can_draw_live
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.engines import open_sampler
from proverrl.policy.transformers import TransformersPolicy, choose_device, load_policy
from proverrl.types import Problem
from proverrl.verify.cache import CachedVerifier
from proverrl.verify.make import open_configured


def load_benchmark(config: Config, benchmark: str | None) -> Benchmark:
    """What is evaluated on: ``benchmark`` (a name, a path, ``hf:ID``), or the configured split."""
    return open_benchmark(benchmark or str(getattr(config.problems, config.evaluation.split)))


def build_evaluation(
    config: Config,
    name: str,
    *,
    policy: Policy,
    verifier: CachedVerifier,
    benchmark: Benchmark,
    split: str = "",
) -> Evaluation:
    """What ``config.evaluation`` asks for, on ``benchmark``; ``split`` names the configured split
    that it is, if it is one."""
    settings = config.evaluation
    most = settings.max_problems
    return Evaluation(
        name=name,
        folder=config.run / "evals",
        problems=benchmark.problems[:most] if most else benchmark.problems,
        samples=max(settings.samples, *settings.ks),
        ks=settings.ks,
        temperature=settings.temperature,
        max_new_tokens=config.sampling.max_new_tokens,
        seed=config.seed,
        deadline_seconds=config.pool.deadline_seconds,
        labels={
            "split": split,
            "benchmark": benchmark.place,
            "benchmark_sha256": benchmark.sha256,
            "benchmark_layout": benchmark.layout,
            "benchmark_refused": len(benchmark.refused),
            "toolchain": verifier.toolchain,
            "policy": policy.engine,
            "mode": config.rollout.mode,
        },
        rollout=config.rollout,
    )


def warn_of_dialect(benchmark: Benchmark, toolchain: str) -> str:
    """What to say when problems are written for a Dafny that this is not; else empty."""
    newer = sum(p.metadata.get("dialect") == DAFNY_4 for p in benchmark.problems)
    if not newer or not toolchain.startswith("dafny 2."):
        return ""
    return f"{newer} problems are written for Dafny 4; none of them can be proved by {toolchain}"


async def evaluate_run(
    config: Config, *, from_run: Path | None, benchmark: str | None, name: str
) -> Path:
    """Evaluate ``from_run``'s policy, or ``policy.path``; returns the folder with the results.

    Raises:
        UsageError: nothing to evaluate, or the name is taken by another evaluation.
        RunError: the run has no weights yet.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    trained = open_policy(config, from_run)
    display = (LiveDisplay if can_draw_live() else PlainDisplay)(sys.stdout, time.monotonic)
    found = load_benchmark(config, benchmark)
    with lock_run(config.run), _open_sampling(trained, config, found.problems) as policy:
        verifier = open_configured(config.pool, seed=config.seed, problems=found.problems)
        try:
            if not (config.run / RESOLVED_FILE).exists():
                write_resolved(
                    config.run, config, toolchain=verifier.toolchain, engine=policy.engine
                )
            evaluation = build_evaluation(
                config,
                name,
                policy=policy,
                verifier=verifier,
                benchmark=found,
                split=config.evaluation.split if benchmark is None else "",
            )
            if (evaluation.folder / f"{name}.json").exists():
                raise UsageError(
                    f"{evaluation.folder / name}.json exists; give another --name, or delete it"
                )
            display.show_phase("benchmark", f"{found.place}: {found.summary}")
            if warning := warn_of_dialect(found, verifier.toolchain):
                display.show_phase("warning", warning)
            display.show_phase("policy", policy.engine)
            display.show_phase("verifier", f"{verifier.backend}: {verifier.toolchain}")
            await evaluate(
                evaluation,
                policy,
                verifier,
                progress=lambda done, total, proved: display.show_phase(
                    f"evaluation {name}", f"{done}/{total} attempts, {proved} proved"
                ),
            )
        finally:
            display.close()
            await verifier.aclose()
    return config.run


@contextlib.contextmanager
def _open_sampling(
    policy: TransformersPolicy | EndpointPolicy, config: Config, problems: list[Problem]
) -> Iterator[Policy]:
    """What writes the completions: the server, or the engine that ``policy.engine`` names."""
    if isinstance(policy, EndpointPolicy):
        yield policy
        return
    with contextlib.closing(open_sampler(policy, config, problems)) as sampler:
        yield sampler


def open_policy(config: Config, from_run: Path | None) -> TransformersPolicy | EndpointPolicy:
    """The policy behind ``endpoint.url`` where there is one, else a model in this process.

    Raises:
        UsageError: nothing to evaluate, or both a run and an endpoint.
    """
    if not config.endpoint.url:
        device = choose_device(config.policy.device)
        weights = find_policy(config, from_run)
        precision = config.learner.precision
        return load_policy(weights, config.policy, device=device, precision=precision)
    if from_run is not None:
        raise UsageError(
            "both --run and endpoint.url name a policy; give a configuration file for the "
            "endpoint, or unset endpoint.url"
        )
    return EndpointPolicy(config.endpoint, layout=config.policy.layout)


def find_policy(config: Config, from_run: Path | None) -> Path | str:
    """A run's final policy, else its newest checkpoint; without a run, ``policy.path``.

    Raises:
        RunError: the run has no weights yet.
        UsageError: neither a run nor ``policy.path`` is given.
    """
    if from_run is None:
        if not config.policy.path:
            raise UsageError(
                "nothing to evaluate: give --run RUN, or set policy.path to a Hugging Face folder"
            )
        return config.policy.path
    return find_weights(from_run)


def find_weights(run: Path) -> Path:
    """A run's final policy, else its newest checkpoint, else its warm start.

    Raises:
        RunError: the run has no weights yet.
    """
    final = run / "policy"
    checkpoint = latest_checkpoint(run / "checkpoints")
    warm = run / "warm_start"
    if (final / "config.json").exists():
        return final
    if checkpoint is not None:
        return checkpoint / "policy"
    if (warm / "weights.pt").exists():
        return warm / "policy"
    raise RunError(f"{run} holds no weights yet: neither policy/ nor checkpoints/")
