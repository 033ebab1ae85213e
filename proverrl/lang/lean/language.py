"""Lean 4, as the rest of ProverRL sees it.

Flows in: problems, candidates, text. Flows out: what ``Language`` promises. An answer that changed
our text is refused here, so that it costs no verifier call; soundness does not rest on it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from proverrl.lang.base import BackendOptions, Language
from proverrl.lang.lean.audit.text import (
    LEAN_KINDS,
    PROPOSITION,
    audit_lean_candidate,
    check_lean_problem,
)
from proverrl.lang.lean.syntax.declarations import find_declarations, find_target
from proverrl.lang.lean.syntax.keywords import LEAN_KEYWORDS
from proverrl.lang.lean.syntax.skeletons import read_skeletons
from proverrl.lang.lean.syntax.tokens import Token, scan_code, scan_tokens, shift_line
from proverrl.lang.lean.syntax.words import CORE_NAMES, TACTICS
from proverrl.lang.lean.verify.canaries import CANARIES
from proverrl.lang.parts import (
    Composing,
    Filling,
    Searching,
)
from proverrl.lang.records import Extraction, Part
from proverrl.lang.words import find_words
from proverrl.types import HOLE, Candidate, Problem, Verdict
from proverrl.verifier.body_place import end_column, hole_column
from proverrl.verifier.router import Backend


class Lean(Language):
    """Lean 4."""

    name = "lean"
    title = "Lean"
    suffix = ".lean"
    comment = "--"
    fences = ("lean4", "lean")
    kinds = LEAN_KINDS
    confirms = True
    layout = "deepseek"
    file_start = re.compile(
        r"^(?:import|open|namespace|section|set_option|noncomputable|private|theorem|lemma|def|"
        r"abbrev|structure|inductive|@\[|/--)(?:\b|(?<=\W))",
        re.MULTILINE,
    )
    keywords = frozenset(word for word in LEAN_KEYWORDS if word.isidentifier()) | TACTICS
    built_ins = CORE_NAMES
    writes_file = True
    canaries = CANARIES

    @property
    def searching(self) -> Searching:
        from proverrl.lang.lean.search.states import SEARCHING

        return SEARCHING

    @property
    def filling(self) -> Filling:
        from proverrl.lang.lean.search.holes import FILLING

        return FILLING

    @property
    def composing(self) -> Composing:
        from proverrl.lang.lean.compose import COMPOSING

        return COMPOSING

    def open_backend(self, options: BackendOptions) -> Backend:
        from proverrl.lang.lean.verify.backend import open_lean

        return open_lean(options)

    def audit(self, candidate: Candidate) -> Verdict | None:
        settled = self.settle(candidate)
        return settled if isinstance(settled, Verdict) else audit_lean_candidate(settled)

    def check_problem(self, problem: Problem) -> None:
        check_lean_problem(problem)

    def diagnose(self) -> list[Part]:
        from proverrl.lang.lean.verify.backend import check_lean

        return check_lean()

    def find_name(self, problem: Problem) -> str:
        """The last name that the statement declares before its hole, without its namespace."""
        before, _, _ = problem.statement.partition(HOLE)
        names = [d.name.rpartition(".")[2] for d in find_declarations(before) if d.name]
        return names[-1] if names else ""

    def read_body(self, problem: Problem, code: str) -> Extraction:
        name = self.find_name(problem)
        declared = [d.name.rpartition(".")[2] for d in find_declarations(code)]
        if not declared:
            if not code.strip():
                return Extraction(None, reason="the code is empty")
            return Extraction(_move_to_hole(problem, code, len(code) - len(code.lstrip())))
        if name not in declared:
            return Extraction(
                None, reason=f"the code declares {declared[0] or 'something'}, not {name}"
            )
        tokens = scan_code(code)
        words = [token.text for token in tokens]
        head, tail = (
            [token.text for token in scan_code(part)] for part in problem.statement.split(HOLE, 1)
        )
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

    def owns_name(self, word: re.Match[str]) -> bool:
        """Lean's own names are many, and most stand behind a dot: ``Nat.add_comm``, ``h.left``. The
        own ones that do stand elsewhere without one."""
        return not word.string.endswith(".", 0, word.start()) and super().owns_name(word)

    def asks_statement(self, problem: Problem) -> bool:
        return problem.kind == PROPOSITION

    def show_body(self, problem: Problem, body: str) -> str:
        """Its later lines begin where its first line does, not in the hole's column."""
        first, *rest = body.split("\n")
        return "\n".join([first, *(shift_line(line, -hole_column(problem)) for line in rest)])

    def show_problem(self, problem: Problem) -> str:
        return self.show_text(problem).replace(HOLE, "sorry")

    def normal_form(self, body: str) -> str:
        """Indentation has a meaning, so that only comments, blanks at the end of a line and empty
        lines go."""
        pieces = [t.text if t.is_code or t.kind == "blank" else "" for t in scan_tokens(body)]
        lines = (line.rstrip() for line in "".join(pieces).split("\n"))
        return "\n".join(line for line in lines if line)

    def read_skeletons(self, text: str) -> tuple[str, str]:
        return read_skeletons(text)

    def state_key(self, problem: Problem) -> str:
        """The statement alone, without its own name."""
        before = problem.statement.partition(HOLE)[0]
        name = find_target(problem).rpartition(".")[2]
        words = (token.text for token in scan_code(before))
        return " ".join("_" if word.rpartition(".")[2] == name else word for word in words)

    def looks_like(self, text: str) -> bool:
        return bool(re.search(r"^\s*(theorem|import|example)\b", text, re.MULTILINE))


def _move_to_hole(problem: Problem, code: str, start: int) -> str:
    """The code from ``start`` on, moved sideways as a whole to begin in the hole's column."""
    shift = hole_column(problem) - end_column(code[:start])
    first, *rest = code[start:].rstrip().split("\n")
    return "\n".join([first, *(shift_line(line, shift) for line in rest)])


def _find_prelude(problem: Problem, code: str, tokens: Sequence[Token]) -> str:
    """The text before our statement: the policy's lemmas. Leading imports and lines of the
    preamble are ours, and comments after the last lemma belong to the statement."""
    if not tokens:
        return ""
    ours = {"", *(line.strip() for line in problem.preamble.splitlines())}

    def is_ours(line: str) -> bool:
        return line.strip() in ours or line.strip().startswith(("import ", "--"))

    lines = code[: tokens[-1].end].split("\n")
    text = "\n".join(itertools.dropwhile(is_ours, lines)).strip()
    return f"{text}\n\n" if text else ""


LEAN = Lean()
