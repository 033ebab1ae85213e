"""The section "Curriculum": what was drawn when.

Flows in: the figures that a curriculum logs with every step. Flows out: charts. Not handled here:
how well difficulty was predicted in the end (``calibration``), composed problems (``selfplay``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from proverrl.report.figures import (
    Chart,
    read_number,
    smoothing_width,
    step_chart,
    step_series,
    trailing_mean,
)
from proverrl.report.run import Row, RunRecord

MOST_NAMES = 7
OTHERS, GIVEN = "others", "given"


def build_curriculum_charts(runs: Sequence[RunRecord]) -> list[Chart]:
    """The charts that have a point, for each run: shares of levels, families and operators drawn,
    expected and measured solve rate, the controller's difficulty."""
    charts = []
    for run in runs:
        end = "" if len(runs) == 1 else f", {run.label}"
        drawn = [row for row in run.steps if row.get("curriculum_drawn")]
        charts += [
            _shares_chart(f"Levels drawn{end}", drawn, "curriculum_levels", "levels"),
            _shares_chart(f"Families drawn{end}", drawn, "curriculum_families", "runs"),
            _shares_chart(f"Composed by{end}", _with_given(drawn), "curriculum_operators", "runs"),
            _rates_chart(f"Expected solve rate{end}", drawn),
            _difficulty_chart(f"Difficulty aimed at{end}", drawn),
        ]
    return [chart | {"holder": "curriculum-charts"} for chart in charts if chart["series"]]


def render_curriculum(runs: Sequence[RunRecord]) -> str:
    """A sentence when nothing was logged, else nothing."""
    if any(row.get("curriculum_drawn") for run in runs for row in run.steps):
        return ""
    return '<p class="empty">No step has logged what was drawn.</p>'


def count_shares(
    rows: Sequence[Row], key: str, *, width: int
) -> tuple[list[str], list[dict[str, float]]]:
    """Names in the order in which they are drawn, and for each row their shares in the last
    ``width`` rows. Names beyond the ``MOST_NAMES`` commonest of the run are one, ``others``."""
    counts = [_counts(row, key) for row in rows]
    total: Counter[str] = sum(counts, Counter())
    kept = [name for name, _ in total.most_common(MOST_NAMES)]
    names = sorted(kept, key=lambda name: name.zfill(9) if name.isdigit() else name)
    names += [OTHERS] if len(total) > len(kept) else []
    shares = []
    for end in range(1, len(counts) + 1):
        window: Counter[str] = sum(counts[max(0, end - width) : end], Counter())
        all_of = sum(window.values())
        values = {name: window[name] / all_of for name in kept}
        values[OTHERS] = sum(n for name, n in window.items() if name not in kept) / all_of
        shares.append({name: values[name] for name in names})
    return names, shares


def _counts(row: Row, key: str) -> Counter[str]:
    value = row.get(key)
    return Counter(
        {str(name): int(n) for name, n in value.items()} if isinstance(value, Mapping) else {}
    )


def _with_given(rows: Sequence[Row]) -> list[Row]:
    """Rows in which problems that no operator made are counted too; none if none was composed."""
    if not any(row.get("curriculum_operators") for row in rows):
        return []
    found = []
    for row in rows:
        operators = _counts(row, "curriculum_operators")
        given = int(row["curriculum_drawn"]) - operators.total()
        found.append({**row, "curriculum_operators": {**operators, GIVEN: given}})
    return found


def _shares_chart(title: str, rows: Sequence[Row], key: str, ramp: str) -> Chart:
    rows = [row for row in rows if _counts(row, key)]
    width = smoothing_width(len(rows))
    names, shares = count_shares(rows, key, width=width)
    series = [
        step_series(
            f"level {name}" if key == "curriculum_levels" else name,
            color,
            rows,
            [share[name] for share in shares],
            stacked=True,
            width=width,
        )
        for color, name in enumerate(names)
    ]
    return step_chart(title, "share of the problems drawn", series, percent=True, ramp=ramp)


def _rates_chart(title: str, rows: Sequence[Row]) -> Chart:
    rows = [row for row in rows if read_number(row.get("curriculum_predicted")) is not None]
    width = smoothing_width(len(rows))
    series = []
    names = (("curriculum_predicted", "expected when drawn"), ("solve_rate", "measured"))
    for color, (key, name) in enumerate(names):
        values = trailing_mean([read_number(row.get(key)) for row in rows], width)
        if any(value is not None for value in values):
            series.append(step_series(name, color, rows, values, width=width))
    note = "a draw is learned from up to some steps later than it was drawn" if series else ""
    return step_chart(title, "mean over problems", series, percent=True, note=note)


def _difficulty_chart(title: str, rows: Sequence[Row]) -> Chart:
    rows = [row for row in rows if read_number(row.get("curriculum_difficulty")) is not None]
    values = [read_number(row.get("curriculum_difficulty")) for row in rows]
    series = [step_series("difficulty", 0, rows, values)] if rows else []
    return step_chart(title, "level, of the controller", series)
