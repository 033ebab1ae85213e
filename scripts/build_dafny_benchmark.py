#!/usr/bin/env python3
"""Builds the Dafny benchmark's files from its sources, and checks every problem with real Dafny.

    python scripts/build_dafny_benchmark.py                 write the shipped files
    python scripts/build_dafny_benchmark.py --verify        check what changed, then write them
    python scripts/build_dafny_benchmark.py --verify --all  check everything again (minutes)
    python scripts/build_dafny_benchmark.py --verify --only sum-append --dry-run

The files are problems.jsonl, MANIFEST.json and SHA256SUMS.

A problem passes when its reference is PROVED without a warning, and an empty body, a body that
says nothing and a contradiction between its preconditions are each judged and not proved.
``verified.json`` records what passed, with a checksum of the exact text; nothing is built from a
text that is not recorded there.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.compose.vacuity import build_requires_probe, proves_probe
from proverrl.lang.dafny.verify.backend import start_dafny_worker
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
from proverrl.problems.load import benchmark_sha256, write_problems
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.base import Limits, Verifier, Worker
from proverrl.verifier.pool import VerifierPool
from scripts.arguments import at_least, telling_errors
from scripts.dafny_sources import (
    CATEGORIES,
    ORIGIN,
    SourceProblem,
    build_rows,
    parse_source,
)

FOLDER = Path(__file__).parents[1] / "dafny" / "benchmark"
VERSION = "1.0.0"
RLIMIT = 1_000_000
"""The limit of the shipped configurations: every reference must do with it."""
DEADLINE_SECONDS = 120.0
BODIES_THAT_SAY_NOTHING = {
    "invariants": ("", "invariant true"),
    "statements": ("", "assert true;", "{}"),
    "assertions": ("", "assert true;"),
    "calc": ("", "{ assert true; }"),
}
Verified = dict[str, dict[str, Any]]


def read_sources(folder: Path) -> list[SourceProblem]:
    """All problems, the categories in their order; raises ProblemError."""
    found = {path.stem for path in (folder / "src").glob("*.dfy")}
    if found != set(CATEGORIES):
        raise ProblemError(f"{folder}/src must hold exactly {', '.join(CATEGORIES)} (.dfy)")
    return [
        problem
        for category in CATEGORIES
        for problem in parse_source(
            (folder / "src" / f"{category}.dfy").read_text("utf-8"), category
        )
    ]


def checksum(problem: SourceProblem) -> str:
    """SHA-256 of all that a verdict on the reference and the empty body depends on."""
    parts = (problem.kind, problem.statement, problem.reference)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def list_empty_bodies(source: SourceProblem) -> tuple[str, ...]:
    """Bodies that must not prove the problem."""
    if source.kind == ANNOTATE:
        return (source.statement.replace(HOLE, ""),)
    return BODIES_THAT_SAY_NOTHING[source.kind]


def describe(what: str, verdict: Verdict) -> str:
    """What was tried and what came of it, for a person."""
    lines = [f"{what}: {verdict.status.value}"]
    lines += [f"    {d.severity} line {d.line}: {d.message}" for d in verdict.diagnostics]
    return "\n".join(lines)


async def check(
    source: SourceProblem, verifier: Verifier, known: KnownProblems
) -> tuple[list[str], list[str]]:
    """The entries of a problem, and what is wrong with it (nothing, when it passes)."""
    problem = Problem(source.id, "dafny", source.kind, "", source.statement)

    async def verify(body: str) -> Verdict:
        candidate = Candidate(problem, body)
        return await verifier.verify(candidate, deadline_seconds=DEADLINE_SECONDS)

    full = await verify(source.reference)
    if full.status is not Status.PROVED or full.diagnostics:
        return [], [describe("reference", full)]
    wrong = []
    for body in list_empty_bodies(source):
        verdict = await verify(body)
        if verdict.status not in (Status.REJECTED, Status.EXHAUSTED):
            wrong.append(describe(f"body {body[:40]!r}", verdict))
    if probe := build_requires_probe(problem):
        verdict = await verifier.verify(probe, deadline_seconds=DEADLINE_SECONDS)
        if proves_probe(verdict) or not verdict.status.judged:
            wrong.append("its preconditions contradict each other, or were not judged")
    return sorted(known.find_entries(problem) or ()), wrong


async def verify_all(sources: list[SourceProblem], workers: int) -> tuple[Verified, int]:
    """What passed, by id, and how many did not; progress goes to standard output."""
    toolchain, limits, known = find_dafny_toolchain(), Limits(rlimit=RLIMIT), KnownProblems()

    async def spawn() -> Worker:
        return await start_dafny_worker(toolchain, limits, known)

    pool = VerifierPool(spawn, workers=workers, audit=audit_candidate, toolchain=toolchain.name)
    passed: Verified = {}
    slots = asyncio.Semaphore(workers)

    async def run(source: SourceProblem) -> None:
        async with slots:
            entries, wrong = await check(source, pool, known)
        if not wrong:
            passed[source.id] = {
                "sha256": checksum(source),
                "toolchain": toolchain.name,
                "rlimit": RLIMIT,
                "entries": entries,
            }
        print(f"{'ok    ' if not wrong else 'FAILED'} {source.id}", flush=True)
        for text in wrong:
            print("  " + text.replace("\n", "\n  "), flush=True)

    try:
        await asyncio.gather(*(run(source) for source in sources))
    finally:
        await pool.aclose()
    return passed, len(sources) - len(passed)


def write_json(path: Path, value: Any) -> None:
    """Write a value so that the same value gives the same bytes."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def build(sources: list[SourceProblem], verified: Verified, folder: Path) -> None:
    """Write the shipped files; raises ProblemError for a text that was not verified as it is."""
    for source in sources:
        if verified.get(source.id, {}).get("sha256") != checksum(source):
            raise ProblemError(f"{source.id} was not verified as it is now; run with --verify")
    entries = {name: found["entries"] for name, found in verified.items()}
    write_problems(folder / "problems.jsonl", build_rows(sources, entries))
    manifest = {
        "name": ORIGIN,
        "version": VERSION,
        "num_problems": len(sources),
        "categories": Counter(source.category for source in sources),
        "levels": Counter(str(source.level) for source in sources),
        "kinds": Counter(source.kind for source in sources),
        "toolchains": sorted({found["toolchain"] for found in verified.values()}),
        "rlimit": RLIMIT,
    }
    write_json(folder / "MANIFEST.json", manifest)
    names = sorted(["problems.jsonl", "MANIFEST.json", "verified.json"])
    names += [f"src/{name}.dfy" for name in sorted(CATEGORIES)]
    lines = [f"{benchmark_sha256(folder / name)}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def main() -> int:
    """Run; returns the exit status: 1 when a problem failed its check."""
    parser = argparse.ArgumentParser(description="Build and check the Dafny benchmark.")
    parser.add_argument("--verify", action="store_true", help="check with real Dafny")
    parser.add_argument("--all", action="store_true", help="check what passed before too")
    parser.add_argument("--only", default="", help="only ids that contain this")
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    parser.add_argument("--workers", type=at_least(1), default=2)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where src/ is")
    arguments = parser.parse_args()
    started = time.monotonic()
    sources = read_sources(arguments.folder)
    record = arguments.folder / "verified.json"
    verified: Verified = json.loads(record.read_text("utf-8")) if record.exists() else {}
    num_failed = 0
    if arguments.verify:
        due = [
            source
            for source in sources
            if arguments.only in source.id
            and (arguments.all or verified.get(source.id, {}).get("sha256") != checksum(source))
        ]
        passed, num_failed = asyncio.run(verify_all(due, arguments.workers))
        print(f"{len(passed)} of {len(due)} passed in {time.monotonic() - started:.0f} s")
        known = {source.id for source in sources}
        verified = {name: found for name, found in (verified | passed).items() if name in known}
        if not arguments.dry_run:
            write_json(record, verified)
    if not arguments.dry_run and not num_failed and not arguments.only:
        build(sources, verified, arguments.folder)
        print(f"wrote {len(sources)} problems to {arguments.folder}/problems.jsonl")
    return 1 if num_failed else 0


if __name__ == "__main__":
    with telling_errors():
        raise SystemExit(main())
