"""Words for what a body holds, and the kinds of its errors, as Dafny names them.

Flows in: bodies, verdicts. Flows out: the words that a small writer can be instructed with, one
line for each clause or statement; counts. Not handled here: whether such words fit a problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Literal

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.reply import is_note
from proverrl.lang.dafny.syntax.text import KEYWORDS, scan_tokens
from proverrl.types import Stage, Status, Verdict

ErrorKind = Literal["syntax", "type", "invariant", "postcondition", "timeout", "other"]
"""``timeout`` is a resource limit; ``other`` is whatever else was not proved."""
StructureKind = Literal["lemma", "invariant", "recursion"]

_WORDS = {
    "decreases": "measure",
    "assert": "assert",
    "if": "split",
    "case": "case",
    "forall": "all",
    "exists": "some",
    "==>": "implies",
    "==": "equals",
    "!=": "differs",
    "<=": "bound",
    "<": "bound",
    ">=": "bound",
    ">": "bound",
    "+": "sum",
    "-": "difference",
    "*": "product",
    "/": "quotient",
    "%": "remainder",
    "[": "element",
}
_CALL = "call"
_STARTS = frozenset({"invariant", "decreases"})
_ENDS = frozenset({";", "{", "}"})


def describe(body: str) -> str:
    """A line for each clause or statement with the words of what stands in it, in their
    order."""
    lines: list[dict[str, None]] = [{}]
    before = ("", "")
    for kind, text in _scan(body):
        if text in _STARTS or before[1] in _ENDS:
            lines.append({})
        if text == "(" and before[0] == "name" and before[1] not in KEYWORDS:
            lines[-1][_CALL] = None
        elif text in _WORDS:
            lines[-1][_WORDS[text]] = None
        before = kind, text
    return "\n".join(" ".join(line) for line in lines if line)


def count_errors(verdict: Verdict) -> Mapping[ErrorKind, int]:
    """Refusals of the audit count as syntax, those of Dafny before it proves anything as
    type; ``invariant`` is one that does not hold, at entry or after the body."""
    told = [d.message for d in verdict.diagnostics if d.severity == "error"]
    errors = [message for message in told if not is_note(message)]
    if verdict.status is Status.EXHAUSTED:
        return {"timeout": max(1, len(errors))}
    if not verdict.failed_in_prover:
        was_read = verdict.stage not in (Stage.NOBODY, Stage.AUDIT)
        return {"type" if was_read else "syntax": len(errors)}
    return Counter(map(_find_kind, errors))


def count_structure(body: str, name: str) -> Mapping[StructureKind, int]:
    """Counts of what a body declares or states; ``recursion`` is calls of ``name``, which it is
    in."""
    texts = [text for _, text in _scan(body)]
    return {
        "lemma": texts.count("lemma"),
        "invariant": texts.count("invariant"),
        "recursion": list(pairwise(texts)).count((name, "(")),
    }


def _find_kind(message: str) -> ErrorKind:
    if "invariant" in message:
        return "invariant"
    return "postcondition" if "postcondition" in message else "other"


def _scan(text: str) -> list[tuple[str, str]]:
    """Tokens; none of a text with a comment that is never closed."""
    try:
        return scan_tokens(text)
    except ProblemError:
        return []
