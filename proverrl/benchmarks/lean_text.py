"""Lean texts of benchmarks as problems: one form for all endings, headers and comments.

Flows in: a statement with its header inside or beside it, whatever stands for its proof. Flows
out: entries whose statement ends in ``:= by`` and the hole; the doc comment of the statement is its
text in words. Blanks for an answer: ``proverrl.lang.lean.answer_blanks``.
Not handled here: whether the statement elaborates under the Lean that is installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from proverrl.benchmarks.base import Collector
from proverrl.errors import ProblemError
from proverrl.lang.lean.answer_blanks import (
    ask_for_code,
    find_answers,
    give_answers,
)
from proverrl.lang.lean.syntax.declarations import (
    ProofKind,
    find_declarations,
    problem_from_statement,
)
from proverrl.lang.lean.syntax.tokens import scan_tokens
from proverrl.types import HOLE, Problem, Split


@dataclass(frozen=True, slots=True)
class LeanText:
    """One statement of a benchmark with all that comes with it. ``solved`` is the same text with
    the official answer in it, where the benchmark keeps that in a place of its own."""

    name: str
    where: str
    text: str
    header: str = ""
    informal: str = ""
    split: Split = "heldout"
    proof: str | None = None
    solved: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    kind: ProofKind = "tactics"


def add_code(collector: Collector, given: LeanText) -> None:
    """Add the problem that asks for the code that a text leaves open, and its proof; or refuse it
    with its reason."""
    problem_id = collector.free_id(given.name)
    with collector.reading(problem_id, given.where):
        text = ask_for_code(given.text)
        _add(collector, problem_id, replace(given, text=text, kind="term"))


def add_lean(collector: Collector, given: LeanText) -> None:
    """Add the problem that a text makes, with the official answers in its blanks; or refuse it with
    its reason."""
    problem_id = collector.free_id(given.name)
    with collector.reading(problem_id, given.where):
        whole = given.header + given.text
        if holes := find_answers(whole):
            solved = given.solved or give_answers(whole, holes)
            marked = {**given.metadata, "answer": "given"}
            given = replace(given, text=solved, header="", metadata=marked)
        _add(collector, problem_id, given)


def _add(collector: Collector, problem_id: str, given: LeanText) -> None:
    with collector.reading(problem_id, given.where):
        problem = build_problem(problem_id, given, collector.origin)
        reference = None if given.proof is None else fit_proof(given.proof)
        collector.add(problem, given.where, reference)


def build_problem(problem_id: str, given: LeanText, origin: str) -> Problem:
    """The problem of a text without blanks for answers. Raises ``ProblemError`` if it is not one
    declaration to prove."""
    problem = problem_from_statement(
        problem_id,
        given.text,
        header=given.header,
        kind=given.kind,
        split=given.split,
        origin=origin,
        informal=strip_doc(given.informal),
        metadata=given.metadata,
    )
    if problem.preamble.strip():
        problem = replace(problem, preamble=problem.preamble.rstrip() + "\n\n")
    return _move_doc(_drop_comment_behind(problem))


def uses_declarations(text: str, declarations: str) -> bool:
    """True if a word of the text is a name that ``declarations`` declare."""
    declared = {declaration.name for declaration in find_declarations(declarations)}
    return any(token.text in declared for token in scan_tokens(text) if token.is_code)


def strip_doc(text: str) -> str:
    """The words of a doc comment, or of a text that is none."""
    text = text.strip()
    if text.startswith("/-") and text.endswith("-/"):
        text = text[3:-2] if text.startswith(("/--", "/-!")) else text[2:-2]
    return text.strip()


def fit_proof(proof: str) -> str:
    """A proof that stands below ``:= by`` as a body: our hole stands two blanks from the margin."""
    lines = proof.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip(" "))
    if indent < 2:
        # Layout means something in Lean: all lines move together.
        lines = [" " * (2 - indent) + line if line.strip() else line for line in lines]
    return "\n".join(lines)[2:].rstrip()


def _move_doc(problem: Problem) -> Problem:
    """Move the doc comment of the statement into ``informal``: it says the same in words."""
    first = next(iter(scan_tokens(problem.statement)), None)
    if first is None or first.kind != "doc":
        return problem
    return replace(
        problem,
        statement=problem.statement[first.end :].lstrip(),
        informal=problem.informal or strip_doc(first.text),
    )


def _drop_comment_behind(problem: Problem) -> Problem:
    """Drop comments behind the old proof, which belong to it; code there (``end Name``) stays."""
    before, _, after = problem.statement.partition(HOLE)
    tokens = scan_tokens(after)
    if any(token.is_code for token in tokens):
        return problem
    if any(token.kind == "broken" for token in tokens):
        raise ProblemError("a comment behind the proof is never closed")
    return replace(problem, statement=re.sub(r"[ \t]+\Z", "  ", before) + HOLE + "\n")
