"""Evaluation by search: each attempt at a problem is one search.

Flows in: an evaluation, the section ``[search]``, tools. Flows out: ``NAME.jsonl`` with a line a
search as it ends, ``NAME.json`` with the table, as any evaluation. The turns of an attempt are the
answers in the order of writing, so that ``proverrl.evaluation.budgets`` and the report set a search
against independent samples at equal calls and equal tokens. An interrupted evaluation makes no
search again that has ended. ``evaluation.searches`` run side by side, and those that ask for bodies
at the same time are written in one batch; with 1 an evaluation repeats bit for bit. Not handled
here: a single search that is saved while it runs (``proverrl search``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proverrl.concurrency import finish_all
from proverrl.config import SearchConfig
from proverrl.evaluation.evaluate import (
    Evaluation,
    Figures,
    Standing,
    find_category,
    store_summary,
    take_stock,
)
from proverrl.evaluation.store import AttemptStore
from proverrl.policy.endpoint import take_usage
from proverrl.search.base import SearchResult
from proverrl.search.wiring import Tools, make_functions, make_search
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem, Status


async def evaluate_searches(
    evaluation: Evaluation,
    tools: Tools,
    config: SearchConfig,
    *,
    searches: int,
    progress: Callable[[Standing], None] = lambda standing: None,
    figures: Figures = dict,
) -> dict[str, Any]:
    """Search, store, summarise. ``progress`` is told after each search.

    Raises:
        UsageError: searches are stored that were made under another setting.
        RunError: the folder cannot be written.
    """
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
            row = await _search(problem, number, evaluation, tools, config)
            store.add([row], take_usage(tools.propose.policy))
            show()

    show()
    await finish_all([work() for _ in range(min(searches, len(waiting)))])
    return store_summary(
        evaluation, store, lambda rows: {**_sum_up(rows, config), **figures()}, started=started
    )


async def _search(
    problem: Problem, number: int, evaluation: Evaluation, tools: Tools, config: SearchConfig
) -> dict[str, Any]:
    seed = derive_seed(evaluation.seed, "search", number)
    functions = make_functions(problem, tools, config)
    search = make_search(problem, functions, config, seed=seed)
    return search_row(problem, number, await search.run())


def search_row(problem: Problem, number: int, result: SearchResult) -> dict[str, Any]:
    """One search as it is stored: the fields of an attempt, and what it spent."""
    best = result.proofs[0] if result.proofs else None
    judged = any(turn.is_call for turn in result.turns)
    # Nothing that was written could be judged: the search says nothing of the problem.
    failed = Status.REJECTED if judged else Status.TIMEOUT
    return {
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
            "expansions": result.expansions,
            "nodes": result.curve[-1].nodes if result.curve else 1,
            "confirmations": result.confirmations,
            "refuted": len(result.refuted),
        },
    }


def _sum_up(rows: Sequence[Mapping[str, Any]], config: SearchConfig) -> dict[str, Any]:
    """What all searches spent; calls are those of the verifier in each search."""
    spent = [row["search"] for row in rows]
    num = max(1, len(spent))
    return {
        "verifier_calls": sum(item["calls"] for item in spent),
        "generated_tokens": sum(item["tokens"] for item in spent),
        "search": {
            "name": config.name,
            "calls": config.calls,
            "mean_calls": round(sum(item["calls"] for item in spent) / num, 2),
            "mean_nodes": round(sum(item["nodes"] for item in spent) / num, 2),
            "confirmations": sum(item["confirmations"] for item in spent),
            "refuted": sum(item["refuted"] for item in spent),
        },
    }
