"""Programs per second: warm Dafny servers against one Dafny process per file.

Flows in: candidates. Flows out: the speed of both on the same programs, one after the other, with
as many workers and the same z3, and whether the verdicts agree. Finding out which entries a proof
must have, starts of the pool and their tests are outside the measured time of both.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proverrl.benchmarks.base import open_source
from proverrl.benchmarks.formats import FORMATS, read_source
from proverrl.errors import ProblemError, ToolchainError
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.verify.backend import make_spawn
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain, find_dafny_toolchain
from proverrl.problems.load import load_problems, load_references
from proverrl.types import HOLE, Candidate, Problem, Verdict
from proverrl.verifier.base import Limits
from proverrl.verifier.pool import VerifierPool

_DEADLINE_SECONDS = 120.0
_WARM_UP = Problem("warm-up", "dafny", "file", "", HOLE)


@dataclass(frozen=True, slots=True)
class DafnySpeed:
    """``ratio`` is warm programs per second over those of one process per file."""

    name: str
    toolchain: str
    workers: int
    programs: int
    warm_start_seconds: float
    warm_per_second: float
    cold_per_second: float
    ratio: float
    statuses: dict[str, int]
    disagreements: int


def load_generated(path: Path, num: int) -> list[Candidate]:
    """``num`` problems of a file, spread evenly over it, each with its reference body."""
    references = load_references(path)
    usable = [problem for problem in load_problems(path) if problem.id in references]
    chosen = usable[:: max(1, len(usable) // num)][:num]
    return [Candidate(problem, references[problem.id]) for problem in chosen]


def load_dafnybench(path: Path, num: int) -> list[Candidate]:
    """``num`` tasks of a file with ``hints_removed`` and ``ground_truth``, spread evenly."""
    source = open_source(path)
    if reason := FORMATS["dafnybench_tasks"].explain_misfit(source):
        raise ProblemError(f"{path} is not a file of DafnyBench tasks: {reason}")
    found = read_source(source, format_name="dafnybench_tasks", origin="dafnybench").entries
    chosen = found[:: max(1, len(found) // num)][:num]
    return [Candidate(entry.problem, entry.reference or "") for entry in chosen]


async def measure_dafny(
    name: str, candidates: Sequence[Candidate], *, workers: int = 2
) -> DafnySpeed:
    """Judge all candidates both ways; raises ``ToolchainError`` without DafnyServer."""
    toolchain = find_dafny_toolchain()
    if toolchain.server is None:
        raise ToolchainError("DafnyServer is not installed; run: sudo apt-get install dafny")
    known = KnownProblems()
    await _judge(toolchain, candidates, workers, known)
    warm, start_seconds, warm_seconds = await _judge(toolchain, candidates, workers, known)
    one_each = replace(toolchain, server=None)
    cold, _, cold_seconds = await _judge(one_each, candidates, workers, known)
    return DafnySpeed(
        name=name,
        toolchain=toolchain.name,
        workers=workers,
        programs=len(candidates),
        warm_start_seconds=start_seconds,
        warm_per_second=len(candidates) / warm_seconds,
        cold_per_second=len(candidates) / cold_seconds,
        ratio=cold_seconds / warm_seconds,
        statuses=dict(sorted(Counter(verdict.status.value for verdict in warm).items())),
        disagreements=sum(a.status is not b.status for a, b in zip(warm, cold, strict=True)),
    )


async def _judge(
    toolchain: DafnyToolchain,
    candidates: Sequence[Candidate],
    workers: int,
    known: KnownProblems,
) -> tuple[list[Verdict], float, float]:
    pool = VerifierPool(
        make_spawn(toolchain, Limits(), known),
        workers=workers,
        audit=audit_candidate,
        toolchain=toolchain.name,
    )

    async def judge(many: Sequence[Candidate]) -> tuple[list[Verdict], float]:
        started = time.perf_counter()
        asks = (pool.verify(c, deadline_seconds=_DEADLINE_SECONDS) for c in many)
        return await asyncio.gather(*asks), time.perf_counter() - started

    try:
        text = "lemma W{}(x: int) ensures x * x >= 0 {{}}"
        _, start_seconds = await judge(
            [Candidate(_WARM_UP, text.format(number)) for number in range(workers)]
        )
        verdicts, seconds = await judge(candidates)
    finally:
        await pool.aclose()
    return verdicts, start_seconds, seconds
