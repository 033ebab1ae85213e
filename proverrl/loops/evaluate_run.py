"""Evaluation of a run's policy, as a stage of training or by itself.

Flows in: a ``Config``, and what is to be evaluated. Flows out: ``evals/NAME.json`` and
``evals/NAME.jsonl`` in the run folder. Interrupted, the same call continues.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from proverrl import __version__
from proverrl.benchmarks.open import Benchmark, open_benchmark
from proverrl.config import Config
from proverrl.errors import RunError, UsageError
from proverrl.evaluation.evaluate import Evaluation, Standing, evaluate
from proverrl.lang.dafny.strip import DAFNY_4
from proverrl.lang.open import open_configured
from proverrl.loops.checkpoint import latest_checkpoint
from proverrl.loops.evaluate_search import evaluate_searches
from proverrl.loops.session import RESOLVED_FILE, lock_run, write_resolved
from proverrl.monitor.display import LiveDisplay, PlainDisplay, can_draw_live
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.engines import open_sampler
from proverrl.policy.loading import choose_device, load_policy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.policy.weights import name_weights
from proverrl.problems.contamination import check_problems, describe_overlap
from proverrl.search.wiring import Tools, make_tools, needs_traces, open_confirm, open_value
from proverrl.types import Problem, Sampling
from proverrl.verify.cache import CachedVerifier


def load_benchmark(config: Config, benchmark: str | None) -> Benchmark:
    """What is evaluated on: ``benchmark`` (a name, a path, ``hf:ID``), or the configured split."""
    return open_benchmark(benchmark or str(getattr(config.problems, config.evaluation.split)))


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
    problems = benchmark.problems[:most] if most else benchmark.problems
    mode = "mixed" if settings.mixed else "search" if settings.search else config.rollout.mode
    return Evaluation(
        name=name,
        folder=config.run / "evals",
        problems=problems,
        samples=max(settings.samples, *settings.ks),
        ks=settings.ks,
        temperature=settings.temperature,
        max_new_tokens=config.sampling.max_new_tokens,
        seed=config.seed,
        deadline_seconds=config.pool.deadline_seconds,
        labels={
            "split": split,
            "benchmark": benchmark.place,
            "benchmark_layout": benchmark.layout,
            "benchmark_refused": len(benchmark.refused),
            "policy": policy.engine,
            "proverrl_version": __version__,
        },
        top_p=settings.top_p,
        rollout=config.rollout,
        settings={
            "benchmark_sha256": benchmark.sha256,
            "num_problems": len(problems),
            "policy_sha256": name_weights(policy),
            "layout": policy.layout,
            "mode": mode,
            "rollout": (
                {} if mode == "whole_proof" else config.rollout.model_dump(exclude={"mode"})
            ),
            **({"search": config.search.model_dump(mode="json")} if mode == "search" else {}),
            "temperature": settings.temperature,
            # Left out where it does nothing, so that evaluations of earlier versions go on.
            **({"top_p": settings.top_p} if settings.top_p < 1.0 else {}),
            "max_new_tokens": config.sampling.max_new_tokens,
            "seed": config.seed,
            "toolchain": verifier.toolchain,
            "rlimit": config.pool.rlimit,
            "deadline_seconds": config.pool.deadline_seconds,
        },
        mixed=settings.mixed,
        prices=(config.endpoint.prompt_price, config.endpoint.completion_price),
    )


def warn_of_dialect(benchmark: Benchmark, toolchain: str) -> str:
    """What to say when problems are written for a Dafny that this is not; else empty."""
    newer = sum(p.metadata.get("dialect") == DAFNY_4 for p in benchmark.problems)
    if not newer or not toolchain.startswith("dafny 2."):
        return ""
    return f"{newer} problems are written for Dafny 4; none of them can be proved by {toolchain}"


def collect_figures(
    evaluation: Evaluation, verifier: CachedVerifier, training: Path | None
) -> Callable[[], dict[str, Any]]:
    """What a summary says besides its estimates: how many canaries were refused while it was made
    (one that is accepted ends it), and what of the training problems the benchmark shares; None
    where there is no file of training problems."""
    before = _count_canaries(verifier)
    known = training is not None and training.is_file()
    overlap = check_problems(evaluation.problems, training) if training and known else None

    def collect() -> dict[str, Any]:
        return {
            "canaries": {"refused": _count_canaries(verifier) - before},
            "contamination": overlap,
        }

    return collect


def _count_canaries(verifier: CachedVerifier) -> int:
    stats = verifier.stats()
    return 0 if stats is None else stats.canaries


async def evaluate_run(
    config: Config, *, from_run: Path | None, benchmark: str | None, name: str
) -> Path:
    """``evaluate_benchmarks`` on one benchmark; returns the folder with the results."""
    await evaluate_benchmarks(config, from_run=from_run, benchmarks={name: benchmark})
    return config.run


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
                training = config.problems.train if from_run is not None else None
                await _evaluate_one(evaluation, policy, tools, verifier, display, training, config)
        finally:
            display.close()
            if tools is not None:
                await tools.confirm.aclose()
            await verifier.aclose()
    return [config.run / "evals" / f"{name}.json" for name in benchmarks]


async def _evaluate_one(
    evaluation: Evaluation,
    policy: Policy,
    tools: Tools | None,
    verifier: CachedVerifier,
    display: LiveDisplay | PlainDisplay,
    training: Path | None,
    config: Config,
) -> None:
    """By searches where there are tools for them; warns of training problems in the benchmark."""
    figures = collect_figures(evaluation, verifier, training)
    if warning := describe_overlap(figures()["contamination"]):
        display.show_warning("contamination", warning)
    if tools is None:
        run, unit = partial(evaluate, evaluation, policy, verifier), "attempts"
    else:
        search, searches = config.search, config.evaluation.searches
        display.show_phase("search", f"{search.name}, {search.calls} calls per problem")
        run = partial(evaluate_searches, evaluation, tools, search, searches=searches)
        unit = "searches"

    def show(standing: Standing) -> None:
        display.show_phase(f"evaluation {evaluation.name}", standing.describe(unit))
        for kind, text in standing.warnings.items():
            display.show_warning(kind, text)

    await run(progress=show, figures=figures)


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
    return make_tools(
        policy,
        verifier,
        open_confirm(config.pool),
        sampling=Sampling(
            temperature=settings.temperature, max_new_tokens=config.sampling.max_new_tokens
        ),
        rollout=config.rollout,
        deadline_seconds=config.pool.deadline_seconds,
        value=open_value(policy, config.search.value) if config.search.value else None,
        step=config.search.step,
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
