"""The section ``[curriculum]``: which problems are drawn, one table for each way of drawing.

Flows in: a table of TOML. Flows out: checked values. Defaults are the papers' numbers where they
give them; docs/configuration.md says which are ours. Not handled here: the curricula themselves
(``proverrl.curriculum``).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from proverrl.config.base import Fraction, NonNegative, Positive, PositiveFloat, Section

CurriculumName = Literal[
    "uniform", "posterior", "prioritised", "mopps", "sec", "dump", "cbrl", "sws", "pools"
]
CategoryField = Literal["language", "kind", "origin", "operator", "family", "level"]
InsideName = Literal["uniform", "mopps"]
PickName = Literal["closest", "threshold"]

_Share = Annotated[float, Field(ge=0.0)]


class MoppsConfig(Section):
    """``mopps``; see ``proverrl.curriculum.mopps``."""

    pick: PickName = "closest"
    target: Fraction = 0.5
    low: Fraction = 0.3
    high: Fraction = 0.7
    candidates: NonNegative = 8
    discount: Fraction = 1.0
    warm_start: str = ""
    warm_weight: PositiveFloat = 3.0

    @model_validator(mode="after")
    def _low_is_below_high(self) -> MoppsConfig:
        if self.low > self.high:
            raise ValueError("low is above high: no problem would be within the threshold")
        return self


class SecConfig(Section):
    """``sec``; see ``proverrl.curriculum.sec``."""

    rate: Fraction = 0.5
    temperature: PositiveFloat = 0.5
    inside: InsideName = "uniform"


class DumpConfig(Section):
    """``dump``; see ``proverrl.curriculum.dump``."""

    window: Positive = 300
    temperature: PositiveFloat = 0.1
    inside: InsideName = "uniform"


class CbrlConfig(Section):
    """``cbrl``; see ``proverrl.curriculum.cbrl``."""

    target: Fraction = 0.5
    step: PositiveFloat = 0.1
    start: _Share = 0.0
    inside: InsideName = "uniform"


class SwsConfig(Section):
    """``sws``; see ``proverrl.curriculum.sws``."""

    weak: Fraction = 0.5
    low: Fraction = 0.125
    high: Fraction = 0.875
    recheck: Fraction = 0.1

    @model_validator(mode="after")
    def _low_is_below_high(self) -> SwsConfig:
        if self.low > self.high:
            raise ValueError("low is above high: no problem would be kept")
        return self


class PoolsConfig(Section):
    """``pools``; see ``proverrl.curriculum.pools``."""

    hard: Fraction = 0.25
    easy: Fraction = 0.75
    hard_weight: _Share = 0.2
    normal_weight: PositiveFloat = 1.0
    easy_weight: _Share = 0.2
    retire_after: NonNegative = 3
    park_after: NonNegative = 3
    rest: NonNegative = 1000

    @model_validator(mode="after")
    def _hard_is_below_easy(self) -> PoolsConfig:
        if self.hard >= self.easy:
            raise ValueError("hard must be below easy: between them lies the normal pool")
        return self


class CollapseConfig(Section):
    """When composed problems give cause for a warning; see ``proverrl.curriculum.collapse``.

    All limits are ours. ``min_operator_entropy`` and ``max_drift`` are factors on the first round's
    figures; over ``window`` rounds a reward that rises by ``min_rise`` or more while the skeletons
    a problem fall to ``min_kept`` of what they were, or below, is a sign of gaming.
    """

    min_problems: Positive = 8
    min_variety: Fraction = 0.5
    max_template: Fraction = 0.5
    min_operator_entropy: Fraction = 0.5
    max_overlap: Fraction = 0.9
    max_always: Fraction = 0.5
    max_never: Fraction = 0.75
    window: Positive = 3
    min_rise: _Share = 0.05
    min_kept: Fraction = 0.8
    max_drift: Annotated[float, Field(ge=1.0)] = 2.0
    max_malformed: Fraction = 0.5


class CurriculumConfig(Section):
    """Which problems are drawn. ``categories`` are what makes two problems one arm of ``sec`` and
    ``dump``, or one category of ``sws``."""

    name: CurriculumName = "posterior"
    floor: Fraction = 0.02
    discount: Fraction = 0.9
    categories: Annotated[tuple[CategoryField, ...], Field(min_length=1)] = (
        "language",
        "family",
        "level",
    )
    mopps: MoppsConfig = MoppsConfig()
    sec: SecConfig = SecConfig()
    dump: DumpConfig = DumpConfig()
    cbrl: CbrlConfig = CbrlConfig()
    sws: SwsConfig = SwsConfig()
    pools: PoolsConfig = PoolsConfig()
