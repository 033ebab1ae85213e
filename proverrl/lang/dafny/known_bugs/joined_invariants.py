"""Writes the invariants of a loop as one conjunction where a later one needs an earlier one.

Flows in: the file that would be sent to Dafny. Flows out: the file that is sent, and the way back
from its columns. At the end of a loop's body Dafny 2.3 believes that every invariant may be
evaluated, before it checks that the first still holds (its issue 1812): after ``invariant r > 0``
a second one may call a function that requires ``r > 0`` of an ``r`` that is 0. In a conjunction it
believes this of the right side only where the left side holds. The conjunction is nested to the
right and each part is in parentheses, because Dafny forgets a part of ``a && b && f(x)`` (600).
For the same reason operands of ``&&`` and of ``||`` get parentheses, two at a time from the left,
where a partial function is called beside them: of ``a && b ==> f(x)`` Dafny believes where ``b``
holds that ``f(x)`` may be called, of ``(a && b) ==> f(x)`` not (600).
A calc that ends in ``true`` or begins with ``false`` gets ``==`` after its word where all its steps
have an operator. Without it Dafny infers ``<==``, and believes of some lines that they can be
evaluated.
Lines stay, and so do columns but for the parentheses.
"""

from __future__ import annotations

from collections.abc import Iterator

from proverrl.lang.dafny.known_bugs.misjudged import Surroundings, list_elements
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.syntax.plain import Insertion, WrittenText, insert
from proverrl.lang.dafny.syntax.program import read_text


def join_invariants(text: str, *, admitted: bool = False, trusts: bool = False) -> WrittenText:
    """The file with its invariants joined where that is due; ``admitted`` and ``trusts`` as
    for ``read_program``.

    Raises ``GrammarError`` when the file is not a program, or when an invariant that has to be
    joined has an attribute or does not follow the one before it.
    """
    is_nested = admitted and ("&&" in text or "||" in text)
    if text.count("invariant") < 2 and not is_nested and "calc" not in text:
        return WrittenText(text, {})
    program = read_text(text, admitted=admitted, trusts=trusts)
    risky = _find_risky(program)
    kept = list(text)
    insertions: list[Insertion] = []
    for loop in _list_loops(program):
        last = max((i for i, e in enumerate(loop) if _holds(e, risky)), default=0)
        if last > 0:
            insertions += _join(program, loop[: last + 1], kept)
    insertions += _nest(program, risky)
    insertions += [(program.places[brace], "== ") for brace in program.reversed_calcs]
    return insert("".join(kept), insertions)


def _find_risky(program: ParsedProgram) -> set[int]:
    """Places that may be evaluated only under a condition and are believed to be what they say:
    a call of a function that is partial or belongs to an object."""
    around = Surroundings((program,))
    members = {element.name for _, element in around.functions}
    return {
        place
        for place, token in enumerate(program.tokens)
        if token.text in around.partial
        or (token.text in members and program.tokens[place - 1].text == ".")
    }


def _nest(program: ParsedProgram, risky: set[int]) -> Iterator[Insertion]:
    """The parentheses of conjunctions and disjunctions beside which something risky stands."""
    for chain in program.chains:
        if risky.isdisjoint(range(chain[0][0], chain[-1][0])):
            continue
        run = 0
        for number, (_, operator, _) in enumerate(chain[1:], start=1):
            if operator in ("&&", "||") and (run == number - 1 or operator == chain[run + 1][1]):
                continue
            if number - run > 1:
                yield program.places[chain[run][0]], "(" * (number - run - 1)
                for behind in range(run + 2, number + 1):
                    yield program.end(chain[behind][2] - 1), ")"
            run = number


def _holds(element: Element, places: set[int]) -> bool:
    return not places.isdisjoint(range(element.start, element.end))


def _list_loops(program: ParsedProgram) -> Iterator[list[Element]]:
    """The invariants of each loop."""
    for element in list_elements(program.root):
        for slot in element.slots:
            if slot.kind == "loop-clauses":
                tokens = program.tokens
                yield [e for e in slot.elements if tokens[e.start].text == "invariant"]


def _join(program: ParsedProgram, clauses: list[Element], kept: list[str]) -> Iterator[Insertion]:
    """The parentheses; ``kept``, the characters of the text, gets ``&&`` for ``invariant``."""
    tokens, places = program.tokens, program.places
    for number, clause in enumerate(clauses):
        first, end = clause.start + 1, clause.end
        is_last = number == len(clauses) - 1
        if number and clauses[number - 1].end != clause.start:
            message = "write the invariants of this loop one after the other"
            raise GrammarError(tokens[clause.start].refuse("syntax", "grammar", message))
        if tokens[first].text == "{" and tokens[first + 1].text == ":":
            message = "this invariant may not have an attribute"
            raise GrammarError(tokens[first].refuse("syntax", "grammar", message))
        if tokens[end - 1].text == ";":
            end -= 1
            kept[places[end]] = " "
        if number:
            start = places[clause.start]
            kept[start : start + len("invariant")] = "&&".ljust(len("invariant"))
        yield places[first], "((" if number and not is_last else "("
        yield program.end(end - 1), ")" * (max(1, len(clauses) - 1) if is_last else 1)
