"""Small Dafny problems to search in, real Dafny behind one event loop, and a writer of scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import pytest

from proverrl.config.search import SearchConfig
from proverrl.errors import ToolchainError
from proverrl.lang.base import BackendOptions
from proverrl.lang.open import open_router
from proverrl.lang.records import Prefix
from proverrl.search.base import Functions, Proposal, SearchResult
from proverrl.search.wiring import make_search
from proverrl.types import HOLE, Candidate, Problem, Verdict
from proverrl.verifier.base import Limits

LEM = Problem(
    "lem",
    "dafny",
    "statements",
    "function Val(p: nat): int { if p < 1 then 22 else Val(p - 1) + 18 }\n",
    f"lemma {{:induction false}} Lem(m: nat)\n  ensures Val(m) == 18 * m + 22\n{{\n  {HOLE}\n}}\n",
)
# In the even branch the value is known from one lemma, in the odd branch from another.
TWO = Problem(
    "two",
    "dafny",
    "statements",
    "function F(n: nat): int { if n == 0 then 5 else F(n - 1) + 3 }\n"
    "function G(n: nat): int { if n == 0 then 7 else G(n - 1) + 2 }\n"
    "function H(n: nat): int { if n % 2 == 0 then F(n) else G(n) }\n"
    "lemma {:induction false} ForF(n: nat)\n  ensures F(n) == 3 * n + 5\n"
    "{ if n > 0 { ForF(n - 1); } }\n"
    "lemma {:induction false} ForG(n: nat)\n  ensures G(n) == 2 * n + 7\n"
    "{ if n > 0 { ForG(n - 1); } }\n",
    "lemma {:induction false} Both(n: nat)\n"
    "  ensures H(n) == if n % 2 == 0 then 3 * n + 5 else 2 * n + 7\n"
    f"{{\n  {HOLE}\n}}\n",
)
LOOP = Problem(
    "loop",
    "dafny",
    "invariants",
    "",
    "method M(cap: nat) returns (b: int)\n  ensures b == 10 * cap + 54\n{\n  b := 54;\n"
    f"  var m := 0;\n  while m < cap\n    {HOLE}\n  {{\n    b := b + 10;\n    m := m + 1;\n"
    "  }\n}\n",
)
CALC = Problem(
    "calc",
    "dafny",
    "calc",
    "function Fn(q: nat): int { if q == 0 then 19 else Fn(q - 1) + 23 * q }\n",
    "lemma {:induction false} Show(n: nat)\n  ensures 2 * Fn(n) == 23 * n * (n + 1) + 38\n"
    f"{{\n  if n != 0 {{\n    calc {{\n      2 * Fn(n);\n      {HOLE}\n"
    "      23 * n * (n + 1) + 38;\n    }\n  }\n}\n",
)


class Dafny:
    """Real Dafny behind one event loop; verdicts are kept for all tests."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.verifier = open_router(BackendOptions(workers=1, limits=Limits(rlimit=1_000_000)))
        self.known: dict[str, Verdict] = {}

    async def verify(self, candidate: Candidate) -> Verdict:
        if candidate.key not in self.known:
            self.known[candidate.key] = await self.verifier.verify(
                candidate, deadline_seconds=120.0
            )
        return self.known[candidate.key]

    def judge(self, problem: Problem, body: str) -> Verdict:
        return self.runner.run(self.verify(Candidate(problem, body)))


def open_dafny() -> Iterator[Dafny]:
    """For a fixture; skips where there is no Dafny."""
    try:
        dafny = Dafny()
        dafny.judge(LEM, "")
    except ToolchainError as error:
        pytest.skip(str(error))
    yield dafny
    dafny.runner.run(dafny.verifier.aclose())
    dafny.runner.close()


class Script:
    """Writes the bodies of a script in turn, by what the statement around the hole is like: the
    first key that is found in it. A body is one token."""

    def __init__(self, bodies: Mapping[str, Sequence[str]]) -> None:
        self.bodies = bodies
        self.asked: list[str] = []
        self.counts = dict.fromkeys(bodies, 0)

    async def propose(
        self, problem: Problem, prefix: Prefix, num: int, seed: int
    ) -> list[Proposal]:
        key = next(key for key in self.bodies if key in problem.statement)
        self.asked.append(problem.statement)
        written = []
        for _ in range(num):
            row = self.bodies[key]
            written.append(Proposal(row[self.counts[key] % len(row)], 1, -1.0))
            self.counts[key] += 1
        return written


def run(dafny: Dafny, script: Script, problem: Problem, **config: object) -> SearchResult:
    functions = Functions(script.propose, dafny.verify, confirm=dafny.verify)
    settings = SearchConfig.model_validate({"calls": 16, "width": 1, **config})
    return dafny.runner.run(make_search(problem, functions, settings).run())
