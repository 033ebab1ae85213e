"""Curricula against uniform draws on a simulated learner (``tests.lab.simulated_learner``).

    PYTHONPATH=. python scripts/lab/measure_curricula.py --seeds 20

No policy and no verifier: a figure of this table says whether a curriculum finds what teaches, no
more.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from proverrl.config import CurriculumConfig
from proverrl.curriculum.sampler import CURRICULA
from tests.lab.simulated_learner import WORLDS, compare_curricula


def measure_curricula(seeds: int) -> dict[str, Any]:
    """Every curriculum with its default settings in every world."""
    own = [f"proverrl.lab.curricula:{name}" for name in ("MoppsCurriculum", "CbrlCurriculum")]
    configs = [CurriculumConfig(name=name) for name in (*CURRICULA, *own)]
    rows = compare_curricula(configs, worlds=WORLDS, seeds=range(seeds))
    return {"rows": [asdict(row) for row in rows], "seeds": seeds}


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Curricula on a simulated learner.")
    parser.add_argument("--seeds", type=int, default=20, help="learners for each curriculum")
    Console().print(make_table(measure_curricula(parser.parse_args().seeds)))
