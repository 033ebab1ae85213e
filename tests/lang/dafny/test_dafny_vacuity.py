"""Problems that anything proves are found, on real Dafny where it is installed."""

import asyncio

import pytest

from proverrl.errors import ProblemError, ToolchainError
from proverrl.generate.dafny.stream import GENERATOR
from proverrl.lang.dafny.audit.bodies import audit
from proverrl.lang.dafny.compose.vacuity import TRIVIAL_BODIES, build_requires_probe, proves_probe
from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
from proverrl.problems.drafts import build_problem
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem
from proverrl.verifier.base import Verifier
from tests.dafny_drafts import generate_drafts

FIB = "function Fib(n: nat): nat { if n < 2 then n else Fib(n - 1) + Fib(n - 2) }\n"


def make_lemma(requires: str, ensures: str = "Fib(n + 5) > n") -> Problem:
    text = (
        f"lemma {{:induction false}} L(n: nat)\n{requires}  ensures {ensures}\n{{\n  {HOLE}\n}}\n"
    )
    return Problem("p", "dafny", "statements", FIB, text)


def make_loop(ensures: str) -> Problem:
    text = (
        f"class C {{\n  var f: int;\n  method M<T>(n: nat, s: seq<T>) returns (r: int)\n"
        f"    requires |s| > n\n    requires f > 0\n    ensures {ensures}\n  {{\n    r := 0;\n"
        f"    while r < n\n      {HOLE}\n    {{ r := r + 1; }}\n  }}\n}}\n"
    )
    return Problem("loop", "dafny", "invariants", "", text)


def test_the_probe_stands_beside_the_declaration() -> None:
    probe = build_requires_probe(make_loop("r == n"))
    assert probe is not None
    assert probe.problem.kind == "file"
    assert audit("file", probe.body) == []
    assert (
        "  }\nlemma {:induction false} VacuityProbe<T>(n: nat, s: seq<T>)\n"
        "requires |s| > n requires f > 0\nensures false {}\n\n}\n"
    ) in probe.body


def test_without_preconditions_there_is_no_probe() -> None:
    assert build_requires_probe(make_lemma("")) is None
    whole = Problem("a", "dafny", ANNOTATE, "", f"lemma L() requires false {{ }}\n{HOLE}")
    assert build_requires_probe(whole) is None


def test_a_program_that_cannot_be_read_is_refused() -> None:
    broken = Problem("p", "dafny", "statements", "", f"lemma L( {{\n{HOLE}\n}}\n")
    with pytest.raises(ProblemError, match="its program cannot be read: line 1"):
        build_requires_probe(broken)


async def is_contradicted(problem: Problem, verifier: Verifier) -> bool:
    probe = build_requires_probe(problem)
    if probe is None:
        return False
    verdict = await verifier.verify(probe, deadline_seconds=60.0)
    assert verdict.status.judged, f"{problem.id}: {verdict.status}"
    return proves_probe(verdict)


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_real_problems() -> None:
    try:
        find_dafny_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    problems = {
        "honest": make_lemma("  requires n > 3\n"),
        "contradiction": make_lemma("  requires n > 3\n  requires n < 2\n"),
        "contradiction-in-two": make_lemma("  requires n * n < 0 || n + 1 == n\n"),
        "no-precondition": make_lemma(""),
        "loop": make_loop("r == n"),
    }

    async def main() -> dict[str, bool]:
        verifier, _ = GENERATOR.open_verifier(1)
        try:
            return {name: await is_contradicted(p, verifier) for name, p in problems.items()}
        finally:
            await verifier.aclose()

    assert asyncio.run(main()) == {
        "honest": False,
        "contradiction": True,
        "contradiction-in-two": True,
        "no-precondition": False,
        "loop": False,
    }


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_generated_drafts_are_not_vacuous() -> None:
    try:
        find_dafny_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))

    async def main() -> list[str]:
        found = []
        verifier, _ = GENERATOR.open_verifier(1)
        try:
            for draft in generate_drafts([1, 2, 3, 4, 5], 5, 0, "train"):
                problem = build_problem(GENERATOR, draft, "train")
                bodies = [Candidate(problem, body) for body in TRIVIAL_BODIES[problem.kind]]
                verdicts = [await verifier.verify(b, deadline_seconds=60.0) for b in bodies]
                fails = all(v.status.judged and not v.proved for v in verdicts)
                if not fails or await is_contradicted(problem, verifier):
                    found.append(problem.id)
        finally:
            await verifier.aclose()
        return found

    assert asyncio.run(main()) == []
