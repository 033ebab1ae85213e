"""Proofs made under other conditions, by another run or by a search, are verified before use.

Flows in: a store of proofs after a resume, a file of proofs, the files of ``[samples]``. Flows out:
proofs that were verified under the present toolchain, limits, audit and statement. What did not
pass is written to ``dropped_proofs.jsonl`` and never learned from.
Not handled here: references of the training file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proverrl.config import Config
from proverrl.errors import UsageError
from proverrl.files.disk import write_error
from proverrl.files.lines import append_line, read_json_lines
from proverrl.problems.inputs import Submission, read_lines
from proverrl.rollout.proofs import IMPORTED, Proof, ProofStore
from proverrl.run.session import Session
from proverrl.search.samples import SearchSample, read_samples
from proverrl.types import Candidate, Verdict
from proverrl.verifier.base import verify_all

DROPPED_FILE = "dropped_proofs.jsonl"
_SLICE = 64
"""Candidates given to the pool at once, so that progress shows."""
_NO_PROBLEM = "its problem is not among the problems that this run's loop draws from"


async def reverify_proofs(session: Session, store: ProofStore) -> int:
    """Verify anew every proof whose conditions are not the present ones; returns the calls.

    A proof that is not proved again leaves the store. So does one that could not be judged: it is
    in the file, and is verified again when the file of another run is imported.
    """
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    stale: list[tuple[Candidate, Proof]] = []
    dropped: list[dict[str, Any]] = []
    for name, proof in store.entries():
        problem = by_id.get(name)
        if problem is None:
            store.discard(name, proof)
            dropped.append(_describe_drop(name, proof.body, _NO_PROBLEM, proof))
        elif proof.conditions != store.conditions(problem):
            stale.append((Candidate(problem, proof.body), proof))
    verdicts = await _verify_all(session, [c for c, _ in stale], "proofs verified anew")
    for (candidate, proof), verdict in zip(stale, verdicts, strict=True):
        problem, body = candidate.problem, candidate.body
        store.discard(problem.id, proof)
        if verdict.proved:
            version = proof.policy_version
            store.keep(problem, body, num_tokens=proof.num_tokens, policy_version=version)
        else:
            dropped.append(_describe_drop(problem.id, body, _explain_refusal(verdict), proof))
    if stale or dropped:
        _report_drops(session, "toolchain or problems changed", len(stale), dropped)
    return len(stale)


async def import_proofs(session: Session, store: ProofStore, path: Path) -> int:
    """Verify the proofs of a file (``proverrl proofs`` writes one) and keep those that pass.

    Whatever the file says, each body is judged against this run's own problem of that id. Returns
    the verifier calls. Raises ``UsageError``: the file is missing, or a line of it is no
    candidate."""
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    candidates: dict[str, Candidate] = {}
    dropped: list[dict[str, Any]] = []
    for entry in _read_candidates(path):
        name = entry.problem.id
        if name not in by_id:
            dropped.append(_describe_drop(name, entry.body, _NO_PROBLEM))
        elif entry.prelude:
            reason = "it needs a prelude, which is not kept"
            dropped.append(_describe_drop(name, entry.body, reason))
        else:
            candidate = Candidate(by_id[name], entry.body)
            candidates[candidate.key] = candidate
    dropped += await _keep_proved(session, store, candidates.values(), "imported proofs")
    _report_drops(session, f"import of {path}", len(candidates), dropped)
    return len(candidates)


def check_sample_files(config: Config) -> None:
    """Refuse the files of ``samples.files`` before anything else is done. Raises ``UsageError``: a
    file cannot be read or a line of it is no sample, or none holds a sample."""
    if config.samples.files and not _read_samples(config):
        raise UsageError("samples.files: no file holds a sample; write one with --emit-samples")


async def keep_sample_proofs(session: Session, store: ProofStore) -> int:
    """Put the proofs of searches into a store; returns the verifier calls. They are of problems
    that the loop draws from, with this run's statements, and the run's own verifier proves them
    now."""
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    dropped: list[dict[str, Any]] = []
    wanted: dict[str, Candidate] = {}
    for sample in _read_samples(session.config):
        name, problem = sample.problem.id, by_id.get(sample.problem.id)
        if not sample.proved:
            continue
        if problem is None:
            dropped.append(_describe_drop(name, sample.body, _NO_PROBLEM))
        elif Candidate(problem, "").key != Candidate(sample.problem, "").key:
            reason = "the file's problem of this id is not this run's"
            dropped.append(_describe_drop(name, sample.body, reason))
        else:
            candidate = Candidate(problem, sample.body)
            wanted[candidate.key] = candidate
    dropped += await _keep_proved(session, store, wanted.values(), "proofs of searches")
    if wanted or dropped:
        _report_drops(session, "samples of searches", len(wanted), dropped)
    return len(wanted)


def _read_samples(config: Config) -> list[SearchSample]:
    return [sample for name in config.samples.files for sample in read_samples(Path(name))]


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


async def _verify_all(
    session: Session, candidates: Sequence[Candidate], phase: str
) -> list[Verdict]:
    """Verdicts in order; ``phase`` names the work in the display."""
    verdicts: list[Verdict] = []
    deadline = session.config.pool.deadline_seconds
    for start in range(0, len(candidates), _SLICE):
        part = candidates[start : start + _SLICE]
        verdicts += await verify_all(session.verifier, part, deadline_seconds=deadline)
        session.monitor.phase(phase, f"{len(verdicts)}/{len(candidates)}")
    return verdicts


async def _keep_proved(
    session: Session, store: ProofStore, candidates: Collection[Candidate], phase: str
) -> list[dict[str, Any]]:
    """Keep what is proved now; returns a line about each of the others."""
    dropped = []
    verdicts = await _verify_all(session, [*candidates], phase)
    for candidate, verdict in zip(candidates, verdicts, strict=True):
        problem, body = candidate.problem, candidate.body
        if verdict.proved:
            num_tokens = len(session.policy.body_ids(problem, body))
            store.keep(problem, body, num_tokens=num_tokens, policy_version=IMPORTED)
        else:
            dropped.append(_describe_drop(problem.id, body, _explain_refusal(verdict)))
    return dropped


def _explain_refusal(verdict: Verdict) -> str:
    """The status, the first error and the cause, as far as there are any."""
    errors = [d.message for d in verdict.diagnostics if d.severity == "error"]
    return ": ".join(filter(None, [str(verdict.status), *errors[:1], verdict.cause]))


def _describe_drop(
    problem_id: str, body: str, reason: str, proof: Proof | None = None
) -> dict[str, Any]:
    """A line of ``dropped_proofs.jsonl``."""
    before = asdict(proof.conditions) if proof else None
    return {"problem_id": problem_id, "body": body, "reason": reason, "verified_under": before}


def _report_drops(
    session: Session, why: str, num_verified: int, dropped: Sequence[dict[str, Any]]
) -> None:
    """Say what became of the proofs, and append those that went (each once) to the file."""
    path = session.folder / DROPPED_FILE
    known = {json.dumps(row) for row in read_json_lines(path)} if path.exists() else set()
    try:
        with path.open("a", encoding="utf-8") as stream:
            for line, row in {json.dumps(row): row for row in dropped}.items():
                if line not in known:
                    append_line(stream, row, path)
    except OSError as error:
        raise write_error(path, error) from error
    detail = f"{num_verified} verified"
    if dropped:
        detail += f", {len(dropped)} left out of training, see {path}"
    session.monitor.phase(why, detail)
