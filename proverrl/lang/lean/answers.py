"""Reads a Lean answer: a file with our theorem in it, or a proof alone.

Flows in: a problem and code. Flows out: the body and the prelude, or the reason why there is none.
An answer that changed our text is refused here, so that it costs no verifier call; soundness does
not rest on it. Not handled here: code blocks (``proverrl.rollout.extract``).
"""

from __future__ import annotations

from collections.abc import Sequence

from proverrl.lang.lean.syntax.declarations import find_declarations
from proverrl.lang.lean.syntax.tokens import Token, scan_tokens
from proverrl.lang.records import Extraction
from proverrl.lang.words import find_words
from proverrl.types import HOLE, Problem
from proverrl.verify.body_place import end_column, hole_column


def find_name(problem: Problem) -> str:
    """The last name that the statement declares before its hole, without its namespace."""
    before, _, _ = problem.statement.partition(HOLE)
    names = [d.name.rpartition(".")[2] for d in find_declarations(before) if d.name]
    return names[-1] if names else ""


def read_body(problem: Problem, code: str) -> Extraction:
    """See ``Language.read_body``."""
    name = find_name(problem)
    declared = [d.name.rpartition(".")[2] for d in find_declarations(code)]
    if not declared:
        if not code.strip():
            return Extraction(None, reason="the code is empty")
        return Extraction(_move_to_hole(problem, code, len(code) - len(code.lstrip())))
    if name not in declared:
        return Extraction(
            None, reason=f"the code declares {declared[0] or 'something'}, not {name}"
        )
    tokens = [token for token in scan_tokens(code) if token.is_code]
    words = [token.text for token in tokens]
    before, _, after = problem.statement.partition(HOLE)
    head = [token.text for token in scan_tokens(before) if token.is_code]
    tail = [token.text for token in scan_tokens(after) if token.is_code]
    place = find_words(words, head)
    if place is None:
        if head[-1] == "by" and find_words(words, head[:-1]) is not None:
            return Extraction(None, reason=f"the proof of {name} does not begin with ':= by'")
        return Extraction(None, reason=f"the statement of {name} was changed")
    first = place + len(head)
    last = len(words) - len(tail) if tail and words[-len(tail) :] == tail else len(words)
    if first >= last:
        return Extraction(None, reason=f"no proof follows the statement of {name}")
    end = tokens[last].offset if last < len(words) else len(code)
    body = _move_to_hole(problem, code[:end], tokens[first].offset)
    return Extraction(body, _find_prelude(problem, code, tokens[:place]))


def _move_to_hole(problem: Problem, code: str, start: int) -> str:
    """The code from ``start`` on, moved sideways so that it begins in the hole's column.

    The first line begins where the hole stands in the statement; the others keep their place
    beside it.
    """
    shift = hole_column(problem) - end_column(code[:start])
    first, *rest = code[start:].rstrip().split("\n")
    lines = [first]
    for line in rest:
        text = line.lstrip(" ")
        lines.append(" " * max(0, len(line) - len(text) + shift) + text if text else "")
    return "\n".join(lines)


def _find_prelude(problem: Problem, code: str, tokens: Sequence[Token]) -> str:
    """What stands before our statement and is not of the problem's preamble: the policy's lemmas.

    Leading imports and lines of the preamble are ours, and comments after the last lemma belong
    to the statement.
    """
    if not tokens:
        return ""
    ours = {line.strip() for line in problem.preamble.splitlines()}
    lines = code[: tokens[-1].end].split("\n")
    number = 0
    while number < len(lines) and _is_ours(lines[number].strip(), ours):
        number += 1
    text = "\n".join(lines[number:]).strip()
    return f"{text}\n\n" if text else ""


def _is_ours(line: str, ours: set[str]) -> bool:
    return not line or line in ours or line.startswith(("import ", "--"))
