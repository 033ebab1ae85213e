"""Real tasks as annotate problems, where the file of them is present.

Two things stand between the file and a statement that can be kept to the token. The shim that made
the ``for`` loops of some programs readable for Dafny 2.3 numbered its variables anew in each text.
And in two programs the removal of hints took the only line of a function's body with it: without
it the contract means nothing, and no hint may bring it back, so it is ours to restore.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from proverrl.types import ANNOTATE, HOLE, Problem

TASKS = Path(__file__).parents[2] / "shared" / "data" / "dafnybench_tasks.jsonl"

_LOST_BODY = "{if (n == 0) then 1 else a * power(a, n - 1)}"
# The last line that is left of the function, for each such program.
_BODY_WAS_LOST = {
    "cs245-verification_tmp_tmp0h_nxhqp_A8_Q1": "  requires 0 <= n;\n",
    "cs245-verification_tmp_tmp0h_nxhqp_power": "  requires 0 <= a && 0 <= n;\n",
}


@dataclass(frozen=True, slots=True)
class Task:
    """A problem, its program without hints, and the one with hints that proves it."""

    problem: Problem
    blank: str
    truth: str


def read_tasks(path: Path = TASKS, *, repaired: bool = True) -> list[Task]:
    """All tasks of a file; ``repaired`` False leaves the lost bodies lost."""
    tasks = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        blank, truth = row["hints_removed"], row["ground_truth"]
        if row["dialect"] != "raw":
            blank, truth = _number_in_order(blank), _number_in_order(truth)
        if repaired and (head := _BODY_WAS_LOST.get(row["id"])):
            assert blank.count(head) == 1
            assert _LOST_BODY in truth
            blank = blank.replace(head, head + _LOST_BODY + "\n")
        problem = Problem(row["id"], "dafny", ANNOTATE, "", f"{blank}\n{HOLE}")
        tasks.append(Task(problem, blank, truth))
    return tasks


def _number_in_order(text: str) -> str:
    seen: dict[str, int] = {}
    return re.sub(r"\b(st|lim)\d+\b", lambda m: f"{m[1]}{seen.setdefault(m[0], len(seen))}_", text)
