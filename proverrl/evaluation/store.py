"""The attempts of an evaluation on disk, and the plan of which are still to be made.

Flows in: a folder, a name, the settings that every attempt must share. Flows out: the blocks still
to be drawn; ``NAME.jsonl`` with a line an attempt, ``NAME.settings`` with what they share. Attempts
are numbered. A number belongs to a fixed block, drawn under a seed of its own and with the same
problems. So 8 attempts and later 24 more are the same as 32 at once, bit for bit where the policy
repeats itself. Early blocks hold few attempts, and every block about as many rows.
Not handled here: making attempts (``proverrl.evaluation.evaluate``).
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from proverrl.errors import UsageError
from proverrl.evaluation.attempts import ANOTHER_NAME, SETTINGS, AttemptFile, read_owner
from proverrl.evaluation.section import note_all
from proverrl.files.disk import saving
from proverrl.files.lines import read_row, write_atomically
from proverrl.files.seal import SEAL, add_seal
from proverrl.policy.endpoint import TokenUsage
from proverrl.rollout.completion_counts import CompletionCounts
from proverrl.types import Problem, Rollout, Status, Turn

ROWS_PER_BLOCK = 128
LARGEST_BLOCK = 8
"""Attempts a problem that are drawn together, at most."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AttemptBlock:
    """Some problems and some attempts at each, drawn in one call.

    ``first`` is the first attempt and ``size`` how many are drawn from there on; ``missing`` are
    those of them that are wanted and not stored. ``name`` seeds the draw.
    """

    name: str
    problems: tuple[Problem, ...]
    first: int
    size: int
    missing: tuple[int, ...]


def split_attempts(samples: int) -> Iterator[tuple[int, int]]:
    """(first, size) of the blocks that hold the attempts below ``samples``: sizes 1, 1, 2, 4, 8,
    8, ...; the last may reach beyond."""
    first = 0
    while first < samples:
        size = min(max(first, 1), LARGEST_BLOCK)
        yield first, size
        first += size


def plan_blocks(
    problems: Sequence[Problem], samples: int, stored: Collection[tuple[str, int]]
) -> list[AttemptBlock]:
    """The blocks that lack an attempt, in the order in which they are drawn."""
    blocks = []
    for first, size in split_attempts(samples):
        for part in split_evenly(problems, max(1, ROWS_PER_BLOCK // size)):
            wanted = range(first, min(first + size, samples))
            missing = tuple(n for n in wanted if any((p.id, n) not in stored for p in part))
            if missing:
                name = f"{first}+{size} at {part[0].id}"
                blocks.append(AttemptBlock(name, tuple(part), first, size, missing))
    return blocks


def split_evenly(problems: Sequence[Problem], most: int) -> list[Sequence[Problem]]:
    """Runs of at most ``most`` problems, their lengths as equal as can be."""
    num_parts = -(-len(problems) // most)
    bounds = [len(problems) * i // num_parts for i in range(num_parts + 1)]
    return [problems[a:b] for a, b in itertools.pairwise(bounds)]


class AttemptStore:
    """The attempts of the evaluation ``name`` in ``folder``; opening it checks the settings.
    ``num_proved``, ``completions`` (``count_completions``) and ``left_out`` (``list_left_out``) say
    what is stored. Raises UsageError: attempts are stored that were made under another setting;
    RunError: a file cannot be read or written."""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        self.path = folder / f"{name}.jsonl"
        self.rows: list[Row] = []
        self.num_proved = 0
        self.completions = CompletionCounts()
        self.left_out: set[str] = set()
        self._settings_path = folder / f"{name}.settings"
        with saving(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._check_settings(settings)
            self._owner = read_owner(self.path)

    def missing_blocks(self, problems: Sequence[Problem], samples: int) -> list[AttemptBlock]:
        """Read what is stored and plan the rest. Attempts of which a block was written in part
        only, when a process was killed, are dropped and made again."""
        found = {(row["problem_id"], row["attempt"]): row for row in self._read()}
        blocks = plan_blocks(problems, samples, found.keys())
        cut = {(p.id, n) for block in blocks for p in block.problems for n in block.missing}
        self._keep([row for place, row in found.items() if place not in cut])
        return blocks

    def missing_attempts(
        self, problems: Sequence[Problem], samples: int
    ) -> list[tuple[Problem, int]]:
        """Read what is stored; the attempts that are not, where each stands by itself."""
        self._keep(self._read())
        stored = {(row["problem_id"], row["attempt"]) for row in self.rows}
        return [(p, n) for n in range(samples) for p in problems if (p.id, n) not in stored]

    def add(self, rows: Sequence[Row], usage: TokenUsage | None = None) -> None:
        """Keep the attempts of a block, on disk first; the first of them carries ``usage``, what a
        server's completions cost since the last block."""
        if usage is not None and rows:
            rows = [{**rows[0], "usage": asdict(usage)}, *rows[1:]]
        rows = [add_seal(row, self._owner) for row in rows]
        with saving(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
            file.flush()
            os.fsync(file.fileno())
        self.rows += rows
        self._count(rows)

    def complete_rows(self, problems: Sequence[Problem]) -> tuple[int, list[Row]]:
        """The number of attempts that every problem has, and those attempts, by attempt and place
        of the problem."""
        by_place = {(row["problem_id"], row["attempt"]): row for row in self.rows}
        number = 0
        while problems and all((p.id, number) in by_place for p in problems):
            number += 1
        return number, [by_place[p.id, n] for n in range(number) for p in problems]

    def _read(self) -> list[Row]:
        """The attempts in the order of the file; of a doubled one the first, and no half line."""
        found = AttemptFile(self.path, lambda text: None) if self.path.exists() else ()
        return [dict(row) for _, row in found]

    def _keep(self, rows: list[Row]) -> None:
        """Go on with these attempts, and drop whatever else the file holds."""
        self.rows = rows
        self.num_proved, self.completions, self.left_out = 0, CompletionCounts(), set()
        self._count(rows)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        if self.path.exists() and self.path.stat().st_size != len(text.encode()):
            write_atomically(self.path, text)

    def _count(self, rows: Sequence[Row]) -> None:
        self.num_proved += sum(row["status"] == Status.PROVED for row in rows)
        self.left_out |= list_left_out(rows)
        count_completions(rows, self.completions)

    def _check_settings(self, settings: Mapping[str, Any]) -> None:
        # As they are read back.
        given = json.loads(json.dumps(dict(settings), sort_keys=True))
        if not self._settings_path.exists():
            if self.path.exists() and self.path.stat().st_size:
                read_owner(self.path)
            text = json.dumps(add_seal(given), indent=1) + "\n"
            write_atomically(self._settings_path, text)
            return
        stored = read_row(self._settings_path, SETTINGS, ANOTHER_NAME)
        for key in sorted({*stored, *settings} - {SEAL}):
            if stored.get(key) != given.get(key):
                place, old, new = _find_difference(key, stored.get(key), given.get(key))
                differs = (
                    "at other problems"
                    if key == "benchmark_sha256"
                    else f"made with {place} = {old!r}; now it is {new!r}"
                )
                raise UsageError(
                    f"{self.path} holds attempts {differs}, and one figure cannot rest on both: "
                    f"{ANOTHER_NAME}"
                )


def _find_difference(place: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """The first key, in a table of tables, whose values differ, with both."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                return _find_difference(f"{place}.{key}", old.get(key), new.get(key))
    return place, old, new


def list_left_out(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """The problems to which the model has no room to answer; their attempts are unjudged."""
    return {row["problem_id"] for row in rows if row.get("finish_reason") == "no_room"}


def count_completions(
    rows: Sequence[Mapping[str, Any]], counts: CompletionCounts | None = None
) -> CompletionCounts:
    """Count the completions of some attempts by their outcome, into ``counts`` or anew."""
    counts = counts or CompletionCounts()
    for row in rows:
        for turn in row["turns"]:
            # A search of several verifies bodies that nobody wrote.
            if turn["num_tokens"] != 0:
                truncated = turn["finish_reason"] == "length"
                counts.add(truncated=truncated, reason=turn.get("reason", ""))
    return counts


def sum_usage(rows: Sequence[Mapping[str, Any]]) -> TokenUsage | None:
    """The cost of a server's completions, those that were thrown away included; None where no
    server wrote them. Completions under way at an interruption count as far as they were answered
    when a block was stored."""
    told = [TokenUsage(**row["usage"]) for row in rows if "usage" in row]
    return sum(told, TokenUsage()) if told else None


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
