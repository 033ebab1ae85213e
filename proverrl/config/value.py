"""The sections ``[value]``, training of a value model, and ``[samples]``, learning from searches.

Flows in: tables of TOML. Flows out: checked values. Not handled here: whether files exist.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from proverrl.config.base import Fraction, NonNegative, Positive, PositiveFloat, Section


class ValueConfig(Section):
    """A value head on a policy's hidden states; read when ``loop = "value"``."""

    run: str = ""
    """a run: its newest weights and the rollouts of its steps. With ``policy.path`` set only the
    rollouts"""
    last_steps: NonNegative = 0
    """rollouts of so many last steps of that run; 0 is all"""
    rollouts: tuple[str, ...] = ()
    """more files of rollouts, or folders of them; of Dafny problems"""
    samples: tuple[str, ...] = ()
    """files that ``--emit-samples`` wrote"""
    layers: Positive = 1
    """the hidden states after so many of the last layers are read"""
    rank_weight: Fraction = 0.5
    """share of the loss that sets the prefixes of one problem against each other; the rest is
    cross-entropy"""
    hidden: Positive = 64
    """width of the head"""
    learning_rate: PositiveFloat = 1e-3
    """learning rate of AdamW"""
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.01
    """weight decay"""
    batch_size: Positive = 512
    """pairs a step, whole problems together"""
    epochs: Positive = 60
    """passes over the pairs, at most"""
    patience: Positive = 6
    """ends after so many epochs in which the loss on held-back problems was not lower"""
    valid_share: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.2
    """share of the problems that chooses the epoch"""
    test_share: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.2
    """share of the problems that the figures are of; they have no other part"""


class SamplesConfig(Section):
    """What a run learns from searches; each body is judged anew before it is used."""

    files: tuple[str, ...] = ()
    """files that ``--emit-samples`` wrote"""
    warm_start: bool = False
    """their proofs are learned in the warm start, beside the references"""
    proofs: bool = True
    """their proofs join those that the loop keeps: what ``expert_iteration`` trains on, and the
    replay of ``grpo``"""
    passes: NonNegative = 0
    """``grpo``: before its first step learn all paths so often, each token with the advantage of
    its stretch; one process only"""
    problems_per_update: Positive = 8
    """problems whose paths make one update of a pass"""

    @model_validator(mode="after")
    def _has_files(self) -> SamplesConfig:
        if not self.files and (self.warm_start or self.passes):
            raise ValueError("files is empty and warm_start or passes is set; name a file")
        return self
