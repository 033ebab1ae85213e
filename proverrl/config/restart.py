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
    """When a problem is tried again from a part of an answer, and how much of it is given."""

    name: RestartName = "none"
    """how the length of the given part is chosen: ``none``, ``escalate``, ``levels`` or
    ``logistic``"""
    source: RestartSource = "found"
    """what is given: ``found``, the beginning of a proof that this run found; ``reference``, the
    beginning of a reference in the training file; ``failed_prefix``, a failed answer up to its
    first error; ``failed_attempt``, a failed answer with the verifier's answer, shown before a new
    one. The last two need ``escalate``"""
    use_references: bool = False
    """must be true for ``restart.source = "reference"``, because it shows the policy references
    that the warm start did not use"""
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """the largest share of a draw's groups that are restarts"""
    ratios: tuple[OpenFraction, ...] = Field(default=(0.25, 0.5, 0.75), min_length=1)
    """shares of an answer's tokens to give, in rising order"""
    unit: RestartUnit = "steps"
    """where a hint ends: ``steps``, at the end of a statement, clause or line, so more than the
    ratio may be given and short proofs have few possible lengths; ``tokens``, anywhere"""
    light: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.35
    """``levels``: a group is given more when at most this share of it is proved"""
    target: OpenFraction = 0.5
    """``logistic``: the share of proofs to aim for in a group"""
    patience: Positive = 6
    """restarts of a problem before it is drawn again without a hint"""

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
