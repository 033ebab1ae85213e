"""The options of a value model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from proverrl.config.base import (
    Fraction,
    NonNegative,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
)


class ValueOptions(Section):
    """Settings that ``proverrl fit-value`` reads, and those by which the head is fitted."""

    run: str = ""
    """a run, whose newest weights and rollouts are used. With ``policy`` set, only the rollouts"""
    policy: str = ""
    """a policy in place of the run's"""
    last_steps: NonNegative = 0
    """use the rollouts of this many last steps of that run; 0 is all"""
    rollouts: tuple[str, ...] = ()
    """more files or folders of rollouts on Dafny problems"""
    samples: tuple[str, ...] = ()
    """files that ``--emit-samples`` wrote"""
    layers: Positive = 1
    """how many of the last layers' hidden states are read"""
    rank_weight: Fraction = 0.5
    """share of the loss that ranks the prefixes of one problem; the rest is cross-entropy"""
    hidden: Positive = 64
    """width of the head"""
    learning_rate: PositiveFloat = 1e-3
    """learning rate of AdamW"""
    weight_decay: NonNegativeFloat = 0.01
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
    """share of the problems that only the figures are measured on"""
    seed: NonNegative = 0
    """determines every random draw"""
