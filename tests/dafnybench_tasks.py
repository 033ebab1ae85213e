"""Real tasks as annotate problems, where the file of them is present."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from proverrl.benchmarks.base import Collector, open_source
from proverrl.benchmarks.programs import read_dafnybench_rows
from proverrl.lang.dafny.audit.annotated import get_program_text
from proverrl.types import Problem

TASKS = Path(__file__).parents[2] / "shared" / "data" / "dafnybench_tasks.jsonl"


@dataclass(frozen=True, slots=True)
class Task:
    """A problem, its program without hints, and the one with hints that proves it."""

    problem: Problem
    blank: str
    truth: str


def read_tasks(path: Path = TASKS, *, repaired: bool = True) -> list[Task]:
    """All tasks of a file; ``repaired`` False leaves the lost bodies lost."""
    collector = Collector(open_source(path), "dafnybench_tasks", origin="dafnybench-tasks")
    read_dafnybench_rows(collector, repaired=repaired)
    return [
        Task(entry.problem, get_program_text(entry.problem), entry.reference or "")
        for entry in collector.finish().entries
    ]
