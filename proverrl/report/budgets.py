"""Solve rate against what was spent, for evaluations on one benchmark.

Flows in: shelves of columns. Flows out: for each unit a ``BudgetTable``: the share of the common
problems solved within each budget, with intervals over problems and differences from the first
column, paired by problem. Not handled here: how spending is counted and compared
(``proverrl.evaluation.budgets``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from proverrl.evaluation.budgets import (
    UNITS,
    BudgetUnit,
    Point,
    Spending,
    choose_budgets,
    measure_spending,
    solve_curve,
)
from proverrl.report.comparison import Shelf
from proverrl.report.figures import Chart, plain_chart, plain_series
from proverrl.report.headline import signed

UNIT_NAMES: dict[BudgetUnit, str] = {
    "turns": "completions",
    "calls": "verifier calls",
    "tokens": "tokens written",
}
_NO_COST = (
    "what a turn cost is not known, since an earlier version stored these attempts; evaluate again "
    "under another --name."
)
_NO_TOKENS = "the endpoint did not report how many tokens it wrote."


@dataclass(frozen=True, slots=True)
class BudgetTable:
    """``cells[column][budget]``. ``problems`` are those that every column has a cost for,
    ``unjudged`` the attempts at them that were left out, all columns together."""

    unit: BudgetUnit
    titles: Sequence[str]
    places: Sequence[int]
    budgets: Sequence[int]
    cells: Sequence[Sequence[Point]]
    problems: int
    unjudged: int


def build_tables(shelf: Shelf) -> tuple[list[BudgetTable], list[str]]:
    """A table a unit, and sentences about what has none."""
    tables = []
    missing: dict[str, list[str]] = {}
    for unit in UNITS:
        spendings: dict[int, dict[str, Spending]] = {}
        for place, column in enumerate(shelf.columns):
            spending = measure_spending(column.evaluation.problems, unit)
            if spending is not None:
                spendings[place] = spending
            elif column.title not in missing.get(_NO_COST, ()):
                # Turns come first, and are known wherever anything is.
                missing.setdefault(_NO_COST if unit == "turns" else _NO_TOKENS, []).append(
                    column.title
                )
        table = _build_table(shelf, unit, spendings)
        if table is not None:
            tables.append(table)
    return tables, [f"{', '.join(titles)}: {why}" for why, titles in missing.items()]


def _build_table(
    shelf: Shelf, unit: BudgetUnit, spendings: dict[int, dict[str, Spending]]
) -> BudgetTable | None:
    if not spendings:
        return None
    common = [name for name in shelf.names if all(name in item for item in spendings.values())]
    chosen = {place: {name: item[name] for name in common} for place, item in spendings.items()}
    if not common or all(s.total == 0 for item in chosen.values() for s in item.values()):
        return None
    budgets = choose_budgets(list(chosen.values()))
    first = next(iter(chosen.values()))
    cells = [
        solve_curve(item, budgets, None if item is first else first) for item in chosen.values()
    ]
    titles = [shelf.columns[place].title for place in chosen]
    columns = [shelf.columns[place].evaluation.problems for place in chosen]
    unjudged = sum(problems[name].unjudged for problems in columns for name in common)
    return BudgetTable(unit, titles, [*chosen], budgets, cells, len(common), unjudged)


def build_budget_charts(shelf: Shelf, tables: Sequence[BudgetTable]) -> list[Chart]:
    """A curve with its interval for each column, one chart a unit."""
    charts = []
    for table in tables:
        series = [
            plain_series(
                title,
                place,
                [float(budget) for budget in table.budgets],
                [cell.solved for cell in row],
                low=[cell.low for cell in row],
                high=[cell.high for cell in row],
            )
            for title, place, row in zip(table.titles, table.places, table.cells, strict=True)
        ]
        charts.append(
            plain_chart(
                f"Solved within {UNIT_NAMES[table.unit]}",
                f"share of {table.problems:,} problems, 95 % intervals over problems; "
                f"{table.unjudged:,} attempts unjudged, left out",
                series,
                holder="budget-charts",
                axis=f"{UNIT_NAMES[table.unit]} a problem",
                log=True,
            )
        )
    return charts


def render_table(table: BudgetTable) -> str:
    """The figures of the curve, folded away."""
    heads = "".join(f"<th>{escape(title)}</th>" for title in table.titles)
    rows = ""
    for number, budget in enumerate(table.budgets):
        cells = "".join(f"<td>{_render_cell(row[number])}</td>" for row in table.cells)
        rows += f'<tr><th scope="row">{budget:,}</th>{cells}</tr>'
    name = UNIT_NAMES[table.unit]
    return (
        f'<details class="card"><summary><span class="id">By {name}</span>'
        f'<span class="dim">{table.problems:,} problems, percent solved within a budget</span>'
        f'</summary><div class="scroll inset"><table><thead><tr><th>{name.capitalize()}'
        f"</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _render_cell(cell: Point) -> str:
    text = f'<span class="value">{100 * cell.solved:.1f}</span>'
    text += f'<span class="sub">{100 * cell.low:.1f}–{100 * cell.high:.1f}</span>'
    if gap := cell.against_first:
        value, low, high = (signed(100 * part) for part in (gap.value, gap.low, gap.high))
        text += f'<span class="sub">{value} [{low}, {high}]</span>'
    if cell.ran_out:
        text += f'<span class="sub lost">{100 * cell.ran_out:.1f} % out of attempts</span>'
    return text
