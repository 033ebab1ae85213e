"""Failed attempts with what the verifier said about them, for self-distillation.

Flows in: rollouts and the policy that wrote them. Flows out: for each failed attempt its own tokens
as a sample, and the prompt of a teacher that has read the attempt and the feedback on it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from proverrl.config import RolloutConfig
from proverrl.policy.base import Exchange, Policy
from proverrl.rollout.hints import with_hint
from proverrl.rollout.samples import TrainingSample, build_rollout_samples
from proverrl.rollout.self_correct import tell
from proverrl.types import Rollout


@dataclass(frozen=True, slots=True)
class TeacherPair:
    """An attempt, and the prompt under which a teacher scores the same tokens."""

    sample: TrainingSample
    teacher_prompt: tuple[int, ...]


def build_pairs(
    policy: Policy,
    rollouts: Sequence[Rollout],
    settings: RolloutConfig,
    *,
    max_pairs: int,
    max_tokens: int,
    seed: int,
) -> list[TeacherPair]:
    """At most ``max_pairs`` pairs of first attempts that failed with a message, drawn under
    ``seed``; those whose teacher would read more than ``max_tokens`` tokens are left out."""
    built = (_build_pair(policy, rollout, settings) for rollout in rollouts)
    pairs = [
        pair
        for pair in built
        if pair and len(pair.teacher_prompt) + len(pair.sample.token_ids) <= max_tokens
    ]
    return pairs if len(pairs) <= max_pairs else random.Random(seed).sample(pairs, max_pairs)


def _build_pair(policy: Policy, rollout: Rollout, settings: RolloutConfig) -> TeacherPair | None:
    turn = rollout.turns[0]
    if turn.candidate is None or turn.verdict is None or turn.verdict.proved:
        return None
    if not turn.verdict.status.judged or not turn.verdict.diagnostics:
        return None
    prompt = with_hint(policy.prompt(rollout.problem), rollout.hint)
    read = policy.resume(prompt, [Exchange(turn.completion, tell(turn, policy, settings))])
    [sample] = build_rollout_samples(replace(rollout, turns=(turn,)), [0.0])
    return TeacherPair(sample, read.token_ids)
