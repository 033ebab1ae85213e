"""The section "Self-play": composed problems, and stops of the filters.

Flows in: the figures that a self-play run logs with every step, and its archive. Flows out: charts;
sentences, tables and examples for ``selfplay.html``. Not handled here: problems drawn
(``figures``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from proverrl.compose.archive import ARCHIVE_FILE, ProblemArchive
from proverrl.report.figures import (
    Chart,
    counts_of,
    lines_chart,
    shares_chart,
)
from proverrl.report.run import Row, RunRecord

PARTS = ("composer", "generator", "pool", "learner")
MAX_WARNINGS = 50
MAX_TEXT_CHARS = 4000
_KEPT, _UNREADABLE, _UNCHECKED = "kept", "no statement in it", "not asked about"
_BINS = ("0", "0-0.25", "0.25-0.5", "0.5-0.75", "0.75-1", "1")
_BINS_NOTE = "a bin holds its upper bound, but for 0 and 1, which stand alone"
_COLLAPSE = {
    "compose_variety": "skeletons a problem",
    "compose_top_template": "commonest template",
    "compose_distinct": "distinct n-grams",
    "compose_overlap": "shared n-grams",
    "compose_always": "solved by every attempt",
    "compose_never": "solved by none",
}


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """One run in the section. ``examples`` has the newest problem that each filter stopped."""

    label: str
    totals: str
    stops: Sequence[Sequence[str]]
    examples: Mapping[str, Row]


def build_selfplay_charts(runs: Sequence[RunRecord]) -> list[Chart]:
    """The charts that have a point, for each run: what became of statements, their solve rates, the
    composer's reward, the collapse watch, idle seconds."""
    charts = []
    for run in runs:
        end = "" if len(runs) == 1 else f", {run.label}"
        rows = _composing(run)
        outcomes = [{**row, "outcomes": count_outcomes(row)} for row in rows]
        rated = [row for row in rows if any(counts_of(row, "solve_rates").values())]
        parts = {f"idle_{part}_seconds": part for part in PARTS}
        charts += [
            shares_chart(
                f"Statements{end}",
                "share of those written",
                outcomes,
                "outcomes",
                order=lambda names: sorted(names, key=lambda name: name != _KEPT),
            ),
            shares_chart(
                f"Solve rates of composed problems{end}",
                "share of those tried",
                rated,
                "solve_rates",
                order=lambda names: _BINS,
                label=lambda name: f"p = {name}" if name in ("0", "1") else f"p in {name}",
                ramp="levels",
                note=_BINS_NOTE,
            ),
            lines_chart(
                f"Composer's reward{end}",
                "mean over the statements rewarded",
                rows,
                {"composer_reward": "mean reward"},
            ),
            lines_chart(f"Composed problems{end}", "share", run.steps, _COLLAPSE, percent=True),
            lines_chart(
                f"Operators{end}",
                "entropy of a round, nats",
                rows,
                {"compose_operator_entropy": "entropy"},
            ),
            lines_chart(f"Idle{end}", "seconds of a step", rows, parts),
        ]
    return [chart | {"holder": "selfplay-charts"} for chart in charts if chart["series"]]


def _composing(run: RunRecord) -> list[Row]:
    return [row for row in run.steps if row.get("statements_written")]


def list_played(runs: Sequence[RunRecord]) -> list[PlayedRun]:
    """The runs that composed problems. Raises RunError for a damaged archive."""
    return [
        PlayedRun(run.label, _describe_totals(rows), _list_stops(rows), list_stopped(run))
        for run in runs
        if (rows := _composing(run))
    ]


def list_compose_warnings(runs: Sequence[RunRecord]) -> list[str]:
    """Warnings of the watch over composed problems, the newest first."""
    lines = list(_iter_warnings(runs))
    more = len(lines) - MAX_WARNINGS
    return lines[:MAX_WARNINGS] + ([f"and {more} older ones"] if more > 0 else [])


def _iter_warnings(runs: Sequence[RunRecord]) -> Iterator[str]:
    for run in runs:
        name = f"{run.label}, " if len(runs) > 1 else ""
        for row in reversed(run.steps):
            for text in row.get("compose_warnings") or ():
                yield f"{name}step {row.get('step')}: {text}"


def count_outcomes(row: Row) -> Counter[str]:
    """The outcomes of a step's statements: kept, stopped by each filter, unreadable, or tried by
    the solver with an outcome that spared the late filters the questions."""
    found = counts_of(row, "filter_stops")
    found[_KEPT] = int(row.get("statements_kept") or 0)
    found[_UNREADABLE] = int(row.get("statements_malformed") or 0)
    found[_UNCHECKED] = int(row.get("statements_unchecked") or 0)
    return +found


def _sum_outcomes(rows: Sequence[Row]) -> Counter[str]:
    return sum((count_outcomes(row) for row in rows), Counter())


def _describe_totals(rows: Sequence[Row]) -> str:
    outcomes = _sum_outcomes(rows)
    rates: Counter[str] = sum((counts_of(row, "solve_rates") for row in rows), Counter())
    written = sum(int(row["statements_written"]) for row in rows)
    unchecked = outcomes[_UNCHECKED]
    stopped = written - outcomes[_KEPT] - outcomes[_UNREADABLE] - unchecked
    calls = sum(int(row.get("filter_calls") or 0) for row in rows)
    spared = f", {unchecked:,} too easy or too hard for the late filters" if unchecked else ""
    return (
        f"{len(rows):,} rounds: {written:,} statements written, {outcomes[_UNREADABLE]:,} "
        f"unreadable, {stopped:,} stopped by filters, {outcomes[_KEPT]:,} kept{spared}. Of "
        f"{rates.total():,} tried, {rates['0']:,} were solved by no attempt, {rates['1']:,} by "
        f"every one. The filters took {calls:,} verifier calls."
    )


def _list_stops(rows: Sequence[Row]) -> list[list[str]]:
    """The number of statements that each filter stopped, the busiest first."""
    counts = _sum_outcomes(rows)
    for name in (_KEPT, _UNREADABLE, _UNCHECKED):
        del counts[name]
    written = sum(int(row["statements_written"]) for row in rows)
    return [
        [name, f"{n:,}", f"{100 * n / written:.1f} %", f"{n / len(rows):.2f}"]
        for name, n in counts.most_common()
    ]


def list_stopped(run: RunRecord) -> dict[str, Row]:
    """The newest problem in the run's archive that each filter stopped. Raises RunError for a
    damaged archive."""
    path = run.path / ARCHIVE_FILE
    if not path.is_file():
        return {}
    archive, examples = ProblemArchive.read(path), {}
    for composed in archive:
        problem = composed.problem
        facts = archive.facts(problem.id)
        if stopped_by := facts.get("stopped_by"):
            examples[str(stopped_by)] = {
                "id": problem.id,
                "operator": composed.operator,
                "parents": list(composed.parents),
                "round": composed.round,
                "reason": facts.get("reason"),
                **_cut(problem.preamble, problem.statement),
            }
    return examples


def _cut(preamble: str, statement: str) -> Row:
    """Both texts, with a count of what is too long to travel in the page."""
    kept = statement[:MAX_TEXT_CHARS]
    before = preamble[: MAX_TEXT_CHARS - len(kept)]
    cut = len(preamble) + len(statement) - len(before) - len(kept)
    return {"preamble": before, "statement": kept} | ({"cut": cut} if cut else {})
