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
    """``closest``: candidates whose sampled rate is nearest to the target; ``threshold``: random
    ones between low and high"""
    target: Fraction = 0.5
    """the solve rate that ``closest`` looks for"""
    low: Fraction = 0.3
    """the lowest sampled rate that ``threshold`` takes"""
    high: Fraction = 0.7
    """the highest"""
    candidates: NonNegative = 8
    """candidates for each place of a draw, taken at random; 0 makes all problems candidates"""
    discount: Fraction = 1.0
    """how much of a problem's past counts after each new group; 0.5 where the policy changes
    fast"""
    warm_start: str = ""
    """a file of counts of an earlier run: ``evals/NAME.jsonl``, ``rollouts/step_N.jsonl``, or lines
    with ``id``, ``solved``, ``attempts``"""
    warm_weight: PositiveFloat = 3.0
    """what each of those attempts counts"""

    @model_validator(mode="after")
    def _low_is_below_high(self) -> MoppsConfig:
        if self.low > self.high:
            raise ValueError("low is above high: no problem would be within the threshold")
        return self


class SecConfig(Section):
    """``sec``; see ``proverrl.curriculum.sec``."""

    rate: Fraction = 0.5
    """how far a batch moves a category's value (ours)"""
    temperature: PositiveFloat = 0.5
    """of the softmax over values; lower prefers more (ours)"""
    inside: InsideName = "uniform"
    """which problem of a category: ``uniform``, the least visited; ``mopps``"""


class DumpConfig(Section):
    """``dump``; see ``proverrl.curriculum.dump``."""

    window: Positive = 300
    """rollouts whose mean advantage counts"""
    temperature: PositiveFloat = 0.1
    """of the softmax over scores"""
    inside: InsideName = "uniform"
    """as for ``sec``"""


class CbrlConfig(Section):
    """``cbrl``; see ``proverrl.curriculum.cbrl``."""

    target: Fraction = 0.5
    """the solve rate that difficulty is steered to"""
    step: PositiveFloat = 0.1
    """how far difficulty moves after a batch, in levels (ours)"""
    start: _Share = 0.0
    """the difficulty at first; below the easiest it is the easiest"""
    inside: InsideName = "uniform"
    """as for ``sec``"""


class SwsConfig(Section):
    """``sws``; see ``proverrl.curriculum.sws``."""

    weak: Fraction = 0.5
    """a problem fails while less than this share of its latest group is proved"""
    low: Fraction = 0.125
    """problems whose latest rate is below are left out"""
    high: Fraction = 0.875
    """so are those above"""
    recheck: Fraction = 0.1
    """the share of draws that goes to what was left out (ours)"""

    @model_validator(mode="after")
    def _low_is_below_high(self) -> SwsConfig:
        if self.low > self.high:
            raise ValueError("low is above high: no problem would be kept")
        return self


class PoolsConfig(Section):
    """``pools``; see ``proverrl.curriculum.pools``."""

    hard: Fraction = 0.25
    """a problem whose latest rate is at most this is hard"""
    easy: Fraction = 0.75
    """one above this is easy; between lies normal, where untried problems are too"""
    hard_weight: _Share = 0.2
    """weight of a hard problem"""
    normal_weight: PositiveFloat = 1.0
    """of a normal one"""
    easy_weight: _Share = 0.2
    """of an easy one"""
    retire_after: NonNegative = 3
    """groups in a row that were all proved, after which a problem rests; 0 never (ours)"""
    park_after: NonNegative = 3
    """groups in a row that all failed, after which it rests; 0 never (ours)"""
    rest: NonNegative = 1000
    """groups of any problem until it is drawn again; 0 never again (ours)"""

    @model_validator(mode="after")
    def _hard_is_below_easy(self) -> PoolsConfig:
        if self.hard >= self.easy:
            raise ValueError("hard must be below easy: between them lies the normal pool")
        return self


class CollapseConfig(Section):
    """When composed problems give cause for a warning; see ``proverrl.curriculum.collapse``.

    All limits are ours. A reward that rises while variety falls is a sign of gaming.
    """

    min_problems: Positive = 8
    """rounds with fewer problems give no warning"""
    min_variety: Fraction = 0.5
    """skeletons a problem, at least"""
    max_template: Fraction = 0.5
    """share of the commonest template, at most"""
    min_operator_entropy: Fraction = 0.5
    """entropy of the operators over that of the first round, at least"""
    max_overlap: Fraction = 0.9
    """share of a problem's runs of tokens that stand in another, at most"""
    max_always: Fraction = 0.5
    """share of problems that every attempt solved, at most"""
    max_never: Fraction = 0.75
    """share of problems that no attempt solved, at most"""
    window: Positive = 3
    """rounds over which the reward is compared with variety"""
    min_rise: _Share = 0.05
    """a rise of the composer's reward that is looked at"""
    min_kept: Fraction = 0.8
    """and the share of variety that must be left then"""
    max_drift: Annotated[float, Field(ge=1.0)] = 2.0
    """factor between the lengths of statements of a round and the first, at most"""
    max_malformed: Fraction = 0.5
    """share of the composer's statements without a problem in them, at most"""


class CurriculumConfig(Section):
    """Which problems are drawn. ``categories`` are what makes two problems one arm of ``sec`` and
    ``dump``, or one category of ``sws``."""

    name: CurriculumName = "posterior"
    """``uniform``: every problem in turn; ``posterior``: families whose solve rate is neither near
    0 nor near 1 come more often; ``prioritised``, ``mopps``, ``sec``, ``dump``, ``cbrl``, ``sws``,
    ``pools``: see the tables below"""
    floor: Fraction = 0.02
    """added to every family's weight under ``posterior``, so that none is forgotten"""
    discount: Fraction = 0.9
    """how much of the past counts after each new group, for the solve rate of a family and, under
    ``prioritised``, of a problem; 1 forgets nothing"""
    categories: Annotated[tuple[CategoryField, ...], Field(min_length=1)] = (
        "language",
        "family",
        "level",
    )
    """what makes problems one category of ``sec``, ``dump`` and ``sws``: any of ``language``,
    ``kind``, ``origin``, ``operator`` (that composed it), ``family``, ``level``"""
    mopps: MoppsConfig = MoppsConfig()
    sec: SecConfig = SecConfig()
    dump: DumpConfig = DumpConfig()
    cbrl: CbrlConfig = CbrlConfig()
    sws: SwsConfig = SwsConfig()
    pools: PoolsConfig = PoolsConfig()
