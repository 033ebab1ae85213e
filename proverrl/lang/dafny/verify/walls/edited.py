"""An accepted program whose text is changed, and the way back to the places of its own text.

Flows in: a candidate's file, parsed. Flows out: which of its tokens the policy wrote, the changed
text, and for each place of that the place before the changes. Lines stay. Not handled here: what is
changed (``forget``) and asked (``questions``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from proverrl.lang.dafny.audit.annotated import align_admitted
from proverrl.lang.dafny.audit.bodies import PROGRAM
from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.syntax.cursor import is_name, list_declared
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.syntax.plain import WrittenText
from proverrl.lang.dafny.syntax.tokens import Token, find_outer
from proverrl.types import ANNOTATE, Candidate
from proverrl.verifier.body_place import find_body_place, find_offset

FUNCTIONS = ("function", "predicate", "copredicate")
WITH_STATEMENTS = ("method", "lemma", "constructor", "colemma", "comethod", "iterator")
CALLABLES = frozenset((*FUNCTIONS, *WITH_STATEMENTS))


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
        """True if any of the tokens from ``start`` to ``end`` is of a hint."""
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
        functions = [h for h in self.holders if h.start not in self.theirs and h.word in FUNCTIONS]
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


def find_begin(program: ParsedProgram, element: Element) -> int:
    """Where a statement begins behind its labels."""
    place = element.start
    while program.tokens[place].text == "label":
        place += 3
    return place


def find_word(program: ParsedProgram, element: Element) -> str:
    """The word there."""
    return program.tokens[find_begin(program, element)].text


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
        # A forall statement that assigns is code.
        and not (element.word == "forall" and ":=" in _list_words(program, element))
    )
    return OwnedProgram(program, theirs, frozenset(place for hint in hints for place in hint))


_PLAIN_ELEMENTS = ("assert", "invariant", "decreases", "if")
_PLAIN_OPERATORS = frozenset("== != < <= > >= + - * [ ] .. := , | { } ( ) && ; .".split())


def _is_plain(token: Token, following: Token) -> bool:
    """True if a token is of a comparison of sums, collections and their elements."""
    if following.text == "(" and (is_name(token) or token.text == "."):
        # A call, or the update of a datatype.
        return False
    is_value = is_name(token) or token.kind == "number" or token.text in ("in", "else", "if", "old")
    return is_value or (token.kind == "operator" and token.text in _PLAIN_OPERATORS)


def _list_words(program: ParsedProgram, element: Element) -> list[str]:
    return [token.text for token in program.tokens[element.start : element.end]]


def _find_theirs(
    candidate: Candidate, written: WrittenText, program: ParsedProgram
) -> frozenset[int]:
    places = [(t.line, written.find_column(t.line, t.column)) for t in program.tokens[:-1]]
    if candidate.problem.kind == ANNOTATE:
        alignment = align_admitted(candidate.problem, candidate.body)
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
    its first token, if there are several, ``apart`` the statements that stand on a path of their
    own, ``closings`` as ``insertions``, behind all of these at their place."""

    owned: OwnedProgram
    kept: list[str] = field(default_factory=list)
    insertions: list[tuple[int, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    variables: dict[int, set[str]] = field(default_factory=dict)
    conjuncts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    apart: set[int] = field(default_factory=set)
    closings: list[tuple[int, str]] = field(default_factory=list)

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

    def keep_plain(self) -> bool:
        """Leave of what the policy wrote the assertions, loop clauses and conditions alone in which
        nothing is called or bound; True where that was all of it."""
        kept: set[int] = set()

        def keep(element: Element) -> None:
            tokens, is_hint = self.program.tokens, element.start in self.owned.hints
            inside = {i for slot in element.slots for i in range(slot.start, slot.end)}
            outside = [i for i in range(element.start + 1, element.end) if i not in inside]
            word = tokens[element.start].text
            is_plain = all(_is_plain(tokens[i], tokens[i + 1]) for i in outside)
            if is_hint and word in _PLAIN_ELEMENTS and is_plain:
                kept.update([element.start, *outside])
            elif is_hint and word not in ("assert", "calc", "{"):
                return
            for slot in element.slots:
                for inner in slot.elements:
                    keep(inner)

        keep(self.program.root)
        left_out = self.owned.theirs - kept
        for element in list_elements(self.program.root):
            if left_out.issuperset(range(element.start, element.end)):
                # With what was put between its conjuncts.
                self.blank(element.start, element.end)
        for place in left_out:
            self.blank(place, place + 1)
        return not left_out

    def drop(self, element: Element, place: int) -> bool:
        """Take away what fails at a place of an element; False where nothing was left of it."""
        start, end = element.start, element.end
        words = _list_words(self.program, element)
        if element.word in CALLABLES or element.word == "const":
            return False
        for first, last in self.conjuncts.get(start, ()):
            if first <= place < last:
                return self.cut(first, last)
        if element.word in ("var", "ghost"):
            # What follows may name the variable.
            signs = [start + words.index(sign) for sign in (":=", ":|") if sign in words]
            return bool(signs) and self._loosen(start, min(signs), end - 1)
        if start in self.apart or self.open(element):
            return start not in self.apart
        if not any(slot.elements for slot in element.slots):
            return self.blank(start, end)
        # A bug in its blocks may need what they stand behind, and is asked for there alone.
        self.apart.add(start)
        self.insertions.append((self.program.places[start], "if * { "))
        self.insertions.insert(0, (self.program.end(end - 1), " assume false; }"))
        return True

    def _loosen(self, start: int, sign: int, end: int) -> bool:
        """Leave nothing known of variables but their types, which their values may give them."""
        tokens, program = self.program.tokens, self.program
        called = tokens[sign + 1].text in list_declared(tokens, "lemma", "colemma", "method")
        first = start + 1 + (tokens[start].text == "ghost")
        names = [token.text for token in tokens[first:sign:2]]
        are_typed = any(token.text != "," for token in tokens[first + 1 : sign : 2])
        # What is chosen has one condition, and else each variable a value.
        heads = [""] if tokens[sign].text == ":|" else [f"{name} == " for name in names]
        signs = [sign]
        while heads[1:] and tokens[signs[-1]].text in (",", ":="):
            signs.append(find_outer(tokens, signs[-1] + 1, (",", ";")))
        are_matched = len(signs) == len(heads) + bool(heads[1:])
        if called or are_typed or not are_matched or start in self.apart:
            return self.blank(sign, end)
        self.apart.add(start)
        for place, head in zip(signs, heads, strict=False):
            self.cut(program.places[place], program.end(place))
            opening = ") && " if place > sign else " :| true || ("
            self.insertions.append((program.end(place), f"{opening}{head}("))
        self.insertions.append((program.end(end - 1), "))"))
        return True

    def open(self, element: Element) -> bool:
        """Leave of a statement its blocks alone, which may hide a bug, each on a path of its own;
        False where there are none, or nothing else is left."""
        tokens = self.program.tokens
        blocks = [(slot.start - 1, slot.end + 1) for slot in element.slots if slot.elements]
        if any(
            slot.kind != "statements" or tokens[slot.start - 1].text != "{"
            for slot in element.slots
        ):
            return False
        if blocks and ":|" in (token.sign for token in tokens[element.start : blocks[0][0]]):
            return False
        promises = [p for p in self.program.promises if element.start < p[0] < element.end]
        if find_word(self.program, element) == "forall":
            # The block may name what is bound.
            if not promises or not self.blank(*promises[0]):
                return False
            self.insertions.append((self.program.places[promises[0][0]], " true "))
            return True
        edges = [element.start, *(edge for block in blocks for edge in block), element.end]
        heads = list(zip(edges[::2], edges[1::2], strict=True))
        if not blocks or not sum(self.blank(*head) for head in heads):
            return False
        by = tokens[blocks[0][0] - 1].text == "by"
        for start, _ in [] if by else blocks:
            self.insertions.append((self.program.places[start], "if * "))
        return True

    def write(self) -> RewrittenText:
        """The text as it stands now."""
        pieces, segments = [], []
        done = length = 0
        for place, piece in sorted([*self.insertions, *self.closings], key=lambda item: item[0]):
            for start, text in ((done, "".join(self.kept[done:place])), (place, piece)):
                segments.append((length, start, text if text is piece else ""))
                pieces.append(text)
                length += len(text)
            done = place
        segments.append((length, done, ""))
        return RewrittenText("".join([*pieces, *self.kept[done:]]), segments)
