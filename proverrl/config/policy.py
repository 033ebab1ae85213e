"""The section ``[policy]``: which model writes, and its adapters.

Flows in: a table of TOML. Flows out: checked values. Not handled here: whether the model can be
loaded (``proverrl.policy.loading``).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from proverrl.config.base import NonNegative, Positive, PositiveFloat, Section
from proverrl.config.engine import EngineName

LayoutName = Literal["plain", "canonical", "kimina", "deepseek", "deepseek_cot", "goedel", "dafny"]
DeviceName = Literal["auto", "cpu", "cuda"]


class LoraConfig(Section):
    """Low-rank adapters."""

    rank: NonNegative = 0
    """rank of low-rank adapters (LoRA, needs the extra ``lora``); 0 trains all weights. 16 to 64 is
    usual, with ten times the learning rate of all weights"""
    alpha: PositiveFloat = 64.0
    """their output is multiplied by this divided by the rank; one to two times the rank is usual"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """dropout before them, in supervised training only"""
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """``all-linear``, every linear layer except the output; or a list of layer names, as
    ``["q_proj", "v_proj"]``"""


class PolicyConfig(Section):
    """The policy. What is trained is a transformers model under either ``engine``."""

    path: str = ""
    """a Hugging Face folder or id; empty makes a small Llama model of the sizes below, and trains
    its tokenizer on the training split"""
    engine: EngineName = "transformers"
    """what samples: ``transformers``, the trained model itself, or ``vllm`` with a copy of its
    weights; see [engines.md](engines.md)"""
    layout: LayoutName = "plain"
    """how a problem is shown: ``plain``, the program as it is, for checkpoints that read code;
    ``canonical``, with names replaced by letters and constants from 3 upwards by ``_1``, ``_2``,
    ... in order of first occurrence, and replaced back in the answer; ``kimina``, ``deepseek``,
    ``deepseek_cot``, ``goedel`` (Lean) and ``dafny``: a conversation, rendered with the tokenizer's
    chat template if it has one, answered with a code block"""
    device: DeviceName = "auto"
    """``auto``, ``cpu`` or ``cuda``"""
    num_layers: Positive = 4
    """layers of the small model"""
    hidden_size: Positive = 192
    """its width"""
    num_heads: Positive = 6
    """its attention heads"""
    intermediate_size: Positive = 512
    """its feed-forward width"""
    vocab_size: Positive = 768
    """the largest size of its tokenizer's vocabulary"""
    rope_theta: PositiveFloat = 10_000.0
    """base of its rotary position embeddings"""
    max_rows: Positive = 256
    """the most completions generated at once; lower it when memory is short"""
    lora: LoraConfig = LoraConfig()

    @model_validator(mode="after")
    def _heads_fit(self) -> PolicyConfig:
        # A head turns its numbers in pairs, by their positions.
        if not self.path and self.hidden_size % (2 * self.num_heads):
            raise ValueError(
                f"hidden_size {self.hidden_size} is no multiple of twice num_heads "
                f"{self.num_heads}; change one of them"
            )
        return self
