"""The policies beside the one that is trained, whose weights never change.

Flows in: a configuration that names them. Flows out: policies, in the parts that ask them.
"""

from __future__ import annotations

from proverrl.config import Config, EndpointConfig, LayoutName
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
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
    beside = settings.writer, settings.endpoint, settings.layout
    policy = open_beside(config, *beside, "instruct.writer")
    sampling = Sampling(temperature=settings.temperature, max_new_tokens=settings.max_new_tokens)
    return Writer(policy, sampling, settings.characters, ATTEMPTS.get(config.reward.name))


def open_beside(
    config: Config, path: str, endpoint: EndpointConfig, layout: LayoutName, key: str
) -> Policy:
    """A policy that is not trained: the one in ``path``, which ``key`` names, or else behind the
    server. Raises ``UsageError`` if it cannot be loaded."""
    if not path:
        return EndpointPolicy(endpoint, layout=layout)
    settings = config.policy.model_copy(update={"layout": layout})
    policy = load_at(config, path, settings, key)
    policy.model.requires_grad_(False)
    return policy
