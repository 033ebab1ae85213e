"""Finds functions that are believed to read less than they do where they may not be called.

Flows in: what was read of a program. Flows out: places. Both Dafnys check what a function's
``reads`` itself reads only where the precondition holds, and believe it everywhere: with ``function
F(c: C): int requires c.on reads if c.on then {c} else {}`` the value of F, and whether it may be
called, count as unchanged from where ``c.on`` is false (issues 2201, 4489). So beside a
precondition each frame may depend only on parameters, and on fields of what is listed by itself:
``reads this, Repr``. ``reads *`` is refused, since Dafny 4.11 then forgets what was allocated later
(6430). Lambdas with such clauses are refused elsewhere (``reading-lambda``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proverrl.lang.dafny.known_bugs.hidden_references import find_domain_end, list_bound
from proverrl.lang.dafny.known_bugs.misjudged import Surroundings, list_elements
from proverrl.lang.dafny.syntax.cursor import is_name
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.tokens import Token, find_close, find_outer

_BINDERS = ("set", "iset", "forall", "exists")
_SELECTED = ("seq", "set", "iset", "string", "map", "imap", "multiset")
_JOINS = frozenset(["", *"<= < in && | , + - [ ] : <-".split()])


def find_unframed(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """What in such a ``reads`` clause may depend on the heap elsewhere."""
    tokens = program.tokens
    reading = {name for p in around.programs for name in p.reading_functions | p.two_state}
    still = {function.name for _, function in around.functions} - reading
    still = still.union(*(p.constructors for p in around.programs))
    fields = {e.name for p in around.programs for e in list_elements(p.root) if e.word == "var"}
    for owner, function in around.functions:
        clauses = function.slots[0].elements if owner is program else []
        frames = [(c.start + 1, c.end) for c in clauses if tokens[c.start].sign == "reads"]
        parts = [part for frame in frames for part in _split(tokens, *frame)]
        yield from (part.start for part in parts if tokens[part.start].sign == "*")
        if "requires" in [tokens[clause.start].sign for clause in clauses]:
            head = range(function.start, function.slots[0].start)
            formals = {
                tokens[place].sign: tokens[start].sign
                for place, (start, _) in program.typed.items()
                if place in head
            }
            bound = {name for part in parts for name in _list_bound(program, part)} - fields
            listed = {"".join(tokens[i].sign for i in part) for part in parts}
            known = {*formals, *bound, "this"}
            kinds = {name: kind for name, kind in formals.items() if name not in bound}
            reader = _Frames(program, around, known, kinds, listed, still, reading)
            for part in parts:
                yield from reader.find(part)


def _split(tokens: Sequence[Token], start: int, end: int) -> Iterator[range]:
    while start < end:
        stop = min(find_outer(tokens, start, (",", ";")), end)
        if tokens[start].sign in _BINDERS:
            # Its names are divided by commas, too.
            bar = find_domain_end(tokens, start + 1)
            stop = min(find_outer(tokens, bar, (",", ";")), end)
        yield range(start, stop)
        start = stop + 1


def _list_bound(program: ParsedProgram, part: range) -> Iterator[str]:
    for place in part:
        if program.tokens[place].sign in _BINDERS:
            end = find_domain_end(program.tokens, place + 1)
            yield from (program.tokens[i].sign for i, _ in list_bound(program, place + 1, end))


@dataclass(frozen=True)
class _Frames:
    """The frames of one function: names that are ``known`` to be no fields, the first words of
    its parameters' types (``kinds``), parts ``listed``, and what may be called (``still``)."""

    program: ParsedProgram
    around: Surroundings
    known: set[str]
    kinds: dict[str, str]
    listed: set[str]
    still: set[str]
    reading: set[str]

    def find(self, part: range) -> Iterator[int]:
        tokens = self.program.tokens
        types = {i for start, end in self.program.declared_types for i in range(start, end)}
        described = _find_described(tokens, part)
        for place in part:
            token, before, after = (tokens[place + i] for i in (0, -1, 1))
            if place in types or before.sign == "`" or place in described:
                continue
            is_called = (after.sign == "(" and token.sign not in self.still) or (
                after.sign == "<" and token.sign in self.reading
            )
            if token.sign == ".":
                is_own = self._has(_read_path(tokens, place), after.sign)
            elif token.sign == "[" and (is_name(before) or before.sign in (")", "]", "}")):
                path = _read_path(tokens, place)
                is_own = path in self.listed or self._is_value(path)
            elif is_name(token) and before.sign != ".":
                is_known = token.sign in self.known | self.still
                is_own = not is_called and (is_known or self._has("this", token.sign))
            else:
                is_own = not (is_name(token) and is_called)
            if not is_own:
                yield place

    def _is_value(self, path: str) -> bool:
        """True if this is a collection, of which an element is none of the heap."""
        if path in self.kinds:
            return self.kinds[path] in _SELECTED
        name = path.split(".")[-1]
        types = self.around.types.get(name, [])
        is_value = bool(types) and all(words[0] in _SELECTED for words in types)
        return is_value and name not in self.around.untyped

    def _has(self, path: str, field: str) -> bool:
        """True if the object is listed, or this field of it."""
        bare = f"`{field}" if path == "this" else path
        return not {path, f"{path}`{field}", bare}.isdisjoint(self.listed)


def _find_described(tokens: Sequence[Token], part: range) -> range:
    """``.reads`` of a function of which the part is all that it reads, or all of several calls:
    ``f.reads(x)``, ``set i, o | 0 <= i < |s| && o in f.reads(s[i]) :: o``."""
    words = [tokens[place].sign for place in part]
    if words.count("reads") != 1 or words[(dot := words.index("reads") - 1)] != ".":
        return range(0)
    end = find_close(tokens, part[dot] + 2) + 1 if words[dot + 2 :][:1] == ["("] else part[dot] + 2
    begin, behind = words[: dot - 1], [tokens[i].sign for i in range(end, part.stop)]
    is_whole = not begin and not behind
    is_sum = behind[:1] == ["::"] and begin[-2:] == [*behind[1:], "in"] and begin[0] == "set"
    # What is summed has no other condition; a literal has no sign.
    is_sum = is_sum and words.count(behind[1]) == 3 and begin[-3] in ("|", "&&")
    is_sum = is_sum and all(
        s in _JOINS or is_name(tokens[i]) for i, s in zip(part[1:], begin[1:-1], strict=False)
    )
    return range(part[dot], part[dot] + 2) if is_whole or is_sum else range(0)


def _read_path(tokens: Sequence[Token], end: int) -> str:
    """The names with dots before a place; what is none behind anything else."""
    start = end - 1
    while tokens[start - 1].sign == ".":
        start -= 2
    return "".join(token.sign for token in tokens[start:end])
