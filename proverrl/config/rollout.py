"""How a rollout goes: one proof at once, or several turns with the verifier's answer between.

Flows in: the ``[rollout]`` table. Flows out: checked values. The functions that the names choose
stand in ``proverrl.rollout.feedback`` and ``proverrl.rollout.self_correct``.
"""

from __future__ import annotations

from typing import Literal

from proverrl.config.base import NonNegative, Positive, Section

RolloutMode = Literal["whole_proof", "self_correct", "interleaved"]
FeedbackName = Literal["goedel", "kimina", "compact", "status"]


class RolloutConfig(Section):
    """Turns of a rollout, and what the policy is told between two of them.

    ``turns`` counts the first attempt; under ``whole_proof`` there is only that one. A prompt of
    more than ``history_tokens`` tokens loses its oldest turns (0: never).
    """

    mode: RolloutMode = "whole_proof"
    turns: Positive = 3
    feedback: FeedbackName = "goedel"
    max_errors: Positive = 8
    history_tokens: NonNegative = 0
