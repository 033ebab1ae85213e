"""The policies beside the one that is trained, whose weights never change.

Flows in: a configuration that names them. Flows out: policies, in the parts that ask them.
"""

from __future__ import annotations

from proverrl.config import Config, LayoutName
from proverrl.errors import UsageError
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.run.session import load_at


def open_beside(config: Config, path: str, layout: LayoutName, key: str) -> Policy:
    """A policy that is not trained: the one in ``path``, which ``key`` names, or behind the server
    that it names. Raises ``UsageError`` if it cannot be loaded."""
    if reason := config.against_path(path):
        raise UsageError(f"{key} {path!r}: {reason}")
    if endpoint := config.find_endpoint(path):
        return EndpointPolicy(endpoint, layout=layout)
    settings = config.policy.model_copy(update={"layout": layout})
    policy = load_at(config, path, settings, key)
    policy.model.requires_grad_(False)
    return policy
