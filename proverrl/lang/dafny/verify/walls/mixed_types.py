"""Asks Dafny 4 for the types of what meets in one expression.

Flows in: a program that it verified. Flows out: findings. Dafny takes the type of one operand of a
sum, of one branch of a conditional or of one argument for that of all, and does not always check
the others (``known_bugs.narrow_types``). So all of them must be of one type, or of one that no
other is part of. It takes the type of a member for known before it knows what it is selected from:
after ``t := a; t := b;`` it believes of ``t.0`` what is true of ``a.0``. So a text with such a
selection must be proved once more with all types written out. Not handled here: updates, which are
refused by their words.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from proverrl.lang.dafny.known_bugs.believed import leaves_out_arguments
from proverrl.lang.dafny.known_bugs.misjudged import Surroundings, list_elements
from proverrl.lang.dafny.known_bugs.narrow_types import (
    has_related_types,
    is_invariant,
    refuse_mix,
)
from proverrl.lang.dafny.syntax.cursor import ARROWS, COLLECTIONS
from proverrl.lang.dafny.syntax.parsed import Element, Mixed, ParsedProgram
from proverrl.lang.dafny.syntax.plain import Insertion, WrittenText, insert
from proverrl.lang.dafny.syntax.program import TYPES
from proverrl.lang.dafny.syntax.tokens import Token
from proverrl.lang.dafny.verify.known import DafnyProcess
from proverrl.lang.records import Finding
from proverrl.verifier.body_place import find_offset

_MAX_ROUNDS = 8
_MAX_CHARACTERS = 1000
_NUMBER = re.compile(r"int|nat|real|bool|char|bv\d+|ORDINAL")
_ARRAY = re.compile(r"array(?:[2-9]|[1-9]\d+)?\??(?![\w'?])")
_REFERENCE = re.compile(r"array\d*|[\w'?]+\?")
_WORD = re.compile(r"[\w'?]+")
_NAME = re.compile(r"(?:[\w'?]+\.)*([\w'?]+)")
_FIRST_SIGN = re.compile(r"[^\w'?.]")
_SIGN = re.compile(r"[\w'?.]+|-->|->|~>|[^\s\w]")
_INNERMOST = re.compile(r"([\w'?]+)<([^<>]*)>")
_WITH_ARGUMENTS = re.compile(r"([\w'?]+)<")

_BUILT_IN = COLLECTIONS | {"string", "object"}
_OPENED = "importopened"

Span = tuple[int, int]


class _TypeNames(NamedTuple):
    """Names of types that may be part of others, or others of them (``related``); of these the
    classes and traits, and those that several modules declare; of types whose arguments may be part
    of others, as their values are (``covariant``), and of those whose values are of the types with
    wider arguments, too, though Dafny does not say so; what each synonym stands for; and all that
    are declared, where the standard libraries declare others (else None)."""

    related: frozenset[str]
    references: frozenset[str]
    ambiguous: frozenset[str]
    covariant: frozenset[str]
    transparent: frozenset[str]
    synonyms: Mapping[str, str]
    declared: frozenset[str] | None = None

    def knows(self, found: str) -> bool:
        """Whether each name in a type is that of one type of the text."""
        words = {word.removesuffix("?") for word in _WORD.findall(found)}
        if not self.ambiguous.isdisjoint(words):
            return False
        return self.declared is None or all(
            word in self.declared or _NUMBER.fullmatch(word) or _ARRAY.fullmatch(word)
            for word in words - _BUILT_IN
        )


class Mixes(NamedTuple):
    """What of a program may mix values of different types (``findings``), or is to be proved once
    more: its text in which nothing is selected from what has an inferred type (``spelled``, None
    where there is no such thing), and a place for what is found then."""

    findings: list[Finding]
    spelled: WrittenText | None = None
    selection: Token | None = None


async def find_mixed_types(
    process: DafnyProcess,
    program: ParsedProgram,
    places: Container[int],
    *,
    as_ghost: bool = False,
) -> Mixes:
    """What at these places of a verified program may mix values of different types; ``as_ghost``
    as for ``ask_value_types``."""
    if not has_related_types(program):
        return Mixes([])
    mixes, calls = _list_mixes(program), _list_generic_calls(program)
    asked = {place: [mixed.whole, *mixed.values] for place, mixed in mixes.items()} | calls
    asked = {place: spans for place, spans in asked.items() if place in places}
    partial = _name_partial(program)
    untyped = Surroundings((program,)).untyped | partial
    seen = [span for span in program.selections if span[1] in places]
    seen += [span for span in program.matched if span[0] in places]
    selected = [span for span in seen if _is_inferred(program, span, untyped)]
    if not (asked or selected):
        return Mixes([])
    names = _sort_types(program)
    values = {span for span in selected if not _is_path(program, span)}
    spans = sorted(values.union(*asked.values()))
    told = await _ask_types(process, program, spans, as_ghost=as_ghost)
    types = {span: _resolve_synonyms(found, names) for span, found in told.items()}

    def is_sound(place: int) -> bool:
        found = [types.get(span, "") for span in asked[place]]
        if place not in mixes:
            return _are_apart(found, names)
        # Where something is selected, Dafny chooses the type before it knows all.
        whole = "" if _is_selected_from(program, mixes[place].whole[1]) else found[0]
        return _is_of_one_type(whole, found[1:], names)

    # The cases of a match are said once.
    unsound = {tuple(asked[place]): place for place in sorted(asked)[::-1] if not is_sound(place)}
    if unsound:
        return Mixes([refuse_mix(program.tokens[place]) for place in sorted(unsound.values())])
    if not selected:
        return Mixes([])
    _, inferred = await process.ask_types(program)
    kinds: defaultdict[str, list[bool]] = defaultdict(list)
    for binding, found in zip(program.bindings, inferred, strict=True):
        name = program.tokens[binding.place].text
        is_open = binding.kind != "value" and _may_be_open(_resolve_synonyms(found, names), names)
        # The type of a name in a case is that of what is matched.
        kinds[name] += [bool(found) or binding.place in program.case_names] * is_open

    def find_open(span: Span) -> list[bool]:
        """Of each type that may be open, whether it can be written out."""
        if span in values:
            return [bool(types.get(span))] * _may_be_open(types.get(span, ""), names)
        name = program.tokens[span[0]].text
        return [False] if name in partial else kinds[name]

    found_open = {span: can for span in selected if (can := find_open(span))}
    if not found_open:
        return Mixes([])
    if unknown := [span for span, can in found_open.items() if not all(can)]:
        return Mixes([refuse_mix(program.tokens[end]) for _, end in unknown])
    spelled = _spell_types(program, inferred, told, [*found_open])
    return Mixes([], spelled, program.tokens[next(iter(found_open))[1]])


def _name_partial(program: ParsedProgram) -> frozenset[str]:
    """The variables that are declared with types that leave out arguments; of a parameter these are
    type parameters."""
    formals = {name for _, _, name in program.formals}
    return frozenset(
        program.tokens[name].text
        for name, span in program.typed.items()
        if name not in formals
        and any(leaves_out_arguments(program, place) for place in range(*span))
    )


def _is_path(program: ParsedProgram, span: Span) -> bool:
    texts = [token.text for token in program.tokens[slice(*span)]]
    return len(texts) % 2 == 1 and all(text == "." for text in texts[1::2])


def _is_inferred(program: ParsedProgram, span: Span, untyped: Container[str]) -> bool:
    """False for ``a.b`` with an ``a`` that is declared with a type, or a module."""
    return not _is_path(program, span) or program.tokens[span[0]].text in untyped


def _may_be_open(found: str, names: _TypeNames) -> bool:
    """Whether Dafny may choose arguments of this type for a member before it knows all."""
    has_arguments = "<" in found or "(" in found
    return not found or (has_arguments and not (_ARRAY.match(found) or _is_alone(found, names)))


def _spell_types(
    program: ParsedProgram, inferred: Sequence[str], told: Mapping[Span, str], spans: Sequence[Span]
) -> WrittenText:
    """The text with the types of all variables, and of these values, which are bound."""
    modules = _list_modules(program)
    insertions: list[tuple[int, int, str]] = []
    for binding, found in zip(program.bindings, inferred, strict=True):
        if found and binding.kind != "value" and binding.place not in program.case_names:
            kind = _qualify(program, modules, found, binding.place)
            is_lambda = binding.kind == "lambda"
            end = program.end(binding.place)
            insertions += [(program.places[binding.place], 0, "(")] * is_lambda
            insertions.append((end, 0, f": {kind}{')' * is_lambda}"))
    for start, end in spans:
        if found := told.get((start, end), ""):
            kind = _qualify(program, modules, found, start)
            first, last = program.places[start], program.end(end - 1)
            insertions.append((first, -last, f"(var spelled: {kind} := ("))
            insertions.append((last, -first, "); spelled)"))
    return insert(program.text, [(place, text) for place, _, text in sorted(insertions)])


def _list_modules(program: ParsedProgram) -> list[tuple[str, Element]]:
    """The modules by their names with those around them, the outer ones first."""

    def list_inner(before: str, element: Element) -> Iterator[tuple[str, Element]]:
        for inner in (inner for slot in element.slots for inner in slot.elements):
            if inner.word == "module":
                name = f"{before}{inner.name}"
                yield name, inner
                yield from list_inner(f"{name}.", inner)

    return [("", program.root), *list_inner("", program.root)]


def _qualify(
    program: ParsedProgram, modules: Sequence[tuple[str, Element]], kind: str, place: int
) -> str:
    """A type that Dafny tells, with its module before each name that is declared in one which is
    neither that of the place nor opened there."""
    own, around = [(n, m) for n, m in modules if m.start <= place < m.end or not n][-1]
    inside = [element for slot in around.slots for element in slot.elements]
    imports = ["".join(t.text for t in program.tokens[e.start : e.end]) for e in inside]
    opened = {text.removeprefix(_OPENED).rpartition("=")[2] for text in imports if _OPENED in text}
    paths = {
        element.name: name
        for name, module in modules
        for slot in module.slots
        for element in slot.elements
        if name not in ("", own, *opened)
    }
    here = {element.name for element in inside}

    def qualify(name: re.Match[str]) -> str:
        is_far = name[0] in paths.keys() - here
        return f"{paths[name[0]]}.{name[0]}" if is_far else name[0]

    return _NAME.sub(qualify, kind)


def _list_mixes(program: ParsedProgram) -> dict[int, Mixed]:
    """The sums and conditionals that may be of any type, by the place of a sign of each."""
    return {
        place: mixed
        for place, mixed in program.mixed.items()
        if not any(_is_literal(program.tokens[slice(*span)]) for span in mixed.values)
    }


def _list_generic_calls(program: ParsedProgram) -> dict[int, list[Span]]:
    """Start and end of the arguments of calls for which Dafny chooses types, by the place of the
    parenthesis."""
    tokens = program.tokens
    generic = {">"}
    for element in list_elements(program.root):
        head = [token.text for token in tokens[element.named : element.named + 2]]
        if head == [element.name, "<"]:
            places = {p for p in program.constructor_places if element.start <= p < element.end}
            generic |= {element.name, *(tokens[place].text for place in places)}
    calls = (call for call in program.calls if call[0] in generic and len(call[2]) > 1)
    return {place: values for _, place, values in calls}


def _is_literal(tokens: Sequence[Token]) -> bool:
    return len(tokens) == 1 and (tokens[0].kind == "number" or tokens[0].text in ("true", "false"))


def _sort_types(program: ParsedProgram) -> _TypeNames:
    """Sort the types that a program declares."""
    related = {"object", "int", "nat"}
    references = {"array", "array2", "array3"}
    covariant = set(COLLECTIONS)
    others: set[str] = set()
    synonyms = {}
    elements = list(list_elements(program.root))
    declared = Counter(e.name for e in elements if e.word in TYPES)
    declared.update({name for own in program.parameters.values() for name in own})
    is_foreign = any(token.text == "Std" for token in program.tokens)
    for element in elements:
        words = [token.text for token in program.tokens[element.start : element.end]]
        is_plain = words[:3] == ["type", element.name, "="] and "|" not in words
        if is_plain and declared[element.name] == 1:
            synonyms[element.name] = "".join(words[3:])
        elif element.word == "type":
            # Parameters are known by the name of their type alone.
            is_only = declared[element.name] == 1
            own = program.parameters.get(element.name, ()) if is_only else ()
            related.update({*words} - {*own})
        elif element.word in ("class", "trait"):
            references.add(element.name)
        elif "extends" in words:
            related.add(element.name)
        is_datatype = element.word in ("datatype", "codatatype")
        is_covariant = is_datatype and not is_invariant(program, element)
        (covariant if is_covariant else others).add(element.name)
    related |= references
    while based := {w for name in related & synonyms.keys() for w in _WORD.findall(synonyms[name])}:
        if based <= related:
            break
        related |= based
    # Another module may declare the name, too.
    covariant -= others
    only = {name for name in others if declared[name] == 1}
    return _TypeNames(
        related=frozenset(related),
        references=frozenset(references),
        ambiguous=frozenset(name for name in related if declared[name] > 1),
        covariant=frozenset(covariant),
        transparent=_find_transparent(program, covariant, only if not is_foreign else ()),
        synonyms=synonyms,
        declared=frozenset(declared) if is_foreign else None,
    )


def _find_transparent(
    program: ParsedProgram, covariant: Set[str], names: Iterable[str]
) -> frozenset[str]:
    """Datatypes of these names that hold their arguments in no function, array or class."""
    held: defaultdict[str, set[str]] = defaultdict(set)
    for part in program.parts:
        held[part.owner] |= {token.text for token in program.tokens[part.start : part.end]}
    words = {e.name for e in list_elements(program.root) if e.word in ("datatype", "codatatype")}
    found = words.intersection(names)
    while opaque := {
        name
        for name in found
        if not (held[name] & program.parameters.keys() <= found | covariant)
        or any(word in ARROWS or _ARRAY.fullmatch(word) for word in held[name])
    }:
        found -= opaque
    return frozenset(found)


async def _ask_types(
    process: DafnyProcess, program: ParsedProgram, spans: Iterable[Span], *, as_ghost: bool
) -> Mapping[Span, str]:
    """The types that Dafny infers; what has none by itself, such as ``[]``, is left out."""
    spans = list(spans)
    text, insertions = _divide_constructors(program, spans)
    found = await _ask_types_in(process, program, spans, text, insertions, as_ghost=as_ghost)
    if insertions and not found:
        found = await _ask_types_in(process, program, spans, program.text, [], as_ghost=as_ghost)
    return found


async def _ask_types_in(
    process: DafnyProcess,
    program: ParsedProgram,
    spans: Sequence[Span],
    text: str,
    insertions: Sequence[Insertion],
    *,
    as_ghost: bool,
) -> Mapping[Span, str]:
    """The types in this text of the program with these insertions."""
    places = {(program.places[start], program.end(end - 1)): (start, end) for start, end in spans}
    written = insert(text, insertions)

    def move(place: int) -> int:
        return place + sum(len(piece) for start, piece in insertions if start <= place)

    for _ in range(_MAX_ROUNDS):
        moved = [(move(start), move(end)) for start, end in places]
        answer = await process.ask_value_types(written.text, moved, as_ghost=as_ghost)
        reply, types = written.restore(answer[0]), answer[1]
        errors = [message for message in reply.messages if message.kind == "error"]
        if not errors:
            return dict(zip(places.values(), types, strict=True))
        num_places = len(places)
        for error in errors:
            at = find_offset(program.text, error.line, error.column)
            around = [place for place in places if place[0] <= at < place[1]]
            before = [place for place in places if place[1] <= at]
            if around:
                del places[max(around, key=lambda place: (place[0], -place[1]))]
            elif before:
                # Of what is assigned to, it is said behind the dot.
                del places[max(before, key=lambda place: (place[1], -place[0]))]
        if len(places) == num_places:
            break
    return {}


def _divide_constructors(
    program: ParsedProgram, spans: Sequence[Span]
) -> tuple[str, list[Insertion]]:
    """The program's text, and what lets the second part of each constructor begin where the first
    of these values stands: no variable can hold it in the first part. No type depends on that."""
    text, found = program.text, []
    for element in list_elements(program.root):
        steps = next((s.elements for s in element.slots if s.kind == "statements"), [])
        asked = [s.start for s in steps if any(s.start <= start < s.end for start, _ in spans)]
        marks = [step for step in steps if step.word == "new"]
        if element.word == "constructor" and asked and all(m.start > asked[0] for m in marks):
            found.append((program.places[asked[0]], "new; "))
            for mark in marks:
                start, end = program.places[mark.start], program.end(mark.end - 1)
                text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text, found


def _is_selected_from(program: ParsedProgram, end: int) -> bool:
    while program.tokens[end].text == ")":
        end += 1
    return program.tokens[end].text in (".", "[", "(")


def _resolve_synonyms(found: str, names: _TypeNames) -> str:
    """The type without blanks and synonyms, those of synonyms too; ``""`` where it becomes too
    long, or names what may be one of several."""

    def resolve(name: re.Match[str]) -> str:
        return names.synonyms.get(name[1], name[0])

    found = "".join(found.split())
    for _ in names.synonyms:
        before, found = found, _NAME.sub(resolve, found)
        if found == before:
            break
        if len(found) > _MAX_CHARACTERS:
            return ""
    return found if names.knows(found) else ""


def _is_of_one_type(whole: str, types: Sequence[str], names: _TypeNames) -> bool:
    """Whether an expression of the type ``whole`` and its values of these types hold nothing that
    is of no such type. Not told is ``""``; a sum of which one operand is known has one value."""
    if any(found and _is_alone(found, names) for found in types):
        return True
    heads = {*_WITH_ARGUMENTS.findall(whole or next(iter(types), ""))}
    holds_all = heads <= names.covariant | names.transparent
    if whole and _is_unrelated(whole, names, wide="int" if holds_all else ""):
        return True
    if "" in types or len(types) < 2:
        return False
    wanted = whole or types[0]
    has_arrow = any(arrow in wanted for arrow in ARROWS)
    if not has_arrow and heads <= names.covariant:
        return all(_is_part(found, wanted, names) for found in types)
    return {*types} == {wanted} and _is_sure(wanted, names)


def _is_sure(found: str, names: _TypeNames) -> bool:
    """Whether all other arguments than those of collections, which hold what they are said to hold,
    and of arrays, where what is stored is checked, are of types that no other is a part of."""
    while part := _INNERMOST.search(found):
        head, inner = part.groups()
        is_checked = head in names.covariant or _ARRAY.fullmatch(head)
        if not is_checked and not _is_unrelated(inner, names):
            return False
        found = f"{found[: part.start()]}{inner}{found[part.end() :]}"
    return True


def _is_part(found: str, whole: str, names: _TypeNames) -> bool:
    """True if the second type is the first, or has wider ones in places of it."""
    if "object" in whole:
        # Whatever the arguments of its class are, it is an object.
        found = _INNERMOST.sub(
            lambda kind: kind[1] if kind[1] in names.references else kind[0], found
        )
    narrow, wide = _SIGN.findall(found), _SIGN.findall(whole)

    def is_part(one: str, other: str) -> bool:
        is_reference = one in names.references or bool(_ARRAY.fullmatch(one))
        is_wider = is_reference and other in ("object", f"{one}?")
        return one == other or (one, other) == ("nat", "int") or is_wider

    return len(narrow) == len(wide) and all(map(is_part, narrow, wide))


def _are_apart(types: Sequence[str], names: _TypeNames) -> bool:
    """Whether no choice of types for arguments of these types makes one of them another."""
    alike: defaultdict[str, set[str]] = defaultdict(set)
    for found in types:
        if not (found and _is_alone(found, names)):
            alike[_find_kind(found, names)].add(found)
    return "" not in types and all(len(found) == 1 for found in alike.values())


def _find_kind(found: str, names: _TypeNames) -> str:
    """The same for types that may be taken for each other."""
    if not any(arrow in found for arrow in ARROWS):
        return _FIRST_SIGN.split(found, maxsplit=1)[0]
    signs = _SIGN.findall(found)
    return " ".join(
        "*" if sign in ARROWS or sign in names.related or _REFERENCE.fullmatch(sign) else sign
        for sign in signs
    )


def _is_alone(found: str, names: _TypeNames) -> bool:
    """True for a number, and for a type of which, as of its arguments, no other is a part."""
    return bool(_NUMBER.fullmatch(found)) or _is_unrelated(found, names)


def _is_unrelated(found: str, names: _TypeNames, *, wide: str = "") -> bool:
    """``wide``: of this others are a part, and it is of none."""
    if any(arrow in found for arrow in ARROWS):
        return False
    words = _WORD.findall(found)
    return not any(_REFERENCE.fullmatch(word) for word in words) and not any(
        word in names.related and word != wide for word in words
    )
