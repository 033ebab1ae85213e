"""Finds Lean: a program ``lean``, the search path of its project, and the REPL if one was built.

Flows in: PATH, elan's folder, and the variables PROVERRL_LEAN (a program ``lean``, used as it is),
PROVERRL_LEAN_PROJECT (a folder with a lakefile), PROVERRL_LEAN_REPL (the REPL's program),
ELAN_HOME. Flows out: a ``LeanToolchain``. Without a project Lean knows its core library alone.
Not handled here: installing anything (``scripts/setup_lean.sh``), starting a worker.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proverrl.config.base import LeanBackend
from proverrl.errors import ToolchainError
from proverrl.verify.process_group import ask_version

REMEDY = "bash scripts/setup_lean.sh"
_VERSION_SECONDS = 120
_REPOSITORY_PROJECT = Path(__file__).resolve().parents[4] / "lean"
_LAKEFILES = ("lakefile.toml", "lakefile.lean")
_REPL_PLACE = ".lake/packages/REPL/.lake/build/bin/repl"
# One question for all: the search path, where the program really is (not elan's), its version.
_ASK = 'printf "%s\\n" "$LEAN_PATH"; "$0" --print-prefix; "$0" --version'


@dataclass(frozen=True, slots=True)
class LeanToolchain:
    """Where Lean and its project live. All paths are absolute.

    ``lean_command`` runs Lean and ``repl_command`` the REPL, empty where none was built;
    ``environment`` holds the variables that both need beside PATH. ``backend`` is the way in which
    workers talk to Lean. A worker runs in a folder of its own and never in the project.
    """

    lean_version: str
    lean_command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    project: Path | None = None
    repl_command: tuple[str, ...] = ()
    lake: str = ""
    has_mathlib: bool = False
    backend: LeanBackend = "lean-server"

    @property
    def name(self) -> str:
        """One line for records and caches, such as ``lean 4.32.0 (lean-server), mathlib``."""
        return f"lean {self.lean_version} ({self.backend})" + (
            ", mathlib" if self.has_mathlib else ""
        )


def find_lean_toolchain(backend: LeanBackend = "lean-server") -> LeanToolchain:
    """Find Lean for a back end; raises ``ToolchainError`` naming the remedy."""
    named = os.environ.get("PROVERRL_LEAN")
    if named and not _is_program(Path(named)):
        raise ToolchainError(f"PROVERRL_LEAN names no program: {named}; run: {REMEDY}")
    lake = None if named else _find_program("lake")
    project = _find_project() if lake else None
    environment = _make_environment(lake, project)
    if named:
        command = [str(Path(named).absolute())]
    elif lake and project:
        # --dir and not a working folder: what runs in a worker must not stand in the project.
        command = [lake, f"--dir={project}", "env", "lean"]
    elif lean := _find_program("lean"):
        command = [lean]
    else:
        place = find_elan_home() / "bin"
        raise ToolchainError(f"Lean is not installed (not on PATH or in {place}); run: {REMEDY}")
    search_path, program, version = _ask_lean(command, environment)
    if search_path:
        environment["LEAN_PATH"] = search_path
    repl = _find_repl(project) if backend == "lean-repl" else None
    return LeanToolchain(
        lean_version=version,
        lean_command=(program,),
        environment=tuple(sorted(environment.items())),
        project=project,
        repl_command=(str(repl),) if repl else (),
        lake=lake or "",
        has_mathlib=project is not None and _has_mathlib(project),
        backend=backend,
    )


def find_elan_home() -> Path:
    """Where elan keeps its toolchains, whether or not it is there."""
    named = os.environ.get("ELAN_HOME")
    return Path(named) if named else Path.home() / ".elan"


def _find_program(name: str) -> str | None:
    on_path = shutil.which(name)
    place = find_elan_home() / "bin" / name
    if on_path is not None:
        return str(Path(on_path).absolute())
    return str(place) if _is_program(place) else None


def _find_project() -> Path | None:
    """The project that was named, else the first that is there; one with Mathlib, once it was
    fetched, can do all that the plain one can."""
    named = os.environ.get("PROVERRL_LEAN_PROJECT")
    roots = [_REPOSITORY_PROJECT, Path.cwd() / "lean"]
    fetched = [root / "mathlib" for root in roots if _has_mathlib(root / "mathlib")]
    for place in [Path(named)] if named else [*fetched, *roots]:
        if any((place / name).is_file() for name in _LAKEFILES):
            return place.resolve()
    if named:
        raise ToolchainError(
            f"PROVERRL_LEAN_PROJECT names no Lean project: {named} has no lakefile; run: {REMEDY}"
        )
    return None


def _has_mathlib(project: Path) -> bool:
    return (project / ".lake" / "packages" / "mathlib").is_dir()


def _find_repl(project: Path | None) -> Path:
    named = os.environ.get("PROVERRL_LEAN_REPL")
    if named:
        if _is_program(Path(named)):
            return Path(named).resolve()
        raise ToolchainError(f"PROVERRL_LEAN_REPL names no program: {named}; run: {REMEDY} --repl")
    roots = [project, _REPOSITORY_PROJECT] if project else [_REPOSITORY_PROJECT]
    for root in roots:
        for place in (root / "repl" / _REPL_PLACE, root / _REPL_PLACE):
            if _is_program(place):
                return place.resolve()
    raise ToolchainError(f"the Lean REPL is not built; run: {REMEDY} --repl")


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _make_environment(lake: str | None, project: Path | None) -> dict[str, str]:
    """A worker's HOME and working folder are its own, so elan has to be told where its toolchains
    are and which one the project pins."""
    path = os.environ.get("PATH", os.defpath)
    folder = str(Path(lake).parent) if lake else ""
    if folder and folder not in path.split(os.pathsep):
        path = folder + os.pathsep + path
    variables = {"PATH": path}
    elan_home = find_elan_home()
    if elan_home.is_dir():
        variables["ELAN_HOME"] = str(elan_home.absolute())
    pin = project / "lean-toolchain" if project else None
    pinned = pin.read_text(encoding="utf-8").strip() if pin and pin.is_file() else ""
    if toolchain := os.environ.get("ELAN_TOOLCHAIN") or pinned:
        variables["ELAN_TOOLCHAIN"] = toolchain
    return variables


def _ask_lean(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str, str]:
    """The search path of Lean's project, its program behind elan's, and its version."""
    *before, lean = command
    asked = [*before, "/bin/sh", "-c", _ASK, lean]
    done = ask_version(asked, _VERSION_SECONDS, None, environment, f"; run: {REMEDY}")
    lines = [*done.stdout.split("\n"), "", "", ""]
    version = re.search(r"version (\d+\.\d+\.\d+(?:-\w+)?)", lines[2])
    if done.returncode != 0 or version is None:
        said = (done.stderr or done.stdout).strip()[-300:]
        raise ToolchainError(f"{' '.join(command)} does not answer: {said!r}; run: {REMEDY}")
    program = Path(lines[1]) / "bin" / "lean"
    return lines[0], str(program) if _is_program(program) else lean, version.group(1)
