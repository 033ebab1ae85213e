"""Folders of Lean files with one statement each: miniF2F (yangky11), PutnamBench, CombiBench.

Flows in: a ``Collector`` with its source. Flows out: its problems. PutnamBench gives the official
answer in a comment behind a blank, CombiBench in a file ``with_solution/NAME_sol.lean``.
Not handled here: repositories whose files hold many theorems (``proverrl.benchmarks.leandojo``).
"""

from __future__ import annotations

from pathlib import Path

from proverrl.benchmarks.base import Collector
from proverrl.benchmarks.lean_text import LeanText, add_lean
from proverrl.files.lines import read_text
from proverrl.types import Split

SOLVED_FOLDER = "with_solution"
SPLIT_FOLDERS: dict[str, Split] = {"valid": "valid", "test": "heldout"}


def read_lean_files(collector: Collector) -> None:
    """One problem a file; the id is the file's name without its ending."""
    for path in collector.source.list_files(".lean"):
        if not is_statement(path):
            continue
        with collector.reading(path.stem, str(path)):
            solved = path.parent / SOLVED_FOLDER / f"{path.stem}_sol.lean"
            is_solved = collector.format == "combibench" and solved.exists()
            given = LeanText(
                name=path.stem,
                where=str(path),
                text=read_text(path),
                split=SPLIT_FOLDERS.get(path.parent.name.lower(), "heldout"),
                solved=read_text(solved) if is_solved else "",
            )
            add_lean(collector, given, answers=collector.answers)


def is_statement(path: Path) -> bool:
    """Not a second form of another file, and not the build's own."""
    return path.parent.name != SOLVED_FOLDER and path.name != "lakefile.lean"
