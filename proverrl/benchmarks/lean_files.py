"""Folders of Lean files with one statement each: miniF2F (yangky11), PutnamBench, CombiBench.

Flows in: a folder, or one file. Flows out: a ``Collection``. PutnamBench gives the official answer
in a comment behind a blank, CombiBench in a second file ``with_solution/NAME_sol.lean``.
Not handled here: repositories whose files hold many theorems (``proverrl.benchmarks.leandojo``).
"""

from __future__ import annotations

from pathlib import Path

from proverrl.benchmarks.base import Collection, Collector, Source, read_text
from proverrl.benchmarks.lean_text import LeanText, add_lean
from proverrl.config.benchmarks import AnswerTask, BenchmarkLayout
from proverrl.types import Split

_SOLVED_FOLDER = "with_solution"
_SPLIT_FOLDERS: dict[str, Split] = {"valid": "valid", "test": "heldout"}


def explain_no_minif2f(source: Source) -> str:
    """Why a source is not a folder with ``Valid`` and ``Test``."""
    files = source.list_files(".lean")
    if not files:
        return "it holds no .lean file"
    if any(path.parent.name.lower() not in _SPLIT_FOLDERS for path in files if _is_one(path)):
        return "its .lean files do not stand in folders called Valid and Test"
    return ""


def explain_no_putnam(source: Source) -> str:
    """Why a source is not a folder of ``putnam_YEAR_PLACE.lean``."""
    files = source.list_files(".lean")
    if not files:
        return "it holds no .lean file"
    other = next((path for path in files if not path.name.startswith("putnam_")), None)
    return f"{other.name} is not called putnam_..." if other else ""


def explain_no_combibench(source: Source) -> str:
    """Why a source is not CombiBench's folder: its name, or a ``with_solution`` in it, says so."""
    files = source.list_files(".lean")
    if not files:
        return "it holds no .lean file"
    folders = {part for path in files for part in path.parts[-3:-1]}
    known = folders & {"CombiBench", _SOLVED_FOLDER}
    return "" if known else f"no folder is called CombiBench or {_SOLVED_FOLDER}"


def explain_no_lean(source: Source) -> str:
    """Why a source holds no Lean files."""
    return "" if source.list_files(".lean") else "it holds no .lean file"


def read_lean_files(
    source: Source, layout: BenchmarkLayout, *, origin: str, answers: AnswerTask
) -> Collection:
    """One problem a file; the id is the file's name without its ending."""
    collector = Collector(layout, source)
    for path in source.list_files(".lean"):
        if not _is_one(path):
            continue
        with collector.reading(path.stem, str(path)):
            solved = _find_solved(path) if layout == "combibench" else None
            given = LeanText(
                name=path.stem,
                where=str(path),
                text=read_text(path),
                split=_SPLIT_FOLDERS.get(path.parent.name.lower(), "heldout"),
                solved=read_text(solved) if solved else "",
            )
            add_lean(collector, given, origin=origin, answers=answers)
    return collector.finish()


def _is_one(path: Path) -> bool:
    """Not a second form of another file, and not the build's own."""
    return path.parent.name != _SOLVED_FOLDER and path.name != "lakefile.lean"


def _find_solved(path: Path) -> Path | None:
    solved = path.parent / _SOLVED_FOLDER / f"{path.stem}_sol.lean"
    return solved if solved.exists() else None
