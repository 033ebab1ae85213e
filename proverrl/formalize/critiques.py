"""Pairs of a right and a wrong statement for the same English, each certified by a prover.

Flows in: problems that ask for statements, with their references. Flows out: problems that ask
whether a statement is right, with reference answers, as rows of a file. A wrong one is shown by a
proof to differ, or is no statement (``make_wrong``); every second right one is worded in another
way and proved to mean the same. Right and wrong are equally many at any place of the file where a
pair ends. Not handled here: statements of people, and problems whose verifier certifies no error.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from proverrl.concurrency import finish_all
from proverrl.errors import ProblemError
from proverrl.formalize.equivalence import Wrong, equivalent, get_formalizing, make_wrong
from proverrl.lang.critique.language import RIGHT, ask_critique, write_answer
from proverrl.lang.open import open_verifier
from proverrl.problems.drafts import DEADLINE_SECONDS
from proverrl.problems.load import load_problems, load_references, make_row, write_problems
from proverrl.seeds import derive_seed
from proverrl.types import Problem
from proverrl.verifier.base import Verifier

_AT_ONCE = 32
_SYNTAX_SHARE = 0.1
"""That of CriticLean. Errors of syntax are the quickest to certify, and would be two of five."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PairMaker:
    """Makes pairs, the same ones under the same seed."""

    verifier: Verifier
    seed: int
    deadline_seconds: float

    async def make_pair(self, problem: Problem, reference: str) -> list[Row] | None:
        """The two rows of a problem, the right one first; None where no error is certified."""
        wrong = await self._make_wrong(problem, reference)
        if wrong is None:
            return None
        right = await self._make_right(problem, reference)
        return [
            _make_row(problem, right, ""),
            _make_row(problem, wrong.body, wrong.error),
        ]

    async def make_pairs(self, problems: Iterable[tuple[Problem, str]], *, num: int) -> list[Row]:
        """Pairs of as many of the problems, in their order, as give ``num`` rows; fewer where there
        are no more problems."""
        rows: list[Row] = []
        waiting = iter(problems)
        while len(rows) < num and (batch := list(islice(waiting, _AT_ONCE))):
            pairs = await finish_all(self.make_pair(*one) for one in batch)
            rows += [row for pair in pairs for row in pair or ()]
        return rows[: num - num % 2]

    async def _make_wrong(self, problem: Problem, reference: str) -> Wrong | None:
        rng = random.Random(derive_seed(self.seed, "wrong", problem.id))
        return await make_wrong(
            problem,
            reference,
            self.verifier,
            seed=self.seed,
            deadline_seconds=self.deadline_seconds,
            syntax=rng.random() < _SYNTAX_SHARE,
        )

    async def _make_right(self, problem: Problem, reference: str) -> str:
        rng = random.Random(derive_seed(self.seed, "right", problem.id))
        if rng.random() < 0.5:
            return reference
        body = get_formalizing(problem).reword(problem, reference, rng)
        if body is None:
            return reference
        deadline = self.deadline_seconds
        same = await equivalent(problem, body, self.verifier, deadline_seconds=deadline)
        return body if same else reference


async def write_critiques(file: Path, out: Path, *, num: int, seed: int, workers: int) -> str:
    """Make the pairs of a file's problems with a verifier of its own; returns a line of report.
    Raises ``ProblemError``: the file holds no problem with a reference that asks for a statement
    and whose errors can be certified."""
    references = load_references(file)
    problems = [problem for problem in load_problems(file) if problem.id in references]
    for problem in problems:
        get_formalizing(problem)
    verifier = open_verifier(workers=workers, needed=sorted({p.language for p in problems}))
    maker = PairMaker(verifier, seed, DEADLINE_SECONDS)
    try:
        pairs = ((problem, references[problem.id]) for problem in problems)
        rows = await maker.make_pairs(pairs, num=num)
    finally:
        await verifier.aclose()
    if not rows:
        raise ProblemError(f"{file}: no verifier certifies an error in any of its statements")
    write_problems(out, rows)
    kinds = Counter(row["metadata"]["category"] for row in rows)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{len(rows)} critiques written: {counts}"


def _make_row(problem: Problem, body: str, error: str) -> Row:
    asked = ask_critique(problem, body, is_correct=not error, error=error)
    row = make_row(asked) | {"id": f"{problem.id}-{'wrong' if error else RIGHT}"}
    reasons = f"wrong {error.removeprefix('wrong ')}" if error else "says what is meant"
    return row | {"reference": write_answer(not error, reasons)}
