"""Finds Lean, and a Lean project in which the REPL was built.

Flows in: PATH, elan's folder, and the variables PROVERRL_LEAN_PROJECT (a folder with a
``lean-toolchain`` file and a lakefile), PROVERRL_LEAN_REPL (the REPL's program), ELAN_HOME. Flows
out: a ``LeanToolchain``.
Not handled here: installing anything (``scripts/setup_lean.sh``), starting the REPL.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from proverrl.errors import ToolchainError
from proverrl.verify.process_group import ask_version

REMEDY = "bash scripts/setup_lean.sh"
_VERSION_SECONDS = 120
_REPOSITORY_PROJECT = Path(__file__).resolve().parents[4] / "lean"
_LAKEFILES = ("lakefile.toml", "lakefile.lean")
_REPL_PLACES = (
    ".lake/packages/REPL/.lake/build/bin/repl",
    ".lake/packages/repl/.lake/build/bin/repl",
    ".lake/build/bin/repl",
)


@dataclass(frozen=True, slots=True)
class LeanToolchain:
    """Where Lean, its project and the REPL live. All paths are absolute.

    ``repl_command`` starts the REPL; ``environment`` holds the variables that it needs beside
    PATH. A worker runs in a folder of its own and never in the project.
    """

    lean_version: str
    project: Path
    repl_command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    lake: str = "lake"
    has_mathlib: bool = False

    @property
    def backend(self) -> Literal["lean-repl"]:
        return "lean-repl"

    @property
    def name(self) -> str:
        """One line for records and caches, such as ``lean 4.32.0 (lean-repl), mathlib``."""
        return f"lean {self.lean_version} (lean-repl)" + (", mathlib" if self.has_mathlib else "")


def find_lean_toolchain() -> LeanToolchain:
    """Find lake and a project with the REPL; raises ``ToolchainError`` naming the remedy."""
    lake = _find_lake()
    project = _find_project()
    repl = _find_repl(project)
    environment = _make_environment(lake, project)
    return LeanToolchain(
        lean_version=_find_version(lake, project, environment),
        project=project,
        # --dir and not a working folder: what runs in the REPL must not stand in the project.
        repl_command=(lake, f"--dir={project}", "env", str(repl)),
        environment=tuple(sorted(environment.items())),
        lake=lake,
        has_mathlib=(project / ".lake" / "packages" / "mathlib").is_dir(),
    )


def find_elan_home() -> Path:
    """Where elan keeps its toolchains, whether or not it is there."""
    named = os.environ.get("ELAN_HOME")
    return Path(named) if named else Path.home() / ".elan"


def _find_lake() -> str:
    on_path = shutil.which("lake")
    if on_path is not None:
        return str(Path(on_path).absolute())
    place = find_elan_home() / "bin" / "lake"
    if place.is_file():
        return str(place)
    raise ToolchainError(f"Lean is not installed (no lake on PATH or in {place}); run: {REMEDY}")


def _find_project() -> Path:
    named = os.environ.get("PROVERRL_LEAN_PROJECT")
    roots = [_REPOSITORY_PROJECT, Path.cwd() / "lean"]
    # The project with Mathlib, once it is built, can do all that the plain one can.
    built = [root / "mathlib" for root in roots if _list_repls(root / "mathlib")]
    places = [Path(named)] if named else [*built, *roots]
    for place in places:
        if any((place / name).is_file() for name in _LAKEFILES):
            return place.resolve()
    looked = " or ".join(str(place) for place in places)
    if named:
        raise ToolchainError(
            f"PROVERRL_LEAN_PROJECT names no Lean project: {looked} has no lakefile; run: {REMEDY}"
        )
    raise ToolchainError(f"no Lean project (a folder with a lakefile) at {looked}; run: {REMEDY}")


def _find_repl(project: Path) -> Path:
    named = os.environ.get("PROVERRL_LEAN_REPL")
    if named:
        if _is_program(Path(named)):
            return Path(named).resolve()
        raise ToolchainError(f"PROVERRL_LEAN_REPL names no program: {named}; run: {REMEDY}")
    if found := _list_repls(project):
        return found[0].resolve()
    raise ToolchainError(f"the Lean REPL is not built in {project}; run: {REMEDY}")


def _list_repls(project: Path) -> list[Path]:
    return [path for place in _REPL_PLACES if _is_program(path := project / place)]


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _make_environment(lake: str, project: Path) -> dict[str, str]:
    """A worker's HOME and working folder are its own, so elan has to be told where its toolchains
    are and which one the project pins."""
    path = os.environ.get("PATH", os.defpath)
    folder = str(Path(lake).parent)
    if folder not in path.split(os.pathsep):
        path = folder + os.pathsep + path
    variables = {"PATH": path}
    elan_home = find_elan_home()
    if elan_home.is_dir():
        variables["ELAN_HOME"] = str(elan_home.absolute())
    pin = project / "lean-toolchain"
    pinned = pin.read_text(encoding="utf-8").strip() if pin.is_file() else ""
    if toolchain := os.environ.get("ELAN_TOOLCHAIN") or pinned:
        variables["ELAN_TOOLCHAIN"] = toolchain
    return variables


def _find_version(lake: str, project: Path, environment: dict[str, str]) -> str:
    """The version of the ``lean`` that the project uses, asked inside the project."""
    command = [lake, "env", "lean", "--version"]
    done = ask_version(command, _VERSION_SECONDS, project, environment, f"; run: {REMEDY}")
    match = re.search(r"version (\d+\.\d+\.\d+(?:-\w+)?)", done.stdout)
    if done.returncode != 0 or match is None:
        said = (done.stderr or done.stdout).strip()[-300:]
        raise ToolchainError(f"{lake} does not answer in {project}: {said!r}; run: {REMEDY}")
    return match.group(1)
