"""Proofs that a run has found, kept so that it can learn from them again.

Flows in: rollouts, and proofs of earlier runs once they are verified. Flows out: the shortest
distinct proved bodies of each problem, each with the conditions under which it was verified. Not
handled here: verifying anew (``proverrl.run.reverify``); proofs with a prelude, which are not
kept; two bodies that differ in the names of bound variables, which count as two.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from proverrl.lang import find_language
from proverrl.types import Candidate, Problem, Rollout

IMPORTED = -1
"""The policy version of a proof that another run found."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a verdict on a problem besides the body: ``judge`` names toolchain, limits
    and version of the audit; ``problem`` is the SHA-256 of all that the problem says and
    demands."""

    judge: str
    problem: str


def describe_conditions(problem: Problem, judge: str) -> Conditions:
    """The conditions of a verdict on ``problem`` by the verifier that ``judge`` names."""
    demanded = json.dumps(problem.metadata.get("expected_entries"))
    text = f"{Candidate(problem, '').key}\x00{demanded}"
    return Conditions(judge, hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class Proof:
    """A proved body, how many tokens its answer has, the version of the policy that wrote it, what
    its verdict rests on, and whether a hint helped to find it."""

    body: str
    num_tokens: int
    policy_version: int
    conditions: Conditions
    hinted: bool = False


@dataclass
class ProofStore:
    """The shortest distinct proved bodies of each problem: {problem id: proofs}. ``conditions``
    says under what a problem is verified now; each proof is stamped with it."""

    keep_shortest: int
    conditions: Callable[[Problem], Conditions]
    proofs: dict[str, list[Proof]] = field(default_factory=dict)

    def add(self, rollout: Rollout) -> None:
        """Keep a proved rollout if it is among its problem's shortest (in tokens)."""
        turn = rollout.turns[-1]
        if turn.verdict is None or turn.candidate is None or not turn.verdict.proved:
            return
        if turn.candidate.prelude:
            # The body alone would lean on lemmas that are not there.
            return
        completion, hint = turn.completion, rollout.hint
        num_given = len(hint.token_ids) if hint and hint.opening and len(rollout.turns) == 1 else 0
        self.keep(
            rollout.problem,
            turn.candidate.body,
            num_tokens=num_given + len(completion.token_ids),
            policy_version=completion.policy_version,
            hinted=hint is not None,
        )

    def keep(
        self,
        problem: Problem,
        body: str,
        *,
        num_tokens: int,
        policy_version: int,
        hinted: bool = False,
    ) -> None:
        """Keep a body that was proved under the present conditions, if it is short enough. Of
        bodies with one normal form one found without a hint stays before one found with it, then
        the shortest, then the first."""
        proof = Proof(body, num_tokens, policy_version, self.conditions(problem), hinted)
        kept = self.proofs.setdefault(problem.id, [])
        normal_form = find_language(problem.language).normal_form
        form = normal_form(body)
        for other in kept:
            if normal_form(other.body) == form:
                if (other.hinted, other.num_tokens) <= (hinted, num_tokens):
                    return
                kept.remove(other)
                break
        kept.append(proof)
        kept.sort(key=lambda p: (p.num_tokens, p.body))
        del kept[self.keep_shortest :]

    def discard(self, problem_id: str, proof: Proof) -> None:
        kept = self.proofs[problem_id]
        kept.remove(proof)
        if not kept:
            del self.proofs[problem_id]

    def entries(self) -> list[tuple[str, Proof]]:
        """(problem id, proof) of every proof kept, in an order that does not depend on when it
        was found."""
        return [(problem, p) for problem, kept in sorted(self.proofs.items()) for p in kept]

    def view(self) -> Mapping[str, tuple[Proof, ...]]:
        """The proofs of each problem as they are now, to be read only."""
        return MappingProxyType({name: tuple(kept) for name, kept in self.proofs.items()})

    def pairs(self) -> list[tuple[str, str]]:
        return [(problem, proof.body) for problem, proof in self.entries()]

    def state_dict(self) -> dict[str, Any]:
        return {problem: [asdict(proof) for proof in kept] for problem, kept in self.proofs.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.proofs = {
            problem: [
                Proof(**{**row, "conditions": Conditions(**row["conditions"])}) for row in rows
            ]
            for problem, rows in state.items()
        }
