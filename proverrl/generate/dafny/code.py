"""Methods whose contract is given, and whose code is to be written.

Flows in: the families of the curriculum, with their proofs. Flows out: problems of the kind
``program`` whose hole, behind the contract, takes the code and its hints. No family of ``unseen``
is in a training file. Not handled here: contracts that are to be written too (the lab has those).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from proverrl.errors import ProblemError
from proverrl.generate.dafny.stream import GENERATOR as FAMILIES
from proverrl.generate.families import CurriculumDraft, DerivedGenerator, Names, ProgramText
from proverrl.lang.dafny.audit.bodies import PROGRAM
from proverrl.lang.dafny.audit.methods import read_declared
from proverrl.lang.dafny.compose.attack import list_idle_bodies
from proverrl.lang.dafny.compose.declarations import read_problem
from proverrl.lang.dafny.syntax.declarations import Declaration, read_declarations, write_formals
from proverrl.lang.dafny.syntax.text import fill_hole
from proverrl.types import HOLE, Candidate, Problem

UNSEEN = frozenset("l1_two l2_step l3_eq l3_any l4_mod l4_scaled l5_minstep l5_walk".split())
"""Families that no training file holds, where what is written is more than a proof."""


class CodeGenerator(DerivedGenerator):
    """The methods of the curriculum with their contracts."""

    mark = "c"

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.unseen = UNSEEN

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """Code that does nothing."""
        problem = Problem("draft", self.language, draft.kind, "", draft.statement)
        declared = read_declarations(Candidate(problem, "{ }").source)
        return ("{ }", *list_idle_bodies(declared[read_declared(problem).place]))

    def derive(
        self, made: ProgramText, known: Candidate, rng: random.Random, names: Names
    ) -> ProgramText | None:
        """See ``DerivedGenerator``: a method that promises something, and its code."""
        try:
            program = read_problem(known.problem)
        except ProblemError:
            return None
        target = program.target
        clauses = [f"{word} {text}" for word, text in read_contract(target)]
        if target.word != "method" or not any(c.startswith("ensures") for c in clauses):
            return None
        filled = read_declarations(fill_hole(known.problem.statement, known.body))
        code = next(d.body for d in filled if d.name == target.name)
        lines = [*(d.text for d in program.others), *write_head(target, target.name)]
        return ProgramText([*lines, *(f"  {c}" for c in clauses), HOLE], code, PROGRAM)


def read_contract(declared: Declaration) -> list[tuple[str, str]]:
    """The demands and promises of a declaration: words with their claims."""
    return [clause for clause in declared.clauses if clause[0] in ("requires", "ensures")]


def write_head(target: Declaration, name: str) -> list[str]:
    """The head of a method of this name with the parameters, results and frame of another."""
    head = f"method {name}({write_formals(target.formals)})"
    if target.returns:
        head += f" returns ({write_formals(target.returns)})"
    return [head, *(f"  modifies {text}" for text in target.list_clauses("modifies"))]


GENERATOR = CodeGenerator()
