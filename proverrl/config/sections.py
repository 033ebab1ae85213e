"""The sections of a run's configuration, one frozen model each.

Flows in: a table of TOML. Flows out: checked values. The names of functions that a key may choose
are ``Literal``s here; the functions themselves stand in dicts of the modules that hold them.
Not handled here: whether paths exist (the module that opens them says so).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from proverrl.config.advantages import AdvantageConfig
from proverrl.config.base import (
    MAX_WORKERS,
    Fraction,
    NonNegative,
    Positive,
    PositiveFloat,
    Section,
)
from proverrl.config.curriculum import CurriculumConfig
from proverrl.config.data_loop import DataLoopConfig
from proverrl.config.endpoint import EndpointConfig
from proverrl.config.engine import EngineName, VllmConfig
from proverrl.config.losses import GuardConfig, LossConfig
from proverrl.config.restart import RestartConfig
from proverrl.config.rewards import AuditConfig, RewardConfig
from proverrl.config.rollout import RolloutConfig
from proverrl.config.sampling import SamplingConfig, choose_token_limit
from proverrl.config.search import SearchConfig
from proverrl.config.selfplay import SelfplayConfig
from proverrl.config.value import SamplesConfig, ValueConfig

LoopName = Literal["warm_start", "grpo", "expert_iteration", "data_loop", "selfplay", "value"]
ROUND_LOOPS: tuple[LoopName, ...] = ("expert_iteration", "data_loop")
"""Those that count rounds of ``[expert_iteration]``."""
OptimizerName = Literal["adamw", "muon"]
LayoutName = Literal["plain", "canonical", "kimina", "deepseek", "deepseek_cot", "goedel", "dafny"]
DeviceName = Literal["auto", "cpu", "cuda"]
PrecisionName = Literal["fp32", "bf16"]
ShardName = Literal["none", "fsdp2"]


class ProblemsConfig(Section):
    """Where the three splits are. Paths are relative to the working folder."""

    train: Path = Path("dafny/curriculum/train.jsonl")
    valid: Path = Path("dafny/curriculum/valid.jsonl")
    heldout: Path = Path("dafny/curriculum/heldout.jsonl")


class LoraConfig(Section):
    """Low-rank adapters; ``rank = 0`` trains all weights. ``targets`` are names of linear layers,
    or ``all-linear`` for all but the output layer. Dropout acts in supervised training only."""

    rank: NonNegative = 0
    alpha: PositiveFloat = 64.0
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"


class PolicyConfig(Section):
    """The policy: a Hugging Face folder or id in ``path``, or a small model from scratch.

    With ``path`` empty, a Llama model of the sizes below is initialised and its byte-level BPE
    tokenizer is trained on the training split. ``engine`` is what samples; what is trained is a
    transformers model under either.
    """

    path: str = ""
    engine: EngineName = "transformers"
    layout: LayoutName = "plain"
    device: DeviceName = "auto"
    num_layers: Positive = 4
    hidden_size: Positive = 192
    num_heads: Positive = 6
    intermediate_size: Positive = 512
    vocab_size: Positive = 768
    rope_theta: PositiveFloat = 10_000.0
    max_rows: Positive = 256
    lora: LoraConfig = LoraConfig()

    @model_validator(mode="after")
    def _heads_fit(self) -> PolicyConfig:
        # A head turns its numbers in pairs, by their positions.
        if not self.path and self.hidden_size % (2 * self.num_heads):
            raise ValueError(
                f"hidden_size {self.hidden_size} is no multiple of twice num_heads "
                f"{self.num_heads}; change one of them"
            )
        return self


class WarmStartConfig(Section):
    """Supervised training on reference bodies before the loop; ``steps = 0`` skips it.

    ``references_per_level`` reference bodies of each level are used; the problems that they
    belong to are left out of reinforcement learning. ``prompt_weight`` is the weight of a prompt
    token in the loss, where a body token has 1. With ``pack_tokens`` a batch is laid end to end in
    rows of at most so many tokens instead of one padded row a body.
    """

    references_per_level: dict[str, NonNegative] = Field(default_factory=dict)
    steps: NonNegative = 200
    batch_size: Positive = 8
    optimizer: OptimizerName = "muon"
    learning_rate: PositiveFloat = 2e-2
    weight_decay: float = 0.01
    prompt_weight: Fraction = 0.3
    pack_tokens: NonNegative = 0


class PoolConfig(Section):
    """The verifier pool. ``rlimit`` is Dafny's deterministic resource limit per procedure.

    ``memory_mb`` holds for one worker with its children; left out, it is what is usual for the
    worker's language. ``canary_rate`` is the share of calls
    beside which a false statement is judged; one that is accepted stops the run.
    """

    workers: Annotated[int, Field(ge=1, le=MAX_WORKERS)] = 2
    deadline_seconds: PositiveFloat = 20.0
    rlimit: Positive = 3_000_000
    memory_mb: PositiveFloat | None = None
    canary_rate: Fraction = 0.01
    cache: Path = Path("runs/verdicts.sqlite")

    @field_validator("cache")
    @classmethod
    def _names_a_file(cls, value: Path) -> Path:
        if not value.name:
            raise ValueError(f"{str(value)!r} names no file; write a path such as runs/v.sqlite")
        return value


class LearnerConfig(Section):
    """The optimizer over training samples.

    A step passes ``epochs`` times over its groups, ``groups_per_update`` groups per update (0: all
    of them in one). Each update adds ``replay_weight`` times the mean negative log-likelihood of
    ``replay_samples`` proofs: half of them found by the run, the rest references of warm start.

    ``precision = "bf16"``: the model of sampler and learner alike has bfloat16 weights; the learner
    keeps a float32 master of each and float32 optimizer state (``proverrl.learner.weights``).

    ``shard = "fsdp2"``: each of several processes holds a part of the learner's weights, gradients
    and optimizer state, and the sampler its own whole weights
    (``proverrl.learner.sharded_weights``).
    """

    optimizer: OptimizerName = "adamw"
    learning_rate: PositiveFloat = 3e-4
    weight_decay: float = 0.0
    max_grad_norm: PositiveFloat = 1.0
    epochs: Positive = 1
    groups_per_update: NonNegative = 0
    replay_samples: NonNegative = 0
    replay_weight: Annotated[float, Field(ge=0.0)] = 0.1
    micro_batch_tokens: Positive = 16_384
    gradient_checkpointing: bool = False
    precision: PrecisionName = "fp32"
    shard: ShardName = "none"

    @model_validator(mode="after")
    def _muon_is_whole(self) -> LearnerConfig:
        if self.shard != "none" and self.optimizer == "muon":
            raise ValueError(
                'shard = "fsdp2" cuts matrices and optimizer = "muon" needs them whole; '
                'set optimizer = "adamw"'
            )
        return self


class GrpoConfig(Section):
    """Group-relative policy optimization.

    A step trains on ``groups_per_step`` groups that the method of ``[advantage]`` can learn from.
    Groups are drawn ``groups_per_draw`` at a time until there are enough, at most
    ``max_draws_per_step`` draws; the next draw is generated while the pool judges the last one.
    Of them only those count whose share of proved rollouts lies in [``min_pass_rate``,
    ``max_pass_rate``], and with ``mixed_verdicts`` those with both proofs and failures.
    With ``inject_proofs`` a group without a proof gets one that an earlier group on its problem
    found, if at most ``inject_max_rate`` of that group was proved.

    ``in_order`` learns from draws as they were drawn and repeats bit for bit, at most one draw
    ahead (none with ``max_staleness = 0``). Otherwise groups are learned from as they complete, at
    most ``max_staleness`` steps after the weights that wrote them.
    """

    steps: Positive = 100
    groups_per_step: Positive = 12
    groups_per_draw: Positive = 12
    max_draws_per_step: Positive = 4
    group_size: Annotated[int, Field(ge=2)] = 8
    keep_shortest: Positive = 2
    in_order: bool = True
    max_staleness: NonNegative = 1
    mixed_verdicts: bool = False
    min_pass_rate: Fraction = 0.0
    max_pass_rate: Fraction = 1.0
    inject_proofs: bool = False
    inject_max_rate: Fraction = 0.25

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

    ``keep_shortest`` distinct proofs per problem are kept over all rounds; each round trains on
    them and on the warm start's references for ``epochs`` passes, from the warm-started weights
    when ``restart`` is set and from the last round's otherwise. ``proofs`` is a file of an earlier
    run's proofs, each verified before it is used; ``sft_data`` a file of problems with reference
    bodies that every round learns from. See ``proverrl.loops.mixture`` for the two limits.
    """

    rounds: Positive = 4
    problems_per_round: Positive = 200
    samples_per_problem: Positive = 8
    keep_shortest: Positive = 2
    problems_per_draw: Positive = 16
    restart: bool = True
    proofs: str = ""
    sft_data: str = ""
    earlier_share: Fraction = 1.0
    max_proofs_per_problem: NonNegative = 0
    epochs: Positive = 2
    batch_size: Positive = 16
    optimizer: OptimizerName = "adamw"
    learning_rate: PositiveFloat = 1e-3
    weight_decay: float = 0.01
    pack_tokens: NonNegative = 0


class EvalConfig(Section):
    """Evaluation before and after the loop.

    ``benchmarks`` are files that ``proverrl eval`` takes in place of the split. ``mixed`` makes
    every other attempt one whole proof, beside rollouts with self-correction. With ``search`` an
    attempt is a search as ``[search]`` says, ``searches`` of them side by side; ``proverrl eval``
    only. ``top_p`` draws from the likeliest tokens that hold this share; nothing learns from it.
    """

    split: Literal["train", "valid", "heldout"] = "heldout"
    benchmarks: tuple[str, ...] = ()
    mixed: bool = False
    search: bool = False
    searches: Positive = 32
    samples: Positive = 8
    ks: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1, 8)
    temperature: PositiveFloat = 1.0
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    max_problems: NonNegative = 0
    before: bool = True
    after: bool = True


class Config(Section):
    """A whole run. ``max_verifier_calls`` and ``max_minutes`` end the loop early; 0 is no limit."""

    loop: LoopName = "grpo"
    seed: NonNegative = 0
    run: Path = Path("runs/grpo")
    threads: NonNegative = 1
    checkpoint_every: Positive = 5
    max_verifier_calls: NonNegative = 0
    max_minutes: Annotated[float, Field(ge=0.0)] = 0.0
    problems: ProblemsConfig = ProblemsConfig()
    policy: PolicyConfig = PolicyConfig()
    vllm: VllmConfig = VllmConfig()
    endpoint: EndpointConfig = EndpointConfig()
    warm_start: WarmStartConfig = WarmStartConfig()
    pool: PoolConfig = PoolConfig()
    sampling: SamplingConfig = SamplingConfig()
    rollout: RolloutConfig = RolloutConfig()
    restart: RestartConfig = RestartConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    reward: RewardConfig = RewardConfig()
    audit: AuditConfig = AuditConfig()
    advantage: AdvantageConfig = AdvantageConfig()
    learner: LearnerConfig = LearnerConfig()
    loss: LossConfig = LossConfig()
    guard: GuardConfig = GuardConfig()
    grpo: GrpoConfig = GrpoConfig()
    expert_iteration: ExpertIterationConfig = ExpertIterationConfig()
    evaluation: EvalConfig = EvalConfig()
    search: SearchConfig = SearchConfig()
    samples: SamplesConfig = SamplesConfig()
    value: ValueConfig = ValueConfig()
    selfplay: SelfplayConfig = SelfplayConfig()
    data_loop: DataLoopConfig = DataLoopConfig()

    @model_validator(mode="after")
    def _limit_tokens(self) -> Config:
        """Where neither file nor override names a limit, the one that suits the policy."""
        limit = choose_token_limit(
            path=self.policy.path, layout=self.policy.layout, url=self.endpoint.url
        )
        named = "max_new_tokens" in self.sampling.model_fields_set
        if named or limit == self.sampling.max_new_tokens:
            return self
        sampling = self.sampling.model_copy(update={"max_new_tokens": limit})
        return self.model_copy(update={"sampling": sampling})

    @model_validator(mode="after")
    def _parts_fit(self) -> Config:
        if self.reward.false_negative_rate == "online" and self.audit.rate == 0.0:
            raise ValueError('reward.false_negative_rate = "online" needs audit.rate above 0')
        if self.restart.name != "none" and self.loop in ROUND_LOOPS:
            raise ValueError('restart.name is for loop = "grpo"; set it to "none"')
        if self.samples.passes and self.loop != "grpo":
            raise ValueError('samples.passes is for loop = "grpo"; set it to 0')
        if self.restart.name != "none" and self.rollout.mode == "interleaved":
            raise ValueError('no restarts in rollout.mode = "interleaved"; choose another mode')
        if self.grpo.inject_proofs and self.loss.weights.name == "none":
            raise ValueError(
                "grpo.inject_proofs needs a bound on what an old proof weighs; set "
                'loss.weights.name = "token_truncate"'
            )
        if self.grpo.inject_proofs and self.loss.weights.max_staleness:
            raise ValueError(
                "loss.weights.max_staleness would drop what grpo.inject_proofs puts in; set it to 0"
            )
        if self.evaluation.search and self.evaluation.top_p < 1.0:
            raise ValueError(
                "evaluation.top_p is for whole proofs and turns: searches compare "
                "log-probabilities of the whole distribution; set it to 1"
            )
        if self.policy.lora.rank and self.policy.engine == "vllm":
            raise ValueError(
                'policy.engine = "vllm" takes whole weights, not adapters; '
                'set policy.lora.rank = 0 or policy.engine = "transformers"'
            )
        if self.learner.shard != "none" and (reason := self._against_shards()):
            raise ValueError(f'learner.shard = "fsdp2" {reason}')
        if self.loop == "selfplay" and (reason := self._against_selfplay()):
            raise ValueError(reason)
        if self.loop == "data_loop" and (reason := self._against_data_loop()):
            raise ValueError(f'loop = "data_loop" {reason}')
        return self

    def _against_data_loop(self) -> str:
        """Why the settings of self-play are none of the data loop's; empty when they are."""
        selfplay = self.selfplay
        if selfplay.composer == "policy" and not selfplay.shared:
            return "has one policy; set selfplay.shared = true"
        unused = {
            "late_guards": selfplay.late_guards,
            "scaffolds": selfplay.scaffolds,
            "operator_choice": selfplay.operator_choice != "uniform",
        }
        names = [f"selfplay.{name}" for name, asked in unused.items() if asked]
        return f"has no use for {', '.join(names)}; drop it" if names else ""

    def _against_shards(self) -> str:
        """Why what is trained cannot be cut over processes; empty when it can."""
        if self.loop != "grpo":
            return f'is for loop = "grpo", not {self.loop!r}; set it to "none"'
        if self.policy.lora.rank:
            return "takes no adapters; set policy.lora.rank = 0"
        if self.policy.engine == "vllm":
            return 'has not been joined with vLLM; set policy.engine = "transformers"'
        if self.loss.distill.weight:
            return "has no teacher for self-distillation; set loss.distill.weight = 0"
        return ""

    def _against_selfplay(self) -> str:
        """Why the loop cannot be made of these parts; empty when it can."""
        selfplay = self.selfplay
        if not self.grpo.in_order:
            return 'loop = "selfplay" learns in order; set grpo.in_order = true'
        if self.restart.name != "none" or self.grpo.inject_proofs:
            return 'no restarts and no injected proofs in loop = "selfplay"; turn them off'
        copies = selfplay.composer == "policy" and not selfplay.shared
        if copies and (self.policy.engine == "vllm" or self.policy.lora.rank):
            return (
                "selfplay.shared = false copies whole weights of transformers; set "
                'policy.engine = "transformers" and policy.lora.rank = 0'
            )
        return ""

    def dump(self) -> dict[str, Any]:
        """The configuration as JSON values, every default written out."""
        return self.model_dump(mode="json")
