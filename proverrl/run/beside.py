"""The policies beside the one that is trained, whose weights never change.

Flows in: a configuration that names them. Flows out: policies, in the parts that ask them.
"""

from __future__ import annotations

from pathlib import Path

from proverrl.config import Config, EndpointConfig, LayoutName
from proverrl.errors import UsageError
from proverrl.formalize.gate import Critic
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.engines import name_weights
from proverrl.policy.likelihood import LikelihoodPolicy, read_critic
from proverrl.policy.transformers import TransformersPolicy
from proverrl.run.session import load_at


def open_beside(
    config: Config, path: str, endpoint: EndpointConfig, layout: LayoutName, key: str
) -> Policy:
    """A policy that is not trained: the one in ``path``, which ``key`` names, or else behind the
    server. Raises ``UsageError`` if it cannot be loaded."""
    if not path:
        return EndpointPolicy(endpoint, layout=layout)
    judging = open_judging_formaliser(config, path, key)
    return judging or _load_frozen(config, path, layout, key)


def open_judging_formaliser(config: Config, path: str, key: str) -> LikelihoodPolicy | None:
    """The critic that ``proverrl fit-critic`` wrote to a folder, in the layout that it was fitted
    in; None where it wrote none. Raises ``UsageError`` that names ``key`` if its formaliser cannot
    be loaded, or has other weights by now."""
    if (stored := read_critic(path)) is None:
        return None
    place = f"{key}, a critic with the weights of"
    policy = _load_frozen(config, stored.formaliser, stored.layout, place)
    if name_weights(policy) != stored.weights:
        raise UsageError(
            f"{key}: {stored.formaliser} holds other weights than {path} was fitted for; fit the "
            "critic again with proverrl fit-critic"
        )
    return LikelihoodPolicy(policy, stored.most)


def _load_frozen(config: Config, path: str, layout: LayoutName, key: str) -> TransformersPolicy:
    settings = config.policy.model_copy(update={"layout": layout})
    policy = load_at(config, path, settings, key)
    policy.model.requires_grad_(False)
    return policy


def open_critic(config: Config, path: str, key: str = "reward.critic") -> Critic:
    """The frozen policy in ``path``, which judges statements. Raises ``UsageError`` that names
    ``key`` if it cannot be loaded."""
    return Critic(open_beside(config, path, EndpointConfig(), config.reward.critic_layout, key))


def open_sampling_critic(config: Config, path: Path, key: str) -> Critic:
    """A critic whose answers to one statement can differ. Raises ``UsageError`` that names ``key``
    for one that ``proverrl fit-critic`` wrote, and if it cannot be loaded."""
    if read_critic(path) is not None:
        raise UsageError(
            f"{key}: {path} gives one answer to each statement, however often it is asked; name a "
            "critic that answers in words, RUN/policy of configs/critic.toml"
        )
    return open_critic(config, str(path), key)
