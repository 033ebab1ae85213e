"""The options of restarts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from proverrl.config.base import Positive

RestartSource = Literal["found", "reference", "failed_prefix", "failed_attempt"]
RestartUnit = Literal["steps", "tokens"]
OpenFraction = Annotated[float, Field(gt=0.0, lt=1.0)]


class RestartOptions(BaseModel):
    """When a problem is tried again from a part of an answer, and how much of it is given."""

    source: RestartSource = "found"
    """``found``, ``reference``, ``failed_prefix`` or ``failed_attempt``"""
    use_references: bool = False
    """must be true for ``source = "reference"``"""
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """the largest share of a draw's groups that are restarts"""
    ratios: Annotated[tuple[OpenFraction, ...], Field(min_length=1)] = (0.25, 0.5, 0.75)
    """shares of an answer's tokens to give, in rising order"""
    unit: RestartUnit = "steps"
    """where a hint ends: ``steps``, at the end of a statement, clause or line, also beyond the
    ratio; ``tokens``, anywhere"""
    patience: Positive = 6
    """restarts of a problem before it is drawn again without a hint"""

    @model_validator(mode="after")
    def _possible(self) -> RestartOptions:
        if self.source == "reference" and not self.use_references:
            raise ValueError(
                'source = "reference" shows references of the training file to the policy; say so '
                "with use_references = true, or choose another source"
            )
        if any(a >= b for a, b in zip(self.ratios, self.ratios[1:], strict=False)):
            raise ValueError("ratios must rise")
        return self
