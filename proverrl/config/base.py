"""The parts of every section of the configuration: a base model and number types."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from proverrl.plugins import Seam, find_installed, is_place, list_installed

MAX_WORKERS = 1024
"""Verifier processes of a pool; a number beyond it is a slip."""

MAX_INT = 2**63 - 1
"""Integers that torch and SQLite hold."""

Positive = Annotated[int, Field(ge=1, le=MAX_INT)]
NonNegative = Annotated[int, Field(ge=0, le=MAX_INT)]
# More copies than a reference has places to break cost time and teach nothing.
PerReference = Annotated[int, Field(ge=0, le=64)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
NonNegativeFloat = Annotated[float, Field(ge=0.0)]
Options = dict[str, str | int | float | bool | list[str] | list[int] | list[float]]
"""The options of a plug-in."""
LeanBackend = Literal["lean-server", "lean-file"]
"""The way in which Lean is asked."""
DafnyVersion = Literal["auto", "4", "2.3"]
"""The Dafny that judges: ``auto`` is Dafny 4 where there is one."""
CONFIRM = r"proved|off|sample:(?:0\.\d+|1\.0|1)"
"""The accepted proofs that a second judge is asked of, as a pattern."""


def name_of(seam: Seam, names: Any) -> AfterValidator:
    """Takes a name of ours, of the literal type ``names``, that of an installed plug-in, or
    ``package.module:function``."""
    known = get_args(names)

    def check(value: str) -> str:
        if value in known or is_place(value):
            return value
        if place := find_installed(seam, value):
            return place
        names = [*known, *sorted(list_installed(seam))]
        near = difflib.get_close_matches(value, names, n=1)
        nearest = f"; the nearest is {near[0]!r}" if near else ""
        raise ValueError(
            f"unknown {seam} {value!r}{nearest}. Known are {', '.join(names)}, and "
            "plug-ins as package.module:function"
        )

    return AfterValidator(check)


class Section(BaseModel):
    """A frozen table of the configuration that refuses unknown keys, NaN and infinity."""

    # NaN would pass every comparison with a bound that it is asked.
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _path_is_not_empty(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        if value == "" and field.annotation in (Path, Path | None):
            raise ValueError("the path is empty; name one, or write . for the current folder")
        return value
