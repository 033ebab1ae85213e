"""Takes the proof hints out of a verified Dafny program, so that they can be asked for.

Flows in: a program. Flows out: the same text without its loop invariants, loop measures,
assertions, calculations and reveal statements. Contracts, lemmas, calls of lemmas and ghost
variables stay. Not covered (refused): programs outside the grammar of ``syntax.program``.
"""

from __future__ import annotations

from collections.abc import Iterator

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.hints import read_hint
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.tokens import Token, read_file, scan_any
from proverrl.types import Problem

DAFNY_4 = "dafny4"
"""The value of ``metadata.dialect`` of programs that Dafny 2.3 cannot read."""

_HINTS = {
    "loop-clauses": ("invariant", "decreases"),
    "statements": ("assert", "calc", "reveal"),
    "steps": ("assert", "calc", "reveal"),
}


def strip_hints(text: str) -> tuple[str, int]:
    """The program without its hints, and how many there were.

    Raises ``ProblemError`` when it cannot be read.
    """
    hints = find_hints(text)
    for start, end in reversed(hints):
        text = cut_lines(text, start, end)
    return text, len(hints)


def find_hints(text: str) -> list[tuple[int, int]]:
    """From where to where each hint of a program stands, in characters. Raises ``ProblemError``
    when it cannot be read."""
    tokens, findings = read_file(text)
    if findings:
        raise ProblemError(f"line {findings[0].line}: {findings[0].message}")
    program = read_whole(text)
    hints = _iter_hints(tokens, program.root)
    return [(program.places[hint.start], program.end(hint.end - 1)) for hint in hints]


def read_whole(text: str) -> ParsedProgram:
    """A whole program; raises ``ProblemError`` when it cannot be read."""
    try:
        return read_text(text)
    except GrammarError as error:
        reason = f"line {error.finding.line}: outside the Dafny that can be read: {error}"
        raise ProblemError(reason) from error


def is_dafny_4(problem: Problem) -> bool:
    """True if a problem is said to be written in Dafny 4, or holds what Dafny 2.3 does not have."""
    is_said = problem.metadata.get("dialect") == DAFNY_4
    return is_said or bool(explain_dafny_4(problem.preamble + problem.statement))


def explain_dafny_4(text: str) -> str:
    """The first thing in this text that Dafny 2.3 does not have, as the reason why it cannot read
    it. Empty when nothing was found, which is no promise."""
    tokens = [*scan_any(text), ("end", "", 0), ("end", "", 0)]
    for (_, word, place), (kind, name, _), (_, after, _) in zip(
        tokens, tokens[1:], tokens[2:], strict=False
    ):
        is_loop = word == "for" and kind == "name" and after in (":=", ":")
        is_test = word == "expect" and kind in ("name", "number")
        is_declaration = word in ("ghost", "opaque") and name in ("function", "predicate")
        if is_loop or is_test or is_declaration:
            line = text.count("\n", 0, place) + 1
            what = f"{word} {name}" if is_declaration else word
            return f"line {line}: Dafny 2.3 has no {what!r}; it takes a Dafny 4 (proverrl doctor)"
    return ""


def cut_lines(text: str, start: int, end: int) -> str:
    """The text without the characters from ``start`` to ``end``, nor lines that this left blank."""
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    before, after = text[line_start:start], text[end:line_end]
    if not before.strip() and (not after.strip() or after.lstrip().startswith("//")):
        return text[:line_start] + text[line_end + 1 :]
    if not after.strip():
        return text[:line_start] + before.rstrip() + text[line_end:]
    return text[:start] + text[end:]


def _iter_hints(tokens: list[Token], element: Element) -> Iterator[Element]:
    for slot in element.slots:
        words = _HINTS.get(slot.kind, ())
        for inner in slot.elements:
            if inner.word not in words:
                yield from _iter_hints(tokens, inner)
                continue
            try:
                read_hint(tokens, slot, inner)
            except GrammarError as error:
                line = tokens[inner.start].line
                raise ProblemError(
                    f"line {line}: a hint that may not be written: {error}"
                ) from error
            yield inner
