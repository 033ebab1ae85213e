"""Which engine samples from the policy, and the settings of vLLM.

Flows in: ``policy.engine`` and the ``[vllm]`` table. Flows out: checked values.
Not handled here: whether vLLM is installed (``proverrl.policy.vllm_engine`` says so).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from proverrl.config.base import NonNegative, Positive, PositiveFloat, Section

EngineName = Literal["transformers", "vllm"]
VllmDtype = Literal["float32", "bfloat16"]


class VllmConfig(Section):
    """vLLM in this process, with the weights of the model that is trained."""

    dtype: VllmDtype = "float32"
    """number type of vLLM's copy of the weights: ``float32`` or ``bfloat16`` (the one for GPUs)"""
    kv_cache_gb: PositiveFloat = 1.0
    """memory of its key-value cache"""
    max_model_tokens: NonNegative = 0
    """the most tokens of prompt and completion together; 0 is the model's own limit"""
    eager: bool = True
    """no compilation: starts in seconds, but samples more slowly on a GPU"""
    probe_sequences: Annotated[int, Field(ge=8)] = 8
    """sequences that both engines score after each push, at least 8"""
    probe_tokens: Annotated[Positive, Field(ge=2)] = 64
    """the most tokens of one of them"""
    probe_limit: PositiveFloat = 1e-4
    """largest mean difference of log-probabilities (nats) in float32; above it the run ends"""
    probe_limit_half: PositiveFloat = 3e-2
    """the same in bfloat16"""

    @property
    def limit(self) -> float:
        """The largest mean difference that a push may leave, in nats."""
        return self.probe_limit if self.dtype == "float32" else self.probe_limit_half
