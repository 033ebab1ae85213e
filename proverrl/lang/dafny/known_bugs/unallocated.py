"""Finds variables that may stand for references which are not allocated, or for no value at all.

Flows in: what was read of a program or of a body, and of the program around it. Flows out:
findings. In comprehensions, forall statements and choices (``:|``, in a guard too, and ``*``) Dafny
2.3 forgets that a reference must be allocated (its issue 3605), and that a type may have no value
(851). There a variable may have such a type only where it is taken from a collection, or is at most
(``<=``) what there is; and ghost
variables, fields and results, which need be given no value, may not. One without a written type
must be compared like a number, or the program must have no references. In forall statements this
is asked only where a program speaks of what is allocated.
A type may also have no value where that was never shown: ``witness *``, a type parameter, a type
without a definition, a datatype over one of them. Dafny 4 believes in a value of it where a lambda
or a forall statement does not use its variable: it takes ``(e: E) => F(k)`` for a proof that
``F(k)`` may be called.
Not handled here: quantifiers, which Dafny reads rightly; functions (``hidden_references``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from proverrl.lang.dafny.known_bugs.hidden_references import (
    Words,
    find_domain_end,
    find_reached,
    is_bounded,
    is_number,
    is_reference,
    list_bound,
    reaches,
    read_types,
)
from proverrl.lang.dafny.known_bugs.misjudged import Surroundings, list_elements, list_generic
from proverrl.lang.dafny.syntax.cursor import COLLECTIONS, is_name
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.syntax.tokens import Token, find_close, find_outer
from proverrl.lang.records import Finding

_COMPREHENSIONS = ("set", "iset", "map", "imap")
_LAMBDA_SIGNS = ("=>", "requires", "reads")
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
    yield from _find_unused(program, around, kinds)
    yield from _find_unpacked(program, kinds)
    for start, end in _list_unset(program):
        words = [token.text for token in program.tokens[start:end]]
        is_empty = words[0] in COLLECTIONS or words[-1].endswith("?")
        if not is_empty and any(map(kinds.reaches, words)):
            yield _refuse(program.tokens[start - 2])


def find_empty_types(program: ParsedProgram) -> Iterator[Finding]:
    """Each ``witness *``: no problem may hold a type of which it is not shown that it has a value,
    since Dafny 4 believes too much of its variables."""
    for name, star in zip(program.tokens, program.tokens[1:], strict=False):
        if name.text == "witness" and star.text == "*":
            message = (
                "'witness *' lets a type have no value, from which Dafny 4 may prove anything; "
                "give a witness, or use a predicate in the place of the type"
            )
            yield name.refuse("cheat", "empty-type", message)


def find_unfounded(program: ParsedProgram) -> Iterator[Token]:
    """The words of functions without a body, and of constants without a value, whose types are not
    known to have one: that there is one would be believed."""
    kinds = _Kinds(program, Surroundings((program,)))
    bodyless = {member.token for member in program.bodyless}
    for owner, element in _list_members(program.root):
        head = program.tokens[element.start : element.end]
        words = [token.text for token in head]
        word = head[words.index(element.word)]
        is_static = "static" in words[: words.index(element.word)]
        if owner.word == "trait" and not is_static:
            # Each class that extends it has to have them.
            continue
        spans = [span for span in program.declared_types if element.start <= span[0] < element.end]
        if element.word == "const":
            # A constructor gives a value to one of a class.
            is_given = ":=" in words or (owner.word == "class" and not is_static)
        else:
            is_given = word not in bodyless
            spans = [span for span in spans if span[0] < element.slots[0].start]
        if spans and not is_given:
            start, end = max(spans)
            if not kinds.has_value([token.text for token in program.tokens[start:end]]):
                yield word


def _list_members(owner: Element) -> Iterator[tuple[Element, Element]]:
    """All constants and functions, each behind what it is a member of."""
    for slot in owner.slots:
        for element in slot.elements:
            if element.word in ("const", "function"):
                yield owner, element
            elif element.name:
                yield from _list_members(element)


def _find_unused(program: ParsedProgram, around: Surroundings, kinds: _Kinds) -> Iterator[Finding]:
    """Calls in lambdas and forall statements over a type that may have no value, where they do
    not use the variable: Dafny 4 believes that they are allowed."""
    tokens = program.tokens
    scopes = [(start + (tokens[start].sign == "("), end) for start, end in program.lambdas]
    for start, last in program.foralls:
        ends = [end for begin, end in program.promises if start < begin < last]
        scopes.append((start + 1 + (tokens[start + 1].sign == "("), max(ends, default=start)))
    demanding = kinds.demanding if scopes else frozenset()
    for start, last in scopes:
        end = min(find_domain_end(tokens, start), last)
        end = min([end, *(i for i in range(start, end) if tokens[i].sign in _LAMBDA_SIGNS)])
        doubtful = {
            tokens[place].text
            for place, words in list_bound(program, start, end)
            if not (
                kinds.has_value(words)
                if words
                else kinds.all_have_values
                or _is_index(tokens, start)
                or is_number(program, around, range(end, last), tokens[place].text)
            )
        }
        for place in range(end, last) if doubtful else ():
            opened = find_outer(tokens, place + 1, ("(", ","))
            if tokens[place].text in demanding and opened < last and tokens[opened].sign == "(":
                first = place - 2 * (tokens[place - 1].sign == ".")
                said = {token.text for token in tokens[first : find_close(tokens, opened)]}
                if not doubtful <= said:
                    message = (
                        f"Dafny 4 believes that {tokens[place].text!r} may be called here, though "
                        f"{min(doubtful - said)!r} may stand for no value; use that variable in "
                        "the call, or make the call before"
                    )
                    yield tokens[place].refuse("cheat", "unused-variable", message)


def _is_index(tokens: Sequence[Token], place: int) -> bool:
    """True if the first variable of a lambda is the index of a sequence, ``seq(n, i => e)``."""
    before = place - 1 - (tokens[place - 1].sign == "(")
    return tokens[find_outer(tokens, before, step=-1) - 1].text == "seq"


def _find_unpacked(program: ParsedProgram, kinds: _Kinds) -> Iterator[Finding]:
    """``var (a: E, b) := e``, after which Dafny 4 believes that E has a value."""
    tokens = program.tokens
    for place in program.unpacked:
        span = program.typed.get(place)
        outer = find_outer(tokens, place - 1, (":=", ";", "var", "ghost"), -1)
        if (
            span
            and tokens[outer].sign == "("
            and not kinds.has_value([token.text for token in tokens[slice(*span)]])
        ):
            message = "Dafny 4 believes that what is unpacked has this type; leave the type out"
            yield tokens[place].refuse("cheat", "typed-pattern", message)


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


def _list_unfounded_types(program: ParsedProgram) -> set[str]:
    """The names of declared types that are not shown to have a value."""
    found = set()
    for element in list_elements(program.root):
        if element.word in ("type", "newtype"):
            words = [token.text for token in program.tokens[element.start : element.end]]
            if "=" not in words or ("witness", "*") in pairwise(words):
                found.add(element.name)
    return found


class _Kinds:
    """The known facts of the types around a program."""

    def __init__(self, program: ParsedProgram, around: Surroundings) -> None:
        self._program = program
        self._around = around
        self._types: dict[str, set[str]] = {}
        self._references = {"object"}
        # Declared types that need not have a value.
        self._unfounded: set[str] = set()
        for p in around.programs:
            self._types |= read_types(p)
            self._references |= p.references
            self._unfounded |= _list_unfounded_types(p)
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
        if any(t.sign == "*" for t in self._program.tokens[scope.start + 1 : scope.start + 2]):
            return any(self.reaches(word) for kind in known for word in kind)
        if name in self._around.untyped:
            return True
        return not known or not all(map(self._is_plain, known))

    def _is_plain(self, words: Words) -> bool:
        """True if no value of a type can hold a reference, and it has one."""
        return self.has_value(words) and not any(map(self.reaches, words))

    def has_value(self, words: Words) -> bool:
        """True if a type is known to have a value, whatever is allocated."""
        return all(
            _PLAIN.fullmatch(word)
            or word.endswith("?")
            or (word in self._types and not self._is_unfounded(word))
            for word in words
            if word[0].isalpha()
        )

    def _is_unfounded(self, word: str) -> bool:
        """True if a declared type may have no value, or hold what is of such a type."""
        return not self._unfounded.isdisjoint(find_reached(word, self._types))

    @cached_property
    def all_have_values(self) -> bool:
        """True if every type of values has one."""
        return not self._unfounded and not any(map(list_generic, self._around.programs))

    @cached_property
    def demanding(self) -> frozenset[str]:
        """The functions that may not be called with every value of the types of their arguments."""
        programs = self._around.programs
        declared = {
            e.name for p in programs for e in list_elements(p.root) if e.word in ("type", "newtype")
        }
        words = {token.text for p in programs for token in p.tokens}
        narrow = {word for word in words if is_reference(word, self._references)}
        return self._around.find_partial(frozenset(words - declared - narrow - {"nat"}))

    def reaches(self, word: str) -> bool:
        """True if a type may hold a reference."""
        return is_reference(word, self._references) or reaches(word, self._types, self._references)
