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
    """``whole_proof``: one completion; ``self_correct``: after a rejected one the verifier's answer
    is shown and the policy tries again; ``interleaved``: the policy writes ``<code>...</code>``,
    the verifier answers in ``<interpreter>``, and the same answer goes on (for checkpoints that
    were taught it)"""
    turns: Positive = 3
    """turns at most, the first attempt included"""
    feedback: FeedbackName = "goedel"
    """``goedel``: each error's span marked in its lines; ``kimina``: the goal before the error and
    numbered lines; ``compact``: one line an error; ``status``: that it failed, without why"""
    max_errors: Positive = 8
    """errors shown at most; the rest is counted"""
    history_tokens: NonNegative = 0
    """tokens of a prompt at most; beyond it the oldest turns are left out, never the problem; 0 is
    no limit"""
