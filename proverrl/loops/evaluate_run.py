"""Evaluation by itself: of a run's policy, another checkpoint or a server.

Flows in: a ``Config``, and what is to be evaluated. Flows out: ``evals/NAME.json`` and
``evals/NAME.jsonl`` in the run folder. Interrupted, the same call continues.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from proverrl.benchmarks.open import Benchmark
from proverrl.config import Config
from proverrl.errors import RunError, UsageError
from proverrl.lang import find_language
from proverrl.lang.open import open_configured
from proverrl.loops.checkpoint import latest_checkpoint
from proverrl.loops.evaluation import build_evaluation, evaluate_one, load_benchmark
from proverrl.loops.run_folder import RESOLVED_FILE, lock_run, write_resolved
from proverrl.monitor.display import LiveDisplay, PlainDisplay, can_draw_live
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.engines import open_sampler
from proverrl.policy.loading import choose_device, load_policy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.search.proposals import PROPOSERS, Corrector
from proverrl.search.wiring import Tools, needs_traces, open_confirm, open_value
from proverrl.types import Problem, Sampling
from proverrl.verify.cache import CachedVerifier


def name_benchmarks(config: Config, name: str, given: Sequence[str]) -> dict[str, str | None]:
    """The benchmarks to evaluate on, by the names of their results: those that were given, else
    ``evaluation.benchmarks``, else the configured split. Of several each result is named after
    its source too.

    Raises:
        UsageError: two sources would give one name.
    """
    chosen = list(given) or list(config.evaluation.benchmarks)
    if not chosen:
        return {name: None}
    if len(chosen) == 1:
        return {name: chosen[0]}
    named: dict[str, str | None] = {}
    stems = [_stem(source) for source in chosen]
    for source, stem in zip(chosen, stems, strict=True):
        # lean/benchmark.jsonl and dafny/benchmark.jsonl are told apart by their folders.
        twice = stems.count(stem) > 1
        key = f"{name}-{Path(source).parent.name}-{stem}" if twice else f"{name}-{stem}"
        if key in named:
            raise UsageError(
                f"two benchmarks would both be stored as {key}: {named[key]}, {source}"
            )
        named[key] = source
    return named


def _stem(source: str) -> str:
    """What of a source stands in the name of a file."""
    path = Path(source)
    stem = path.stem if path.suffix in (".jsonl", ".json", ".parquet") else source
    return re.sub(r"[^\w.-]+", "_", Path(stem).name if path.exists() else stem)


def warn_of_dialect(benchmark: Benchmark, toolchain: str) -> str:
    """What to say when problems are written for a Dafny that this is not; else empty."""
    languages = {problem.language for problem in benchmark.problems}
    said = (find_language(name).find_misfit(benchmark.problems, toolchain) for name in languages)
    return "; ".join(filter(None, said))


async def evaluate_benchmarks(
    config: Config, *, from_run: Path | None, benchmarks: Mapping[str, str | None]
) -> list[Path]:
    """Evaluate ``from_run``'s policy, or ``policy.path``, on each benchmark (None: the configured
    split); returns the result files, named by the keys.

    Raises:
        UsageError: nothing to evaluate, or a name is taken by an evaluation with other settings.
        RunError: the run has no weights yet.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    trained = open_policy(config, from_run)
    display = (LiveDisplay if can_draw_live() else PlainDisplay)(sys.stdout, time.monotonic)
    found = {name: load_benchmark(config, source) for name, source in benchmarks.items()}
    everything = list(itertools.chain.from_iterable(each.problems for each in found.values()))
    with lock_run(config.run), open_sampling(trained, config, everything) as policy:
        verifier = open_configured(
            config.pool,
            seed=config.seed,
            problems=everything,
            trace_states=config.evaluation.search and needs_traces(everything, config.search),
        )
        tools = open_tools(policy, verifier, config) if config.evaluation.search else None
        try:
            if not (config.run / RESOLVED_FILE).exists():
                write_resolved(
                    config.run, config, toolchain=verifier.toolchain, engine=policy.engine
                )
            display.show_phase("policy", policy.engine)
            display.show_phase("verifier", f"{verifier.backend}: {verifier.toolchain}")
            for name, benchmark in found.items():
                display.show_phase("benchmark", f"{benchmark.place}: {benchmark.summary}")
                if warning := warn_of_dialect(benchmark, verifier.toolchain):
                    display.show_warning("dialect", warning)
                evaluation = build_evaluation(
                    config,
                    name,
                    policy=policy,
                    verifier=verifier,
                    benchmark=benchmark,
                    split=config.evaluation.split if benchmarks[name] is None else "",
                )
                await evaluate_one(
                    evaluation,
                    policy,
                    verifier,
                    config.problems.train if from_run is not None else None,
                    show=display.show_phase,
                    warn=display.show_warning,
                    search=None if tools is None else (tools, config),
                )
        finally:
            display.close()
            if tools is not None:
                await tools.confirm.aclose()
            await verifier.aclose()
    return [config.run / "evals" / f"{name}.json" for name in benchmarks]


def open_tools(policy: Policy, verifier: CachedVerifier, config: Config) -> Tools:
    """What searches share, as ``config`` says; whoever opens them closes ``confirm``.

    Raises:
        UsageError: ``search.value`` holds no value model for the policy, or ``evaluation.top_p``
            would leave a search without log-probabilities.
    """
    settings = config.evaluation
    if settings.top_p < 1.0:
        raise UsageError(
            f"evaluation.top_p is {settings.top_p}, and searches compare log-probabilities of the "
            "whole distribution; give --set evaluation.top_p=1"
        )
    sampling = Sampling(
        temperature=settings.temperature, max_new_tokens=config.sampling.max_new_tokens
    )
    return Tools(
        propose=PROPOSERS[config.search.step](policy, sampling),
        correct=Corrector(policy, sampling, config.rollout),
        verifier=verifier,
        confirm=open_confirm(config.pool),
        deadline_seconds=config.pool.deadline_seconds,
        value=open_value(policy, config.search.value) if config.search.value else None,
    )


@contextlib.contextmanager
def open_sampling(
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
