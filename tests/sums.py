"""A third language, to see that nothing outside ``proverrl.lang`` asks a language's name.

A program is sums with their results, ``3 + 4 = 7``; the hole of a problem is the last result. What
a worker judges is arithmetic, in this process.
"""

from __future__ import annotations

import re

from proverrl.errors import ProblemError
from proverrl.lang.base import BackendOptions, Language
from proverrl.lang.records import Extraction
from proverrl.types import FILE, HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verifier.base import refuse_text
from proverrl.verifier.pool import VerifierPool
from proverrl.verifier.router import Backend

_LINE = re.compile(r"(\d+) \+ (\d+) = (\d+)")


def make_sum(name: str, one: int, other: int) -> Problem:
    """A problem whose hole is the sum."""
    statement = f"{one} + {other} = {HOLE}\n"
    return Problem(name, "sums", "result", "", statement, metadata={"level": 1})


class SumWorker:
    """Adds."""

    memory_mb = 0.0
    cpu_seconds = 0.0
    is_spent = False

    def is_warm_for(self, candidate: Candidate) -> bool:
        return True

    async def judge(self, candidate: Candidate) -> Verdict:
        for number, line in enumerate(candidate.source.strip().split("\n"), start=1):
            found = _LINE.fullmatch(line)
            if found is None or int(found[1]) + int(found[2]) != int(found[3]):
                wrong = Diagnostic("error", f"this does not hold: {line}", number)
                return Verdict(Status.REJECTED, (wrong,), toolchain="sums 1")
        return Verdict(Status.PROVED, toolchain="sums 1", checks=("sums",))

    def kill(self) -> None:
        pass

    async def join(self) -> None:
        pass


async def start_worker() -> SumWorker:
    """One worker of the pool."""
    return SumWorker()


class Sums(Language):
    """The language, as ``proverrl.lang`` and plug-ins name it."""

    name = "sums"
    title = "Sums"
    suffix = ".sum"
    comment = "#"
    fences: tuple[str, ...] = ("sums",)
    kinds = ("result", FILE)
    layout = "plain"

    def open_backend(self, options: BackendOptions) -> Backend:
        pool = VerifierPool(
            start_worker,
            workers=options.workers,
            audit=self.audit,
            toolchain="sums 1",
            languages=frozenset({self.name}),
        )
        return Backend("sums", "sums 1", "sums 1", pool)

    def audit(self, candidate: Candidate) -> Verdict | None:
        if candidate.problem.kind == FILE or candidate.body.isdigit():
            return None
        wrong = Diagnostic("error", "only a number may stand here", 1)
        return refuse_text(Status.REJECTED, "number", (wrong,))

    def check_problem(self, problem: Problem) -> None:
        if not problem.statement.rstrip().endswith(f"= {HOLE}"):
            raise ProblemError(f"problem {problem.id!r}: the result of the last sum is the hole")

    def find_name(self, problem: Problem) -> str:
        return problem.statement.partition("=")[0].strip()

    def read_body(self, problem: Problem, code: str) -> Extraction:
        return Extraction(code.strip().removeprefix(self.find_name(problem)).lstrip(" ="))


SUMS = Sums()
