"""Pairs of a right and a wrong statement for the same English, each certified by a prover.

Flows in: problems that ask for statements, with their references. Flows out: problems that ask
whether a statement is right, with reference answers, as rows of a file. A wrong one is shown by a
proof to differ, or is no statement (``make_wrong``); every second right one is worded in another
way and proved to mean the same. Right and wrong are equally many at any place of the file where a
pair ends. What a formaliser wrote of the same texts comes before what is made, since its errors are
others than those of ``make_wrong``. Not handled here: statements of people, and problems whose
verifier certifies no error.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from proverrl.concurrency import finish_all
from proverrl.config.base import DafnyVersion
from proverrl.errors import ProblemError
from proverrl.files.disk import refuse_overwriting
from proverrl.files.lines import find_text_fault, read_json_lines
from proverrl.lab.critics.language import RIGHT, ask_critique, find_truth, read_pair, write_answer
from proverrl.lab.words.equivalence import (
    Wrong,
    decide_meaning,
    equivalent,
    make_wrong,
)
from proverrl.lab.words.parts import get_formalizing
from proverrl.lang import find_language
from proverrl.lang.open import open_verifier
from proverrl.problems.drafts import DEADLINE_SECONDS
from proverrl.problems.load import load_problems, load_references, make_row, write_problems
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem
from proverrl.verifier.base import Verifier

_AT_ONCE = 32
_SYNTAX_SHARE = 0.1
"""That of CriticLean. Errors of syntax are the quickest to certify, and would be two of five."""
_MAX_CHARACTERS = 2_000
"""The longest statement of a formaliser, as it is shown."""
_MEANING = "wrong meaning"
"""The kind of an error that a formaliser made: which it is, no proof says."""

Row = dict[str, Any]
Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PairMaker:
    """Makes pairs, up to ``pairs`` of a problem, the same ones under the same seed. ``written`` are
    a formaliser's statements of a problem, by its id: those that it is known to have right and
    wrong. Each is certified anew, and they are drawn at random."""

    verifier: Verifier
    seed: int
    deadline_seconds: float
    written: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pairs: int = 1

    async def make_rows_of(self, problem: Problem, reference: str) -> list[Row]:
        """The rows of a problem, a right one before each wrong one; fewer than ``pairs`` where no
        other error is certified. The right ones may repeat, the wrong ones do not."""
        rows: list[Row] = []
        taken: list[str] = []
        for number in range(self.pairs):
            # The first pair is the same whatever the number of pairs.
            seed = derive_seed(self.seed, "pair", number) if number else self.seed
            wrong = await self._make_wrong(problem, reference, seed, taken)
            if wrong is None:
                break
            taken.append(wrong.body)
            right = await self._make_right(problem, reference, seed)
            rows += [
                _make_row(problem, right, "", number),
                _make_row(problem, wrong.body, wrong.error, number),
            ]
        return rows

    async def make_rows(
        self,
        problems: Iterable[tuple[Problem, str]],
        *,
        num: int,
        show: Show = lambda message: None,
    ) -> list[Row]:
        """Pairs of as many of the problems, in their order, as give ``num`` rows; fewer where there
        are no more problems."""
        rows: list[Row] = []
        waiting = iter(problems)
        while len(rows) < num and (batch := list(islice(waiting, _AT_ONCE))):
            pairs = await finish_all(self.make_rows_of(*one) for one in batch)
            rows += [row for made in pairs for row in made]
            show(f"{min(len(rows), num)}/{num} critiques certified")
        return rows[: num - num % 2]

    async def _make_wrong(
        self, problem: Problem, reference: str, seed: int, known: Sequence[str]
    ) -> Wrong | None:
        rng = random.Random(derive_seed(seed, "wrong", problem.id))
        if body := await self._choose_written(problem, rng, same=False, known=known):
            return Wrong(body, _MEANING)
        return await make_wrong(
            problem,
            reference,
            self.verifier,
            seed=seed,
            deadline_seconds=self.deadline_seconds,
            syntax=rng.random() < _SYNTAX_SHARE,
            known=known,
        )

    async def _make_right(self, problem: Problem, reference: str, seed: int) -> str:
        rng = random.Random(derive_seed(seed, "right", problem.id))
        if written := await self._choose_written(problem, rng, same=True):
            return written
        if rng.random() < 0.5:
            return reference
        body = get_formalizing(problem).reword(problem, reference, rng)
        if body is None:
            return reference
        deadline = self.deadline_seconds
        same = await equivalent(problem, body, self.verifier, deadline_seconds=deadline)
        return body if same else reference

    async def _choose_written(
        self,
        problem: Problem,
        rng: random.Random,
        *,
        same: bool,
        known: Sequence[str] = (),
    ) -> str | None:
        """A formaliser's statement of the problem that is proved to mean the same, or not to, and
        is none of ``known``."""
        bodies = self.written.get(problem.id, ())
        deadline = self.deadline_seconds
        for body in rng.sample(bodies, len(bodies)):
            try:
                ask_critique(problem, body)
            except ProblemError:
                continue  # No critic is asked about such a text.
            # What the critic is shown is judged: the rest of a text may be why it was refused.
            shown = find_language(problem.language).normal_form(body)
            if len(shown) > _MAX_CHARACTERS or shown in known:
                continue
            candidate = Candidate(problem, shown)
            verdict = await self.verifier.verify(candidate, deadline_seconds=deadline)
            means = await decide_meaning(
                problem, shown, verdict, self.verifier, deadline_seconds=deadline
            )
            if means is same:
                return shown
        return None


def read_written(file: Path) -> dict[str, list[str]]:
    """Of a file ``evals/NAME.statements.jsonl`` the statements of which it is known whether they
    say what is meant, by problem. Raises ``ProblemError``: it is no such file."""
    written: dict[str, list[str]] = {}
    for number, row in enumerate(read_json_lines(file), 1):
        match row:
            case {"means": bool(), "problem_id": str(name), "body": str(body)}:
                if not find_text_fault(body):
                    written.setdefault(name, []).append(body)
            case {"problem_id": str(), "dropped": str(), **rest} if rest.get("means") is None:
                continue  # Nothing is known of it, or it is no statement.
            case _:
                raise ProblemError(f"{file}:{number}: no row of evals/NAME.statements.jsonl")
    return written


async def write_critiques(
    file: Path,
    out: Path,
    *,
    num: int,
    seed: int,
    workers: int,
    dafny_version: DafnyVersion = "auto",
    pairs: int = 1,
    statements: Path | None = None,
    show: Show = lambda message: None,
) -> str:
    """Make the pairs of a file's problems with a verifier of its own, of a formaliser's
    ``statements`` where there are some; returns a line of report. Raises ``ProblemError``: the file
    holds no problem with a reference that asks for a statement and whose errors can be certified,
    or none of the statements is of its problems; ``UsageError``: ``out`` is one of the files."""
    refuse_overwriting(out, *filter(None, (file, statements)))
    references = load_references(file)
    problems = [problem for problem in load_problems(file) if problem.id in references]
    for problem in problems:
        get_formalizing(problem)
    written = {} if statements is None else read_written(statements)
    if statements is not None and not written.keys() & references.keys():
        raise ProblemError(f"{statements}: no statement of known meaning is of a problem in {file}")
    verifier = open_verifier(
        workers=workers,
        dafny_version=dafny_version,
        needed=sorted({p.language for p in problems}),
    )
    maker = PairMaker(verifier, seed, DEADLINE_SECONDS, written, pairs)
    try:
        asked = ((problem, references[problem.id]) for problem in problems)
        rows = await maker.make_rows(asked, num=num, show=show)
    finally:
        await verifier.aclose()
    if not rows:
        raise ProblemError(f"{file}: no verifier certifies an error in any of its statements")
    write_problems(out, rows)
    kinds = Counter(row["metadata"]["category"] for row in rows)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    most = f" of {num} (the file gives no more at {pairs} a text)"
    short = most if len(rows) < num - 1 else ""
    return f"{len(rows)} critiques{short} written: {counts}"


def write_reader(file: Path, pairs: Path, out: Path) -> str:
    """Write the statements of ``file`` and what ``pairs`` calls right, all also as a critic is
    shown them; returns a line of report. A formaliser then finds right statements likely however
    they are put. Raises ``ProblemError``: a problem of ``file`` asks for no statement, or ``pairs``
    calls none right; ``UsageError``: ``out`` is one of the files."""
    refuse_overwriting(out, file, pairs)
    references = load_references(file)
    known = [problem for problem in load_problems(file) if problem.id in references]
    for problem in known:
        get_formalizing(problem)
    judged = [problem for problem in load_problems(pairs) if find_truth(problem)]
    if not judged:
        raise ProblemError(
            f"{pairs}: it calls no statement right; write it with `proverrl words critiques`"
        )
    rows = [make_row(problem) | {"reference": references[problem.id]} for problem in known]
    for problem in (*(ask_critique(p, references[p.id]) for p in known), *judged):
        asked, body = read_pair(problem)
        shown = {"id": f"{problem.id}-shown", "metadata": {"level": problem.level}}
        rows.append(make_row(asked) | shown | {"reference": body})
    return f"{write_problems(out, rows)} statements written"


def _make_row(problem: Problem, body: str, error: str, number: int) -> Row:
    asked = ask_critique(problem, body, is_correct=not error, error=error)
    name = f"{problem.id}-{'wrong' if error else RIGHT}"
    row = make_row(asked) | {"id": f"{name}-{number}" if number else name}
    reasons = f"wrong {error.removeprefix('wrong ')}" if error else "says what is meant"
    return row | {"reference": write_answer(not error, reasons)}
