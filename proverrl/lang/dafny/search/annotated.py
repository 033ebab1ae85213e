"""Proof hints of whole programs that are pooled: each stands at its place in the problem's program.

Flows in: a program with hints, or hints; such a program with its verdict. Flows out: the hints,
whose texts begin with ``LINE:COLUMN``, the place in the problem's program before which they stand;
a program that holds hints; those in which something fails. Not pooled: what a hint declares, and
what speaks of that; programs that change more than their hints (they have none).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from proverrl.lang.dafny.audit.annotated import (
    Alignment,
    OurProgram,
    align,
    get_program_text,
    read_our_program,
)
from proverrl.lang.dafny.audit.bodies import refuse
from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.search.guesses import guess_hints, name_place
from proverrl.lang.dafny.search.states import (
    find_unknown,
    list_errors,
    offset,
    write_line,
)
from proverrl.lang.dafny.syntax.parsed import ElementSlot, ParsedProgram
from proverrl.lang.dafny.syntax.plain import SYMBOLS, write_file
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.reply import is_endless
from proverrl.lang.dafny.syntax.tokens import find_lines, find_places
from proverrl.lang.dafny.verify.walls.edited import find_word
from proverrl.lang.records import Finding, PooledHint, RefusedHints
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem, Verdict

_CONDITION = "guessed"
_FEW_HINTS = 6
_ASSERTED = re.compile(rf"assert {_CONDITION}\d+ == (\d+) ==> ")
_CLAUSES = ("loop-clauses", "member-clauses")


@dataclass(frozen=True, slots=True)
class _Placed:
    """A hint, and from where to where it stands in a body, in characters."""

    hint: PooledHint
    start: int
    end: int


def list_hints(problem: Problem, body: str) -> list[PooledHint]:
    """The hints of a body in its order, each once."""
    placed, _ = _read(problem, body)
    return list({one.hint.key: one.hint for one in placed}.values())


def list_added(problem: Problem, body: str) -> list[PooledHint]:
    """All that a program adds, with what it declares and what speaks of that."""
    body = write_file(body).text
    aligned = align(problem, body)
    added = () if isinstance(aligned, list) else _iter_added(body, aligned)
    return list({one.hint.key: one.hint for one in added}.values())


def pose(name: str, text: str) -> Problem:
    """A file as a problem: its text as it is audited, to be given back with hints. Raises
    ``ProblemError`` where that cannot be done."""
    problem = Problem(name, "dafny", ANNOTATE, "", f"{write_file(text).text}{HOLE}")
    read_our_program(problem, is_asked=True)
    return problem


def place(text: str, facts: Sequence[str]) -> list[tuple[int, int, str]]:
    """Line and column, from 1, in a file's own text before which each hint of its problem stands,
    and the hint."""
    return [(line + 1, column + 1, hint) for line, column, hint in _place(text, facts)]


def insert(text: str, facts: Sequence[str]) -> str:
    """A file's own text with hints of its problem."""
    return _insert(text, _place(text, facts))


def find_fault(problem: Problem, text: str) -> Verdict | None:
    """What of a file's text is more than its problem with hints; None where nothing is. The prover
    is asked about the file, too."""
    candidate = Candidate(problem, write_file(text).text)
    try:
        aligned = align(problem, candidate.body)
    except RecursionError:
        aligned = [Finding("syntax", "grammar", "nested too deeply", 1, 0)]
    return refuse(candidate, aligned) if isinstance(aligned, list) else None


def _place(text: str, facts: Sequence[str]) -> list[tuple[int, int, str]]:
    written, lines = write_file(text), text.split("\n")
    placed = []
    for line, column, hint in map(_split, facts):
        column = written.find_column(line + 1, column)
        # A word that is written for a symbol begins behind a blank, which has the symbol's place.
        is_symbol = SYMBOLS.get(lines[line][column - 1 : column], "").startswith(" ")
        placed.append((line, column - is_symbol, hint))
    return placed


def put_together(problem: Problem, facts: Sequence[str]) -> str:
    """The program with these hints, those of one place in the order in which they are given."""
    return _insert(get_program_text(problem), [_split(fact) for fact in facts])


def _insert(text: str, placed: Iterable[tuple[int, int, str]]) -> str:
    """A text with hints, each on a line of its own before a line and column from 0."""
    lines, starts = text.split("\n"), find_lines(text)
    end = "\r\n" if "\r\n" in text else "\n"
    grouped: dict[tuple[int, int], list[str]] = {}
    for line, column, hint in placed:
        grouped.setdefault((line, column), []).append(hint)
    for (line, column), hints in sorted(grouped.items(), reverse=True):
        before, at = lines[line][:column], starts[line] + column
        blank = before[: len(before) - len(before.lstrip())]
        rest = text[at:]
        written = "".join(f"{_indent(blank, hint, rest)}{_end(hint, end)}" for hint in hints)
        if before.strip():
            kept = text[:at].rstrip(" \t")
            text = f"{kept}{end}{written}{blank}{rest}"
        else:
            text = f"{text[: starts[line]]}{written}{text[starts[line] :]}"
    return text


def _end(hint: str, end: str) -> str:
    """A hint with its line ends; an empty line follows a declaration."""
    return hint.replace("\n", end) + end * (1 + ("\n" in hint))


def _indent(blank: str, hint: str, after: str) -> str:
    """The blanks before a hint: clauses, and what ends a block, stand deeper than what follows."""
    is_inner = after.startswith("}") or hint.startswith(("invariant ", "decreases "))
    return blank + "  " * is_inner


def begin(problem: Problem, facts: Sequence[str]) -> str:
    """That program up to the end of the last hint; nothing without hints."""
    if not facts:
        return ""
    line, column, _ = max(map(_split, facts))
    after = "\n".join(get_program_text(problem).split("\n")[line:])[column:]
    return put_together(problem, facts).removesuffix(after)


def find_refused(candidate: Candidate, verdict: Verdict) -> RefusedHints | None:
    """The hints in which something fails, and the loops and declarations that are not shown to end.
    What does not resolve is refuted. Nothing else is, since other hints stand before it."""
    placed, aligned = _read(candidate.problem, candidate.body)
    if aligned is None:
        return None
    refuted, failed, endless = set[str](), set[str](), set[str]()
    for error in list_errors(verdict):
        place = offset(candidate.body, error)
        hint = next((one.hint for one in placed if _holds(one, place)), None)
        if hint is not None:
            (failed if verdict.obligations else refuted).add(hint.key)
        elif place is not None and is_endless(error.message):
            endless |= {_find_endless(candidate.body, aligned, place)}
    return RefusedHints(frozenset(refuted), frozenset(failed), frozenset(endless))


def guess(problem: Problem, verdict: Verdict) -> list[list[PooledHint]]:
    """Hints that the text suggests where the bare program fails, in batches in which they should be
    pooled; what the grammar or the audit does not admit is left out."""
    errors = list_errors(verdict)
    endless = {error.line for error in errors if is_endless(error.message)}
    program = read_text(get_program_text(problem), admitted=True, trusts=True)
    batches = guess_hints(program, {error.line for error in errors}, endless)
    return [hints for batch in batches if (hints := _list_admitted(problem, batch))]


def _list_admitted(problem: Problem, facts: list[str]) -> list[PooledHint]:
    """Of one that is not admitted its halves are asked, since it spoils the whole."""
    hints = list_hints(problem, put_together(problem, facts))
    if hints or len(facts) < 2:
        return hints
    middle = len(facts) // 2
    parts = (_list_admitted(problem, part) for part in (facts[:middle], facts[middle:]))
    return [hint for part in parts for hint in part]


def assert_apart(problem: Problem, hints: Sequence[str]) -> str:
    """The program with these hints, and with assertions of what each invariant says before its loop
    and at the end of its body, under a condition of which nothing is known. Whatever fails is
    assumed behind it, so that without the condition one that fails would hide others. It is never
    proved, since one assertion says that the condition is false; empty where it would tell no more
    than the hints by themselves."""
    program = read_text(get_program_text(problem), admitted=True, trusts=True)
    words = read_our_program(problem, is_asked=True).words
    loops = {}
    for element in list_elements(program.root):
        kinds = {slot.kind: slot for slot in element.slots}
        # The counter of ``for`` is not known outside, and is one ahead at the end of the body.
        if (
            find_word(program, element) == "while"
            and "loop-clauses" in kinds
            and "statements" in kinds
        ):
            anchor = program.tokens[kinds["loop-clauses"].end]
            places = (element.start, kinds["statements"].end)
            loops[name_place(anchor)] = [name_place(program.tokens[p]) for p in places]
    asked: dict[str, list[str]] = {}
    for number, hint in enumerate(hints, start=1):
        where, _, text = hint.partition(" ")
        word, _, said = text.partition(" ")
        for spot in loops.get(where, ()) if word == "invariant" else ():
            asked.setdefault(spot, []).append(f"== {number} ==> ({said.rstrip('; ')});")
    if sum(map(len, asked.values())) < 2 * _FEW_HINTS:
        return ""
    facts = list(hints)
    for number, (spot, asserted) in enumerate(asked.items()):
        name = f"{_CONDITION}{number}"
        if name in words:
            return ""
        # No hint has the number 0, which the first assertion excludes for those behind it.
        facts.append(f"{spot} ghost var {name}: int :| 0 <= {name};")
        facts += [f"{spot} assert {name} {text}" for text in ("!= 0;", *asserted)]
    return put_together(problem, facts)


def list_false(body: str, verdict: Verdict) -> set[int]:
    """The places among the hints of what fails in such a program, where each has a line."""
    lines = body.split("\n")
    failing = (lines[e.body_line - 1].strip() for e in list_errors(verdict) if e.body_line)
    return {int(found[1]) - 1 for line in failing if (found := _ASSERTED.match(line))}


def list_failing(body: str, verdict: Verdict) -> dict[str, int]:
    """The declarations of a program in which something fails, by their names with those of the
    types and modules around them, and their lines."""
    written = write_file(body).text
    program, starts = read_text(written, admitted=True, trusts=True), find_lines(written)
    failing: dict[str, int] = {}
    for error in list_errors(verdict):
        if error.line < 1:
            continue  # It is about the whole, such as a limit.
        spot = starts[error.line - 1] + max(0, error.column)
        name, first = _find_named(program, spot) or (f"line {error.line}", error.line)
        failing.setdefault(name, first)
    return failing


def find_holders(problem: Problem, facts: Sequence[str]) -> list[str]:
    """The names of the declarations that hints stand in, as ``list_failing`` has them."""
    text = get_program_text(problem)
    program, starts = read_text(text, admitted=True, trusts=True), find_lines(text)
    spots = (starts[line] + column for line, column, _ in map(_split, facts))
    found = (_find_named(program, spot) for spot in spots)
    return [one[0] if one else "" for one in found]


def _find_named(program: ParsedProgram, spot: int) -> tuple[str, int] | None:
    """The innermost declaration around a place in characters, with those around it, and its
    line."""
    place = bisect_right(program.places, spot) - 1
    around = [e for e in list_elements(program.root) if e.named >= 0 and e.start <= place < e.end]
    name = ".".join(program.find_name(element) or element.word for element in around)
    return (name, program.tokens[around[-1].start].line) if around else None


def is_covered(problem: Problem, body: str) -> bool:
    """True if all that a body adds is pooled."""
    placed, aligned = _read(problem, body)
    return aligned is not None and len(placed) == len(aligned.added)


def _read(problem: Problem, body: str) -> tuple[list[_Placed], Alignment | None]:
    """The hints of a body that are pooled; none and None of what is not the program with hints."""
    aligned = align(problem, body)
    if isinstance(aligned, list):
        return [], None
    return list(_iter_placed(problem, body, aligned)), aligned


def _iter_placed(problem: Problem, body: str, aligned: Alignment) -> Iterator[_Placed]:
    added = _iter_added(body, aligned)
    for one, placed in zip(aligned.added, added, strict=True):
        words = [token.text for token in aligned.theirs[one.start : one.end]]
        # What is said of a name of its own has no meaning in other bodies.
        names = one.added or one.local or one.assigned
        if not names and not find_unknown(words, problem):
            yield placed


def _iter_added(body: str, aligned: Alignment) -> Iterator[_Placed]:
    tokens, places = aligned.theirs, find_places(body, aligned.theirs)
    ours_of = _turn(aligned.matched)
    for added in aligned.added:
        words = [token.text for token in tokens[added.start : added.end]]
        start, end = places[added.start], places[added.end - 1] + len(words[-1])
        text = body[start:end]
        line = text if added.added else write_line(text)
        anchor = next((ours_of[i] for i in range(added.end, len(tokens)) if i in ours_of), -1)
        token = aligned.ours.tokens[anchor]
        where = name_place(token)
        measure = _find_slot(aligned.ours, anchor) if words[0] == "decreases" else ""
        is_clause = words[0] in ("invariant", "decreases")
        key = f"{where} {' '.join(words[: len(words) - (is_clause and words[-1] == ';')])}"
        rank = int(words[0] == "invariant" and "[" in words)
        declares = added.added.text if added.added else ""
        hint = PooledHint(f"{where} {line}", key, rank, measure, declares)
        yield _Placed(hint, start, end)


def _holds(placed: _Placed, place: int | None) -> bool:
    return place is not None and placed.start <= place < placed.end


def _turn(matched: Mapping[int, int]) -> dict[int, int]:
    """Places of our tokens by those of theirs."""
    return {their_place: our_place for our_place, their_place in matched.items()}


def _iter_slots(ours: OurProgram) -> Iterator[tuple[int, int, ElementSlot]]:
    """Places where measures may stand, with the places of the loop or declaration that they belong
    to."""
    for element in list_elements(ours.root):
        for slot in element.slots:
            if slot.kind in _CLAUSES:
                yield element.start, element.end, slot


def _find_slot(ours: OurProgram, anchor: int) -> str:
    """The name of the loop or declaration whose clauses end at our token ``anchor``, or hold it."""
    return next(
        str(start) for start, _, slot in _iter_slots(ours) if slot.start <= anchor <= slot.end
    )


def _find_endless(body: str, aligned: Alignment, place: int) -> str:
    """The name of the loop that begins at a place of the body, or else of the declaration around
    it; empty where there is none."""
    places = find_places(body, aligned.theirs)
    their_place = max((i for i, start in enumerate(places) if start <= place), default=0)
    ours = _turn(aligned.matched).get(their_place, -1)
    around = [
        (start, slot.kind)
        for start, end, slot in _iter_slots(aligned.ours)
        if start == ours or (slot.kind == "member-clauses" and start <= ours < end)
    ]
    return str(max(around)[0]) if around else ""


def _split(fact: str) -> tuple[int, int, str]:
    """Line and column, both from 0, and the hint."""
    where, _, hint = fact.partition(" ")
    line, column = map(int, where.split(":"))
    return line - 1, column - 1, hint
