"""Folders that appear whole, and errors of a disk that does not take a file or gives back a damaged
one: those of the system, and of the libraries that write and read weights, become one
``RunError``."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from types import TracebackType

from proverrl.errors import RunError, UsageError

_TORCH_FILES = ("inline_container", "PytorchStream", "iostream error")
"""Words of torch about a file that it cannot write or read, in a plain ``RuntimeError``."""


def refuse_overwriting(out: Path, *sources: str | Path) -> None:
    """Raise ``UsageError`` where ``out`` would replace one of ``sources``, which are read and may
    be no files at all."""
    for source in map(Path, sources):
        if source.exists() and out.resolve() == source.resolve():
            raise UsageError(f"{out} is read by this command; write to another file")


def refuse_inside(out: Path, *folders: Path, but: str = "") -> None:
    """Raise ``UsageError`` where ``out`` lies in one of ``folders``, unless it lies directly there
    and its name begins with ``but``."""
    for folder in folders:
        is_own = but and out.name.startswith(but) and out.parent.resolve() == folder.resolve()
        if out.resolve().is_relative_to(folder.resolve()) and not is_own:
            raise UsageError(
                f"{out} is in the folder {folder}, whose own files it could overwrite; name a file "
                "elsewhere"
            )


def write_error(path: Path, reason: OSError | str) -> RunError:
    """The RunError to raise when ``path`` cannot be written (disk full, no permission)."""
    if isinstance(reason, OSError):
        reason = reason.strerror or str(reason)
    return RunError(
        f"cannot write {path}: {reason}. Everything written before is kept; make room or fix the "
        "permissions, then give the same command again, with --resume if it has that option"
    )


def read_error(path: Path, reason: OSError | str) -> RunError:
    """The RunError to raise when weights at ``path`` cannot be read."""
    sentence = re.split(r"\. |\.?\n", str(reason).strip())[0]
    return RunError(
        f"cannot read {path}: {sentence}; if a checkpoint holds it, delete that folder to continue "
        "from the one before"
    )


def check_replaceable(path: Path) -> None:
    """Raise ``RunError`` for a device, a pipe or a folder: root could rename a file over /dev/null,
    and no other program would find it again."""
    if path.exists() and not path.is_file():
        raise RunError(f"cannot write {path}: it is no file, and a file would replace it; name one")


def saving(path: Path) -> ExitStack:
    """Inside, whatever keeps ``path`` from being written is a ``RunError``."""
    return _naming(partial(write_error, path))


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Inside, fill the folder that is given; ``folder`` appears with all of it at the end, in place
    of one that was there, and never in part, also where the power goes off."""
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        for path in [*unfinished.rglob("*"), unfinished]:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(unfinished, folder)
    finally:
        # What is left of a failure would fill the disk that has to be made room on.
        shutil.rmtree(unfinished, ignore_errors=True)


def loading(path: Path) -> ExitStack:
    """Inside, whatever keeps weights at ``path`` from being read is a ``RunError``."""
    return _naming(partial(read_error, path))


def _naming(explain: Callable[[OSError | str], RunError]) -> ExitStack:
    stack = ExitStack()

    def leave(
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        text = str(error) or "it ends too early"
        if isinstance(error, OSError):
            raise explain(error) from error
        is_torch = isinstance(error, RuntimeError) and any(word in text for word in _TORCH_FILES)
        # By name: tokenizers raise a bare ``Exception``, which no except clause here may name, and
        # where only verifying is installed there is no safetensors to take its error from.
        is_bare = kind is not None and kind.__name__ in ("Exception", "SafetensorError")
        if is_torch or is_bare or isinstance(error, UnpicklingError | EOFError):
            raise explain(text) from error
        return False

    stack.push(leave)
    return stack
