"""The turns of a rollout as rows of ``rollouts/step_N.jsonl``, token by token, and back.

Flows in: a ``Rollout`` and its advantages. Flows out: JSON values, and ``StoredTurn`` records read
from them. A turn's prompt is written as what it adds to the turns before it, so that a row grows
with the number of tokens and not with its square.
Not handled here: the other keys of a row (``proverrl.loops.tally``), how it is shown
(``proverrl.report.transcript``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.advantages import Credit
from proverrl.errors import RunError
from proverrl.types import Rollout, Turn

LOGPROB_DIGITS = 5


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
    """What a rollout was given, as JSON values; None when nothing was."""
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


def read_turns(row: Mapping[str, Any]) -> list[StoredTurn]:
    """The turns of a stored rollout.

    Raises:
        RunError: the file was written by a version that stored no tokens, or is damaged.
    """
    name = row.get("rollout_id")
    if "turns" not in row:
        raise RunError(
            f"rollout {name!r} was stored without its tokens, by an earlier version; run the "
            "training again to inspect it"
        )
    try:
        turns = [_read_turn(turn) for turn in row["turns"]]
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"rollout {name!r} is damaged: {error!r} in its turns") from error
    if not turns:
        raise RunError(f"rollout {name!r} is damaged: it has no turn")
    return turns


def _read_turn(turn: Mapping[str, Any]) -> StoredTurn:
    token_ids = tuple(int(token) for token in turn["token_ids"])
    value = turn["advantages"]
    if value is None:
        advantages: tuple[float, ...] = ()
    elif isinstance(value, list):
        advantages = tuple(float(number) for number in value)
    else:
        advantages = (float(value),) * len(token_ids)
    logprobs = tuple(float(number) for number in turn["logprobs"])
    if any(len(part) not in (0, len(token_ids)) for part in (advantages, logprobs)):
        raise ValueError(f"{len(token_ids)} tokens, but other numbers of figures")
    return StoredTurn(
        context_ids=tuple(int(token) for token in turn["context_ids"]),
        restarts=bool(turn["restarts"]),
        token_ids=token_ids,
        logprobs=logprobs,
        advantages=advantages,
        text=str(turn["text"]),
        status=str(turn["status"]),
        reason=str(turn["reason"]),
        feedback=str(turn["feedback"]),
        diagnostics=tuple(str(message) for message in turn["diagnostics"]),
        policy_version=int(turn["policy_version"]),
    )
