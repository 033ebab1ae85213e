"""Finds text of which Dafny 2.3 forgets to check a part, by bugs that its issue tracker lists.

Flows in: what was read of a program or of a body, and what is known of the program around it.
Flows out: findings. Each rule refuses the smallest form of text that needs the bug. A name stands
for all that has this name in the program, so that too much is refused rather than too little.
Not handled here: bugs that let types or stored functions prove anything (``believed``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from proverrl.lang.dafny.syntax.cursor import is_name, list_declared
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram, TypePart
from proverrl.lang.dafny.syntax.tokens import Token, find_close, find_outer
from proverrl.lang.records import Finding

_MAPS = ("map", "imap")
_FUNCTIONS = ("function", "predicate", "copredicate")
_EVALUATED = (*_FUNCTIONS, "method", "lemma", "colemma", "const")
_CALLABLES = (*_FUNCTIONS, "method", "lemma", "constructor", "colemma", "comethod")
_STAGED = frozenset("inductive copredicate least greatest".split())
_PROOF_STEPS = frozenset("assert calc reveal".split())
_PLAIN_TYPES = frozenset("int bool real char string ORDINAL seq set iset multiset map imap".split())


@dataclass(frozen=True)
class Surroundings:
    """A program, or the program around a body and the body; what is declared at ``hidden`` places
    is not seen."""

    programs: tuple[ParsedProgram, ...]
    hidden: tuple[range, ...] = ()

    def seen_from(self, place: int) -> Surroundings:
        """A whole program as it is seen at a place: without what other functions and methods
        declare inside themselves."""
        others = [span for span in self._callables if place not in span]
        is_inside = len(others) < len(self._callables)
        return Surroundings(self.programs, tuple(others)) if is_inside else self

    @cached_property
    def _callables(self) -> list[range]:
        """The places of the functions and methods of a whole program; the parameters of an iterator
        are its fields."""
        if len(self.programs) > 1:
            return []
        elements = list_elements(self.programs[0].root)
        return [range(e.start, e.end) for e in elements if e.word in _CALLABLES]

    def sees(self, place: int) -> bool:
        """True if what is declared at this place is seen."""
        return not any(place in span for span in self.hidden)

    def has_word(self, *words: str) -> bool:
        """True if one of these words stands anywhere."""
        return any(token.text in words for p in self.programs for token in p.tokens)

    @cached_property
    def types(self) -> dict[str, list[list[str]]]:
        """The names that are declared with a type, and the words of all types of each."""
        found: dict[str, list[list[str]]] = {}
        for program in self.programs:
            tokens = program.tokens
            for start, end in program.declared_types:
                if is_name(tokens[start - 2]) and self.sees(start):
                    words = [token.text for token in tokens[start:end]]
                    found.setdefault(tokens[start - 2].text, []).append(words)
        return found

    @cached_property
    def results(self) -> dict[str, list[list[str]]]:
        """The words of the result types of each function."""
        found: dict[str, list[list[str]]] = {}
        for program in self.programs:
            for element in list_elements(program.root):
                if _is_function(element):
                    head = range(element.start, element.slots[0].start)
                    spans = [s for s in program.declared_types if s[0] in head]
                    last = [s for s in spans if program.tokens[s[0] - 2].text in (")", "]")]
                    words = [t.text for t in program.tokens[slice(*last[-1])]] if last else ["bool"]
                    found.setdefault(element.name, []).append(words)
        return found

    @cached_property
    def untyped(self) -> frozenset[str]:
        """The names that are declared without a type somewhere."""
        return frozenset(
            p.tokens[b.place].text
            for p in self.programs
            for b in p.bindings
            if b.kind != "value" and self.sees(b.place)
        )

    @cached_property
    def functions(self) -> list[tuple[ParsedProgram, Element]]:
        """All declared functions."""
        return [(p, e) for p in self.programs for e in list_elements(p.root) if _is_function(e)]

    @cached_property
    def partial(self) -> frozenset[str]:
        """As ``find_partial``, where any declared type may leave values out."""
        return self.find_partial(frozenset())

    @cached_property
    def datatypes(self) -> frozenset[str]:
        """The names of all datatypes."""
        declared = (e for p in self.programs for e in list_elements(p.root))
        return frozenset(e.name for e in declared if e.word in ("datatype", "codatatype"))

    def find_partial(self, whole: frozenset[str]) -> frozenset[str]:
        """Functions that may not be called with every value: they have a ``requires``, or a
        parameter whose type is not one of ``whole`` and may leave values out."""
        found = {e.name for p, e in self.functions if "requires" in _read_clauses(p, e)}
        for program in self.programs:
            for name, _, place in program.formals:
                words = {token.text for token in program.tokens[slice(*program.typed[place])]}
                if not {word for word in words if word[0].isalpha()} <= _PLAIN_TYPES | whole:
                    found.add(name)
        return frozenset(found)


def _is_function(element: Element) -> bool:
    return element.word in _FUNCTIONS and bool(element.slots)


def _read_clauses(program: ParsedProgram, function: Element) -> set[str]:
    """The words of the clauses of a function."""
    clauses = function.slots[0].elements if function.slots[0].kind == "member-clauses" else []
    return {program.tokens[clause.start].text for clause in clauses}


def list_elements(element: Element) -> Iterator[Element]:
    """All that is inside an element, from outside to inside."""
    for slot in element.slots:
        for inner in slot.elements:
            yield inner
            yield from list_elements(inner)


def find_misjudged(program: ParsedProgram, around: Surroundings) -> Iterator[Finding]:
    """Texts from which Dafny 2.3 would prove anything, in a program or a body."""
    yield from _find_two_parents(program)
    yield from _find_staged_ordinals(program, around)
    elements = list(list_elements(program.root))
    yield from _find_choices(program, elements, around)
    yield from _find_witnesses(program, elements)
    for element in elements:
        if element.word == "constructor":
            yield from _find_after_fresh(program, element, around)


def _find_two_parents(program: ParsedProgram) -> Iterator[Finding]:
    """Second parents of a type. Dafny 2.3 takes any for the first; 4.11 takes one generic trait for
    the same where it is reached as ``A<int>`` and as ``A<nat>``."""
    inherited = [part for part in program.parts if part.inherited]
    if all(program.tokens[part.start - 1].text != "," for part in inherited):
        return
    above = nx.DiGraph()
    for part in (p for p in program.parts if p.inherited or p.owner not in program.references):
        words = (token.text for token in program.tokens[part.start : part.end])
        above.add_edges_from((part.owner, word) for word in words)

    def reach(part: TypePart) -> set[str]:
        words = {token.text for token in program.tokens[part.start : part.end]}
        return words.union(*(nx.descendants(above, word) for word in words if word in above))

    for number, part in enumerate(inherited):
        if program.tokens[part.start - 1].text == ",":
            before = [reach(other) for other in inherited[:number] if other.owner == part.owner]
            shared = reach(part).intersection(set().union(*before), program.parameters)
            message = "Dafny takes two parent traits for one, from which it proves anything"
            place = program.tokens[part.start]
            yield place.refuse("cheat", "two-parents", message, older=not shared)


def find_callee(tokens: Sequence[Token], place: int) -> str:
    """The name before the bracket that is closed at ``place``."""
    opened = find_outer(tokens, place - 1, step=-1)
    return tokens[opened - 1].text if opened > 0 else ""


def find_selections(
    program: ParsedProgram, start: int, end: int, around: Surroundings
) -> Iterator[int]:
    """Selections from, and changes of, what may be a value of a map or a multiset."""
    tokens = program.tokens
    for place in range(start + 1, end):
        before = tokens[place - 1]
        opens = tokens[place].text == "[" and tokens[place].kind == "operator"
        if not opens or not (is_name(before) or before.text in (")", "]", "}", ">")):
            continue
        inside = [token.text for token in tokens[place : find_close(tokens, place)]]
        found: Sequence[list[str]] = ()
        callee = find_callee(tokens, place - 1) if before.text == ")" else ""
        if callee and callee not in around.types and callee not in around.untyped:
            found = around.results.get(callee, ())
        elif before.text not in around.untyped and tokens[place - 2].text != ".":
            found = around.types.get(before.text, ())
        is_sequence = found and all(kind[0] in ("seq", "string", "array") for kind in found)
        if is_sequence or ".." in inside:
            continue
        yield place


def _find_staged_ordinals(program: ParsedProgram, around: Surroundings) -> Iterator[Finding]:
    """Ordinals that a copredicate or an inductive predicate may range over (6522, 6523)."""
    staged = [
        (p, e.start, e.end)
        for p, e in around.functions
        if not _STAGED.isdisjoint(t.text for t in p.tokens[e.start : e.slots[0].start])
    ]
    ordinals = [i for i, token in enumerate(program.tokens) if token.text == "ORDINAL"]
    if not ordinals or not staged:
        return
    staged += [(p, part.start, part.end) for p in around.programs for part in p.parts]
    ranges = [(p, set(range(start, end))) for p, start, end in staged]
    is_generic = any(
        not ours.isdisjoint(range(*span)) for p, ours in ranges for span in list_generic(p)
    )
    inside = {i for p, places in ranges if p is program for i in places}
    tokens = program.tokens
    for place in ordinals:
        is_alone = tokens[place - 1].text in (":", "[", "as") and tokens[place + 1].text != "->"
        if is_generic or place in inside or not is_alone:
            message = "Dafny forgets that the stages of a predicate may be reached by an ORDINAL"
            yield tokens[place].refuse("cheat", "staged-ordinal", message)


def list_generic(program: ParsedProgram) -> list[tuple[int, int]]:
    """Start and end of the declarations that have type parameters."""
    found = []
    for element in list_elements(program.root):
        if element.name and element.word != "var":
            place = element.start
            while program.tokens[place].text != element.name:
                place += 1
            if program.tokens[place + 1].text == "<" or (
                program.tokens[place + 1].text == "(" and element.word == "type"
            ):
                found.append((element.start, element.end))
    return found


def _find_choices(
    program: ParsedProgram, elements: list[Element], around: Surroundings
) -> Iterator[Finding]:
    """Choices that may depend on a type argument, which Dafny forgets (1256)."""
    tokens = program.tokens
    generic = {i for span in list_generic(program) for i in range(*span)}
    if tokens[0].text in ("requires", "ensures") and any(map(list_generic, around.programs)):
        # A contract on its own, of what may be generic.
        generic = set(range(len(tokens)))
    proofs = {
        i
        for element in elements
        for slot in element.slots
        if slot.kind == "statements"
        for i in range(slot.start, slot.end)
    }
    constants = {name for p in around.programs for name in list_declared(p.tokens, "const")}
    for place in sorted(generic - proofs):
        if tokens[place].text == ":|" and not _is_member_choice(tokens, place, constants):
            message = (
                "Dafny takes a choice in a generic declaration for one that does not depend on "
                "the type; choose from a set ('var x :| x in s;') or leave it out"
            )
            yield tokens[place].refuse("cheat", "generic-choice", message)


def _is_member_choice(tokens: list[Token], place: int, constants: set[str]) -> bool:
    """True if the choice is of any element of a variable, whose value says it all."""
    var, name, _, again, word, source, end = [t.text for t in tokens[place - 2 : place + 5]]
    is_whole = (var, word, end) == ("var", "in", ";") and name == again
    return is_whole and is_name(tokens[place + 3]) and source not in {name, *constants}


def _find_witnesses(program: ParsedProgram, elements: list[Element]) -> Iterator[Finding]:
    """Proof steps and calls in a witness, which may need that the type has values (1290)."""
    tokens = program.tokens
    called = list_declared(tokens, *_EVALUATED) - program.constructors
    for element in elements:
        inside = range(element.start, element.end)
        words = [i for i in inside if tokens[i].kind == "word" and tokens[i].text == "witness"]
        if element.word not in ("type", "newtype") or not words:
            continue
        for place in range(words[0], element.end):
            if tokens[place].text in called | _PROOF_STEPS:
                message = "Dafny does not see that a witness may need the type that it is to prove"
                yield tokens[place].refuse("cheat", "circular-witness", message, older=True)


def _find_after_fresh(
    program: ParsedProgram, constructor: Element, around: Surroundings
) -> Iterator[Finding]:
    """Terms after ``fresh`` in a constructor's ``ensures`` that must be checked and are not
    (4700)."""
    tokens = program.tokens
    clauses = [
        e for slot in constructor.slots if slot.kind == "member-clauses" for e in slot.elements
    ]
    promised = [
        i for e in clauses if tokens[e.start].text == "ensures" for i in range(e.start, e.end)
    ]
    after = [i for i in promised if any(tokens[j].text == "fresh" for j in promised if j < i)]
    members = {e.name for _, e in around.functions}
    has_maps = around.has_word(*_MAPS)
    selections = (
        set(find_selections(program, after[0], after[-1] + 1, around))
        if after and has_maps
        else set()
    )
    for place in after:
        name = tokens[place].text
        is_member = (
            name in members and tokens[place - 1].text == "." and tokens[place - 2].text != "this"
        )
        is_call = tokens[place + 1].text in ("(", "<") and (name in around.partial or is_member)
        if is_call or place in selections:
            message = (
                "Dafny checks nothing after 'fresh' in what a constructor ensures; state it before"
            )
            yield tokens[place].refuse("cheat", "after-fresh", message)
