"""The section ``[curriculum]``: which problems are drawn, one table for each way of drawing.

Defaults are the papers' numbers where they give them; docs/configuration.md says which are ours.
Not handled here: the curricula themselves (``proverrl.curriculum``).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from proverrl.config.base import (
    Fraction,
    NonNegative,
    NonNegativeFloat,
    Options,
    PositiveFloat,
    Section,
    name_of,
)

CurriculumName = Literal["uniform", "posterior", "mopps", "cbrl"]


class MoppsConfig(Section):
    """``mopps``; see ``proverrl.curriculum.beliefs``."""

    target: Fraction = 0.5
    """the solve rate that is looked for"""
    candidates: NonNegative = 8
    """random candidates for each place of a draw; 0 makes all problems candidates"""
    discount: Fraction = 1.0
    """how much of a problem's past still counts after each new group; 0.5 when the policy changes
    fast"""


class CbrlConfig(Section):
    """``cbrl``; see ``proverrl.curriculum.difficulty``."""

    target: Fraction = 0.5
    """the solve rate that difficulty is steered towards"""
    step: PositiveFloat = 0.1
    """how far difficulty moves after a batch, in levels (ours)"""
    start: NonNegativeFloat = 0.0
    """the first difficulty; a value below the easiest means the easiest"""


class CurriculumConfig(Section):
    """Which problems are drawn."""

    name: Annotated[str, name_of("curriculum", CurriculumName)] = "posterior"
    """``uniform``, ``posterior``, ``mopps`` or ``cbrl``
    ([algorithms.md](algorithms.md#curricula-curriculum))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""
    floor: Fraction = 0.02
    """added to every family's weight under ``posterior``, so that none is forgotten"""
    discount: Fraction = 0.9
    """how much of the past still counts after each new group, for the solve rate of a family"""
    mopps: MoppsConfig = MoppsConfig()
    cbrl: CbrlConfig = CbrlConfig()
