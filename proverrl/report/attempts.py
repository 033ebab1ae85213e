"""The attempts of an evaluation, counted while they stream past.

Flows in: ``evals/NAME.jsonl``, of any length. Flows out: counts for each problem, and the places in
the file of a few attempts worth showing: the shortest proofs, and failures with distinct messages;
also what each problem cost, and one letter an attempt. What is held beside letters and hashes of
candidates grows with the number of problems; the attempts themselves stay on disk until
``read_attempts`` fetches some.
Not handled here: pass@k (``proverrl.evaluation.evaluate``), how anything is drawn.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proverrl.errors import RunError
from proverrl.evaluation.attempts import AttemptFile, AttemptRow
from proverrl.report.spending import SpendingMeter
from proverrl.types import Status

Row = dict[str, Any]

PROOFS_KEPT = 2
FAILURES_KEPT = 2
FAILURES_COUNTED = 8
REASONS_COUNTED = 1000
REASON_CHARS = 160
MARKS_KEPT = 400
UNJUDGED = frozenset(status.value for status in Status if not status.judged)


@dataclass(slots=True)
class ProblemTally:
    """How the attempts at one problem went.

    ``proofs`` are (characters, hash of the body, place) of the shortest distinct proofs, shortest
    first. ``failures`` maps a failure's message to its count and the place of the first; messages
    beyond the first ``FAILURES_COUNTED`` distinct ones of a problem are only counted as attempts.
    ``marks`` has a letter for each of the first ``MARKS_KEPT`` attempts: that of its status.
    """

    problem_id: str
    level: str
    family: str
    statuses: Counter[Status] = field(default_factory=Counter)
    proofs: list[tuple[int, int, int]] = field(default_factory=list)
    failures: dict[str, list[int]] = field(default_factory=dict)
    marks: bytearray = field(default_factory=bytearray)
    meter: SpendingMeter = field(default_factory=SpendingMeter)

    @property
    def attempts(self) -> int:
        return self.statuses.total()

    @property
    def solved(self) -> int:
        return self.statuses[Status.PROVED]

    @property
    def judged(self) -> int:
        return sum(count for status, count in self.statuses.items() if status.judged)

    @property
    def common_failures(self) -> list[tuple[int, int]]:
        """(count, place) of the most frequent failures, the most frequent first."""
        ranked = sorted(self.failures.values(), key=lambda item: (-item[0], item[1]))
        return [(count, place) for count, place in ranked[:FAILURES_KEPT]]


@dataclass(frozen=True, slots=True)
class AttemptTally:
    """All attempts of an evaluation. ``reasons`` says why attempts were not judged; ``texts`` holds
    the problems that the attempts carry themselves, ``numbers`` the attempts of each problem;
    ``damage`` names lines that were passed over, doubled or cut."""

    path: Path | None = None
    problems: Mapping[str, ProblemTally] = field(default_factory=dict)
    statuses: Mapping[Status, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, Row] = field(default_factory=dict)
    numbers: Mapping[str, set[int]] = field(default_factory=dict)
    damage: Sequence[str] = ()

    @property
    def total(self) -> int:
        return sum(self.statuses.values())


def tally_attempts(path: Path) -> AttemptTally:
    """Count a file of attempts in one pass.

    Raises:
        RunError: the file cannot be read, or a line is no attempt.
    """
    problems: dict[str, ProblemTally] = {}
    statuses: Counter[Status] = Counter()
    reasons: Counter[str] = Counter()
    texts: dict[str, Row] = {}
    damage: list[str] = []
    file = AttemptFile(path, damage.append)
    for place, row in file:
        name = row["problem_id"]
        tally = problems.get(name)
        if tally is None:
            level, family = str(row.get("level", 0)), row.get("family", "")
            tally = problems[name] = ProblemTally(name, level, family)
        if name not in texts and "problem" in row:
            texts[name] = row["problem"]
        _count(tally, row, place)
        count_reason(reasons, row)
    for tally in problems.values():
        statuses.update(tally.statuses)
    return AttemptTally(path, problems, statuses, reasons, texts, file.numbers, damage)


def _count(tally: ProblemTally, row: AttemptRow, place: int) -> None:
    status = row["status"]
    tally.statuses[status] += 1
    tally.meter.add(row)
    if len(tally.marks) < MARKS_KEPT:
        tally.marks += status[:1].encode()
    if status is Status.PROVED:
        body = row.get("body") or ""
        _keep_short(tally.proofs, (len(body), hash(body), place))
    elif status.judged:
        message = first_message(row)
        found = tally.failures.get(message)
        if found is not None:
            found[0] += 1
        elif len(tally.failures) < FAILURES_COUNTED:
            tally.failures[message] = [1, place]


def _keep_short(proofs: list[tuple[int, int, int]], proof: tuple[int, int, int]) -> None:
    """Keep the shortest proofs; of equal ones the first that came."""
    if len(proofs) == PROOFS_KEPT and proof[0] >= proofs[-1][0]:
        return
    if any(proof[:2] == other[:2] for other in proofs):
        return
    proofs.append(proof)
    proofs.sort(key=lambda item: (item[0], item[2]))
    del proofs[PROOFS_KEPT:]


def first_message(row: Mapping[str, Any]) -> str:
    """What tells failures apart: the first message, or the status where there is none."""
    for item in row.get("diagnostics") or ():
        return str(item.get("message"))[:REASON_CHARS]
    return str(row.get("status"))


def count_reason(reasons: Counter[str], row: Mapping[str, Any]) -> None:
    """Count why an attempt or rollout got no verdict; others are passed over.

    Beyond ``REASONS_COUNTED`` distinct messages the rest is counted together.
    """
    status = str(row.get("status"))
    if status not in UNJUDGED:
        return
    message = first_message(row) if row.get("diagnostics") else "no message"
    reason = f"{status}: {message}"
    if reason not in reasons and len(reasons) >= REASONS_COUNTED:
        reason = "other messages"
    reasons[reason] += 1


def read_attempts(tally: AttemptTally, places: Sequence[int]) -> list[Row]:
    """The attempts at these places of the tally's file, in the order asked for.

    Raises:
        RunError: the file has changed since it was counted.
    """
    if tally.path is None or not places:
        return []
    rows = []
    try:
        with tally.path.open("rb") as stream:
            for place in places:
                stream.seek(place)
                rows.append(json.loads(stream.readline()))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{tally.path}: changed while the report was made ({error}); make the report again"
        ) from error
    return rows
