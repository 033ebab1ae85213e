"""Reads a run folder into one record, whatever stage the run is in.

Flows in: resolved.json, metrics.jsonl, rollouts/, evals/, files of problems. Flows out:
``RunRecord``. A missing piece is an empty value; a folder that is no run, or a damaged file, is a
RunError. Attempts, problems and rollouts, whose files are long, are read when first asked for.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NotRequired

from pydantic import TypeAdapter, with_config
from typing_extensions import TypedDict

from proverrl.config.loops import known_traits
from proverrl.errors import RunError, UsageError
from proverrl.evaluation.attempts import read_summary
from proverrl.evaluation.tally import StoredEvaluation, count_reason
from proverrl.files.disk import refuse_inside
from proverrl.files.lines import (
    EVALS_FOLDER,
    METRICS_FILE,
    RESOLVED_FILE,
    ROLLOUTS_FOLDER,
    ROW,
    iter_typed_lines,
    only_evaluates,
    read_row,
)
from proverrl.monitor.metrics import RESTORE, Count, LimitUse, Number, read_limits, read_metrics
from proverrl.monitor.rollout_rows import ProblemRow, iter_rollouts

TEXT_FIELDS = ("id", "level", "family", "language", "preamble", "statement")
_ROLLOUT_NAME = re.compile(r"step_(\d+)\.jsonl")

Row = dict[str, Any]


class _Amount(TypedDict):
    steps: NotRequired[Count]
    rounds: NotRequired[Count]


class _TrainingRow(TypedDict):
    loop: NotRequired[str]
    max_verifier_calls: NotRequired[Count]
    max_minutes: NotRequired[Number]
    grpo: NotRequired[_Amount | None]
    expert_iteration: NotRequired[_Amount | None]
    problems: NotRequired[dict[str, Any] | None]


@with_config(ROW)
class _ResolvedRow(TypedDict):
    config: NotRequired[_TrainingRow]


_RESOLVED = TypeAdapter(_ResolvedRow)
_PROBLEM = TypeAdapter(with_config(ROW)(ProblemRow))


def iter_problems(file: Path) -> Iterator[Row]:
    """The problems of a file, as rows."""
    return (row for _, _, row in iter_typed_lines(file, _PROBLEM, RESTORE))


@dataclass(frozen=True)
class RunRecord:
    """Everything that the report needs of one run. ``step_files`` are its rollouts by step."""

    path: Path
    label: str
    resolved: Row
    metrics: Sequence[Row]
    evaluations: Mapping[str, StoredEvaluation]
    step_files: Mapping[int, Path] = field(default_factory=dict)

    @cached_property
    def problems(self) -> Mapping[str, Row]:
        """The texts of the evaluated problems, as far as they are found."""
        return _find_problems(self.resolved, list(self.evaluations.values()), self.path)

    @cached_property
    def last_reasons(self) -> Mapping[str, int]:
        """The reasons why rollouts of the newest step were not judged, each with its count."""
        reasons: Counter[str] = Counter()
        if self.step_files:
            for row in iter_rollouts(self.step_files[max(self.step_files)]):
                count_reason(reasons, row)
        return reasons

    @property
    def config(self) -> Row:
        return dict(self.resolved.get("config") or {})

    @property
    def steps(self) -> list[Row]:
        """The lines of optimizer steps or of expert-iteration rounds."""
        return [row for row in self.metrics if row.get("kind") in ("step", "round")]

    @property
    def limits(self) -> list[LimitUse]:
        """The limits that are set, the most used first; none before the first step."""
        uses = read_limits(self.config).list_uses(self.steps[-1]) if self.steps else []
        return sorted(uses, key=lambda use: -use.share)

    @property
    def only_evaluates(self) -> bool:
        """True when nothing was trained here."""
        return only_evaluates(self.path)

    @property
    def loop(self) -> str:
        """The training's loop; empty when there was none."""
        return "" if self.only_evaluates else str(self.config.get("loop") or "")

    @property
    def title(self) -> str:
        """The title of the loop, or of the evaluation without one."""
        return "evaluation" if self.only_evaluates else known_traits(self.loop).title

    @property
    def seconds(self) -> float:
        return max((float(row.get("seconds") or 0.0) for row in self.metrics), default=0.0)

    @property
    def verifier_calls(self) -> int:
        """Verifier calls of the loop so far, without those of evaluations."""
        return max((int(row.get("verifier_calls_total") or 0) for row in self.steps), default=0)

    @property
    def before(self) -> StoredEvaluation | None:
        return self.evaluations.get("before")

    @property
    def after(self) -> StoredEvaluation | None:
        return self.evaluations.get("after")

    @property
    def others(self) -> list[StoredEvaluation]:
        """Evaluations under other names, such as those that were asked for after the run."""
        known = ("before", "after")
        return [item for name, item in self.evaluations.items() if name not in known]


def choose_place(run_dirs: Sequence[Path], out: Path | None) -> Path:
    """The place of a report: ``out``, or in the first run's folder. Raises UsageError: ``out`` ends
    in something else than .html, or lies in a run's folder and is not called report."""
    if out is None:
        return Path(run_dirs[0]) / "report.html"
    if out.suffix != ".html":
        raise UsageError(f"{out}: a report is written as .html; give such a name")
    refuse_inside(out, *map(Path, run_dirs), but="report")
    return out


def load_runs(run_dirs: Sequence[Path]) -> list[RunRecord]:
    """Read every folder; labels are told apart by loop, else by folder name."""
    if not run_dirs:
        raise RunError("a report needs at least one run folder")
    paths = [Path(path) for path in run_dirs]
    resolved = [_read_resolved(path) for path in paths]
    loops = [
        "evaluation" if only_evaluates(path) else str((item.get("config") or {}).get("loop") or "")
        for path, item in zip(paths, resolved, strict=True)
    ]
    # "evaluation" stands for a loop where nothing was trained.
    titles = [known_traits(loop).title for loop in loops]
    if len(set(titles)) != len(titles) or not all(titles):
        titles = [path.resolve().name for path in paths]
    if len(set(titles)) != len(titles):
        titles = [str(path) for path in paths]
    runs = []
    for path, label, item in zip(paths, titles, resolved, strict=True):
        metrics = read_metrics(path)
        evaluations = _read_evaluations(path, metrics)
        runs.append(RunRecord(path, label, item, metrics, evaluations, find_step_files(path)))
    return runs


def _read_resolved(path: Path) -> Row:
    if not path.is_dir():
        raise RunError(f"{path}: no such run folder")
    file = path / RESOLVED_FILE
    if not file.exists():
        if not (path / METRICS_FILE).exists():
            raise RunError(
                f"{path} is not a run folder: expected {RESOLVED_FILE} and {METRICS_FILE} in it, "
                "as `proverrl train` writes them"
            )
        return {}
    return read_row(file, _RESOLVED, RESTORE)


def _read_evaluations(path: Path, metrics: Sequence[Row]) -> dict[str, StoredEvaluation]:
    """All evaluations, in the order in which they were logged, then by name."""
    logged = [str(row.get("name")) for row in metrics if row.get("kind") == "eval"]
    found = {file.stem: file for file in sorted((path / EVALS_FOLDER).glob("*.json"))}
    place = {name: number for number, name in enumerate(logged)}
    order = sorted(found, key=lambda name: (name != "before", place.get(name, len(logged))))
    return {name: StoredEvaluation(found[name], read_summary(found[name])) for name in order}


def find_step_files(run: Path) -> dict[int, Path]:
    """The files of a run's rollouts by step, oldest first."""
    found = {}
    for file in (run / ROLLOUTS_FOLDER).glob("step_*.jsonl"):
        match = _ROLLOUT_NAME.fullmatch(file.name)
        if match:
            found[int(match[1])] = file
    return dict(sorted(found.items()))


def _find_problems(
    resolved: Row, evaluations: Sequence[StoredEvaluation], path: Path
) -> dict[str, Row]:
    """Texts of the evaluated problems, from the attempts themselves or the benchmark's file."""
    config = resolved.get("config") or {}
    problems: dict[str, Row] = {}
    read: set[Path] = set()
    for evaluation in evaluations:
        problems |= evaluation.attempts.texts
        wanted = evaluation.problems.keys()
        names = (
            evaluation.summary.get("benchmark"),
            (config.get("problems") or {}).get(str(evaluation.summary.get("split"))),
        )
        for name in names:
            file = existing_file(name, path)
            if file is None or file in read or wanted <= problems.keys():
                continue
            read.add(file)
            for row in iter_problems(file):
                texts = {name: row[name] for name in TEXT_FIELDS if name in row}
                problems.setdefault(row["id"], texts)
    return problems


def existing_file(name: Any, run_dir: Path) -> Path | None:
    """A benchmark's file, relative to the working folder or to the run folder."""
    if not isinstance(name, str) or not name.endswith(".jsonl"):
        return None
    for file in (Path(name), Path(os.path.join(run_dir, name))):
        if file.is_file():
            return file
    return None


def unjudged_counts(value: Any) -> dict[str, int]:
    """Counts by kind; a bare number (no kinds known) is filed under "unjudged"."""
    if isinstance(value, Mapping):
        return {str(kind): int(count) for kind, count in value.items() if count}
    return {"unjudged": int(value)} if value else {}
