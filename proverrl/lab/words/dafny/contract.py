"""The contract of a method or lemma as something to be written from words, and judged by Dafny.

Flows in: problems. Flows out: a problem of the kind ``formalize``, whose hole takes ``requires``
and ``ensures``, its reference, and its English. Behind the hole, where no policy sees it, stands
the contract that is meant, on a second method. Each of the two calls the other and nothing else, so
that both verify exactly when the contracts agree: what one demands the other demands, and what one
promises the other promises (the entailments of Re:Form's subset reward, Yan et al. 2025, arXiv
2507.16331, in both directions). A lemma is written as a method without results. Not handled here:
whether a contract agrees (the verdict says so), frames (``modifies`` is given).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from proverrl.errors import ProblemError
from proverrl.generate.dafny.code import UNSEEN, read_contract, write_head
from proverrl.generate.families import ProgramText
from proverrl.lab.words.dafny.difference import (
    ask_admitted,
    ask_difference,
    read_contracts,
    shows_admitted,
    shows_difference,
)
from proverrl.lab.words.dafny.errors import Clause, reword, spoil
from proverrl.lab.words.dafny.fresh import find_fresh
from proverrl.lab.words.dafny.phrases import read_phrase
from proverrl.lab.words.dafny.stated import (
    ask_contradiction,
    ask_proof,
    cut_contract,
    keep_program,
    read_written,
)
from proverrl.lab.words.english import English, Forms, sentence
from proverrl.lab.words.kinds import FORMALIZE
from proverrl.lang.dafny.compose.declarations import Program, read_problem
from proverrl.lang.dafny.syntax.declarations import Declaration
from proverrl.lang.dafny.syntax.text import find_own_entries
from proverrl.types import HOLE, Candidate, Problem, Verdict

_GIVEN = frozenset(("function", "predicate", "datatype"))
_DEMANDS: Forms = (
    (
        "it may be called only if {0}",
        "callers make sure that {0}",
        "assume that {0}",
        "before the call, {0}",
    ),
    ("before the call, make sure that {0}",),
)
_PROMISES: Forms = (
    (
        "afterwards, {0}",
        "it guarantees that {0}",
        "when it returns, {0}",
        "make sure that {0}",
        "in the end {0}",
    ),
    ("make sure that when it returns, {0}",),
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """A method or lemma whose contract is to be written: what it may speak of, the contract's
    clauses, a name for the method that states what is meant, and the contract in words."""

    target: Declaration
    given: Sequence[str]
    clauses: Sequence[str]
    hidden: str
    said: str


class DafnyFormalizing:
    """``Formalizing`` in Dafny."""

    kind = FORMALIZE
    unseen = UNSEEN

    def ask_statement(self, known: Candidate, english: English) -> ProgramText | None:
        """See ``Formalizing``."""
        meaning = read_meaning(known.problem, english)
        if meaning is None:
            return None
        target, hidden, clauses = meaning.target, meaning.hidden, meaning.clauses
        lines = [*meaning.given, *_write_caller(target, target.name, hidden, [HOLE])]
        lines += _write_caller(target, hidden, target.name, clauses)
        program = keep_program(cut_contract(known.problem))
        return ProgramText(lines, "\n".join(clauses), self.kind, meaning.said, program)

    def list_empty(self, problem: Problem) -> Sequence[str]:
        """See ``Formalizing``."""
        return ("", "requires false")

    def ask_empty(self, problem: Problem, body: str) -> Sequence[tuple[str, Candidate]]:
        """See ``Asking``: a promise that always holds is none, whatever is demanded."""
        clauses = read_contract(read_written(problem, body)[-1])
        demands = _join([clause for clause in clauses if clause[0] == "requires"])
        idle = Candidate(self.state(problem, demands), body)
        asked = ask_contradiction(problem, body)
        if asked is None:
            asked = Candidate(self.state(problem, body), "requires false")
        return [("promises nothing", idle), ("contradicts itself", asked)]

    def ask_admitted(self, problem: Problem, body: str) -> Candidate | None:
        """See ``Asking``."""
        return ask_admitted(problem, body)

    def shows_admitted(self, verdict: Verdict) -> bool:
        """See ``Asking``."""
        return shows_admitted(verdict)

    def ask_difference(self, problem: Problem, body: str) -> Sequence[Candidate]:
        """See ``Formalizing``."""
        return ask_difference(problem, body)

    def shows_difference(self, verdict: Verdict) -> bool:
        """See ``Formalizing``."""
        return shows_difference(verdict)

    def spoil(self, problem: Problem, body: str, rng: random.Random) -> tuple[str, str] | None:
        """See ``Formalizing``."""
        found = _read_written(problem, body)
        spoiled = found and spoil(rng, *found)
        return (_join(spoiled[0]), spoiled[1]) if spoiled else None

    def reword(self, problem: Problem, body: str, rng: random.Random) -> str | None:
        """See ``Formalizing``."""
        found = _read_written(problem, body)
        return found and _join(reword(rng, *found))

    def ask_words(self, text: str, kind: str, words: str) -> Problem:
        """See ``Formalizing``."""
        program = read_problem(Problem("words", "dafny", kind, "", text))
        target = program.target
        if target.word not in ("method", "lemma") or read_contract(target):
            raise ProblemError(
                f"{target.name}: its contract is to be written from the words; give a method or "
                "lemma without requires and ensures"
            )
        lines = [*_list_given(program), *write_head(target, target.name), f"  {HOLE}"]
        kept = keep_program({"kind": kind, "statement": text})
        statement = "\n".join(lines) + "\n"
        return Problem("words", "dafny", FORMALIZE, "", statement, informal=words, metadata=kept)

    def state(self, problem: Problem, meant: str | None) -> Problem:
        """See ``Formalizing``."""
        *others, target = read_written(problem, "")
        given = [d.text for d in others]
        if meant is None:
            # Nothing is proved of what nobody means; the contract is read all the same.
            lines = [*_write_caller(target, target.name, target.name, [HOLE])]
            lines += [f"lemma {_fresh_name(target, given)}()", "  ensures false", "{", "}"]
        else:
            hidden = _fresh_name(target, given)
            lines = [*_write_caller(target, target.name, hidden, [HOLE])]
            lines += _write_caller(target, hidden, target.name, meant.splitlines())
        # Which entries there are is another matter now.
        kept = {k: v for k, v in problem.metadata.items() if k != "expected_entries"}
        return replace(
            problem, preamble="", statement="\n".join([*given, *lines]) + "\n", metadata=kept
        )

    def ask_proof(self, problem: Problem, body: str) -> Problem | None:
        """See ``Formalizing``."""
        return ask_proof(problem, body)

    def is_well_formed(self, candidate: Candidate, verdict: Verdict) -> bool:
        """Dafny resolved it, and no expression of it can fail to have a value."""
        if verdict.proved:
            return True
        entry, _ = find_own_entries(candidate.head)
        failed = any(o.entry == entry and o.proved < o.total for o in verdict.obligations)
        return verdict.failed_in_prover and not failed


def read_meaning(problem: Problem, english: English) -> Meaning | None:
    """The meaning of the declaration with the hole; None without a contract or words for it."""
    try:
        program = read_problem(problem)
    except ProblemError:
        return None
    target = program.target
    clauses = [f"{word} {text}" for word, text in read_contract(target)]
    said = _describe(target, english)
    if not clauses or said is None or target.word not in ("method", "lemma"):
        return None
    given = _list_given(program)
    hidden = _fresh_name(target, [d.text for d in program.others])
    return Meaning(target, given, clauses, hidden, said)


def _list_given(program: Program) -> list[str]:
    """The declarations that a contract may speak of."""
    return [d.text for d in program.others if d.word in _GIVEN]


def _fresh_name(target: Declaration, given: Sequence[str]) -> str:
    """For the method that states what is meant."""
    return find_fresh("Meant", [*given, target.text])


def _describe(target: Declaration, english: English) -> str | None:
    clauses = read_contract(target)
    phrases = [phrase for _, text in clauses if (phrase := read_phrase(text)) is not None]
    if len(phrases) < len(clauses):
        return None
    said = []
    for (word, _), phrase in zip(clauses, phrases, strict=True):
        opening = english.choose(_DEMANDS if word == "requires" else _PROMISES)
        said.append(sentence(opening.format(english.say_claim(phrase))))
    return english.arrange(said)


def _read_written(problem: Problem, body: str) -> tuple[list[Clause], list[str]] | None:
    """The clauses of a contract, and its parameters that are whole numbers."""
    found = read_contracts(problem, body)
    if found is None:
        return None
    written = found[-2]
    return read_contract(written), [n for n, kind in written.formals if kind in ("nat", "int")]


def _join(clauses: Sequence[Clause]) -> str:
    return "\n".join(f"{word} {text}" for word, text in clauses)


def write_call(target: Declaration, name: str) -> list[str]:
    """A body that calls a method of this name with all parameters, for all results."""
    call = f"{name}({', '.join(formal for formal, _ in target.formals)});"
    results = ", ".join(formal for formal, _ in target.returns)
    return ["{", f"  {results} := {call}" if results else f"  {call}", "}"]


def _write_caller(target: Declaration, name: str, other: str, clauses: Sequence[str]) -> list[str]:
    inner = (f"  {line}" for line in (*clauses, "decreases *"))
    return [*write_head(target, name), *inner, *write_call(target, other)]


FORMALIZING = DafnyFormalizing()
