"""Lemmas as claims that are to be proved or disproved.

Flows in: a problem of the kind ``decide``, whose hole is in a lemma, and a side. Flows out: the
problem that is verified, the lemma itself or its negation in its place. That is closed: some
arguments meet ``requires`` and miss ``ensures``. A predicate says so of given ones, so that the
prover finds a witness that a body names (``assert Fails(3);``), whatever the claim is made of. The
lemma is not in the file with its negation, which would follow from it.
Also here: claims like a theorem, true and false (the idea of DeepTheorem, Zhang et al. 2025, arXiv
2505.23754: variants that a theorem entails or contradicts). Not handled here: which of them are
true; claims about the heap (refused).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from textwrap import dedent

from proverrl.errors import ProblemError
from proverrl.lab.words.dafny.fresh import find_fresh
from proverrl.lab.words.dafny.phrases import read_phrase
from proverrl.lab.words.dafny.stated import make_file
from proverrl.lab.words.english import English, Phrase, sentence
from proverrl.lab.words.parts import Variant
from proverrl.lab.words.sides import SIDES
from proverrl.lang.dafny.audit.bodies import check_problem
from proverrl.lang.dafny.audit.files import audit_file
from proverrl.lang.dafny.audit.written_types import get_blank
from proverrl.lang.dafny.compose import forms, mutate
from proverrl.lang.dafny.compose.attack import list_inputs
from proverrl.lang.dafny.compose.declarations import (
    OPEN_BODY,
    Piece,
    Program,
    conjoin,
    map_tokens,
    read_problem,
    rename,
)
from proverrl.lang.dafny.syntax.declarations import Declaration, write_formals
from proverrl.lang.dafny.syntax.text import fill_hole, name_entry, scan_places
from proverrl.lang.records import Made, Parent
from proverrl.types import Candidate, Problem, Verdict

_GIVEN = frozenset(("function", "predicate", "lemma", "datatype"))
_PLAIN_LEMMA = re.compile(r"lemma(\s*\{:induction[^{}]*\})*\s*")
_RELATIONS = ("==", "!=", "<", "<=", ">", ">=")
_MOST_MOVED = 9
_NUM_INPUTS = 4
"""Every other one of these is tried: the least, and one that is further away."""


@dataclass(frozen=True, slots=True)
class _Sides:
    """The programs with the claim and with its negation; ``fails`` is the predicate that says of
    arguments that the claim does not hold of them."""

    claim: Program
    negation: Program
    fails: Declaration


class DafnyDeciding:
    """``Deciding`` in Dafny."""

    proof_kind = "statements"

    def state(self, problem: Problem, side: str) -> Problem:
        """See ``Deciding``."""
        sides = _read_sides(problem)
        text = (sides.claim if side == SIDES[0] else sides.negation).text
        stated = Problem(problem.id, problem.language, self.proof_kind, "", text)
        check_problem(stated)
        return stated

    def check(self, problem: Problem) -> None:
        """See ``Deciding``."""
        for side in SIDES:
            self.state(problem, side)
        refuse_unproved(problem, "what is to be decided")

    def show(self, problem: Problem) -> str:
        """The claim, then the predicate that a disproof shows to hold of some arguments."""
        sides = _read_sides(problem)
        return f"{sides.claim.text}{sides.fails.text}\n"

    def list_variants(self, known: Candidate, rng: random.Random) -> Iterator[Variant]:
        """See ``Deciding``. Each has the theorem's proof as one that may do, and refutations that
        name a witness, small ones first."""
        theorem = open_lemma(known)
        if theorem is None:
            return
        parent: Parent | None = theorem
        while True:
            if parent is not None:
                yield _make_variant(parent)
            parent = _change(rng, theorem)

    def write(self, side: str, proof: str) -> str:
        """See ``Deciding``."""
        return f"{side}\n{proof}"

    def ask_sides(self, variants: Sequence[Variant]) -> Candidate:
        """See ``Deciding``. A file with a lemma for each body, since to ask is what takes time."""
        texts = [d.text for d in _read_sides(variants[0].problem).claim.others]
        for number, variant in enumerate(variants):
            sides = _read_sides(variant.problem)
            own, fails = sides.claim.target, sides.fails
            against = sides.negation.target.text
            texts.append(rename(fails.text, {fails.name: f"Fails{number}"}))
            for (mark, place), body in _list_bodies(variant).items():
                text = fill_hole(against if mark == "Miss" else own.text, body)
                names = {own.name: f"{mark}{number}x{place}", fails.name: f"Fails{number}"}
                texts.append(rename(text, names))
        return make_file(variants[0].problem, "sides", "\n".join(texts) + "\n")

    def read_sides(self, variants: Sequence[Variant], verdict: Verdict) -> list[tuple[str, str]]:
        """See ``Deciding``."""
        proved = {o.entry for o in verdict.obligations if o.all_proved}
        found = []
        for number, variant in enumerate(variants):
            bodies = _list_bodies(variant)
            done = {
                at: body
                for at, body in bodies.items()
                if name_entry(f"{at[0]}{number}x{at[1]}") in proved
            }
            (mark, _), body = next(iter(done.items()), (("", 0), ""))
            found.append(({"Try": SIDES[0], "Miss": SIDES[1]}.get(mark, ""), body))
        return found

    def describe(self, problem: Problem, english: English) -> str:
        """See ``Deciding``."""
        target = read_problem(problem).target
        claims = _read_all(target.list_clauses("ensures"))
        given = _read_all(target.list_clauses("requires"))
        if claims is None or given is None:
            return ""
        phrase = _join(claims)
        if given:
            phrase = Phrase("implies", (_join(given), phrase))
        for name, kind in reversed(target.formals):
            phrase = Phrase("all", (phrase, Phrase("name", text=kind)), name)
        return sentence(english.say_claim(phrase))


def _read_sides(problem: Problem) -> _Sides:
    """Raises ``ProblemError`` for a claim that has no closed negation."""
    program = read_problem(problem)
    target = program.target
    claims = target.list_clauses("ensures")
    kinds = " ".join(kind for _, kind in target.formals)
    if not _PLAIN_LEMMA.fullmatch(target.prefix) or target.returns or not claims:
        raise ProblemError(
            f"problem {problem.id!r}: what is to be decided is a lemma with 'ensures', without "
            "results and without attributes but 'induction'"
        )
    if not {d.word for d in program.declarations} <= _GIVEN or re.search(r"array|object", kinds):
        raise ProblemError(
            f"problem {problem.id!r}: a lemma that is to be decided speaks of no object, and "
            "stands beside functions, lemmas and datatypes alone"
        )
    name = find_fresh("Fails", [program.text])
    given = [f"({text})" for text in target.list_clauses("requires")]
    claim = conjoin(claims)
    misses = " && ".join([*given, f"!({claim})" if len(claims) > 1 else f"!{claim}"])
    formals = write_formals(target.formals)
    call = f"{name}({', '.join(formal for formal, _ in target.formals)})"
    fails = Declaration(
        "predicate", f"predicate {name}({formals}) {{ {misses} }}", name, formals=target.formals
    )
    negation = target.rewrite(
        formals=(),
        clauses=(("ensures", f"exists {formals} :: {call}" if formals else call),),
        body=OPEN_BODY,
    )
    return _Sides(program, program.with_target(fails, negation), fails)


def refuse_unproved(problem: Problem, what: str) -> None:
    """Raise ``ProblemError`` for a file that leaves something unproved; ``what`` stands in it. An
    axiom beside a claim may prove both sides of it, and every answer."""
    for finding in audit_file(get_blank(problem)):
        raise ProblemError(
            f"problem {problem.id!r}: line {finding.line}: {finding.message}; {what} stands in a "
            "file that leaves nothing unproved"
        )


def open_lemma(known: Candidate) -> Parent | None:
    """A theorem whose hole is all of its proof, with that proof; None for what has no closed
    negation, or no parameters."""
    try:
        program = read_problem(known.problem)
        target = program.target
        proof = dedent(fill_hole(target.body, known.body)[1:-1]).strip()
        text = program.with_target(target.rewrite(body=OPEN_BODY)).text
        problem = replace(known.problem, kind=DafnyDeciding.proof_kind, statement=text)
        _read_sides(problem)
    except ProblemError:
        return None
    return Parent(problem, proof) if target.formals else None


def _make_variant(parent: Parent) -> Variant:
    sides = _read_sides(parent.problem)
    rows = list_inputs(sides.claim.target, sides.claim, _NUM_INPUTS)[::2]
    refutations = (f"assert {sides.fails.name}({', '.join(row.values())});" for row in rows)
    return Variant(parent.problem, (parent.reference or "",), tuple(refutations))


def _list_bodies(variant: Variant) -> dict[tuple[str, int], str]:
    """Bodies by what they are to show and their number, in the order in which they count."""
    kinds = {"Try": variant.proofs, "Miss": variant.refutations}
    return {(mark, i): body for mark, bodies in kinds.items() for i, body in enumerate(bodies)}


def _change(rng: random.Random, theorem: Parent) -> Parent | None:
    """A claim like the theorem; None where this draw has no hold on it."""
    steps = rng.choice(((_relate,), (_miss,), (_relate, _miss)))
    if rng.random() < 0.2:
        steps = (forms.instantiate, *steps)
    if rng.random() < 0.2:
        steps = (*steps, mutate.add_requires)
    parent = theorem
    for step in steps:
        made = step(rng, [parent])
        if made is None or not read_problem(parent.problem).target.formals:
            return None
        parent = Parent(replace(theorem.problem, statement=made.statement), made.reference)
    return parent if read_problem(parent.problem).target.formals else None


def _relate(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """Another relation between the two sides of a claim that is one, its right side perhaps more or
    less by a number."""
    moved = rng.choice(
        ("", f" + {rng.randint(1, _MOST_MOVED)}", f" - {rng.randint(1, _MOST_MOVED)}")
    )
    relation = rng.choice(_RELATIONS)

    def change(claim: str) -> str | None:
        depth, found = 0, []
        for _, piece, place in scan_places(claim):
            depth += (piece in "([{") - (piece in ")]}")
            if depth == 0 and piece in (*_RELATIONS, "==>", "<==>", "&&", "||"):
                found.append((piece, place))
        if len(found) != 1 or found[0][0] not in _RELATIONS:
            return None
        old, place = found[0]
        return f"{claim[:place]}{relation}{claim[place + len(old) :].rstrip()}{moved}"

    return _change_claim(parents[0], change)


def _miss(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """A number of the claim, and only there, becomes another."""

    def change(claim: str) -> str | None:
        places = [place for _, piece, place in scan_places(claim) if piece.isdigit()]
        if not places:
            return None
        at = rng.choice(places)
        by = rng.choice((-1, 1)) * rng.randint(1, _MOST_MOVED)

        def move(pieces: list[Piece], place: int) -> str | None:
            _, piece, start = pieces[place]
            return str(abs(int(piece) + by)) if start == at else None

        return map_tokens(claim, move)

    return _change_claim(parents[0], change)


def _change_claim(parent: Parent, change: Callable[[str], str | None]) -> Made | None:
    """The lemma with its last ``ensures`` changed."""
    program = read_problem(parent.problem)
    clauses = list(program.target.clauses)
    last = max(place for place, (word, _) in enumerate(clauses) if word == "ensures")
    changed = change(clauses[last][1])
    if changed is None or changed == clauses[last][1]:
        return None
    clauses[last] = "ensures", changed
    target = program.target.rewrite(clauses=tuple(clauses))
    return Made(parent.problem.kind, program.with_target(target).text, parent.reference)


def _read_all(clauses: Sequence[str]) -> list[Phrase] | None:
    """Clauses as phrases; None where one has no words."""
    read = [read_phrase(text) for text in clauses]
    return None if None in read else [phrase for phrase in read if phrase is not None]


def _join(phrases: Sequence[Phrase]) -> Phrase:
    return reduce(lambda left, right: Phrase("and", (left, right)), phrases)


DECIDING = DafnyDeciding()
