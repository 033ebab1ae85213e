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
    """Turns of a rollout, and what the policy is told between two of them; under ``whole_proof``
    there is only one."""

    mode: RolloutMode = "whole_proof"
    """``whole_proof``: one completion; ``self_correct``: after a rejected completion the policy
    sees the verifier's answer and tries again; ``interleaved``: the policy writes
    ``<code>...</code>``, the verifier answers in ``<interpreter>``, and the same completion
    continues (for checkpoints trained to do so)"""
    turns: Positive = 3
    """the most turns, including the first attempt"""
    feedback: FeedbackName = "goedel"
    """``goedel``: each error's span marked in its lines; ``kimina``: the goal before the error and
    numbered lines; ``compact``: one line per error; ``status``: only that it failed, not why"""
    max_errors: Positive = 8
    """the most errors shown; the rest are counted"""
    history_tokens: NonNegative = 0
    """the most tokens of a prompt; beyond it the oldest turns are dropped, never the problem; 0 is
    no limit"""
