"""The lines of a run's ``metrics.jsonl``, each field that is read again checked.

Flows in: the file, whole or look by look while it is written, cut or replaced. Flows out: rows.
A damaged line of a whole file is a ``RunError``; one of a file that is being followed is counted
and passed over. Not handled here: what is drawn of the rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from proverrl.errors import UsageError
from proverrl.files.lines import EVALS_FOLDER, METRICS_FILE, ROW, iter_typed_lines
from proverrl.files.strict_json import load_json

Row = dict[str, Any]
STEP_KINDS = ("step", "round")
"""The lines of what a loop counts."""

RESTORE = "restore the file"
_LARGEST = 10**15

Number = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)] | None
Share = Annotated[float, Field(ge=0, le=1)] | None
Count = Annotated[int, Field(ge=0, le=_LARGEST)] | None
Counts = dict[str, Annotated[float, Field(ge=0, le=_LARGEST)]] | None
# A training that diverges has losses beyond any bound.
_Figure = float | None


class _LevelCounts(TypedDict):
    attempts: NotRequired[Number]
    solved: NotRequired[Number]


@with_config(ROW)
class _MetricsRow(TypedDict):
    kind: NotRequired[str]
    name: NotRequired[str]
    step: NotRequired[Count]
    seconds: NotRequired[Number]
    seconds_left: NotRequired[Number]
    solve_rate: NotRequired[Share]
    loss: NotRequired[_Figure]
    verified_per_second: NotRequired[_Figure]
    tokens_per_second: NotRequired[_Figure]
    verifier_queue: NotRequired[_Figure]
    staleness_mean: NotRequired[_Figure]
    staleness_max: NotRequired[_Figure]
    idle_generator_seconds: NotRequired[Number]
    idle_pool_seconds: NotRequired[Number]
    idle_learner_seconds: NotRequired[Number]
    idle_composer_seconds: NotRequired[Number]
    rollouts: NotRequired[Count]
    verdicts: NotRequired[Counts]
    unjudged: NotRequired[Count | Counts]
    fatal: NotRequired[Count]
    turns: NotRequired[Count]
    truncated: NotRequired[Count]
    truncated_share: NotRequired[Share]
    without_candidate: NotRequired[Count]
    without_candidate_share: NotRequired[Share]
    without_candidate_reason: NotRequired[str | None]
    composer_truncated_share: NotRequired[Share]
    composer_reward: NotRequired[_Figure]
    groups: NotRequired[Count]
    groups_solved: NotRequired[Count]
    groups_mixed: NotRequired[Count]
    groups_failed: NotRequired[Count]
    levels: NotRequired[dict[str, _LevelCounts] | None]
    verifier_calls_total: NotRequired[Count]
    statements_written: NotRequired[Count]
    statements_malformed: NotRequired[Count]
    statements_unchecked: NotRequired[Count]
    statements_kept: NotRequired[Count]
    filter_calls: NotRequired[Count]
    filter_stops: NotRequired[Counts]
    solve_rates: NotRequired[Counts]
    compose_warnings: NotRequired[list[str] | None]
    curriculum_drawn: NotRequired[Count]
    curriculum_levels: NotRequired[Counts]
    curriculum_families: NotRequired[Counts]
    curriculum_operators: NotRequired[Counts]


_METRICS = TypeAdapter(_MetricsRow)


def read_metrics(run: Path) -> list[Row]:
    """All lines, oldest first, but for a last one that is being written; an empty list when there
    is none yet. Raises RunError for a damaged line."""
    file = run / METRICS_FILE
    if not file.exists():
        return []
    return [row for _, _, row in iter_typed_lines(file, _METRICS, RESTORE)]


@dataclass(slots=True)
class MetricsTail:
    """Reads what the file gained since the last look. A last line without its newline is left for
    the next look; a whole line that is damaged is counted in ``bad_lines``."""

    path: Path
    bad_lines: int = 0
    _offset: int = 0
    _inode: int = 0

    def read(self) -> tuple[list[Row], bool]:
        """The new rows, and whether they begin anew: the file was replaced or cut, as a resumed run
        does to it. A file that is not there yet, or for the moment, has no rows."""
        try:
            if self.path.exists() and not self.path.is_file():
                raise UsageError(f"{self.path} is no file; name the folder of a run")
            with self.path.open("rb") as stream:
                found = os.fstat(stream.fileno())
                anew = found.st_ino != self._inode or found.st_size < self._offset
                if anew:
                    self._inode, self._offset, self.bad_lines = found.st_ino, 0, 0
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return [], False
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read: {error.strerror}") from error
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [row for line in whole.splitlines() if (row := self._parse(line))], anew

    def _parse(self, line: bytes) -> Row | None:
        if line.isspace() or not line:
            return None
        try:
            row: Row = load_json(line)
            _METRICS.validate_python(row)
        except (ValueError, ValidationError):
            self.bad_lines += 1
            return None
        return row


@dataclass(frozen=True, slots=True)
class LimitUse:
    """The used part of a limit. ``unit`` is plural: steps, rounds, verifier calls, minutes."""

    unit: str
    used: float
    most: float

    @property
    def share(self) -> float:
        return self.used / self.most

    def describe(self) -> str:
        """``3 of 40 steps``, ``1.5 of 7 minutes``."""
        used = f"{self.used:.1f}" if self.unit == "minutes" else f"{self.used:,.0f}"
        return f"{used} of {self.describe_most()}"

    def describe_most(self) -> str:
        """``40 steps``, ``7 minutes``."""
        return f"{self.most:,.10g} {self.unit}"


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of which the first ends a run; 0 is none. A loop counts steps or rounds."""

    steps: int = 0
    verifier_calls: int = 0
    minutes: float = 0.0
    rounds: int = 0

    def list_uses(self, row: Mapping[str, Any]) -> list[LimitUse]:
        """The limits that are set, and the used part of each in ``row``, a step or round."""
        left, kind = row.get("seconds_left"), row.get("kind", "step")
        found: list[tuple[str, float | None, float]] = [
            (f"{kind}s", row.get("step"), self.rounds if kind == "round" else self.steps),
            ("verifier calls", row.get("verifier_calls_total"), self.verifier_calls),
            ("minutes", None if left is None else self.minutes - left / 60, self.minutes),
        ]
        return [
            LimitUse(unit, used, most) for unit, used, most in found if most and used is not None
        ]

    def find_nearest(self, row: Mapping[str, Any]) -> LimitUse | None:
        """The limit with the largest used share: at an even pace it ends the run."""
        return max(self.list_uses(row), key=lambda use: use.share, default=None)

    def seconds_left(self, first: Mapping[str, Any], last: Mapping[str, Any]) -> float | None:
        """The time until a limit is reached, at the pace from one row to another; None while there
        is no pace, unless time is the only limit."""
        left = last.get("seconds_left")
        seconds = (last.get("seconds") or 0.0) - (first.get("seconds") or 0.0)
        if seconds <= 0 and any(use.unit != "minutes" for use in self.list_uses(last)):
            return None
        known = [] if left is None else [float(left)]
        before = {use.unit: use.used for use in self.list_uses(first)}
        for use in self.list_uses(last):
            gained = use.used - before.get(use.unit, use.used)
            if use.unit != "minutes" and gained > 0 and seconds > 0:
                known.append(seconds / gained * max(0.0, use.most - use.used))
        return min(known, default=None)


def read_limits(config: Mapping[str, Any]) -> RunLimits:
    """The limits that a configuration names."""

    def read(name: str, table: object = config) -> Any:
        value = table.get(name) if isinstance(table, Mapping) else None
        return value if isinstance(value, int | float) else 0

    return RunLimits(
        steps=read("steps", config.get("grpo")),
        verifier_calls=int(read("max_verifier_calls")),
        minutes=float(read("max_minutes")),
        rounds=read("rounds", config.get("expert_iteration")),
    )


def count_unfinished(run: Path) -> dict[str, int]:
    """The evaluations that have attempts and no result yet, and how many attempts there are."""
    files = sorted((run / EVALS_FOLDER).glob("*.jsonl"))
    return {
        file.stem: file.read_bytes().count(b"\n")
        for file in files
        if not file.with_suffix(".json").exists()
    }
