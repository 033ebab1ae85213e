"""The sections of the loops that train a policy, of their loss, optimizer and guard.

The functions that a loss's name chooses stand in ``proverrl.losses``.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from proverrl.config.base import (
    Fraction,
    NonNegative,
    NonNegativeFloat,
    Options,
    PerReference,
    Positive,
    PositiveFloat,
    Section,
    name_of,
)
from proverrl.plugins import is_place

LossName = Literal["clipped_token", "clipped_sequence"]


class LossConfig(Section):
    """The loss, and what is added to it."""

    name: Annotated[str, name_of("loss", LossName)] = "clipped_token"
    """``clipped_token`` or ``clipped_sequence`` ([algorithms.md](algorithms.md#losses-loss))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""
    clip_low: Fraction = 0.2
    """the probability ratio is clipped below 1 minus this"""
    clip_high: NonNegativeFloat = 0.28
    """and above 1 plus this"""
    mask_truncated: bool = False
    """samples cut off at the token limit do not train"""
    sampler_cap: NonNegativeFloat = 0.0
    """a token's loss is weighed by the learner's probability over the sampler's, at most this,
    where they differ by engine or rounding; 2 is usual, 0: not weighed"""
    kl: NonNegativeFloat = 0.0
    """weight of the KL divergence to the policy that the loop started from, of which a copy is then
    kept"""
    entropy: NonNegativeFloat = 0.0
    """weight of the mean entropy, which is subtracted from the loss"""

    @property
    def needs_old_logprobs(self) -> bool:
        """True when the learner must score the samples itself before its first update, because
        its own probabilities are compared with the sampler's."""
        return self.sampler_cap > 0.0

    @property
    def needs_groups(self) -> bool:
        """True when the loss may compare samples of one prompt, as a plug-in's may: they share a
        micro-batch."""
        return is_place(self.name)

    @property
    def needs_reference(self) -> bool:
        """True when a frozen copy of the first policy must be kept (as much memory again as the
        weights take)."""
        return self.kl > 0.0


class GuardConfig(Section):
    """Reactions to an update that looks wrong. One whose loss or gradient is not finite always ends
    the run, before it is made."""

    action: Literal["stop", "warn", "off"] = "warn"
    """where a token's probability has moved by a factor above 1,000 from the sampler's, where the
    mean entropy is below 0.005 nats per token, and where the solve rate is 0.35 above the mean of
    the last ten steps, the sign of a verifier that is being cheated: ``stop``, ``warn`` or
    ``off``"""


OptimizerName = Literal["adamw", "muon"]
PrecisionName = Literal["fp32", "bf16"]
ShardName = Literal["none", "fsdp2"]


RateSchedule = Literal["constant", "linear", "cosine"]

SUPERVISED_DECAY = 0.01
"""Weight decay where few references are learned for many passes; the learner of rewards has none,
since each of its samples is new."""

CHECKPOINTED_PARAMETERS = 500_000_000
"""Models from this size on recompute activations, unless they are told otherwise."""


class LearnerConfig(Section):
    """The optimizer over training samples.

    ``proverrl.learner.weights`` says more of ``precision``, ``proverrl.learner.sharding`` of
    ``shard``, under which the sampler has whole weights of its own.
    """

    optimizer: OptimizerName = "adamw"
    """``adamw`` or ``muon``"""
    learning_rate: PositiveFloat = 3e-4
    """the largest learning rate"""
    warmup_steps: NonNegative = 0
    """steps over which the learning rate rises in equal parts"""
    schedule: RateSchedule = "constant"
    """the learning rate after that: ``constant``, or down to 0 at the end of the loop, by the limit
    that comes first, in a straight line (``linear``) or half a cosine (``cosine``); under a limit
    on minutes a run does not repeat bit for bit"""
    max_policy_norm: NonNegativeFloat = 0.0
    """the gradient of the policy loss alone is scaled down to this norm before that of replay is
    added; 0 leaves it. For losses that sum over a sequence"""
    epochs: Positive = 1
    """passes over the groups of one step"""
    groups_per_update: NonNegative = 0
    """groups in one optimizer update; 0 takes all groups of the step at once"""
    replay_samples: NonNegative = 0
    """proofs to imitate in each update: half found by the run, the rest references; a policy that
    also composes imitates a quarter as many scripts as well"""
    replay_weight: NonNegativeFloat = 0.1
    """weight of their mean negative log-likelihood in the loss"""
    micro_batch_tokens: Positive = 16_384
    """tokens in one forward pass (a prompt counts once for its group); lower it when memory is
    short. A longer group is divided, but for those of plug-ins, which see a group whole"""
    gradient_checkpointing: bool | Literal["auto"] = "auto"
    """recompute activations in the backward pass: less memory, about a third more time. ``auto``:
    from 500 million parameters"""
    precision: PrecisionName | Literal["auto"] = "auto"
    """``bf16``: bfloat16 weights, with float32 masters and optimizer state
    ([engines.md](engines.md#precision)). ``auto``: ``bf16`` for a checkpoint (``policy.path``) on a
    GPU, and on a processor that is faster in it where the checkpoint's own weights are no float32;
    else ``fp32``"""
    shard: ShardName = "none"
    """``fsdp2``: each of several processes holds a part of the learner; ``adamw``, and ``loop``
    ``grpo`` or ``warm_start``, only
    ([engines.md](engines.md#weights-sharded-over-processes-fsdp2))"""

    def recomputes(self, parameters: int) -> bool:
        """The meaning of ``gradient_checkpointing`` for a model of so many parameters."""
        if self.gradient_checkpointing == "auto":
            return parameters >= CHECKPOINTED_PARAMETERS
        return self.gradient_checkpointing

    @model_validator(mode="after")
    def _muon_is_whole(self) -> LearnerConfig:
        if self.shard != "none" and self.optimizer == "muon":
            raise ValueError(
                'shard = "fsdp2" cuts matrices and optimizer = "muon" needs them whole; '
                'set optimizer = "adamw"'
            )
        return self


class WarmStartConfig(Section):
    """Supervised training on reference bodies before the loop."""

    references_per_level: dict[str, NonNegative] = Field(default_factory=dict)
    """reference bodies of each level to learn from, as ``{1 = 40, 2 = 20}``; the loop leaves their
    problems out"""
    resume_places: NonNegative = 0
    """Lean: so many lines of each reference after which the rest is learned as well, with the goals
    there in a comment (for searches that go on from states)"""
    corrections: PerReference = 0
    """so many broken copies of each reference that the verifier refuses (a line lost, two
    exchanged, a name or a number changed); the reference is learned as the second turn after
    each"""
    steps: NonNegative = 200
    """optimizer steps; 0 skips the warm start"""
    batch_size: Positive = 8
    """bodies per step"""
    optimizer: OptimizerName = "muon"
    """``muon`` for a model trained from scratch (fewer steps), ``adamw`` for a pretrained one"""
    learning_rate: PositiveFloat = 2e-2
    """peak learning rate; for ``adamw`` take a tenth or less"""
    weight_decay: ClassVar[float] = SUPERVISED_DECAY
    prompt_weight: Fraction = 0.3
    """weight of a prompt token in the loss; a body token has 1"""


class GrpoConfig(Section):
    """Group-relative policy optimization: the next draw is written while the pool judges one."""

    steps: Positive = 100
    """steps of the loop"""
    groups_per_step: Positive = 12
    """groups that one step trains on; only those that the advantage can learn from count"""
    groups_per_draw: Positive = 12
    """problems drawn at once; drawing continues until there are enough such groups"""
    max_draws_per_step: Positive = 4
    """the most draws in one step"""
    group_size: Annotated[int, Field(ge=2)] = 8
    """rollouts on one problem"""
    in_order: bool = True
    """learn from draws in their order: the run repeats bit for bit, and a step waits for all
    verdicts. ``false``: learn from groups as they complete, while generation and verification go on
    with a copy of the weights"""
    max_staleness: NonNegative = 1
    """the most steps between the weights that wrote a group and the step that learns from it; older
    groups are dropped. In order: 1 writes one draw ahead, 0 none (synchronous)"""
    mixed_verdicts: bool = False
    """train only on groups with both proofs and failures"""
    max_pass_rate: Fraction = 1.0
    """train on groups with at most this share of proofs; 0.75 leaves out nearly solved problems"""

    @model_validator(mode="after")
    def _order_bounds_staleness(self) -> GrpoConfig:
        if self.in_order and self.max_staleness > 1:
            raise ValueError(
                "max_staleness above 1 needs in_order = false: draws in order are at most one "
                "step behind"
            )
        return self


class ExpertIterationConfig(Section):
    """Expert iteration: sample, keep what is proved, train on it, repeat.

    Each round trains on the kept proofs and on the warm start's references.
    """

    rounds: Positive = 4
    """rounds of the loop"""
    problems_per_round: Positive = 200
    """problems drawn in a round"""
    samples_per_problem: Positive = 8
    """rollouts on each problem"""
    problems_per_draw: Positive = 16
    """problems sampled and judged at once"""
    from_warm_start: bool = True
    """train each round from the warm-started weights; ``false`` continues from the last round's"""
    proofs: str = ""
    """a file of an earlier run's proofs (``proverrl proofs``) to start from; each is verified
    first"""
    epochs: Positive = 2
    """passes over the kept bodies in a round"""
    batch_size: Positive = 16
    """bodies per step"""
    optimizer: OptimizerName = "adamw"
    """``adamw`` or ``muon``"""
    learning_rate: PositiveFloat = 1e-3
    """peak learning rate"""
    weight_decay: ClassVar[float] = SUPERVISED_DECAY


class SamplesConfig(Section):
    """Searches that a run learns from; each proof is judged anew before it is used."""

    files: tuple[str, ...] = ()
    """files that ``--emit-samples`` wrote; their proofs join those of ``expert_iteration``, and the
    replay of ``grpo``"""
