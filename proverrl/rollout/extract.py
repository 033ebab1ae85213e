"""Finds the candidate's text in an answer, or says why there is none.

Flows in: a problem and the text of a completion, whatever it is. Flows out: an ``Extraction``;
nothing is ever raised. Thinking spans are skipped, even if they are never closed; of several code
blocks the last complete one that fits counts; if a whole file was written, our text is located in
it and the body is the text in place of the hole. An answer that changed our text is refused here,
so it costs no verifier call; soundness does not depend on this, because a candidate is assembled
from the problem's own text. Not handled here: whether the body is allowed (the audit decides);
proofs that a model spreads over several blocks.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from proverrl.config import LayoutName
from proverrl.errors import ProblemError, RecordError
from proverrl.lang.dafny.syntax.text import scan_places
from proverrl.lang.lean.syntax import tokens as lean_tokens
from proverrl.lang.lean.syntax.declarations import find_declarations
from proverrl.problems.prompt import LAYOUTS, use_problem_words
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem
from proverrl.verify.body_place import end_column, hole_column

FILE = "file"
CODE_SPAN = ("<code>", "</code>")
"""What encloses code in the interleaved form."""

_FENCE = re.compile(r"```([\w+-]*)[ \t]*\r?\n(.*?)(```|\Z)", re.DOTALL)
_SPAN = re.compile(r"(?<!\w)<code>(.*?)(</code>|\Z)", re.DOTALL)
_THINK = re.compile(r"</?think>")
_COMMAND = {
    "lean": re.compile(
        r"^(?:import|open|namespace|section|set_option|noncomputable|private|theorem|lemma|def|"
        r"abbrev|structure|inductive|@\[|/--)(?:\b|(?<=\W))",
        re.MULTILINE,
    ),
    "dafny": re.compile(r"^(?:ghost |static )*(?:method|lemma|function|predicate)\b", re.MULTILINE),
}
"""Where a file begins in an answer that sets it off by nothing."""
_FITTING = {"lean": ("lean4", "lean", ""), "dafny": ("dafny", "dfy", "")}
_NAMES = re.compile(r"\b(statement of|text of|proof of|declares) [^\s,]+(?:, not \S+)?")
"""What names a problem in a reason."""
_DAFNY_HEADS = frozenset({"method", "lemma", "function", "predicate", "constructor", "iterator"})


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an answer proposes. ``span`` is the place of the code in the completion's text, in
    characters from 0; ``reason`` says why there is no body, and is empty when there is one."""

    body: str | None
    prelude: str = ""
    reason: str = ""
    span: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if (self.body is None) != bool(self.reason):
            raise RecordError("an extraction has either a body or a reason")

    def candidate(self, problem: Problem) -> Candidate | None:
        """The candidate to verify, or None."""
        return None if self.body is None else Candidate(problem, self.body, self.prelude)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of code in an answer: ``end`` is after its last character, ``closed`` says that the
    answer went on to close it."""

    language: str
    start: int
    end: int
    closed: bool


def extract(problem: Problem, text: str, layout: LayoutName) -> Extraction:
    """The body (and for Lean the prelude) that an answer proposes for the problem's hole."""
    start, end, reason = skip_thinking(text)
    if reason:
        return Extraction(None, reason=reason)
    blocks = find_blocks(text, start, end)
    fitting = [b for b in blocks if b.language.lower() in _FITTING[problem.language]]
    in_block = LAYOUTS[layout].in_block
    if blocks and not fitting:
        found = ", ".join(sorted({block.language for block in blocks}))
        return Extraction(None, reason=f"no {problem.language} code block, only {found}")
    if not blocks:
        command = _COMMAND[problem.language].search(text, start, end) if in_block else None
        fitting = [Block("", command.start() if command else start, end, closed=True)]
    block = ([b for b in fitting if b.closed] or fitting)[-1]
    code = use_problem_words(problem, text[block.start : block.end], layout)
    read = read_code(problem, code)
    if not blocks and in_block and read.body is not None and not _holds_statement(problem, code):
        return Extraction(None, reason="no code block in the answer")
    if read.body is None:
        return read
    return Extraction(read.body, read.prelude, span=(block.start, block.end))


def generalise_reason(reason: str) -> str:
    """A reason without the names in it, so that those of different problems can be counted."""
    return _NAMES.sub(r"\1 ...", reason)


def skip_thinking(text: str) -> tuple[int, int, str]:
    """Where the answer begins and ends, or why there is none.

    It begins after the last ``</think>``, whether or not that was opened (a chat template may have
    opened it), and ends before a ``<think>`` that is never closed.
    """
    marks = list(_THINK.finditer(text))
    start = max((mark.end() for mark in marks if mark.group() == "</think>"), default=0)
    opened = [mark.start() for mark in marks if mark.start() >= start]
    end = opened[0] if opened else len(text)
    if opened and not text[start:end].strip():
        return start, end, "the thinking span is never closed, so that there is no answer"
    return start, end, ""


def find_blocks(text: str, start: int = 0, end: int | None = None) -> list[Block]:
    """The code blocks of a text in order: fenced ones, or those in ``<code>`` spans where there
    are such. A fence in a span is the span's code."""
    end = len(text) if end is None else end
    spans = [
        Block("", match.start(1), match.end(1), bool(match[2]))
        for match in _SPAN.finditer(text, start, end)
    ]
    if not spans:
        return _find_fences(text, start, end)
    blocks = []
    for span in spans:
        inner = _find_fences(text, span.start, span.end)
        blocks += [Block(b.language, b.start, b.end, b.closed or span.closed) for b in inner] or [
            span
        ]
    return blocks


def _find_fences(text: str, start: int, end: int) -> list[Block]:
    return [
        Block(match[1], match.start(2), match.end(2), bool(match[3]))
        for match in _FENCE.finditer(text, start, end)
    ]


def read_code(problem: Problem, code: str) -> Extraction:
    """The body in a piece of code: the text in the hole's place if our statement is there, else all
    of it."""
    if problem.kind in (ANNOTATE, FILE):
        if not code.strip():
            return Extraction(None, reason="the code is empty")
        return Extraction(code.strip("\n") + "\n")
    if problem.language == "dafny":
        return _read_dafny(problem, code)
    return _read_lean(problem, code)


def _holds_statement(problem: Problem, code: str) -> bool:
    """Whether code without a block is a whole file: then its body is shorter than it."""
    if problem.kind in (ANNOTATE, FILE):
        return False
    body = read_code(problem, code).body
    return body is not None and len(body) < len(code.strip()) and problem_name(problem) in code


def problem_name(problem: Problem) -> str:
    """The last name that the statement declares before its hole, as it is written there."""
    before, _, _ = problem.statement.partition(HOLE)
    if problem.language == "lean":
        names = [d.name.rpartition(".")[2] for d in find_declarations(before) if d.name]
        return names[-1] if names else ""
    words = [text for _, text, _ in _scan_dafny(before) or ()]
    pairs = itertools.pairwise(words)
    named = [name for word, name in pairs if word in _DAFNY_HEADS]
    return named[-1] if named else ""


# Dafny ------------------------------------------------------------------------------------------


def _scan_dafny(text: str) -> list[tuple[str, str, int]] | None:
    """Tokens with their places; None if a comment is never closed."""
    try:
        return scan_places(text)
    except ProblemError:
        return None


def _read_dafny(problem: Problem, code: str) -> Extraction:
    tokens = _scan_dafny(code)
    name = problem_name(problem)
    if tokens is None or not _declares_dafny(tokens, name):
        # The audit reads what it is; an unclosed comment is refused there, with its place.
        return Extraction(code.strip())
    before, _, after = problem.statement.partition(HOLE)
    words = [text for _, text, _ in tokens]
    head = _words_of(before)
    tail = _words_of(after)
    place = _find_words(words, head)
    if place is None:
        return Extraction(None, reason=f"the statement of {name} was changed before the hole")
    first, last = place + len(head), len(words) - len(tail)
    if last < first or words[last:] != tail:
        return Extraction(None, reason=f"the text of {name} after the hole was changed or cut off")
    start = tokens[first - 1][2] + len(tokens[first - 1][1])
    end = tokens[last][2] if tail else len(code)
    return Extraction(code[start:end].strip())


def _words_of(text: str) -> list[str]:
    return [word for _, word, _ in _scan_dafny(text) or ()]


def _declares_dafny(tokens: Sequence[tuple[str, str, int]], name: str) -> bool:
    pairs = itertools.pairwise(tokens)
    return bool(name) and any(a[1] in _DAFNY_HEADS and b[1] == name for a, b in pairs)


def _find_words(words: Sequence[str], part: Sequence[str]) -> int | None:
    """The first place where ``part`` occurs in ``words``."""
    for place in range(len(words) - len(part) + 1):
        if words[place] == part[0] and list(words[place : place + len(part)]) == list(part):
            return place
    return None


# Lean -------------------------------------------------------------------------------------------


def _read_lean(problem: Problem, code: str) -> Extraction:
    name = problem_name(problem)
    declared = [d.name.rpartition(".")[2] for d in find_declarations(code)]
    if not declared:
        if not code.strip():
            return Extraction(None, reason="the code is empty")
        return Extraction(_move_to_hole(problem, code, len(code) - len(code.lstrip())))
    if name not in declared:
        return Extraction(
            None, reason=f"the code declares {declared[0] or 'something'}, not {name}"
        )
    tokens = [token for token in lean_tokens.scan_tokens(code) if token.is_code]
    words = [token.text for token in tokens]
    before, _, after = problem.statement.partition(HOLE)
    head = [token.text for token in lean_tokens.scan_tokens(before) if token.is_code]
    tail = [token.text for token in lean_tokens.scan_tokens(after) if token.is_code]
    place = _find_words(words, head)
    if place is None:
        if head[-1] == "by" and _find_words(words, head[:-1]) is not None:
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


def _find_prelude(problem: Problem, code: str, tokens: Sequence[lean_tokens.Token]) -> str:
    """The text before our statement that is not part of the problem's preamble: the policy's
    lemmas.

    Leading imports and lines of the preamble are ours, and comments after the last lemma belong to
    the statement.
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
