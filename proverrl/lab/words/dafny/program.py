"""A method as something to be written from words: its contract, and code that Dafny proves.

Flows in: problems whose method has code, with their proofs. Flows out: a problem of the kind
``implement``, whose hole takes ``requires``, ``ensures`` and a block with loop invariants; its
reference; its English. Behind the hole, where no policy sees it, a second method has the contract
that is meant and does nothing but call the first, so that it verifies exactly when the policy's
contract is at least as strong (the subset reward of Re:Form, Yan et al. 2025, arXiv 2507.16331):
what is meant to be demanded is enough to call, and what is then promised is enough. The first
verifies when the code meets the policy's contract and ends. Or the contract is given before the
hole, which then takes the code alone, and nothing is hidden.
Not handled here: whether it does (the verdict says so), frames (``modifies`` is given), what the
code costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proverrl.errors import ProblemError
from proverrl.generate.dafny.code import read_contract, write_head
from proverrl.generate.families import ProgramText
from proverrl.lab.words.dafny.contract import (
    FORMALIZING,
    read_meaning,
    write_call,
)
from proverrl.lab.words.english import English
from proverrl.lab.words.kinds import IMPLEMENT
from proverrl.lab.words.parts import ProgramGrade
from proverrl.lang.dafny.audit.bodies import PROGRAM
from proverrl.lang.dafny.audit.methods import read_declared
from proverrl.lang.dafny.compose.attack import list_idle_bodies
from proverrl.lang.dafny.syntax.declarations import read_declarations
from proverrl.lang.dafny.syntax.text import fill_hole, find_own_entries, scan_tokens
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict


class DafnyProgramming:
    """``Programming`` in Dafny."""

    kind, given_kind = IMPLEMENT, PROGRAM
    unseen = FORMALIZING.unseen

    def ask_statement(self, known: Candidate, english: English) -> ProgramText | None:
        """See ``Asking``."""
        meaning = read_meaning(known.problem, english)
        if meaning is None or meaning.target.word != "method":
            return None
        target, clauses = meaning.target, meaning.clauses
        filled = read_declarations(fill_hole(known.problem.statement, known.body))
        code = next(d.body for d in filled if d.name == target.name)
        lines = [*meaning.given, *write_head(target, target.name), f"  {HOLE}"]
        lines += [*write_head(target, meaning.hidden), *(f"  {clause}" for clause in clauses)]
        lines += write_call(target, target.name)
        return ProgramText(lines, "\n".join([*clauses, code]), self.kind, meaning.said)

    def list_empty(self, problem: Problem) -> Sequence[str]:
        """No contract, one that nothing meets, and what is meant with code that does nothing."""
        declared = read_declarations(Candidate(problem, "{ }").source)
        meant = "\n".join(f"{word} {text}" for word, text in read_contract(declared[-1]))
        idle = list_idle_bodies(declared[-1])
        return ("", "{ }", "requires false\n{ }", *(f"{meant}\n{body}" for body in idle))

    def ask_empty(self, problem: Problem, body: str) -> Sequence[tuple[str, Candidate]]:
        """See ``Asking``: of the contract, as it would be asked of a formaliser, unless it is
        given."""
        return () if problem.kind == PROGRAM else FORMALIZING.ask_empty(*_ask_alone(problem, body))

    def ask_admitted(self, problem: Problem, body: str) -> Candidate | None:
        """See ``Asking``, as for ``ask_empty``."""
        if problem.kind == PROGRAM:
            return None
        return FORMALIZING.ask_admitted(*_ask_alone(problem, body))

    def shows_admitted(self, verdict: Verdict) -> bool:
        """See ``Asking``."""
        return FORMALIZING.shows_admitted(verdict)

    def grade(self, candidate: Candidate, verdict: Verdict) -> ProgramGrade:
        """See ``Programming``. What the grammar refuses is no program, all else that the audit
        refuses is a cheat."""
        if verdict.proved:
            return "meant"
        is_given = candidate.problem.kind == PROGRAM
        distrusted = verdict.status in (Status.UNSOUND, Status.UNCONFIRMED)
        if distrusted or (not is_given and is_trivial(candidate)):
            return "refused"
        if not verdict.failed_in_prover:
            return "unread"
        if is_given:
            return "unproved"
        own = find_own_entries(candidate.head)
        found = [entry for entry in verdict.obligations if entry.entry in own]
        met = any(entry.entry == own[1] for entry in found)
        return "verified" if met and all(e.proved == e.total for e in found) else "unproved"


def _ask_alone(problem: Problem, body: str) -> tuple[Problem, str]:
    """The problem of writing the contract alone, and the contract of a body."""
    place = read_declared(problem).place
    written = read_declarations(Candidate(problem, body).source)[place]
    clauses = "\n".join(f"{word} {text}" for word, text in read_contract(written))
    return replace(problem, kind=FORMALIZING.kind), clauses


def is_trivial(candidate: Candidate) -> bool:
    """True if a contract promises nothing (no ``ensures``, or each is ``true`` or of the form
    ``x == x``), or has a clause ``false``. What cannot be read is not trivial."""
    place = read_declared(candidate.problem).place
    try:
        clauses = read_contract(read_declarations(candidate.source)[place])
    except ProblemError:
        return False
    texts = {text: [piece for _, piece in scan_tokens(text)] for _, text in clauses}
    promises = [texts[text] for word, text in clauses if word == "ensures"]
    return ["false"] in texts.values() or all(map(_says_nothing, promises))


def _says_nothing(pieces: list[str]) -> bool:
    half = len(pieces) // 2
    same = pieces[half : half + 1] == ["=="] and pieces[:half] == pieces[half + 1 :]
    return pieces == ["true"] or same


PROGRAMMING = DafnyProgramming()
