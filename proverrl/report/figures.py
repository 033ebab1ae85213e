"""The curves: which series each chart holds, as plain values for the page's script.

Flows in: run records. Flows out: JSON-ready chart descriptions with three possible x axes
(step, verifier calls, minutes), so that runs with unlike steps can be compared fairly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from proverrl.report.run import Row, RunRecord, unjudged_counts
from proverrl.statistics import clopper_pearson

POINTS_UNTIL_SMOOTHED = 40
MAX_POINTS = 1500
MOST_NAMES = 7
BAND_NOTE = "band: 95 % interval"
_DRAWN = "share of the problems drawn"

T = TypeVar("T")
Series = dict[str, Any]
Chart = dict[str, Any]
Bands = Sequence[tuple[float, float] | None]


def build_charts(runs: Sequence[RunRecord]) -> list[Chart]:
    """Every chart that has at least one point."""
    charts = [
        _line_chart(runs, "solve_rate", "Solve rate", "share of judged rollouts", percent=True),
        *(_groups_chart(run, runs) for run in runs),
        *(_levels_chart(run, runs) for run in runs),
        _line_chart(runs, "loss", "Loss", "policy loss, or cross-entropy in expert iteration"),
        _line_chart(runs, "entropy", "Entropy", "nats per token of the policy"),
        _line_chart(runs, "approx_kl", "Policy change", "approximate KL to the sampler, nats"),
        _line_chart(runs, "ratio_clipped", "Clipped ratios", "share of tokens", percent=True),
        _line_chart(runs, "grad_norm", "Gradient norm", "before clipping"),
        _line_chart(runs, "verified_per_second", "Verifier", "verified per second"),
        _line_chart(runs, "tokens_per_second", "Generation", "tokens per second"),
        _line_chart(runs, "completion_tokens_mean", "Completion length", "mean tokens"),
        _unjudged_chart(runs),
        _warm_start_chart(runs),
    ]
    return [chart for chart in charts if chart["series"]]


def read_number(value: Any) -> float | None:
    """A figure of a logged row; None for what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def trailing(values: Sequence[T], width: int) -> list[Sequence[T]]:
    """The last ``width`` values at each place."""
    return [values[max(0, end - width) : end] for end in range(1, len(values) + 1)]


def trailing_mean(values: Sequence[float | None], width: int) -> list[float | None]:
    """The mean of the last ``width`` values at each place, without those that are None."""
    windows = [
        [value for value in window if value is not None] for window in trailing(values, width)
    ]
    return [sum(window) / len(window) if window else None for window in windows]


def smoothing_width(count: int) -> int:
    """Steps to average over: 1 for short runs, else a twentieth of the run."""
    return 1 if count <= POINTS_UNTIL_SMOOTHED else max(3, count // 20)


def _line_chart(
    runs: Sequence[RunRecord], key: str, title: str, unit: str, *, percent: bool = False
) -> Chart:
    series: list[Series] = []
    gaps: list[str] = []
    for index, run in enumerate(runs):
        rows = [row for row in run.steps if key in row]
        values = [read_number(row.get(key)) for row in rows]
        missing = [
            row.get("step") for row, value in zip(rows, values, strict=True) if value is None
        ]
        if missing:
            gaps.append(f"{run.label}: not finite at {len(missing)} steps, first {missing[0]}")
        bands = _solve_rate_bands(rows, values) if key == "solve_rate" else None
        series += _smoothed(run.label, index, rows, values, bands)
    note = "; ".join(_unjudged_notes(runs) if key == "solve_rate" else gaps)
    if any(item["low"] for item in series):
        note += f"; {BAND_NOTE}"
    return step_chart(title, unit, series, percent=percent, note=note)


def _solve_rate_bands(rows: Sequence[Row], values: Sequence[float | None]) -> Bands:
    """95 % intervals of the steps that a mean is drawn of, as if each group were one draw, which is
    rather too wide."""
    width = smoothing_width(len(values))
    groups = [
        0.0 if value is None else read_number(row.get("groups")) or 0.0
        for row, value in zip(rows, values, strict=True)
    ]
    counts = map(sum, trailing(groups, width))
    return [
        None if mean is None or not count else clopper_pearson(mean, count)
        for mean, count in zip(trailing_mean(values, width), counts, strict=True)
    ]


def _smoothed(
    label: str,
    color: int,
    rows: Sequence[Row],
    values: Sequence[float | None],
    bands: Bands | None = None,
) -> list[Series]:
    """The values, with their trailing mean drawn over them in a run that is long enough; bands go
    with the line that is drawn last."""
    if all(value is None for value in values):
        return []
    width = smoothing_width(len(values))
    if width == 1:
        return [step_series(label, color, rows, values, bands=bands)]
    mean = trailing_mean(values, width)
    return [
        step_series(label, color, rows, values, faint=True),
        step_series(label, color, rows, mean, hint=f"mean of {width} steps", bands=bands),
    ]


def _groups_chart(run: RunRecord, runs: Sequence[RunRecord]) -> Chart:
    rows = [row for row in run.steps if read_number(row.get("groups"))]
    width = smoothing_width(len(rows))
    series = []
    names = {"groups_solved": "all solved", "groups_mixed": "mixed", "groups_failed": "all failed"}
    for color, (key, name) in enumerate(names.items() if rows else ()):
        shares = [float(row.get(key) or 0) / float(row["groups"]) for row in rows]
        smooth = trailing_mean(shares, width)
        series.append(step_series(name, color, rows, smooth, stacked=True, width=width))
    title = "Groups" if len(runs) == 1 else f"Groups, {run.label}"
    note = "only mixed groups carry a learning signal"
    unit = "share of the groups drawn"
    return step_chart(title, unit, series, percent=True, note=note, ramp="groups")


def _levels_chart(run: RunRecord, runs: Sequence[RunRecord]) -> Chart:
    rows = [row for row in run.steps if row.get("levels")]
    names = sorted({name for row in rows for name in row["levels"]}, key=lambda name: name.zfill(9))
    width = smoothing_width(len(rows))
    series = []
    for color, name in enumerate(names):
        levels = [row["levels"].get(name) or {} for row in rows]
        solved, attempts = (
            [float(level.get(key) or 0) for level in levels] for key in ("solved", "attempts")
        )
        rates = _window_rates(solved, attempts, width)
        series.append(step_series(f"level {name}", color, rows, rates, width=width))
    title = "Solve rate per level" if len(runs) == 1 else f"Per level, {run.label}"
    return step_chart(title, "share of judged rollouts", series, percent=True, ramp="levels")


def _window_rates(
    solved: Sequence[float], attempts: Sequence[float], width: int
) -> list[float | None]:
    """Solved over attempts in the last ``width`` steps; None where nothing was attempted now."""
    windows = zip(trailing(solved, width), trailing(attempts, width), strict=True)
    return [sum(won) / sum(made) if sum(made) and made[-1] else None for won, made in windows]


def _unjudged_chart(runs: Sequence[RunRecord]) -> Chart:
    series: list[Series] = []
    for index, run in enumerate(runs):
        rows = [row for row in run.steps if row.get("rollouts")]
        counts = [sum(unjudged_counts(row.get("unjudged")).values()) for row in rows]
        shares = [count / float(row["rollouts"]) for count, row in zip(counts, rows, strict=True)]
        # A line at zero says less than the table of what got no verdict.
        series += _smoothed(run.label, index, rows, shares) if any(counts) else []
    return step_chart("Unjudged", "share of rollouts that got no verdict", series, percent=True)


def _warm_start_chart(runs: Sequence[RunRecord]) -> Chart:
    series: list[Series] = []
    for index, run in enumerate(runs):
        rows = [row for row in run.metrics if row.get("kind") == "sft"]
        values = [read_number(row.get("loss")) for row in rows]
        if any(value is not None for value in values):
            series.append(step_series(run.label, index, rows, values))
    chart = step_chart("Warm start", "cross-entropy, nats per token", series)
    return chart | {"axis": "step", "axis_title": "warm-start step"}


def _unjudged_notes(runs: Sequence[RunRecord]) -> list[str]:
    notes = []
    for run in runs:
        rollouts = sum(int(row.get("rollouts") or 0) for row in run.steps)
        lost = sum(sum(unjudged_counts(row.get("unjudged")).values()) for row in run.steps)
        name = "" if len(runs) == 1 else f"{run.label}: "
        notes.append(f"{name}{lost:,} of {rollouts:,} rollouts unjudged, left out")
    return notes


def build_curriculum_charts(runs: Sequence[RunRecord]) -> list[Chart]:
    """The charts that have a point, for each run: shares of levels, families and operators drawn,
    expected and measured solve rate."""
    charts = []
    for run in runs:
        end = "" if len(runs) == 1 else f", {run.label}"
        drawn = [row for row in run.steps if row.get("curriculum_drawn")]
        charts += [
            shares_chart(
                f"Levels drawn{end}",
                _DRAWN,
                drawn,
                "curriculum_levels",
                label=lambda name: f"level {name}",
                ramp="levels",
            ),
            shares_chart(f"Families drawn{end}", _DRAWN, drawn, "curriculum_families"),
            shares_chart(f"Composed by{end}", _DRAWN, _with_given(drawn), "curriculum_operators"),
            _rates_chart(f"Expected solve rate{end}", drawn),
        ]
    return [chart | {"holder": "curriculum-charts"} for chart in charts if chart["series"]]


def _with_given(rows: Sequence[Row]) -> list[Row]:
    """Rows in which problems that no operator made are counted too; none if none was composed."""
    if not any(row.get("curriculum_operators") for row in rows):
        return []
    found = []
    for row in rows:
        operators = counts_of(row, "curriculum_operators")
        given = int(row["curriculum_drawn"]) - operators.total()
        found.append({**row, "curriculum_operators": {**operators, "given": given}})
    return found


def _rates_chart(title: str, rows: Sequence[Row]) -> Chart:
    rows = [row for row in rows if read_number(row.get("curriculum_predicted")) is not None]
    width = smoothing_width(len(rows))
    series = []
    names = (("curriculum_predicted", "expected when drawn"), ("solve_rate", "measured"))
    for color, (key, name) in enumerate(names):
        values = trailing_mean([read_number(row.get(key)) for row in rows], width)
        if any(value is not None for value in values):
            series.append(step_series(name, color, rows, values, width=width))
    note = "a draw is learned from up to some steps later than it was drawn"
    return step_chart(title, "mean over problems", series, percent=True, note=note)


def counts_of(row: Row, key: str) -> Counter[str]:
    """A logged table of counts; empty where the row has none."""
    value = row.get(key)
    return Counter(
        {str(name): int(n) for name, n in value.items()} if isinstance(value, Mapping) else {}
    )


def count_shares(
    rows: Sequence[Row], key: str, *, width: int
) -> tuple[list[str], list[dict[str, float]]]:
    """Names in the order in which they are drawn, and for each row their shares in the last
    ``width`` rows. Names beyond the ``MOST_NAMES`` commonest of the run are one, ``others``."""
    counts = [counts_of(row, key) for row in rows]
    total: Counter[str] = sum(counts, Counter())
    kept = [name for name, _ in total.most_common(MOST_NAMES)]
    names = sorted(kept, key=lambda name: name.zfill(9) if name.isdigit() else name)
    names += ["others"] if len(total) > len(kept) else []
    shares = []
    for part in trailing(counts, width):
        window: Counter[str] = sum(part, Counter())
        all_of = window.total()
        values = {name: window[name] / all_of for name in kept}
        values["others"] = sum(n for name, n in window.items() if name not in kept) / all_of
        shares.append({name: values[name] for name in names})
    return names, shares


def shares_chart(
    title: str,
    unit: str,
    rows: Sequence[Row],
    key: str,
    *,
    order: Callable[[Sequence[str]], Sequence[str]] = list,
    label: Callable[[str], str] = str,
    ramp: str = "runs",
    note: str = "",
) -> Chart:
    """Shares of a logged table of counts over the steps that have one, stacked; ``order`` chooses
    and orders the names."""
    rows = [row for row in rows if counts_of(row, key)]
    width = smoothing_width(len(rows))
    names, shares = count_shares(rows, key, width=width)
    series = [
        step_series(
            label(name),
            color,
            rows,
            [share.get(name, 0.0) for share in shares],
            stacked=True,
            width=width,
        )
        for color, name in enumerate(order(names) if rows else ())
    ]
    return step_chart(title, unit, series, percent=True, ramp=ramp, note=note)


def lines_chart(
    title: str,
    unit: str,
    rows: Sequence[Row],
    names: Mapping[str, str],
    *,
    percent: bool = False,
) -> Chart:
    """A smoothed line for each logged figure, named by its key, over the steps that have it."""
    series = []
    for color, (key, name) in enumerate(names.items()):
        found = [row for row in rows if read_number(row.get(key)) is not None]
        width = smoothing_width(len(found))
        values = trailing_mean([read_number(row.get(key)) for row in found], width)
        if found:
            series.append(step_series(name, color, found, values, width=width))
    return step_chart(title, unit, series, percent=percent)


def step_series(
    name: str,
    color: int,
    rows: Sequence[Row],
    values: Sequence[float | None],
    *,
    faint: bool = False,
    stacked: bool = False,
    width: int = 1,
    hint: str = "",
    bands: Bands | None = None,
) -> Series:
    """A series over steps, calls and minutes, one value per row; long ones are thinned out."""
    stride = max(1, math.ceil(len(rows) / MAX_POINTS))

    def axis(read: Callable[[Row], float | None]) -> list[float | None]:
        return [_rounded(read(row)) for row in rows][::stride]

    return {
        "name": name,
        "color": color,
        "faint": faint,
        "stacked": stacked,
        "hint": hint or (f"mean of {width} steps" if width > 1 else ""),
        "x": {
            "step": axis(lambda row: read_number(row.get("step"))),
            "calls": axis(lambda row: read_number(row.get("verifier_calls_total"))),
            "minutes": axis(lambda row: (read_number(row.get("seconds")) or 0.0) / 60.0),
        },
        "y": [_rounded(value) for value in values][::stride],
        "low": [_rounded(band[0] if band else None) for band in bands or ()][::stride],
        "high": [_rounded(band[1] if band else None) for band in bands or ()][::stride],
    }


def step_chart(
    title: str,
    unit: str,
    series: Sequence[Series],
    *,
    percent: bool = False,
    note: str = "",
    ramp: str = "runs",
) -> Chart:
    """A chart whose horizontal axis the reader chooses; ``ramp`` names its colours."""
    hints = {item["hint"] for item in series if item["hint"]}
    notes = [part for part in (note, *(f"line: {hint}" for hint in sorted(hints))) if part]
    return {
        "title": title,
        "unit": unit,
        "series": list(series),
        "percent": percent,
        "note": "; ".join(notes),
        "ramp": ramp,
        "holder": "charts",
        "axis": None,
        "axis_title": "",
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
