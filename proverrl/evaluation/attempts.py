"""The files of an evaluation as every reader takes them: its attempts, and the summary of them.

Flows in: ``NAME.jsonl`` with an attempt per line, ``NAME.json``. Flows out: rows whose fields have
the types below (others pass through), or a ``RunError`` that names file, line, field and remedy. A
line that repeats an attempt is passed over and told, and so is a last line that was cut.
Not handled here: writing (``store``, ``evaluate``), figures (``tally``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired, cast

from pydantic import Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from proverrl.errors import Cause, RunError
from proverrl.files.lines import ROW, check_fields, iter_typed_lines, read_row
from proverrl.files.seal import CHANGED, SEAL, check_seal, has_own_seal
from proverrl.types import FinishReason, Status

AGAIN = "the same `proverrl eval` again (same --name) puts that right"
ANEW = "delete it, and the same `proverrl eval` makes it anew from the attempts"
RESTORE = "restore the file, or delete the line and give the same `proverrl eval` again"
ANOTHER_NAME = "give another --name, or delete the evaluation's files to make it anew"
_RESTORE_SETTINGS = f"restore the file, {ANOTHER_NAME}"
ATTEMPTS_SEAL = "attempts_sha256"
"""The key of a table under which the seal of its attempts is (``SealSum``)."""

_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0.0, le=1.0)]
_K = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5}$")]


class TurnCostRow(TypedDict):
    """The cost of a turn. ``num_tokens`` is None where a server did not say; ``reason`` says why
    there is no candidate."""

    candidate: str | None
    num_tokens: _Count | None
    finish_reason: FinishReason
    reason: NotRequired[str]


@with_config({**ROW, "extra": "forbid"})
class UsageRow(TypedDict):
    """The cost of a server's completions: the fields of ``TokenUsage``."""

    requests: _Count
    unreported: _Count
    prompt_tokens: _Count
    completion_tokens: _Count


class CostRow(UsageRow):
    """The same of all attempts, and the price, where it is known."""

    cost: float | None


class MessageRow(TypedDict):
    """One message of the checker."""

    message: str
    severity: NotRequired[str]
    line: NotRequired[int | None]
    column: NotRequired[int | None]
    body_line: NotRequired[int | None]


@with_config(ROW)
class AttemptRow(TypedDict):
    """One attempt. ``problem`` holds its text where a row carries it, ``search`` what a search
    spent, ``usage`` what a server counted since the last."""

    problem_id: Annotated[str, Field(min_length=1)]
    attempt: _Count
    status: Annotated[Status, Field(strict=False)]
    turns: list[TurnCostRow]
    level: NotRequired[int | str]
    family: NotRequired[str]
    category: NotRequired[str]
    cause: NotRequired[Cause]
    body: NotRequired[str | None]
    prelude: NotRequired[str]
    diagnostics: NotRequired[list[MessageRow]]
    problem: NotRequired[dict[str, Any]]
    search: NotRequired[dict[str, Any]]
    usage: NotRequired[UsageRow]


class FigureRow(TypedDict):
    """pass@k over problems; nothing but ``num_problems`` is known where that is 0."""

    value: _Share | None
    stderr: NotRequired[float | None]
    low: NotRequired[_Share | None]
    high: NotRequired[_Share | None]
    num_problems: NotRequired[_Count]


LevelRow = TypedDict(
    "LevelRow",
    {
        "level": str | int,
        "num_problems": NotRequired[_Count],
        "attempts": NotRequired[_Count],
        "unjudged": NotRequired[_Count | dict[str, _Count]],
        "fatal": NotRequired[_Count],
        "pass": NotRequired[dict[_K, FigureRow]],
    },
)


@with_config(ROW)
class SummaryRow(TypedDict):
    """The table of an evaluation, as far as it is read again. Shares of no completions are
    None."""

    name: NotRequired[str]
    benchmark: NotRequired[str]
    benchmark_sha256: NotRequired[str]
    split: NotRequired[str]
    toolchain: NotRequired[str]
    mode: NotRequired[str]
    samples_per_problem: NotRequired[_Count]
    temperature: NotRequired[float]
    top_p: NotRequired[float]
    top_k: NotRequired[_Count]
    verifier_calls: NotRequired[_Count]
    seconds: NotRequired[float]
    canaries: NotRequired[dict[str, _Count]]
    levels: NotRequired[list[LevelRow]]
    completions: NotRequired[_Count]
    truncated: NotRequired[_Count]
    truncated_share: NotRequired[_Share | None]
    without_candidate: NotRequired[_Count]
    without_candidate_share: NotRequired[_Share | None]
    without_candidate_reason: NotRequired[str]
    warnings: NotRequired[list[str]]
    usage: NotRequired[CostRow]
    attempts_sha256: NotRequired[str]


SETTINGS = TypeAdapter(dict[str, Any])
_ATTEMPT = TypeAdapter(AttemptRow)
_STATUSES = {status.value: status for status in Status}
_SUMMARY = TypeAdapter(SummaryRow)


class AttemptFile:
    """The attempts of a file, read once and in its order, each with its place in bytes. ``tell`` is
    given a sentence for each line that is passed over, doubled or cut. Raises RunError: the file
    cannot be read, or a line is no attempt or was changed after it was written."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        self.path = path
        self._numbers: dict[str, set[int]] = {}
        self._tell = tell

    def __iter__(self) -> Iterator[tuple[int, AttemptRow]]:
        owner = read_owner(self.path)
        for line, place, row in iter_typed_lines(self.path, _ATTEMPT, RESTORE, self._tell):
            if not has_own_seal(row, owner):
                raise RunError(f"{self.path}, line {line}: {CHANGED}; {RESTORE}")
            name, number = row["problem_id"], row["attempt"]
            numbers = self._numbers.setdefault(name, set())
            if number in numbers:
                where = f"{self.path}, line {line}"
                self._tell(f"{where}: attempt {number} of problem {name!r} occurs twice")
                continue
            numbers.add(number)
            # The row itself, so that a file which is written anew keeps its bytes.
            row["status"] = _STATUSES[row["status"]]
            yield place, cast("AttemptRow", row)


def read_attempt(value: Mapping[str, Any], where: str) -> AttemptRow:
    """The attempt that a line holds; ``where`` names the line. Raises RunError."""
    check_fields(_ATTEMPT, value, where, RESTORE)
    return cast("AttemptRow", {**value, "status": Status(value["status"])})


def read_summary(path: Path) -> dict[str, Any]:
    """The table of an evaluation, its fields checked. Raises RunError: the file cannot be read, or
    a field of it, or it was changed after it was written."""
    if not path.is_file():
        raise RunError(f"{path}: no such file; give evals/NAME.json of a finished evaluation")
    summary = read_row(path, _SUMMARY, ANEW)
    check_seal(summary, str(path), ANEW)
    return summary


def read_owner(attempts: Path) -> str:
    """The seal of the settings that a file of attempts belongs to, with which each is sealed.
    Raises RunError: they are missing, were changed, or cannot be read."""
    path = attempts.with_suffix(".settings")
    if not path.exists():
        raise RunError(
            f"{path}, to which the attempts beside it belong, is missing; {_RESTORE_SETTINGS}"
        )
    settings = read_row(path, SETTINGS, _RESTORE_SETTINGS)
    check_seal(settings, str(path), _RESTORE_SETTINGS)
    return str(settings[SEAL])


class SealSum:
    """The sum of attempts' seals, the same in any order."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self._total = 0
        for row in rows:
            self.add(row)

    def add(self, row: Mapping[str, Any]) -> None:
        self._total += int(row[SEAL], 16)

    def __str__(self) -> str:
        return f"{self._total % 2**256:064x}"


def describe_gaps(numbers: Mapping[str, set[int]], summary: Mapping[str, Any]) -> str:
    """One sentence on attempts that a summary counts and that are not stored, or the reverse.

    Empty where both agree, or where the summary does not say how many there were.
    """
    samples, levels = summary.get("samples_per_problem"), summary.get("levels") or [{}]
    problems = levels[0].get("num_problems", len(numbers))
    if samples is None:
        return ""
    told = []
    if len(numbers) != problems:
        told.append(f"problems with attempts: {len(numbers)} of {problems}")
    # Counted, not listed: a damaged summary may say any number.
    counted = {name: sum(n < samples for n in found) for name, found in numbers.items()}
    if missing := sum(samples - count for count in counted.values()):
        name = next(name for name, count in counted.items() if count < samples)
        number = next(n for n in range(samples) if n not in numbers[name])
        told.append(f"missing attempts: {missing}, the first is {number} of {name!r}")
    if beyond := sum(len(found) - counted[name] for name, found in numbers.items()):
        name, number = next((p, n) for p, f in numbers.items() for n in sorted(f) if n >= samples)
        told.append(f"attempts beyond those: {beyond}, the first is {number} of {name!r}")
    return "; ".join(told)
