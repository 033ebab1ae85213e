"""How the policy samples in training, and how long a completion may be.

Flows in: the ``[sampling]`` table; what the policy is. Flows out: checked values. There is no top-p
here: the learner needs log-probabilities of the whole distribution (``evaluation.top_p``).
"""

from __future__ import annotations

from proverrl.config.base import Positive, PositiveFloat, Section

SMALL_MODEL_TOKENS, CHECKPOINT_TOKENS, ENDPOINT_TOKENS = 96, 2048, 8192
"""Tokens of a completion where nobody named a limit: the bodies of our small model; whole proofs,
as DeepSeek-Prover-V1.5 writes them (arXiv 2408.08152); a chain of thought and the proof, as in the
example of DeepSeek-Prover-V2's repository."""


class SamplingConfig(Section):
    """How the policy samples in training. The default of ``max_new_tokens`` is that of the small
    model (``choose_token_limit``)."""

    temperature: PositiveFloat = 1.0
    """temperature in training"""
    max_new_tokens: Positive = SMALL_MODEL_TOKENS
    """the most tokens of a completion, in evaluation and search too. When unset: 96 for the small
    model and for the layout ``canonical``, 2,048 for a checkpoint in ``policy.path``, 8,192 behind
    ``endpoint.url``; ``resolved.json`` holds the number. A completion also ends where the model's
    context does"""


def choose_token_limit(*, path: str, layout: str, url: str) -> int:
    """Tokens of a completion, at most, for a policy from ``path`` or behind ``url``.

    ``canonical`` is a layout of our small models alone, wherever their weights come from.
    """
    if url:
        return ENDPOINT_TOKENS
    return CHECKPOINT_TOKENS if path and layout != "canonical" else SMALL_MODEL_TOKENS
