"""The files of a run that the report reads, each field that it uses checked.

Flows in: a run folder's ``resolved.json``, ``metrics.jsonl``, ``rollouts/step_N.jsonl`` and a
checkpoint's ``state.json``. Flows out: the same rows, or a ``RunError`` that names file, line and
field. Not handled here: evaluations (``proverrl.evaluation.attempts``); tokens of turns
(``proverrl.monitor.rollout_rows``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from proverrl.evaluation.attempts import MessageRow
from proverrl.files.lines import iter_numbered_lines
from proverrl.files.typed_rows import ROW, check_fields, read_row
from proverrl.monitor import METRICS_FILE

RESTORE = "restore the file"
_LARGEST = 10**15

_Number = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)] | None
_Share = Annotated[float, Field(ge=0, le=1)] | None
_Count = Annotated[int, Field(ge=0, le=_LARGEST)] | None
_Counts = dict[str, Annotated[float, Field(ge=0, le=_LARGEST)]] | None


class _LevelCounts(TypedDict):
    attempts: NotRequired[_Number]
    solved: NotRequired[_Number]


@with_config(ROW)
class _MetricsRow(TypedDict):
    kind: NotRequired[str]
    name: NotRequired[str]
    step: NotRequired[_Count]
    seconds: NotRequired[_Number]
    solve_rate: NotRequired[_Share]
    rollouts: NotRequired[_Count]
    unjudged: NotRequired[_Count | _Counts]
    fatal: NotRequired[_Count]
    turns: NotRequired[_Count]
    truncated: NotRequired[_Count]
    truncated_share: NotRequired[_Share]
    without_candidate: NotRequired[_Count]
    without_candidate_share: NotRequired[_Share]
    without_candidate_reason: NotRequired[str | None]
    composer_truncated_share: NotRequired[_Share]
    groups: NotRequired[_Count]
    groups_solved: NotRequired[_Count]
    groups_mixed: NotRequired[_Count]
    groups_failed: NotRequired[_Count]
    levels: NotRequired[dict[str, _LevelCounts] | None]
    verifier_calls_total: NotRequired[_Count]
    statements_written: NotRequired[_Count]
    statements_malformed: NotRequired[_Count]
    statements_unchecked: NotRequired[_Count]
    statements_kept: NotRequired[_Count]
    guard_calls: NotRequired[_Count]
    guard_stops: NotRequired[_Counts]
    solve_rates: NotRequired[_Counts]
    compose_warnings: NotRequired[list[str] | None]
    curriculum_drawn: NotRequired[_Count]
    curriculum_levels: NotRequired[_Counts]
    curriculum_families: NotRequired[_Counts]
    curriculum_operators: NotRequired[_Counts]


class _Amount(TypedDict):
    steps: NotRequired[_Count]
    rounds: NotRequired[_Count]


class _ConfigRow(TypedDict):
    loop: NotRequired[str]
    max_verifier_calls: NotRequired[_Count]
    grpo: NotRequired[_Amount | None]
    expert_iteration: NotRequired[_Amount | None]
    problems: NotRequired[dict[str, Any] | None]


@with_config(ROW)
class _ResolvedRow(TypedDict):
    config: NotRequired[_ConfigRow]


class _ProblemRow(TypedDict):
    id: str
    level: NotRequired[int | str]
    family: NotRequired[str]
    language: NotRequired[str]
    preamble: NotRequired[str]
    statement: NotRequired[str]


class _CompletionRow(TypedDict):
    text: NotRequired[str]
    num_tokens: NotRequired[_Count]


@with_config(ROW)
class _RolloutRow(TypedDict):
    rollout_id: str
    problem: _ProblemRow
    status: str
    cause: NotRequired[str]
    completion: NotRequired[_CompletionRow]
    body: NotRequired[str | None]
    reward: NotRequired[_Number]
    advantage: NotRequired[_Number]
    seconds: NotRequired[_Number]
    turns: NotRequired[list[dict[str, Any]]]
    diagnostics: NotRequired[list[MessageRow]]


class _CurriculumRow(TypedDict):
    posterior: NotRequired[
        dict[str, Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=2, max_length=2)]]
    ]


@with_config(ROW)
class _StateRow(TypedDict):
    curriculum: NotRequired[_CurriculumRow | None]


_METRICS, _ROLLOUT = TypeAdapter(_MetricsRow), TypeAdapter(_RolloutRow)
_RESOLVED, _STATE = TypeAdapter(_ResolvedRow), TypeAdapter(_StateRow)


def read_resolved(file: Path) -> dict[str, Any]:
    """``resolved.json``."""
    return read_row(file, _RESOLVED, RESTORE)


def read_posterior(file: Path) -> dict[str, list[float]]:
    """The curriculum's two counts of each family in ``state.json``; empty where it has none."""
    row = read_row(file, _STATE, RESTORE)
    found: dict[str, list[float]] = (row.get("curriculum") or {}).get("posterior", {})
    return found


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``, oldest first; an empty list when there is none yet."""
    file = run / METRICS_FILE
    return list(_iter_rows(file, _METRICS)) if file.exists() else []


def iter_rollouts(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of ``step_N.jsonl``."""
    return _iter_rows(file, _ROLLOUT)


def _iter_rows(file: Path, adapter: TypeAdapter[Any]) -> Iterator[dict[str, Any]]:
    """A last line that is being written, or that a kill cut, is left out."""
    for line, _, row in iter_numbered_lines(file, lambda text: None):
        check_fields(adapter, row, f"{file}, line {line}", RESTORE)
        yield row
