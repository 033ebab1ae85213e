"""Finds quantifiers of functions that range over references which Dafny 2.3 does not see.

Flows in: what was read of a program. Flows out: findings. What a function says must not depend on
what is allocated. Dafny 2.3 asks this of ``forall o: object``, but not of a type that holds
references behind a synonym (its issue 1419), a datatype or a tuple (1959). Here a variable of a
quantifier or comprehension of a function may have such a type only where it is in a collection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from proverrl.lang.dafny.misjudged import Surroundings, list_elements
from proverrl.lang.dafny.syntax.cursor import is_name
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.tokens import Token, find_close
from proverrl.lang.records import Finding

_ARRAY = re.compile(r"array[0-9]*\??")
_BINDERS = ("forall", "exists", "set", "iset", "map", "imap")
_ORDERED = ("<=", ">=")
_BREAKS = ("||", "==>", "<==", "<==>")


def find_hidden_references(program: ParsedProgram, around: Surroundings) -> Iterator[Finding]:
    """Bound variables of functions whose values may be allocated later."""
    types = _read_types(program)
    references = program.references | {"object"}
    hidden = {name for name in types if _reaches(name, types, references)}
    for _, function in around.functions:
        for place in range(function.start, function.end):
            if program.tokens[place].sign in _BINDERS and is_name(program.tokens[place + 1]):
                yield from _check(program, place, hidden, references, set(types))


def _read_types(program: ParsedProgram) -> dict[str, set[str]]:
    """The words behind each datatype, synonym and subset type."""
    return {
        element.name: {t.text for t in program.tokens[element.start + 1 : element.end]}
        for element in list_elements(program.root)
        if element.word in ("datatype", "codatatype", "type")
    }


def _reaches(name: str, types: dict[str, set[str]], references: set[str]) -> bool:
    seen, due = {name}, [name]
    while due:
        words = types.get(due.pop(), set())
        if any(_is_reference(word, references) for word in words):
            return True
        due += [word for word in words - seen if word in types]
        seen |= words
    return False


def _is_reference(word: str, references: set[str]) -> bool:
    return word.removesuffix("?") in references or bool(_ARRAY.fullmatch(word))


def _check(
    program: ParsedProgram, place: int, hidden: set[str], references: set[str], types: set[str]
) -> Iterator[Finding]:
    tokens = program.tokens
    end = _find_domain_end(tokens, place + 1)
    spans = dict(program.declared_types)
    start = place + 1
    while start < end and is_name(tokens[start]):
        name, after = tokens[start], start + 1
        if tokens[after].text == ":":
            after = spans.get(after + 1, end)
            words = {token.text for token in tokens[start + 2 : after]}
            # A tuple, or an argument, may hold what Dafny would see alone.
            shown = any(_is_reference(word, references) for word in words)
            is_hidden = bool(words & hidden) or (shown and bool(words & (types | {"("})))
        else:
            is_hidden = bool(hidden) and not _is_ordered(tokens, end, name.text)
        if is_hidden and not _is_bounded(tokens, place, end, name.text):
            message = (
                f"what {name.text!r} stands for may depend on what is allocated, which Dafny does "
                "not see here; give it a type without references, or take it from a collection"
            )
            yield name.refuse("cheat", "hidden-references", message)
        start = after + 1


def _find_domain_end(tokens: Sequence[Token], place: int) -> int:
    """Where ``|`` or ``::`` ends the names of a domain."""
    while tokens[place].sign not in ("|", "::", "") and place < len(tokens) - 1:
        place = find_close(tokens, place) + 1 if tokens[place].sign in ("(", "{") else place + 1
    return place


def _is_ordered(tokens: Sequence[Token], place: int, name: str) -> bool:
    """Whether a variable without a type is compared as no datatype is, or is a number."""
    depth, last = 0, len(tokens) - 1
    while place < last and depth >= 0:
        text = tokens[place].sign
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if tokens[place].text == name:
            around = (tokens[place - 1].sign, tokens[place + 1].sign)
            if around[0] in _ORDERED or around[1] in _ORDERED or around == ("[", "]"):
                return True
            if "number" in (tokens[place - 2].kind, tokens[min(place + 2, last)].kind):
                return True
        place += 1
    return False


def _is_bounded(tokens: Sequence[Token], place: int, end: int, name: str) -> bool:
    """Whether ``name in`` is one of the conditions of a domain."""
    place_of_body = end + 1
    is_ranged = tokens[end].text == "|"
    depth, conditions, bounded, ended_by = 0, True, False, ""
    for at in range(place_of_body, len(tokens)):
        text = tokens[at].sign
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if depth < 0 or (depth == 0 and text in (";", "::", ",", "then", "else", "}")):
            break
        if depth == 0 and text in _BREAKS:
            ended_by = ended_by or text
            conditions = False
        starts = tokens[at - 1].sign in ("::", "|", "&&")
        if depth == 0 and conditions and starts and tokens[at].text == name:
            bounded = bounded or tokens[at + 1].text == "in"
    if is_ranged or tokens[place].text != "forall":
        return bounded and not ended_by
    return bounded and ended_by == "==>"
