"""Checks the proofs that somebody claims, against a benchmark's own statements.

Flows in: claims, problems, a verifier. Flows out: a ``RecheckedClaim`` for each claimed proof. Only
the text in the place of the hole is taken (and, for Lean, the lemmas before the statement); the
statement is ours, and the audit judges as in training. A changed statement costs no verifier call.
Not handled here: reported failures; statements that are ours in meaning but not in tokens.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, with_config
from typing_extensions import TypedDict

from proverrl.errors import ProblemError, RunError
from proverrl.evaluation.claims import Claim, Misfit
from proverrl.files.lines import ROW, check_fields, iter_numbered_lines, write_atomically
from proverrl.files.seal import CHANGED, has_own_seal
from proverrl.lang import find_language
from proverrl.lang.records import Extraction
from proverrl.problems.batch import verify_stream
from proverrl.problems.inputs import Submission, Unusable, VerifyInput
from proverrl.types import Candidate, Problem, Status, Verdict
from proverrl.verifier.base import Verifier

RecheckStatus = Literal[
    "proved",
    "rejected",
    "incomplete",
    "unconfirmed",
    "unsound",
    "exhausted",
    "timeout",
    "crashed",
    "unknown-problem",
    "other-statement",
    "no-proof",
]
"""A verdict's status, or the reason why there is no candidate to judge."""


@dataclass(frozen=True, slots=True)
class RecheckedClaim:
    """The outcome of a claim. ``reason`` is empty for a proof; ``key`` names the candidate."""

    claim: Claim
    problem_id: str
    status: RecheckStatus
    reason: str = ""
    key: str = ""
    verdict: Verdict | None = None

    @property
    def holds(self) -> bool:
        return self.status == "proved"

    def to_json(self) -> dict[str, Any]:
        """The row of a file, one for each claim."""
        verdict = self.verdict
        return {
            "line": self.claim.line,
            "sample": self.claim.number,
            "id": self.problem_id,
            "status": self.status,
            "holds": self.holds,
            "reason": self.reason,
            "claim": self.claim.digest,
            "key": self.key,
            "diagnostics": [asdict(d) for d in verdict.diagnostics] if verdict else [],
            "toolchain": verdict.toolchain if verdict else "",
            "checks": list(verdict.checks) if verdict else [],
        }


@with_config(ROW)
class _RecheckRow(TypedDict):
    line: int
    sample: int
    claim: str
    status: RecheckStatus
    conditions: str


_RECHECK = TypeAdapter(_RecheckRow)
_ANEW = "leave out --resume to start anew"


@dataclass(frozen=True, slots=True)
class Rechecked:
    """An outcome that an interrupted run wrote: of which claim, and what it rests on."""

    digest: str
    status: str
    conditions: str


def describe_conditions(
    claim: Claim, by_id: Mapping[str, Problem], make_key: Callable[[Candidate], str]
) -> str:
    """What the outcome of a claim rests on: the problem of this benchmark, judges and limits."""
    found = prepare(claim, by_id)
    if isinstance(found, RecheckedClaim):
        return found.status
    try:
        return make_key(found)
    except ProblemError as error:
        return str(error)


def read_written(path: Path) -> dict[tuple[int, int], Rechecked]:
    """Each outcome that an interrupted run wrote, by line and sample. A last line that was cut is
    dropped from the file, and so is what was not judged. Raises RunError: the file cannot be read,
    or a line is no outcome."""
    if not path.exists():
        return {}
    rows = []
    for line, _, row in iter_numbered_lines(path, lambda text: None):
        where = f"{path}, line {line}"
        check_fields(_RECHECK, row, where, _ANEW)
        if not has_own_seal(row):
            raise RunError(f"{where}: {CHANGED}; {_ANEW}")
        if row["status"] not in ("timeout", "crashed"):
            rows.append(row)
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows))
    return {
        (row["line"], row["sample"]): Rechecked(row["claim"], row["status"], row["conditions"])
        for row in rows
    }


async def recheck_claims(
    claims: Iterable[Claim | Misfit],
    problems: Sequence[Problem],
    verifier: Verifier,
    *,
    deadline_seconds: float,
) -> AsyncIterator[RecheckedClaim | Misfit]:
    """Every claimed proof with its outcome, and lines that do not fit, in order. Lines that
    claim no proof are passed over. Raises what the verifier raises."""
    by_id = {problem.id: problem for problem in problems}
    waiting: deque[RecheckedClaim | Misfit] = deque()
    prepared: deque[tuple[Claim, Candidate]] = deque()

    async def submit() -> AsyncIterator[VerifyInput]:
        for item in claims:
            if isinstance(item, Claim) and not item.claimed:
                continue
            found = item if isinstance(item, Misfit) else prepare(item, by_id)
            if isinstance(found, Candidate):
                assert isinstance(item, Claim)
                prepared.append((item, found))
                yield Submission(found.problem.id, found)
            else:
                waiting.append(found)
                yield Unusable("", "malformed", "", item.line, "")

    async for entry, verdict in verify_stream(
        submit(), verifier, deadline_seconds=deadline_seconds
    ):
        if isinstance(entry, Unusable):
            yield waiting.popleft()
            continue
        assert verdict is not None
        claim, candidate = prepared.popleft()
        yield RecheckedClaim(
            claim,
            candidate.problem.id,
            verdict.status.value,
            explain(verdict),
            candidate.key,
            verdict,
        )


def prepare(claim: Claim, by_id: Mapping[str, Problem]) -> Candidate | RecheckedClaim:
    """The candidate that a claim makes for our problem, or the outcome where there is none."""
    problem = find_problem(claim, by_id)
    if problem is None:
        near = difflib.get_close_matches(claim.names[0], by_id, n=1)
        hint = f"; the nearest id is {near[0]!r}" if near else ""
        reason = f"the benchmark has no problem {claim.names[0]!r}{hint}"
        return RecheckedClaim(claim, claim.names[0], "unknown-problem", reason)
    if claim.code is None:
        return RecheckedClaim(
            claim, problem.id, "no-proof", "a proof is claimed, but there is none"
        )
    if claim.is_body:
        return Candidate(problem, claim.code, claim.prelude)
    read: Extraction = find_language(problem.language).read_code(problem, claim.code)
    candidate = read.candidate(problem)
    if candidate is None:
        return RecheckedClaim(claim, problem.id, "other-statement", read.reason)
    return candidate


def find_problem(claim: Claim, by_id: Mapping[str, Problem]) -> Problem | None:
    """The problem that one of the claim's names names, with or without a number of the sample after
    it (``NAME_g3``)."""
    for name in claim.names:
        for known in (name, re.sub(r"_g?\d+$", "", name)):
            if known in by_id:
                return by_id[known]
    return None


def explain(verdict: Verdict) -> str:
    """One line on a verdict: its first error, or the cause where nothing was judged. Empty for a
    proof."""
    if verdict.status is Status.PROVED:
        return ""
    if not verdict.status.judged:
        return f"nothing was judged ({verdict.cause or verdict.status.value})"
    errors = [d for d in verdict.diagnostics if d.severity == "error"] or verdict.diagnostics
    if not errors:
        return verdict.status.value
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    place = f"line {first.line}: " if first.line else ""
    return place + " ".join(first.message.split())[:300] + more
