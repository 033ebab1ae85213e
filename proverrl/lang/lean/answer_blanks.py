"""Blanks for answers: ``abbrev NAME_solution : T := sorry`` before a statement that uses it.

Flows in: the text of a file. Flows out: its blanks; the text with the official answers in them; or
the text as one definition that asks for code.

To ask for code, ``def f (x : A) : B := sorry`` and ``theorem t (x : A) : P x (f x)`` become
``def t : { f : (∀ (x : A), B) // ∀ (x : A), (P x (f x)) }``. Its value is a program and its proof,
all in the one hole. Lean compiles a definition, and refuses one whose value no program computes
(``Classical.choose``), unless a ``noncomputable section`` lets it pass.
Covered: explicit parameters of the function, several answers that are given. Not covered (refused):
functions that other definitions use, ``variable`` lines, implicit parameters.
Blanks are those of PutnamBench (Tsoukalas et al. 2024, arXiv 2407.11214).
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from proverrl.errors import ProblemError
from proverrl.lang.lean.syntax.declarations import (
    CLOSING,
    OPENING,
    Declaration,
    find_declarations,
    find_mark,
)
from proverrl.lang.lean.syntax.tokens import Token, scan_code, scan_tokens

_PROVABLE = frozenset({"theorem", "lemma"})


@dataclass(frozen=True, slots=True)
class AnswerHole:
    """A blank. ``start`` is where its declaration begins, ``place`` where its ``sorry`` stands, and
    ``end`` is behind the comment with the official answer; ``answer`` is that answer, or empty."""

    name: str
    parameters: str
    type: str
    start: int
    place: int
    end: int
    answer: str


def find_answers(text: str) -> tuple[AnswerHole, ...]:
    """The blanks for answers of a file; a ``def`` or ``abbrev`` that is the target is none."""
    if "sorry" not in text:
        return ()
    code = scan_code(text)
    declared = find_declarations(text)
    if not any(d.keyword in _PROVABLE for d in declared):
        return ()
    ends = [d.start for d in declared[1:]] + [len(text)]
    found = (
        _read_hole(text, [token for token in code if token.offset < end], declaration)
        for declaration, end in zip(declared, ends, strict=True)
        if declaration.keyword in ("abbrev", "def")
    )
    return tuple(hole for hole in found if hole is not None)


def give_answers(text: str, holes: Sequence[AnswerHole]) -> str:
    """The text with the official answers in its blanks. Raises ``ProblemError`` if a blank comes
    without its answer."""
    for hole in reversed(holes):
        if not hole.answer:
            raise ProblemError("no official answer stands beside its blank")
        lines = "\n".join(f"  {line}" for line in hole.answer.split("\n"))
        text = f"{text[: hole.place].rstrip()}\n{lines}\n{text[hole.end :].lstrip()}"
    return text


def ask_for_code(text: str) -> str:
    """The text as one definition: a function with the proof that the theorem holds for it. Raises
    ``ProblemError`` if the file is not one function without its code and a theorem about it, or
    would admit a function that no program computes."""
    holes = find_answers(text)
    target = next((d for d in reversed(find_declarations(text)) if d.keyword in _PROVABLE), None)
    if target is None or len(holes) != 1:
        raise ProblemError("it is not one function without its code and a theorem about it")
    (hole,) = holes
    head = f"{text[: hole.start].rstrip()}\n\n{text[hole.end : target.start].lstrip()}"
    _refuse_uses(head, holes)
    _refuse_noncomputable_sections(head)
    binders, conclusion = _split_theorem(text[target.offset :])
    condition = f"∀ {_end_line(binders)},\n      " if binders.strip() else ""
    function = f"{hole.name} : {_close_type(hole)} //\n      "
    claim = f"{{ {function}{condition}({conclusion.strip()}\n      ) }}"
    return f"{head}def {target.name} :\n    {claim} :=\n  sorry\n"


def _refuse_noncomputable_sections(head: str) -> None:
    for word, after in pairwise(scan_code(head)):
        if (word.text, after.text) == ("noncomputable", "section"):
            raise ProblemError(
                f"line {word.line}: in a noncomputable section Lean takes what no program computes"
            )


def _read_hole(text: str, code: Sequence[Token], declaration: Declaration) -> AnswerHole | None:
    start = next(i for i, token in enumerate(code) if token.offset == declaration.offset)
    if start + 1 >= len(code):
        return None
    mark = find_mark(code[start + 2 :], ":=")
    end = len(code) if mark is None else code.index(mark, start + 2)
    if end + 1 >= len(code) or code[end + 1].text != "sorry":
        return None
    if end + 2 < len(code) and code[end + 2].line == code[end + 1].line:
        return None
    following = code[end + 2].offset if end + 2 < len(code) else len(text)
    colon = find_mark(code[start + 2 : end], ":")
    if colon is None:
        raise ProblemError(f"{declaration.name} is to be filled in and has no type")
    answer, after = _read_comment(text[code[end + 1].end : following])
    return AnswerHole(
        name=declaration.name,
        parameters=text[code[start + 1].end : colon.offset].strip(),
        type=text[colon.end : code[end].offset].strip(),
        start=declaration.start,
        place=code[end + 1].offset,
        end=code[end + 1].end + after,
        answer=answer,
    )


def _read_comment(text: str) -> tuple[str, int]:
    """The words of the comments that follow at once, and where they end; a doc comment is the
    next declaration's."""
    lines: list[str] = []
    place = 0
    for match in re.finditer(r"[ \t]*(?:\n[ \t]*)?--(?!/)[ ]?([^\n]*)", text):
        if match.start() != place:
            break
        lines.append(match[1].rstrip())
        place = match.end()
    if not lines and (block := re.match(r"\s*/-(?![-!])(.*?)-/", text, re.DOTALL)):
        return block[1].strip(), block.end()
    return "\n".join(lines).strip(), place


def _split_theorem(text: str) -> tuple[str, str]:
    """The binders and the conclusion of the theorem that a text begins with."""
    code = scan_code(text)
    colon, value = find_mark(code, ":"), find_mark(code, ":=", last=True)
    if colon is None or value is None or value.offset < colon.offset:
        raise ProblemError("the statement is not of the form 'theorem name binders : claim := ...'")
    return text[code[1].end : colon.offset], text[colon.end : value.offset]


def _refuse_uses(head: str, holes: Sequence[AnswerHole]) -> None:
    names = {hole.name for hole in holes}
    code = scan_code(head)
    starts = [0, *(declaration.start for declaration in find_declarations(head))]
    bound: set[tuple[int, str]] = set()
    for place, token in enumerate(code):
        if token.kind == "word" and token.text in names:
            start = starts[bisect(starts, token.offset) - 1]
            own = [t for t in code[: place + 1] if t.offset >= start]
            if (start, token.text) in bound or _is_parameter(own, code[place + 1 :]):
                # A parameter of that name: what stands behind it in its declaration is that.
                bound.add((start, token.text))
                continue
            raise ProblemError(
                f"line {token.line}: {token.text} is used before the statement, so that it cannot "
                "be asked for there"
            )
        if token.kind == "word" and token.text == "variable":
            raise ProblemError(
                f"line {token.line}: a 'variable' line; the answer might depend on it"
            )


def _is_parameter(before: Sequence[Token], after: Sequence[Token]) -> bool:
    """True if the last word of a declaration so far is one of the names in ``(x y : T)`` or
    ``{x y : T}``, in no other bracket and before its ``:`` or ``:=``."""
    names = list(takewhile(lambda token: token.kind == "word", reversed(before)))
    opening = before[: len(before) - len(names)]
    behind = next((token.text for token in after if token.kind != "word"), "")
    if behind != ":" or not opening or opening[-1].text not in ("(", "{"):
        return False
    depth = 0
    for token in opening[:-1]:
        depth += (token.text in OPENING) - (token.text in CLOSING)
        if depth == 0 and token.text in (":", ":="):
            return False
    return depth == 0


def _end_line(binders: str) -> str:
    """Binders that text may follow: not in the comment that the last one may have."""
    tokens = scan_tokens(binders.strip())
    is_comment = bool(tokens) and tokens[-1].kind == "comment"
    return binders.strip() + ("\n    " if is_comment else "")


def _close_type(hole: AnswerHole) -> str:
    if not hole.parameters:
        return f"({hole.type})" if "\n" in hole.type else hole.type
    if re.search(r"[{\[⦃]", hole.parameters):
        raise ProblemError(f"{hole.name} has parameters that are not written out")
    return f"(∀ {hole.parameters}, {hole.type})"
