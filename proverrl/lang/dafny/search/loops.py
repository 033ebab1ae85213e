"""Loops of a Dafny program, with what is known of their variables from the text alone.

Flows in: a parsed program. Flows out: each member with its contract, and its loops with their
guards, what they assign and the values before them. Types are read from declarations and guessed
from values: a wrong guess costs a hint that Dafny refuses. Not handled here: what hints follow
(``guesses``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from proverrl.errors import ProblemError
from proverrl.lang.dafny.search.terms import clean, list_calls, plain, split, strip
from proverrl.lang.dafny.syntax.declarations import Declaration, Formal, read_element, split_at
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.verify.walls.edited import find_begin, list_members
from proverrl.lang.dafny.verify.walls.questions import LOOPS

_MARKS = re.compile(r"(?:\{:[^}]*\}\s*)*(?:\w+\s*:(?![:=|])\s*)?")
_COUNTER = re.compile(r"(?:\{:[^}]*\} *)*([\w'?]+)[^=]*:= ?(.*) (to|downto) (.*)")
# A value's type by its text; behind these what stands first in it says it.
_TYPES = (
    (r"true|false", "bool"),
    (r"new ([^\[]*)\[.*", r"array<\1>"),
    (r"\{.*", "set"),
    (r"(map|multiset|set)\b.*", r"\1"),
    (r"\d+\.\d+.*", "real"),
    (r"\d.*|\|.*\||.*\.Length", "int"),
)


@dataclass(frozen=True, slots=True)
class Assignment:
    """``name := value`` or ``name[index] := value``; no value for what a call returns."""

    name: str
    value: str = ""
    index: str = ""


@dataclass(slots=True)
class Member:
    """A declaration that can be called. ``clauses`` are pairs of word and conjunct."""

    element: Element
    said: Declaration
    formals: dict[str, str]
    returns: dict[str, str]
    result: str = ""
    clauses: list[tuple[str, str]] = field(default_factory=list)
    loops: list[LoopText] = field(default_factory=list)

    def list_clauses(self, word: str) -> list[str]:
        """The conjuncts of one kind of clause."""
        return [text for kind, text in self.clauses if kind == word]


@dataclass(slots=True)
class LoopText:
    """A loop. ``anchor``, ``begin`` and ``after`` are the tokens before which a clause, a first
    statement and what follows the loop would stand. ``types`` and ``values`` are those before the
    loop; ``inner`` are the variables that it declares itself, and ``returned`` is what the member
    returns behind it, by the name of the result."""

    anchor: int
    begin: int
    after: int
    guard: str
    counter: tuple[str, str, str, bool] | None
    outer: LoopText | None
    types: dict[str, str]
    values: dict[str, str]
    known: list[str]
    assigned: dict[str, list[Assignment]] = field(default_factory=dict)
    inner: set[str] = field(default_factory=set)
    returned: dict[str, str] = field(default_factory=dict)


def read_members(program: ParsedProgram) -> list[Member]:
    """The functions, methods and lemmas of a program in their order, those of classes too."""
    members = [m for e in list_members(program.root) if (m := _read_member(program, e))]
    results = {m.said.name: m.result for m in members}
    outputs = {m.said.name: list(m.returns.values()) for m in members if not m.result}
    for member in members:
        _LoopReader(program, member, results, outputs).run()
    return members


def _read_member(program: ParsedProgram, element: Element) -> Member | None:
    try:
        said = read_element(program, element, is_generic=True)
    except ProblemError:
        # A constructor without a name, a predicate without parameters: nothing calls for hints.
        return None
    if not said.name:
        return None
    member = Member(element, said, _list_types(said.formals), _list_types(said.returns))
    for word, text in said.clauses:
        member.clauses += [(word, part) for part in split(_drop_marks(text), "&&")]
    if said.word in ("function", "predicate"):
        # A result may be named: ``(r: int)``.
        result = said.result.replace(" ", "").strip("():")
        member.result = result.partition(":")[2] or result or "bool"
    return member


def _list_types(formals: Iterable[Formal]) -> dict[str, str]:
    return {name.split()[-1]: kind.replace(" ", "") for name, kind in formals}


def _drop_marks(text: str) -> str:
    """A clause without its semicolon, attributes and label."""
    return _MARKS.sub("", clean(text).rstrip("; "), count=1)


class _LoopReader:
    """Reads the statements of a member in their order."""

    def __init__(
        self,
        program: ParsedProgram,
        member: Member,
        results: Mapping[str, str],
        outputs: Mapping[str, list[str]],
    ) -> None:
        self.program, self.member = program, member
        self.results, self.outputs = results, outputs
        self.types = {**member.formals, **member.returns}
        self.values: dict[str, str] = {}
        self.open: list[LoopText] = []

    def run(self) -> None:
        for slot in self.member.element.slots:
            if slot.kind == "statements":
                self.read(slot.elements)

    def read(self, elements: list[Element]) -> None:
        for element in elements:
            begin = find_begin(self.program, element)
            if self.program.tokens[begin].text in LOOPS:
                self.read_loop(element, begin)
            elif any(slot.kind == "statements" for slot in element.slots):
                self.read_branches(element)
            elif element.word == "return":
                self.read_return(element)
            else:
                for one in self.read_assignments(element):
                    self.assign(one)

    def read_branches(self, element: Element) -> None:
        before, ends = dict(self.values), list[dict[str, str]]()
        for slot in element.slots:
            if slot.kind == "statements":
                self.values = dict(before)
                self.read(slot.elements)
                ends.append(self.values)
        self.values = dict(e for e in before.items() if all(e in end.items() for end in ends))

    def read_return(self, element: Element) -> None:
        given = split_at(clean(self.program.cut(element.start + 1, element.end)).rstrip(";"), ",")
        if len(given) == len(self.member.returns) and not self.calls_method(given):
            returned = dict(zip(self.member.returns, given, strict=True))
            for loop in self.member.loops:
                if loop not in self.open and loop.after <= element.start:
                    loop.returned = returned

    def assign(self, one: Assignment) -> None:
        for loop in self.open:
            if one.name not in loop.inner:
                loop.assigned.setdefault(one.name, []).append(one)
        if one.index:
            return
        if not one.value:
            self.values.pop(one.name, None)
            return
        self.values[one.name] = one.value
        self.types[one.name] = self.types.get(one.name) or self.infer(one.value)
        for loop in self.member.loops:
            if loop not in self.open and one.name in self.member.returns:
                loop.returned.setdefault(one.name, one.value)

    def read_assignments(self, element: Element) -> Iterator[Assignment]:
        text = clean(self.program.cut(element.start, element.end)).rstrip(";")
        said, sign, given = (*re.split("(:=|:[|]|:-)", text, maxsplit=1), "", "")[:3]
        left, right = split_at(re.sub(r"\b(ghost|var)\b", "", said), ","), split_at(given, ",")
        for part in left if element.word in ("var", "ghost") else ():
            name, _, kind = part.partition(":")
            self.types[name.strip()] = kind.replace(" ", "")
            for loop in self.open:
                loop.inner.add(name.strip())
        is_known = sign == ":=" and "*" not in right and len(left) == len(right)
        is_paired = is_known and not self.calls_method(right)
        results = self.outputs.get(right[0].partition("(")[0].strip(), []) if right else []
        for place, part in enumerate(left if sign else ()):
            found = re.fullmatch(r"(\w[\w'?]*)\s*(?:\[(.*)\]|:.*)?", part, re.DOTALL)
            if found is None:
                continue
            if not is_paired and place < len(results):
                self.types[found[1]] = self.types.get(found[1]) or results[place]
            yield Assignment(found[1], right[place] if is_paired else "", found[2] or "")

    def calls_method(self, values: Sequence[str]) -> bool:
        """True if one of them is no value that a formula could name."""
        return any(any(list_calls(value, self.outputs.keys())) for value in values)

    def read_loop(self, element: Element, begin: int) -> None:
        clauses = next(slot for slot in element.slots if slot.kind == "loop-clauses")
        bodies = [slot for slot in element.slots if slot.kind == "statements"]
        if not bodies:
            return
        head = clean(self.program.cut(begin + 1, clauses.start))
        counter = _COUNTER.fullmatch(head)
        known = [e for e in clauses.elements if e.word == "invariant"]
        loop = LoopText(
            anchor=clauses.end,
            begin=bodies[0].start,
            after=element.end,
            guard="" if counter else strip(head),
            counter=(counter[1], counter[2], counter[4], counter[3] == "to") if counter else None,
            outer=self.open[-1] if self.open else None,
            types=dict(self.types),
            values=dict(self.values),
            known=[_drop_marks(self.program.cut(e.start + 1, e.end)) for e in known],
        )
        if counter:
            loop.types[counter[1]] = self.types[counter[1]] = "int"
        self.member.loops.append(loop)
        self.open.append(loop)
        for slot in bodies:
            self.read(slot.elements)
        self.open.pop()
        for name in loop.assigned:
            self.values.pop(name, None)

    def infer(self, value: str) -> str:
        """The type of a value, as far as its text shows it."""
        value, texts = strip(value), plain(strip(value))
        for form, kind in _TYPES:
            if found := re.fullmatch(form, value, re.DOTALL):
                return found.expand(kind)
        if texts[0] == "[":
            return f"seq<{self.infer(texts[1])}>" if len(texts) > 2 else "seq"
        known = self.types.get(texts[0], "")
        if len(texts) == 1 or texts[1] == "(":
            return known if len(texts) == 1 else self.results.get(texts[0], "")
        if texts[1] == "[" and texts[-1] == "]":
            inner = known[known.index("<") + 1 : -1] if "<" in known else "char"
            return f"seq<{inner}>" if ".." in texts else inner
        first = re.split("[-+*/%]", value.lstrip("-( "))[0]
        return self.infer(first) if not {*"+-*/%"}.isdisjoint(texts) and first else ""
