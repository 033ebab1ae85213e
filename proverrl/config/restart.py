"""The section ``[restart]``: groups that begin with a part of an answer.

Flows in: a table of TOML. Flows out: checked values. The functions that ``name`` chooses stand in
``proverrl.rollout.restart.CHOOSERS``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from proverrl.config.base import Positive, Section

RestartName = Literal["none", "escalate", "levels", "logistic"]
RestartSource = Literal["found", "reference", "failed_prefix", "failed_attempt"]
RestartUnit = Literal["steps", "tokens"]
OpenFraction = Annotated[float, Field(gt=0.0, lt=1.0)]


class RestartConfig(Section):
    """When a problem is tried again from a part of an answer, and how much of it is given.

    ``source = "reference"`` shows the policy reference bodies that warm start did not use, and so
    needs ``use_references``. At most ``share`` of the groups of a draw are restarts.
    """

    name: RestartName = "none"
    source: RestartSource = "found"
    use_references: bool = False
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    ratios: tuple[OpenFraction, ...] = Field(default=(0.25, 0.5, 0.75), min_length=1)
    unit: RestartUnit = "steps"
    light: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.35
    target: OpenFraction = 0.5
    patience: Positive = 6

    @model_validator(mode="after")
    def _possible(self) -> RestartConfig:
        if self.name != "none" and self.source == "reference" and not self.use_references:
            raise ValueError(
                'source = "reference" shows references of the training file to the policy; say so '
                "with use_references = true, or choose another source"
            )
        if any(a >= b for a, b in zip(self.ratios, self.ratios[1:], strict=False)):
            raise ValueError("ratios must rise")
        if self.name in ("levels", "logistic") and self.source.startswith("failed"):
            raise ValueError(
                f'"{self.name}" chooses a length, and source = "{self.source}" has one only: '
                'choose "escalate"'
            )
        return self
