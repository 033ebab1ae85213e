"""An accepted program whose text is changed, and the way back to the places of its own text.

Flows in: a candidate's file, parsed. Flows out: which of its tokens the policy wrote, the changed
text, and for each place of that the place before the changes. Lines stay. Not handled here: what is
changed (``forget``) and asked (``questions``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from proverrl.errors import ProblemError
from proverrl.lang.dafny.annotate import align
from proverrl.lang.dafny.audit import PROGRAM
from proverrl.lang.dafny.misjudged import list_elements
from proverrl.lang.dafny.syntax.cursor import list_declared
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.syntax.plain import WrittenText
from proverrl.types import ANNOTATE, Candidate
from proverrl.verifier.body_place import find_body_place, find_offset

_FUNCTIONS = ("function", "predicate", "copredicate")
WITH_STATEMENTS = ("method", "lemma", "constructor", "colemma", "comethod", "iterator")
CALLABLES = frozenset((*_FUNCTIONS, *WITH_STATEMENTS))


@dataclass(frozen=True, slots=True)
class OwnedProgram:
    """A program, and which of its tokens the policy wrote; ``hints`` are those of them that prove,
    and are no code."""

    program: ParsedProgram
    theirs: frozenset[int]
    hints: frozenset[int]

    @property
    def ours(self) -> list[int]:
        """The tokens that are not theirs, in their order."""
        return [i for i in range(len(self.program.tokens)) if i not in self.theirs]

    def holds_hints(self, start: int, end: int) -> bool:
        """Whether any of the tokens from ``start`` to ``end`` is of a hint."""
        return not self.hints.isdisjoint(range(start, end))

    @property
    def holders(self) -> list[Element]:
        """The functions, methods and lemmas that hold text of the policy."""
        members = (e for e in list_members(self.program.root) if e.word in CALLABLES)
        return [
            member
            for member in members
            if not self.theirs.isdisjoint(range(member.start, member.end))
        ]

    @property
    def held_apart(self) -> list[list[Element]]:
        """The holders without our functions, and these: what they are is known to the others."""
        functions = [h for h in self.holders if h.start not in self.theirs and h.word in _FUNCTIONS]
        others = [holder for holder in self.holders if holder not in functions]
        return [others, functions] if functions else [others]


def list_members(root: Element) -> Iterator[Element]:
    """The declarations that hold no others, also those inside modules and classes."""
    for slot in root.slots:
        for element in slot.elements if slot.kind == "declarations" else ():
            if any(slot.kind == "declarations" for slot in element.slots):
                yield from list_members(element)
            else:
                yield element


def find_word(program: ParsedProgram, element: Element) -> str:
    """The word that a statement begins with behind its labels."""
    place = element.start
    while program.tokens[place].text == "label":
        place += 3
    return program.tokens[place].text


_HINTS = frozenset("invariant decreases ensures assert calc reveal ghost forall".split())


def own_program(candidate: Candidate, written: WrittenText, program: ParsedProgram) -> OwnedProgram:
    """``program``, which is the candidate's file as ``written``, with what is the policy's in it.
    Where the policy writes the code too, what is no proof is not of a hint."""
    theirs = _find_theirs(candidate, written, program)
    if candidate.problem.kind != PROGRAM:
        return OwnedProgram(program, theirs, theirs)
    lemmas = list_declared(program.tokens, "lemma")
    hints = (
        range(element.start, element.end)
        for element in list_elements(program.root)
        if element.start in theirs
        and (element.word in _HINTS or program.tokens[element.start].text in lemmas)
    )
    return OwnedProgram(program, theirs, frozenset(place for hint in hints for place in hint))


def _find_theirs(
    candidate: Candidate, written: WrittenText, program: ParsedProgram
) -> frozenset[int]:
    places = [(t.line, written.find_column(t.line, t.column)) for t in program.tokens[:-1]]
    if candidate.problem.kind == ANNOTATE:
        alignment = align(candidate.problem, candidate.body)
        if isinstance(alignment, list):
            raise ProblemError(
                f"problem {candidate.problem.id!r}: a body that is not its program was not refused"
            )
        hints = (alignment.theirs[hint.start : hint.end] for hint in alignment.added)
        added = {(token.line, token.column) for hint in hints for token in hint}
        return frozenset(i for i, place in enumerate(places) if place in added)
    return frozenset(
        i
        for i, (line, column) in enumerate(places)
        if find_body_place(candidate, line, column) and find_body_place(candidate, line, column + 1)
    )


@dataclass(frozen=True, slots=True)
class RewrittenText:
    """A text, and for each of its segments: where it begins in it, the place in the program's text,
    and what was inserted there (empty where the program goes on)."""

    text: str
    segments: list[tuple[int, int, str]]

    def locate(self, line: int, column: int) -> tuple[int, str]:
        """The place in the program's text of a line and a column of this one, and the insertion
        that it lies in."""
        offset = find_offset(self.text, line, column)
        number = bisect_right(self.segments, offset, key=lambda segment: segment[0]) - 1
        start, place, inserted = self.segments[number]
        return (place, inserted) if inserted else (place + offset - start, "")


@dataclass(slots=True)
class EditedProgram:
    """A program whose text is changed. ``kept`` are its characters, ``insertions`` places among
    them and texts; ``names`` are those that lost their meaning, ``variables`` the same by the first
    token of the member in which they did, ``conjuncts`` where those of a clause begin and end, by
    its first token, if there are several."""

    owned: OwnedProgram
    kept: list[str] = field(default_factory=list)
    insertions: list[tuple[int, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    variables: dict[int, set[str]] = field(default_factory=dict)
    conjuncts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kept = list(self.program.text)

    @property
    def program(self) -> ParsedProgram:
        """As it was before all edits."""
        return self.owned.program

    def blank(self, start: int, end: int) -> bool:
        """Take the tokens from ``start`` to ``end`` away, and what was put between them; False
        where nothing was left of them."""
        if start == end:
            return False
        return self.cut(self.program.places[start], self.program.end(end - 1))

    def cut(self, first: int, last: int) -> bool:
        """As ``blank``, for characters."""
        if not "".join(self.kept[first:last]).strip():
            return False
        self.kept[first:last] = [c if c == "\n" else " " for c in self.kept[first:last]]
        self.insertions = [i for i in self.insertions if not first < i[0] < last]
        return True

    def add(self, place: int, text: str) -> None:
        """Put a text behind the token before ``place``."""
        self.insertions.append((self.program.end(place - 1), text))

    def write(self) -> RewrittenText:
        """The text as it stands now."""
        pieces, segments = [], []
        done = length = 0
        for place, piece in sorted(self.insertions, key=lambda item: item[0]):
            for start, text in ((done, "".join(self.kept[done:place])), (place, piece)):
                segments.append((length, start, text if text is piece else ""))
                pieces.append(text)
                length += len(text)
            done = place
        segments.append((length, done, ""))
        return RewrittenText("".join([*pieces, *self.kept[done:]]), segments)
