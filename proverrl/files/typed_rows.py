"""Checks rows of JSON against their types, so that a damaged file is named and not stumbled over.

Flows in: a value, a file of one or of one per line, and their type. Flows out: the values, or a
``RunError`` with the place, the field and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from proverrl.errors import RunError
from proverrl.files.lines import iter_numbered_lines
from proverrl.files.strict_json import read_object

ROW = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)
"""The rules for rows and the rows inside them: nothing is converted, fields that are not named
pass through, NaN does not."""


def read_row(path: Path, adapter: TypeAdapter[Any], remedy: str) -> dict[str, Any]:
    """The JSON object in a file, its fields checked. Raises RunError naming the file."""
    try:
        row = read_object(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read as JSON: {error}; {remedy}") from error
    check_fields(adapter, row, str(path), remedy)
    return row


def iter_typed_lines(
    path: Path,
    adapter: TypeAdapter[Any],
    remedy: str,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The rows of a JSON lines file, their fields checked, each with the number of its line and its
    place in bytes. ``tell`` is given a sentence about a last line that is being written or was cut,
    which is left out. Raises RunError naming file and line."""
    # Of a million rows each call more costs half a second.
    validate = adapter.validator.validate_python
    for line, place, row in iter_numbered_lines(path, tell):
        try:
            validate(row)
        except ValidationError as error:
            raise _describe(error, f"{path}, line {line}", remedy) from error
        yield line, place, row


def check_fields(adapter: TypeAdapter[Any], value: object, where: str, remedy: str) -> None:
    """Raise RunError at the first field that is not what it should be."""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        raise _describe(error, where, remedy) from error


def _describe(error: ValidationError, where: str, remedy: str) -> RunError:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part)[:60] for part in first["loc"])
    told = ": ".join(part for part in (where, field, first["msg"]) if part)
    return RunError(f"{told}; {remedy}")
