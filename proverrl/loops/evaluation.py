"""What a configuration evaluates, as a stage of training or by itself.

Flows in: a ``Config``, a policy, a verifier. Flows out: ``evals/NAME.json`` and
``evals/NAME.jsonl`` in the run folder. Interrupted, the same call goes on. Not handled here: whose
weights are evaluated (``evaluate_run``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from proverrl import __version__
from proverrl.benchmarks.open import Benchmark, open_benchmark
from proverrl.config import Config
from proverrl.evaluation.evaluate import Evaluation, Standing, evaluate
from proverrl.loops.evaluate_search import evaluate_searches
from proverrl.policy.base import Policy
from proverrl.policy.engines import name_weights
from proverrl.problems.contamination import check_problems, describe_overlap
from proverrl.search.wiring import Tools
from proverrl.verify.cache import CachedVerifier


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


async def evaluate_one(
    evaluation: Evaluation,
    policy: Policy,
    verifier: CachedVerifier,
    training: Path | None,
    *,
    show: Callable[[str, str], None],
    warn: Callable[[str, str], None],
    search: tuple[Tools, Config] | None = None,
) -> None:
    """Evaluate by whole proofs, or by searches where there are tools for them; ``show`` and
    ``warn`` are told how far it is, and of training problems in the benchmark."""
    figures = collect_figures(evaluation, verifier, training)
    if warning := describe_overlap(figures()["contamination"]):
        warn("contamination", warning)

    def progress(standing: Standing) -> None:
        unit = "attempts" if search is None else "searches"
        show(f"evaluation {evaluation.name}", standing.describe(unit))
        for kind, text in standing.warnings.items():
            warn(kind, text)

    if search is None:
        await evaluate(evaluation, policy, verifier, progress=progress, figures=figures)
        return
    tools, config = search
    show("search", f"{config.search.name}, {config.search.calls} calls per problem")
    searches = config.evaluation.searches
    await evaluate_searches(
        evaluation, tools, config.search, searches=searches, progress=progress, figures=figures
    )
