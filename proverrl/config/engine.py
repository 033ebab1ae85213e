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
    """vLLM in this process, with the weights of the model that is trained.

    After every push of weights ``probe_sequences`` fixed sequences of at most ``probe_tokens``
    tokens are scored by both engines. A mean difference of log-probabilities (nats) above
    ``probe_limit``, or above ``probe_limit_half`` in bfloat16, ends the run.
    """

    dtype: VllmDtype = "float32"
    kv_cache_gb: PositiveFloat = 1.0
    max_model_tokens: NonNegative = 0
    eager: bool = True
    probe_sequences: Annotated[int, Field(ge=8)] = 8
    probe_tokens: Annotated[Positive, Field(ge=2)] = 64
    probe_limit: PositiveFloat = 1e-4
    probe_limit_half: PositiveFloat = 3e-2

    @property
    def limit(self) -> float:
        """The largest mean difference that a push may leave, in nats."""
        return self.probe_limit if self.dtype == "float32" else self.probe_limit_half
