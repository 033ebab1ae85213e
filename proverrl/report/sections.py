"""The page's words and short tables about runs: their state, their settings, the headline.

Flows in: run records. Flows out: sentences and rows for the templates. Not handled here: curves,
examples and the rollout browser.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from proverrl.config.loops import known_traits
from proverrl.evaluation.tally import StoredEvaluation
from proverrl.monitor.display import format_seconds
from proverrl.monitor.metrics import count_unfinished
from proverrl.report.headline import (
    Cell,
    Column,
    describe_length,
    describe_limit,
    find_cell,
    group_by_benchmark,
    list_ks,
)
from proverrl.report.run import Row, RunRecord, unjudged_counts

UNJUDGED_KINDS = ("timeout", "crashed")
REASONS_SHOWN = 5


def capitalised(text: str) -> str:
    """The text with its first letter in upper case and the rest as it is."""
    return text[:1].upper() + text[1:]


def name_of(run: RunRecord) -> str:
    """A run's name as a title: a loop's name is capitalised, a folder's is left alone."""
    return capitalised(run.label) if run.label == run.title else run.label


def join_names(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    head, last = names[:-1], names[-1]
    return f"{', '.join(head)} and {last}" if head else last


def describe_state(run: RunRecord) -> str:
    """The state of a run, in a sentence."""
    if run.only_evaluates:
        names = ", ".join(run.evaluations) or "none has finished"
        return f"evaluations only ({names}): nothing was trained here."
    if not run.steps:
        warm = [row["step"] for row in run.metrics if row.get("kind") == "sft"]
        if run.loop == "warm_start" and warm and (run.path / "policy").is_dir():
            return f"warm start of {warm[-1]:,} steps, finished."
        unit = known_traits(run.loop).unit
        return f"no {unit} taken yet{', warm start under way' if warm else ''}."
    seconds = format_seconds(run.seconds)
    text = f"{describe_length(run)} in {seconds}, {run.verifier_calls:,} verifier calls"
    text += f"; {ending}." if (ending := describe_limit(run)) else "."
    return text if run.evaluations.keys() - {"before"} else text + " Not evaluated since."


def list_facts(run: RunRecord) -> list[tuple[str, str]]:
    """The settings of a run: names and values."""

    def recorded(name: str) -> str:
        return str(run.resolved.get(name) or "not recorded")

    return [
        ("Loop", run.loop.replace("_", " ") or ("none" if run.only_evaluates else run.label)),
        ("Run folder", str(run.path)),
        ("Commit", recorded("commit")),
        ("Toolchain", recorded("toolchain")),
        ("Device", recorded("device")),
        ("Engine", recorded("engine")),
        ("Seed", str(run.config.get("seed", "not recorded"))),
        ("Budget", ", ".join(use.describe() for use in run.limits) or "no limit"),
    ]


def list_tiles(columns: Sequence[Column]) -> list[tuple[Column, int, Cell, Cell | None]]:
    """The figure of all levels together, and the one before, for each column that nothing is
    measured against, and each k."""
    tiles = []
    for column in group_by_benchmark(columns)[0] if columns else ():
        if column.base is None and any(item.base is column.evaluation for item in columns):
            continue
        for k in list_ks([column]):
            if cell := find_cell(column, "all", k):
                before = find_cell(Column("", column.base), "all", k) if column.base else None
                tiles.append((column, k, cell, before))
    return tiles


def describe_unfinished(runs: Sequence[RunRecord]) -> str:
    """Evaluations that have attempts on disk and no table."""
    counts = [item for run in runs for item in count_unfinished(run.path).items()]
    return " ".join(f"“{name}” has {count:,} attempts so far." for name, count in counts)


def list_heads(columns: Sequence[Column]) -> list[str]:
    """The heads of a table of results; of two columns the change has one of its own."""
    heads = [""]
    for column in columns:
        heads.append(column.title)
        if column.base is not None and len(columns) == 2:
            heads.append("Change")
    return heads


def find_size(columns: Sequence[Column], level: str) -> int | None:
    """The number of problems of a level."""
    counts = [(column.evaluation.level(level) or {}).get("num_problems") for column in columns]
    return next((count for count in counts if count is not None), None)


def list_unjudged(runs: Sequence[RunRecord]) -> tuple[list[list[str]], list[str]]:
    """A row for the training and for each evaluation: attempts without a verdict, by kind, and
    those rejected because they ended the verifier; then the reasons."""
    rows, reasons = [], []
    for run in runs:
        if run.steps:
            counts: Counter[str] = Counter()
            for step in run.steps:
                counts.update(unjudged_counts(step.get("unjudged")))
            total = sum(int(step.get("rollouts") or 0) for step in run.steps)
            fatal = sum(int(step.get("fatal") or 0) for step in run.steps)
            rows.append(_unjudged_row(f"{run.label}: training", total, counts, fatal))
        reasons += _list_reasons(f"{run.label}: last rollouts", run.last_reasons)
        for evaluation in run.evaluations.values():
            name = f"{run.label}: evaluation “{evaluation.name}”"
            level = evaluation.level("all") or {}
            counts = _count_kinds(evaluation, level)
            total, fatal = (int(level.get(name) or 0) for name in ("attempts", "fatal"))
            rows.append(_unjudged_row(name, total, counts, fatal))
            reasons += _list_reasons(name, evaluation.attempts.reasons)
    return rows, reasons


def _count_kinds(evaluation: StoredEvaluation, level: Row) -> Counter[str]:
    """The counts by kind from the attempts where they were kept, else the bare number."""
    statuses = evaluation.attempts.statuses
    counts = Counter({str(kind): num for kind, num in statuses.items() if not kind.judged})
    return counts or Counter(unjudged_counts(level.get("unjudged")))


def _unjudged_row(name: str, total: int, counts: Counter[str], fatal: int) -> list[str]:
    lost = counts.total()
    known = lost == sum(counts[kind] for kind in UNJUDGED_KINDS)
    kinds = [f"{counts[kind]:,}" if known else "–" for kind in UNJUDGED_KINDS]
    share = f"{100 * lost / total:.2f} %" if total else "–"
    return [name, f"{total:,}", *kinds, share, f"{fatal:,}"]


def _list_reasons(name: str, reasons: Mapping[str, int]) -> list[str]:
    commonest = Counter(reasons).most_common(REASONS_SHOWN)
    return [f"{name}: {count:,} × {reason}" for reason, count in commonest]
