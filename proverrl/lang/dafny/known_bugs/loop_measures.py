"""Finds measures that Dafny does not compare, or compares with another state.

Flows in: what was read of a program or of a body, and of the program around it. Flows out:
findings. Where a part of a loop's ``decreases`` is a map without end or a function, Dafny 2.3 takes
the loop for one that ends, whatever its body does: ``while true decreases imap[1 := 2] { }`` proves
false. Measures of methods, functions and recursion are checked. The type may come from anywhere (a
synonym, a field, a function used as a value), so the rule asks for the words without which no value
of such a type exists, and then refuses every part of a measure that is not evidently a number or a
set.
The measure of a two-state lemma or function is compared, in calls that it makes, with that of the
*earlier* state: where it reads the heap, the lemma may call itself with the same arguments.
Not handled here: bit vectors (``believed``), ``decreases *`` (the grammars).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from proverrl.lang.dafny.known_bugs.misjudged import Surroundings, list_elements
from proverrl.lang.dafny.syntax.cursor import ARROWS, is_name
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.tokens import CLOSERS, OPENERS, Token, find_outer
from proverrl.lang.records import Finding

# Behind these a name is no value.
DECLARES = frozenset(
    "function predicate copredicate method lemma colemma reveal fuel provides reveals".split()
)
# The server dies of a set without end; the other two are believed.
_UNORDERED = frozenset(("imap", "iset", *ARROWS))
_CLAUSES = ("invariant", "decreases", "modifies", ";", "")
# Dafny has these for numbers and sets only. (``<`` may be a bracket of types.)
_PLAIN_SIGNS = frozenset("-*/%")
# What these begin, or stand in, may hold such a sign and be of any type.
_ENDLESS = frozenset("=> :: := if match var forall exists assert calc imap iset map set".split())


def find_unordered_measures(program: ParsedProgram, around: Surroundings) -> Iterator[Finding]:
    """Parts of measures that may be of a type without an order."""
    measures = [(s, e) for s, e, is_loop in list_clauses(program, "decreases") if is_loop]
    if not measures or not any(_has_unordered(p, around) for p in around.programs):
        return
    for start, end in measures:
        for part in _split(program.tokens[start:end]):
            if not _is_plain(part):
                message = (
                    "Dafny does not compare measures that are maps without end or functions, and "
                    "this program has some: measure the loop by a difference of numbers or sets"
                )
                yield part[0].refuse("cheat", "unordered-measure", message, older=True)


def find_two_state_measures(program: ParsedProgram) -> Iterator[Finding]:
    """Measures of two-state lemmas and functions that say more than numbers, signs and parameters,
    whose state is not the earlier one; where none is written, what is read is one."""
    tokens = program.tokens
    for element in list_elements(program.root):
        head = tokens[element.start : element.named + 1]
        if "twostate" not in [token.text for token in head]:
            continue
        own = {"this"} | {
            tokens[place].text
            for _, _, place in program.formals
            if element.start < place < element.end
        }
        clauses = [
            c for slot in element.slots if slot.kind == "member-clauses" for c in slot.elements
        ]
        measures = [c for c in clauses if tokens[c.start].text == "decreases"]
        for clause in measures or [c for c in clauses if tokens[c.start].text == "reads"]:
            inside = range(clause.start + 1, clause.end)
            if not all(_is_fixed(tokens, place, own) for place in inside):
                message = (
                    "Dafny compares the measure of a two-state lemma or function with that of the "
                    "earlier state; measure it by parameters alone ('decreases n')"
                )
                yield tokens[clause.start].refuse("cheat", "two-state-measure", message)


def _is_fixed(tokens: Sequence[Token], place: int, own: Container[str]) -> bool:
    """True for a number, a sign that selects nothing, and a parameter that is not called."""
    token = tokens[place]
    if token.kind == "word":
        return token.text in own and tokens[place + 1].text not in ("(", "<", "@")
    return token.kind == "number" or token.text not in (".", "[", "]", "::", "=>")


def list_clauses(program: ParsedProgram, *words: str) -> Iterator[tuple[int, int, bool]]:
    """Beginnings and ends of such clauses, and whether they are of loops; in a body of clauses
    they are no elements."""
    tokens = program.tokens
    ends = {}
    members = set()
    for element in (program.root, *list_elements(program.root)):
        for slot in element.slots:
            for clause in slot.elements:
                ends[clause.start] = clause.end
                if slot.kind == "member-clauses":
                    members.add(clause.start)
    for place, token in enumerate(tokens):
        if token.kind == "word" and token.text in words:
            end = ends.get(place) or find_outer(tokens, place + 1, _CLAUSES)
            yield place + 1, end, place not in members


def _split(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """The parts of a measure."""
    parts = []
    start = 0
    while start < len(tokens):
        end = find_outer(tokens, start, (",", ";"))
        parts.append(tokens[start:end])
        start = end + 1
    return [part for part in parts if part]


def _is_plain(part: Sequence[Token]) -> bool:
    """True if a part is a number or a set by its form: a difference, a product, a size."""
    depth, outer = 0, []
    for token in part:
        depth -= token.text in CLOSERS
        if depth == 0:
            outer.append(token.text)
        depth += token.text in OPENERS
    if not _ENDLESS.isdisjoint(outer):
        return False
    is_size = outer[0] == outer[-1] == "|" and outer.count("|") == 2
    return is_size or part[0].kind == "number" or not _PLAIN_SIGNS.isdisjoint(outer[1:])


def _has_unordered(program: ParsedProgram, around: Surroundings) -> bool:
    """True if a type without an order is written, or a value of one: a lambda, or a function that
    is not called."""
    tokens = program.tokens
    functions = {element.name for _, element in around.functions}
    for place, token in enumerate(tokens):
        if token.text in _UNORDERED or (token.text == "=>" and not _ends_case(tokens, place)):
            return True
        following = tokens[place + 1].text if place + 1 < len(tokens) else ""
        before = tokens[place - 1].text if place else ""
        is_value = is_name(token) and token.text in functions and following != "("
        if is_value and before not in DECLARES:
            return True
    return False


def _ends_case(tokens: Sequence[Token], place: int) -> bool:
    """True if an arrow belongs to a ``case``."""
    start = find_outer(tokens, place - 1, ("=>", ";", "case"), -1)
    return start >= 0 and tokens[start].text == "case"
