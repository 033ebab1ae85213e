"""Dafny's answers to composers and filters.

Flows in: problems, verdicts. Flows out: what ``Composing`` promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from proverrl.config.selfplay import DafnyOperator
from proverrl.lang.dafny.audit.files import audit_file
from proverrl.lang.dafny.compose import attack, forms, fuse, mutate
from proverrl.lang.dafny.compose.declarations import read_problem
from proverrl.lang.dafny.compose.vacuity import TRIVIAL_BODIES, build_requires_probe, proves_probe
from proverrl.lang.parts import Composing
from proverrl.lang.records import Operator
from proverrl.types import Candidate, Problem, Status, Verdict

OPERATORS: Mapping[DafnyOperator, Operator] = {
    "change_constant": Operator(1, mutate.change_constant),
    "flip_sign": Operator(1, mutate.flip_sign),
    "change_bound": Operator(1, mutate.change_bound),
    "drop_requires": Operator(1, mutate.drop_requires),
    "add_requires": Operator(1, mutate.add_requires),
    "drop_ensures": Operator(1, mutate.drop_ensures),
    "weaken_ensures": Operator(1, mutate.weaken_ensures),
    "strengthen_ensures": Operator(1, mutate.strengthen_ensures),
    "instantiate": Operator(1, forms.instantiate),
    "generalise": Operator(1, forms.generalise),
    "apply_lemma": Operator(1, forms.apply_lemma),
    "negate": Operator(1, forms.negate),
    "conjoin_lemmas": Operator(2, fuse.conjoin_lemmas),
    "sequence_loops": Operator(2, fuse.sequence_loops),
    "chain_calls": Operator(2, fuse.chain_calls),
    "nest_loop": Operator(1, fuse.nest_loop),
}
"""Operators on Dafny problems. ``arity`` is the least number of parents; fusions take more."""


class DafnyComposing(Composing):
    """Operators on declarations, and filters that ask for counterexamples."""

    operators: Mapping[str, Operator] = {str(name): made for name, made in OPERATORS.items()}

    def find_cheats(self, problem: Problem) -> Sequence[tuple[str, str]]:
        text = problem.preamble + problem.statement
        return [(finding.rule, finding.message) for finding in audit_file(text)]

    def ask_well_formed(self, problem: Problem) -> Candidate:
        """The hole stays empty: the answer names what was checked."""
        return Candidate(problem, "")

    def explain_malformed(self, problem: Problem, verdict: Verdict) -> tuple[str, str] | None:
        """An entry that fails beside the declaration with the hole (a function that may not end, an
        index out of range in a contract) would fail with every body."""
        if verdict.status is Status.UNSOUND:
            return "refused by the audit", ""
        if not (verdict.failed_in_prover or verdict.proved):
            return "does not resolve", next((d.message for d in verdict.diagnostics), "")
        own = f".{read_problem(problem).target.name}"
        for entry in verdict.obligations:
            is_own = entry.entry.startswith("Impl$$") and entry.entry.endswith(own)
            if entry.proved < entry.total and not is_own:
                return "fails with any body", entry.entry
        return None

    def list_trivial(self, problem: Problem) -> Sequence[str]:
        return ("", *TRIVIAL_BODIES[problem.kind])

    def ask_contradiction(self, problem: Problem) -> Sequence[Candidate]:
        probe = build_requires_probe(problem)
        return () if probe is None else (probe,)

    def explain_contradiction(self, candidate: Candidate, verdict: Verdict) -> str:
        return "its requires contradict each other" if proves_probe(verdict) else ""

    def list_exploits(self, problem: Problem) -> Iterable[Candidate]:
        return attack.list_exploits(problem)

    def ask_run(self, problem: Problem) -> Candidate | None:
        return attack.build_runs(problem)

    def is_broken(self, verdict: Verdict) -> bool:
        return any(
            entry.entry.startswith("Impl$$")
            and entry.entry.rpartition(".")[2].startswith(attack.RUN_NAME)
            and entry.all_proved
            for entry in verdict.obligations
        )

    def negate(self, problem: Problem) -> str | None:
        return "negate" if problem.kind in ("statements", "calc") else None

    def list_proofs(self, problem: Problem) -> Sequence[str]:
        return attack.list_plain_proofs(problem)

    def list_refutations(self, problem: Problem) -> Sequence[str]:
        witnesses = attack.write_witnesses(problem)
        return () if witnesses is None else (witnesses,)


COMPOSING = DafnyComposing()
