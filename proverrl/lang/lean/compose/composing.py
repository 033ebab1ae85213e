"""What composers and guards ask of Lean.

Flows in: problems, verdicts. Flows out: what ``Composing`` promises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proverrl.lang.base import Composing
from proverrl.lang.lean.compose.mutate import LEAN_OPERATORS, Theorem, read_theorem
from proverrl.lang.lean.skeletons import read_skeletons
from proverrl.lang.records import Operator
from proverrl.types import Candidate, Problem, Status, Verdict

PORTFOLIO: tuple[str, ...] = (
    *("rfl", "trivial", "decide", "simp", "simp_all", "omega", "norm_num", "tauto", "aesop"),
)
"""Tactics that prove a Lean statement which is not worth a proof of its own."""


class LeanComposing(Composing):
    """Operators on statements as text, and guards that try a portfolio of tactics."""

    operators: Mapping[str, Operator] = {str(name): made for name, made in LEAN_OPERATORS.items()}

    def find_cheats(self, problem: Problem) -> Sequence[tuple[str, str]]:
        words = ("axiom", "sorry", "import", "opaque", "unsafe")
        found = [word for word in words if word in problem.statement.split()]
        return [("keywords", f"it holds {word!r}") for word in found]

    def own_preamble(self, parent: Problem) -> str:
        return parent.preamble

    def ask_well_formed(self, problem: Problem) -> Candidate:
        return Candidate(problem, "sorry")

    def explain_malformed(self, problem: Problem, verdict: Verdict) -> tuple[str, str] | None:
        is_fine = verdict.status in (Status.INCOMPLETE, Status.UNSOUND)
        return None if is_fine else ("does not elaborate", "")

    def list_trivial(self, problem: Problem) -> Sequence[str]:
        if problem.kind == "term":
            return tuple(f"by {tactic}" for tactic in PORTFOLIO)
        return PORTFOLIO

    def ask_contradiction(self, problem: Problem) -> Sequence[Candidate]:
        absurd = make_absurd(problem)
        return () if absurd is None else tuple(Candidate(absurd, tactic) for tactic in PORTFOLIO)

    def explain_contradiction(self, candidate: Candidate, verdict: Verdict) -> str:
        return f"its hypotheses prove False by {candidate.body}" if verdict.proved else ""

    def negate(self, problem: Problem) -> str | None:
        return "lean_negate"

    def list_proofs(self, problem: Problem) -> Sequence[str]:
        return PORTFOLIO

    def list_refutations(self, problem: Problem) -> Sequence[str]:
        return tuple(f"push_neg; {tactic}" for tactic in PORTFOLIO)

    def read_shape(self, problem: Problem) -> list[str]:
        return read_skeletons(problem.preamble + problem.statement)[1].split(" ")


def make_absurd(problem: Problem) -> Problem | None:
    """The statement with the same hypotheses and the goal ``False``; None without hypotheses."""
    theorem = read_theorem(problem)
    if theorem is None or not theorem.binders:
        return None
    absurd = Theorem(f"{theorem.name}_absurd", theorem.binders, "False", theorem.ending)
    return Problem(f"{problem.id}#absurd", "lean", problem.kind, problem.preamble, absurd.text)


COMPOSING = LeanComposing()
