"""The section ``[rollout]``: turns with the verifier's answer between. What the names choose stands
in ``proverrl.rollout``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from proverrl.config.base import NonNegative, Options, Positive, Section, name_of

RolloutMode = Literal["whole_proof", "self_correct"]
FeedbackName = Literal["goedel", "kimina", "compact", "status"]


class RolloutConfig(Section):
    """Turns of a rollout, and what the policy is told between two of them; under ``whole_proof``
    there is only one."""

    mode: Annotated[str, name_of("rollout", RolloutMode)] = "whole_proof"
    """``whole_proof`` or ``self_correct`` ([algorithms.md](algorithms.md#rollouts-rollout))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``mode = "package.module:function"`` ([plugins.md](plugins.md))"""
    turns: Positive = 3
    """the most turns, including the first attempt"""
    feedback: FeedbackName = "goedel"
    """``goedel``, ``kimina``, ``compact`` or ``status``
    ([algorithms.md](algorithms.md#rollouts-rollout))"""
    max_errors: Positive = 8
    """the most errors shown; the rest are counted"""
    history_tokens: NonNegative = 0
    """the most tokens of a prompt; beyond it the oldest turns are dropped, never the problem; 0 is
    the model's context"""

    @property
    def takes_turns(self) -> bool:
        """True if a rollout may have more than one turn."""
        return self.mode != "whole_proof" and self.turns > 1
