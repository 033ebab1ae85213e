"""Puts the files that a program includes behind it, so that one text is audited and verified.

Flows in: a file's path and text. Flows out: its text with those of all files that it includes,
each once; and how a file that several include is verified once. A proof of the whole proves each of
them. No verifier reads a file of the user's: the text that is verified is the one that was audited,
and a stored verdict is kept under all of it. Only regular files in the tree of the first are read,
never over a symbolic link. Refused: absolute paths, missing files, rounds of includes, a file under
two names, a file that is no program by itself."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import dropwhile
from pathlib import Path

from proverrl.errors import ProblemError
from proverrl.lang.base import Language
from proverrl.lang.records import Includes
from proverrl.types import Diagnostic, Status, Verdict
from proverrl.verifier.base import NOTHING

MAX_FILE_BYTES = 16 * 2**20
MAX_FILES = 500
MAX_DEPTH = 50
_MAX_TOTAL = 2**20
"""Characters of all files together; the audits of languages have limits of their own."""


class IncludeError(ProblemError):
    """An include that cannot be followed; ``line`` is that of the first file."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Included:
    """A file of a joined text: its name, the line before its first one, and the line of the first
    file that brought it in."""

    name: str
    before: int
    directive: int


@dataclass(slots=True)
class _Joining:
    language: Language
    root: str
    name: Callable[[str], str]
    """Names a file as the first one was named: from the working folder, or by its whole path."""
    text: str
    splits: list[Includes]
    """Of all files of the text."""
    parts: list[Included] = field(default_factory=list)
    names: dict[tuple[int, int], str] = field(default_factory=dict)


def read_program_text(path: Path, flags: int = 0) -> tuple[str, os.stat_result]:
    """The text of a regular file and what the system says of it. Raises ``ProblemError``."""
    try:
        # A pipe that takes its place meanwhile must not be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ProblemError("no regular file")
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ProblemError(f"cannot be read: {error.strerror}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise ProblemError(f"the file is longer than {MAX_FILE_BYTES} bytes")
    try:
        return raw.decode("utf-8-sig"), found
    except UnicodeDecodeError as error:
        raise ProblemError(f"not UTF-8: {error.reason} at byte {error.start}") from error


def join_includes(
    path: Path, language: Language, folder: str | None = None, beside: Sequence[Path] = ()
) -> tuple[str, tuple[Included, ...]]:
    """The text of a program with all that it includes behind it, and where each file begins.

    Lines of the program keep their numbers. Its tree is its git checkout, else ``folder``, else
    the folder that it is in. ``beside`` are the files of its project: those that declare a name
    which is used and not declared are included too. A text that is no program by itself comes back
    as it is, for the audit to refuse. Raises ``ProblemError``: the file cannot be read;
    ``IncludeError``: an include cannot be followed.
    """
    text, found = read_program_text(path)
    if not language.include_word or not (beside or language.include_word in text):
        return text, ()
    own = language.split_includes(text)
    if not own.files and (own.fault or not beside):
        return text, ()
    if own.fault:
        raise IncludeError(own.fault, own.files[0][1])
    if path.is_symlink():
        raise IncludeError("a symbolic link that includes files; name the file itself", 0)
    real = os.path.join(os.path.realpath(path.parent), path.name)
    name = str if path.is_absolute() else os.path.relpath
    walk = _Joining(language, _find_root(real, folder), name, own.text, [own])
    walk.names[found.st_dev, found.st_ino] = real
    _follow(walk, own, (real,), 0)
    if beside:
        _follow_names(walk, real, beside)
    return walk.text, tuple(walk.parts)


def list_apart(
    path: Path,
    language: Language,
    folder: str | None,
    text: str,
    parts: tuple[Included, ...],
    beside: Sequence[Path] = (),
) -> tuple[tuple[str, int], ...]:
    """A program and each file that it includes, deepest first: its text with what it includes
    behind it, and how many lines are its own. Where all of them are proved, each in its own lines,
    the program is. Nothing where they have to be verified together. Raises as ``join_includes``.
    """
    root = str(path.parent) if folder is None else folder
    joined = [join_includes(Path(part.name), language, root, beside) for part in parts]
    lines = text.split("\n")
    starts = [part.before for part in parts]
    texts = {
        part.name: "\n".join(lines[part.before : end])
        for part, end in zip(parts, [*starts[1:], len(lines)], strict=True)
    }
    seen = {
        part.name: {inner.name for inner in inners}
        for part, (_, inners) in zip(parts, joined, strict=True)
    }
    for part, (whole, inners) in zip(parts, joined, strict=True):
        own = whole.split("\n")[: inners[0].before if inners else None]
        if "\n".join(own).rstrip("\n") != texts[part.name].rstrip("\n"):
            return ()  # It was written meanwhile.
    texts[""], seen[""] = "\n".join(lines[: starts[0]]), set(texts)
    if not language.are_modular(texts, seen):
        return ()
    # A file that includes nothing is all its own.
    apart = [(whole, inners[0].before if inners else 0) for whole, inners in joined]
    return (*apart, (text, starts[0]))


def combine(verdicts: Sequence[Verdict], parts: tuple[Included, ...]) -> Verdict:
    """The verdict on a program from those on the files of ``list_apart``: its own, unless a file
    that it includes is not proved; that one's then, said at the line that brought it in."""
    *others, own = verdicts
    failed = [v for v in (own, *others) if not (v.proved or is_nothing(v))]
    if not failed:
        proved = next((v for v in (own, *others) if v.proved), None)
        if proved is None:
            return own
        # Assumptions were counted over all files; remarks without a count may be of any.
        checks = [*proved.checks, *(c for v in others for c in v.checks if ":" not in c)]
        return replace(
            proved,
            believed=own.believed,
            at_limit=any(v.at_limit for v in verdicts),
            checks=tuple(dict.fromkeys(checks)),
            diagnostics=tuple(d for d in own.diagnostics if d.severity != "error"),
            obligations=tuple(entry for v in verdicts for entry in v.obligations),
            seconds=own.seconds,
        )
    # A proof that another judge did not confirm may be of any of them.
    failed.sort(key=lambda v: v.status is Status.UNCONFIRMED)
    if failed[0] is own:
        return own
    part = parts[[v is failed[0] for v in others].index(True)]
    said = dropwhile(lambda found: found.severity == "info", failed[0].diagnostics)
    moved = [_move(found, part, found.line) for found in said]
    return replace(failed[0], diagnostics=tuple(moved), seconds=own.seconds)


def is_nothing(verdict: Verdict) -> bool:
    """True if a text was refused only because it holds nothing to be proved. Warnings, and notes of
    its assumptions, may stand beside that."""
    said = [diagnostic for diagnostic in verdict.diagnostics if diagnostic.severity == "error"]
    is_refused = verdict.status is Status.REJECTED and len(said) == 1
    return is_refused and said[0].message.startswith(NOTHING)


def place_diagnostic(found: Diagnostic, parts: tuple[Included, ...]) -> Diagnostic:
    """A message about a joined text as one about the first file: what is found in another is named
    there, at the line that brought it in."""
    within = [part for part in parts if part.before < found.line]
    if not within:
        return found
    return _move(found, within[-1], found.line - within[-1].before)


def _move(found: Diagnostic, part: Included, line: int) -> Diagnostic:
    message = f"in {part.name}, line {line}: {found.message}"
    return Diagnostic(found.severity, message, part.directive)


def find_checkout(path: Path) -> Path | None:
    """The top of the git checkout that an absolute path is in, if it is in one."""
    return next((above for above in path.parents if os.path.lexists(above / ".git")), None)


def _find_root(path: str, folder: str | None) -> str:
    if found := find_checkout(Path(path)):
        return str(found)
    return os.path.realpath(folder) if folder is not None else os.path.dirname(path)


def _find_place(file: str, written: str) -> str:
    """The place that Dafny finds: by the letters, so that no folder is left over a link."""
    return os.path.normpath(os.path.join(os.path.dirname(file), written))


def _refuse(place: str, line: int, reason: str) -> IncludeError:
    return IncludeError(f"{place}: {reason}", line)


def _follow_names(walk: _Joining, first: str, beside: Sequence[Path]) -> None:
    """Add the files of a project that declare what the text names, and what these name."""
    folder = os.path.dirname(first)
    others: dict[str, Includes] = {}
    for file in beside:
        place = os.path.relpath(os.path.realpath(file), folder)
        with suppress(ProblemError):  # It has a verdict of its own.
            others[place] = walk.language.split_includes(read_program_text(file)[0])
    others.pop(os.path.basename(first), None)
    for place, other in others.items():
        if twice := walk.splits[0].alone & other.alone:
            said = f"{place}, a file of the same project, declares {min(twice)} too"
            raise IncludeError(f"{said}; rename one, or put it into a module", 0)
    while others:
        words = frozenset[str]().union(*(split.words for split in walk.splits))
        known = frozenset[str]().union(*(split.declared for split in walk.splits))
        named = [
            place
            for place, other in others.items()
            if any(words.issuperset(name.split(".")) for name in other.declared - known)
        ]
        if not named:
            break
        for place in named:
            del others[place]
            _follow(walk, Includes("", ((place, 0),)), (first,), 0)


def _follow(walk: _Joining, includes: Includes, chain: tuple[str, ...], directive: int) -> None:
    """Add the files that the last of ``chain`` includes, those that they include first."""
    for written, line in includes.files:
        is_inner = len(chain) > 1
        at = directive if is_inner else line
        inner = f" (line {line} of {walk.name(chain[-1])})" if is_inner else ""
        refuse = partial(_refuse, f'include "{written}"{inner}', at)
        if not written or os.path.isabs(written) or ":" in written or "\0" in written:
            raise refuse("an absolute path or none; name the file from this one's folder")
        place = _find_place(chain[-1], written)
        if not Path(place).is_relative_to(walk.root):
            raise refuse(f"outside {walk.root}, the tree that is verified")
        if os.path.realpath(place) != place:
            raise refuse("leads over a symbolic link; name the file itself")
        if is_inner and not directive and place == chain[0]:
            continue  # It includes the file that is judged, whose project brought it in.
        if place in chain:
            raise refuse("includes itself in a round; leave one of the includes out")
        if Path(place).suffix != walk.language.suffix:
            raise refuse(f"no {walk.language.suffix} file")
        try:
            text, found = read_program_text(Path(place), os.O_NOFOLLOW)
        except ProblemError as error:
            raise refuse(str(error)) from error
        known = walk.names.setdefault((found.st_dev, found.st_ino), place)
        if known != place:
            raise refuse(f"the same file as {walk.name(known)}, under another name; use one name")
        name = walk.name(place)
        if any(part.name == name for part in walk.parts):
            continue
        if len(chain) >= MAX_DEPTH or len(walk.parts) >= MAX_FILES:
            raise refuse(f"more than {MAX_DEPTH} files deep or {MAX_FILES} in all")
        split = walk.language.split_includes(text)
        if split.fault:
            raise refuse(f"no program by itself: {split.fault}")
        _follow(walk, split, (*chain, place), at)
        walk.text += "" if walk.text.endswith("\n") else "\n"
        walk.splits.append(split)
        walk.parts.append(Included(name, walk.text.count("\n"), at))
        walk.text += split.text
        if len(walk.text) > _MAX_TOTAL:
            raise refuse(f"more than {_MAX_TOTAL} characters in all files together")
