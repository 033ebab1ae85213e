"""Configuration: frozen pydantic models, read from TOML, overridden by ``--set key=value``."""

from proverrl.config.advantages import AdvantageConfig, AdvantageName, StatesName
from proverrl.config.curriculum import (
    CategoryField,
    CollapseConfig,
    CurriculumConfig,
    CurriculumName,
    InsideName,
)
from proverrl.config.data_loop import DataLoopConfig
from proverrl.config.endpoint import EndpointConfig
from proverrl.config.engine import EngineName, VllmConfig, VllmDtype
from proverrl.config.load import load_config, load_stored_config, parse_config
from proverrl.config.losses import (
    DistillConfig,
    EntropyConfig,
    GuardAction,
    GuardConfig,
    KlName,
    LossConfig,
    LossName,
    WeightsName,
)
from proverrl.config.policy import LayoutName, LoraConfig, PolicyConfig
from proverrl.config.restart import RestartConfig, RestartName, RestartSource, RestartUnit
from proverrl.config.rewards import AuditConfig, CorrectionName, RewardConfig, RewardName
from proverrl.config.rollout import FeedbackName, RolloutConfig, RolloutMode
from proverrl.config.sampling import SamplingConfig
from proverrl.config.search import SearchConfig, SearchName
from proverrl.config.sections import ROUND_LOOPS, Config, LoopName, PoolConfig, ProblemsConfig
from proverrl.config.selfplay import ComposerFormat, ComposerRewardName, SelfplayConfig
from proverrl.config.training import (
    GrpoConfig,
    LearnerConfig,
    OptimizerName,
    PrecisionName,
    ShardName,
)
from proverrl.config.value import ValueConfig

__all__ = [
    "ROUND_LOOPS",
    "AdvantageConfig",
    "AdvantageName",
    "AuditConfig",
    "CategoryField",
    "CollapseConfig",
    "ComposerFormat",
    "ComposerRewardName",
    "Config",
    "CorrectionName",
    "CurriculumConfig",
    "CurriculumName",
    "DataLoopConfig",
    "DistillConfig",
    "EndpointConfig",
    "EngineName",
    "EntropyConfig",
    "FeedbackName",
    "GrpoConfig",
    "GuardAction",
    "GuardConfig",
    "InsideName",
    "KlName",
    "LayoutName",
    "LearnerConfig",
    "LoopName",
    "LoraConfig",
    "LossConfig",
    "LossName",
    "OptimizerName",
    "PolicyConfig",
    "PoolConfig",
    "PrecisionName",
    "ProblemsConfig",
    "RestartConfig",
    "RestartName",
    "RestartSource",
    "RestartUnit",
    "RewardConfig",
    "RewardName",
    "RolloutConfig",
    "RolloutMode",
    "SamplingConfig",
    "SearchConfig",
    "SearchName",
    "SelfplayConfig",
    "ShardName",
    "StatesName",
    "ValueConfig",
    "VllmConfig",
    "VllmDtype",
    "WeightsName",
    "load_config",
    "load_stored_config",
    "parse_config",
]
