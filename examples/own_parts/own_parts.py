"""Plug-ins: a reward, an advantage, a loss and a callback (docs/plugins.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field
from torch import Tensor

from proverrl.advantages import AdvantageInputs, GroupAdvantages, spread
from proverrl.losses import LossInputs, token_mean
from proverrl.types import Reward, Rollout, Status


class Shortness(BaseModel):
    """The options of ``short_proofs``."""

    weight: float = Field(0.1, ge=0.0, lt=1.0)
    """the most that a proof loses for its length"""
    tokens: int = Field(64, gt=0)
    """at this length"""


def short_proofs(rollout: Rollout, *, options: Shortness) -> Reward:
    """1 for a proof, less up to ``weight`` for one of ``tokens`` tokens and more."""
    if rollout.status is not Status.PROVED:
        return Reward(0.0, {"proved": 0.0, "length": 0.0})
    length = len(rollout.turns[-1].completion.token_ids)
    lost = options.weight * min(1.0, length / options.tokens)
    return Reward(1.0 - lost, {"proved": 1.0, "length": -lost})


def best_of_group(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """Of each group its best rollouts alone are learned, by how far they are above the mean."""
    found: list[GroupAdvantages] = []
    for group in inputs.groups:
        totals = [reward.total for reward in group.rewards]
        best, mean = max(totals), sum(totals) / len(totals)
        kept = [best - mean if total == best else 0.0 for total in totals]
        found.append(spread(group, kept))
    return found


def print_checkpoints(event: str, row: Mapping[str, Any]) -> None:
    """A callback: says where each checkpoint is, for whatever copies it away."""
    if event == "checkpoint":
        print(f"checkpoint of step {row['step']}: {row['path']}")


def policy_gradient(inputs: LossInputs) -> tuple[Tensor, dict[str, Tensor]]:
    """REINFORCE: the mean over tokens of minus advantage times log-probability."""
    return token_mean(inputs, -inputs.advantages * inputs.logprobs), {}
