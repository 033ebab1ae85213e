"""The parts that the parsers find in a Dafny program, and what is judged about it later.

Flows in: nothing. Flows out: records, in which places count tokens and ``end`` is the place after
the last. Not handled here: parsing (``program``), what follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from proverrl.lang.dafny.syntax.tokens import Token
from proverrl.lang.records import Finding

SlotKind = Literal["loop-clauses", "member-clauses", "statements", "declarations", "steps"]


@dataclass(slots=True)
class ElementSlot:
    """A run of elements, which could hold one more. ``ghost``: what runs here is not."""

    kind: SlotKind
    start: int
    ghost: bool
    end: int = 0
    elements: list[Element] = field(default_factory=list)


@dataclass(slots=True)
class Element:
    """A clause, a statement or a declaration. The tokens outside its slots are fixed.

    ``word`` is its leading word, past modifiers; ``name`` what a declaration declares, and
    ``named`` where that stands, the word where there is no name, and -1 for what is none.
    """

    start: int
    word: str
    end: int = 0
    name: str = ""
    named: int = -1
    slots: list[ElementSlot] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Binding:
    """A place where Dafny's parser makes a type that is still to be inferred.

    ``variable``: of a variable that was declared without a type, ``lambda``: of the only parameter
    of a lambda without brackets, ``pattern``: of such a name in a pattern, which may turn out to
    be a constructor, ``value``: of a right-hand side. ``scope`` is the token before which a
    name of a case, a ``for`` loop or a constraint may first be used.
    """

    place: int
    kind: Literal["variable", "lambda", "pattern", "value"]
    scope: int | None = None


@dataclass(frozen=True, slots=True)
class TypePart:
    """A type that a declared type is made of for good.

    An argument of a datatype's constructor, a constant of a class, a parameter of an iterator, the
    right-hand side of a synonym; ``inherited``: a trait that a class extends.
    """

    owner: str
    start: int
    end: int
    inherited: bool = False


class Mixed(NamedTuple):
    """An expression and values that have one type with it, by start and end."""

    whole: tuple[int, int]
    values: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class BodylessMember:
    """A method, lemma, function or iterator that ends without a body."""

    token: Token
    word: str
    claims: bool


@dataclass(slots=True)
class ParsedProgram:
    """All that was read; ``places`` are those of the tokens in ``text``.

    ``bindings`` are in the order of Dafny's parser. ``wild``: each ``*`` that gives up termination.
    ``calc_lines``: start and end of a line, and where its calc ends. ``proofs``: start and end of
    the braces of each calc and of each block after ``by``. ``references``: the classes, traits and
    iterators. ``parameters``: of types. ``typed``: variables and input parameters, with start and
    end of their types. ``formals``: name of a function or method, position and place of the
    parameter. ``arguments``: of calls, with the name of what is called and the position; the
    initialiser of an array counts as that of ``new``. ``assigned``: right-hand sides of statements.
    ``constructors``: of datatypes, and where they stand. ``finite``: start, bar and end of the
    range of each comprehension of a finite set or map. ``two_state``: names of two-state functions.
    ``in_lambdas``: names inside lambdas. ``reading_lambdas``, with start and end of their clauses,
    and ``reading_functions`` have a ``reads`` clause. ``declared_types``: start and end of each
    type after a colon. ``type_arguments``: the brackets around such. ``promises``: start and end of
    what a forall statement ensures. ``foralls``: start and end of each such statement.
    ``ensuring``: where those begin that ensure something. ``keys``: of map comprehensions, where
    the variables begin, the bar, start and end of the key. ``unpacked``: names in the patterns of
    variables. ``cases``: of match expressions, the names in the pattern, and start and end of the
    value. ``lambdas``: start and end of each. ``updates``: the places behind ``:=`` of ``e[i :=
    v]``. ``left_out``: loops and forall statements without a body. ``chains``: where each operand
    of a logical operator begins, the operator before it, and the place of that; at last where the
    chain ends. ``mixed``: sums and conditionals, by the place of ``+``, of ``then`` or of each
    ``case``. ``calls``: what is called (``>`` behind types), the place of the parenthesis, start
    and end of each argument. ``selections``: where what is selected from begins, and the dot.
    ``matched``: start and end of what is matched. ``case_names``: names in the patterns of cases.
    ``failing``: each ``:-``. ``labelled``: the ``@`` of each call in the state at a label.
    ``reversed_calcs``: the braces of calcs whose steps all have an operator, and for which Dafny
    infers ``<==`` as the one of all."""

    tokens: list[Token]
    text: str = ""
    places: list[int] = field(default_factory=list)
    root: Element = field(default_factory=lambda: Element(0, ""))
    bindings: list[Binding] = field(default_factory=list)
    bodyless: list[BodylessMember] = field(default_factory=list)
    wild: list[Token] = field(default_factory=list)
    calc_lines: list[tuple[int, int, int]] = field(default_factory=list)
    proofs: list[tuple[int, int]] = field(default_factory=list)
    references: set[str] = field(default_factory=set)
    parts: list[TypePart] = field(default_factory=list)
    parameters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    typed: dict[int, tuple[int, int]] = field(default_factory=dict)
    formals: list[tuple[str, int, int]] = field(default_factory=list)
    arguments: dict[int, tuple[str, int]] = field(default_factory=dict)
    assigned: set[int] = field(default_factory=set)
    constructors: set[str] = field(default_factory=set)
    constructor_places: set[int] = field(default_factory=set)
    finite: list[tuple[int, int, int]] = field(default_factory=list)
    two_state: set[str] = field(default_factory=set)
    in_lambdas: set[int] = field(default_factory=set)
    reading_lambdas: list[tuple[int, int, int]] = field(default_factory=list)
    reading_functions: set[str] = field(default_factory=set)
    declared_types: list[tuple[int, int]] = field(default_factory=list)
    type_arguments: list[tuple[int, int]] = field(default_factory=list)
    promises: list[tuple[int, int]] = field(default_factory=list)
    ensuring: set[int] = field(default_factory=set)
    foralls: list[tuple[int, int]] = field(default_factory=list)
    keys: list[tuple[int, int, int, int]] = field(default_factory=list)
    unpacked: list[int] = field(default_factory=list)
    cases: list[tuple[frozenset[str], int, int]] = field(default_factory=list)
    lambdas: list[tuple[int, int]] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)
    left_out: list[Finding] = field(default_factory=list)
    mixed: dict[int, Mixed] = field(default_factory=dict)
    selections: list[tuple[int, int]] = field(default_factory=list)
    matched: list[tuple[int, int]] = field(default_factory=list)
    case_names: set[int] = field(default_factory=set)
    calls: list[tuple[str, int, list[tuple[int, int]]]] = field(default_factory=list)
    chains: list[tuple[tuple[int, str, int], ...]] = field(default_factory=list)
    failing: list[int] = field(default_factory=list)
    labelled: set[int] = field(default_factory=set)
    reversed_calcs: list[int] = field(default_factory=list)

    @property
    def has_untyped(self) -> bool:
        """False when Dafny has nothing to infer that a hint could share."""
        return any(binding.kind != "value" for binding in self.bindings)

    def find_name(self, element: Element) -> str:
        """What an element declares, of a module the whole of it (``A.B``)."""
        if element.word != "module":
            return element.name
        end = element.named + 1
        while self.tokens[end].text == ".":
            end += 2
        return "".join(token.text for token in self.tokens[element.named : end])

    def end(self, place: int) -> int:
        """The end of the token at ``place`` in the text."""
        return self.places[place] + len(self.tokens[place].text)

    def cut(self, start: int, end: int) -> str:
        """The text of the tokens from ``start`` to ``end``."""
        return self.text[self.places[start] : self.end(end - 1)] if start < end else ""
