"""Which share of two checkpoints proves most on the validation split.

Flows in: two folders, the shares to try, a configuration. Flows out: an average for each share,
its evaluation, and the best one as ``policy``. What was evaluated before is not evaluated again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proverrl.config import Config
from proverrl.errors import RunError
from proverrl.evaluation.attempts import read_summary
from proverrl.loops.evaluate_run import evaluate_benchmarks
from proverrl.policy.loading import merge_policies


@dataclass(frozen=True, slots=True)
class SweepRow:
    """A share of the second checkpoint, and its pass@k by k."""

    alpha: float
    passes: dict[int, float]


async def sweep_alpha(
    first: Path, second: Path, alphas: Sequence[float], config: Config, out: Path
) -> list[SweepRow]:
    """Merge and evaluate for each share; the one with the best pass@k at the largest k (at the
    smallest k where those are equal) is copied to ``out/policy``."""
    rows = []
    for alpha in sorted(set(alphas)):
        name = f"alpha-{alpha:g}"
        folder = out / name
        if not (folder / "config.json").exists():
            merge_policies(first, second, alpha=alpha, out=folder)
        found = out / "evals" / f"{name}.json"
        if not found.exists():
            policy = config.policy.model_copy(update={"path": str(folder)})
            await evaluate_benchmarks(
                config.model_copy(update={"policy": policy, "run": out}),
                from_run=None,
                benchmarks={name: str(config.problems.valid)},
            )
        rows.append(SweepRow(alpha, _read_passes(found)))
    shutil.copytree(out / f"alpha-{find_best(rows).alpha:g}", out / "policy", dirs_exist_ok=True)
    return rows


def find_best(rows: Sequence[SweepRow]) -> SweepRow:
    """The row that proves most at the largest k, then at the smallest; of equals the first."""
    return max(rows, key=lambda row: (row.passes[max(row.passes)], row.passes[min(row.passes)]))


def _read_passes(path: Path) -> dict[int, float]:
    whole = next(level for level in read_summary(path)["levels"] if level["level"] == "all")
    found = {int(k): figure["value"] for k, figure in whole["pass"].items()}
    if None in found.values():
        raise RunError(f"{path}: too few attempts were judged to choose by; see its unjudged ones")
    return found
