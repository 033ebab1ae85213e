"""Proofs of rarely proved problems, put into later groups that found none.

A group without a proof has one failed rollout replaced by the problem's stored proof, with the
token ids and log-probabilities of its sampler (after ARPO, Lu et al. 2025, arXiv 2505.16282, and
DeepSearch, Wu et al. 2025, arXiv 2509.25454); its importance weight caps the influence of an old
proof (``loss.weights``). A stored proof is judged again before it is used, and never counts as
proved in the step that uses it. Not handled here: proofs of several turns or with a hint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from proverrl.rewards.verdicts import RewardFn
from proverrl.rollout.whole_proof import dump_completion, load_completion
from proverrl.types import Candidate, Completion, Group, Status, Turn
from proverrl.verifier.base import Verifier


@dataclass(frozen=True, slots=True)
class StoredProof:
    """A completion that was proved, and the body in it."""

    completion: Completion
    body: str


@dataclass
class InjectStore:
    """The shortest proof of each problem whose group was proved at most at ``max_rate``."""

    max_rate: float = 0.25
    proofs: dict[str, StoredProof] = field(default_factory=dict)

    def observe(self, group: Group) -> None:
        """Keep the shortest proof of a group that has few, of one turn and without a hint."""
        proved = [r for r in group.rollouts if r.status is Status.PROVED and r.hint is None]
        if not 0 < len(proved) <= self.max_rate * len(group.rollouts):
            return
        for rollout in proved:
            turn = rollout.turns[0]
            if len(rollout.turns) > 1 or turn.candidate is None or turn.candidate.prelude:
                continue
            if turn.completion.missing:
                continue
            known = self.proofs.get(rollout.problem.id)
            if known is None or len(turn.completion.token_ids) < len(known.completion.token_ids):
                self.proofs[rollout.problem.id] = StoredProof(turn.completion, turn.candidate.body)

    def state_dict(self) -> dict[str, Any]:
        return {
            name: {"completion": dump_completion(proof.completion), "body": proof.body}
            for name, proof in self.proofs.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.proofs = {
            name: StoredProof(load_completion(row["completion"]), row["body"])
            for name, row in state.items()
        }


async def inject_proof(
    group: Group,
    store: InjectStore,
    verifier: Verifier,
    reward: RewardFn,
    *,
    deadline_seconds: float,
) -> Group | None:
    """The group with its last rollout replaced by the stored proof; None where it has a proof or a
    hint, nothing is stored, or the stored proof is not proved again."""
    last = group.rollouts[-1]
    stored = store.proofs.get(last.problem.id)
    if stored is None or last.hint is not None:
        return None
    if any(rollout.status is Status.PROVED for rollout in group.rollouts):
        return None
    candidate = Candidate(last.problem, stored.body)
    verdict = await verifier.verify(candidate, deadline_seconds=deadline_seconds)
    if not verdict.proved:
        return None
    turn = Turn(stored.completion, candidate, verdict)
    put = replace(last, id=f"{last.id}-injected", turns=(turn,))
    return Group(
        key=group.key,
        rollouts=(*group.rollouts[:-1], put),
        rewards=(*group.rewards[:-1], reward(put)),
    )
