"""Checks rows of JSON against their types, so that a damaged file is named and not stumbled over.

Flows in: a value or a file that holds one, the type it should have, its place in words. Flows out:
the value, or a ``RunError`` with the place, the field and the remedy. Not handled here: files of
many lines (``proverrl.files.lines``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from proverrl.errors import RunError
from proverrl.files.strict_json import read_object

ROW = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)
"""How rows are checked, and the rows inside them: nothing is converted, fields that are not named
pass through, NaN does not."""


def read_row(path: Path, adapter: TypeAdapter[Any], remedy: str) -> dict[str, Any]:
    """The JSON object in a file, its fields checked. Raises RunError naming the file."""
    try:
        row = read_object(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read as JSON: {error}; {remedy}") from error
    check_fields(adapter, row, str(path), remedy)
    return row


def check_fields(adapter: TypeAdapter[Any], value: object, where: str, remedy: str) -> None:
    """Raise RunError at the first field that is not what it should be."""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part)[:60] for part in first["loc"])
        told = ": ".join(part for part in (where, field, first["msg"]) if part)
        raise RunError(f"{told}; {remedy}") from error
