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
    """A proved body, how many tokens its answer has, and whether a hint helped to find it."""

    body: str
    num_tokens: int
    hinted: bool = False


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
        hint = rollout.hint
        num_given = len(hint.token_ids) if hint and hint.opening and len(rollout.turns) == 1 else 0
        num_tokens = num_given + len(turn.completion.token_ids)
        proof = Proof(turn.candidate.body, num_tokens, hint is not None)
        kept = self.proofs.setdefault(rollout.problem.id, [])
        same = next((other for other in kept if other.body == proof.body), None)
        if same is not None and (proof.hinted or not same.hinted):
            return
        if same is not None:
            kept.remove(same)
        kept.append(proof)
        kept.sort(key=lambda p: (p.num_tokens, p.body))
        del kept[self.keep_shortest :]

    def pairs(self) -> list[tuple[str, str]]:
        """(problem id, body) of every proof kept, in an order that does not depend on when it
        was found."""
        return [(problem, p.body) for problem, kept in sorted(self.proofs.items()) for p in kept]

    def state_dict(self) -> dict[str, Any]:
        return {
            problem: [[proof.body, proof.num_tokens, proof.hinted] for proof in kept]
            for problem, kept in self.proofs.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.proofs = {
            problem: [Proof(*values) for values in kept] for problem, kept in state.items()
        }
