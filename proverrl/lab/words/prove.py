"""From words to a proof: a statement is written and judged, then a proof of it is searched for.

Flows in: two configurations, one of the policy that writes statements and one of the policy that
proves, and a file of problems in words. Flows out: a folder with what both wrote, and for problems
that know what is meant the chance that the statement is well formed, means what was meant and is
proved. The statement is chosen without a look at what is meant, as it is where nobody knows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from proverrl.config import Config
from proverrl.errors import UsageError
from proverrl.jobs.search import SearchOptions, search_problems
from proverrl.lab.words.formalize import Formalized, FormalizeOptions, formalize, make_proof
from proverrl.lab.words.judging import JudgedStatement
from proverrl.lab.words.parts import find_formalizing
from proverrl.problems.load import make_row, write_problems
from proverrl.statistics import clopper_pearson
from proverrl.types import Problem

NAME = "statements"
"""The name of the evaluation in the folder."""


@dataclass(frozen=True, slots=True)
class Proved:
    """What came of a problem: its statements, and whether a proof was found of each that was tried,
    by its body."""

    formalized: Formalized
    tried: Mapping[str, bool]

    @property
    def is_proved(self) -> bool:
        """Whether the statement that was chosen is proved."""
        kept = self.formalized.kept
        return kept is not None and self.tried[kept.body]


@dataclass(frozen=True, slots=True)
class Chance:
    """How many of ``num`` problems came so far, and the 95 % interval of that share."""

    stage: str
    count: int
    num: int
    low: float
    high: float


async def prove(
    config: Config,
    prover: Config,
    source: str,
    *,
    runs: tuple[Path | None, Path | None],
    least: float,
    critics: Sequence[Path],
    all_fit: bool,
    options: SearchOptions,
    stream: TextIO,
) -> list[Proved]:
    """Write statements as ``config`` says, prove the one that is chosen of each problem as
    ``prover`` does, or ``all_fit`` ones; ``runs`` are those whose weights are meant. All is kept in
    ``options.out``. Raises as ``formalize`` and ``search_problems`` do."""
    formalizing = FormalizeOptions(NAME, least, by_meaning=False, critics=critics)
    folder = options.out / "formaliser"
    writing = config.model_copy(update={"run": folder})
    found = await formalize(writing, source, from_run=runs[0], options=formalizing)
    wanted = [_list_proofs(one, source, all_fit=all_fit) for one in found]
    proofs = [proof for tried in wanted for proof in tried.values()]
    is_proved: dict[str, bool] = {}
    if proofs:
        searching = dataclasses.replace(options, out=options.out / "proofs")
        results = await search_problems(
            prover, proofs, from_run=runs[1], options=searching, stream=stream
        )
        is_proved = {p.id: bool(r["proved"]) for p, r in zip(proofs, results, strict=True)}
    return [
        Proved(one, {body: is_proved[proof.id] for body, proof in tried.items()})
        for one, tried in zip(found, wanted, strict=True)
    ]


def write_preferences(path: Path, proved: Sequence[Proved]) -> int:
    """Write a row for each statement of which a proof was found beside each of which none was, of
    the same problem: what is proved is preferred (HPO of Mathesis). Returns their number."""
    rows = []
    for one in proved:
        # A wrong statement may have been chosen, and is tried; it is not preferred to another.
        fit = [s.body for s in _list_fit(one.formalized) if s.body in one.tried]
        pairs = [(a, b) for a in fit if one.tried[a] for b in fit if not one.tried[b]]
        for number, (chosen, rejected) in enumerate(pairs, start=1):
            row = make_row(one.formalized.problem) | {"chosen": chosen, "rejected": rejected}
            rows.append(row | {"id": f"{row['id']}-{number}"})
    return write_problems(path, rows)


def _list_proofs(one: Formalized, source: str, *, all_fit: bool) -> dict[str, Problem]:
    """The problem of proving each statement that is tried, by its body: the one that is kept, or
    all that are not known to be at fault."""
    fit = _list_fit(one) if all_fit else []
    tried = [s for s in one.judged if s is one.kept or s in fit]
    found = {}
    for number, statement in enumerate(tried):
        proof = make_proof(one.problem, statement.body)
        if proof is None:
            raise UsageError(
                f"{source}: problem {one.problem.id!r} has no program of which its statement could "
                "be proved; give --program, or rows of `words generate "
                "--with-program`"
            )
        name = f"{proof.id}-{number + 1}" if all_fit else proof.id
        found[statement.body] = dataclasses.replace(proof, id=name)
    return found


def estimate_chances(proved: Sequence[Proved]) -> list[Chance]:
    """The share of problems that came through each stage and all before it, of those that know what
    is meant; the last is the product of all. A meaning that is not proved right counts as wrong.
    Empty where no problem knows what is meant."""
    known = [p for p in proved if p.formalized.knows_meaning]
    stages = {
        "a statement is kept": [p.formalized.kept is not None for p in known],
        "and means what is meant": [_is_right(p) for p in known],
        "and is proved": [_is_right(p) and p.is_proved for p in known],
    }
    num = len(known)
    return [
        Chance(stage, sum(came), num, *clopper_pearson(sum(came) / num, num))
        for stage, came in stages.items()
        if num
    ]


def write_words(path: Path, language: str, text: str, kind: str, words: str) -> None:
    """A file of one problem, that of writing what the words say of a program or with definitions.
    Raises ``ProblemError``: the text has no place for a statement; ``UsageError``: the language
    has no statements from words."""
    formalizing = find_formalizing(language)
    if formalizing is None:
        raise UsageError(f"no statements are written from words in {language}")
    write_problems(path, [make_row(formalizing.ask_words(text, kind, words))])


def _list_fit(one: Formalized) -> list[JudgedStatement]:
    """The statements without a fault that are proved to mean what is meant, if that is known."""
    return [s for s in one.judged if not s.fault and (s.means or not one.knows_meaning)]


def _is_right(proved: Proved) -> bool:
    kept = proved.formalized.kept
    return kept is not None and kept.means is True
