"""Reads a Dafny answer: our program with its hole filled, or the body alone.

Flows in: a problem and code. Flows out: the body, or the reason why there is none; the names and
steps in a text. An answer that changed our text is refused here, so that it costs no verifier call;
soundness does not rest on it. Not handled here: code blocks (``proverrl.rollout.extract``).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.text import scan_places
from proverrl.lang.records import Extraction
from proverrl.lang.words import find_words
from proverrl.types import HOLE, Problem

_CLAUSES = frozenset({"invariant", "decreases", "modifies"})
_ENDS = frozenset({";", "{", "}"})
_HEADS = frozenset({"method", "lemma", "function", "predicate", "constructor", "iterator"})


def find_name(problem: Problem) -> str:
    """The last name that the statement declares before its hole."""
    before, _, _ = problem.statement.partition(HOLE)
    words = [text for _, text, _ in _scan(before) or ()]
    named = [name for word, name in itertools.pairwise(words) if word in _HEADS]
    return named[-1] if named else ""


def _scan(text: str) -> list[tuple[str, str, int]] | None:
    """Tokens with their places; None for a comment that is never closed."""
    try:
        return scan_places(text)
    except ProblemError:
        return None


def read_body(problem: Problem, code: str) -> Extraction:
    """See ``Language.read_body``."""
    tokens = _scan(code)
    name = find_name(problem)
    if tokens is None or not _declares(tokens, name):
        # The audit reads what it is; an unclosed comment is refused there, with its place.
        return Extraction(code.strip())
    before, _, after = problem.statement.partition(HOLE)
    words = [text for _, text, _ in tokens]
    head = _words_of(before)
    tail = _words_of(after)
    place = find_words(words, head)
    if place is None:
        return Extraction(None, reason=f"the statement of {name} was changed before the hole")
    first, last = place + len(head), len(words) - len(tail)
    if last < first or words[last:] != tail:
        return Extraction(None, reason=f"the text of {name} after the hole was changed or cut off")
    start = tokens[first - 1][2] + len(tokens[first - 1][1])
    end = tokens[last][2] if tail else len(code)
    return Extraction(code[start:end].strip())


def _words_of(text: str) -> list[str]:
    return [word for _, word, _ in _scan(text) or ()]


def _declares(tokens: Sequence[tuple[str, str, int]], name: str) -> bool:
    pairs = itertools.pairwise(tokens)
    return bool(name) and any(a[1] in _HEADS and b[1] == name for a, b in pairs)


def find_steps(body: str) -> list[int]:
    """Where the steps of a body begin, but for the first: after ``;`` and braces and before
    clauses."""
    return [
        place
        for (_, before, _), (_, text, place) in itertools.pairwise(_scan(body) or ())
        if before in _ENDS or text in _CLAUSES
    ]
