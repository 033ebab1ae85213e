"""The files that the paths of ``proverrl verify`` stand for.

Flows in: paths as they were typed (``-`` is standard input), and the file that verdicts go to.
Flows out: the programs of a folder, or one line that says what is wrong with a path. Only regular
files are read: a pipe, a device or a socket may never end.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from proverrl.errors import UsageError
from proverrl.files.shipped import find_file
from proverrl.lang import find_suffixes, list_languages
from proverrl.lang.records import Project

_NO_FILE = "a pipe, a device or a socket, which may never end"


def expand_paths(paths: Sequence[str]) -> list[str]:
    """The paths with each quoted pattern (``proofs/**/*.dfy``) in place of the files that it
    stands for, in order. Raises ``UsageError`` for one that stands for none."""
    found: list[str] = []
    for path in paths:
        if path == "-" or os.path.lexists(path) or not glob.has_magic(path):
            found.append(path)
            continue
        files = sorted(name for name in glob.iglob(path, recursive=True) if os.path.isfile(name))
        if not files:
            raise UsageError(f"no file matches the pattern {path}")
        found += files
    return found


def open_project(paths: Sequence[str]) -> tuple[list[str], Project | None]:
    """The paths with the files of a project in place of its project file, or of the folder that it
    is in. Raises ``UsageError`` for one that cannot be followed, and for a second one."""
    opened: list[str] = []
    project = None
    readers = {language.project_file: language for language in list_languages()}
    readers.pop("", None)
    for path in paths:
        inside = [Path(path, name) for name in readers if Path(path, name).is_file()]
        named = [Path(path) for name in readers if Path(path).name == name and not inside]
        if not (found := [*inside, *named][:1]):
            opened.append(path)
            continue
        check_paths([path])
        if project is not None:
            raise UsageError(
                f"{project.path} and {found[0]} are two projects, each with options of its own; "
                "give each a call"
            )
        project = readers[found[0].name].read_project(found[0])
        opened += map(str, project.files)
    return list(dict.fromkeys(opened)), project


def check_paths(paths: Sequence[str]) -> None:
    """Raise ``UsageError`` for a path that is no file and no folder."""
    for path in paths:
        if path == "-":
            continue
        if not path:
            raise UsageError("a path is empty; write . for the current folder")
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError as error:
            # Judged in place of a missing folder, ours would pass for the user's own.
            ours = find_file(path)
            remedy = f"; what comes with ProverRL is {ours}" if ours.exists() else ""
            raise UsageError(f"no such file or folder: {path}{remedy}") from error
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UsageError(f"{path} is {_NO_FILE}; send JSON lines to standard input and write -")


def check_output(
    out: Path, paths: Sequence[str], stdin: BinaryIO, *, option: str = "--out"
) -> None:
    """Raise ``UsageError`` when what is written would overwrite what is to be judged: an input, or
    any program, which an input may include."""
    try:
        there = out.stat()
    except OSError:
        there = None
    for path in paths:
        for file in _list_inputs(path):
            if there is not None and stat.S_ISREG(there.st_mode) and _is_same(file, there, stdin):
                name = "standard input" if file == "-" else file
                raise UsageError(
                    f"{option} {out} is an input, {name}: its verdicts would overwrite it; give "
                    "another file"
                )
        if out.suffix in find_suffixes() and path != "-" and _is_inside(out, Path(path)):
            raise UsageError(
                f"{option} {out} would itself be judged, as a program of the folder {path}; give a "
                "name such as verdicts.jsonl"
            )
    if out.suffix in find_suffixes() and out.exists():
        raise UsageError(
            f"{option} {out} is a program, which would be overwritten; give another file"
        )


def list_programs(folder: str | Path) -> list[tuple[Path, str]]:
    """The programs below a folder in order, and what cannot be read, with the reason.
    Links to files are followed, links to folders are not."""
    found: list[tuple[Path, str]] = []
    suffixes = find_suffixes()

    def refuse(error: OSError) -> None:
        found.append((Path(str(error.filename)), f"cannot be read: {error.strerror}"))

    for place, _, names in os.walk(folder, onerror=refuse):
        for name in names:
            path = Path(place, name)
            if path.suffix not in suffixes:
                continue
            try:
                regular = stat.S_ISREG(path.stat().st_mode)
            except OSError as error:
                refuse(error)
            else:
                found.append((path, "" if regular else f"it is {_NO_FILE}; remove it"))
    return sorted(found)


def _list_inputs(path: str) -> Iterator[str]:
    if path != "-" and os.path.isdir(path):
        yield from (str(file) for file, reason in list_programs(path) if not reason)
    else:
        yield path


def _is_same(file: str, there: os.stat_result, stdin: BinaryIO) -> bool:
    try:
        found = os.fstat(stdin.fileno()) if file == "-" else os.stat(file)
    except OSError:
        # Standard input that is no file of the system, or a file that has just gone.
        return False
    return os.path.samestat(found, there)


def _is_inside(out: Path, folder: Path) -> bool:
    return folder.is_dir() and out.resolve().is_relative_to(folder.resolve())
