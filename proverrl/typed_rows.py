"""Checks rows of JSON against their types, so that a damaged file is named and not stumbled over.

Flows in: a value, the type it should have, its place in words. Flows out: nothing, or a
``RunError`` with the place, the field and the remedy. Not handled here: reading files.
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from proverrl.errors import RunError

ROW = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)
"""How rows are checked, and the rows inside them: nothing is converted, fields that are not named
pass through, NaN does not."""


def check_fields(adapter: TypeAdapter[Any], value: object, where: str, remedy: str) -> None:
    """Raise RunError at the first field that is not what it should be."""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part)[:60] for part in first["loc"])
        told = ": ".join(part for part in (where, field, first["msg"]) if part)
        raise RunError(f"{told}; {remedy}") from error
