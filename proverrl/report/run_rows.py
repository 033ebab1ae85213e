"""The JSON files of a run that the report reads beside its lines, each field that it uses checked.

Flows in: a run folder's ``resolved.json``, a checkpoint's ``state.json``, files of problems. Flows
out: the same rows, or a ``RunError`` that names file, line and field. Not handled here: metrics and
rollouts (``proverrl.monitor``), evaluations (``proverrl.evaluation.attempts``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from proverrl.files.typed_rows import ROW, iter_typed_lines, read_row
from proverrl.monitor.metrics import RESTORE, Count
from proverrl.monitor.rollout_rows import ProblemRow


class _Amount(TypedDict):
    steps: NotRequired[Count]
    rounds: NotRequired[Count]


class _ConfigRow(TypedDict):
    loop: NotRequired[str]
    max_verifier_calls: NotRequired[Count]
    grpo: NotRequired[_Amount | None]
    expert_iteration: NotRequired[_Amount | None]
    problems: NotRequired[dict[str, Any] | None]


@with_config(ROW)
class _ResolvedRow(TypedDict):
    config: NotRequired[_ConfigRow]


class _CurriculumRow(TypedDict):
    posterior: NotRequired[
        dict[str, Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=2, max_length=2)]]
    ]


@with_config(ROW)
class _StateRow(TypedDict):
    curriculum: NotRequired[_CurriculumRow | None]


_RESOLVED, _STATE = TypeAdapter(_ResolvedRow), TypeAdapter(_StateRow)
_PROBLEM = TypeAdapter(with_config(ROW)(ProblemRow))


def read_resolved(file: Path) -> dict[str, Any]:
    """``resolved.json``."""
    return read_row(file, _RESOLVED, RESTORE)


def read_posterior(file: Path) -> dict[str, list[float]]:
    """The curriculum's two counts of each family in ``state.json``; empty where it has none."""
    row = read_row(file, _STATE, RESTORE)
    found: dict[str, list[float]] = (row.get("curriculum") or {}).get("posterior", {})
    return found


def iter_problems(file: Path) -> Iterator[dict[str, Any]]:
    """The problems of a file, as rows."""
    return (row for _, _, row in iter_typed_lines(file, _PROBLEM, RESTORE))
