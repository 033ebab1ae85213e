"""The section ``[curriculum]``: which problems are drawn.

Not handled here: the curricula themselves (``proverrl.curriculum``).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from proverrl.config.base import Options, Section, name_of

CurriculumName = Literal["uniform", "posterior"]


class CurriculumConfig(Section):
    """The choice of the problems that are drawn."""

    name: Annotated[str, name_of("curriculum", CurriculumName)] = "posterior"
    """``uniform`` or ``posterior`` ([algorithms.md](algorithms.md#curricula-curriculum))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""
