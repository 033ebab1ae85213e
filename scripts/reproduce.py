"""Runs the command behind a figure of docs/results.md again and compares.

Usage: python scripts/reproduce.py NAME [SEED ...]       (without a NAME: the list)

For each seed it prints the recorded figures and the new ones, and whether the new one lies in the
recorded interval, which is over problems and does not include the noise of training. A run is kept
in runs/reproduce/NAME-SEED: the same command again continues it, or only prints. The exit status is
1 when a figure lies outside its interval.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("runs/reproduce")

Recorded = tuple[float, float, float]
"""A pass rate in percent, and its 95 % interval."""


@dataclass(frozen=True)
class Figure:
    """What is trained, and pass@1 on held-out problems before and after, by seed; of the line
    ``level`` of the evaluation. ``calls`` is the limit of verifier calls where seeds differ."""

    config: str
    settings: tuple[str, ...]
    before: dict[int, Recorded]
    after: dict[int, Recorded]
    calls: dict[int, int] | None = None
    level: str = "all"
    afterwards: tuple[str, ...] = ()
    """Commands after the training, of the run in {run}, that write the evaluation ``after``."""

    def list_settings(self, seed: int) -> list[str]:
        """Those of the command for this seed."""
        limit = [] if self.calls is None else [f"max_verifier_calls={self.calls[seed]}"]
        return [*self.settings, *limit, f"seed={seed}"]


_DEMO_BEFORE = {0: (36.0, 30.1, 41.9), 1: (34.6, 28.8, 40.4), 2: (32.0, 25.8, 38.2)}
FIGURES = {
    "demo": Figure(
        "configs/demo.toml",
        (),
        _DEMO_BEFORE,
        {0: (48.5, 41.6, 55.3), 1: (49.0, 42.2, 55.9), 2: (50.2, 43.2, 57.3)},
    ),
    "lean": Figure(
        "configs/lean.toml",
        (),
        {0: (21.0, 15.4, 27.7), 1: (22.9, 17.1, 29.5), 2: (18.2, 13.0, 24.4)},
        {0: (38.3, 30.6, 46.3), 1: (40.1, 32.4, 48.3), 2: (40.2, 32.5, 48.3)},
    ),
    "grpo": Figure(
        "configs/grpo.toml",
        (),
        {0: (33.9, 28.9, 39.1), 1: (34.6, 29.6, 39.7), 2: (30.4, 25.3, 35.8)},
        {0: (66.9, 60.6, 73.0), 1: (69.6, 63.5, 75.4), 2: (69.3, 63.1, 75.3)},
    ),
    "expert_iteration": Figure(
        "configs/expert_iteration.toml",
        ("evaluation.max_problems=150",),
        _DEMO_BEFORE,
        {0: (51.2, 44.4, 58.1), 1: (48.4, 41.6, 55.3), 2: (47.2, 40.2, 54.2)},
        calls={0: 2341, 1: 2260, 2: 2445},
    ),
    "critic": Figure(
        "configs/critic.toml",
        (),
        {0: (72.2, 66.9, 76.9), 1: (74.6, 69.5, 79.1), 2: (71.6, 66.4, 76.4)},
        {0: (72.8, 67.5, 77.5), 1: (74.9, 70.0, 79.2), 2: (73.7, 68.5, 78.2)},
        level="balanced",
    ),
    "critic_formaliser": Figure(
        "configs/critic_formaliser.toml",
        (),
        {},
        {0: (91.5, 87.7, 94.2), 1: (93.3, 89.8, 95.7), 2: (92.1, 88.5, 94.7)},
        level="balanced",
        afterwards=(
            "proverrl fit-critic {run} dafny/critiques/valid.jsonl --out {run}/critic",
            "proverrl eval configs/critic.toml --set policy.path={run}/critic --set run={run} "
            "--benchmark dafny/critiques/heldout.jsonl --name after -k 1",
        ),
    ),
}


def train(figure: Figure, seed: int, run: Path) -> None:
    """Run it, or continue it; a finished run stays as it is."""
    settings = [part for key in figure.list_settings(seed) for part in ("--set", key)]
    command = ["proverrl", "train", figure.config, "--run", str(run), *settings]
    for each in (command, *(text.format(run=run).split() for text in figure.afterwards)):
        print("$", *each, flush=True)
        subprocess.run(each, check=True)


def read_rate(path: Path, level: str) -> float:
    """Pass@1 of a line, in percent."""
    (row,) = (row for row in json.loads(path.read_text())["levels"] if row["level"] == level)
    return 100 * float(row["pass"]["1"]["value"])


def compare(seed: int, when: str, new: float, recorded: Recorded) -> bool:
    """Print both figures; whether the new one lies in the interval."""
    value, low, high = recorded
    inside = low <= new <= high
    said = "inside" if inside else "OUTSIDE"
    old = f"{value:.1f} [{low:.1f}, {high:.1f}]"
    print(f"seed {seed}, pass@1 {when}: recorded {old}, new {new:.1f}, {said}")
    return inside


def main() -> None:
    """See the module."""
    if len(sys.argv) < 2 or sys.argv[1] not in FIGURES:
        print(__doc__)
        for name, figure in FIGURES.items():
            print(f"{name}: {figure.config}, seeds {', '.join(map(str, figure.after))}")
        sys.exit(2)
    name = sys.argv[1]
    figure = FIGURES[name]
    seeds = [int(seed) for seed in sys.argv[2:]] or list(figure.after)
    if unknown := [seed for seed in seeds if seed not in figure.after]:
        sys.exit(f"{name} has no recorded figure for seed {unknown[0]}")
    good = True
    for seed in seeds:
        run = FOLDER / f"{name}-{seed}"
        train(figure, seed, run)
        for when, recorded in (("before", figure.before), ("after", figure.after)):
            if seed in recorded:
                new = read_rate(run / "evals" / f"{when}.json", figure.level)
                good &= compare(seed, when, new, recorded[seed])
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
