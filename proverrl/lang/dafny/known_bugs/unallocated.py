"""Finds variables that may stand for references which are not allocated, or which do not exist.

Flows in: what was read of a program or of a body, and of the program around it. Flows out:
findings. In comprehensions, forall statements and choices (``:|``, in a guard too, and ``*``) Dafny
2.3 forgets that a reference must be allocated (its issue 3605), and that a type may have no value
(851). There a variable may have such a type only where it is taken from a collection, or is at most
(``<=``) what there is; and ghost
variables, fields and results, which need be given no value, may not. One without a written type
must be compared like a number, or the program must have no references. In forall statements this
is asked only where a program speaks of what is allocated.
Not handled here: quantifiers, which Dafny reads rightly; functions (``hidden_references``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from proverrl.lang.dafny.known_bugs.hidden_references import (
    Words,
    find_domain_end,
    is_bounded,
    is_number,
    is_reference,
    list_bound,
    reaches,
    read_types,
)
from proverrl.lang.dafny.known_bugs.misjudged import Surroundings, list_elements
from proverrl.lang.dafny.syntax.cursor import COLLECTIONS, is_name
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.tokens import Token, find_outer
from proverrl.lang.records import Finding

_COMPREHENSIONS = ("set", "iset", "map", "imap")
_STARTS = frozenset("var ghost if case while else ; { } => :: := |".split())
_PLAIN = re.compile(r"int|nat|real|bool|char|string|ORDINAL|bv[0-9]+|i?set|i?map|multiset|seq")


def find_unallocated(program: ParsedProgram, around: Surroundings) -> Iterator[Finding]:
    """Variables whose values Dafny may take from nowhere."""
    kinds = _Kinds(program, around)
    for start, end, scope in _list_domains(program, around):
        bound = list(list_bound(program, start, end))
        doubtful = [place for place, words in bound if kinds.is_doubtful(place, words, scope)]
        unbounded = {program.tokens[place].text for place in doubtful}
        for place in doubtful:
            name = program.tokens[place]
            if is_bounded(program.tokens, start - 1, end, name.text, unbounded):
                unbounded.discard(name.text)
            else:
                yield _refuse(name)
    for start, end in _list_unset(program):
        words = [token.text for token in program.tokens[start:end]]
        is_empty = words[0] in COLLECTIONS or words[-1].endswith("?")
        if not is_empty and any(map(kinds.reaches, words)):
            yield _refuse(program.tokens[start - 2])


def _refuse(name: Token) -> Finding:
    message = (
        f"{name.text!r} may stand for a reference that is not allocated, or that does not exist, "
        "and Dafny believes in it; give it a value, take it from a collection with 'in', or write "
        "a type that holds no references"
    )
    return name.refuse("cheat", "unallocated", message)


def _list_unset(program: ParsedProgram) -> Iterator[tuple[int, int]]:
    """The types of ghost variables, fields and results that need be given no value."""
    tokens = program.tokens
    holders = (program.root, *list_elements(program.root))
    held = [(slot.ghost, e) for holder in holders for slot in holder.slots for e in slot.elements]
    for is_ghost, element in held:
        first, last = element.start, element.slots[0].start if element.slots else element.end
        words = [token.sign for token in tokens[first:last]]
        is_ghost = is_ghost or "ghost" in words[:3]
        if element.word not in ("var", "ghost"):
            is_ghost = element.word in ("lemma", "colemma")
            first += words.index("returns") if "returns" in words else last
        elif ":=" in words or ":|" in words:
            continue
        for start, end in program.declared_types:
            if first < start < last and (is_ghost or tokens[start - 3].sign == "ghost"):
                yield start, end


def _list_domains(program: ParsedProgram, around: Surroundings) -> Iterator[tuple[int, int, range]]:
    """Beginnings and ends of the names that stand for any value, and the places where these
    are in scope."""
    tokens = program.tokens
    for start in range(1, len(tokens)):
        if tokens[start - 1].sign in _COMPREHENSIONS and is_name(tokens[start]):
            end = find_domain_end(tokens, start)
            yield start, end, range(end, find_outer(tokens, end, (";",)))
    for place, last in program.foralls if around.has_word("allocated", "fresh") else ():
        start = place + 1 + (tokens[place + 1].sign == "(")
        end = find_domain_end(tokens, start)
        yield start, end, range(end, last)
    for end, token in enumerate(tokens[:-1]):
        if token.sign == ":|" or (token.sign == ":=" and tokens[end + 1].sign == "*"):
            start = end
            while start > 0 and tokens[start - 1].sign not in _STARTS:
                start -= 1
            yield start, end, range(end, find_outer(tokens, end, (";",)))


class _Kinds:
    """The known facts of the types around a program."""

    def __init__(self, program: ParsedProgram, around: Surroundings) -> None:
        self._program = program
        self._around = around
        self._types: dict[str, set[str]] = {}
        self._references = {"object"}
        for p in around.programs:
            self._types |= read_types(p)
            self._references |= p.references
        words = {token.text for p in around.programs for token in p.tokens}
        self._has_references = any(is_reference(word, self._references) for word in words) or any(
            "=" not in inside for inside in self._types.values()
        )

    def is_doubtful(self, place: int, words: Words, scope: range) -> bool:
        """True if a variable, with its type where that is written, may be a reference."""
        name = self._program.tokens[place].text
        if words:
            return not self._is_plain(words)
        if not self._has_references or is_number(self._program, self._around, scope, name):
            return False
        known = self._around.types.get(name, [])
        if self._program.tokens[scope.start + 1].sign == "*":
            return any(self.reaches(word) for kind in known for word in kind)
        if name in self._around.untyped:
            return True
        return not known or not all(map(self._is_plain, known))

    def _is_plain(self, words: Words) -> bool:
        """True if no value of a type can hold a reference, and it has one."""
        return all(
            _PLAIN.fullmatch(word) or ("=" in self._types.get(word, ()) and not self.reaches(word))
            for word in words
            if word[0].isalpha()
        )

    def reaches(self, word: str) -> bool:
        """True if a type may hold a reference."""
        return is_reference(word, self._references) or reaches(word, self._types, self._references)
