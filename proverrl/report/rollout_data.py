"""The rollouts that the page carries: whole steps, packed one by one, token by token.

Flows in: ``rollouts/step_N.jsonl`` of each run. Flows out: an index of the steps that are in the
page and their packed pieces: the newest step, the oldest, then those that halve the gaps, until a
limit is reached. Every rollout of a step is listed; those beyond the step's limit have no tokens
and no text. Whatever is left out is counted. Not handled here: how it is drawn (``rollouts.js``).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proverrl.errors import RunError
from proverrl.monitor.rollout_rows import StoredTurn, iter_rollouts, read_turns
from proverrl.report.embedded import Piece, pack_json
from proverrl.report.run import TEXT_FIELDS, Row, RunRecord
from proverrl.report.transcript import Decode, open_decoder

MAX_STEPS = 40
MAX_PACKED_CHARS = 7_000_000
MAX_TOKENS_A_STEP = 60_000
MAX_TOKENS_A_TURN = 8_000
MAX_BODY_CHARS = 4000
MAX_MESSAGES = 20
_INDEX = re.compile(r"-\d+$")


@dataclass(frozen=True, slots=True)
class PackedRollouts:
    """``steps`` describes each piece; ``totals`` says, for each run, what its folder holds."""

    steps: list[Row]
    totals: list[Row]
    pieces: list[Piece]


def build_rollouts(runs: Sequence[RunRecord]) -> PackedRollouts:
    """The steps of all runs that fit, by run and step. Raises RunError: a file of rollouts is
    damaged."""
    steps: list[Row] = []
    totals: list[Row] = []
    pieces: list[Piece] = []
    for index, run in enumerate(runs):
        decode, note = _find_decoder(run)
        left = MAX_PACKED_CHARS // len(runs)
        found: list[tuple[Row, Piece]] = []
        for step in order_steps([*run.step_files])[:MAX_STEPS]:
            value = describe_step(run.step_files[step], decode)
            piece = Piece(f"rollouts-{index}-{step}", pack_json(value))
            if found and len(piece.packed) > left:
                break
            left -= len(piece.packed)
            found.append((_index_entry(value, index, step, piece.name), piece))
        found.sort(key=lambda pair: pair[0]["step"])
        steps += [entry for entry, _ in found]
        pieces += [piece for _, piece in found]
        totals.append(_totals(run, note))
    return PackedRollouts(steps, totals, pieces)


def order_steps(steps: Sequence[int]) -> list[int]:
    """The newest, the oldest, then the steps that halve the widest gaps: any start is a spread."""
    if not steps:
        return []
    ordered = [steps[-1]]
    if len(steps) > 1:
        ordered.append(steps[0])
    gaps = deque([(0, len(steps) - 1)])
    while gaps:
        low, high = gaps.popleft()
        if high - low < 2:
            continue
        middle = (low + high) // 2
        ordered.append(steps[middle])
        gaps += [(middle, high), (low, middle)]
    return ordered


def _find_decoder(run: RunRecord) -> tuple[Decode | None, str]:
    """The run's decoder, or None and the reason."""
    if not run.step_files:
        return None, ""
    try:
        return open_decoder(run.path), ""
    except RunError as error:
        return None, f"Tokens are shown by their ids: {error}."


def _totals(run: RunRecord, note: str) -> Row:
    logged = {row.get("step"): row.get("rollouts") for row in run.steps}
    counts = [logged.get(step) for step in run.step_files]
    known = [count for count in counts if isinstance(count, int)]
    return {
        "run": str(run.path),
        "steps": len(counts),
        "rollouts": sum(known) if len(known) == len(counts) else None,
        "note": note,
    }


def _index_entry(value: Row, run: int, step: int, name: str) -> Row:
    rollouts = [rollout for group in value["groups"] for rollout in group["rollouts"]]
    return {
        "run": run,
        "step": step,
        "piece": name,
        "groups": len(value["groups"]),
        "rollouts": len(rollouts),
        "proved": sum(rollout["status"] == "proved" for rollout in rollouts),
        "detailed": sum("body" in rollout for rollout in rollouts),
    }


@dataclass(slots=True)
class _CollectedStep:
    """Collects over the rollouts of a step; each text and context is kept once."""

    decode: Decode | None
    tokens_left: int = field(default_factory=lambda: MAX_TOKENS_A_STEP)
    problems: dict[str, Row] = field(default_factory=dict)
    groups: dict[str, Row] = field(default_factory=dict)
    contexts: dict[tuple[int, ...], int] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)

    def add_tokens(self, ids: Sequence[int]) -> None:
        """Pay for the tokens, and keep their texts."""
        self.tokens_left -= len(ids)
        if self.decode is not None:
            for token in ids:
                if token not in self.texts:
                    self.texts[token] = self.decode(token)

    def add_context(self, ids: tuple[int, ...]) -> int:
        """The number of the context; a prompt that others share costs nothing more."""
        if ids not in self.contexts:
            self.contexts[ids] = len(self.contexts)
            self.add_tokens(ids)
        return self.contexts[ids]


def describe_step(file: Path, decode: Decode | None) -> Row:
    """A step as one JSON value: problems, groups of rollouts, contexts, texts of tokens. Raises
    RunError: the file is damaged."""
    step = _CollectedStep(decode)
    for row in iter_rollouts(file):
        _add_rollout(step, row)
    return {
        "problems": step.problems,
        "groups": list(step.groups.values()),
        "contexts": [list(ids) for ids in step.contexts],
        "texts": None if decode is None else {str(key): text for key, text in step.texts.items()},
    }


def _add_rollout(step: _CollectedStep, row: Row) -> None:
    problem, rollout_id = row["problem"], row["rollout_id"]
    name = problem["id"]
    step.problems.setdefault(name, {key: problem.get(key) for key in TEXT_FIELDS})
    # The ids of a group differ in their last number; one problem can be drawn into two groups.
    key = _INDEX.sub("", rollout_id) if name in rollout_id else name
    group = step.groups.setdefault(key, {"problem": name, "rollouts": []})
    group["rollouts"].append(_describe_rollout(step, row, rollout_id))


def _describe_rollout(step: _CollectedStep, row: Row, rollout_id: str) -> Row:
    completion = row.get("completion") or {}
    turns = read_turns(row)
    rollout: Row = {
        "id": rollout_id,
        "status": row["status"],
        "reward": row.get("reward"),
        "advantage": row.get("advantage"),
        "seconds": row.get("seconds"),
        "num_turns": len(turns),
        "tokens": sum(len(turn.token_ids) for turn in turns),
    }
    if step.tokens_left <= 0:
        return rollout
    body = row.get("body")
    text = completion.get("text", "") if body is None else body
    rollout |= {
        "body": text[:MAX_BODY_CHARS],
        "cut": max(0, len(text) - MAX_BODY_CHARS),
        "is_body": body is not None,
        "messages": describe_messages(row),
    }
    return rollout | {"turns": [*_describe_turns(step, turns, row["turns"])]}


def describe_messages(row: Mapping[str, Any]) -> list[Row]:
    """The verifier's first messages, as far as a listing shows them."""
    names = ("severity", "line", "column", "message")
    return [
        {name: item.get(name) for name in names}
        for item in (row.get("diagnostics") or ())[:MAX_MESSAGES]
    ]


def _describe_turns(
    step: _CollectedStep, turns: Sequence[StoredTurn], rows: Sequence[Row]
) -> Iterator[Row]:
    for turn, row in zip(turns, rows, strict=True):
        ids = turn.token_ids[:MAX_TOKENS_A_TURN]
        context = turn.context_ids[-MAX_TOKENS_A_TURN:]
        number = step.add_context(context)
        step.add_tokens(ids)
        yield {
            "context": number,
            "context_cut": len(turn.context_ids) - len(context),
            "restarts": turn.restarts,
            "ids": list(ids),
            "cut": len(turn.token_ids) - len(ids),
            "logprobs": list(turn.logprobs[: len(ids)]),
            "advantages": _describe_advantages(turn.advantages[: len(ids)]),
            "learned": bool(turn.advantages),
            "text": "" if ids else turn.text[:MAX_BODY_CHARS],
            "finish": row.get("finish_reason"),
            "version": turn.policy_version,
            "status": turn.status,
            "reason": turn.reason,
            "feedback": turn.feedback[:MAX_BODY_CHARS],
            "messages": list(turn.diagnostics[:MAX_MESSAGES]),
        }


def _describe_advantages(values: Sequence[float]) -> float | list[float] | None:
    """One number where all tokens have the same."""
    return values[0] if len(set(values)) == 1 else list(values) or None
