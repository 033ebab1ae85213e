"""The section ``[data_loop]``: expert iteration on statements that the run composes itself.

Flows in: a table of TOML. Flows out: checked values. What the grades mean stands in
``proverrl.compose.grades``. Not handled here: composer and guards (``[selfplay]``), sampling and
training (``[expert_iteration]``).
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from proverrl.config.base import Fraction, NonNegative, Positive, Section

GradeName = Literal["excellent", "good", "above_average", "fair", "poor"]


class DataLoopConfig(Section):
    """Grades, attack and end of the data loop.

    A statement is excellent, and one step worse for each limit that it misses, two where it misses
    it by half: fewer than ``min_obligations``, fewer than ``min_tokens`` or more than
    ``max_tokens``, less than ``min_novelty`` of its runs of tokens new. Those with a grade in
    ``keep`` go on. Statement and negation are attacked with ``attack_samples`` of the policy each.

    The loop ends when the proved statements grew by less than ``min_gain`` of what they were
    in each of ``patience`` rounds in a row; 0 never ends it.
    """

    keep: tuple[GradeName, ...] = ("excellent", "good", "above_average")
    min_obligations: NonNegative = 2
    min_tokens: Positive = 20
    max_tokens: Positive = 300
    min_novelty: Fraction = 0.1
    attack_samples: Positive = 8
    min_gain: Fraction = 0.02
    patience: Positive = 2

    @model_validator(mode="after")
    def _something_is_kept(self) -> DataLoopConfig:
        if not self.keep:
            raise ValueError('keep names no grade; every statement would be dropped, set ["good"]')
        if self.min_tokens > self.max_tokens:
            raise ValueError("min_tokens is above max_tokens: no statement would be excellent")
        return self
