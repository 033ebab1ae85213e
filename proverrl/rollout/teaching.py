"""Failed attempts with what the verifier said about them, for self-distillation.

Flows in: rollouts and the policy that wrote them. Flows out: for each failed attempt its own tokens
as a sample, and the prompt of a teacher that has read the attempt and the feedback on it. Not
handled here: the teacher and the loss (``proverrl.learner.distill``); proofs of siblings in the
prompt.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from proverrl.config import RolloutConfig
from proverrl.policy.base import Exchange, Policy
from proverrl.problems.prompt import use_layout_words
from proverrl.rollout.feedback import FEEDBACK
from proverrl.rollout.hints import with_hint
from proverrl.rollout.samples import build_rollout_samples
from proverrl.rollout.training_sample import TrainingSample
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
    pairs = [
        pair
        for rollout in rollouts
        if (pair := _build_pair(policy, rollout, settings)) is not None
        and len(pair.teacher_prompt) + len(pair.sample.token_ids) <= max_tokens
    ]
    if len(pairs) <= max_pairs:
        return pairs
    return random.Random(seed).sample(pairs, max_pairs)


def _build_pair(policy: Policy, rollout: Rollout, settings: RolloutConfig) -> TeacherPair | None:
    turn = rollout.turns[0]
    if turn.candidate is None or turn.verdict is None or turn.verdict.proved:
        return None
    if not turn.verdict.status.judged or not turn.verdict.diagnostics:
        return None
    text = FEEDBACK[settings.feedback](turn.candidate, turn.verdict, settings.max_errors)
    text = use_layout_words(rollout.problem, text, policy.layout)
    prompt = with_hint(policy.prompt(rollout.problem), rollout.hint)
    read = policy.resume(prompt, [Exchange(turn.completion, text)])
    first = Rollout(rollout.id, rollout.problem, rollout.role, (turn,), rollout.hint)
    [sample] = build_rollout_samples(first, [0.0])
    return TeacherPair(sample, read.token_ids)
