"""Evaluation by itself: of a run's policy, a checkpoint, a server, averages of two policies.

Flows in: a ``Config``, and what is to be evaluated. Flows out: ``evals/NAME.json`` and
``evals/NAME.jsonl`` in the run folder. Interrupted, the same call continues.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path

from proverrl import plugins
from proverrl.benchmarks.open import Benchmark
from proverrl.config import Config
from proverrl.errors import RunError, UsageError
from proverrl.evaluation.evaluate import Evaluation
from proverrl.files.lines import RESOLVED_FILE, make_file_name
from proverrl.lang import add_languages, find_language
from proverrl.lang.open import open_configured
from proverrl.learner.memory import settle_cache
from proverrl.monitor.console import can_draw_live
from proverrl.monitor.display import LiveDisplay, PlainDisplay
from proverrl.parallel import prepare_process
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.engines import open_sampler
from proverrl.policy.function import FunctionPolicy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.extract import open_mode
from proverrl.run.checkpoint import latest_checkpoint
from proverrl.run.evaluation import build_evaluation, evaluate_one, load_benchmark
from proverrl.run.run_folder import lock_run, settle, write_resolved
from proverrl.run.session import WARM_POLICY, load_before, load_weights
from proverrl.search.proposals import PROPOSERS, Corrector
from proverrl.search.wiring import Tools, needs_traces, open_confirm
from proverrl.types import Problem, Sampling
from proverrl.verifier.cache import CachedVerifier


def name_benchmarks(config: Config, name: str, given: Sequence[str]) -> dict[str, str | None]:
    """The benchmarks to evaluate on, by the names of their results: those that were given, else
    ``evaluation.benchmarks``, else the configured split (None). Of several each result is named
    after its source too. Raises ``UsageError``: two sources would give one name."""
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
    """The part of a source that stands in the name of a file."""
    path = Path(source)
    stem = path.stem if path.suffix in (".jsonl", ".json", ".parquet") else source
    return make_file_name(Path(stem).name if path.exists() else stem)


Afterwards = Callable[[Evaluation, CachedVerifier, Callable[[str, str], None]], Awaitable[None]]
"""A use of an evaluation's attempts while its verifier is open; the last argument shows
how far that is."""


async def evaluate_benchmarks(
    config: Config,
    *,
    from_run: Path | None,
    benchmarks: Mapping[str, str | None],
    prepare: Callable[[Benchmark], Benchmark] = lambda benchmark: benchmark,
    afterwards: Afterwards | None = None,
    policy: Policy | None = None,
) -> list[Path]:
    """Evaluate ``policy``, else that of ``from_run`` or ``policy.path``, on each benchmark (None:
    the configured split), as ``prepare`` gives it; returns the result files, named by the keys.
    Raises ``UsageError``: nothing to evaluate, or a name is taken by an evaluation with other
    settings; ``RunError``: the run has no weights yet."""
    config = settle(config)
    searches = config.evaluation.search
    if searches and config.search.stop_after > 1:
        raise UsageError(
            "an evaluation counts what a search spends until its first proof; set "
            "search.stop_after to 1"
        )
    trained = policy or open_policy(config, from_run)
    mode = open_mode(config)
    display = (LiveDisplay if can_draw_live() else PlainDisplay)(sys.stdout, time.monotonic)
    found = {name: prepare(load_benchmark(config, src)) for name, src in benchmarks.items()}
    everything = list(itertools.chain.from_iterable(each.problems for each in found.values()))
    with lock_run(config.run), contextlib.closing(display):
        async with open_prover(trained, config, everything, searches=searches) as prover:
            writing, verifier, tools = prover
            if not (config.run / RESOLVED_FILE).exists():
                write_resolved(
                    config.run, config, toolchain=verifier.toolchain, engine=writing.engine
                )
            display.show_phase("policy", writing.engine)
            if mode.engine:
                display.show_phase("rollouts", mode.engine)
            display.show_phase("verifier", verifier.described)
            for name, benchmark in found.items():
                display.show_phase("benchmark", f"{benchmark.place}: {benchmark.summary}")
                languages = {problem.language for problem in benchmark.problems}
                misfits = (
                    find_language(name).find_misfit(benchmark.problems, verifier.toolchain)
                    for name in languages
                )
                if warning := "; ".join(filter(None, misfits)):
                    display.show_warning("dialect", warning)
                evaluation = build_evaluation(
                    config,
                    name,
                    policy=writing,
                    verifier=verifier,
                    benchmark=benchmark,
                    split=config.evaluation.split if benchmarks[name] is None else "",
                    answers=mode,
                )
                await evaluate_one(
                    evaluation,
                    writing,
                    verifier,
                    config.problems.train if from_run is not None else None,
                    show=display.show_phase,
                    warn=display.show_warning,
                    search=None if tools is None else (tools, config),
                )
                if afterwards is not None:
                    await afterwards(evaluation, verifier, display.show_phase)
    return [config.run / "evals" / f"{name}.json" for name in benchmarks]


def open_tools(
    policy: Policy, verifier: CachedVerifier, config: Config, languages: Iterable[str]
) -> Tools:
    """The tools that searches of problems in these languages share; whoever opens them closes
    ``confirm``. Raises ``UsageError``: ``evaluation.top_p`` or ``top_k`` would leave a search
    without log-probabilities of the whole distribution; ``ToolchainError``: as ``open_confirm``."""
    settings = config.evaluation
    if reason := settings.against_search:
        raise UsageError(reason)
    sampling = Sampling(
        temperature=settings.temperature, max_new_tokens=config.sampling.max_new_tokens
    )
    return Tools(
        propose=PROPOSERS[config.search.step](policy, sampling),
        correct=Corrector(policy, sampling, config.rollout),
        verifier=verifier,
        confirm=open_confirm(config, languages),
        deadline_seconds=config.pool.deadline_seconds,
    )


@contextlib.asynccontextmanager
async def open_prover(
    trained: Policy,
    config: Config,
    problems: Sequence[Problem],
    *,
    searches: bool,
) -> AsyncIterator[tuple[Policy, CachedVerifier, Tools | None]]:
    """The policy that writes the completions (the server, the function, or the engine that
    ``policy.engine`` names), the verifier that judges them, and tools where it ``searches``."""
    async with contextlib.AsyncExitStack() as stack:
        policy: Policy = trained
        if isinstance(trained, TransformersPolicy):
            sampler = open_sampler(trained, settle_cache(config, trained), list(problems))
            policy = stack.enter_context(contextlib.closing(sampler))
        verifier = open_configured(
            config,
            seed=config.seed,
            problems=problems,
            trace_states=searches and needs_traces(problems, config.search),
        )
        stack.push_async_callback(verifier.aclose)
        tools = None
        if searches:
            languages = {problem.language for problem in problems}
            tools = open_tools(policy, verifier, config, languages)
            stack.push_async_callback(tools.confirm.aclose)
        yield policy, verifier, tools


OpenedPolicy = TransformersPolicy | EndpointPolicy | FunctionPolicy


def open_policy(config: Config, from_run: Path | None) -> OpenedPolicy:
    """The policy behind an endpoint or the function of somebody's own where there is one, else
    a model in this process, which gets ``threads``. Raises ``UsageError``: nothing to evaluate, two
    policies named, or a plug-in that cannot be used; ``RunError``: as
    ``find_weights``."""
    add_languages(config.languages)
    plugins.check([part for part in config.list_parts() if part[0] in ("search", "policy")])
    if config.policy.is_function:
        if from_run is not None:
            raise UsageError(
                f"policy.engine = {config.policy.engine!r} is a policy by itself: leave out --run"
            )
        return FunctionPolicy(config.policy, load_before(config))
    prepare_process(config.threads)
    path = config.policy.path
    if from_run is not None:
        return load_weights(config, find_weights(from_run))
    if not path:
        raise UsageError(
            "nothing to evaluate: give --run RUN, or set policy.path to a Hugging Face folder or "
            "endpoint:NAME"
        )
    if endpoint := config.find_endpoint(path):
        return EndpointPolicy(endpoint, layout=config.policy.layout, before=load_before(config))
    return load_weights(config, path)


def find_weights(run: Path) -> Path:
    """A run's final policy, else its newest checkpoint, else its warm start. Raises ``RunError``:
    the run has no weights yet."""
    final = run / "policy"
    checkpoint = latest_checkpoint(run / "checkpoints")
    warm = run / WARM_POLICY
    if (final / "config.json").exists():
        return final
    if checkpoint is not None:
        return checkpoint / "policy"
    if warm.exists():
        return warm
    raise RunError(f"{run} holds no weights yet: neither policy/ nor checkpoints/")
