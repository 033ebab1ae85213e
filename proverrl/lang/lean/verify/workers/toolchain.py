"""Finds Lean: a program ``lean`` and the search path of its project.

Flows in: PATH, elan's folder, and the variables PROVERRL_LEAN (a program ``lean``, used as it is),
PROVERRL_LEAN_PROJECT (a folder with a lakefile), ELAN_HOME, ELAN_TOOLCHAIN. Flows out: a
``LeanToolchain``. Without a project Lean knows its core library alone. A project that nobody named
may fail: Lean then works without it, and ``trouble`` says so. Not handled here: installing anything
(``scripts/setup_lean.sh``), starting a worker.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proverrl.config.base import LeanBackend
from proverrl.errors import ToolchainError
from proverrl.files.shipped import find_script, shipped_root
from proverrl.verifier.process_group import ask_version

REMEDY = f"bash {find_script('setup_lean.sh')}"
_VERSION_SECONDS = 120
_OWN_PROJECT = shipped_root() / "lean"
_LAKEFILES = ("lakefile.toml", "lakefile.lean")
_MATHLIB_PLACE = "mathlib/.lake/packages/mathlib"
# One question for all: the search path, where the program really is (not elan's), its version.
_ASK = 'printf "%s\\n" "$LEAN_PATH" && "$0" --print-prefix && "$0" --version'
_VERSION = re.compile(r"version (\d+\.\d+\.\d+(?:-[\w.-]+)?)")


@dataclass(frozen=True, slots=True)
class LeanToolchain:
    """The places of Lean and its project. All paths are absolute.

    ``lean_command`` runs Lean; ``environment`` holds the variables that it needs. ``backend`` is
    the way in which workers talk to Lean. A worker runs in a folder of its own and never in the
    project. ``trouble`` says why a project that is there is not used, and what to run.
    """

    lean_version: str
    lean_command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    project: Path | None = None
    lake: str = ""
    has_mathlib: bool = False
    backend: LeanBackend = "lean-server"
    trouble: str = ""

    @property
    def name(self) -> str:
        """One line for records and caches, such as ``lean 4.32.0 (lean-server), mathlib``."""
        return f"lean {self.lean_version} ({self.backend})" + (
            ", mathlib" if self.has_mathlib else ""
        )

    def add_to_path(self, folders: Iterable[Path]) -> dict[str, str]:
        """The environment in which modules in these folders can be imported too."""
        variables = dict(self.environment)
        known = variables.get("LEAN_PATH")
        paths = [*([known] if known else []), *map(str, folders)]
        return variables | {"LEAN_PATH": os.pathsep.join(paths)}


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer of a ``lean`` about itself. ``search_path`` holds the folders that exist."""

    version: str
    program: Path
    search_path: tuple[Path, ...]


def find_lean_toolchain(backend: LeanBackend = "lean-server") -> LeanToolchain:
    """Find Lean for a back end; raises ``ToolchainError`` naming the remedy."""
    named, named_project = _read_variable("PROVERRL_LEAN"), _read_variable("PROVERRL_LEAN_PROJECT")
    if named and not _is_program(named):
        raise ToolchainError(
            f"PROVERRL_LEAN names no program (correct it, or unset it): {named}; run: {REMEDY}"
        )
    lean = named or _find_program("lean")
    lake = _find_program("lake", named and named.with_name("lake"))
    if named_project and lake is None:
        raise ToolchainError(f"PROVERRL_LEAN_PROJECT needs lake, which is not here; run: {REMEDY}")
    # A program that was named goes with no project but one that was named.
    project = _find_project(named_project) if lake and (named_project or not named) else None
    environment = _make_environment([lean, lake], project)
    answer, trouble = None, ""
    if lake and project:
        try:
            answer = _ask_lean(str(named or "lean"), environment, lake, project)
        except ToolchainError as error:
            if named_project or lean is None:
                raise
            trouble = f"{project} is not used, only core Lean is there: {error}"
            project = None
    if answer is None and lean:
        answer = _ask_lean(str(lean), environment)
    if answer is None:
        place = find_elan_home() / "bin"
        raise ToolchainError(
            f"Lean is not installed (not on PATH or in {place}; PROVERRL_LEAN can name a program); "
            f"run: {REMEDY}"
        )
    program = named if named and not _is_elan(named) else answer.program
    environment["PATH"] = _put_first(program.parent, environment["PATH"])
    if answer.search_path:
        environment["LEAN_PATH"] = os.pathsep.join(map(str, answer.search_path))
    return LeanToolchain(
        lean_version=answer.version,
        lean_command=(str(program),),
        environment=tuple(sorted(environment.items())),
        project=project,
        lake=str(lake or ""),
        has_mathlib=any((place / "Mathlib.olean").is_file() for place in answer.search_path),
        backend=backend,
        trouble=trouble,
    )


def find_elan_home() -> Path:
    """The folder where elan keeps its toolchains, whether or not it is there."""
    named = os.environ.get("ELAN_HOME")
    return Path(named) if named else Path.home() / ".elan"


def _read_variable(name: str) -> Path | None:
    text = os.environ.get(name)
    return Path(text).absolute() if text else None


def _find_program(name: str, first: Path | None = None) -> Path | None:
    on_path = shutil.which(name)
    for place in (first, on_path and Path(on_path).absolute(), find_elan_home() / "bin" / name):
        if place and _is_program(place):
            return place
    return None


def _find_project(named: Path | None) -> Path | None:
    """The project that was named, else the first that is there; one with Mathlib, once it was
    fetched, can do all that the plain one can."""
    roots = [_OWN_PROJECT, Path.cwd() / "lean"]
    fetched = [root / "mathlib" for root in roots if (root / _MATHLIB_PLACE).is_dir()]
    for place in [named] if named else [*fetched, *roots]:
        if any((place / name).is_file() for name in _LAKEFILES):
            return place.resolve()
    if named:
        raise ToolchainError(
            f"PROVERRL_LEAN_PROJECT names no Lean project: {named} has no lakefile; run: {REMEDY}"
        )
    return None


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _is_elan(lean: Path) -> bool:
    """True if a program is elan's, which starts the ``lean`` of some toolchain: it needs variables
    that a worker should not need, and time."""
    return lean.parent == find_elan_home().absolute() / "bin" or lean.resolve().name == "elan"


def _make_environment(programs: Sequence[Path | None], project: Path | None) -> dict[str, str]:
    """A worker's HOME and working folder are its own, so elan has to be told where its toolchains
    are and which one the project pins."""
    path = os.environ.get("PATH", os.defpath)
    for program in programs:
        if program and str(program.parent) not in path.split(os.pathsep):
            path = _put_first(program.parent, path)
    variables = {"PATH": path}
    elan_home = find_elan_home()
    if elan_home.is_dir():
        variables["ELAN_HOME"] = str(elan_home.absolute())
    pin = project / "lean-toolchain" if project else None
    pinned = pin.read_text(encoding="utf-8").strip() if pin and pin.is_file() else ""
    if toolchain := os.environ.get("ELAN_TOOLCHAIN") or pinned:
        variables["ELAN_TOOLCHAIN"] = toolchain
    return variables


def _put_first(folder: Path, path: str) -> str:
    others = [place for place in path.split(os.pathsep) if place != str(folder)]
    return os.pathsep.join([str(folder), *others])


def _ask_lean(
    lean: str,
    environment: Mapping[str, str],
    lake: Path | None = None,
    project: Path | None = None,
) -> _Answer:
    """The answer of a ``lean``, alone or in the environment of its project, about itself."""
    # --dir and not a working folder: what runs in a worker must not stand in the project.
    before = (str(lake), f"--dir={project}", "env") if lake and project else ()
    remedy = _find_remedy(project) if before else REMEDY
    asked = [*before, "/bin/sh", "-c", _ASK, lean]
    done = ask_version(asked, _VERSION_SECONDS, None, environment, f"; run: {remedy}")
    # The last three lines: elan and Lake may speak before.
    path, prefix, said = ["", "", *done.stdout.rstrip("\n").split("\n")][-3:]
    version = _VERSION.search(said)
    program = Path(prefix) / "bin" / "lean"
    if done.returncode != 0 or version is None or not _is_program(program):
        answer = (done.stderr or done.stdout).strip()[-300:]
        raise ToolchainError(
            f"{' '.join([*before, lean])} gave no answer: {answer!r}; run: {remedy}"
        )
    places = [Path(place).absolute() for place in path.split(os.pathsep) if place]
    return _Answer(version.group(1), program, tuple(place for place in places if place.is_dir()))


def _find_remedy(project: Path | None) -> str:
    """The command that brings the dependencies of a project."""
    ours = [(root / "mathlib").resolve() for root in (_OWN_PROJECT, Path.cwd() / "lean")]
    return f"{REMEDY} --mathlib" if project in ours else f"cd {project} && lake update"
