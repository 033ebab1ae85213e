"""The evaluation of a configuration, as a stage of training or alone: whole proofs, or searches.

Flows in: a ``Config``, a policy, a verifier, tools of searches. Flows out: ``evals/NAME.json`` and
``evals/NAME.jsonl`` in the run folder. Interrupted, the same call continues. The turns of a search
are its answers in the order of writing, so that it compares with independent samples at equal calls
and tokens. With ``evaluation.searches`` 1 an evaluation repeats bit for bit. Not handled here:
whose weights are evaluated (``jobs.evaluate``), a search that is saved as it runs
(``jobs.search``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from proverrl.benchmarks.open import Benchmark, open_benchmark
from proverrl.concurrency import finish_all
from proverrl.config import Config, SearchConfig
from proverrl.evaluation.evaluate import (
    Evaluation,
    Figures,
    Standing,
    evaluate,
    store_summary,
    take_stock,
)
from proverrl.evaluation.section import note_all
from proverrl.evaluation.store import AttemptStore, find_category
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import take_usage
from proverrl.policy.engines import name_weights
from proverrl.problems.contamination import check_problems, describe_overlap
from proverrl.rollout.extract import PLAIN, Mode
from proverrl.search.base import SearchResult
from proverrl.search.wiring import Tools, make_functions, make_search
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem, Status
from proverrl.verifier.cache import CachedVerifier
from proverrl.version import __version__


def load_benchmark(config: Config, benchmark: str | None) -> Benchmark:
    """The problems to evaluate on: ``benchmark`` (a name, a path, ``hf:ID``), or the configured
    split."""
    return open_benchmark(benchmark or str(getattr(config.problems, config.evaluation.split)))


def build_evaluation(
    config: Config,
    name: str,
    *,
    policy: Policy,
    verifier: CachedVerifier,
    benchmark: Benchmark,
    split: str = "",
    answers: Mode = PLAIN,
) -> Evaluation:
    """The evaluation that ``config.evaluation`` asks for, on ``benchmark``; ``split`` names the
    configured split that it is, if it is one, and ``answers`` is the mode of rollouts."""
    settings = config.evaluation
    most = settings.max_problems
    problems = benchmark.problems[:most] if most else benchmark.problems
    mode = "search" if settings.search else config.rollout.mode
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
            "benchmark_layout": benchmark.format,
            "benchmark_refused": len(benchmark.refused),
            "policy": policy.engine,
            "proverrl_version": __version__,
        },
        top_p=settings.top_p,
        top_k=settings.top_k,
        rollout=config.rollout,
        settings={
            "benchmark_sha256": benchmark.sha256,
            "num_problems": len(problems),
            "policy_sha256": name_weights(policy),
            "layout": policy.layout,
            "mode": mode,
            "rollout": (
                {}
                if mode == "whole_proof"
                else config.rollout.model_dump(exclude={"mode", "options"})
            ),
            **({"search": config.search.model_dump(mode="json")} if mode == "search" else {}),
            **policy.before.describe(),
            **answers.describe(),
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "max_new_tokens": config.sampling.max_new_tokens,
            "seed": config.seed,
            "toolchain": verifier.toolchain,
            "rlimit": config.pool.rlimit,
            "deadline_seconds": config.pool.deadline_seconds,
        },
        prices=endpoint.prices
        if (endpoint := config.find_endpoint(config.policy.path))
        else (0.0, 0.0),
        answers=answers,
    )


def _find_overlap(evaluation: Evaluation, training: Path | None) -> dict[str, Any] | None:
    """The training problems that the benchmark shares; None without a file of them."""
    known = training is not None and training.is_file()
    return check_problems(evaluation.problems, training) if training and known else None


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
    before = _count_canaries(verifier)
    overlap = _find_overlap(evaluation, training)
    if warning := describe_overlap(overlap):
        warn("contamination", warning)

    def figures() -> dict[str, Any]:
        # A canary that is accepted ends the evaluation.
        refused = _count_canaries(verifier) - before
        return {"canaries": {"refused": refused}, "contamination": overlap}

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


async def evaluate_searches(
    evaluation: Evaluation,
    tools: Tools,
    config: SearchConfig,
    *,
    searches: int,
    progress: Callable[[Standing], None] = lambda standing: None,
    figures: Figures = dict,
) -> dict[str, Any]:
    """Search, store, summarise. ``progress`` is told after each search. Raises ``UsageError``:
    searches are stored that were made under another setting; ``RunError``: the folder cannot be
    written."""
    started = time.monotonic()
    store = AttemptStore(evaluation.folder, evaluation.name, evaluation.settings)
    waiting = store.missing_attempts(evaluation.problems, evaluation.samples)
    total = len(store.rows) + len(waiting)
    waiting.reverse()

    def show() -> None:
        progress(take_stock(evaluation, store, total))

    async def work() -> None:
        while waiting:
            problem, number = waiting.pop()
            functions = make_functions(problem, tools, config)
            seed = derive_seed(evaluation.seed, "search", number)
            result = await make_search(problem, functions, config, seed=seed).run()
            store.add([search_row(problem, number, result)], take_usage(tools.propose.policy))
            show()

    show()
    await finish_all([work() for _ in range(min(searches, len(waiting)))])
    return store_summary(
        evaluation, store, lambda rows: {**_sum_up(rows, config), **figures()}, started=started
    )


def search_row(problem: Problem, number: int, result: SearchResult) -> dict[str, Any]:
    """One search as it is stored: the fields of an attempt, and what it spent."""
    best = result.proofs[0] if result.proofs else None
    failed = Status.REJECTED if result.judged else Status.TIMEOUT
    return {
        **note_all(problem, Candidate(problem, best.body) if best else None, None),
        "problem_id": problem.id,
        "level": problem.level,
        "family": problem.family,
        "category": find_category(problem),
        "attempt": number,
        "body": best.body if best else "",
        "completion_text": "",
        "finish_reason": "stop",
        "turns": [
            {
                "candidate": Candidate(problem, turn.body).key if turn.is_call else None,
                "num_tokens": turn.num_tokens,
                "finish_reason": "length" if turn.truncated else "stop",
                **({"reason": turn.reason} if turn.reason else {}),
            }
            for turn in result.turns
        ],
        "status": str(Status.PROVED if best else failed),
        "diagnostics": [],
        "seconds": round(best.verdict.seconds, 4) if best else 0.0,
        "search": {
            "name": result.name,
            "stopped": result.stopped,
            "calls": result.calls,
            "tokens": result.tokens,
            "verifier_seconds": result.verifier_seconds,
            "expansions": result.expansions,
            "nodes": result.curve[-1].nodes if result.curve else 1,
            "confirmations": result.confirmations,
            "refuted": len(result.refuted),
        },
    }


def _sum_up(rows: Sequence[Mapping[str, Any]], config: SearchConfig) -> dict[str, Any]:
    """The spending of all searches; calls are those of the verifier in each search."""
    spent = [row["search"] for row in rows]
    num = max(1, len(spent))
    return {
        "verifier_calls": sum(item["calls"] for item in spent),
        "generated_tokens": sum(item["tokens"] for item in spent),
        "search_calls": config.calls,
        "search_spent": {
            "mean_calls": round(sum(item["calls"] for item in spent) / num, 2),
            "mean_nodes": round(sum(item["nodes"] for item in spent) / num, 2),
            "confirmations": sum(item["confirmations"] for item in spent),
            "refuted": sum(item["refuted"] for item in spent),
        },
    }
