"""Proof hints of whole programs that are pooled: each stands at its place in the problem's program.

Flows in: a program with hints, or hints; such a program with its verdict. Flows out: the hints,
whose texts begin with ``LINE:COLUMN``, the place in the problem's program before which they stand;
a program that holds hints; those in which something fails. Not handled here: what a hint declares,
and what speaks of that (left out); programs that change more than their hints (they have none).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from proverrl.lang.dafny.audit.annotated import Alignment, OurProgram, align, get_program_text
from proverrl.lang.dafny.audit.hints import AddedHint
from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.search.states import (
    find_unknown,
    list_errors,
    offset,
    write_line,
)
from proverrl.lang.dafny.syntax.parsed import ElementSlot
from proverrl.lang.dafny.syntax.reply import is_endless
from proverrl.lang.dafny.syntax.tokens import find_lines, find_places
from proverrl.lang.records import PooledHint, RefusedHints
from proverrl.types import Candidate, Problem, Verdict

_CLAUSES = ("loop-clauses", "member-clauses")


@dataclass(frozen=True, slots=True)
class _Placed:
    """A hint, and from where to where it stands in a body, in characters."""

    hint: PooledHint
    start: int
    end: int


def list_hints(problem: Problem, body: str) -> list[PooledHint]:
    """The hints of a body in its order, each once."""
    placed, _ = _read(problem, body)
    return list({one.hint.key: one.hint for one in placed}.values())


def put_together(problem: Problem, facts: Sequence[str]) -> str:
    """The program with these hints, those of one place in the order in which they are given."""
    text = get_program_text(problem)
    lines, starts = text.split("\n"), find_lines(text)
    pieces: dict[int, str] = {}
    for fact in facts:
        line, column, hint = _split(fact)
        before = lines[line][:column]
        indent = before[: len(before) - len(before.lstrip())]
        place = starts[line] + column
        opening = "" if place in pieces or not before.strip() else f"\n{indent}"
        pieces[place] = pieces.get(place, "") + f"{opening}{hint}\n{indent}"
    for place in sorted(pieces, reverse=True):
        text = text[:place] + pieces[place] + text[place:]
    return text


def begin(problem: Problem, facts: Sequence[str]) -> str:
    """That program up to the end of the last hint; nothing without hints."""
    if not facts:
        return ""
    line, column, _ = max(map(_split, facts))
    after = "\n".join(get_program_text(problem).split("\n")[line:])[column:]
    return put_together(problem, facts).removesuffix(after)


def find_refused(candidate: Candidate, verdict: Verdict) -> RefusedHints | None:
    """The hints in which something fails, and the loops and declarations that are not shown to end.
    What does not resolve is refuted. Nothing else is, since other hints stand before it."""
    placed, aligned = _read(candidate.problem, candidate.body)
    if aligned is None:
        return None
    refuted, failed, endless = set[str](), set[str](), set[str]()
    for error in list_errors(verdict):
        place = offset(candidate.body, error)
        hint = next((one.hint for one in placed if _holds(one, place)), None)
        if hint is not None:
            (failed if verdict.obligations else refuted).add(hint.key)
        elif place is not None and is_endless(error.message):
            endless |= {_find_endless(candidate.body, aligned, place)}
    return RefusedHints(frozenset(refuted), frozenset(failed), frozenset(endless))


def is_covered(problem: Problem, body: str) -> bool:
    """True if all that a body adds is pooled."""
    placed, aligned = _read(problem, body)
    return aligned is not None and len(placed) == len(aligned.added)


def _read(problem: Problem, body: str) -> tuple[list[_Placed], Alignment | None]:
    """The hints of a body that are pooled; none and None of what is not the program with hints."""
    aligned = align(problem, body)
    if isinstance(aligned, list):
        return [], None
    return list(_iter_placed(problem, body, aligned)), aligned


def _iter_placed(problem: Problem, body: str, aligned: Alignment) -> Iterator[_Placed]:
    tokens, places = aligned.theirs, find_places(body, aligned.theirs)
    ours_of = _turn(aligned.matched)
    for added in aligned.added:
        words = [token.text for token in tokens[added.start : added.end]]
        if _declares(added) or find_unknown(words, problem):
            continue
        start, end = places[added.start], places[added.end - 1] + len(words[-1])
        text = body[start:end]
        line = write_line(text)
        anchor = next((ours_of[i] for i in range(added.end, len(tokens)) if i in ours_of), -1)
        token = aligned.ours.tokens[anchor]
        where = f"{token.line}:{token.column + 1}"
        measure = _find_slot(aligned.ours, anchor) if words[0] == "decreases" else ""
        is_clause = words[0] in ("invariant", "decreases")
        key = f"{where} {' '.join(words[: len(words) - (is_clause and words[-1] == ';')])}"
        rank = int(words[0] == "invariant" and "[" in words)
        yield _Placed(PooledHint(f"{where} {line}", key, rank, measure), start, end)


def _declares(added: AddedHint) -> bool:
    return added.added is not None or bool(added.local or added.assigned)


def _holds(placed: _Placed, place: int | None) -> bool:
    return place is not None and placed.start <= place < placed.end


def _turn(matched: Mapping[int, int]) -> dict[int, int]:
    """Places of our tokens by those of theirs."""
    return {their_place: our_place for our_place, their_place in matched.items()}


def _iter_slots(ours: OurProgram) -> Iterator[tuple[int, int, ElementSlot]]:
    """Places where measures may stand, with the places of the loop or declaration that they belong
    to."""
    for element in list_elements(ours.root):
        for slot in element.slots:
            if slot.kind in _CLAUSES:
                yield element.start, element.end, slot


def _find_slot(ours: OurProgram, anchor: int) -> str:
    """The name of the loop or declaration whose clauses end at our token ``anchor``, or hold it."""
    return next(
        str(start) for start, _, slot in _iter_slots(ours) if slot.start <= anchor <= slot.end
    )


def _find_endless(body: str, aligned: Alignment, place: int) -> str:
    """The name of the loop that begins at a place of the body, or else of the declaration around
    it; empty where there is none."""
    places = find_places(body, aligned.theirs)
    their_place = max((i for i, start in enumerate(places) if start <= place), default=0)
    ours = _turn(aligned.matched).get(their_place, -1)
    around = [
        (start, slot.kind)
        for start, end, slot in _iter_slots(aligned.ours)
        if start == ours or (slot.kind == "member-clauses" and start <= ours < end)
    ]
    return str(max(around)[0]) if around else ""


def _split(fact: str) -> tuple[int, int, str]:
    """Line and column, both from 0, and the hint."""
    where, _, hint = fact.partition(" ")
    line, column = map(int, where.split(":"))
    return line - 1, column - 1, hint
