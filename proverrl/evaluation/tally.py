"""The attempts of an evaluation, counted while they stream past.

Flows in: ``evals/NAME.json`` and ``evals/NAME.jsonl``, of any length. Flows out: for each problem
how its attempts went and what each cost, and the places in the file of a few worth showing. Of an
attempt a few numbers are held; its text stays on disk until ``fetch_rows`` gets it.
Not handled here: what figures follow (``proverrl.evaluation.compare``, ``budgets``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from proverrl.errors import RunError
from proverrl.evaluation.attempts import (
    AGAIN,
    ATTEMPTS_SEAL,
    AttemptFile,
    AttemptRow,
    SealSum,
    describe_gaps,
)
from proverrl.types import Status

Row = dict[str, Any]

PROOFS_KEPT = 2
FAILURES_KEPT = 2
FAILURES_COUNTED = 8
REASONS_COUNTED = 1000
REASON_CHARS = 160
UNJUDGED = frozenset(status.value for status in Status if not status.judged)


class Attempt(NamedTuple):
    """One attempt, as far as figures rest on it. ``turns`` has the hash of each turn's candidate
    (in a search, of its number), None where there was none, and its tokens, None where a server did
    not say."""

    number: int
    status: Status
    turns: tuple[tuple[int | None, int | None], ...]


@dataclass
class ProblemTally:
    """The attempts at one problem, counted; ``made`` has them in the order of the file.

    ``proofs`` are (characters, hash of the body, place) of the shortest distinct proofs, shortest
    first. ``failures`` maps a failure's message to its count and the place of the first; messages
    beyond the first ``FAILURES_COUNTED`` distinct ones of a problem are only counted as attempts.
    """

    problem_id: str
    level: str = ""
    family: str = ""
    category: str = ""
    made: list[Attempt] = field(default_factory=list)
    statuses: Counter[Status] = field(default_factory=Counter)
    proofs: list[tuple[int, int, int]] = field(default_factory=list)
    failures: dict[str, list[int]] = field(default_factory=dict)

    @property
    def attempts(self) -> int:
        return len(self.made)

    @property
    def solved(self) -> int:
        return self.statuses[Status.PROVED]

    @property
    def judged(self) -> int:
        return sum(count for status, count in self.statuses.items() if status.judged)

    @property
    def unjudged(self) -> int:
        return self.attempts - self.judged

    @cached_property
    def in_order(self) -> list[Attempt]:
        """The judged attempts by number, wherever their lines lie."""
        return sorted(
            (attempt for attempt in self.made if attempt.status not in UNJUDGED),
            key=attrgetter("number"),
        )

    @property
    def common_failures(self) -> list[tuple[int, int]]:
        """(count, place) of the most frequent failures, the most frequent first."""
        ranked = sorted(self.failures.values(), key=lambda item: (-item[0], item[1]))
        return [(count, place) for count, place in ranked[:FAILURES_KEPT]]

    def solved_within(self, num_attempts: int | None) -> bool:
        """True if one of the first ``num_attempts`` judged attempts (None: of all) is a proof."""
        if num_attempts is None:
            return self.solved > 0
        return any(a.status is Status.PROVED for a in self.in_order[:num_attempts])

    def add(self, row: AttemptRow, place: int) -> None:
        """Count one attempt, whose line begins at ``place``."""
        status = row["status"]
        self.made.append(Attempt(row["attempt"], status, tuple(_measure_turns(row))))
        self.statuses[status] += 1
        if status is Status.PROVED:
            body = row.get("body") or ""
            self._keep_short((len(body), hash(body), place))
        elif status not in UNJUDGED:
            message = first_message(row)
            found = self.failures.get(message)
            if found is not None:
                found[0] += 1
            elif len(self.failures) < FAILURES_COUNTED:
                self.failures[message] = [1, place]

    def _keep_short(self, proof: tuple[int, int, int]) -> None:
        """Keep the shortest proofs; of equal ones the first that came."""
        proofs = self.proofs
        if len(proofs) == PROOFS_KEPT and proof[0] >= proofs[-1][0]:
            return
        if any(proof[:2] == other[:2] for other in proofs):
            return
        proofs.append(proof)
        proofs.sort(key=lambda item: (item[0], item[2]))
        del proofs[PROOFS_KEPT:]


@dataclass(frozen=True, slots=True)
class AttemptTally:
    """All attempts of an evaluation. ``reasons`` says why attempts were not judged; ``texts`` holds
    the problems that the attempts carry themselves; ``damage`` names lines that were passed over,
    doubled or cut; ``seal`` is the sum of all seals."""

    path: Path | None = None
    problems: Mapping[str, ProblemTally] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, Row] = field(default_factory=dict)
    damage: Sequence[str] = ()
    seal: str = ""

    @property
    def total(self) -> int:
        return sum(tally.attempts for tally in self.problems.values())

    @property
    def statuses(self) -> Counter[Status]:
        return sum((tally.statuses for tally in self.problems.values()), Counter())

    def describe_gaps(self, summary: Mapping[str, Any]) -> str:
        """One sentence on attempts that are counted and not there, or the reverse; else empty."""
        if self.path is None:
            return ""
        numbers = {name: {a.number for a in t.made} for name, t in self.problems.items()}
        gaps = describe_gaps(numbers, summary)
        if not gaps and summary.get(ATTEMPTS_SEAL, self.seal) != self.seal:
            return "they are not those that were counted"
        return gaps

    def list_damage(self, summary: Mapping[str, Any]) -> list[str]:
        """The faults of the file, a sentence each: damaged lines, then the gaps."""
        gaps = self.describe_gaps(summary)
        return [*self.damage, *([f"{self.path}: {gaps}"] if gaps else [])]


def tally_attempts(path: Path) -> AttemptTally:
    """Count a file of attempts in one pass. Raises RunError: the file cannot be read, or a line is
    no attempt."""
    damage: list[str] = []
    return tally_rows(AttemptFile(path, damage.append), path, damage)


def tally_rows(
    rows: Iterable[tuple[int, AttemptRow]], path: Path | None = None, damage: Sequence[str] = ()
) -> AttemptTally:
    """Count attempts, each with its place in the file."""
    problems: dict[str, ProblemTally] = {}
    reasons: Counter[str] = Counter()
    texts: dict[str, Row] = {}
    seals = SealSum()
    for place, row in rows:
        name = row["problem_id"]
        tally = problems.get(name)
        if tally is None:
            groups = (str(row.get("level", 0)), row.get("family", ""), row.get("category", ""))
            tally = problems[name] = ProblemTally(name, *groups)
        if "problem" in row and name not in texts:
            texts[name] = row["problem"]
        tally.add(row, place)
        seals.add(row)
        if row["status"] in UNJUDGED:
            count_reason(reasons, row)
    return AttemptTally(path, problems, reasons, texts, damage, str(seals))


def _measure_turns(row: AttemptRow) -> Iterator[tuple[int | None, int | None]]:
    for number, turn in enumerate(row["turns"]):
        candidate = turn["candidate"]
        # Each call of a search was paid, also where it asked again what was not judged.
        call = (row["attempt"], number) if "search" in row else candidate
        yield None if candidate is None else hash(call), turn["num_tokens"]


def first_message(row: Mapping[str, Any]) -> str:
    """The text that tells failures apart: the first message, or the status where there is none."""
    messages = row.get("diagnostics")
    return str(messages[0].get("message"))[:REASON_CHARS] if messages else str(row.get("status"))


def count_reason(reasons: Counter[str], row: Mapping[str, Any]) -> None:
    """Count why an attempt or rollout got no verdict; others are passed over.

    Beyond ``REASONS_COUNTED`` distinct messages the rest is counted together.
    """
    status = row.get("status")
    if status not in UNJUDGED:
        return
    message = first_message(row) if row.get("diagnostics") else "no message"
    reason = f"{status}: {message}"
    if reason not in reasons and len(reasons) >= REASONS_COUNTED:
        reason = "other messages"
    reasons[reason] += 1


def fetch_rows(tally: AttemptTally, places: Sequence[int]) -> list[Row]:
    """The attempts at these places of the tally's file, in the order asked for. Raises RunError:
    the file has changed since it was counted."""
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


@dataclass(frozen=True)
class StoredEvaluation:
    """One evaluation: the place of its summary, and the summary."""

    path: Path
    summary: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def attempts(self) -> AttemptTally:
        """Every attempt that it rests on, counted; none where they were not kept."""
        lines = self.path.with_suffix(".jsonl")
        return tally_attempts(lines) if lines.exists() else AttemptTally()

    def require_attempts(self, *, damaged: bool = False) -> AttemptTally:
        """The attempts, for figures to rest on; ``damaged`` admits lines that were passed over,
        doubled or cut. Raises RunError: there are none, or their file is damaged."""
        lines = self.path.with_suffix(".jsonl")
        if not lines.is_file():
            raise RunError(f"{lines}: no such file; give evals/NAME.json of a run")
        tally = self.attempts
        if tally.damage and not damaged:
            raise RunError(f"{tally.damage[0]}; {AGAIN}")
        if not tally.total:
            raise RunError(f"{lines} holds no attempt; {AGAIN}")
        return tally

    @property
    def problems(self) -> Mapping[str, ProblemTally]:
        return self.attempts.problems

    @property
    def benchmark(self) -> tuple[str, str]:
        """SHA-256 and name of the benchmark; figures are only set side by side where both agree."""
        summary = self.summary
        return (str(summary.get("benchmark_sha256", "")), str(summary.get("benchmark", "")))

    def level(self, level: str) -> dict[str, Any] | None:
        """The figures of one level ("all", "1", ...), or None when it was not evaluated."""
        for row in self.summary.get("levels", ()):
            if str(row.get("level")) == level:
                return dict(row)
        return None

    @property
    def ks(self) -> list[int]:
        """The k that its summary has estimates for."""
        return sorted(int(k) for k in self.summary["levels"][0].get("pass", {}))
