"""Finds where Dafny 2.3 may take a wide collection for one of a narrow type.

Flows in: what was read of a program or of a body, and the program around it. Flows out: findings.
``seq<nat>`` is narrower than ``seq<int>``. Where both meet in one expression Dafny 2.3 takes the
type of the first for that of all and checks nothing: ``s + t``, ``s[i := v]``, the branches of a
conditional (its issues 1676 and 3059). So a statement or clause that holds a collection over a
narrow type may hold these only if all its names are plainly of one such type. So may one in which
they begin with a display, a comprehension or a lambda of single values of such a type (``[n] +
[i]``, ``{n} + {i}``).
Narrow are ``nat``, subset types, and references: to classes next to ``null`` or nullable types. In
an update total functions are narrow too, next to such as have a precondition or read the heap. In
a sum or a branch, of these two, what both Dafnys take for the other are results of functions and
arguments of declared types: ``D<C>`` and ``D<C?>``, as long as the declaration has no ``<+T>``.
A name stands for all that has it in the program; one without a type, for what it stands beside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from proverrl.lang.dafny.known_bugs.misjudged import Surroundings, find_callee, list_elements
from proverrl.lang.dafny.syntax.cursor import ARROWS, COLLECTIONS, is_name
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.syntax.tokens import Token, find_close, find_outer
from proverrl.lang.records import Finding

_ENDS = frozenset(
    """; { } requires ensures invariant decreases reads modifies returns function predicate lemma
    method""".split()
)
_NUMERIC = re.compile(r"int|nat|real|ORDINAL|bv[0-9]+")
_MIXING = frozenset("then case".split())
_MIXED = frozenset((*_MIXING, *"+["))
_LIMITS = frozenset(
    """== != <= >= && || ==> <== <==> !! in !in , ; := :| :: => : then else case return
    assert var ghost""".split()
)
_SIGNS = ("word", "operator")
_WIDE_ARROWS = frozenset(ARROWS[1:])
_WIDE_VALUES = frozenset("null requires reads".split())
_BEFORE_BLOCKS = frozenset(") ] int nat real char bool string object ORDINAL".split())
_COMPREHENSIONS = frozenset("set iset map imap".split())
_NEUTRAL = frozenset("Keys Values Length".split())
_ARITHMETIC = frozenset("+ - * / %".split())
_CHOOSING = frozenset("if match var ;".split())
_HARMLESS = frozenset("< > , bool char string".split())


class _Types:
    """The types that the names of a program may stand for."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.narrow = {"nat"}
        # The narrow types that are collections, and those of them that say more of these.
        self.collections: set[str] = set()
        self.sized: set[str] = set()
        # Those that may be subsets of datatypes or tuples, and their synonyms.
        self.members: set[str] = set()
        # Those that may be part of others, or others of them.
        self.related = {"object"}
        # Those whose arguments must be the same in both of two types, and names of such with them.
        self.generic: set[str] = set()
        self.named: set[str] = set()
        self.references = {"object", *ARROWS[:2]}
        for program in around.programs:
            for element in list_elements(program.root):
                tokens = program.tokens[element.start : element.end]
                if element.word in ("class", "trait"):
                    self.related.add(element.name)
                    self.references.add(element.name)
                has_parameters = bool(program.parameters.get(element.name))
                if has_parameters and is_invariant(program, element):
                    self.generic.add(element.name)
                if element.word in ("type", "newtype"):
                    self.related.update(token.text for token in tokens)
                if element.word == "type":
                    self._add_type(tokens, element.name)

    def _add_type(self, tokens: Sequence[Token], name: str) -> None:
        words = [token.text for token in tokens]
        if "=" not in words:
            return
        is_subset = "|" in words
        if self._is_fixed(words[words.index("=") + 1 :]):
            self.named.add(name)
        behind = set(words[words.index("=") + 1 : words.index("|") if is_subset else None])
        is_collection = not (COLLECTIONS | self.collections).isdisjoint(behind)
        if is_subset or not self.narrow.isdisjoint(behind):
            self.narrow.add(name)
            if is_collection or "<" in behind:
                self.collections.add(name)
        base = words[words.index(":") + 1] if ":" in words else ""
        is_plain = _NUMERIC.fullmatch(base) or base in COLLECTIONS | _HARMLESS
        if (is_subset and not is_plain) or not self.members.isdisjoint(behind):
            self.members.add(name)
        if (is_subset and is_collection) or not self.sized.isdisjoint(behind):
            self.sized.add(name)

    def of(self, name: str) -> list[list[str]]:
        """The words of all types that a name may have by its declarations."""
        return self._around.types.get(name, []) + self._around.results.get(name, [])

    def is_narrow(self, words: Sequence[str]) -> bool:
        """True if a type is a collection, or another type, over a narrow type."""
        if words[0] == "array" and words.count("<") == 1:
            # What is stored in it is checked, and its slices are wide.
            return False
        if self.mixes_wide and self._is_fixed(words):
            return True
        inside = "<" in words and not self.narrow.isdisjoint(words[1:])
        gives = words[-1] in self.narrow and not {*ARROWS}.isdisjoint(words)
        return inside or gives or not self.collections.isdisjoint(words)

    def _is_fixed(self, words: Sequence[str]) -> bool:
        """True if a type has references or functions as arguments of a declared type, or as what
        functions give."""
        fixed = [i for i, word in enumerate(words) if word in self.generic or word in ARROWS]
        behind = words[fixed[0] + 1 :] if fixed else []
        is_array = any(re.fullmatch("array[0-9]*", word) for word in behind)
        return is_array or not self.references.isdisjoint(behind) or bool(self.named & {*words})

    @cached_property
    def mixes_wide(self) -> bool:
        """Whether anything may be null, or a function that is not total."""
        wide = {"null", *_WIDE_ARROWS}
        return bool(self.demanding) or any(
            token.sign in wide or token.text.endswith("?")
            for program in self._around.programs
            for token in program.tokens
        )

    def makes_wide(self, program: ParsedProgram, start: int, end: int) -> bool:
        """Whether a function or a value of a generic type may be made here of what may be null, of
        functions that are not total, or of what is narrow: its type is inferred."""
        tokens = program.tokens
        lambdas = [last for first, last in program.lambdas if start <= first < end]
        # The clauses of a lambda end what is taken for a statement.
        places = {*range(start, max(end, *lambdas))} if lambdas else set()
        for place in range(start, end):
            is_made = tokens[place].text in self._makers and tokens[place + 1].text == "("
            # A pattern makes nothing.
            if is_made and tokens[place - 1].text != "case":
                places.update(range(place + 2, find_close(tokens, place + 1)))
        # ``multiset[k]`` is a ``nat``.
        wide = self.wide | self._single | {"null", "multiset"}
        return any(tokens[i].text in wide or self.is_partial(tokens, i) for i in places)

    @cached_property
    def _single(self) -> frozenset[str]:
        """The names that are declared with a narrow type."""
        known = {*self._around.types, *self._around.results}
        return frozenset(n for n in known if any(self.narrow & {*kind} for kind in self.of(n)))

    @cached_property
    def _makers(self) -> frozenset[str]:
        """The constructors and functions that may give a value of a generic type."""
        results = self._around.results.items()
        found = {name for name, kinds in results if any(self.generic & {*kind} for kind in kinds)}
        made = {name for program in self._around.programs for name in program.constructors}
        return frozenset(found | made if self.generic else found)

    @cached_property
    def demanding(self) -> frozenset[str]:
        """The functions that are no total ones where they are used as values."""
        reading = {name for p in self._around.programs for name in p.reading_functions}
        return self._around.partial | reading

    @cached_property
    def wide(self) -> frozenset[str]:
        """The names that may stand for null or for functions that are not total."""
        known = {*self._around.types, *self._around.results}
        found = {name for name in known if self.holds_wide(name)}
        for program in self._around.programs:
            for start, end in _split(program):
                piece = range(start, end + 1)
                if any(self.is_partial(program.tokens, place) for place in piece):
                    found |= self._around.untyped & {program.tokens[i].text for i in piece}
        return self._add_untyped(found)

    def is_partial(self, tokens: Sequence[Token], place: int) -> bool:
        """Whether a function that is not total stands here, and is not called."""
        is_called = [token.text for token in tokens[place + 1 : place + 2]] in (["("], ["<"])
        return tokens[place].text in self.demanding and not is_called

    def holds_wide(self, name: str) -> bool:
        """Whether the types that a name is declared with hold null, or such functions."""
        words = {word for kind in self.of(name) for word in kind}
        return any(word.endswith("?") or word in _WIDE_ARROWS for word in words)

    def takes_wide(self, name: str) -> bool:
        """Whether a name stands for what holds such values, and nothing narrower beside."""
        words = {word for kind in self.of(name) for word in kind}
        narrow = self.related | {ARROWS[0]}
        is_mixed = any(word in narrow or re.fullmatch("array[0-9]*", word) for word in words)
        return self.holds_wide(name) and not is_mixed

    def is_plain(self, name: str) -> bool:
        """Whether a name stands for collections of numbers and the like."""
        words = {word for kind in self.of(name) for word in kind} - COLLECTIONS - _HARMLESS - {">"}
        is_known = name not in self._around.untyped and bool(self.of(name))
        return is_known and all(_NUMERIC.fullmatch(word) for word in words)

    def is_unrelated(self, name: str) -> bool:
        """True if a name stands for sequences or sets over type parameters or datatypes, which no
        other type is part of."""
        if name in self._around.untyped:
            return False
        words = {word for kind in self.of(name) for word in kind} - COLLECTIONS - {*"<>,"}
        return bool(words) and not any(
            word in self.related or _NUMERIC.fullmatch(word) or not word.isalnum() for word in words
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that may stand for narrow collections."""
        found = {
            name
            for name in {*self._around.types, *self._around.results}
            if any(self.is_narrow(words) for words in self.of(name))
        }
        for program in self._around.programs:
            parts = [[t.text for t in program.tokens[p.start : p.end]] for p in program.parts]
            if any(self.is_narrow(words) for words in parts):
                patterns = (b.place for b in program.bindings if b.kind == "pattern")
                seen = filter(self._around.sees, patterns)
                found |= {program.tokens[place].text for place in seen}
            for start, end in _split(program):
                if self.makes_wide(program, start, end):
                    piece = {token.text for token in program.tokens[start:end]}
                    found |= self._around.untyped & piece
        return self._add_untyped(found)

    @cached_property
    def values(self) -> frozenset[str]:
        """The names that may stand for values of narrow types, or for what holds these."""
        known = {*self._around.types, *self._around.results}
        holding = {
            n for n in known if not self.narrow.isdisjoint(w for ws in self.of(n) for w in ws)
        }
        return self._add_untyped(holding | self.names)

    def _add_untyped(self, found: set[str] | frozenset[str]) -> frozenset[str]:
        """These names, and those without a type that stand beside one."""
        pieces = [
            {token.text for token in program.tokens[start:end] if is_name(token)}
            for program in self._around.programs
            for start, end in _split(program)
        ]
        while True:
            more = {n for names in pieces if names & found for n in names & self._around.untyped}
            if more <= found:
                return frozenset(found)
            found = found | more


def is_invariant(program: ParsedProgram, element: Element) -> bool:
    """True if a declared type has a parameter that is not marked by ``+``."""
    words = [token.text for token in program.tokens[element.named + 1 : element.end]]
    head = words[: words.index(">")] if words[:1] == ["<"] and ">" in words else []
    return any(sign != "+" for word, sign in pairwise(head) if word in "<,")


def _split(program: ParsedProgram) -> Iterator[tuple[int, int]]:
    """Start and end of each statement or clause."""
    tokens, start, blocks = program.tokens, 0, [True]
    for place, token in enumerate(tokens):
        ends = token.sign in _ENDS
        if token.sign == "{":
            ends = _is_block(tokens, place)
            blocks.append(ends)
        elif token.sign == "}" and len(blocks) > 1:
            ends = blocks.pop()
        if ends or place == len(tokens) - 1:
            yield start, place
            start = place + 1


def _is_block(tokens: Sequence[Token], place: int) -> bool:
    """True if a brace is plainly none of a display, which must not be taken apart: it is all the
    same if too little is."""
    before, last = tokens[place - 1], tokens[find_close(tokens, place) - 1]
    opened = place - 1
    while before.text == ">" and opened and tokens[opened].text != "<":
        opened -= 1
    return (
        last.text == ";"
        or is_name(before)
        or before.text in _BEFORE_BLOCKS
        or before.kind not in _SIGNS
        or (before.text == ">" and tokens[opened - 1].text in COLLECTIONS)
    )


def find_narrow_mixes(program: ParsedProgram, around: Surroundings) -> Iterator[Finding]:
    """Expressions in which a wide collection may be taken for a narrow one."""
    types = _Types(around)
    known = {around.hidden: types}
    for token in _find_wide_updates(types, program):
        yield refuse_mix(token)
    if not (around.has_word("nat", "type", "multiset") or types.mixes_wide):
        return
    for token in _find_member_updates(types, program.tokens):
        yield refuse_mix(token)
    for start, end in _split(program):
        tokens = program.tokens[start:end]
        if all(token.sign not in _MIXED for token in tokens):
            continue
        seen = around.seen_from(end - 1)
        if seen.hidden not in known:
            known[seen.hidden] = _Types(seen)
        types = known[seen.hidden]
        is_held = any(_holds_narrow(types, tokens, place) for place in range(len(tokens)))
        is_held = is_held or types.makes_wide(program, start, end)
        for place, token in enumerate(tokens):
            # The cases of a statement are of no type.
            is_typed = token.text != "case" or start + place in program.mixed
            if not (is_typed and _is_mixing(types, tokens, place)) or not (
                is_held or _begins_narrow(types, program, start + place)
            ):
                continue
            # What is said of a sum or of an update changes nothing about its parts.
            is_choice = token.text in _MIXING
            part = tokens if is_choice else _cut_operands(tokens, place)
            is_apart = not (is_held or is_choice) and _has_unrelated_operand(types, part)
            if not (is_apart or _is_of_one_type(types, part)):
                yield refuse_mix(token, older=start + place in program.mixed)


def has_related_types(program: ParsedProgram) -> bool:
    """Whether a program has types that may be part of others."""
    around = Surroundings((program,))
    has_word = around.has_word("nat", "type", "trait", "multiset", "Std")
    return has_word or bool(program.lambdas) or _Types(around).mixes_wide


def refuse_mix(token: Token, *, older: bool = False) -> Finding:
    """``older``: where Dafny 4 judges a file, its types are asked."""
    message = (
        "Dafny may take a wider collection for one of a narrow type here and check nothing; write "
        "it with collections over 'int', or over one type only (var n: nat := ...; s + [n])"
    )
    return token.refuse("cheat", "narrow-type", message, older=older)


def _cut_operands(tokens: Sequence[Token], place: int) -> Sequence[Token]:
    """The sum, or the operand, around a place."""
    start = find_outer(tokens, place - 1, _LIMITS, -1) + 1
    return tokens[start : find_outer(tokens, place, _LIMITS)]


def _holds_narrow(types: _Types, tokens: Sequence[Token], place: int) -> bool:
    name = tokens[place].text
    if name in types.names:
        return True
    if name not in types.narrow or not place:
        return False
    # Type arguments in an expression, and the types of what is declared here.
    before = [token.text for token in tokens[max(0, place - 6) : place]]
    return "as" in before[-1:] or ("<" in before and not {"array"} & {*before})


def _begins_narrow(types: _Types, program: ParsedProgram, place: int) -> bool:
    """True if what gives its type to a sum, an update or a conditional is a display, a
    comprehension or a lambda of values that may be of a narrow type."""
    tokens, text = program.tokens, program.tokens[place].sign
    if text == "+":
        start = find_outer(tokens, place - 1, _LIMITS, -1) + 1
        end = find_outer(tokens, start, ("+",))
        while end < place and {token.text for token in tokens[start:end]} <= {*"()[]{}"}:
            # What is empty takes its type from the next one.
            start, end = end + 1, find_outer(tokens, end + 1, ("+",))
    elif text == "[":
        start, end = find_outer(tokens, place - 2, step=-1), place
    else:
        start = place + 1 if text == "then" else find_outer(tokens, place, ("=>",)) + 1
        end = find_outer(tokens, start, ("else", "case"))
    words = {token.text for token in tokens[start:end]}
    # What is only asked for a member gives no type.
    is_comprehension = any(
        tokens[i].text in _COMPREHENSIONS and tokens[i - 1].text not in ("in", "!in")
        for i in range(start, end)
    )
    if is_comprehension and not words.isdisjoint(types.values | types.narrow):
        return True
    return any(
        tokens[i].text in types.values and _is_given(program, i, start) for i in range(start, end)
    )


def _is_given(program: ParsedProgram, place: int, start: int) -> bool:
    """True if a name behind ``start`` is what a lambda gives, or an element of a display and no
    operand of a number, whose type is wide, as is that of what is selected."""
    tokens = program.tokens
    if any(start <= first < place < last for first, last in program.lambdas):
        return True
    inside = [token.text for token in tokens[place + 1 : find_close(tokens, place + 1) + 1]]
    if (inside[:1] == ["["] and ".." not in inside) or tokens[place - 1].text == "|":
        return False
    while (opened := find_outer(tokens, place - 1, step=-1)) >= start:
        before = tokens[opened - 1]
        is_behind = is_name(before) or before.text in (")", "]", ">", "multiset")
        is_set = tokens[opened].sign == "{" and not _is_block(tokens, opened)
        if is_set or tokens[opened].sign == "[" or (is_behind and tokens[opened].sign == "("):
            first = find_outer(tokens, place - 1, (",", ":="), -1) + 1
            last = find_outer(tokens, place, (",", ":="))
            is_sum = find_outer(tokens, first + (tokens[first].text == "-"), _ARITHMETIC) < last
            is_wide = is_sum or [token.text for token in tokens[last - 2 : last]] == ["as", "int"]
            words = {token.text for token in tokens[first:last]}
            return (is_set or not is_behind) and not (is_wide and _CHOOSING.isdisjoint(words))
        place = opened
    return False


def _has_unrelated_operand(types: _Types, tokens: Sequence[Token]) -> bool:
    """True if an operand of a sum is a collection, its slice or its multiset over a type that no
    other is part of: so are all of them."""
    start = 0
    while start < len(tokens):
        end = find_outer(tokens, start, ("+",))
        part = tokens[start:end]
        texts = [token.text for token in part[:2]]
        if texts == ["multiset", "("] and find_close(part, 1) == len(part) - 1:
            part = part[2:-1]
        is_slice = len(part) > 1 and part[1].text == "[" and find_close(part, 1) == len(part) - 1
        is_whole = len(part) == 1 or (is_slice and ".." in (token.text for token in part))
        if is_whole and is_name(part[0]) and types.is_unrelated(part[0].text):
            return True
        start = end + 1
    return False


def _is_of_one_type(types: _Types, tokens: Sequence[Token]) -> bool:
    found: set[str] = set()
    for token in tokens:
        if token.text == "-" or (token.text in types.sized):
            return False
        if token.kind == "number" or token.text == "nat":
            found.add("nat")
        elif _NUMERIC.fullmatch(token.text):
            found.add(token.text)
        elif is_name(token) and token.text not in _NEUTRAL:
            words = types.of(token.text)
            if not words or token.text in types._around.untyped:
                return False
            found |= {word for kind in words for word in kind} - COLLECTIONS - _HARMLESS
    return len(found) == 1 and found.isdisjoint(types.sized)


def _is_mixing(types: _Types, tokens: Sequence[Token], place: int) -> bool:
    text = tokens[place].sign
    if text == "case":
        return True
    if text == "then":
        return tokens[min(place + 1, len(tokens) - 1)].kind != "number"
    if text == "+" and place and tokens[place - 1].text in ("<", ","):
        # A type parameter ``<+T>``; no operand begins with this sign.
        return False
    if text == "+":
        return not (_is_number(types, tokens, place, -1) or _is_number(types, tokens, place, 1))
    if text == "[" and place and (is_name(tokens[place - 1]) or tokens[place - 1].text in ")]}>"):
        inside = [token.text for token in tokens[place : find_close(tokens, place)]]
        return ":=" in inside
    return False


def _is_number(types: _Types, tokens: Sequence[Token], place: int, step: int) -> bool:
    """True if the operand before or after a sign is plainly a number."""
    place += step
    if not 0 <= place < len(tokens):
        return False
    token = tokens[place]
    if token.kind == "number":
        # A part of a tuple may be anything.
        return step > 0 or not place or tokens[place - 1].sign != "."
    if token.text in types.names:
        return False
    if token.text in ("|", "Length"):
        return True
    following = tokens[place + 1].text if place + 1 < len(tokens) else ""
    words = types.of(token.text)
    if step < 0 and token.text == ")":
        words = types._around.results.get(find_callee(tokens, place), [])
    is_plain = step < 0 or following not in ("[", ".")
    return bool(words) and is_plain and all(_NUMERIC.fullmatch(kind[0]) for kind in words)


def _find_wide_updates(types: _Types, program: ParsedProgram) -> Iterator[Token]:
    """Updates by what may be null, or a function that is not total, of what may hold only
    references, or only total functions: ``m[k := v]`` keeps the type of ``m``, for ``k`` too."""
    tokens = program.tokens
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else token
        if token.sign != "[" or not (is_name(before) or before.text in (")", "]", "}", ">")):
            continue
        inside = range(place + 1, find_close(tokens, place))
        bound = [i for i in inside if tokens[i].text == ":="]
        if not bound or types.takes_wide(before.text) or types.is_plain(before.text):
            continue
        if types.is_unrelated(before.text):
            continue
        # A number is what stands before ":=" in an update of a sequence.
        is_sequence = types.of(before.text) and all(k[0] == "seq" for k in types.of(before.text))
        held = [i for i in inside if i > bound[0] or not is_sequence]
        wide = types.wide | _WIDE_VALUES
        if any(tokens[i].text in wide or types.is_partial(tokens, i) for i in held):
            yield token


def _find_member_updates(types: _Types, tokens: Sequence[Token]) -> Iterator[Token]:
    """``d.(x := v)``, which keeps the type of ``d``, where that may be a subset of a datatype."""
    if types.members:
        for place in range(1, len(tokens) - 2):
            if [token.sign for token in tokens[place : place + 2]] == [".", "("]:
                words = types.of(tokens[place - 1].text)
                untyped = tokens[place - 1].text in types._around.untyped
                known = types._around.datatypes | {"("}
                whole = (kind[0] in known and types.members.isdisjoint(kind) for kind in words)
                if untyped or not words or not all(whole):
                    yield tokens[place]
