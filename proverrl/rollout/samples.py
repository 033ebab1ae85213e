"""Training samples: exact token ids of a rollout, with loss mask, log-probs and advantages.

Token ids go from the sampler to the learner unchanged; nothing is tokenised again. All turns of a
rollout are one sequence, in which feedback is context only, as long as each turn's prompt continues
from the one before; where the history was cut a new sequence begins, so that every completion token
is learned once, under the context that it was sampled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proverrl.advantages import Credit, token_credit
from proverrl.errors import RecordError
from proverrl.types import Group, Rollout, Turn


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """A token sequence to learn from; all per-token fields have the length of ``token_ids``.

    Positions with ``loss_mask`` 0 (the prompt, verifier feedback) carry log-probability and
    advantage 0 and are context only. ``prompt_length`` is the number of leading prompt tokens.
    ``truncated`` says that the completion was cut off at the token limit. ``versions`` are those of
    the policies that wrote the tokens, empty where one wrote all; ``policy_version`` is the oldest.
    """

    rollout_id: str
    policy_version: int
    prompt_length: int
    token_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    advantages: tuple[float, ...]
    truncated: bool = False
    versions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        per_token = (self.loss_mask, self.logprobs, self.advantages, self.token_versions)
        if len({len(self.token_ids), *map(len, per_token)}) != 1:
            raise RecordError(f"sample {self.rollout_id!r}: per-token fields differ in length")
        if not 0 < self.prompt_length < len(self.token_ids):
            raise RecordError(f"sample {self.rollout_id!r}: needs a prompt and a completion")
        if any(self.loss_mask[: self.prompt_length]):
            raise RecordError(f"sample {self.rollout_id!r}: a prompt token is in the loss")

    @property
    def num_new(self) -> int:
        """Tokens after the prompt."""
        return len(self.token_ids) - self.prompt_length

    @property
    def token_versions(self) -> tuple[int, ...]:
        """The version of the policy that wrote each token."""
        return self.versions or (self.policy_version,) * len(self.token_ids)


def build_samples(group: Group, advantages: Sequence[Sequence[Credit]]) -> list[TrainingSample]:
    """One sample per rollout (more if its history was cut): prompt and feedback masked, every
    completion token with its own log-probability and its turn's advantage, or its own. Raises
    ``RecordError`` if a completion lacks token ids or log-probabilities (a server did not give
    them), or a turn's advantages are not as many as its tokens."""
    return [
        sample
        for rollout, values in zip(group.rollouts, advantages, strict=True)
        for sample in build_rollout_samples(rollout, values)
    ]


def build_rollout_samples(rollout: Rollout, advantages: Sequence[Credit]) -> list[TrainingSample]:
    """The samples of one rollout; ``advantages`` has an entry per turn. See ``build_samples``."""
    growing: list[_GrowingSample] = []
    for index, (turn, value) in enumerate(zip(rollout.turns, advantages, strict=True)):
        if turn.completion.missing:
            lacks = " and ".join(turn.completion.missing)
            raise RecordError(
                f"rollout {rollout.id!r} cannot be learned from: the policy's server did not give "
                f"its {lacks}"
            )
        if not growing or not growing[-1].continues_in(turn):
            growing.append(_GrowingSample(f"{rollout.id}/{index}", turn))
        growing[-1].add(turn, value)
    return [sample.finish() for sample in growing]


class _GrowingSample:
    """A sample that grows by turns."""

    def __init__(self, name: str, first: Turn) -> None:
        self.name = name
        self.prompt_length = len(first.completion.prompt_ids)
        self.token_ids: tuple[int, ...] = first.completion.prompt_ids
        self.mask = [0] * self.prompt_length
        self.logprobs = [0.0] * self.prompt_length
        self.advantages = [0.0] * self.prompt_length
        self.versions = [first.completion.policy_version] * self.prompt_length
        self.truncated = False

    def continues_in(self, turn: Turn) -> bool:
        """True if the turn was written after exactly what this sample holds."""
        return turn.completion.prompt_ids[: len(self.token_ids)] == self.token_ids

    def add(self, turn: Turn, advantage: Credit) -> None:
        completion = turn.completion
        num_new = len(completion.token_ids)
        context = completion.prompt_ids[len(self.token_ids) :]
        self.token_ids += context + completion.token_ids
        self.mask += [0] * len(context) + [1] * num_new
        self.logprobs += [0.0] * len(context) + list(completion.logprobs)
        self.advantages += [0.0] * len(context) + list(token_credit(advantage, num_new))
        self.versions += [completion.policy_version] * (len(context) + num_new)
        self.truncated |= completion.finish_reason == "length"

    def finish(self) -> TrainingSample:
        return TrainingSample(
            rollout_id=self.name,
            # The oldest of them, so that a bound on staleness holds for every token.
            policy_version=min(self.versions),
            prompt_length=self.prompt_length,
            token_ids=self.token_ids,
            loss_mask=tuple(self.mask),
            logprobs=tuple(self.logprobs),
            advantages=tuple(self.advantages),
            truncated=self.truncated,
            versions=tuple(self.versions) if len(set(self.versions)) > 1 else (),
        )


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
