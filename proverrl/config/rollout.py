"""The sections ``[rollout]``, turns with the verifier's answer between, and ``[restart]``, groups
that begin with a part of an answer. What the names choose stands in ``proverrl.rollout``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

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


RestartName = Literal["none", "escalate"]
RestartSource = Literal["found", "reference", "failed_prefix", "failed_attempt"]
RestartUnit = Literal["steps", "tokens"]
OpenFraction = Annotated[float, Field(gt=0.0, lt=1.0)]


class RestartConfig(Section):
    """When a problem is tried again from a part of an answer, and how much of it is given."""

    name: RestartName = "none"
    """``escalate``: a problem whose group has no proof comes again with more of an answer"""
    source: RestartSource = "found"
    """``found``, ``reference``, ``failed_prefix`` or ``failed_attempt``
    ([algorithms.md](algorithms.md#restarts-restart))"""
    use_references: bool = False
    """must be true for ``restart.source = "reference"``"""
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """the largest share of a draw's groups that are restarts"""
    ratios: tuple[OpenFraction, ...] = Field(default=(0.25, 0.5, 0.75), min_length=1)
    """shares of an answer's tokens to give, in rising order"""
    unit: RestartUnit = "steps"
    """where a hint ends: ``steps``, at the end of a statement, clause or line, also beyond the
    ratio; ``tokens``, anywhere"""
    patience: Positive = 6
    """restarts of a problem before it is drawn again without a hint"""

    @model_validator(mode="after")
    def _possible(self) -> RestartConfig:
        if self.name != "none" and self.source == "reference" and not self.use_references:
            raise ValueError(
                'source = "reference" shows references of the training file to the policy; say so '
                "with use_references = true, or choose another source"
            )
        if any(a >= b for a, b in zip(self.ratios, self.ratios[1:], strict=False)):
            raise ValueError("ratios must rise")
        return self
