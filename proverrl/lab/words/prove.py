"""From words to a proof: a statement is written and judged, then a proof of it is searched for.

Flows in: two configurations, one of the policy that writes statements and one of the policy that
proves, and a file of problems in words. Flows out: a folder with what both wrote, and for problems
that know what is meant the chance that the statement is well formed, means what was meant and is
proved. The statement is chosen without a look at what is meant, as it is where nobody knows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from proverrl.config import Config
from proverrl.errors import UsageError
from proverrl.jobs.search import SearchOptions, search_problems
from proverrl.lab.words.formalize import Formalized, FormalizeOptions, formalize, make_proof
from proverrl.lab.words.parts import find_formalizing
from proverrl.problems.load import make_row, write_problems
from proverrl.statistics import clopper_pearson
from proverrl.types import Problem

NAME = "statements"
"""The name of the evaluation in the folder."""


@dataclass(frozen=True, slots=True)
class Proved:
    """The result for a problem: its statements, and whether the one that was chosen is proved."""

    formalized: Formalized
    is_proved: bool


@dataclass(frozen=True, slots=True)
class Chance:
    """The number of ``num`` problems that came so far, and the 95 % interval of that share."""

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
    options: SearchOptions,
    stream: TextIO,
) -> list[Proved]:
    """Write statements as ``config`` says, and prove the one that is chosen of each problem as
    ``prover`` does; ``runs`` are those whose weights are meant. All is kept in ``options.out``.
    Raises as ``formalize`` and ``search_problems`` do."""
    formalizing = FormalizeOptions(NAME, least, by_meaning=False, critics=critics)
    folder = options.out / "formaliser"
    writing = config.model_copy(update={"run": folder})
    found = await formalize(writing, source, from_run=runs[0], options=formalizing)
    wanted = [_ask_proof(one, source) for one in found]
    proved: set[str] = set()
    if proofs := [proof for proof in wanted if proof is not None]:
        searching = dataclasses.replace(options, out=options.out / "proofs")
        results = await search_problems(
            prover, proofs, from_run=runs[1], options=searching, stream=stream
        )
        proved = {p.id for p, r in zip(proofs, results, strict=True) if r["proved"]}
    return [
        Proved(one, proof is not None and proof.id in proved)
        for one, proof in zip(found, wanted, strict=True)
    ]


def _ask_proof(one: Formalized, source: str) -> Problem | None:
    """The problem of proving the statement that is kept; None where none is."""
    if one.kept is None:
        return None
    proof = make_proof(one.problem, one.kept.body)
    if proof is None:
        raise UsageError(
            f"{source}: problem {one.problem.id!r} has no program of which its statement could be "
            "proved; give --program, or rows of `words generate --with-program`"
        )
    return proof


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


def _is_right(proved: Proved) -> bool:
    kept = proved.formalized.kept
    return kept is not None and kept.means is True
