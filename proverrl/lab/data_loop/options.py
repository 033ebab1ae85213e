"""``[loop_options]`` of the data loop."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from proverrl.config.base import Fraction, NonNegative, Positive, Section

GradeName = Literal["excellent", "good", "above_average", "fair", "poor"]


class DataLoopOptions(Section):
    """Grades, attack and end of the data loop.

    A statement is excellent, and one step worse for each limit that it misses, two where it misses
    it by half: ``min_obligations``, ``min_tokens`` to ``max_tokens``, ``min_novelty``.
    """

    keep: tuple[GradeName, ...] = ("excellent", "good", "above_average")
    """grades to keep; the others are ``fair`` and ``poor``"""
    min_obligations: NonNegative = 2
    """the fewest obligations that the verifier finds in a statement with an empty hole"""
    min_tokens: Positive = 20
    """the fewest tokens of a statement"""
    max_tokens: Positive = 300
    """and at most"""
    min_novelty: Fraction = 0.1
    """the smallest share of a statement's runs of four tokens that its nearest parent lacks"""
    attack_samples: Positive = 8
    """the policy's samples on a new statement, and the same number on its negation"""
    min_gain: Fraction = 0.02
    """growth of the number of proved statements in a round that counts as a gain; 0 never ends the
    loop"""
    patience: Positive = 2
    """rounds in a row without a gain that end the loop"""

    @model_validator(mode="after")
    def _something_is_kept(self) -> DataLoopOptions:
        if not self.keep:
            raise ValueError('keep names no grade; every statement would be dropped, set ["good"]')
        if self.min_tokens > self.max_tokens:
            raise ValueError("min_tokens is above max_tokens: no statement would be excellent")
        return self
