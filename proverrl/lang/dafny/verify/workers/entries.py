"""Turns Dafny 4's outcome of each name into the entries that Dafny 2.3 would tell of.

Flows in: names with their places and outcomes, and the messages about the text. Flows out: entries
with the number of their failures, and where our reader found other declarations than Dafny. Dafny 4
has one outcome for the contract of a method and for its body. What fails before the body is an
entry of its own here, as it is for Dafny 2.3. Dafny 4 tells no number of obligations: one is
counted, or as many as fail.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.program import CALLABLES, read_text
from proverrl.lang.dafny.syntax.reply import EntryResult, ReplyMessage
from proverrl.lang.dafny.syntax.text import name_contract, name_entry
from proverrl.lang.dafny.syntax.tokens import Token

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NamedOutcome:
    """A name, its line (from 1) and column (from 0), and ``verified`` or what stopped it."""

    name: str
    place: Place
    outcome: str


def name_entries(
    named: Sequence[NamedOutcome], messages: Sequence[ReplyMessage], source: str
) -> tuple[EntryResult, ...]:
    """The entries of a text, in the order of its names."""
    errors = sorted((m.line, m.column) for m in messages if m.kind == "error")
    starts = sorted(one.place for one in named)
    bodies = dict(_find_bodies(source)) if errors else {}
    entries = []
    for one in named:
        after = bisect_right(starts, one.place)
        end = starts[after] if after < len(starts) else (len(source) + 1, 0)
        failures = [place for place in errors if one.place <= place < end]
        body = bodies.get(one.place, one.place)
        before = [place for place in failures if place < body]
        inside = len(failures) - len(before)
        outcome = one.outcome
        if before:
            contract = EntryResult(name_contract(one.name), len(before), outcome, len(before))
            entries.append(contract)
            outcome = outcome if inside else "verified"
        # What failed at no place of its own failed here.
        failed = max(inside, 1) if outcome == "error" else 0
        entries.append(EntryResult(name_entry(one.name), max(failed, 1), outcome, failed))
    return tuple(entries)


def _find_bodies(source: str) -> Iterator[tuple[Place, Place]]:
    """The places of the names of methods and lemmas, and where their bodies begin."""
    try:
        program = read_text(source)
    except GrammarError:
        # Bare files may hold what is not read; there all failures of a name are one entry's.
        return
    tokens = program.tokens
    for element in list_elements(program.root):
        body = next((slot for slot in element.slots if slot.kind == "statements"), None)
        if body is None or element.slots[0].kind != "member-clauses":
            continue
        yield _find_place(tokens[element.named]), _find_place(tokens[body.start - 1])


def find_misread(told: Collection[Place], source: str) -> Place | None:
    """The first place at which Dafny found a name to verify and our reader no declaration, or our
    reader a callable and Dafny no name."""
    try:
        program = read_text(source, admitted=True, trusts=True)
    except GrammarError as error:
        return error.finding.line, error.finding.column
    declared = {
        _find_place(program.tokens[element.named]): element.word in CALLABLES
        for element in list_elements(program.root)
        if element.named >= 0
    }
    # A constructor with default values is verified.
    constructors = {_find_place(program.tokens[place]) for place in program.constructor_places}
    unread = {*told} - declared.keys() - constructors
    untold = {place for place, is_callable in declared.items() if is_callable} - {*told}
    return min(unread | untold, default=None)


def _find_place(token: Token) -> Place:
    return token.line, token.column
