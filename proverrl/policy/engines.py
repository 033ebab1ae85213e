"""Samplers of a policy that is loaded in this process, and names of a policy's weights.

Flows in: a policy. Flows out: a ``Sampler`` by its name in the configuration; the name of weights,
for results to say which they rest on. Not handled here: policies behind a server
(``proverrl.policy.endpoint``), and whether a server changes its model behind one name.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch

from proverrl.config import Config, EngineName, VllmConfig
from proverrl.policy.base import Policy, SharedSampler
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.policy.vllm import VllmPolicy
from proverrl.policy.vllm_engine import VllmEngine
from proverrl.types import Problem

OpenSampler = Callable[[TransformersPolicy, VllmConfig, Sequence[Problem]], SharedSampler]

ENGINES: dict[EngineName, OpenSampler] = {
    "transformers": lambda policy, config, problems: policy,
    "vllm": lambda policy, config, problems: VllmPolicy(
        policy, partial(VllmEngine, policy, config), config, problems
    ),
}
"""The trained model generates itself, or vLLM does from a copy of the weights."""


def find_context(policy: Policy) -> int:
    """The most tokens of prompt and answer together; nothing is known of a server or function."""
    return int(getattr(policy, "context_tokens", sys.maxsize))


def open_sampler(
    policy: TransformersPolicy, config: Config, problems: Sequence[Problem]
) -> SharedSampler:
    """The engine that ``policy.engine`` names, holding the policy's weights; close it at the end.
    The engines are compared on prompts of ``problems``. Raises ``UsageError`` if the engine is not
    installed or refuses the model, and ``WeightSyncError`` if it does not hold the weights."""
    return ENGINES[cast("EngineName", config.policy.engine)](policy, config.vllm, problems)


def name_weights(policy: Policy) -> str:
    """SHA-256 over names, types, shapes and bytes of all parameters in order of their names; for
    a server ``address, model NAME``; for any other
    policy its ``engine``."""
    if isinstance(policy, EndpointPolicy):
        return f"{policy.address}, model {policy.config.model}"
    trained = policy.trained if isinstance(policy, VllmPolicy) else policy
    if not isinstance(trained, TransformersPolicy):
        return policy.engine
    digest = hashlib.sha256()
    for name, weight in sorted(trained.model.named_parameters()):
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        data = weight.detach().contiguous().reshape(-1).view(torch.uint8).cpu()
        digest.update(data.numpy())
    return digest.hexdigest()
