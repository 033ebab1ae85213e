"""The archive of composed problems as the report shows it: a picture, and what a click tells.

Flows in: a run's ``archive.jsonl`` and training file. Flows out: SVG text, a packed piece with the
problems that are drawn, an example of what each guard stopped.
Not handled here: what the page does with them (``lineage.js``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from proverrl.compose.archive import ARCHIVE_FILE, ProblemArchive
from proverrl.compose.archive_picture import choose_newest, draw_archive
from proverrl.report.embedded import Piece, pack_json
from proverrl.report.run import Row, RunRecord, existing_file
from proverrl.report.run_rows import iter_problems

MAX_TEXT_CHARS = 4000


@dataclass(frozen=True, slots=True)
class Lineage:
    """A run's archive: its picture, the piece with the problems of the picture by id, and of each
    guard the newest problem that it stopped."""

    label: str
    picture: str
    piece: Piece
    examples: dict[str, Row]


def build_lineages(runs: Iterable[RunRecord]) -> list[Lineage]:
    """Of each run that has an archive. Raises RunError for a damaged one."""
    found: list[Lineage] = []
    for run in runs:
        path = run.path / ARCHIVE_FILE
        if path.is_file():
            archive = ProblemArchive.read(path)
            found.append(_build(run, archive, Piece(f"lineage-{len(found)}", "")))
    return found


def _build(run: RunRecord, archive: ProblemArchive, piece: Piece) -> Lineage:
    drawn = choose_newest(archive)
    base = [name for name in drawn if name not in archive]
    problems = {name: {"operator": "base"} for name in base}
    problems |= {name: {"operator": "base", **row} for name, row in _read_base(run, base).items()}
    problems |= {name: _describe(archive, name) for name in drawn if name in archive}
    examples = {}
    for composed in archive:
        name = composed.problem.id
        if guard := archive.facts(name).get("stopped_by"):
            examples[str(guard)] = _describe(archive, name) | {"id": name}
    picture = draw_archive(archive, drawn)
    return Lineage(run.label, picture, Piece(piece.name, pack_json(problems)), examples)


def _describe(archive: ProblemArchive, name: str) -> Row:
    composed, facts = archive.get(name), archive.facts(name)
    problem = composed.problem
    known = (
        "solve_rate",
        "modified",
        "reward",
        "stopped_by",
        "reason",
        "unchecked",
        "repeats",
        "negation_of",
    )
    return {
        "operator": composed.operator,
        "parents": list(composed.parents),
        "round": composed.round,
        **{key: facts[key] for key in known if facts.get(key) is not None},
        **_cut(problem.preamble, problem.statement),
        "language": problem.language,
    }


def _read_base(run: RunRecord, names: list[str]) -> dict[str, Row]:
    """The texts of base problems, where the training file is still there."""
    file: Path | None = existing_file((run.config.get("problems") or {}).get("train"), run.path)
    if file is None or not names:
        return {}
    wanted, found = set(names), {}
    for row in iter_problems(file):
        if row["id"] in wanted:
            text = _cut(row.get("preamble", ""), row.get("statement", ""))
            found[row["id"]] = {**text, "language": row.get("language", "")}
    return found


def _cut(preamble: str, statement: str) -> Row:
    """Both texts, with a count of what is too long to travel in the page."""
    kept = statement[:MAX_TEXT_CHARS]
    before = preamble[: MAX_TEXT_CHARS - len(kept)]
    cut = len(preamble) + len(statement) - len(before) - len(kept)
    return {"preamble": before, "statement": kept} | ({"cut": cut} if cut else {})
