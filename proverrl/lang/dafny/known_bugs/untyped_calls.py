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
from proverrl.lang.dafny.syntax.tokens import find_outer

_NO_INDUCTION = "{:induction false} "
"""Of several such attributes the last one counts."""
_SAID = (
    "no automatic induction here, since the precondition calls a function and Dafny 4.11 "
    "then believes too much; call the lemma for what is smaller"
)


def limit_induction(text: str, *, trusts: bool = False) -> WrittenText:
    """The text without automatic induction in each lemma whose precondition calls something;
    ``trusts`` as for ``read_program``. Raises ``GrammarError`` when it is not a program."""
    if "requires" not in text or not ("lemma" in text or "ghost" in text):
        return WrittenText(text, {})
    program = read_text(text, admitted=True, trusts=trusts)
    lemmas = [
        element
        for element in list_elements(program.root)
        if _may_have_induction(program, element)
        and any(
            program.tokens[clause.start].text == "requires"
            and _calls(program, clause.start + 1, clause.end)
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
    """Forall statements that ensure what a lemma does, over a range with a call."""
    tokens = program.tokens
    for start, end in program.foralls:
        opened = find_outer(tokens, end - 2, step=-1)
        is_written = any(start < promise < opened for promise, _ in program.promises)
        first = tokens[find_outer(tokens, opened + 1, (":=", ";", "}"))].text
        if not is_written and first != ":=" and _calls(program, start + 1, opened):
            yield start


def _calls(program: ParsedProgram, start: int, end: int) -> bool:
    tokens = program.tokens
    return any(
        tokens[place].text == "("
        and (tokens[place - 1].text in ("]", ">", ")") or is_name(tokens[place - 1]))
        for place in range(start + 1, end)
    )
