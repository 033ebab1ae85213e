"""Composed problems and their results, in a file that only grows.

Flows in: ``Composed`` problems and facts about them (what stopped one, its solve rate). Flows out:
the problems again.
A line that was cut off in the middle by a crash is dropped when the file is opened; a line that is
damaged otherwise is an error. ``load_state_dict`` brings the file back to a checkpoint, and moves
what came later to a file beside it: nothing is lost.
Not handled here: who draws from the archive, two writers at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proverrl.errors import RecordError, RunError
from proverrl.files.disk import saving
from proverrl.problems.load import make_row
from proverrl.types import Problem

ARCHIVE_FILE = "archive.jsonl"
"""The name of a run's archive in its folder."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A problem that was made from others. ``reference`` is a body that may prove it, if known.

    ``parents`` are ids, of composed problems or of others; ``round`` counts from 0.
    """

    problem: Problem
    parents: tuple[str, ...]
    operator: str
    round: int
    seed: int
    reference: str | None = None

    def __post_init__(self) -> None:
        if not self.parents or self.problem.id in self.parents:
            raise RecordError(f"{self.problem.id!r}: a composed problem has parents, not itself")


class ProblemArchive:
    """Composed problems in the order in which they were added, with facts about them.

    ``path`` None keeps all in memory. Raises ``RunError`` when the file cannot be read.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lines: list[str] = []
        self._found: dict[str, Composed] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            for number, line in enumerate(_read_whole_lines(path), start=1):
                self._take(line, f"{path}, line {number}")

    @classmethod
    def read(cls, path: Path) -> ProblemArchive:
        """The archive as it stands in the file, in memory: the file may be growing, and stays as it
        is. Raises ``RunError`` when it cannot be read."""
        archive = cls()
        for number, line in enumerate(_read_whole_lines(path, cut=False), start=1):
            archive._take(line, f"{path}, line {number}")
        return archive

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, problem_id: object) -> bool:
        return problem_id in self._found

    def __iter__(self) -> Iterator[Composed]:
        return iter(self._found.values())

    def get(self, problem_id: str) -> Composed:
        """The composed problem of an id. Raises ``RunError`` when there is none."""
        try:
            return self._found[problem_id]
        except KeyError:
            raise RunError(f"the archive holds no problem {problem_id!r}") from None

    def facts(self, problem_id: str) -> Mapping[str, Any]:
        """The notes about a problem."""
        return self._facts.get(problem_id, {})

    def add(self, composed: Composed) -> bool:
        """Add a problem; False when it is there already, with the same text.

        Raises ``RecordError`` when its id belongs to another text.
        """
        known = self._found.get(composed.problem.id)
        if known is not None:
            if known.problem.statement != composed.problem.statement:
                raise RecordError(f"two composed problems have the id {composed.problem.id!r}")
            return False
        self._write({"type": "composed", **dump_composed(composed)})
        return True

    def note(self, problem_id: str, **facts: Any) -> None:
        """Add facts (JSON values) about a composed problem; later ones replace earlier ones."""
        if problem_id not in self._found:
            raise RecordError(f"the archive holds no problem {problem_id!r} to note facts about")
        self._write({"type": "facts", "id": problem_id, "facts": facts})

    def state_dict(self) -> dict[str, Any]:
        """The number of lines, and the hash of their text."""
        return {"num_lines": len(self._lines), "sha256": _hash(self._lines)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint. Later lines move to ``<name>.later`` beside the file.

        Raises ``RunError`` when the file does not begin with what the checkpoint had.
        """
        kept, later = self._lines[: state["num_lines"]], self._lines[state["num_lines"] :]
        if len(kept) < state["num_lines"] or _hash(kept) != state["sha256"]:
            raise RunError(
                f"{self._path}: the archive is not the one of the checkpoint, which had "
                f"{state['num_lines']} lines; put back the file of that run"
            )
        if later and self._path is not None:
            beside = self._path.with_name(self._path.name + ".later")
            with beside.open("a", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in later)
            partial = self._path.with_name(self._path.name + ".partial")
            partial.write_text("".join(line + "\n" for line in kept), "utf-8")
            partial.replace(self._path)
        self._lines, self._found, self._facts = [], {}, {}
        for number, line in enumerate(kept, start=1):
            self._take(line, f"{self._path}, line {number}")

    def _write(self, row: dict[str, Any]) -> None:
        line = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        self._take(line, "a new line")
        if self._path is not None:
            with saving(self._path):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8", newline="\n") as file:
                    file.write(line + "\n")

    def _take(self, line: str, where: str) -> None:
        try:
            row = json.loads(line)
            if row["type"] == "facts":
                self._facts.setdefault(row["id"], {}).update(row["facts"])
            else:
                composed = load_composed(row)
                self._found[composed.problem.id] = composed
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{where}: not a line of an archive ({error}); remove it") from error
        self._lines.append(line)


def dump_composed(composed: Composed) -> dict[str, Any]:
    """A composed problem as JSON values."""
    row = {
        "problem": make_row(composed.problem),
        "parents": list(composed.parents),
        "operator": composed.operator,
        "round": composed.round,
        "seed": composed.seed,
    }
    return row | ({} if composed.reference is None else {"reference": composed.reference})


def load_composed(row: Mapping[str, Any]) -> Composed:
    """The problem that ``dump_composed`` wrote."""
    return Composed(
        problem=Problem(**row["problem"]),
        parents=tuple(row["parents"]),
        operator=row["operator"],
        round=row["round"],
        seed=row["seed"],
        reference=row.get("reference"),
    )


def _read_whole_lines(path: Path, *, cut: bool = True) -> list[str]:
    """The lines that end in a line break; text after the last one is cut off the file."""
    try:
        raw = path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if cut and len(whole) < len(raw):
            with path.open("r+b") as file:
                file.truncate(len(whole))
        return whole.decode("utf-8").split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: cannot be read: {error}") from error


def _hash(lines: list[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode("utf-8") + b"\n")
    return digest.hexdigest()
