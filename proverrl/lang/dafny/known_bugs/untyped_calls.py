"""Keeps Dafny 4 from what it believes of calls without the types of their arguments.

Flows in: what was read of a text. Flows out: the text without such induction, and the places of
such forall statements. Of the hypothesis of an automatic induction, ``forall y: T :: P(y) ==> Q``,
Dafny 4.11 believes for every y, be it of the type T or not, that P may be called of it (its issue
6366); so it does of ``forall y: T | P(y) { L(y); }``. A P of ``seq<nat>`` that ensures that no
element is negative then says so of a ``seq<int>``. Of lemmas whose precondition calls nothing the
induction stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from proverrl.lang.dafny.known_bugs.misjudged import Surroundings, list_elements
from proverrl.lang.dafny.syntax.cursor import is_name
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.syntax.plain import WrittenText, insert
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.reply import ReplyMessage
from proverrl.lang.dafny.syntax.tokens import Token, find_outer

_NO_INDUCTION = "{:induction false} "
"""Of several such attributes the last one counts."""
_SAID = (
    "no automatic induction here, since the precondition calls a function or names a constant and "
    "Dafny 4.11 then believes too much; call the lemma for what is smaller"
)


def limit_induction(text: str, *, trusts: bool = False) -> WrittenText:
    """The text without automatic induction in each lemma whose precondition calls something or
    names a constant; ``trusts`` as for ``read_program``. Raises ``GrammarError`` when it is not a
    program."""
    if "requires" not in text or not ("lemma" in text or "ghost" in text):
        return WrittenText(text, {})
    program = read_text(text, admitted=True, trusts=trusts)
    constants = _name_constants(program)
    lemmas = [
        element
        for element in list_elements(program.root)
        if _may_have_induction(program, element)
        and any(
            program.tokens[clause.start].text == "requires"
            and _calls(program, clause.start + 1, clause.end, constants)
            for slot in element.slots
            if slot.kind == "member-clauses"
            for clause in slot.elements
        )
    ]
    return insert(text, [(program.places[lemma.named], _NO_INDUCTION) for lemma in lemmas])


def _may_have_induction(program: ParsedProgram, element: Element) -> bool:
    """Of lemmas and ghost methods; methods that run have none, and get no note."""
    head = program.tokens[element.start : element.named]
    is_ghost = any(token.text == "ghost" for token in head)
    return element.word == "lemma" or (element.word == "method" and is_ghost)


def tell_limited(limited: WrittenText) -> Iterator[ReplyMessage]:
    """A note for each lemma whose induction was left out, at its name."""
    for line, places in limited.inserted.items():
        yield from (ReplyMessage("related", line, start + width, _SAID) for start, width in places)


def find_untyped(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """Forall statements that ensure what a lemma does, or assign, over a range with a call."""
    constants = frozenset[str]().union(*map(_name_constants, around.programs))
    for start, end in program.foralls:
        opened = find_outer(program.tokens, end - 2, step=-1)
        if start in program.ensuring or _assigns_element(program, start, opened):
            continue
        if _calls(program, start + 1, opened, constants):
            yield start


def _assigns_element(program: ParsedProgram, start: int, opened: int) -> bool:
    """True for ``a[i] := ...`` and ``c.f := ...`` of the only variable, from which Dafny concludes
    nothing about other values."""
    tokens = program.tokens
    start += 1 + (tokens[start + 1].text == "(")
    parts = find_outer(tokens, start, (",", "|", "{"))
    end = find_outer(tokens, opened + 1, (":=", ";", "}"))
    assigned = [token.text for token in tokens[opened + 1 : end]]
    name = tokens[start].text
    is_element = assigned[1:] == ["[", name, "]"] or assigned[:-1] == [name, "."]
    return tokens[parts].text != "," and is_element


def _name_constants(program: ParsedProgram) -> frozenset[str]:
    """The constants with a value, which may call functions of what they belong to."""
    return frozenset(
        element.name
        for element in list_elements(program.root)
        if element.word == "const"
        and any(token.text == ":=" for token in program.tokens[element.start : element.end])
    )


def _calls(program: ParsedProgram, start: int, end: int, constants: frozenset[str]) -> bool:
    tokens = program.tokens
    return any(
        tokens[place].text in constants
        or (tokens[place].text == "(" and _ends_callee(tokens[place - 1]))
        for place in range(start, end)
    )


def _ends_callee(token: Token) -> bool:
    # A number may name a part of a tuple.
    return token.text in ("]", ">", ")", "}", "seq") or token.kind == "number" or is_name(token)
