"""Solve rate against what was spent, for evaluations on one benchmark.

Flows in: shelves of columns. Flows out: for each unit the share of the common problems solved
within each budget, with intervals over problems and differences from the first column, paired by
problem. Not handled here: how spending is counted (``proverrl.evaluation.budgets``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

UNIT_NAMES: dict[BudgetUnit, str] = {
    "turns": "completions",
    "calls": "verifier calls",
    "tokens": "tokens written",
}
_NO_TOKENS = "the endpoint did not report how many tokens it wrote."


@dataclass(frozen=True, slots=True)
class BudgetTable:
    """``cells[column][budget]``. ``problems`` are those that every column has a cost for,
    ``unjudged`` the attempts at them that were left out, all columns together."""

    unit: BudgetUnit
    titles: list[str]
    places: Sequence[int]
    budgets: Sequence[int]
    cells: Sequence[Sequence[Point]]
    problems: int
    unjudged: int

    @property
    def unit_name(self) -> str:
        return UNIT_NAMES[self.unit]

    @property
    def rows(self) -> list[tuple[Point, ...]]:
        """The cells by budget."""
        return list(zip(*self.cells, strict=True))


def build_tables(shelf: Shelf) -> tuple[list[BudgetTable], list[str]]:
    """A table a unit, and sentences about what has none."""
    tables = []
    missing: list[str] = []
    for unit in UNITS:
        spendings: dict[int, dict[str, Spending]] = {}
        for place, column in enumerate(shelf.columns):
            spending = measure_spending(column.evaluation.problems, unit)
            if spending is not None:
                spendings[place] = spending
            else:
                # Only tokens can be unknown.
                missing.append(column.title)
        table = _build_table(shelf, unit, spendings)
        if table is not None:
            tables.append(table)
    return tables, [f"{', '.join(missing)}: {_NO_TOKENS}"] if missing else []


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


def build_budget_charts(tables: Sequence[BudgetTable]) -> list[Chart]:
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
                f"Solved within {table.unit_name}",
                f"share of {table.problems:,} problems, 95 % intervals over problems; "
                f"{table.unjudged:,} attempts unjudged, left out",
                series,
                holder="budget-charts",
                axis=f"{table.unit_name} a problem",
                log=True,
            )
        )
    return charts
