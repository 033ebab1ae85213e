"""Which clauses of the contract that is meant a written one says, clause by clause.

Flows in: a problem of the kind ``contract`` that knows what is meant, a body. Flows out: a program
of lemmas, each an implication between clauses, and from the verdict on it a letter for each clause:
the ratings that LeanScorer has a judge give (Yu et al. 2025, arXiv 2506.07047), given by a prover.
Not covered, so that nothing is rated: contracts over two states of the heap, many clauses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proverrl.lang.dafny.formal.difference import read_contracts
from proverrl.lang.dafny.formal.stated import (
    CONTRACT_WORDS,
    has_two_states,
    make_file,
    write_claim,
)
from proverrl.lang.dafny.syntax.declarations import Declaration
from proverrl.lang.dafny.syntax.text import name_entry
from proverrl.types import Candidate, Problem, Verdict

_MAX_PAIRS = 25


@dataclass(frozen=True, slots=True)
class _Implication:
    """Lemma ``name``: from clauses follows a clause."""

    name: str
    given: Sequence[str]
    claim: str


def ask_parts(problem: Problem, body: str) -> Candidate | None:
    """The program to verify; None where clauses are not compared."""
    found = read_contracts(problem, body)
    if found is None:
        return None
    *given, written, meant = found
    if has_two_states(written, meant) or _count_pairs(written, meant) > _MAX_PAIRS:
        return None
    lemmas = [write_claim(c.name, meant, [*c.given], c.claim) for c in _claims(written, meant)]
    return make_file(problem, "parts", "\n".join([*(d.text for d in given), *lemmas]) + "\n")


def rate_parts(problem: Problem, body: str, verdict: Verdict) -> str:
    """A letter for each clause that is meant, then a C for each that is written, not meant, and no
    stronger form of one that is; empty where the verdict says nothing."""
    found = read_contracts(problem, body)
    if found is None or not verdict.failed_in_prover:
        return ""
    *_, written, meant = found
    held = {o.entry for o in verdict.obligations if o.all_proved}
    return "".join(
        _rate(word, len(meant.list_clauses(word)), len(written.list_clauses(word)), held)
        for word in CONTRACT_WORDS
    )


def _rate(word: str, num_meant: int, num_written: int, held: set[str]) -> str:
    mark = word[0]
    places = range(num_written)
    letters = ["A" if name_entry(f"Says{mark}{i}") in held else "C" for i in range(num_meant)]
    extra = ""
    for j in places:
        if name_entry(f"Meant{mark}{j}") in held:
            weaker = [i for i in range(num_meant) if name_entry(f"Weak{mark}{i}x{j}") in held]
            # What holds anyway is no form of anything.
            if name_entry(f"Idle{mark}{j}") not in held:
                letters = ["B" if c == "C" and i in weaker else c for i, c in enumerate(letters)]
            continue
        # To demand more is to say less: a demand that nothing meets is stronger than any.
        stronger = [
            i
            for i in range(num_meant)
            if word == "ensures" and name_entry(f"Strong{mark}{i}x{j}") in held
        ]
        letters = ["B" if i in stronger else c for i, c in enumerate(letters)]
        extra += "" if stronger else "C"
    return "".join(letters) + extra


def _count_pairs(written: Declaration, meant: Declaration) -> int:
    return sum(
        len(written.list_clauses(word)) * len(meant.list_clauses(word)) for word in CONTRACT_WORDS
    )


def _claims(written: Declaration, meant: Declaration) -> Iterator[_Implication]:
    demands = meant.list_clauses("requires")
    for word in CONTRACT_WORDS:
        mark, ours, theirs = word[0], meant.list_clauses(word), written.list_clauses(word)
        # What is promised is compared where what is meant to be demanded is met.
        known = demands if word == "ensures" else []
        for i, clause in enumerate(ours):
            yield _Implication(f"Says{mark}{i}", [*known, *theirs], clause)
        for j, clause in enumerate(theirs):
            yield _Implication(f"Meant{mark}{j}", [*known, *ours], clause)
            yield _Implication(f"Idle{mark}{j}", known, clause)
            for i, other in enumerate(ours):
                yield _Implication(f"Weak{mark}{i}x{j}", [*known, other], clause)
                yield _Implication(f"Strong{mark}{i}x{j}", [*known, clause], other)
