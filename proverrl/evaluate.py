"""Evaluation: pass@k of a policy on a set of problems, with confidence intervals.

Flows in: a policy, problems, a verifier. Flows out: ``NAME.jsonl`` with every attempt as it is
judged, ``NAME.json`` with the table. An interrupted evaluation goes on where it stopped.
Attempts that were not judged leave the estimate and are counted beside it.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from proverrl.config import RolloutConfig
from proverrl.errors import RunError, UsageError
from proverrl.policy.base import Policy
from proverrl.rollout.self_correct import continue_rollouts, first_stop
from proverrl.rollout.whole_proof import JudgedDraw, draw_groups, judge_all
from proverrl.seeds import derive_seed
from proverrl.types import Problem, Rollout, Sampling, Status
from proverrl.verify.base import Verifier

NUM_RESAMPLES = 10_000
PROBLEMS_PER_CHUNK = 16


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is evaluated and how; ``labels`` go into the result file as they are.

    An attempt is a whole rollout in the mode of ``rollout``; only its last turn counts.
    """

    name: str
    folder: Path
    problems: Sequence[Problem]
    samples: int
    ks: tuple[int, ...]
    temperature: float
    max_new_tokens: int
    seed: int
    deadline_seconds: float
    labels: Mapping[str, Any]
    rollout: RolloutConfig = field(default_factory=RolloutConfig)


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Unbiased pass@k: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374).

    Raises:
        UsageError: unless 1 <= k <= n and 0 <= c <= n.
    """
    n, c = num_samples, num_correct
    if not (1 <= k <= n and 0 <= c <= n):
        raise UsageError(f"pass@{k} cannot be estimated from {c} correct of {n} samples")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod((n - c - i) / (n - i) for i in range(k))


def bootstrap_interval(values: Sequence[float], *, seed: int = 0) -> tuple[float, float]:
    """95 % percentile interval of the mean, resampling ``values`` (one a problem) 10,000 times."""
    if not values:
        return (0.0, 0.0)
    data = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    means = np.empty(NUM_RESAMPLES)
    # In slices, so that 10,000 resamples of a large benchmark stay small in memory.
    for start in range(0, NUM_RESAMPLES, 500):
        picks = rng.integers(0, len(data), size=(500, len(data)))
        means[start : start + 500] = data[picks].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


async def evaluate(
    evaluation: Evaluation,
    policy: Policy,
    verifier: Verifier,
    *,
    progress: Callable[[int, int, int], None] = lambda done, total, proved: None,
) -> dict[str, Any]:
    """Sample, verify, store, and summarise. ``progress(done, total, proved)`` counts attempts.

    Generation of one chunk overlaps the verification of the one before.

    Raises:
        UsageError: a k is larger than the number of samples.
        RunError: the folder cannot be written.
    """
    if max(evaluation.ks) > evaluation.samples:
        raise UsageError(
            f"evaluation.ks {list(evaluation.ks)} needs at least {max(evaluation.ks)} samples a "
            f"problem, evaluation.samples is {evaluation.samples}"
        )
    started = time.monotonic()
    path = evaluation.folder / f"{evaluation.name}.jsonl"
    evaluation.folder.mkdir(parents=True, exist_ok=True)
    rows, chunks = _load_finished(path, evaluation)
    total = len(evaluation.problems) * evaluation.samples
    proved = sum(row["status"] == Status.PROVED for row in rows)
    progress(len(rows), total, proved)
    waiting: tuple[int, asyncio.Task[list[JudgedDraw]]] | None = None
    try:
        for number, problems in chunks:
            sampling = _sampling(evaluation, "evaluation", number)
            draws = await draw_groups(
                policy, problems, n=evaluation.samples, sampling=sampling, name="eval"
            )
            if waiting:
                rows += _store(path, await _finish(evaluation, policy, verifier, *waiting))
            judging = judge_all(draws, verifier, deadline_seconds=evaluation.deadline_seconds)
            waiting = (number, asyncio.create_task(judging))
            progress(len(rows), total, sum(r["status"] == Status.PROVED for r in rows))
        if waiting:
            rows += _store(path, await _finish(evaluation, policy, verifier, *waiting))
            waiting = None
    finally:
        if waiting:
            waiting[1].cancel()
    progress(len(rows), total, sum(r["status"] == Status.PROVED for r in rows))
    summary = summarise(evaluation, rows) | {"seconds": round(time.monotonic() - started, 1)}
    _write_atomically(evaluation.folder / f"{evaluation.name}.json", summary)
    return summary


def summarise(evaluation: Evaluation, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The table: pass@k with intervals, for all problems and for each level."""
    levels = sorted({problem.level for problem in evaluation.problems})
    groups = [("all", list(evaluation.problems))]
    if len(levels) > 1:
        groups += [
            (str(level), [p for p in evaluation.problems if p.level == level]) for level in levels
        ]
    by_problem: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_problem.setdefault(row["problem_id"], []).append(row)
    turns = [(row["problem_id"], turn) for row in rows for turn in row["turns"]]
    distinct = {(name, t["candidate"]) for name, t in turns if t["candidate"] is not None}
    lengths = [turn["num_tokens"] for _, turn in turns]
    return {
        "name": evaluation.name,
        "samples_per_problem": evaluation.samples,
        "temperature": evaluation.temperature,
        "verifier_calls": len(distinct),
        "num_turns": len(turns),
        "generated_tokens": None if None in lengths else sum(lengths),
        **evaluation.labels,
        "levels": [
            {"level": name, **_summarise_level(problems, by_problem, evaluation.ks)}
            for name, problems in groups
        ],
    }


def _summarise_level(
    problems: Sequence[Problem],
    by_problem: Mapping[str, Sequence[Mapping[str, Any]]],
    ks: Sequence[int],
) -> dict[str, Any]:
    attempts = [row for problem in problems for row in by_problem.get(problem.id, ())]
    counts = []
    for problem in problems:
        judged = [r for r in by_problem.get(problem.id, ()) if Status(r["status"]).judged]
        counts.append((len(judged), sum(r["status"] == Status.PROVED for r in judged)))
    table = {}
    for k in ks:
        # A problem with fewer than k judged attempts has no unbiased estimate.
        values = [pass_at_k(n, c, k) for n, c in counts if n >= k]
        low, high = bootstrap_interval(values)
        table[str(k)] = {
            "value": sum(values) / len(values) if values else 0.0,
            "low": low,
            "high": high,
            "num_problems": len(values),
        }
    return {
        "num_problems": len(problems),
        "attempts": len(attempts),
        "unjudged": sum(not Status(row["status"]).judged for row in attempts),
        "pass": table,
    }


def _sampling(evaluation: Evaluation, name: str, number: int) -> Sampling:
    return Sampling(
        temperature=evaluation.temperature,
        max_new_tokens=evaluation.max_new_tokens,
        seed=derive_seed(evaluation.seed, name, number),
        stop=first_stop(evaluation.rollout),
    )


async def _finish(
    evaluation: Evaluation,
    policy: Policy,
    verifier: Verifier,
    number: int,
    judging: asyncio.Task[list[JudgedDraw]],
) -> list[dict[str, Any]]:
    """The attempts of a chunk, once the turns after the first are taken."""
    judged = await continue_rollouts(
        await judging,
        policy=policy,
        verifier=verifier,
        settings=evaluation.rollout,
        sampling=_sampling(evaluation, "evaluation turns", number),
        deadline_seconds=evaluation.deadline_seconds,
    )
    return [
        attempt_row(rollout, attempt)
        for draw in judged
        for attempt, rollout in enumerate(draw.rollouts)
    ]


def attempt_row(rollout: Rollout, attempt: int) -> dict[str, Any]:
    """One attempt as it is stored."""
    turn = rollout.turns[-1]
    return {
        "problem_id": rollout.problem.id,
        "level": rollout.problem.level,
        "family": rollout.problem.family,
        "attempt": attempt,
        "body": turn.candidate.body if turn.candidate else "",
        "completion_text": turn.completion.text,
        "finish_reason": turn.completion.finish_reason,
        "turns": [
            {
                "candidate": t.candidate.key if t.candidate else None,
                # A server may not have said which tokens it wrote.
                "num_tokens": (
                    None if "token_ids" in t.completion.missing else len(t.completion.token_ids)
                ),
            }
            for t in rollout.turns
        ],
        **verdict_fields(rollout),
    }


def verdict_fields(rollout: Rollout) -> dict[str, Any]:
    """Status, diagnostics and checker time of a rollout's last turn, as JSON values."""
    verdict = rollout.turns[-1].verdict
    return {
        "status": str(rollout.status),
        "diagnostics": [
            {
                "severity": d.severity,
                "message": d.message,
                "line": d.line,
                "column": d.column,
                "body_line": d.body_line,
            }
            for d in (verdict.diagnostics if verdict else ())
        ],
        "seconds": round(verdict.seconds, 4) if verdict else 0.0,
    }


def _load_finished(
    path: Path, evaluation: Evaluation
) -> tuple[list[dict[str, Any]], list[tuple[int, Sequence[Problem]]]]:
    """Rows of chunks that are whole, and the chunks that are left. Half chunks are dropped."""
    problems = evaluation.problems
    starts = range(0, len(problems), PROBLEMS_PER_CHUNK)
    chunks = [(i, problems[s : s + PROBLEMS_PER_CHUNK]) for i, s in enumerate(starts)]
    rows: list[dict[str, Any]] = []
    stored = path.read_text("utf-8").splitlines() if path.exists() else []
    for line in stored:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            # The last line of a killed run may be cut; its chunk is made again.
            break
        if "turns" not in row:
            # An earlier version did not write what each turn cost; such attempts are made again.
            break
        rows.append(row)
    by_problem: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_problem.setdefault(row["problem_id"], []).append(row)
    done, left = [], []
    for number, chunk in chunks:
        if all(len(by_problem.get(p.id, ())) == evaluation.samples for p in chunk):
            done += [row for p in chunk for row in by_problem[p.id]]
        else:
            left.append((number, chunk))
    if len(done) != len(stored):
        path.write_text("".join(json.dumps(row) + "\n" for row in done), "utf-8")
    return done, left


def _store(path: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error}") from error
    return rows


def _write_atomically(path: Path, value: Mapping[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
    os.replace(temporary, path)
