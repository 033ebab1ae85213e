"""Training samples: exact token ids of a rollout, with loss mask, log-probs and advantages.

Flows in: a ``Group`` and its advantages. Flows out: ``TrainingSample`` records. Token ids go from
the sampler to the learner untouched; nothing is tokenised again. Not handled here: several turns
in one sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

from proverrl.types import Completion, Group, TrainingSample


def build_samples(group: Group, advantages: Sequence[Sequence[float]]) -> list[TrainingSample]:
    """One sample a turn: prompt masked, completion tokens carry the turn's advantage."""
    samples = []
    for rollout, values in zip(group.rollouts, advantages, strict=True):
        for index, (turn, advantage) in enumerate(zip(rollout.turns, values, strict=True)):
            samples.append(_sample(f"{rollout.id}/{index}", turn.completion, advantage))
    return samples


def build_replay_sample(prompt_ids: Sequence[int], target_ids: Sequence[int]) -> TrainingSample:
    """A proof to imitate: every target token in the loss, no sampler's log-probabilities."""
    num_prompt, num_new = len(prompt_ids), len(target_ids)
    return TrainingSample(
        rollout_id="replay",
        policy_version=-1,
        prompt_length=num_prompt,
        token_ids=(*prompt_ids, *target_ids),
        loss_mask=(0,) * num_prompt + (1,) * num_new,
        logprobs=(0.0,) * (num_prompt + num_new),
        advantages=(0.0,) * num_prompt + (1.0,) * num_new,
    )


def _sample(rollout_id: str, completion: Completion, advantage: float) -> TrainingSample:
    num_prompt, num_new = len(completion.prompt_ids), len(completion.token_ids)
    return TrainingSample(
        rollout_id=rollout_id,
        policy_version=completion.policy_version,
        prompt_length=num_prompt,
        token_ids=completion.prompt_ids + completion.token_ids,
        loss_mask=(0,) * num_prompt + (1,) * num_new,
        logprobs=(0.0,) * num_prompt + completion.logprobs,
        advantages=(0.0,) * num_prompt + (advantage,) * num_new,
    )
