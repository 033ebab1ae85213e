"""A name for the weights that a policy samples from, so that results can say which they rest on.

Flows in: a policy. Flows out: a SHA-256 over its parameters, or the address of a server's model.
Not handled here: whether a server changes its model behind one name.
"""

from __future__ import annotations

import hashlib

import torch

from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.policy.vllm import VllmPolicy


def name_weights(policy: Policy) -> str:
    """SHA-256 over names, types, shapes and bytes of all parameters in order of their names; for
    a server ``address, model NAME``; for any other policy its ``engine``."""
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
