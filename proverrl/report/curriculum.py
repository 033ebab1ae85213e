"""The charts of the section "Curriculum": the problems drawn over time.

Flows in: the figures that a curriculum logs with every step. Flows out: charts. Not handled here:
the quality of predictions in the end (``calibration``), composed problems (``selfplay``).
"""

from __future__ import annotations

from collections.abc import Sequence

from proverrl.report.figures import (
    Chart,
    counts_of,
    read_number,
    shares_chart,
    smoothing_width,
    step_chart,
    step_series,
    trailing_mean,
)
from proverrl.report.run import Row, RunRecord

_DRAWN = "share of the problems drawn"


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
