"""A run's whole configuration, and which sections fit together.

Flows in: a table of TOML. Flows out: checked values. The names of functions that a key may choose
are ``Literal``s beside the sections; the functions themselves stand in dicts of the modules that
hold them. The text below a key is its row in ``docs/configuration.md``.
Not handled here: whether paths exist (the module that opens them says so).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from proverrl.config.base import (
    CONFIRM,
    MAX_WORKERS,
    Fraction,
    LeanBackend,
    NonNegative,
    NonNegativeFloat,
    Options,
    Positive,
    PositiveFloat,
    Section,
    name_of,
)
from proverrl.config.curriculum import CurriculumConfig
from proverrl.config.evaluation import EvalConfig
from proverrl.config.losses import GuardConfig, LossConfig
from proverrl.config.policy import (
    EndpointConfig,
    PolicyConfig,
    SamplingConfig,
    VllmConfig,
    choose_token_limit,
)
from proverrl.config.rewards import AdvantageConfig, AppealConfig, RewardConfig
from proverrl.config.rollout import RolloutConfig
from proverrl.config.search import SearchConfig
from proverrl.config.selfplay import DataLoopConfig, SelfplayConfig
from proverrl.config.training import (
    ExpertIterationConfig,
    GrpoConfig,
    LearnerConfig,
    PrecisionName,
    PreferencesConfig,
    SamplesConfig,
    ValueConfig,
    WarmStartConfig,
)
from proverrl.plugins import Seam

LoopName = Literal[
    "warm_start", "grpo", "expert_iteration", "data_loop", "selfplay", "preferences", "value"
]
ROUND_LOOPS: tuple[LoopName, ...] = ("expert_iteration", "data_loop")
"""Those that count rounds of ``[expert_iteration]``."""


class ProblemsConfig(Section):
    """Where the three splits are. Paths are relative to the working folder."""

    train: Path = Path("dafny/curriculum/train.jsonl")
    """problems for warm start and loop, with reference bodies for the warm start"""
    valid: Path = Path("dafny/curriculum/valid.jsonl")
    """problems for ``evaluation.split = "valid"``"""
    heldout: Path = Path("dafny/curriculum/heldout.jsonl")
    """problems that no training sees"""


class PoolConfig(Section):
    """The verifier pool."""

    workers: Annotated[int, Field(ge=1, le=MAX_WORKERS)] = 2
    """verifier processes, at most 1024"""
    deadline_seconds: PositiveFloat = 20.0
    """wall-clock limit for one candidate; past it nothing is judged"""
    rlimit: Positive = 3_000_000
    """Dafny's resource limit per procedure; past it the verdict is ``exhausted``"""
    memory_mb: PositiveFloat | None = None
    """memory limit of one worker with its children, past which it is killed. Default: 4096 for
    Dafny, 8192 for Lean"""
    canary_rate: Fraction = 0.01
    """share of calls that a false statement accompanies; the run stops if one is accepted"""
    cache: Path | None = None
    """file of known verdicts, shared between runs. Default: ``verdicts.sqlite`` in the platform's
    cache folder"""
    lean_backend: LeanBackend = "lean-server"
    """how Lean is asked: ``lean-server``, or ``lean-file`` (one process a candidate, slow)"""
    confirm: Annotated[str, Field(pattern=f"^(?:{CONFIRM})$")] = "proved"
    """which accepted proofs a second judge is asked of ([verifiers.md](verifiers.md)): ``proved``
    (all), ``sample:0.1`` (that share) or ``off``"""

    servers: tuple[str, ...] = ()
    """URLs of servers (``proverrl serve``) that judge in place of workers here, all with one
    version, toolchain and ``rlimit``"""
    cluster: str = ""
    """a Ray cluster that judges in place of workers here: ``local``, ``auto``, or an address
    ([scale.md](scale.md))"""
    cluster_servers: tuple[Positive, Positive] = (1, 1)
    """at least and at most so many servers on the cluster"""

    @field_validator("servers", mode="before")
    @classmethod
    def _may_be_one(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) and value else value

    @field_validator("cache")
    @classmethod
    def _names_a_file(cls, value: Path | None) -> Path | None:
        if value is not None and not value.name:
            raise ValueError(f"{str(value)!r} names no file; write a path such as runs/v.sqlite")
        return value


LoggingBackend = Literal["jsonl", "tensorboard", "wandb", "trackio"]


class LoggingConfig(Section):
    """Where the figures of a run go besides ``metrics.jsonl``, which is always written."""

    backends: tuple[LoggingBackend, ...] = ("jsonl",)
    """``tensorboard`` (event files in ``RUN/tensorboard``), ``wandb`` (Weights & Biases),
    ``trackio``; each is an extra of its name"""
    callbacks: tuple[Annotated[str, name_of("callback", Literal[""])], ...] = ()
    """functions of your own that are told of each step, round, evaluation and checkpoint
    ([plugins.md](plugins.md#callbacks))"""
    trace: bool = False
    """write ``RUN/trace.json``, which process did what when and who waited, for Perfetto
    ([engines.md](engines.md#who-waits))"""
    project: Annotated[str, Field(min_length=1)] = "proverrl"
    """the project in ``wandb`` and ``trackio``; the run is named after its folder"""
    offline: bool = False
    """``wandb`` keeps the run in its folder, for ``wandb sync`` later"""


class Config(Section):
    """A whole run."""

    loop: LoopName = "grpo"
    """what follows the warm start: ``grpo``, ``expert_iteration``, ``data_loop``, ``selfplay``,
    ``preferences``, ``value`` (a value model), or ``warm_start`` for nothing"""
    seed: NonNegative = 0
    """determines every random draw"""
    run: Path = Path("runs/grpo")
    """the run folder"""
    threads: NonNegative = 1
    """CPU threads of torch; 0 keeps torch's own choice"""
    checkpoint_every: Positive = 5
    """steps between two checkpoints"""
    max_verifier_calls: NonNegative = 0
    """ends the loop after the step that reaches so many verifier calls, for fair comparisons; 0 is
    no limit"""
    max_minutes: NonNegativeFloat = 0.0
    """ends the loop after the step that reaches so many minutes; 0 is no limit"""
    languages: dict[str, str] = Field(default_factory=dict)
    """languages of your own by their names, each as ``package.module:object``
    ([plugins.md](plugins.md#languages))"""
    experiments: dict[Annotated[str, name_of("experiment", Literal[""])], Options] = Field(
        default_factory=dict
    )
    """what changes GRPO's steps, each as ``package.module:function`` with its options
    ([plugins.md](plugins.md#experiments))"""
    problems: ProblemsConfig = ProblemsConfig()
    logging: LoggingConfig = LoggingConfig()
    policy: PolicyConfig = PolicyConfig()
    vllm: VllmConfig = VllmConfig()
    endpoint: EndpointConfig = EndpointConfig()
    warm_start: WarmStartConfig = WarmStartConfig()
    pool: PoolConfig = PoolConfig()
    sampling: SamplingConfig = SamplingConfig()
    rollout: RolloutConfig = RolloutConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    reward: RewardConfig = RewardConfig()
    appeal: AppealConfig = AppealConfig()
    advantage: AdvantageConfig = AdvantageConfig()
    learner: LearnerConfig = LearnerConfig()
    loss: LossConfig = LossConfig()
    guard: GuardConfig = GuardConfig()
    grpo: GrpoConfig = GrpoConfig()
    expert_iteration: ExpertIterationConfig = ExpertIterationConfig()
    evaluation: EvalConfig = EvalConfig()
    search: SearchConfig = SearchConfig()
    samples: SamplesConfig = SamplesConfig()
    preferences: PreferencesConfig = PreferencesConfig()
    value: ValueConfig = ValueConfig()
    selfplay: SelfplayConfig = SelfplayConfig()
    data_loop: DataLoopConfig = DataLoopConfig()

    @model_validator(mode="after")
    def _limit_tokens(self) -> Config:
        """Where neither file nor override names a limit, the one that suits the policy."""
        policy = self.policy
        url = policy.engine if policy.is_function else self.endpoint.url
        limit = choose_token_limit(path=policy.path, layout=policy.layout, url=url)
        named = "max_new_tokens" in self.sampling.model_fields_set
        if named or limit == self.sampling.max_new_tokens:
            return self
        sampling = self.sampling.model_copy(update={"max_new_tokens": limit})
        return self.model_copy(update={"sampling": sampling})

    @model_validator(mode="after")
    def _parts_fit(self) -> Config:
        if self.samples.passes and self.loop != "grpo":
            raise ValueError('samples.passes is for loop = "grpo"; set it to 0')
        if self.evaluation.search and (reason := self.evaluation.against_search):
            raise ValueError(reason)
        if self.sampling.top_k and (reason := self._against_top_k()):
            raise ValueError(f"sampling.top_k {reason}, or set sampling.top_k = 0")
        if self.policy.engine == "vllm" and (reason := self._against_vllm()):
            raise ValueError(reason)
        if self.learner.shard != "none" and (reason := self._against_shards()):
            raise ValueError(f'learner.shard = "fsdp2" {reason}')
        if self.loop == "preferences" and not self.preferences.pairs:
            raise ValueError(
                'loop = "preferences" needs preferences.pairs, a file such as `proverrl prove '
                "--preferences FILE` writes"
            )
        if self.loop == "selfplay" and (reason := self._against_selfplay()):
            raise ValueError(reason)
        if self.loop == "data_loop" and (reason := self._against_data_loop()):
            raise ValueError(f'loop = "data_loop" {reason}')
        return self

    def _against_top_k(self) -> str:
        """Why a learner could not give the log-probabilities with which tokens were drawn among
        the likeliest, and what to set; empty when it can."""
        if self.loop != "grpo":
            return f'is for loop = "grpo", not {self.loop!r}: choose that'
        if self.policy.engine != "transformers":
            return (
                "needs an engine that keeps exactly so many tokens (vLLM keeps all that tie with "
                'the last): set policy.engine = "transformers"'
            )
        moved = {
            "grpo.max_staleness = 0": self.grpo.max_staleness,
            "grpo.in_order = true": not self.grpo.in_order,
            "learner.epochs = 1": self.learner.epochs > 1,
            "learner.groups_per_update = 0": self.learner.groups_per_update,
        }
        if names := ", ".join(name for name, asked in moved.items() if asked):
            return (
                f"needs the weights that sampled, others have other likeliest tokens: set {names}"
            )
        whole = {
            "loss.kl.coefficient": self.loss.needs_reference,
            "samples.passes": self.samples.passes,
        }
        names = ", ".join(f"{name} = 0" for name, asked in whole.items() if asked)
        return f"cannot be compared with what is over all tokens: set {names}" if names else ""

    def _against_data_loop(self) -> str:
        """Why the settings of self-play are none of the data loop's; empty when they are."""
        selfplay = self.selfplay
        if selfplay.composer == "policy" and not selfplay.shared:
            return "has one policy; set selfplay.shared = true"
        unused = {
            "late_filters": selfplay.late_filters,
            "operator_choice": selfplay.operator_choice != "uniform",
        }
        names = [f"selfplay.{name}" for name, asked in unused.items() if asked]
        return f"has no use for {', '.join(names)}; drop it" if names else ""

    def _against_vllm(self) -> str:
        """Why vLLM cannot sample for this run, and what to set; empty when it can."""
        if self.learner.precision == "bf16" and self.vllm.dtype == "float32":
            return (
                'learner.precision = "bf16" trains weights in bfloat16, which vllm.dtype = '
                '"float32" computes with otherwise; set vllm.dtype = "bfloat16"'
            )
        if self.vllm.sleep and (self.loop != "grpo" or self.grpo.max_staleness):
            return (
                'vllm.sleep is for loop = "grpo" with nothing written while the learner updates; '
                "set grpo.max_staleness = 0, or vllm.sleep = false"
            )
        return ""

    def _against_shards(self) -> str:
        """Why what is trained cannot be cut over processes; empty when it can."""
        if self.loop not in ("grpo", "warm_start"):
            return f'is for loop = "grpo" or "warm_start", not {self.loop!r}; set it to "none"'
        if self.policy.lora.rank:
            return "takes no adapters; set policy.lora.rank = 0"
        if self.policy.engine == "vllm":
            return 'has not been joined with vLLM; set policy.engine = "transformers"'
        return ""

    def _against_selfplay(self) -> str:
        """Why the loop cannot be made of these parts; empty when it can."""
        selfplay = self.selfplay
        if not self.grpo.in_order:
            return 'loop = "selfplay" learns in order; set grpo.in_order = true'
        copies = selfplay.composer == "policy" and not selfplay.shared
        if copies and (self.policy.engine == "vllm" or self.policy.lora.rank):
            return (
                "selfplay.shared = false copies whole weights of transformers; set "
                'policy.engine = "transformers" and policy.lora.rank = 0'
            )
        return ""

    def list_parts(self) -> list[tuple[Seam, str, Options]]:
        """The names of what a run is made of, and the options beside them."""
        return [
            ("reward", self.reward.name, self.reward.options),
            ("advantage", self.advantage.name, self.advantage.options),
            ("loss", self.loss.name, self.loss.options),
            ("curriculum", self.curriculum.name, self.curriculum.options),
            ("composer", self.selfplay.composer, self.selfplay.options),
            ("search", self.search.name, self.search.options),
            ("policy", self.policy.engine, self.policy.options),
            ("rollout", self.rollout.mode, self.rollout.options),
            *(("callback", name, Options()) for name in self.logging.callbacks),
            *(("experiment", name, options) for name, options in self.experiments.items()),
        ]

    def precision_on(self, device: str) -> PrecisionName:
        """What ``learner.precision`` means on a device, by torch's name of it."""
        if self.learner.precision == "auto":
            return "bf16" if device.startswith("cuda") and self.policy.path else "fp32"
        return self.learner.precision

    def dump(self) -> dict[str, Any]:
        """The configuration as JSON values, every default written out."""
        return self.model_dump(mode="json")
