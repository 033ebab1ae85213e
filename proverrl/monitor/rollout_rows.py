"""The turns of a rollout as rows of ``rollouts/step_N.jsonl``, token by token, and back.

Flows in: a ``Rollout`` and its advantages, or a file. Flows out: JSON values; checked rows of a
file, and ``StoredTurn`` records of their turns. Of a prompt only the addition to the turns
before it is written: a row grows with the number of tokens, not with its square.
Not handled here: the other keys of a row (``proverrl.run.tally``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NotRequired

from pydantic import TypeAdapter, with_config
from typing_extensions import TypedDict

from proverrl.advantages import Credit
from proverrl.errors import RunError
from proverrl.evaluation.attempts import MessageRow
from proverrl.files.lines import ROW, iter_typed_lines
from proverrl.monitor.metrics import RESTORE, Count, Number
from proverrl.types import Rollout, Turn

LOGPROB_DIGITS = 5


class ProblemRow(TypedDict):
    """A problem's text, as far as it is shown."""

    id: str
    level: NotRequired[int | str]
    family: NotRequired[str]
    language: NotRequired[str]
    preamble: NotRequired[str]
    statement: NotRequired[str]


class _CompletionRow(TypedDict):
    text: NotRequired[str]
    num_tokens: NotRequired[Count]


class _HintRow(TypedDict):
    source: str
    ratio: float
    num_tokens: int


class _TurnRow(TypedDict):
    context_ids: list[int]
    restarts: bool
    token_ids: list[int]
    logprobs: list[float]
    advantages: float | list[float] | None
    text: str
    status: str
    reason: str
    feedback: str
    diagnostics: list[str]
    policy_version: int


@with_config(ROW)
class _RolloutRow(TypedDict):
    rollout_id: str
    problem: ProblemRow
    status: str
    turns: list[_TurnRow]
    cause: NotRequired[str]
    completion: NotRequired[_CompletionRow]
    body: NotRequired[str | None]
    hint: NotRequired[_HintRow | None]
    reward: NotRequired[Number]
    advantage: NotRequired[Number]
    seconds: NotRequired[Number]
    diagnostics: NotRequired[list[MessageRow]]


_ROLLOUT = TypeAdapter(_RolloutRow)


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn as it was stored. ``context_ids`` are the tokens before the completion that no turn
    before holds; ``restarts`` says that the history was cut before them. ``advantages`` has one
    number a token; it is empty when the rollout was in no group."""

    context_ids: tuple[int, ...]
    restarts: bool
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    advantages: tuple[float, ...]
    text: str
    status: str
    reason: str
    feedback: str
    diagnostics: tuple[str, ...]
    policy_version: int


def describe_turns(rollout: Rollout, advantages: Sequence[Credit] | None) -> list[dict[str, Any]]:
    """Every turn of a rollout as JSON values. ``advantages`` has an entry per turn, or is None for
    a rollout that is in no group."""
    rows = []
    written: tuple[int, ...] = ()
    for index, turn in enumerate(rollout.turns):
        prompt_ids = turn.completion.prompt_ids
        restarts = prompt_ids[: len(written)] != written
        context = prompt_ids if restarts else prompt_ids[len(written) :]
        value = None if advantages is None else advantages[index]
        rows.append(_describe_turn(turn, value, context, restarts))
        written = prompt_ids + turn.completion.token_ids
    return rows


def describe_hint(rollout: Rollout) -> dict[str, Any] | None:
    """The hint that a rollout was given, as JSON values; None when it got none."""
    hint = rollout.hint
    if hint is None:
        return None
    return {
        "source": hint.source,
        "ratio": round(hint.ratio, 4),
        "num_tokens": len(hint.token_ids),
        "text": hint.text,
    }


def _describe_turn(
    turn: Turn, advantage: Credit | None, context: tuple[int, ...], restarts: bool
) -> dict[str, Any]:
    completion, verdict = turn.completion, turn.verdict
    return {
        "context_ids": context,
        "restarts": restarts,
        "token_ids": completion.token_ids,
        "logprobs": [round(value, LOGPROB_DIGITS) for value in completion.logprobs],
        "advantages": list(advantage) if isinstance(advantage, tuple) else advantage,
        "missing": completion.missing,
        "text": completion.text,
        "finish_reason": completion.finish_reason,
        "policy_version": completion.policy_version,
        "body": None if turn.candidate is None else turn.candidate.body,
        "prelude": "" if turn.candidate is None else turn.candidate.prelude,
        "status": "no candidate" if verdict is None else str(verdict.status),
        "reason": turn.reason,
        "diagnostics": [d.message for d in (verdict.diagnostics if verdict else ())],
        "feedback": turn.feedback,
    }


def iter_rollouts(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of ``step_N.jsonl``, but for a last one that is being written. Raises RunError for
    a damaged one."""
    return (row for _, _, row in iter_typed_lines(file, _ROLLOUT, RESTORE))


def read_turns(row: Mapping[str, Any]) -> list[StoredTurn]:
    """The turns of a row of ``iter_rollouts``. Raises RunError: figures are missing."""
    name = row.get("rollout_id")
    if not row["turns"]:
        raise RunError(f"rollout {name!r} is damaged: it has no turn")
    turns = [_read_turn(turn) for turn in row["turns"]]
    for turn in turns:
        num = len(turn.token_ids)
        if any(len(part) not in (0, num) for part in (turn.advantages, turn.logprobs)):
            raise RunError(
                f"rollout {name!r} is damaged: {num} tokens, but other numbers of figures"
            )
    return turns


def _read_turn(turn: Mapping[str, Any]) -> StoredTurn:
    credit = turn["advantages"]
    if not isinstance(credit, list):
        credit = [] if credit is None else [credit] * len(turn["token_ids"])
    values = {**turn, "advantages": tuple(credit)}
    read: dict[str, Any] = {
        part.name: tuple(value) if isinstance(value := values[part.name], list) else value
        for part in fields(StoredTurn)
    }
    return StoredTurn(**read)
