"""Honest answers in every layout for Lean: each is read as meant, the audit refuses none, and
a real Lean accepts them all, also with helper lemmas before the theorem.

The answers are the references of ``lean/benchmark.jsonl`` as policies write them: after thinking,
as a whole file, with comments, with helper lemmas, or the body alone.
"""

import asyncio
from collections.abc import Callable
from typing import get_args

import pytest

from proverrl.config import LayoutName
from proverrl.errors import ToolchainError
from proverrl.lang.lean.audit.text import audit_lean_candidate
from proverrl.lang.lean.verify.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.verify.workers.toolchain import find_lean_toolchain
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.problems.load import load_problems, load_references
from proverrl.problems.prompt import LAYOUTS, render_body
from proverrl.rollout.extract import extract
from proverrl.types import Candidate, Problem
from proverrl.verifier.body_place import hole_column
from tests import ROOT

BENCHMARK = ROOT / "lean" / "benchmark.jsonl"
PROBLEMS = load_problems(BENCHMARK)
REFERENCES = load_references(BENCHMARK)
LEAN_LAYOUTS: list[LayoutName] = [
    name for name in get_args(LayoutName) if LAYOUTS[name].language == "lean"
]
HELPERS = """\
theorem helper_one (m n : Nat) (h : m = n) : n = m := by
  exact h.symm

/-- A helper with a comment. -/
private theorem helper_two {p q : Prop} (hp : p) (hq : q) : p ∧ q :=
  ⟨hp, hq⟩

"""


def in_file(problem: Problem, body: str, prelude: str = "") -> str:
    return f"```lean4\n{Candidate(problem, body, prelude).source}```"


def with_thinking(problem: Problem, layout: LayoutName) -> str:
    draft = "```lean4\ntheorem draft : 1 = 2 := by sorry\n```"
    thought = f"<think>First {draft} and no more.</think>\n\nHere it is:\n\n"
    return thought + render_body(problem, REFERENCES[problem.id], layout) + "\nThis proves it."


def with_helpers(problem: Problem, layout: LayoutName) -> str:
    return "### Proof\n\n" + in_file(problem, REFERENCES[problem.id], HELPERS)


def with_comments(problem: Problem, layout: LayoutName) -> str:
    mark = "" if problem.kind == "term" else "  -- done\n"
    body = f"-- we go on\n{' ' * 2}{REFERENCES[problem.id]}".rstrip() + f"\n{mark}".rstrip()
    return in_file(problem, body)


def alone(problem: Problem, layout: LayoutName) -> str:
    """From column 0 on, where the reference goes on in the hole's column."""
    first, *rest = REFERENCES[problem.id].split("\n")
    lines = [first, *(line.removeprefix(" " * hole_column(problem)) for line in rest)]
    return "```lean4\n" + "\n".join(lines) + "\n```"


SHAPES: dict[str, Callable[[Problem, LayoutName], str]] = {
    "thinking": with_thinking,
    "helpers": with_helpers,
    "comments": with_comments,
    "alone": alone,
}


def read(problem: Problem, shape: str, layout: LayoutName) -> Candidate:
    found = extract(problem, SHAPES[shape](problem, layout), layout)
    assert found.body is not None, (problem.id, shape, layout, found.reason)
    return Candidate(problem, found.body, found.prelude)


def test_there_are_enough_of_them() -> None:
    assert len(LEAN_LAYOUTS) == 4
    assert len(PROBLEMS) * len(SHAPES) == 576


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", LEAN_LAYOUTS)
def test_every_answer_is_read_and_admitted(shape: str, layout: LayoutName) -> None:
    for problem in PROBLEMS:
        candidate = read(problem, shape, layout)
        assert audit_lean_candidate(candidate) is None, (problem.id, candidate.source)
        if shape == "helpers":
            # Statements that define something of their own admit no prelude.
            assert candidate.prelude.split() == HELPERS.split(), problem.id


@pytest.mark.lean
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_real_lean_accepts_every_answer(shape: str) -> None:
    try:
        toolchain = find_lean_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no real Lean here: {error}")

    async def main() -> list[str]:
        worker = await LeanWorker.start(toolchain, LeanLimits(), KnownStatements())
        try:
            verdicts = [await worker.judge(read(p, shape, "deepseek")) for p in PROBLEMS]
        finally:
            worker.kill()
            await worker.join()
        return [p.id for p, verdict in zip(PROBLEMS, verdicts, strict=True) if not verdict.proved]

    assert asyncio.run(main()) == []
