"""How good each operator is: what of its problems reads, says something, and has a known proof.

Flows in: training problems with references, a verifier. Flows out: one ``OperatorScore`` an
operator. Only parents of the training split are drawn.
Not handled here: how hard the problems are for a policy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from proverrl.compose.guard_checks import make_guards
from proverrl.compose.guards import GuardLedger, GuardTools, run_guards
from proverrl.compose.operators import draw_composed, list_operators
from proverrl.lang.records import Parent
from proverrl.types import Candidate


@dataclass(frozen=True, slots=True)
class OperatorScore:
    """Counts of one operator: parents drawn, problems made, those that resolve (well formed), that
    are not trivial either (satisfiable, no weak contract, not proved by nothing), that pass all
    guards, and of these the ones with a reference and with one that proves them."""

    name: str
    num_drawn: int
    num_made: int
    num_well_formed: int
    num_not_trivial: int
    num_kept: int
    num_with_reference: int
    num_proved: int
    num_calls: int

    def describe(self) -> str:
        """One line of a Markdown table."""
        return (
            f"| `{self.name}` | {self.num_made}/{self.num_drawn} | {self.num_well_formed} | "
            f"{self.num_not_trivial} | {self.num_kept} | {self.num_proved}/"
            f"{self.num_with_reference} | {self.num_calls / max(1, self.num_made):.1f} |"
        )


async def measure_operators(
    parents: Sequence[Parent],
    tools: GuardTools,
    *,
    num: int,
    seed: int,
    names: Iterable[str] = (),
) -> AsyncIterator[OperatorScore]:
    """The score of each operator over ``num`` problems, as each is done.

    ``negate`` is given its parents without their references: it takes no others.
    """
    guards = make_guards(tools)
    language = parents[0].problem.language
    for name in names or list_operators(language):
        given = [Parent(p.problem) for p in parents] if name == "negate" else parents
        made, draws = draw_composed(given, num, names=(name,), round_number=0, seed=seed)
        ledger = GuardLedger()
        run = await run_guards([c.problem for c in made], guards, tools, ledger=ledger)
        kept = {problem.id for problem in run.kept}
        referenced = [c for c in made if c.problem.id in kept and c.reference is not None]
        proved = 0
        for composed in referenced:
            candidate = Candidate(composed.problem, composed.reference or "")
            proved += (await tools.asker.ask("well_formed", candidate)).proved
        early = ledger.count("duplicate") + ledger.count("leak")
        well_formed = len(made) - early - ledger.count("well_formed")
        empty = sum(ledger.count(g) for g in ("satisfiable", "trivial", "weak_contract"))
        yield OperatorScore(
            name=name,
            num_drawn=draws,
            num_made=len(made),
            num_well_formed=well_formed,
            num_not_trivial=well_formed - empty,
            num_kept=len(kept),
            num_with_reference=len(referenced),
            num_proved=proved,
            num_calls=run.num_calls,
        )
