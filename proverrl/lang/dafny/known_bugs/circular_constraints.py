"""Finds types whose values depend on the type itself, unseen by Dafny.

Flows in: a program. Flows out: findings. ``type Y = x: int | !In(x)`` with an ``In(x)`` that says
that x is a ``Y`` is Russell's paradox. Both Dafnys refuse such a circle where they see it: along
the types that are written, and what is called. They follow neither the fields of a class nor its
``extends A<Y>``, although ``c.t`` may bring the type into what is inferred, nor the arguments of a
function (``Has<Y>``). Declarations of one name are taken for one (too much is refused).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import networkx as nx

from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.records import Finding

_CONTAINERS = ("class", "trait", "iterator")


def find_circular_constraints(program: ParsedProgram) -> Iterator[Finding]:
    """Types with a condition on a circle of declarations that a class is part of, or that one of
    them gives to a function."""
    elements = [e for e in list_elements(program.root) if e.name and e.named >= 0]
    types = [
        element
        for element in elements
        if element.word in ("type", "newtype") and "|" in _list_words(program, element)
    ]
    if not types:
        return
    graph = nx.DiGraph()
    names = {element.name for element in elements}
    declared = names | {program.tokens[place].text for place in program.constructor_places}
    given = defaultdict[str, set[str]](set)
    spans = _list_given(program)
    for element in elements:
        is_container = element.word in _CONTAINERS
        words = _list_words(program, element, is_head=is_container)
        for inner in list_elements(element) if is_container else ():
            if inner.word == "var":
                words |= _list_words(program, inner)
            # What is said of a member may be said of ``this``.
            graph.add_edge(inner.name, element.name)
        graph.add_edges_from((element.name, word) for word in words & declared)
        if element.word in ("datatype", "codatatype"):
            made = program.constructor_places.intersection(range(element.start, element.end))
            graph.add_edges_from((program.tokens[place].text, element.name) for place in made)
        inside = (span for span in spans if element.start < span[0] < element.end)
        given[element.name].update(*(_list_texts(program, *span) for span in inside))
    for part in program.parts:
        if part.inherited:
            # What is known to be a trait may be what extends it.
            above = _list_texts(program, part.start, part.end)
            graph.add_edges_from((word, part.owner) for word in above & names)
    for group in nx.strongly_connected_components(graph):
        is_circle = len(group) > 1 or graph.has_edge(*group, *group)
        is_unseen = not program.references.isdisjoint(group) or any(given[n] & group for n in group)
        if not (is_circle and is_unseen):
            continue
        for element in types:
            if element.name in group:
                message = (
                    f"what is of the type {element.name!r} depends on the type itself, through a "
                    "class or the type arguments of a function, from which Dafny proves anything"
                )
                yield program.tokens[element.start].refuse("cheat", "circular-type", message)


def _list_given(program: ParsedProgram) -> list[tuple[int, int]]:
    """Start and end of type arguments that are not part of the type of anything."""
    typed = {place for span in program.declared_types for place in range(*span)}
    return [span for span in program.type_arguments if span[0] not in typed]


def _list_texts(program: ParsedProgram, start: int, end: int) -> set[str]:
    """The words and signs there, and what may be nullable without its ``?``."""
    texts = {token.text for token in program.tokens[start:end]}
    return texts | {text.removesuffix("?") for text in texts}


def _list_words(program: ParsedProgram, element: Element, *, is_head: bool = False) -> set[str]:
    """The words and signs of an element, or of what stands before what it declares, but for its
    name."""
    end = element.slots[-1].start if is_head and element.slots else element.end
    before = _list_texts(program, element.start, element.named)
    return before | _list_texts(program, element.named + 1, end)
