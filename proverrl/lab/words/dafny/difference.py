"""Looks for a call on which two contracts disagree, or that one admits, and has Dafny prove it.

Flows in: a problem of the kind ``formalize`` and a body. Flows out: a program of lemmas, one for
each call that is tried: small values of the parameters and those that the contracts name, results
at and beside the values that they speak of. A lemma that is proved shows that one contract admits
the call and the other does not, or that what a contract demands can be met. Not covered, so that
nothing is said: frames and ``old``, results that are arrays or of types that leave values out,
calls that are not tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from proverrl.errors import ProblemError
from proverrl.lab.words.dafny.stated import make_file, write_claim
from proverrl.lang.dafny.compose.attack import list_calls
from proverrl.lang.dafny.compose.declarations import Program, conjoin, list_names
from proverrl.lang.dafny.syntax.declarations import Declaration, read_declarations
from proverrl.lang.dafny.syntax.text import name_entry, scan_places
from proverrl.types import Candidate, Problem, Verdict

_LEMMA = "Differ"
_ADMITTED = "Admitted"
_MAX_LEMMAS = 40
_FIRST_LEMMAS = 8
_MAX_CALLS = 20
_MAX_DEMANDS = 64
_MAX_RESULTS = 6
_RELATIONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
_ENDS = frozenset(("&&", "||", "==>", "<==>", "::", ";"))
_BESIDE = ("{}", "{} + 1", "{} - 1")


def ask_difference(problem: Problem, body: str) -> list[Candidate]:
    """The programs to verify, one after the other until one shows it: few lemmas, and then the
    rest, because most differences show at once. None where nothing is known to try."""
    found = read_contracts(problem, body)
    if found is None:
        return []
    *given, written, meant = found
    words = {piece for d in (written, meant) for _, text in d.clauses for piece in _words(text)}
    if words & {"old", "fresh", "unchanged"} or any(w == "modifies" for w, _ in meant.clauses):
        return []
    results = _list_results(written, meant)
    calls = _list_calls(found, meant, words, num=_MAX_CALLS)
    if results is None or not calls:
        return []
    # The first of both first: neither many calls nor many results use up the number of lemmas.
    places = itertools.product(range(len(calls)), range(len(results)))
    tried = [(*calls[i], *results[j]) for i, j in sorted(places, key=sum)[:_MAX_LEMMAS]]
    claim = _deny(written, meant)
    lemmas = [write_claim(f"{_LEMMA}{i}", meant, fixed, claim) for i, fixed in enumerate(tried)]
    parts = [part for part in (lemmas[:_FIRST_LEMMAS], lemmas[_FIRST_LEMMAS:]) if part]
    return [_make_file(problem, "differ", given, part) for part in parts]


def ask_admitted(problem: Problem, body: str) -> Candidate | None:
    """The program to verify to see that what a contract demands can be met: it follows from what is
    meant to be demanded, or some call meets it. None where it demands nothing, or no call is known
    to try."""
    found = read_contracts(problem, body)
    if found is None:
        return None
    *given, written, meant = found
    demands = written.list_clauses("requires")
    words = {word for text in demands for word in _words(text)}
    calls = _list_calls(found, written, words, num=_MAX_DEMANDS)
    if not demands or not calls:
        return None
    own = meant.list_clauses("requires")
    lemmas = [
        write_claim(f"{_ADMITTED}{number}", written, known, conjoin(demands))
        for number, known in enumerate([own, *calls])
    ]
    return _make_file(problem, "admitted", given, lemmas)


def shows_admitted(verdict: Verdict) -> bool:
    """True if one of the lemmas is proved."""
    return _has_proved(verdict, _ADMITTED)


def _make_file(
    problem: Problem, suffix: str, given: Sequence[Declaration], lemmas: Sequence[str]
) -> Candidate:
    return make_file(problem, suffix, "\n".join([*(d.text for d in given), *lemmas]) + "\n")


def _list_calls(
    found: tuple[Declaration, ...], target: Declaration, words: Collection[str], *, num: int
) -> list[list[str]]:
    """Equations that fix the parameters, at and beside the numbers among ``words`` too."""
    named = {int(word) + by for word in words if word.isdigit() for by in (0, 1, -1)}
    numbers = [str(value) for value in sorted(named) if value >= 0]
    return list_calls(target, Program(found), num=num, numbers=numbers)


def read_contracts(problem: Problem, body: str) -> tuple[Declaration, ...] | None:
    """The given declarations, the method with the body as its contract, and the one with what is
    meant; None for a body that is no contract."""
    candidate = Candidate(problem, body)
    try:
        found = read_declarations(candidate.source)
    except ProblemError:
        return None
    hole = len(candidate.head)
    return found if found[-2].start < hole <= found[-2].opening else None


def shows_difference(verdict: Verdict) -> bool:
    """True if one of the lemmas is proved."""
    return _has_proved(verdict, _LEMMA)


def _has_proved(verdict: Verdict, name: str) -> bool:
    return any(
        found.entry.startswith(name_entry(name)) and found.all_proved
        for found in verdict.obligations
    )


def _deny(written: Declaration, meant: Declaration) -> str:
    """That the demands differ, or both are met and the promises differ."""
    (demands, promises), (own_demands, own_promises) = (
        [conjoin(d.list_clauses(word)) or "true" for word in ("requires", "ensures")]
        for d in (meant, written)
    )
    return (
        f"!(({demands}) <==> ({own_demands})) || "
        f"(({demands}) && ({own_demands}) && !(({promises}) <==> ({own_promises})))"
    )


def _list_results(written: Declaration, meant: Declaration) -> list[list[str]] | None:
    """Equations that fix all results; None where a type has no values here."""
    # Not the names that a quantifier binds.
    names = {name for name, _ in meant.formals}
    columns = []
    for name, kind in meant.returns:
        if kind == "bool":
            values = ["true", "false"]
        elif kind == "int":
            sides = [s for d in (meant, written) for s in _list_sides(d, name, names)]
            found = (form.format(f"({side})") for form in _BESIDE for side in dict.fromkeys(sides))
            values = list(found)[: 3 * _MAX_RESULTS] or ["0"]
        else:
            return None
        columns.append([f"{name} == {value}" for value in values[:_MAX_RESULTS]])
    return [list(row) for row in itertools.product(*columns)]


def _list_sides(declaration: Declaration, name: str, parameters: set[str]) -> list[str]:
    """The sides that a result is compared with, where they speak of parameters alone."""
    sides = []
    for text in declaration.list_clauses("ensures"):
        pieces = scan_places(text)
        for i, (_, piece, _) in enumerate(pieces):
            if piece not in _RELATIONS:
                continue
            left = _cut(text, pieces, i - 1, -1)
            right = _cut(text, pieces, i + 1, 1)
            for one, other in ((left, right), (right, left)):
                if one.strip() == name and other and _list_values(other) <= parameters:
                    sides.append(other)
    return sides


def _cut(text: str, pieces: Sequence[tuple[str, str, int]], start: int, step: int) -> str:
    """The operand that begins at a piece and goes on to the next relation or sign of logic."""
    depth, place = 0, start
    while 0 <= place < len(pieces):
        piece = pieces[place][1]
        depth += step * ((piece in "([") - (piece in ")]"))
        if depth < 0 or (depth == 0 and piece in _RELATIONS | _ENDS):
            break
        place += step
    low, high = (start, place - 1) if step > 0 else (place + 1, start)
    if low > high:
        return ""
    return text[pieces[low][2] : pieces[high][2] + len(pieces[high][1])]


def _list_values(text: str) -> set[str]:
    """The names in an expression but for the functions that it calls."""
    pairs = itertools.pairwise(_words(text))
    return list_names(text) - {word for word, following in pairs if following == "("}


def _words(text: str) -> list[str]:
    return [piece for _, piece, _ in scan_places(text)]
