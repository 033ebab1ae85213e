"""Finds declared types for which Dafny 2.3 proves anything.

Flows in: a program. Flows out: findings.
A value of ``datatype D = D(s: iset<D>)`` would be a set of all its kind (Cantor), and a class with
``const f: C -> int`` lets a function call itself without that Dafny sees a recursion (Landin's
knot). Dafny 2.3 asks for strict positivity only of datatypes, and only of arrows. Here no type may
contain itself through the domain of an arrow, an ``iset`` or an ``imap``: not directly, nor through
other types, synonyms, type arguments, or a trait or ``object`` whose values may be of that type.
What can be assigned again (``var`` fields) is not looked at here: functions over it must say that
they read it (``stored_functions``).
Types of one name in several modules are taken for one (too much is refused).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import networkx as nx

from proverrl.lang.dafny.syntax.declared_types import TypePart, leaves_out_arguments
from proverrl.lang.dafny.syntax.program import ParsedProgram
from proverrl.lang.dafny.syntax.tokens import Finding, Token

_ARROWS = ("->", "-->", "~>")
_INFINITE = ("iset", "imap")

Mention = tuple[str, bool]
"""The name of a type, and whether it stands where its values are asked for."""


class _Reader:
    """Reads one type and lists the names in it."""

    def __init__(
        self,
        tokens: Sequence[Token],
        inverted: set[tuple[str, int]],
        parameters: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._tokens = tokens
        self._inverted = inverted
        self._parameters = parameters
        self._own: tuple[str, ...] = ()

    def read_part(self, part: TypePart) -> list[Mention]:
        """What a part of a declared type mentions; arguments left out are those of the owner."""
        self._own = self._parameters.get(part.owner, ())
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
            if leaves_out_arguments(self._tokens, place, self._parameters):
                mentions += [(own, self._is_asked_somewhere(name)) for own in self._own]
            place += 1
            if place < end and self._tokens[place].text == "<":
                place, given = self._read_arguments(name, place + 1, end, ">")
                mentions += given
        if place < end and self._tokens[place].text in _ARROWS:
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


def find_circular(tokens: Sequence[Token], program: ParsedProgram) -> Iterator[Finding]:
    """A finding for each type that contains itself where its values are asked for."""
    inverted: set[tuple[str, int]] = set()
    while True:
        reader = _Reader(tokens, inverted, program.parameters)
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
            is_open = part.owner in program.references and (
                name in program.parameters.get(part.owner, ())
            )
            if (
                asked
                and not part.inherited
                and (is_open or component[name] == component[part.owner])
            ):
                token = tokens[part.start]
                contains = "may contain" if is_open else "contains"
                message = (
                    f"the type {part.owner!r} {contains} itself through a function, an iset or an "
                    f"imap over {name!r}, from which Dafny proves anything"
                )
                yield Finding("cheat", "circular-type", message, token.line, token.column)
                break
