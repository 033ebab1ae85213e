"""Prints a table of whether a self-play run's problems got harder and whether its solver kept up.

Usage: python scripts/check_difficulty.py RUN [--policy UNTRAINED] [--samples 4] [--rounds 0 5 9]

For the problems that the guards kept in each round, it shows the solve rates of the solver as it
was when self-play began, of the solver of that round (from the archive), and of the solver as it is
now. After a stop, the same command continues.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from proverrl.loops.difficulty_check import check_difficulty, render_table


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the folder of a self-play run")
    parser.add_argument("--policy", type=Path, help="weights to begin with, if not the run's own")
    parser.add_argument("--samples", type=int, default=4, help="attempts a problem")
    parser.add_argument("--rounds", type=int, nargs="+", default=(), help="these rounds only")
    parser.add_argument("--per-row", type=int, default=1, help="rounds that make a row")
    parser.add_argument("--out", type=Path, help="where attempts are kept, RUN/difficulty if not")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    rows = asyncio.run(
        check_difficulty(
            given.run,
            out=given.out,
            untrained=given.policy,
            samples=given.samples,
            rounds=given.rounds,
            per_row=given.per_row,
            overrides=given.set,
        )
    )
    print(render_table(rows))


if __name__ == "__main__":
    main()
