"""How long Lean takes for a proof of which only the last tactic changed, one way of asking it after
another: ``python scripts/measure_lean_prefix.py``. Needs a Lean (``PROVERRL_LEAN``).

A proof of 14 tactics is judged again and again. ``last`` changes its last tactic, ``first`` its
first, so that nothing of the proof can be kept. Printed are medians in milliseconds.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from proverrl.lang.lean.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.workers.toolchain import find_lean_toolchain
from proverrl.lang.lean.workers.worker import LeanWorker
from proverrl.types import HOLE, Candidate, Problem

PROBLEM = Problem(
    "sum",
    "lean",
    "tactics",
    "",
    f"theorem sum (a b c d e f : Nat) (h : a < b) (g : b < c) : a + d < c + d := by\n  {HOLE}\n",
)
STEPS = 13
NUM_RUNS = 30


def write_body(first: int, last: int) -> str:
    """A proof with numbers in its first and last tactic that make it a new text."""
    steps = [f"have s0 : a + {first} < c + {first} := by omega"]
    steps += [f"have s{n} : a * {n + 1} + b ≤ b + {n + 1} * a := by omega" for n in range(1, STEPS)]
    steps.append(f"have t : {last} = {last} := rfl; omega")
    return "\n  ".join(steps)


async def measure(backend: str, *, trace_states: bool, changes_first: bool) -> float:
    """The median of the milliseconds for a verdict."""
    toolchain = find_lean_toolchain(backend)
    limits = LeanLimits(trace_states=trace_states)
    worker = await LeanWorker.start(toolchain, limits, KnownStatements())
    seconds = []
    for number in range(NUM_RUNS + 2):
        body = write_body(number, 0) if changes_first else write_body(0, number)
        started = time.perf_counter()
        verdict = await worker.judge(Candidate(PROBLEM, body))
        seconds.append(time.perf_counter() - started)
        assert verdict.proved, verdict.diagnostics
    worker.kill()
    await worker.join()
    # The first two start a process and find out our own statement's type.
    return 1000 * statistics.median(seconds[2:])


async def main() -> None:
    """Print the medians."""
    for backend, traces in (("lean-server", False), ("lean-server", True), ("lean-file", False)):
        for changes_first in (False, True):
            found = await measure(backend, trace_states=traces, changes_first=changes_first)
            name = f"{backend}{' with states' if traces else ''}"
            print(f"{name:24} {'first' if changes_first else 'last':6} {found:8.1f} ms")


if __name__ == "__main__":
    asyncio.run(main())
