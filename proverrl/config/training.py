"""The sections of the loops that train a policy, of their optimizer, and of a value model.

Not handled here: the loss (``proverrl.config.losses``).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from proverrl.config.base import (
    Fraction,
    NonNegative,
    NonNegativeFloat,
    PerReference,
    Positive,
    PositiveFloat,
    Section,
)

OptimizerName = Literal["adamw", "muon"]
PrecisionName = Literal["fp32", "bf16"]
ShardName = Literal["none", "fsdp2"]


RateSchedule = Literal["constant", "linear", "cosine"]

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
    """steps over which the rate rises to it in equal parts"""
    schedule: RateSchedule = "constant"
    """the rate after that: ``constant``, or down to 0 at the end of the loop in a straight line
    (``linear``) or half a cosine (``cosine``). The end is that of ``grpo.steps`` or of a limit on
    calls or minutes, whichever comes first; under a limit on minutes a run does not repeat bit for
    bit"""
    weight_decay: float = 0.0
    """weight decay"""
    max_grad_norm: PositiveFloat = 1.0
    """gradients are scaled down to this norm"""
    max_policy_norm: NonNegativeFloat = 0.0
    """the gradient of the policy loss alone is scaled down to this norm before those of replay and
    distillation are added; 0 leaves it. For a loss that sums over a sequence (``kimina``), whose
    norms of 100 and more would leave nothing of the replay under ``max_grad_norm``"""
    epochs: Positive = 1
    """passes over the groups of one step"""
    groups_per_update: NonNegative = 0
    """groups in one optimizer update; 0 takes all groups of the step at once"""
    replay_samples: NonNegative = 0
    """proofs to imitate in each update: half of them found by the run, the rest references of the
    warm start; a policy that also composes imitates a quarter as many scripts as well"""
    replay_corrections: NonNegative = 0
    """answers to failed attempts in each update, as a second turn would write them: the prompt is a
    failure of this step with what the verifier said of it (``[rollout]``: ``feedback``), the answer
    a proof that the run has of that problem; left out where the model is too short for both"""
    replay_weight: NonNegativeFloat = 0.1
    """weight of their mean negative log-likelihood in the loss"""
    micro_batch_tokens: Positive = 16_384
    """tokens in one forward pass (a prompt counts once for its group, padding of a warm start's
    bodies as tokens); lower it when memory is short. A group that is longer is divided, but for the
    loss ``kimina`` and those of your own, which see a group whole"""
    gradient_checkpointing: bool | Literal["auto"] = "auto"
    """recompute activations in the backward pass: less memory, about a third more time.
    ``auto``: from 500 million parameters on"""
    precision: PrecisionName | Literal["auto"] = "auto"
    """``bf16``: sampler and learner share a model with bfloat16 weights, and the learner keeps a
    float32 master of each weight and float32 optimizer state ([engines.md](engines.md)). It applies
    to evaluation too. ``auto``: ``bf16`` for a checkpoint (``policy.path``) on a GPU, ``fp32`` on a
    CPU and for a small model from scratch"""
    shard: ShardName = "none"
    """``fsdp2``: each of several processes holds a part of the learner's weights, gradients and
    optimizer state; ``adamw``, and ``loop`` ``grpo`` or ``warm_start``, only
    ([engines.md](engines.md))"""

    def recomputes(self, parameters: int) -> bool:
        """What ``gradient_checkpointing`` means for a model of so many parameters."""
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


InstructionRole = Literal["none", "writer", "instructor"]


class WarmStartConfig(Section):
    """Supervised training on reference bodies before the loop."""

    references_per_level: dict[str, NonNegative] = Field(default_factory=dict)
    """how many reference bodies of each level to learn from, such as ``{1 = 40, 2 = 20}``; their
    problems are left out of the loop"""
    resume_places: NonNegative = 0
    """of each reference in a language with states (Lean), so many of its lines, drawn at random,
    after which the rest is learned as well, with the goals there in a comment, as searches show
    them (``search.step = "tactic"``, prefixes of ``rmax_ts``)"""
    corrections: PerReference = 0
    """of each reference, so many broken copies (a line lost, two exchanged, a name or a number
    changed) that the verifier refuses; the reference is learned as the answer to each and to what
    the verifier says of it, as a second turn shows them (``[rollout]``: ``feedback``)"""
    judgements: PerReference = 0
    """of each reference, so many broken copies as above, each to be judged as refused, and the
    reference as often as proved: the form of answers that ``grpo.judgements`` asks for"""
    critiques: str = ""
    """a file of judged pairs whose right statements are learned too, and the references, as critics
    are shown them: for a formaliser that is to judge (``proverrl fit-critic``,
    [formalizing.md](formalizing.md)); empty for none"""
    instructions: InstructionRole = "none"
    """``writer``: each reference is learned under its instruction as well, the words that say what
    it holds; ``instructor``: no bodies, but the form of instructions, those of other references
    drawn at random ([preface.md](preface.md))"""
    bare_share: Fraction = 1.0
    """the share of the families whose bodies a ``writer`` also learns without an instruction; those
    of the others it learns to write under their words alone ([preface.md](preface.md))"""
    steps: NonNegative = 200
    """optimizer steps; 0 skips the warm start"""
    batch_size: Positive = 8
    """bodies per step"""
    optimizer: OptimizerName = "muon"
    """``muon`` for a model trained from scratch (fewer steps), ``adamw`` for a pretrained one"""
    learning_rate: PositiveFloat = 2e-2
    """peak learning rate; for ``adamw`` take a tenth or less"""
    weight_decay: float = 0.01
    """weight decay"""
    prompt_weight: Fraction = 0.3
    """weight of a prompt token in the loss, where a body token has 1"""
    pack_tokens: NonNegative = 0
    """pack the bodies of a batch end to end into rows of at most this many tokens (none attends to
    another; the loss is the same); 0 pads instead. Worth it when a batch mixes short and long
    bodies"""

    @model_validator(mode="after")
    def _only_a_writer_has_a_bare_share(self) -> WarmStartConfig:
        if self.bare_share < 1.0 and self.instructions != "writer":
            raise ValueError('bare_share below 1 needs instructions = "writer"')
        return self


class GrpoConfig(Section):
    """Group-relative policy optimization: the next draw is written while the pool judges one."""

    steps: Positive = 100
    """steps of the loop"""
    groups_per_step: Positive = 12
    """groups that one step trains on; only those that the advantage can learn from count, which for
    most methods are the mixed ones"""
    groups_per_draw: Positive = 12
    """problems drawn at once; drawing continues until there are enough such groups"""
    max_draws_per_step: Positive = 4
    """the most draws in one step"""
    group_size: Annotated[int, Field(ge=2)] = 8
    """rollouts on one problem"""
    keep_shortest: Positive = 2
    """distinct proved bodies kept per problem for replay"""
    in_order: bool = True
    """learn from draws in the order in which they were drawn: the run repeats bit for bit on one
    machine with one setting, and a step waits for all verdicts of its draws. ``false``: learn from
    groups as they complete, while generation, verification and learning run at the same time; the
    sampler then holds a copy of the weights"""
    max_staleness: NonNegative = 1
    """the most steps between the weights that wrote a group (the last segment of it, with
    ``sampling.segment_tokens``) and the step that learns from it. In order: 1 writes one draw
    ahead, 0 none (synchronous). Otherwise older groups are dropped and counted; 0 also means in
    order"""
    mixed_verdicts: bool = False
    """train only on groups with both proofs and failures, whatever penalties do to their rewards"""
    min_pass_rate: Fraction = 0.0
    """train on groups with at least this share of proofs"""
    max_pass_rate: Fraction = 1.0
    """and at most this share; 0.75 leaves out nearly solved problems"""
    judgements: NonNegative = 0
    """so many attempts of each step, half of them proved, are judged by the policy that wrote them
    (RISE, [self_judging.md](self_judging.md)): a group of judgements on each, which earn 1 where
    they are the verifier's and are learned from in the same update; 0 for none"""

    @model_validator(mode="after")
    def _judgements_come_in_pairs(self) -> GrpoConfig:
        if self.judgements % 2:
            raise ValueError(
                f"judgements = {self.judgements} is odd: half of the attempts that are judged are "
                "proved; give an even number"
            )
        return self

    @model_validator(mode="after")
    def _some_pass_rate(self) -> GrpoConfig:
        if self.min_pass_rate > self.max_pass_rate:
            raise ValueError("min_pass_rate is above max_pass_rate: no group would be admitted")
        return self

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

    Each round trains on the kept proofs and on the warm start's references; see
    ``proverrl.loops.mixture`` for the two limits.
    """

    rounds: Positive = 4
    """rounds of the loop"""
    problems_per_round: Positive = 200
    """problems drawn in a round"""
    samples_per_problem: Positive = 8
    """rollouts on each problem"""
    keep_shortest: Positive = 2
    """distinct proved bodies kept per problem, over all rounds; two that differ in comments or
    white space count as one"""
    problems_per_draw: Positive = 16
    """problems sampled and judged at once"""
    from_warm_start: bool = True
    """train each round from the warm-started weights; ``false`` continues from those of the last
    round"""
    proofs: str = ""
    """a file of an earlier run's proofs (``proverrl proofs RUN --out FILE``) to start from; each is
    verified first"""
    sft_data: str = ""
    """a file of problems with the field ``reference`` that every round also learns from; not
    verified; refused if it holds a problem of the validation or held-out split"""
    earlier_share: Fraction = 1.0
    """the largest share of a round's proofs that come from earlier rounds or runs; 1 is no limit,
    and a round that found nothing new takes all"""
    max_proofs_per_problem: NonNegative = 0
    """the most proofs of one problem that a round learns from, drawn anew each round, so
    that easy problems do not outweigh the rest; 0 takes all that are kept"""
    epochs: Positive = 2
    """passes over the kept bodies in a round"""
    batch_size: Positive = 16
    """bodies per step"""
    optimizer: OptimizerName = "adamw"
    """``adamw`` or ``muon``"""
    learning_rate: PositiveFloat = 1e-3
    """peak learning rate"""
    weight_decay: float = 0.01
    """weight decay"""
    pack_tokens: NonNegative = 0
    """as ``warm_start.pack_tokens``"""


class PreferencesConfig(Section):
    """Training on pairs of bodies, of which one is preferred; read when ``loop = "preferences"``.

    The loss is that of DPO (Rafailov et al. 2023, arXiv 2305.18290) against the policy that the
    loop begins with.
    """

    pairs: str = ""
    """a file of problems with the fields ``chosen`` and ``rejected``, two bodies (``proverrl prove
    --preferences FILE``)"""
    beta: PositiveFloat = 0.1
    """how much the difference to the first policy weighs; the smaller, the further it may move"""
    epochs: Positive = 1
    """passes over the pairs"""
    batch_size: Positive = 8
    """pairs per step"""
    optimizer: OptimizerName = "adamw"
    """``adamw`` or ``muon``"""
    learning_rate: PositiveFloat = 1e-4
    """peak learning rate"""
    weight_decay: float = 0.0
    """weight decay"""


class ValueConfig(Section):
    """A value head on a policy's hidden states; read when ``loop = "value"``."""

    run: str = ""
    """a run, whose newest weights and rollouts are used. With ``policy.path`` set, only the
    rollouts"""
    last_steps: NonNegative = 0
    """use the rollouts of this many last steps of that run; 0 is all"""
    rollouts: tuple[str, ...] = ()
    """more files or folders of rollouts on Dafny problems"""
    samples: tuple[str, ...] = ()
    """files that ``--emit-samples`` wrote"""
    layers: Positive = 1
    """how many of the last layers' hidden states are read"""
    rank_weight: Fraction = 0.5
    """share of the loss that ranks the prefixes of one problem against each other; the rest is
    cross-entropy"""
    hidden: Positive = 64
    """width of the head"""
    learning_rate: PositiveFloat = 1e-3
    """learning rate of AdamW"""
    weight_decay: NonNegativeFloat = 0.01
    """weight decay"""
    batch_size: Positive = 512
    """pairs per step; a problem's pairs stay together"""
    epochs: Positive = 60
    """the most passes over the pairs"""
    patience: Positive = 6
    """ends after this many epochs in which the loss on held-back problems did not fall"""
    valid_share: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.2
    """share of the problems that chooses the epoch"""
    test_share: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.2
    """share of the problems that the figures are measured on; they are used for nothing else"""


class SamplesConfig(Section):
    """What a run learns from searches; each body is judged anew before it is used."""

    files: tuple[str, ...] = ()
    """files that ``--emit-samples`` wrote"""
    warm_start: bool = False
    """learn their proofs in the warm start, together with the references"""
    proofs: bool = True
    """add their proofs to those that the loop keeps: what ``expert_iteration`` trains on, and the
    replay of ``grpo``"""
    passes: NonNegative = 0
    """``grpo``: how many times to learn all paths before the first step, each token with the
    advantage of its segment; one process only"""
    problems_per_update: Positive = 8
    """problems whose paths form one update of a pass"""

    @model_validator(mode="after")
    def _has_files(self) -> SamplesConfig:
        if not self.files and (self.warm_start or self.passes):
            raise ValueError("files is empty and warm_start or passes is set; name a file")
        return self
