"""Finds Dafny and z3 on this machine, and says what is missing.

Flows in: PATH and the variables PROVERRL_DAFNY_SERVER (path of DafnyServer.exe; empty for none),
PROVERRL_DAFNY (the ``dafny`` command), PROVERRL_Z3 and PROVERRL_DAFNY4 (the ``dafny`` command of
the second judge; empty for none). Flows out: ``DafnyToolchain``s.
Dafny 2.3 is driven by its server or its command line. Dafny 4, by its language server, is a second
judge alone; Dafny 3 is untested and refused.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from proverrl.errors import ToolchainError
from proverrl.lang.dafny.verify.workers.prelude import mend_prelude
from proverrl.lang.records import Part
from proverrl.lang.trusted import TERMINATION
from proverrl.verifier.process_group import ask_version

Z3_VERSION = "4.8.5"
_SERVER_PLACES = ("/usr/lib/dafny/DafnyServer.exe", "/usr/local/lib/dafny/DafnyServer.exe")
_INSTALL_DAFNY = "sudo apt-get install dafny"
_INSTALL_Z3 = f"pip install z3-solver=={Z3_VERSION}.0"
_INSTALL_DAFNY_4 = "dotnet tool install --global dafny --version 4.11.0"
_VERSION_SECONDS = 30


@dataclass(frozen=True, slots=True)
class DafnyToolchain:
    """The place of the back end, and its fixed options. A Dafny 4 is its own language server, with
    the z3 that it brings; of Dafny 2.3 ``server`` is None when there is only the command line.
    ``allowed`` and ``arguments`` are those of ``trusted``; ``prelude`` is what it reads in the
    place of its own."""

    dafny: str
    dafny_version: str
    server: tuple[str, ...] | None = None
    z3: str = ""
    z3_version: str = ""
    allowed: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    prelude: str = ""

    @property
    def believes(self) -> bool:
        """True if more than termination is left unproved."""
        return not {*self.allowed} <= {TERMINATION}

    @property
    def plain(self) -> DafnyToolchain:
        """The same, told nothing: what a new worker is tried under."""
        return replace(self, allowed=(), arguments=())

    @property
    def is_4(self) -> bool:
        return self.dafny_version.startswith("4.")

    @property
    def backend(self) -> Literal["language server", "dafny-server", "dafny-cli"]:
        if self.is_4:
            return "language server"
        return "dafny-cli" if self.server is None else "dafny-server"

    @property
    def name(self) -> str:
        """One line for records and caches, such as ``dafny 2.3.0 (dafny-server), z3 4.8.5`` or
        ``dafny 4.11.0 (language server)``."""
        name = f"dafny {self.dafny_version} ({self.backend})"
        if self.z3_version:
            name += f", z3 {self.z3_version}"
        allowed = f", allowing {', '.join(self.allowed)}" if self.allowed else ""
        return f"{name}{allowed}{''.join(f', {argument}' for argument in self.arguments)}"


def find_confirming_toolchain() -> DafnyToolchain | None:
    """The Dafny 4 that PROVERRL_DAFNY4 names; None without one. Raises ``ToolchainError`` when what
    is named is no Dafny 4."""
    named = os.environ.get("PROVERRL_DAFNY4")
    if not named:
        return None
    try:
        version = _find_dafny_version(named)
    except ToolchainError as error:
        raise ToolchainError(
            f"PROVERRL_DAFNY4 names no second judge ({error}): name the dafny command of a Dafny "
            f"4 ({_INSTALL_DAFNY_4}), or set it to nothing to do without"
        ) from error
    if not version.startswith("4."):
        raise ToolchainError(
            f"PROVERRL_DAFNY4 names Dafny {version} ({named}), and a second judge must be Dafny 4"
        )
    return _open_dafny_4(named, version)


def _open_dafny_4(dafny: str, version: str) -> DafnyToolchain:
    # A dotnet tool keeps its files in a folder beside its command.
    beside = Path(shutil.which(dafny) or dafny).resolve().parent
    stored = beside.glob(f".store/dafny/{version}/dafny/{version}/tools/*/*")
    prelude = mend_prelude((beside, beside / "lib", *stored))
    return DafnyToolchain(dafny, version, prelude=prelude)


def find_dafny_toolchain() -> DafnyToolchain:
    """Find Dafny and z3; raises ``ToolchainError`` naming the command that brings them."""
    dafny = os.environ.get("PROVERRL_DAFNY") or shutil.which("dafny")
    if not dafny:
        raise ToolchainError(f"Dafny is not installed; run: {_INSTALL_DAFNY}")
    version = _find_dafny_version(dafny)
    if version.startswith("4."):
        raise ToolchainError(
            f"{dafny} is Dafny {version}, which is at present only the second judge: name it by "
            f"PROVERRL_DAFNY4, and have Dafny 2.3 as PROVERRL_DAFNY or on PATH ({_INSTALL_DAFNY})"
        )
    z3, z3_version = _find_z3()
    server = _find_server()
    beside = (*(server or ())[1:], str(Path(dafny).resolve()), *_SERVER_PLACES)
    return DafnyToolchain(
        dafny=dafny,
        dafny_version=version,
        server=server,
        z3=z3,
        z3_version=z3_version,
        prelude=mend_prelude(Path(place).parent for place in beside),
    )


def _find_server() -> tuple[str, ...] | None:
    named = os.environ.get("PROVERRL_DAFNY_SERVER")
    if named and not Path(named).is_file():
        raise ToolchainError(f"PROVERRL_DAFNY_SERVER names no file: {named}")
    places = _SERVER_PLACES if named is None else (named,)
    place = next((place for place in places if place and Path(place).is_file()), None)
    runtime = shutil.which("mono") or shutil.which("cli")
    return None if place is None or runtime is None else (runtime, place)


def _find_z3() -> tuple[str, str]:
    """The 4.8.5 of the z3-solver wheel when it is there (faster), else the z3 on PATH."""
    named = os.environ.get("PROVERRL_Z3")
    if named:
        return named, _read_z3_version(named)
    for place in _list_wheel_places():
        if place.is_file() and _read_z3_version(str(place)) == Z3_VERSION:
            return str(place), Z3_VERSION
    on_path = shutil.which("z3")
    if on_path is None:
        raise ToolchainError(f"z3 is not installed; run: {_INSTALL_Z3}")
    return on_path, _read_z3_version(on_path)


def _list_wheel_places() -> list[Path]:
    places = [Path(sys.prefix) / "bin" / "z3", Path(sys.executable).parent / "z3"]
    spec = importlib.util.find_spec("z3")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        places += [Path(folder) / "bin" / "z3", Path(folder).parent / "bin" / "z3"]
    return places


def _read_z3_version(path: str) -> str:
    match = re.search(r"version (\d+\.\d+\.\d+)", run_for_version([path, "--version"]))
    if match is None:
        raise ToolchainError(f"{path} does not answer as z3; run: {_INSTALL_Z3}")
    return match.group(1)


def _find_dafny_version(path: str) -> str:
    """Dafny 2 answers ``/version``, Dafny 4 ``--version``."""
    match, said = None, ""
    for option in ("/version", "--version"):
        if match is None:
            said = run_for_version([path, option]).strip()
            match = re.search(r"\b(\d+\.\d+\.\d+)", said)
    if match is None:
        raise ToolchainError(
            f"{path} does not answer as Dafny ({said[:200] or 'no answer'}); run: {_INSTALL_DAFNY}"
        )
    version = match.group(1)
    if not version.startswith(("2.3.", "4.")):
        raise ToolchainError(
            f"{path} is Dafny {version}; supported are Dafny 2.3 (Debian's package: "
            f"{_INSTALL_DAFNY}) and, as the second judge, Dafny 4 "
            "(https://github.com/dafny-lang/dafny/releases)"
        )
    return version


def run_for_version(command: list[str]) -> str:
    """The output of a program that is asked for its version; raises ``ToolchainError``."""
    done = ask_version(command, _VERSION_SECONDS)
    return done.stdout + done.stderr


def check_dafny() -> list[Part]:
    """Dafny, its server and z3, for ``proverrl doctor``. Runs their ``--version``."""
    z3_remedy = f"{sys.executable} -m {_INSTALL_Z3}"
    try:
        found = find_dafny_toolchain()
    except ToolchainError as error:
        text = str(error)
        remedy = z3_remedy if _INSTALL_Z3 in text else _INSTALL_DAFNY
        return [Part("Dafny", "missing", text, remedy)]
    parts = [Part("Dafny", "ok", f"{found.dafny_version}, {found.dafny}")]
    if found.server is None:
        detail = "not found: each proof starts Dafny anew, which is slower"
        parts.append(Part("DafnyServer", "weak", detail, f"{_INSTALL_DAFNY} mono-runtime"))
    else:
        runtime, server = found.server
        parts += [Part("DafnyServer", "ok", server), Part("mono", "ok", runtime)]
    parts.append(_check_second())
    where = f"{found.z3_version}, {found.z3}"
    if found.z3_version == Z3_VERSION:
        return [*parts, Part("z3", "ok", where)]
    detail = (
        f"{where}; {Z3_VERSION} is preferred: it is faster with this Dafny, and another "
        "version can judge a borderline proof differently"
    )
    return [*parts, Part("z3", "weak", detail, z3_remedy)]


def _check_second() -> Part:
    try:
        second = find_confirming_toolchain()
    except ToolchainError as error:
        return Part("second judge", "missing", str(error), "unset PROVERRL_DAFNY4")
    if second is not None and not second.prelude:
        detail = f"{second.name}, {second.dafny}: refused, since its prelude is not known"
        return Part("second judge", "weak", detail, _INSTALL_DAFNY_4)
    if second is not None:
        return Part("second judge", "ok", f"{second.name}, {second.dafny}")
    detail = "no Dafny 4 is named: what Dafny proves counts at once (pool.confirm)"
    remedy = f"{_INSTALL_DAFNY_4} and set PROVERRL_DAFNY4 to its dafny"
    return Part("second judge", "absent", detail, remedy)
