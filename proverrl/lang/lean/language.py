"""Lean 4, as the rest of ProverRL sees it.

Flows in: problems, candidates, text. Flows out: what ``Language`` promises. Not handled here: how
any of it is done; each method hands on to the module that does it.
"""

from __future__ import annotations

import re

from proverrl.lang.base import BackendOptions, Composing, Language, Searching
from proverrl.lang.lean import answers
from proverrl.lang.lean.audit import LEAN_KINDS, audit_lean_candidate, check_lean_problem
from proverrl.lang.lean.canaries import CANARIES
from proverrl.lang.lean.skeletons import read_skeletons
from proverrl.lang.lean.syntax.declarations import find_target, make_sorry_source
from proverrl.lang.lean.syntax.tokens import scan_tokens
from proverrl.lang.records import Extraction, Part
from proverrl.types import HOLE, Candidate, Problem, Verdict
from proverrl.verify.router import Backend


class Lean(Language):
    """Lean 4."""

    name = "lean"
    title = "Lean"
    suffix = ".lean"
    comment = "--"
    fences = ("lean4", "lean")
    kinds = LEAN_KINDS
    layout = "deepseek"
    file_start = re.compile(
        r"^(?:import|open|namespace|section|set_option|noncomputable|private|theorem|lemma|def|"
        r"abbrev|structure|inductive|@\[|/--)(?:\b|(?<=\W))",
        re.MULTILINE,
    )
    writes_file = True
    canaries = CANARIES

    @property
    def searching(self) -> Searching:
        from proverrl.lang.lean.search.searching import SEARCHING

        return SEARCHING

    @property
    def composing(self) -> Composing:
        from proverrl.lang.lean.compose import COMPOSING

        return COMPOSING

    def open_backend(self, options: BackendOptions) -> Backend:
        from proverrl.lang.lean.backend import open_lean

        return open_lean(options)

    def audit(self, candidate: Candidate) -> Verdict | None:
        return audit_lean_candidate(candidate)

    def check_problem(self, problem: Problem) -> None:
        check_lean_problem(problem)

    def diagnose(self) -> list[Part]:
        from proverrl.lang.lean.diagnose import check_lean

        return check_lean()

    def find_name(self, problem: Problem) -> str:
        return answers.find_name(problem)

    def read_body(self, problem: Problem, code: str) -> Extraction:
        return answers.read_body(problem, code)

    def show_problem(self, problem: Problem) -> str:
        return make_sorry_source(problem)

    def normal_form(self, body: str) -> str:
        """Indentation has a meaning, so that only comments, blanks at the end of a line and empty
        lines go."""
        pieces = [t.text if t.is_code or t.kind == "blank" else "" for t in scan_tokens(body)]
        lines = (line.rstrip() for line in "".join(pieces).split("\n"))
        return "\n".join(line for line in lines if line)

    def find_steps(self, body: str) -> list[int]:
        """At the beginnings of lines."""
        lines = body.split("\n")
        starts = [sum(len(line) + 1 for line in lines[:i]) for i in range(1, len(lines))]
        return [s for s, line in zip(starts, lines[1:], strict=True) if line.strip()]

    def read_skeletons(self, text: str) -> tuple[str, str]:
        return read_skeletons(text)

    def state_key(self, problem: Problem) -> str:
        """The statement alone, without its own name."""
        before = problem.statement.partition(HOLE)[0]
        name = find_target(problem).rpartition(".")[2]
        words = (token.text for token in scan_tokens(before) if token.is_code)
        return " ".join("_" if word.rpartition(".")[2] == name else word for word in words)

    def looks_like(self, text: str) -> bool:
        return bool(re.search(r"^\s*(theorem|import|example)\b", text, re.MULTILINE))


LEAN = Lean()
