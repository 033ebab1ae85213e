"""Evaluation: pass@k of a policy on a set of problems, with confidence intervals.

Flows in: a policy, problems, a verifier. Flows out: ``NAME.jsonl`` with every attempt as its block
is judged, ``NAME.json`` with the table. An interrupted evaluation continues where it stopped, and
more attempts may be added later (``store``). Attempts that were not judged leave the estimate and
are counted beside it; those that ended the verifier are failures and counted apart as well.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from proverrl.config import RolloutConfig
from proverrl.errors import UsageError
from proverrl.evaluation.attempts import ATTEMPTS_SEAL, SealSum, read_summary
from proverrl.evaluation.section import list_sections
from proverrl.evaluation.store import (
    AttemptBlock,
    AttemptStore,
    Row,
    attempt_row,
    count_completions,
    find_category,
    list_left_out,
    sum_usage,
)
from proverrl.files.lines import write_atomically
from proverrl.files.seal import add_seal
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import take_usage
from proverrl.rollout.completion_counts import describe_lost, warn_of_lost, warn_of_room
from proverrl.rollout.extract import PLAIN, Mode
from proverrl.rollout.self_correct import continue_rollouts
from proverrl.rollout.whole_proof import Draw, Flights, JudgedDraw, draw_groups, judge_all
from proverrl.seeds import derive_seed
from proverrl.statistics import INTERVAL_METHOD, estimate
from proverrl.types import Problem, Sampling, Status, is_fatal
from proverrl.verifier.base import Verifier

Figures = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The settings of one evaluation.

    ``settings`` are what all attempts must share, for attempts that are added later to be checked
    against; they and ``labels`` go into the result file as they are. An attempt is a whole rollout
    in the mode of ``rollout``; only its last turn counts. ``answers`` is the mode that finds the
    bodies; what it writes besides the policy is not counted. ``prices`` are those of a million
    tokens of prompts and of completions; 0 is not known.
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
    top_p: float = 1.0
    top_k: int = 0
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    settings: Mapping[str, Any] = field(default_factory=dict)
    prices: tuple[float, float] = (0.0, 0.0)
    answers: Mode = PLAIN


@dataclass(frozen=True, slots=True)
class Standing:
    """The progress of an evaluation. ``lost`` says in words which completions came to nothing,
    ``warnings`` are those of ``warn_of_lost``, with empty texts where there is no cause."""

    done: int
    total: int
    proved: int
    lost: str
    warnings: Mapping[str, str]

    def describe(self, unit: str) -> str:
        """A line for a terminal; ``unit`` is what is counted."""
        parts = [f"{self.done}/{self.total} {unit}", f"{self.proved} proved", self.lost]
        return ", ".join(filter(None, parts))


async def evaluate(
    evaluation: Evaluation,
    policy: Policy,
    verifier: Verifier,
    *,
    progress: Callable[[Standing], None] = lambda standing: None,
    figures: Figures = dict,
) -> dict[str, Any]:
    """Sample, verify, store, and summarise. ``progress`` is told after each block; ``figures()`` is
    asked at the end for more to put into the summary.

    Only attempts that are not stored are made: none when all are. Generation of one block overlaps
    the verification of the one before. Raises UsageError: a k is larger than the number of samples,
    or the attempts that are stored were made under another setting; RunError: the folder cannot be
    written.
    """
    if max(evaluation.ks) > evaluation.samples:
        raise UsageError(
            f"evaluation.ks {list(evaluation.ks)} needs at least {max(evaluation.ks)} samples per "
            f"problem, evaluation.samples is {evaluation.samples}"
        )
    started = time.monotonic()
    store = AttemptStore(evaluation.folder, evaluation.name, evaluation.settings)
    blocks = store.missing_blocks(evaluation.problems, evaluation.samples)
    total = max(len(evaluation.problems) * evaluation.samples, len(store.rows))

    def show() -> None:
        progress(take_stock(evaluation, store, total))

    remaining = iter(blocks)

    async def write() -> tuple[AttemptBlock, asyncio.Task[list[JudgedDraw]]] | None:
        block = next(remaining, None)
        if block is None:
            return None
        draws = await _draw(evaluation, policy, block)
        judging = judge_all(draws, verifier, deadline_seconds=evaluation.deadline_seconds)
        return block, asyncio.create_task(judging)

    async def finish(block: AttemptBlock, judging: asyncio.Task[list[JudgedDraw]]) -> None:
        rows = await _finish(evaluation, policy, verifier, block, judging)
        store.add(rows, take_usage(policy))

    show()
    flights = Flights(write)
    try:
        while (flight := await flights.oldest()) is not None:
            await finish(*flight)
            flights.land()
            show()
    except asyncio.CancelledError:
        # Whole proofs that were all judged are whole attempts, and whoever interrupts keeps them.
        oldest = flights.waiting[0] if flights.waiting else None
        if oldest and oldest[1].done() and not evaluation.rollout.takes_turns:
            await finish(*oldest)
        raise
    finally:
        for _, judging in flights.waiting:
            judging.cancel()
    return store_summary(evaluation, store, lambda rows: figures(), started=started)


def take_stock(evaluation: Evaluation, store: AttemptStore, total: int) -> Standing:
    """The progress so far, of ``total`` attempts."""
    figures = store.completions.figures()
    warnings = _warn(evaluation, figures, store.left_out)
    return Standing(len(store.rows), total, store.num_proved, describe_lost(figures), warnings)


def _warn(
    evaluation: Evaluation, figures: Mapping[str, Any], left_out: Collection[str]
) -> dict[str, str]:
    layout = evaluation.settings.get("layout")
    warnings = warn_of_lost(figures, max_new_tokens=evaluation.max_new_tokens, layout=layout)
    return warnings | {"no_room": warn_of_room(left_out)}


def store_summary(
    evaluation: Evaluation,
    store: AttemptStore,
    figures: Callable[[Sequence[Row]], Mapping[str, Any]],
    *,
    started: float,
) -> dict[str, Any]:
    """Summarise the attempts that every problem has, and write ``NAME.json``. ``figures`` is given
    them for more to put in; ``started`` is ``time.monotonic()`` when the call began. What earlier
    calls wrote there stays: their ks are estimated anew, their seconds and canaries are added."""
    samples, rows = store.complete_rows(evaluation.problems)
    path = evaluation.folder / f"{evaluation.name}.json"
    earlier = read_summary(path) if path.exists() else {}
    levels = earlier.get("levels") or [{}]
    ks = {*evaluation.ks, *map(int, levels[0].get("pass") or {})}
    whole = replace(evaluation, samples=samples, ks=tuple(sorted(ks)))
    summary = summarise(whole, rows) | _describe_usage(evaluation, store) | dict(figures(rows))
    _add_earlier(summary, earlier, round(time.monotonic() - started, 1))
    summary = add_seal({**summary, ATTEMPTS_SEAL: str(SealSum(rows))})
    write_atomically(path, json.dumps(summary, indent=1) + "\n")
    return summary


def _describe_usage(evaluation: Evaluation, store: AttemptStore) -> dict[str, Any]:
    """The cost of a server's completions, of all attempts; empty where no server wrote them."""
    usage = sum_usage(store.rows)
    if usage is None:
        return {}
    for_prompt, for_completion = evaluation.prices
    spent = usage.prompt_tokens * for_prompt + usage.completion_tokens * for_completion
    cost = round(spent / 1e6, 6) if any(evaluation.prices) else None
    return {"usage": {**asdict(usage), "cost": cost}}


def summarise(evaluation: Evaluation, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The table: pass@k with intervals, for all problems, each level, family and category."""
    by_problem: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_problem.setdefault(row["problem_id"], []).append(row)
    turns = [(row["problem_id"], turn) for row in rows for turn in row["turns"]]
    distinct = {(name, t["candidate"]) for name, t in turns if t["candidate"] is not None}
    lengths = [turn["num_tokens"] for _, turn in turns]
    counts = count_completions(rows)
    lost = counts.figures()
    everything = {"level": "all", **_summarise_group(evaluation.problems, by_problem, evaluation)}

    def split(name: str, key: Callable[[Problem], int | str]) -> list[dict[str, Any]]:
        groups: dict[int | str, list[Problem]] = {}
        for problem in evaluation.problems:
            groups.setdefault(key(problem), []).append(problem)
        if len(groups) < 2:
            return []
        return [
            {name: str(value), **_summarise_group(groups[value], by_problem, evaluation)}
            for value in sorted(groups)
        ]

    more: dict[str, Any] = {}
    levels: list[Mapping[str, Any]] = []
    for section in list_sections():
        found = dict(
            section.summarise(
                evaluation.problems,
                rows,
                lambda problems: _summarise_group(problems, by_problem, evaluation),
            )
        )
        levels += found.pop("levels", ())
        more |= found
    return {
        **more,
        "name": evaluation.name,
        "samples_per_problem": evaluation.samples,
        "interval": INTERVAL_METHOD,
        "temperature": evaluation.temperature,
        "top_p": evaluation.top_p,
        "top_k": evaluation.top_k,
        "verifier_calls": len(distinct),
        "num_turns": len(turns),
        "generated_tokens": None if None in lengths else sum(lengths),
        "completions": counts.num,
        **lost,
        "warnings": [
            text for text in _warn(evaluation, lost, list_left_out(rows)).values() if text
        ],
        **evaluation.settings,
        **evaluation.labels,
        "levels": [everything, *split("level", lambda problem: problem.level), *levels],
        "families": split("family", lambda problem: problem.family),
        "categories": split("category", find_category),
    }


def _summarise_group(
    problems: Sequence[Problem],
    by_problem: Mapping[str, Sequence[Mapping[str, Any]]],
    evaluation: Evaluation,
) -> dict[str, Any]:
    attempts = [row for problem in problems for row in by_problem.get(problem.id, ())]
    counts = [_count(by_problem.get(problem.id, ())) for problem in problems]
    return {
        "num_problems": len(problems),
        "attempts": len(attempts),
        "unjudged": sum(not Status(row["status"]).judged for row in attempts),
        "fatal": sum(is_fatal(row["status"], row.get("cause", "")) for row in attempts),
        "pass": {str(k): estimate(counts, k) for k in evaluation.ks},
    }


def _count(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """The numbers of attempts that were judged, and that were proved."""
    judged = [row for row in rows if Status(row["status"]).judged]
    return len(judged), sum(row["status"] == Status.PROVED for row in judged)


async def _draw(evaluation: Evaluation, policy: Policy, block: AttemptBlock) -> list[Draw]:
    """The whole block is drawn, so that every attempt comes out as ever; what is stored or not
    wanted is left out."""
    draws = await draw_groups(
        policy,
        block.problems,
        n=block.size,
        sampling=_sampling(evaluation, "evaluation", block.name),
        name="eval",
        mode=evaluation.answers,
    )
    places = [number - block.first for number in block.missing]
    return [
        replace(
            draw,
            completions=tuple(draw.completions[place] for place in places),
            extractions=tuple(draw.extractions[place] for place in places),
        )
        for draw in draws
    ]


def _sampling(evaluation: Evaluation, *names: str) -> Sampling:
    return Sampling(
        temperature=evaluation.temperature,
        max_new_tokens=evaluation.max_new_tokens,
        seed=derive_seed(evaluation.seed, *names),
        top_p=evaluation.top_p,
        top_k=evaluation.top_k,
    )


async def _finish(
    evaluation: Evaluation,
    policy: Policy,
    verifier: Verifier,
    block: AttemptBlock,
    judging: asyncio.Task[list[JudgedDraw]],
) -> list[Row]:
    """The attempts of a block, once the turns after the first are taken."""
    judged = await judging
    continued = await continue_rollouts(
        judged,
        policy=policy,
        verifier=verifier,
        settings=evaluation.rollout,
        sampling=_sampling(evaluation, "evaluation turns", block.name),
        deadline_seconds=evaluation.deadline_seconds,
        mode=evaluation.answers,
    )
    return [
        attempt_row(rollout, number)
        for draw in continued
        for rollout, number in zip(draw.rollouts, block.missing, strict=True)
    ]


def _add_earlier(summary: dict[str, Any], earlier: Mapping[str, Any], seconds: float) -> None:
    """Time and canaries of the calls that made the attempts before these."""
    summary["seconds"] = round(seconds + float(earlier.get("seconds") or 0.0), 1)
    counts = earlier.get("canaries") or {}
    if "canaries" in summary:
        summary["canaries"] = {
            name: count + int(counts.get(name, 0)) for name, count in summary["canaries"].items()
        }
