"""Finds quantifiers of functions that range over references which Dafny 2.3 does not see.

Flows in: what was read of a program. Flows out: findings. What a function says must not depend on
what is allocated. Dafny 2.3 asks this of ``forall o: object``, but not of a type that holds
references behind a synonym (its issue 1419), a datatype or a tuple (1959). Here a variable of a
quantifier of a function may have such a type only where it is in a collection.
Not handled here: comprehensions (``unallocated``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from itertools import pairwise, takewhile

from proverrl.lang.dafny.known_bugs.misjudged import Surroundings, list_elements
from proverrl.lang.dafny.syntax.cursor import is_name
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.tokens import CLOSERS, OPENERS, Token, find_close, find_outer
from proverrl.lang.records import Finding

Words = Sequence[str]

_ARRAY = re.compile(r"array[0-9]*\??")
_BINDERS = ("forall", "exists")
_NUMERIC = re.compile(r"int|nat|real|ORDINAL|bv[0-9]+")
_MEMBER = (".", "(", "[")
_SIGNS = frozenset("== != < > <= >= + - * / %".split())
_DOMAIN_ENDS = ("|", "::", "ensures", ")", "}", ";")
_OPERAND_ENDS = (")", "]", "}", ">", "?")
_OPERAND_FOLLOWS = frozenset("in !in if then else iset multiset".split())
_ENDS = (";", "::", ",", "then", "else", "=>", "ensures")
_OPERATORS = frozenset("in !in == != <= >= < > + - * !! && || ==> ( [ , iset multiset".split())
_CONJUNCT_ENDS = ("&&", *_ENDS)
# What these begin takes in all that follows.
_ENDLESS = frozenset("if match var forall exists assert calc reveal".split())
_COMPREHENSIONS = ("set", "iset", "map", "imap")
_RELATIONS = frozenset("== != < > <= >= in !in !! ! <==> ==> <== ||".split())
_BREAKS = ("||", "==>", "<==", "<==>")


def find_hidden_references(program: ParsedProgram, around: Surroundings) -> Iterator[Finding]:
    """Bound variables of functions whose values may be allocated later."""
    types = read_types(program)
    hidden = {name for name in types if reaches(name, types, program.references | {"object"})}
    for owner, function in around.functions:
        for place in range(function.start, function.end) if owner is program else ():
            if program.tokens[place].sign in _BINDERS and is_name(program.tokens[place + 1]):
                yield from _check(program, around, place, hidden, set(types))


def read_types(program: ParsedProgram) -> dict[str, set[str]]:
    """The words behind each datatype, synonym and subset type."""
    return {
        element.name: {t.text for t in program.tokens[element.start + 1 : element.end]}
        for element in list_elements(program.root)
        if element.word in ("datatype", "codatatype", "type", "newtype")
    }


def reaches(name: str, types: dict[str, set[str]], references: set[str]) -> bool:
    """True if a declared type may hold a reference."""
    return name in types and any(
        is_reference(word, references) for word in find_reached(name, types) - {name}
    )


def find_reached(name: str, types: dict[str, set[str]]) -> set[str]:
    """A type, and all words behind it and behind those that are types."""
    seen, due = {name}, [name]
    while due:
        words = types.get(due.pop(), set())
        due += [word for word in words - seen if word in types]
        seen |= words
    return seen


def is_reference(word: str, references: set[str]) -> bool:
    """True if a word names a type of references."""
    return word.removesuffix("?") in references or bool(_ARRAY.fullmatch(word))


def _check(
    program: ParsedProgram, around: Surroundings, place: int, hidden: set[str], types: set[str]
) -> Iterator[Finding]:
    tokens, references = program.tokens, program.references | {"object"}
    end = find_domain_end(tokens, place + 1)
    scope = range(end, find_outer(tokens, end, (";",)))
    for at, words in list_bound(program, place + 1, end):
        name = tokens[at]
        if words:
            # A tuple, or an argument, may hold what Dafny would see alone.
            shown = any(is_reference(word, references) for word in words)
            is_hidden = not hidden.isdisjoint(words) or (
                shown and not (types | {"("}).isdisjoint(words)
            )
        else:
            is_hidden = bool(hidden) and not is_number(program, around, scope, name.text)
        if is_hidden and not is_bounded(tokens, place, end, name.text, {name.text}):
            message = (
                f"what {name.text!r} stands for may depend on what is allocated, which Dafny does "
                "not see here; give it a type without references, or take it from a collection"
            )
            yield name.refuse("cheat", "hidden-references", message)


def list_bound(program: ParsedProgram, start: int, end: int) -> Iterator[tuple[int, Words]]:
    """Each name between these places, and the words of its type where it is written."""
    spans = dict(program.declared_types)
    place = start
    while place < end and program.tokens[place].sign != "{":
        if program.tokens[place + 1].sign == "<" and program.tokens[place + 2].sign == "-":
            # It is taken from a collection.
            place = find_outer(program.tokens, place + 3, (",",))
        elif is_name(program.tokens[place]):
            last = (
                spans.get(place + 2, place + 2) if program.tokens[place + 1].sign == ":" else place
            )
            yield place, [token.text for token in program.tokens[place + 2 : last]]
            place = max(place, last - 1)
        place += 1


def find_domain_end(tokens: Sequence[Token], place: int) -> int:
    """The place where ``|``, ``::``, or what follows in a forall statement, ends the names of a
    domain."""
    while place < len(tokens) - 1:
        sign, before = tokens[place].sign, tokens[place - 1]
        # In a collection behind '<-' there are displays and sizes.
        begins = before.sign in _OPERAND_FOLLOWS or (
            before.kind == "operator" and before.sign not in _OPERAND_ENDS
        )
        is_attribute = sign == "{" and tokens[place + 1].sign == ":"
        if sign in ("(", "[") or is_attribute or (sign == "{" and begins):
            place = find_close(tokens, place) + 1
        elif sign == "|" and begins:
            place = find_outer(tokens, place + 1, ("|",)) + 1
        elif sign == "{" or sign in _DOMAIN_ENDS:
            break
        else:
            place += 1
    return place


def is_number(program: ParsedProgram, around: Surroundings, scope: range, name: str) -> bool:
    """True if a variable is compared or counted as no reference is, before another gets its
    name."""
    tokens = program.tokens
    bound = {b.place for b in program.bindings} | program.typed.keys()
    places = [place for place in scope if tokens[place].text == name]
    return any(_is_compared(tokens, around, p) for p in takewhile(lambda p: p not in bound, places))


def _is_compared(tokens: Sequence[Token], around: Surroundings, place: int) -> bool:
    """True if a sign stands between a variable and what is evidently a number. Sequences and sets
    have ``<=`` and ``+`` too."""
    before, after = tokens[place - 1].sign, tokens[place + 1].sign
    right, left = place + 2, place - 2
    while before != "." and after in _SIGNS and tokens[right + 1].sign == ".":
        right += 2
    is_left = before in _SIGNS and after not in _MEMBER
    is_right = before != "." and after in _SIGNS and tokens[right + 1].sign not in _MEMBER
    return (is_left and _is_numeric(tokens[left], around)) or (
        is_right and _is_numeric(tokens[right], around)
    )


def _is_numeric(operand: Token, around: Surroundings) -> bool:
    types = [] if operand.text in around.untyped else around.types.get(operand.text, [])
    is_plain = bool(types) and all(len(t) == 1 and _NUMERIC.fullmatch(t[0]) for t in types)
    return operand.kind == "number" or operand.text == "|" or is_plain


def is_bounded(
    tokens: Sequence[Token], place: int, end: int, name: str, unbounded: Set[str]
) -> bool:
    """True if ``name in c``, or ``<=``, is one of the conditions of a domain, with none of
    ``unbounded`` in c."""
    is_ranged = tokens[end].text in ("|", ":|")
    depth, bounded, ended_by = 0, False, ""
    for at in range(end + 1, len(tokens)):
        text = tokens[at].sign
        depth += (text in OPENERS) - (text in CLOSERS)
        # Braces behind an operand are no display.
        is_block = text == "{" and depth == 1 and tokens[at - 1].sign not in _OPERATORS
        ends = text in _ENDS or _is_endless(tokens[at - 1], tokens[at])
        if depth < 0 or is_block or (depth == 0 and ends):
            break
        if depth == 0 and text in _BREAKS:
            ended_by = ended_by or text
        starts = tokens[at - 1].sign in ("::", "|", ":|", "&&")
        if depth == 0 and not ended_by and starts and tokens[at].text == name:
            bounded = bounded or (
                tokens[at + 1].text in ("in", "<=") and _is_apart(tokens, at + 2, unbounded)
            )
    if is_ranged or tokens[place].text != "forall":
        return bounded and not ended_by
    return bounded and ended_by == "==>"


def _is_endless(before: Token, token: Token) -> bool:
    return token.sign in _ENDLESS or (before.sign in _COMPREHENSIONS and is_name(token))


def _is_apart(tokens: Sequence[Token], place: int, names: Set[str]) -> bool:
    """True if the operand that begins at a place is a whole conjunct without these names."""
    depth = 0
    for before, token in pairwise(tokens[place - 1 :]):
        if depth == 0 and token.sign == "{" and before.sign not in _OPERATORS:
            return True
        depth += (token.sign in OPENERS) - (token.sign in CLOSERS)
        if depth < 0 or (depth == 0 and token.sign in _CONJUNCT_ENDS):
            return True
        if token.text in names or (
            depth == 0 and (token.sign in _RELATIONS or _is_endless(before, token))
        ):
            return False
    return True
