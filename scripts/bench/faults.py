"""What one bad candidate in a hundred costs, with real processes that crash or hang.

Flows in: how many candidates, and which fault. Flows out: verdicts lost, neighbours changed, and
the speed against the bound that replacing workers alone imposes: the time per good candidate of a
run without faults, and the time that the run itself needs to replace a worker, so that both are
taken under the same load.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from dataclasses import dataclass
from random import Random
from typing import Literal

from proverrl.errors import WorkerError
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.base import Worker
from proverrl.verifier.pool import VerifierPool
from proverrl.verifier.process_group import GroupWorker, ProcessGroup

Fault = Literal["crash", "hang"]
_SERVICE_SECONDS = 0.02
_FAULT_SHARE = 0.01
_EXPECTED = {"crash": Status.REJECTED, "hang": Status.TIMEOUT}
# A crash is tried on two fresh workers after the used one, a hang on one; a new worker after each.
_RESTARTS = {"crash": 3, "hang": 2}
_SCRIPT = """
import sys, time
for line in sys.stdin:
    nonce, word, seconds, name = line.split()
    time.sleep(float(seconds))
    if word == "crash":
        sys.exit(3)
    if word == "hang":
        time.sleep(3600)
    print(nonce, name, flush=True)
"""


class EchoWorker(GroupWorker):
    """A real process. The body begins with a word (``answer``, ``crash``, ``hang``) and the seconds
    before it; a proof has the problem's id among its checks, so that an answer to another shows."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        return (self._group,)

    @classmethod
    async def start(cls) -> EchoWorker:
        """Start a process and wait for its first answer."""
        worker = cls(await ProcessGroup.start((sys.executable, "-I", "-S", "-c", _SCRIPT)))
        await worker._ask("answer 0", "start")
        return worker

    async def judge(self, candidate: Candidate) -> Verdict:
        words = " ".join(candidate.body.split()[:2])
        name = await self._ask(words, candidate.problem.id)
        return Verdict(Status.PROVED, checks=(name,))

    async def _ask(self, words: str, name: str) -> str:
        nonce = secrets.token_hex(8)
        try:
            await self._group.write(f"{nonce} {words} {name}\n".encode())
        except OSError as error:
            raise await self._group.explain_end("the process is gone") from error
        said = b""
        while not said.endswith(b"\n"):
            chunk = await self._group.read()
            if not chunk:
                raise await self._group.explain_end("the process died")
            said += chunk
        found, answer = said.decode().split()
        if found != nonce:
            raise WorkerError("the answer belongs to another question")
        return answer


@dataclass(frozen=True, slots=True)
class FaultCost:
    """``lost`` counts good candidates without a verdict, ``changed`` those with a wrong one.

    ``faults_named`` counts faulty candidates that were reported as what they are. ``bound_share``
    is the speed over the bound that replaced workers, and the waits for a deadline, alone impose.
    """

    fault: str
    candidates: int
    faults: int
    lost: int
    changed: int
    faults_named: int
    restart_seconds: float
    per_second: float
    bound_per_second: float
    bound_share: float


class _TimedPool:
    """A pool of echo workers that notes how long each start took."""

    def __init__(self, workers: int) -> None:
        self.starts: list[float] = []
        self.pool = VerifierPool(
            self._spawn, workers=workers, audit=lambda _: None, toolchain="bench"
        )
        self._workers = workers

    async def _spawn(self) -> Worker:
        started = time.perf_counter()
        worker = await EchoWorker.start()
        self.starts.append(time.perf_counter() - started)
        return worker

    async def run(
        self, candidates: list[Candidate], deadline_seconds: float
    ) -> tuple[list[Verdict | BaseException], float]:
        """All outcomes in order, and the wall time with workers that had started before."""
        await self._judge([make_candidate(f"w{i}", "answer") for i in range(self._workers)], 60.0)
        self.starts.clear()
        started = time.perf_counter()
        outcomes = await self._judge(candidates, deadline_seconds)
        return outcomes, time.perf_counter() - started

    async def _judge(
        self, candidates: list[Candidate], deadline_seconds: float
    ) -> list[Verdict | BaseException]:
        asks = (self.pool.verify(c, deadline_seconds=deadline_seconds) for c in candidates)
        return await asyncio.gather(*asks, return_exceptions=True)


def price_fault(fault: Fault, deadline_seconds: float, restart_seconds: float) -> float:
    """Seconds that a faulty candidate must cost a worker: deadlines, and new processes."""
    # The second attempt has twice the deadline.
    waits = 3 * deadline_seconds if fault == "hang" else 0.0
    return waits + _RESTARTS[fault] * restart_seconds


def make_candidate(name: str, word: str) -> Candidate:
    """A candidate that an echo worker answers, or fails on, as ``word`` says."""
    seconds = _SERVICE_SECONDS if word == "answer" else 0
    return Candidate(Problem(name, "dafny", "statements", "", HOLE), f"{word} {seconds}")


async def measure_faults(
    fault: Fault, *, candidates: int = 2000, workers: int = 8, deadline_seconds: float = 1.0
) -> FaultCost:
    """Judge ``candidates`` of which one in a hundred has the fault; seeded, real processes."""
    num_faults = max(1, round(candidates * _FAULT_SHARE))
    # Not in the last tenth: a fault there would measure the end of the run.
    bad = set(Random(0).sample(range(candidates * 9 // 10), num_faults))
    asked = [
        make_candidate(f"n{number}", fault if number in bad else "answer")
        for number in range(candidates)
    ]
    clean = _TimedPool(workers)
    good_only = [candidate for number, candidate in enumerate(asked) if number not in bad]
    try:
        _, clean_seconds = await clean.run(good_only, deadline_seconds=60.0)
    finally:
        await clean.pool.aclose()
    timed = _TimedPool(workers)
    try:
        outcomes, seconds = await timed.run(asked, deadline_seconds)
    finally:
        await timed.pool.aclose()
    restart = sum(timed.starts) / len(timed.starts)
    bound_seconds = (
        clean_seconds + num_faults * price_fault(fault, deadline_seconds, restart) / workers
    )
    good = [(asked[i], outcomes[i]) for i in range(candidates) if i not in bad]
    judged = [(c, o) for c, o in good if isinstance(o, Verdict) and o.status.judged]
    named = sum(
        isinstance(found := outcomes[i], Verdict) and found.status is _EXPECTED[fault] for i in bad
    )
    return FaultCost(
        fault=fault,
        candidates=candidates,
        faults=num_faults,
        lost=len(good) - len(judged),
        changed=sum(not o.proved or o.checks != (c.problem.id,) for c, o in judged),
        faults_named=named,
        restart_seconds=restart,
        per_second=candidates / seconds,
        bound_per_second=candidates / bound_seconds,
        bound_share=bound_seconds / seconds,
    )
