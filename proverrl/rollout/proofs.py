"""Proofs that a run has found, kept for learning from again.

Flows in: rollouts. Flows out: the shortest distinct proved bodies of each problem. State is plain
JSON, saved in the checkpoint. Not handled here: proofs of an older toolchain; proofs with a
prelude, which are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proverrl.types import Rollout


@dataclass(frozen=True, slots=True)
class Proof:
    """A proved body, and how many tokens the policy wrote for it."""

    body: str
    num_tokens: int


@dataclass
class ProofStore:
    """The shortest distinct proved bodies of each problem: {problem id: proofs}."""

    keep_shortest: int
    proofs: dict[str, list[Proof]] = field(default_factory=dict)

    def add(self, rollout: Rollout) -> None:
        """Keep a proved rollout if it is among its problem's shortest (in tokens)."""
        turn = rollout.turns[-1]
        if turn.verdict is None or turn.candidate is None or not turn.verdict.proved:
            return
        if turn.candidate.prelude:
            # The body alone would lean on lemmas that are not there.
            return
        proof = Proof(turn.candidate.body, len(turn.completion.token_ids))
        kept = self.proofs.setdefault(rollout.problem.id, [])
        if any(other.body == proof.body for other in kept):
            return
        kept.append(proof)
        kept.sort(key=lambda p: (p.num_tokens, p.body))
        del kept[self.keep_shortest :]

    def pairs(self) -> list[tuple[str, str]]:
        """(problem id, body) of every proof kept, in an order that does not depend on when it
        was found."""
        return [(problem, p.body) for problem, kept in sorted(self.proofs.items()) for p in kept]

    def state_dict(self) -> dict[str, Any]:
        return {
            problem: [[proof.body, proof.num_tokens] for proof in kept]
            for problem, kept in self.proofs.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.proofs = {
            problem: [Proof(body, num_tokens) for body, num_tokens in kept]
            for problem, kept in state.items()
        }
