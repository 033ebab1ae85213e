"""Attempts as they are stored and shown.

Flows in: judged rollouts. Flows out: rows of ``NAME.jsonl``. Not handled here: what is read back of
them (``proverrl.evaluation.attempts``).
"""

from __future__ import annotations

from typing import Any

from proverrl.evaluation.section import note_all
from proverrl.types import Problem, Rollout, Turn

_DIAGNOSTIC_FIELDS = ("severity", "message", "line", "column", "body_line")


def find_category(problem: Problem) -> str:
    """The kind of a problem in its benchmark's own word; empty when it does not say."""
    return str(problem.metadata.get("category", ""))


def attempt_row(rollout: Rollout, attempt: int) -> dict[str, Any]:
    """One attempt as it is stored."""
    turn = rollout.turns[-1]
    return {
        **note_all(rollout.problem, turn.candidate, turn.verdict),
        "problem_id": rollout.problem.id,
        "level": rollout.problem.level,
        "family": rollout.problem.family,
        "category": find_category(rollout.problem),
        "attempt": attempt,
        "body": turn.candidate.body if turn.candidate else "",
        **(
            {"prelude": turn.candidate.prelude} if turn.candidate and turn.candidate.prelude else {}
        ),
        "completion_text": turn.completion.text,
        "finish_reason": turn.completion.finish_reason,
        "turns": [_turn_row(turn) for turn in rollout.turns],
        **verdict_fields(rollout),
    }


def _turn_row(turn: Turn) -> dict[str, Any]:
    completion = turn.completion
    return {
        "candidate": turn.candidate.key if turn.candidate else None,
        # A server may not have said which tokens it wrote.
        "num_tokens": None if "token_ids" in completion.missing else len(completion.token_ids),
        "finish_reason": completion.finish_reason,
        **({"reason": turn.reason} if turn.reason else {}),
    }


def verdict_fields(rollout: Rollout) -> dict[str, Any]:
    """Status, cause, diagnostics and checker time of the last turn, as JSON values."""
    verdict = rollout.turns[-1].verdict
    return {
        "status": str(rollout.status),
        **({"cause": verdict.cause} if verdict and verdict.cause else {}),
        "diagnostics": [
            {name: getattr(found, name) for name in _DIAGNOSTIC_FIELDS}
            for found in (verdict.diagnostics if verdict else ())
        ],
        "seconds": round(verdict.seconds, 4) if verdict else 0.0,
    }
