"""Curricula against uniform draws on a simulated learner (``proverrl.curriculum.simulate``).

Flows in: names of curricula and a number of seeds. Flows out: a table. Not handled here: a real
policy; a figure of this table says whether a curriculum finds what teaches, no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from proverrl.config import CurriculumConfig, CurriculumName
from proverrl.curriculum.sampler import CURRICULA
from proverrl.curriculum.simulate import WORLDS, compare_curricula


def measure_curricula(
    *,
    names: Sequence[CurriculumName] = (),
    worlds: Sequence[str] = (),
    seeds: int = 20,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Every curriculum (or ``names``) with its default settings in every world (or ``worlds``)."""
    configs = [CurriculumConfig(name=name) for name in names or CURRICULA]
    rows = []
    for title in worlds or WORLDS:
        say(f"{title}: {len(configs)} curricula, {seeds} seeds")
        found = compare_curricula(configs, worlds={title: WORLDS[title]}, seeds=range(seeds))
        rows += [asdict(row) for row in found]
    return {"rows": rows, "seeds": seeds, "worlds": {k: asdict(v) for k, v in WORLDS.items()}}


def make_table(results: dict[str, Any]) -> Table:
    """The figures, one row a world and curriculum."""
    table = Table(
        title=f"a simulated learner after the same number of groups; means over "
        f"{results['seeds']} seeds, 95 % intervals over seeds"
    )
    heads = ("world", "curriculum", "solves at the end, %", "over the run, %", "mixed groups, %")
    for head in (*heads, "against uniform, points"):
        table.add_column(head, justify="left" if head in heads[:2] else "right")
    for row in results["rows"]:
        table.add_row(
            row["world"],
            row["name"],
            f"{100 * row['solved']:.1f}",
            f"{100 * row['mean_solved']:.1f}",
            f"{100 * row['mixed']:.1f}",
            _describe(row["difference"]),
        )
    return table


def _describe(gain: dict[str, float] | None) -> str:
    if gain is None:
        return "-"
    value, low, high = (100 * gain[name] for name in ("value", "low", "high"))
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"
