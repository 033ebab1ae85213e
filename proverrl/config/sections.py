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
    DafnyVersion,
    Fraction,
    NonNegative,
    NonNegativeFloat,
    Options,
    Positive,
    PositiveFloat,
    Section,
    name_of,
)
from proverrl.config.loops import LoopName, against_loop, is_own, known_traits
from proverrl.config.policy import (
    ENDPOINT,
    EndpointConfig,
    PolicyConfig,
    SamplingConfig,
    VllmConfig,
    choose_token_limit,
    name_endpoint,
)
from proverrl.config.search import SearchConfig
from proverrl.config.selfplay import SelfplayConfig
from proverrl.config.training import (
    ExpertIterationConfig,
    GrpoConfig,
    GuardConfig,
    LearnerConfig,
    LossConfig,
    SamplesConfig,
    WarmStartConfig,
)
from proverrl.plugins import Seam

RewardName = Literal["proved",]


class AppealConfig(Section):
    """Second looks at refused proofs, by another worker; see ``proverrl.run.pipeline.Reviewer``."""

    rate: Fraction = 0.02
    """share of distinct refused candidates that are judged again with four times the resource limit
    and the deadline; 0: none"""


class RewardConfig(Section):
    """The reward of a rollout; see ``proverrl.rewards``."""

    name: Annotated[str, name_of("reward", RewardName)] = "proved"
    """``proved``, or the name of an installed plug-in
    ([algorithms.md](algorithms.md#rewards-reward))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""
    overlong_weight: NonNegativeFloat = 0.0
    """penalty for a completion of ``sampling.max_new_tokens``, and a proportional one within the
    last fifth before it"""


AdvantageName = Literal["grpo", "dr_grpo"]


class AdvantageConfig(Section):
    """The comparison of the rollouts of a group; see ``proverrl.advantages``."""

    name: Annotated[str, name_of("advantage", AdvantageName)] = "dr_grpo"
    """``grpo`` or ``dr_grpo`` ([algorithms.md](algorithms.md#advantages-advantage))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""


RolloutMode = Literal["whole_proof", "self_correct"]
FeedbackName = Literal["goedel", "compact"]


class RolloutConfig(Section):
    """Turns of a rollout, and what the policy is told between two of them; under ``whole_proof``
    there is only one."""

    mode: Annotated[str, name_of("rollout", RolloutMode)] = "whole_proof"
    """``whole_proof`` or ``self_correct`` ([algorithms.md](algorithms.md#rollouts-rollout))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``mode = "package.module:function"`` ([plugins.md](plugins.md))"""
    turns: Positive = 3
    """the most turns, including the first attempt"""
    feedback: FeedbackName = "goedel"
    """``goedel`` or ``compact`` ([algorithms.md](algorithms.md#rollouts-rollout))"""
    max_errors: Positive = 8
    """the most errors shown; the rest are counted"""
    history_tokens: NonNegative = 0
    """the most tokens of a prompt; beyond it the oldest turns are dropped, never the problem; 0 is
    the model's context"""

    @property
    def takes_turns(self) -> bool:
        """True if a rollout may have more than one turn."""
        return self.mode != "whole_proof" and self.turns > 1


CurriculumName = Literal["uniform", "posterior"]


class CurriculumConfig(Section):
    """The choice of the problems that are drawn."""

    name: Annotated[str, name_of("curriculum", CurriculumName)] = "posterior"
    """``uniform`` or ``posterior`` ([algorithms.md](algorithms.md#curricula-curriculum))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""


class EvalConfig(Section):
    """Evaluation before and after the loop."""

    split: Literal["train", "valid", "heldout"] = "heldout"
    """``train``, ``valid`` or ``heldout``"""
    benchmarks: tuple[str, ...] = ()
    """problem files that ``proverrl eval`` uses when there is no ``--benchmark``"""
    search: bool = False
    """an attempt is a search as [``[search]``](#search) says (``proverrl eval --mode search``)"""
    searches: Positive = 32
    """searches that run side by side; 1 repeats bit for bit on one machine with one setting"""
    samples: Positive = 8
    """attempts per problem; the largest of ``ks`` if that is more"""
    ks: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1, 8)
    """the k of pass@k"""
    temperature: PositiveFloat = 1.0
    """temperature in evaluation"""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """draw from the likeliest tokens that together have this probability (nucleus sampling); such
    tokens have no log-probabilities and are never learned from. Searches refuse it"""
    top_k: NonNegative = 0
    """draw from so many likeliest tokens; 0 is all. Searches refuse it"""
    max_problems: NonNegative = 0
    """only the first this many problems; 0 is all"""
    before: bool = True
    """evaluate after the warm start, before the loop"""
    after: bool = True
    """evaluate after the loop"""

    @property
    def against_search(self) -> str:
        """The reason why no search could use what is sampled like this; empty where one can."""
        for key, value, all_tokens in (("top_p", self.top_p, 1), ("top_k", self.top_k, 0)):
            if value != all_tokens:
                return (
                    f"evaluation.{key} is for whole proofs and turns: searches compare "
                    f"log-probabilities of the whole distribution; set it to {all_tokens}"
                )
        return ""


class ProblemsConfig(Section):
    """The places of the three splits. Paths are relative to the working folder."""

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
    cache: Path | None = None
    """file of known verdicts, shared between runs. Default: ``verdicts.sqlite`` in the platform's
    cache folder"""
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


class DafnyConfig(Section):
    """The Dafny that judges."""

    version: DafnyVersion = "auto"
    """``4``, ``2.3``, or ``auto``: Dafny 4 where there is one
    ([verifiers.md](verifiers.md#which-dafny-judges))"""

    @field_validator("version", mode="before")
    @classmethod
    def _may_be_a_number(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int | float) else value


LoggingBackend = Literal["jsonl", "tensorboard", "wandb"]


class LoggingConfig(Section):
    """The places for the figures of a run besides ``metrics.jsonl``, which is always written."""

    backends: tuple[LoggingBackend, ...] = ("jsonl",)
    """``tensorboard`` (event files in ``RUN/tensorboard``), ``wandb`` (Weights & Biases, which
    reads ``WANDB_PROJECT`` and ``WANDB_MODE=offline``); each is an extra of its name"""
    callbacks: tuple[Annotated[str, name_of("callback", Literal[""])], ...] = ()
    """functions of your own that are told of each step, round, evaluation and checkpoint
    ([plugins.md](plugins.md#callbacks))"""


class Config(Section):
    """A whole run."""

    loop: Annotated[str, name_of("loop", LoopName)] = "grpo"
    """what follows the warm start: ``grpo``, ``expert_iteration``, ``selfplay``, or
    ``warm_start`` for nothing"""
    loop_options: Options = Field(default_factory=dict)
    """of a loop of your own, ``loop = "package.module:function"``
    ([plugins.md](plugins.md#loops))"""
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
    """languages of your own by their names, and kinds of problems as ``"LANGUAGE.KIND"``, each as
    ``package.module:object`` ([plugins.md](plugins.md#languages))"""
    experiments: dict[Annotated[str, name_of("experiment", Literal[""])], Options] = Field(
        default_factory=dict
    )
    """what changes GRPO's steps, each as ``package.module:function`` with its options
    ([plugins.md](plugins.md#experiments))"""
    problems: ProblemsConfig = ProblemsConfig()
    logging: LoggingConfig = LoggingConfig()
    policy: PolicyConfig = PolicyConfig()
    vllm: VllmConfig = VllmConfig()
    endpoints: dict[str, EndpointConfig] = Field(default_factory=dict)
    warm_start: WarmStartConfig = WarmStartConfig()
    pool: PoolConfig = PoolConfig()
    dafny: DafnyConfig = DafnyConfig()
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
    selfplay: SelfplayConfig = SelfplayConfig()

    @model_validator(mode="after")
    def _limit_tokens(self) -> Config:
        """Takes the limit that suits the policy where neither file nor override names one."""
        limit = choose_token_limit(self.policy)
        named = "max_new_tokens" in self.sampling.model_fields_set
        if named or limit == self.sampling.max_new_tokens:
            return self
        sampling = self.sampling.model_copy(update={"max_new_tokens": limit})
        return self.model_copy(update={"sampling": sampling})

    @model_validator(mode="after")
    def _endpoints_are_there(self) -> Config:
        if reason := self.against_path(self.policy.path):
            raise ValueError(f"policy.path = {self.policy.path!r}: {reason}")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Config:
        # Of a loop of somebody's own ``check_loop`` asks, once it may be imported.
        if is_own(self.loop) and (reason := against_loop(self, known_traits(self.loop))):
            raise ValueError(reason)
        if self.evaluation.search and (reason := self.evaluation.against_search):
            raise ValueError(reason)
        if self.policy.engine == "vllm" and (reason := self._against_vllm()):
            raise ValueError(reason)
        if self.learner.shard != "none" and (reason := self._against_shards()):
            raise ValueError(f'learner.shard = "fsdp2" {reason}')
        return self

    def _against_vllm(self) -> str:
        """The reason why vLLM cannot sample for this run, and what to set; empty when it can."""
        if self.learner.precision == "bf16" and self.vllm.dtype == "float32":
            return (
                'learner.precision = "bf16" trains weights in bfloat16, which vllm.dtype = '
                '"float32" computes with otherwise; set vllm.dtype = "bfloat16"'
            )
        if self.vllm.sleep and self.grpo.max_staleness:
            return (
                "vllm.sleep needs nothing written while the learner updates; set "
                "grpo.max_staleness = 0, or vllm.sleep = false"
            )
        return ""

    def _against_shards(self) -> str:
        """The reason why the trained weights cannot be cut over processes; empty when it can."""
        if self.policy.lora.rank:
            return "takes no adapters; set policy.lora.rank = 0"
        if self.policy.engine == "vllm":
            return 'has not been joined with vLLM; set policy.engine = "transformers"'
        return ""

    def find_endpoint(self, path: str) -> EndpointConfig | None:
        """The server of ``endpoint:NAME``; None for a folder of weights."""
        return self.endpoints.get(name_endpoint(path))

    def against_path(self, path: str) -> str:
        """The reason why a place of weights names no endpoint that is there; empty where it does,
        or is a folder."""
        name = name_endpoint(path)
        if not path.startswith(ENDPOINT) or name in self.endpoints:
            return ""
        there = ", ".join(self.endpoints) or "none"
        return f"there is no table [endpoints.{name or 'NAME'}]; there is {there}"

    def list_parts(self) -> list[tuple[Seam, str, Options]]:
        """The names of what a run is made of, and the options beside them."""
        return [
            ("loop", self.loop, self.loop_options),
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

    def dump(self) -> dict[str, Any]:
        """The configuration as JSON values, every default written out."""
        return self.model_dump(mode="json")
