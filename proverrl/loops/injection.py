"""Stored proofs put into groups of a step that found none; see ``proverrl.rollout.inject``.

Flows in: the groups of a draw. Flows out: the groups to compare. What was put in is counted apart
and stands in the rows of the step; the run's figures, its curriculum and its history hear of the
groups as they were.
"""

from __future__ import annotations

from collections.abc import Sequence

from proverrl.loops.session import Session
from proverrl.loops.tally import Tally
from proverrl.rewards import RewardFn
from proverrl.rollout.inject import InjectStore, inject_proof
from proverrl.types import Group


async def inject_proofs(
    session: Session, store: InjectStore, groups: Sequence[Group], tally: Tally, reward: RewardFn
) -> list[Group]:
    """The groups, some with a stored proof; unchanged unless ``grpo.inject_proofs`` is set."""
    if not session.config.grpo.inject_proofs:
        return list(groups)
    compared = []
    for group in groups:
        store.observe(group)
        put = await inject_proof(
            group,
            store,
            session.verifier,
            reward,
            deadline_seconds=session.config.pool.deadline_seconds,
        )
        if put is not None:
            tally.add_injected(put.rollouts[-1], put.rewards[-1])
        compared.append(put or group)
    return compared
