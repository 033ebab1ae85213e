"""Finds declarations with which Dafny 2.3 proves anything.

Flows in: a program. Flows out: findings.
Types: a value of ``datatype D = D(s: iset<D>)`` would be a set of all its kind (Cantor), and a
class with ``const f: C -> int`` lets a function call itself without that Dafny sees a recursion
(Landin's knot). Dafny 2.3 asks for strict positivity only of datatypes, and only of arrows. Here no
type may contain itself through the domain of an arrow, an ``iset`` or an ``imap``: not directly,
nor through other types, synonyms, type arguments, or a trait or ``object`` whose values may be of
that type. What can be assigned again (``var`` fields) is judged by the functions over it.
Functions: a field ``var f: int ~> int`` may be given ``x reads this => this.f(x) + 1``, after which
``f(0) == f(0) + 1``: Dafny asks no measure of a call through a variable. So a function that reads
the heap may be held by a parameter or a local variable only, and be called, described by its
``reads`` and ``requires``, or passed on to a parameter whose type says that it reads (``~>``). No
field, array, collection, datatype or type argument can hold one then, be it by an inferred type.
Finite sets: Dafny 2.3 takes ``set q: seq<object> | allocated(q)`` for finite, and ``set z | z <
e``, all datatype values in ``e``, where ``e`` may hold an ``iset`` or an ``imap``. The first are
refused; so are the second in a program that writes such a type, unless ``z`` is a number.
Types of one name in several modules, and variables of one name, are taken for one (too much is
refused).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import networkx as nx

from proverrl.lang.dafny.known_bugs.circular_constraints import find_circular_constraints
from proverrl.lang.dafny.known_bugs.hidden_references import find_hidden_references
from proverrl.lang.dafny.known_bugs.loop_measures import (
    DECLARES,
    find_two_state_measures,
    find_unordered_measures,
)
from proverrl.lang.dafny.known_bugs.misjudged import Surroundings, find_misjudged, list_elements
from proverrl.lang.dafny.known_bugs.narrow_types import find_narrow_mixes
from proverrl.lang.dafny.known_bugs.unallocated import find_unallocated
from proverrl.lang.dafny.known_bugs.unchecked import find_unchecked
from proverrl.lang.dafny.syntax.cursor import ARROWS, COLLECTIONS
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram, TypePart
from proverrl.lang.dafny.syntax.tokens import Token, find_close
from proverrl.lang.records import Finding

_ARRAY = re.compile(r"array[0-9]*")
_INFINITE = ("iset", "imap")
_BITS = re.compile(r"bv[0-9]+")
_MEASURED = frozenset("decreases function predicate lemma colemma while".split())
_COMPARES = ("<", ">", "<=", ">=")
_MEMBER = (".", "(", "[", "<")
_NUMBERS = ("int", "nat", "real", "char", "bool")
_STATEMENT_ENDS = ("", ";", "{", "}", "=>", "var")

Mention = tuple[str, bool]
"""The name of a type, and whether it stands where its values are asked for."""


def find_bugs(program: ParsedProgram, *ours: ParsedProgram) -> list[Finding]:
    """All that needs a bug of Dafny: the one door to these rules, for bare files, problems,
    annotated programs and bodies, of which ``ours`` is the text around. Bit vectors are left to the
    callers, since what they may measure depends on who wrote the measure."""
    around = Surroundings((*ours, program))
    return [
        *_find_circular(program),
        *_StoredFunctions(program).find(),
        *_find_infinite_sets(program, holds_infinite=around.has_word(*_INFINITE)),
        *find_misjudged(program, around),
        *find_circular_constraints(program),
        *find_narrow_mixes(program, around),
        *find_hidden_references(program, around),
        *find_unordered_measures(program, around),
        *find_two_state_measures(program),
        *find_unchecked(program, around),
        *find_unallocated(program, around),
    ]


def has_bit_types(tokens: Sequence[Token]) -> bool:
    """True if the type of a bit vector is written anywhere."""
    return any(_BITS.fullmatch(token.text) for token in tokens)


def find_bit_measures(theirs: Sequence[Token], *, is_bits: bool) -> Iterator[Finding]:
    """Texts that a policy may not write because Dafny 2.3 lets any bit vector decrease for ever
    (its issue 2511): declarations over bit vectors, and with ``is_bits``, in a program that has
    some, any measure."""
    words = {place: token.text for place, token in enumerate(theirs) if token.kind == "word"}
    declares = not _MEASURED.isdisjoint(words.values())
    for place, word in words.items():
        if (_BITS.fullmatch(word) and declares) or (is_bits and word in _MEASURED):
            message = "Dafny lets a bit vector decrease for ever, so nothing may be measured by one"
            yield theirs[place].refuse("cheat", "bit-measure", message)


def _find_infinite_sets(program: ParsedProgram, *, holds_infinite: bool) -> Iterator[Finding]:
    """Comprehensions of finite sets and maps that may have no end; with ``holds_infinite`` a value
    may lie in another without end."""
    for start, bar, end in program.finite:
        for token in program.tokens[bar:end]:
            if token.kind == "word" and token.text == "allocated":
                message = "Dafny takes all that is allocated for a finite set, which it may not be"
                yield token.refuse("cheat", "infinite-set", message)
        if not holds_infinite:
            continue
        for name, token in _find_compared(program, start, bar, end):
            message = (
                "Dafny takes what is below a value for a finite set, which it may not be: write "
                f"the numeric type of {name!r}, or also compare it with '<='"
            )
            yield token.refuse("cheat", "infinite-set", message)


def _find_compared(
    program: ParsedProgram, start: int, bar: int, end: int
) -> Iterator[tuple[str, Token]]:
    """The variables of a comprehension that are compared by ``<`` or ``>`` and may be datatypes,
    and where. A number is written as one, compared with a literal or a size, or by ``<=``, which
    Dafny has for no datatype; or it is compared with such a variable."""
    tokens = program.tokens
    bound = {token.text for token in tokens[start:bar] if token.kind == "word"}
    places = [*program.typed, *(binding.place for binding in program.bindings)]
    # What is bound again has two types.
    twice = {tokens[place].text for place in places if bar < place < end}
    numbers = {"0"} | {
        tokens[place].text
        for place in range(start, bar - 2)
        if tokens[place + 1].text == ":" and tokens[place + 2].text in _NUMBERS
    }
    compared = [
        (place, {_read_operand(tokens, place, -1), _read_operand(tokens, place, 1)} - {"", *twice})
        for place in range(bar + 1, end)
        if tokens[place].kind == "operator" and tokens[place].text in _COMPARES
    ]
    for place, names in compared:
        if tokens[place].text in ("<=", ">="):
            numbers |= names
    for _ in compared:
        for _, names in compared:
            numbers |= names if names & numbers else set()
    for place, _ in compared:
        before, after = place - 1, place + 1
        while tokens[before].text == ")":
            before -= 1
        while tokens[after].text == "(":
            after += 1
        sides = [before] if tokens[before - 1].text != "." else []
        sides += [after] if tokens[after + 1].text not in _MEMBER else []
        for name in {tokens[side].text for side in sides} & (bound - (numbers - twice)):
            yield name, tokens[place]


def _read_operand(tokens: Sequence[Token], place: int, step: int) -> str:
    """The variable beside a comparison where it is the whole of an operand, or the end of a sum;
    "0" for a literal or a size; else an empty string."""
    token, beyond = tokens[place + step], tokens[place + 2 * step].text
    if token.text == "|":
        return "0"
    if beyond == "." or (step > 0 and beyond in _MEMBER):
        return ""
    return "0" if token.kind == "number" else token.text if token.kind == "word" else ""


def leaves_out_arguments(program: ParsedProgram, place: int) -> bool:
    """True if the name at ``place`` is that of a type with parameters, and none are given."""
    name, after = program.tokens[place].text.removesuffix("?"), program.tokens[place + 1].text
    has_parameters = name in COLLECTIONS or name in program.parameters or _ARRAY.fullmatch(name)
    return bool(has_parameters) and after not in ("<", ".")


class _TypeReader:
    """Reads one type and lists the names in it."""

    def __init__(self, program: ParsedProgram, inverted: set[tuple[str, int]]) -> None:
        self._program = program
        self._tokens = program.tokens
        self._inverted = inverted
        self._own: tuple[str, ...] = ()

    def read_part(self, part: TypePart) -> list[Mention]:
        """Names that a part of a declared type mentions; arguments left out are those of the
        owner."""
        self._own = self._program.parameters.get(part.owner, ())
        return self.read(part.start, part.end)[1]

    def read(self, place: int, end: int) -> tuple[int, list[Mention]]:
        """The place after the type that begins at ``place``, and what it mentions."""
        text = self._tokens[place].text
        if text == "(":
            place, mentions = self._read_arguments("()", place + 1, end, ")")
        else:
            while place + 2 < end and self._tokens[place + 1].text == ".":
                place += 2
            name = self._tokens[place].text.removesuffix("?")
            mentions = [(name, False)]
            if leaves_out_arguments(self._program, place):
                mentions += [(own, self._is_asked_somewhere(name)) for own in self._own]
            place += 1
            if place < end and self._tokens[place].text == "<":
                place, given = self._read_arguments(name, place + 1, end, ">")
                mentions += given
        if place < end and self._tokens[place].text in ARROWS:
            place, result = self.read(place + 1, end)
            mentions = [(name, True) for name, _ in mentions] + result
        return place, mentions

    def _is_asked_somewhere(self, name: str) -> bool:
        return name in _INFINITE or any(inverted == name for inverted, _ in self._inverted)

    def _read_arguments(
        self, name: str, place: int, end: int, closer: str
    ) -> tuple[int, list[Mention]]:
        mentions: list[Mention] = []
        number = 0
        while place < end and self._tokens[place].text != closer:
            if self._tokens[place].text == ",":
                number += 1
                place += 1
            is_asked = name in _INFINITE or (name, number) in self._inverted
            place, given = self.read(place, end)
            mentions += [(inner, asked or is_asked) for inner, asked in given]
        return place + 1, mentions


def _find_circular(program: ParsedProgram) -> Iterator[Finding]:
    inverted: set[tuple[str, int]] = set()
    while True:
        reader = _TypeReader(program, inverted)
        mentions = [(part, reader.read_part(part)) for part in program.parts]
        found = {
            (part.owner, program.parameters[part.owner].index(name))
            for part, names in mentions
            for name, asked in names
            if asked and name in program.parameters.get(part.owner, ())
        }
        if found <= inverted:
            break
        inverted |= found
    graph = nx.DiGraph()
    for part, names in mentions:
        for name, _ in names:
            # What is known to be a trait may be any class that extends it.
            graph.add_edge(*((name, part.owner) if part.inherited else (part.owner, name)))
    # So may what is known to be an object.
    graph.add_edges_from(("object", name) for name in program.references)
    component = {
        name: number
        for number, names in enumerate(nx.strongly_connected_components(graph))
        for name in names
    }
    for part, names in mentions:
        for name, asked in names:
            # An argument of a class may be any type, and so one that contains the class.
            own = program.parameters.get(part.owner, ())
            is_open = part.owner in program.references and name in own
            is_circular = is_open or component[name] == component[part.owner]
            if asked and is_circular and not part.inherited:
                contains = "may contain" if is_open else "contains"
                message = (
                    f"the type {part.owner!r} {contains} itself through a function, an iset or an "
                    f"imap over {name!r}, from which Dafny proves anything"
                )
                yield program.tokens[part.start].refuse("cheat", "circular-type", message)
                break


class _StoredFunctions:
    def __init__(self, program: ParsedProgram) -> None:
        self._program = program
        self._tokens = program.tokens
        # The variables and parameters that may hold a function that reads.
        self._holders: set[str] = set()
        self._taking: set[tuple[str, int]] = set()

    @cached_property
    def _named(self) -> frozenset[int]:
        """Where the names of declared functions and methods stand."""
        elements = list_elements(self._program.root)
        return frozenset(element.named for element in elements if element.word in DECLARES)

    @cached_property
    def _plain(self) -> frozenset[int]:
        """Where a name is that of a parameter which reads nothing, whatever it is elsewhere."""
        bindings = (binding.place for binding in self._program.bindings)
        bound = sorted([*self._program.typed, *bindings])
        return frozenset(
            place
            for element in list_elements(self._program.root)
            if element.slots
            for place in self._list_plain(element, bound)
        )

    def _list_plain(self, element: Element, bound: Sequence[int]) -> Iterator[int]:
        inside = bound[bisect_left(bound, element.start) : bisect_left(bound, element.end)]
        num_bound = Counter(map(self._text, inside))
        plain = {
            self._text(place)
            for place in inside
            if place < element.slots[0].start
            and place in self._program.typed
            and num_bound[self._text(place)] == 1
            and "~>" not in map(self._text, range(*self._program.typed[place]))
        }
        for place in range(element.start, element.end) if plain else ():
            if self._text(place) in plain and self._text(place - 1) != ".":
                yield place

    def find(self) -> Iterator[Finding]:
        arrows = [i for i, token in enumerate(self._tokens) if token.text == "~>"]
        for place in arrows:
            if (holder := self._find_holder(place)) is None:
                yield self._refuse(place, "the type of a function that reads the heap")
            else:
                self._holders.add(self._text(holder))
        for place, _, _ in self._program.reading_lambdas:
            if name := self._find_assigned(place):
                self._holders.add(name)
        formals = {
            (name, number, self._text(place) in self._holders and self._is_reading(place))
            for name, number, place in self._program.formals
        }
        refused = {(name, number) for name, number, takes in formals if not takes}
        self._taking = {("new", 0)} | {
            (name, number)
            for name, number, takes in formals
            if takes and (name, number) not in refused and self._is_only_called(name)
        }
        for place, _, _ in self._program.reading_lambdas:
            if not self._find_assigned(place) and not self._is_passed(place):
                yield self._refuse(place, "a lambda that reads the heap")
        program = self._program
        functions = program.reading_functions | program.two_state
        if arrows or program.reading_lambdas or functions:
            names = self._holders | functions
            for place, token in enumerate(self._tokens):
                if token.kind == "word" and token.text in names and not self._is_harmless(place):
                    what = f"the function {token.text!r}, which may read the heap,"
                    yield self._refuse(place, what)
        for place in sorted(self._program.in_lambdas):
            if self._text(place) in self._program.two_state:
                message = "a two-state function in a lambda is believed of every heap; leave it out"
                yield self._tokens[place].refuse("cheat", "unread-heap", message)

    def _find_holder(self, place: int) -> int | None:
        """The name whose type the arrow at ``place`` makes a function that reads, and no more."""
        if any(part.start <= place < part.end for part in self._program.parts):
            return None
        for name, (start, end) in self._program.typed.items():
            if start <= place < end and self._is_reading(name):
                return name
        return None

    def _is_reading(self, name: int) -> bool:
        """True if the variable at ``name`` is declared as a function that reads, and no more."""
        start, end = self._program.typed[name]
        while self._text(start) == "(" and find_close(self._tokens, start) == end - 1:
            start, end = start + 1, end - 1
        texts = [self._text(place) for place in range(start, end)]
        if [text for text in texts if text in ARROWS] != ["~>"]:
            return False
        before = texts[: texts.index("~>")]
        opened = sum(map(before.count, ("(", "<"))) - sum(map(before.count, (")", ">")))
        return opened == 0

    def _find_assigned(self, place: int) -> str:
        """The variable that a lambda at ``place`` is assigned to alone; "" when there is none."""
        if place not in self._program.assigned or self._text(place - 1) != ":=":
            return ""
        typed = self._program.typed.items()
        name = next((n for n, (_, end) in typed if end == place - 1), place - 2)
        is_alone = self._text(name - 1) in _STATEMENT_ENDS
        return self._text(name) if is_alone and self._tokens[name].kind == "word" else ""

    def _is_only_called(self, name: str) -> bool:
        """True if nothing else has the name of a function or method."""
        if name in self._program.constructors:
            return False
        return all(
            self._text(place + 1) == "(" or place in self._named
            for place, token in enumerate(self._tokens)
            if token.text == name
        )

    def _is_passed(self, place: int) -> bool:
        return self._program.arguments.get(place) in self._taking

    def _is_harmless(self, place: int) -> bool:
        """True if a name is called, described, passed on, declared or assigned to."""
        before, after = self._text(place - 1), self._text(place + 1)
        if after in ("(", "#", ":") or before in DECLARES or before == "var":
            return True
        if place in self._named or place in self._plain:
            return True
        if after == ".":
            described = self._text(place + 2) in ("reads", "requires")
            return described and self._text(place + 3) == "("
        if after == ":=":
            return before in _STATEMENT_ENDS
        return self._is_passed(place) and after in (",", ")")

    def _refuse(self, place: int, what: str) -> Finding:
        message = (
            f"{what} may only be held by a parameter or a local variable of its own and be called, "
            "because Dafny proves anything of one that lies in the heap"
        )
        return self._tokens[place].refuse("cheat", "stored-function", message)

    def _text(self, place: int) -> str:
        return self._tokens[place].sign if 0 <= place < len(self._tokens) else ""
