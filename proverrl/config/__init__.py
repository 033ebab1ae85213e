"""Configuration: frozen pydantic models, read from TOML, overridden by ``--set key=value``."""

from proverrl.config.base import Section
from proverrl.config.load import apply_overrides, load_config, parse_config
from proverrl.config.sections import (
    AdvantageName,
    Config,
    CurriculumConfig,
    CurriculumName,
    DeviceName,
    EvalConfig,
    ExpertIterationConfig,
    GrpoConfig,
    LayoutName,
    LearnerConfig,
    LoopName,
    LossName,
    OptimizerName,
    PolicyConfig,
    PoolConfig,
    ProblemsConfig,
    SamplingConfig,
    WarmStartConfig,
)

__all__ = [
    "AdvantageName",
    "Config",
    "CurriculumConfig",
    "CurriculumName",
    "DeviceName",
    "EvalConfig",
    "ExpertIterationConfig",
    "GrpoConfig",
    "LayoutName",
    "LearnerConfig",
    "LoopName",
    "LossName",
    "OptimizerName",
    "PolicyConfig",
    "PoolConfig",
    "ProblemsConfig",
    "SamplingConfig",
    "Section",
    "WarmStartConfig",
    "apply_overrides",
    "load_config",
    "parse_config",
]
