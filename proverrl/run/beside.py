"""The policies beside the one that is trained, whose weights never change: writer and critics.

Flows in: a configuration that names them. Flows out: policies, in the parts that ask them.
"""

from __future__ import annotations

from proverrl.config import Config, LayoutName
from proverrl.errors import UsageError
from proverrl.formalize.gate import Critic
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.engines import name_weights
from proverrl.policy.likelihood import LikelihoodPolicy, read_critic
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rewards.preface import ATTEMPTS
from proverrl.rollout.instruct import Writer
from proverrl.run.session import load_at
from proverrl.types import Sampling


def open_writer(config: Config) -> Writer | None:
    """The frozen policy that writes under instructions; None in the other modes of rollouts. Raises
    ``UsageError`` if it cannot be loaded."""
    settings = config.instruct
    if config.rollout.mode != "instruct":
        return None
    policy = open_beside(config, settings.writer, settings.layout, "instruct.writer")
    sampling = Sampling(temperature=settings.temperature, max_new_tokens=settings.max_new_tokens)
    return Writer(policy, sampling, settings.characters, ATTEMPTS.get(config.reward.name))


def open_beside(config: Config, path: str, layout: LayoutName, key: str) -> Policy:
    """A policy that is not trained: the one in ``path``, which ``key`` names, or behind the server
    that it names. Raises ``UsageError`` if it cannot be loaded."""
    if reason := config.against_path(path):
        raise UsageError(f"{key} {path!r}: {reason}")
    if endpoint := config.find_endpoint(path):
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


def open_critic(config: Config, path: str) -> Critic:
    """The frozen policy in ``path``, which judges statements. Raises ``UsageError`` if it cannot be
    loaded."""
    return Critic(open_beside(config, path, "canonical", "--critic"))
