"""Proofs that were verified under other conditions, or by another run, are verified before use.

Flows in: a store of proofs after a resume, or a file of proofs. Flows out: a store in which every
proof was verified under the present toolchain, limits, audit and statement; what did not pass is
written to ``dropped_proofs.jsonl`` with the reason and is never learned from.
Not handled here: references of the training file, which are not found by a policy.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proverrl.errors import UsageError
from proverrl.files.disk import write_error
from proverrl.files.lines import append_line, read_json_lines
from proverrl.loops.session import Session
from proverrl.problems.inputs import Submission, read_lines
from proverrl.rollout.proofs import IMPORTED, Proof, ProofStore
from proverrl.types import Candidate, Problem, Verdict

DROPPED_FILE = "dropped_proofs.jsonl"
_SLICE = 64
"""Candidates given to the pool at once, so that progress shows."""

NO_PROBLEM = "its problem is not among the problems that this run's loop draws from"


async def reverify_proofs(session: Session, store: ProofStore) -> int:
    """Verify anew every proof whose conditions are not the present ones; returns the calls.

    A proof that is not proved again leaves the store. So does one that could not be judged: it is
    in the file, and is verified again when the file of another run is imported.
    """
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    stale: list[tuple[Problem, Proof]] = []
    dropped: list[dict[str, Any]] = []
    for name, proof in store.entries():
        problem = by_id.get(name)
        if problem is None:
            store.discard(name, proof)
            dropped.append(describe_drop(name, proof.body, NO_PROBLEM, proof))
        elif proof.conditions != store.conditions(problem):
            stale.append((problem, proof))
    candidates = [Candidate(problem, proof.body) for problem, proof in stale]
    verdicts = await verify_all(session, candidates, "proofs verified anew")
    for (problem, proof), verdict in zip(stale, verdicts, strict=True):
        store.discard(problem.id, proof)
        if verdict.proved:
            store.keep(
                problem,
                proof.body,
                num_tokens=proof.num_tokens,
                policy_version=proof.policy_version,
            )
        else:
            dropped.append(describe_drop(problem.id, proof.body, explain_refusal(verdict), proof))
    if stale or dropped:
        report_drops(session, "toolchain or problems changed", len(stale), dropped)
    return len(stale)


async def import_proofs(session: Session, store: ProofStore, path: Path) -> int:
    """Verify the proofs of a file (``proverrl proofs`` writes one) and keep those that pass.

    Whatever the file says, each body is judged against this run's own problem of that id. Returns
    the verifier calls.

    Raises:
        UsageError: the file is missing, or a line of it is no candidate.
    """
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    candidates: dict[str, Candidate] = {}
    dropped: list[dict[str, Any]] = []
    for entry in _read_candidates(path):
        name = entry.problem.id
        if name not in by_id:
            dropped.append(describe_drop(name, entry.body, NO_PROBLEM))
        elif entry.prelude:
            dropped.append(describe_drop(name, entry.body, "it needs a prelude, which is not kept"))
        else:
            candidate = Candidate(by_id[name], entry.body)
            candidates[candidate.key] = candidate
    verdicts = await verify_all(session, list(candidates.values()), "imported proofs")
    for candidate, verdict in zip(candidates.values(), verdicts, strict=True):
        problem = candidate.problem
        if verdict.proved:
            num_tokens = len(session.policy.body_ids(problem, candidate.body))
            store.keep(problem, candidate.body, num_tokens=num_tokens, policy_version=IMPORTED)
        else:
            dropped.append(describe_drop(problem.id, candidate.body, explain_refusal(verdict)))
    report_drops(session, f"import of {path}", len(candidates), dropped)
    return len(candidates)


def _read_candidates(path: Path) -> Iterator[Candidate]:
    try:
        with path.open("rb") as file:
            for entry in read_lines(file, str(path)):
                if not isinstance(entry, Submission):
                    raise UsageError(f"{entry.message}; write what proverrl proofs writes")
                yield entry.candidate
    except OSError as error:
        raise UsageError(
            f"expert_iteration.proofs names {path}, which cannot be read: {error.strerror}"
        ) from error


async def verify_all(
    session: Session, candidates: Sequence[Candidate], phase: str
) -> list[Verdict]:
    """Verdicts in order; ``phase`` names the work in the display."""
    verdicts: list[Verdict] = []
    deadline = session.config.pool.deadline_seconds
    for start in range(0, len(candidates), _SLICE):
        part = candidates[start : start + _SLICE]
        verdicts += await asyncio.gather(
            *(session.verifier.verify(c, deadline_seconds=deadline) for c in part)
        )
        session.monitor.phase(phase, f"{len(verdicts)}/{len(candidates)}")
    return verdicts


def explain_refusal(verdict: Verdict) -> str:
    """The status, the first error and the cause, as far as there are any."""
    errors = [d.message for d in verdict.diagnostics if d.severity == "error"]
    return ": ".join(
        [str(verdict.status), *errors[:1], *([verdict.cause] if verdict.cause else [])]
    )


def describe_drop(
    problem_id: str, body: str, reason: str, proof: Proof | None = None
) -> dict[str, Any]:
    """A line of ``dropped_proofs.jsonl``."""
    before = asdict(proof.conditions) if proof else None
    return {"problem_id": problem_id, "body": body, "reason": reason, "verified_under": before}


def report_drops(
    session: Session, why: str, num_verified: int, dropped: Sequence[dict[str, Any]]
) -> None:
    """Say what became of the proofs, and append those that went (each once) to the file."""
    path = session.folder / DROPPED_FILE
    known = {json.dumps(row) for row in read_json_lines(path)} if path.exists() else set()
    try:
        with path.open("a", encoding="utf-8") as stream:
            for row in dropped:
                if json.dumps(row) not in known:
                    append_line(stream, row, path)
    except OSError as error:
        raise write_error(path, error) from error
    detail = f"{num_verified} verified"
    if dropped:
        detail += f", {len(dropped)} left out of training, see {path}"
    session.monitor.phase(why, detail)
