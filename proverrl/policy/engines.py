"""What samples from a policy that is loaded in this process, by its name in the configuration.

Flows in: a ``TransformersPolicy``, ``policy.engine``, problems to compare engines on. Flows out: a
``Sampler``. Not handled here: policies behind a server (``proverrl.policy.endpoint``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from proverrl.config import Config, EngineName, VllmConfig
from proverrl.policy.base import Sampler
from proverrl.policy.transformers import TransformersPolicy
from proverrl.policy.vllm import VllmPolicy
from proverrl.policy.vllm_engine import VllmEngine
from proverrl.types import Problem


def _sample_itself(
    policy: TransformersPolicy, config: VllmConfig, problems: Sequence[Problem]
) -> Sampler:
    """The trained model generates."""
    return policy


def _sample_with_vllm(
    policy: TransformersPolicy, config: VllmConfig, problems: Sequence[Problem]
) -> Sampler:
    """vLLM generates from a copy of the weights."""
    return VllmPolicy(policy, partial(VllmEngine, policy, config), config, problems)


ENGINES: dict[
    EngineName, Callable[[TransformersPolicy, VllmConfig, Sequence[Problem]], Sampler]
] = {
    "transformers": _sample_itself,
    "vllm": _sample_with_vllm,
}


def open_sampler(
    policy: TransformersPolicy, config: Config, problems: Sequence[Problem]
) -> Sampler:
    """The engine that ``policy.engine`` names, holding the policy's weights; close it at the end.

    Raises:
        UsageError: the engine is not installed or refuses the model.
        WeightSyncError: it does not hold the weights.
    """
    return ENGINES[config.policy.engine](policy, config.vllm, problems)
