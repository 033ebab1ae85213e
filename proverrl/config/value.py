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
    """a run, whose newest weights and rollouts are used. With ``policy.path`` set, only the
    rollouts"""
    last_steps: NonNegative = 0
    """use the rollouts of this many last steps of that run; 0 is all"""
    rollouts: tuple[str, ...] = ()
    """more files or folders of rollouts on Dafny problems"""
    samples: tuple[str, ...] = ()
    """files that ``--emit-samples`` wrote"""
    layers: Positive = 1
    """how many of the last layers' hidden states are read"""
    rank_weight: Fraction = 0.5
    """share of the loss that ranks the prefixes of one problem against each other; the rest is
    cross-entropy"""
    hidden: Positive = 64
    """width of the head"""
    learning_rate: PositiveFloat = 1e-3
    """learning rate of AdamW"""
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.01
    """weight decay"""
    batch_size: Positive = 512
    """pairs per step; a problem's pairs stay together"""
    epochs: Positive = 60
    """the most passes over the pairs"""
    patience: Positive = 6
    """ends after this many epochs in which the loss on held-back problems did not fall"""
    valid_share: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.2
    """share of the problems that chooses the epoch"""
    test_share: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.2
    """share of the problems that the figures are measured on; they are used for nothing else"""


class SamplesConfig(Section):
    """What a run learns from searches; each body is judged anew before it is used."""

    files: tuple[str, ...] = ()
    """files that ``--emit-samples`` wrote"""
    warm_start: bool = False
    """learn their proofs in the warm start, together with the references"""
    proofs: bool = True
    """add their proofs to those that the loop keeps: what ``expert_iteration`` trains on, and the
    replay of ``grpo``"""
    passes: NonNegative = 0
    """``grpo``: how many times to learn all paths before the first step, each token with the
    advantage of its segment; one process only"""
    problems_per_update: Positive = 8
    """problems whose paths form one update of a pass"""

    @model_validator(mode="after")
    def _has_files(self) -> SamplesConfig:
        if not self.files and (self.warm_start or self.passes):
            raise ValueError("files is empty and warm_start or passes is set; name a file")
        return self
