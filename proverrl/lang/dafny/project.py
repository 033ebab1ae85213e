"""Dafny's project files, ``dfyconfig.toml``.

Flows in: the path of one. Flows out: the files that it chooses and the options that it gives, or a
``UsageError`` that names the key and what to do. Options of ``audit.arguments`` are taken, what
concerns compiling or warnings alone is passed over, what this command has options of its own for is
left and named, and all else is refused: without it the program could mean something else.
Not handled here: the files themselves (``proverrl.problems.includes``).
"""

from __future__ import annotations

import glob
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from proverrl.errors import UsageError
from proverrl.lang.dafny.audit.arguments import HARMLESS, USE, explain_refusal
from proverrl.lang.records import Project

PROJECT_FILE = "dfyconfig.toml"
_DEFAULTS: Mapping[str, object] = {
    "default-function-opacity": "transparent",
    "function-syntax": "4",
    "general-traits": "legacy",
    "quantifier-syntax": "4",
    "unicode-char": "true",
    "verify-included-files": "true",
}
"""What Dafny 4 does by itself, and we do, beside the switches that are off."""
_MAX_DEPTH = 20


@with_config(extra="forbid", strict=True)
class _Read(TypedDict, total=False):
    base: str
    includes: list[str]
    excludes: list[str]
    options: dict[str, Any]


_READ = TypeAdapter(_Read)


def read_project(path: Path) -> Project:
    """See ``Language.read_project``."""
    read = _read(path, _MAX_DEPTH)
    # As Dafny: what chooses nothing, by itself or by its base, has all files below its folder.
    patterns = read.get("includes") or ([] if "includes" in read else [_place(path, "**/*.dfy")])
    excluded = {file for pattern in read.get("excludes", ()) for file in _find(pattern)}
    chosen = {file for pattern in patterns for file in _find(pattern)} - excluded
    if not chosen:
        raise UsageError(f"{path}: it chooses no .dfy file; mend its includes")
    name = str if path.is_absolute() else os.path.relpath
    arguments, left = [], []
    for key, value in read.get("options", {}).items():
        said = str(value).lower() if isinstance(value, bool) else str(value)
        if said == _DEFAULTS.get(key, "false"):
            continue
        if not (reason := explain_refusal(f"--{key}:{said}", "4")):
            arguments.append(f"--{key}:{said}")
        elif reason.startswith(USE):
            left.append(f"{key} ({reason})")
        elif reason not in HARMLESS:
            raise UsageError(
                f"{path}: options.{key} = {said}: {reason}; leave it out, or name the files "
                "themselves to have them judged without this project file"
            )
    files = tuple(Path(name(file)) for file in sorted(chosen))
    return Project(path, files, tuple(arguments), tuple(left))


def _read(path: Path, depth: int) -> _Read:
    """A project file with what its bases say, patterns as whole paths."""
    if path.exists() and not path.is_file():
        # A pipe would be waited for.
        raise UsageError(f"{path}: no project file of Dafny: it is no file")
    try:
        read = _READ.validate_python(tomllib.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        why = str(error)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UsageError(f"{path}: no project file of Dafny: {why}") from error
    own: _Read = {**read}
    if "includes" in read:
        own["includes"] = [_place(path, pattern) for pattern in read["includes"]]
    own["excludes"] = [_place(path, pattern) for pattern in read.get("excludes", ())]
    if "base" in read:
        if not depth:
            raise UsageError(f"{path}: its bases never end; name each project file once")
        below = _read(Path(_place(path, read["base"])), depth - 1)
        includes, excludes = own.get("includes", []), own["excludes"]
        more = [pattern for pattern in below.get("includes", ()) if pattern not in excludes]
        if includes or more:
            own["includes"] = [*includes, *more]
        own["excludes"] = [*excludes, *(p for p in below["excludes"] if p not in includes + more)]
        own["options"] = below.get("options", {}) | own.get("options", {})
    return own


def _place(path: Path, pattern: str) -> str:
    """A pattern of a project file as a whole path; ``dir/`` means all that is below."""
    folder = os.path.abspath(path.parent)
    return os.path.normpath(
        os.path.join(folder, f"{pattern}**" if pattern[-1:] == "/" else pattern)
    )


def _find(pattern: str) -> Iterator[str]:
    # Only the star is special to Dafny.
    written = "*".join(map(glob.escape, pattern.split("*")))
    for file in glob.iglob(written, recursive=True, include_hidden=True):
        if file.endswith(".dfy") and os.path.isfile(file):
            yield file
