"""Theorems of a Lean repository that lean-dojo traced: ``leandojo:URL@COMMIT`` or a local path.

Flows in: the place of the repository. Flows out: a ``Collection`` with a problem for each theorem
that has a proof by tactics. Its preamble is the file before the theorem, its reference that proof.
lean-dojo is the extra ``leandojo`` and is imported here only. It traces with the repository's own
Lean, which takes long the first time. This adapter has met a stand-in with lean-dojo 4's names, no
real trace. LeanDojo: Yang et al. 2023, arXiv 2306.15626.
Not covered (refused): theorems whose proof is a term; theorems of other packages.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from proverrl.benchmarks.base import Collection, Collector, RawBenchmark
from proverrl.benchmarks.lean_text import LeanText, add_lean
from proverrl.errors import ProblemError
from proverrl.files.extras import require_module
from proverrl.files.lines import read_text

LEANDOJO_PREFIX = "leandojo:"


def read_traced(place: str) -> Collection:
    """All theorems of the repository at ``place``. Raises ``UsageError`` if lean-dojo is not
    installed, ``ProblemError`` if the repository cannot be named."""
    require_module("lean_dojo", f"{LEANDOJO_PREFIX}{place}")
    lean_dojo = import_module("lean_dojo")
    url, at, commit = place.rpartition("@")
    if Path(place).exists():
        repository = lean_dojo.LeanGitRepo.from_path(place)
    elif at and url:
        repository = lean_dojo.LeanGitRepo(url, commit)
    else:
        raise ProblemError(
            f"leandojo:{place}: write leandojo:URL@COMMIT or the path of a repository"
        )
    traced = lean_dojo.trace(repository)
    collector = Collector(RawBenchmark(place, None), "lean_files", origin=place)
    for theorem in traced.get_traced_theorems():
        name = str(theorem.theorem.full_name)
        where = f"{theorem.theorem.file_path}:{theorem.start.line_nb}"
        with collector.reading(name, where):
            given = _read_theorem(Path(traced.root_dir), theorem, name, where)
            add_lean(collector, given)
    return collector.finish()


def _read_theorem(root: Path, theorem: Any, name: str, where: str) -> LeanText:
    if not theorem.has_tactic_proof():
        raise ProblemError("its proof is a term, not tactics")
    text = read_text(root / str(theorem.theorem.file_path))
    lines = text.split("\n")
    proof = theorem.get_tactic_proof()
    node = theorem.get_proof_node()
    start, cut = _find_place(lines, theorem.start), _find_place(lines, node.start)
    head = text[start:cut].rstrip()
    head = head if head.endswith(("by", ":=")) else f"{head} := by"
    return LeanText(name, where, text[:start] + head, proof=None if proof is None else str(proof))


def _find_place(lines: list[str], position: Any) -> int:
    """lean-dojo counts lines and columns from 1."""
    before = sum(len(line) + 1 for line in lines[: position.line_nb - 1])
    return int(before + position.column_nb - 1)
