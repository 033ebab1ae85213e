"""Finds Dafny and z3 on this machine, and says what is missing.

Flows in: the version that is asked for, PATH, the folder of ``proverrl.lang.dafny.install`` and the
variables PROVERRL_DAFNY (the ``dafny`` command), PROVERRL_DAFNY_SERVER (path of DafnyServer.exe;
empty for none), PROVERRL_Z3, PROVERRL_SECOND_DAFNY (the ``dafny`` command of the second judge;
empty for none) and PROVERRL_SECOND_Z3 (the z3 that it asks, in place of its own). Flows out:
``DafnyToolchain``s.
Dafny 2.3 is driven by its server or its command line, Dafny 4 by its language server. Dafny 3 and
what comes after 4 are untested and refused.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from proverrl.config.base import DafnyVersion
from proverrl.errors import ToolchainError
from proverrl.lang.dafny.install import VERSION, default_folder
from proverrl.lang.dafny.verify.workers.prelude import mend_prelude
from proverrl.lang.records import Part
from proverrl.lang.trusted import TERMINATION
from proverrl.verifier.process_group import ask_version

Z3_VERSION = "4.8.5"
_SERVER_PLACES = ("/usr/lib/dafny/DafnyServer.exe", "/usr/local/lib/dafny/DafnyServer.exe")
_INSTALL_DAFNY = "sudo apt-get install dafny"
_INSTALL_Z3 = f"pip install z3-solver=={Z3_VERSION}.0"
_INSTALL_DAFNY_4 = f"dotnet tool install --global dafny --version {VERSION}"
GET_DAFNY_4 = f"{sys.executable} -m proverrl.lang.dafny.install"
"""Needs neither root nor a .NET on this machine."""
_VERSION_SECONDS = 30
_WANTED: dict[DafnyVersion, tuple[str, ...]] = {
    "auto": ("4.", "2.3."),
    "4": ("4.",),
    "2.3": ("2.3.",),
}
"""How the versions that are asked for begin, the better ones first."""
_REMEDIES = {"4.": f"{_INSTALL_DAFNY_4} (without .NET: {GET_DAFNY_4})", "2.3.": _INSTALL_DAFNY}


@dataclass(frozen=True, slots=True)
class DafnyToolchain:
    """The place of the back end, and its fixed options. A Dafny 4 is its own language server; of
    Dafny 2.3 ``server`` is None when there is only the command line.
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
        ``dafny 4.11.0 (language server), z3 4.12.1``."""
        name = f"dafny {self.dafny_version} ({self.backend})"
        if self.z3_version:
            name += f", z3 {self.z3_version}"
        allowed = f", allowing {', '.join(self.allowed)}" if self.allowed else ""
        return f"{name}{allowed}{''.join(f', {argument}' for argument in self.arguments)}"


def find_confirming_toolchain(first: DafnyToolchain | None) -> DafnyToolchain | None:
    """The Dafny that PROVERRL_SECOND_DAFNY names, behind the ``first`` one, with the z3 that
    PROVERRL_SECOND_Z3 names; None if no Dafny is named. Raises ``ToolchainError`` when what they
    name does not answer as such, or is a Dafny 2.3 where the first one is no Dafny 4."""
    found = _find_second_dafny(first)
    named = os.environ.get("PROVERRL_SECOND_Z3")
    if named and os.environ.get("PROVERRL_SECOND_DAFNY") is None:
        raise ToolchainError("PROVERRL_SECOND_Z3 is set: name a Dafny by PROVERRL_SECOND_DAFNY too")
    if not named or found is None:
        return found
    try:
        version = _read_z3_version(named)
    except ToolchainError as error:
        raise ToolchainError(
            f"PROVERRL_SECOND_Z3 names no z3 ({error}): name the program of a z3-solver wheel, or "
            "set it to nothing to take the one of the second Dafny"
        ) from error
    if found.is_4 and _ignores_z3(found.dafny):
        raise ToolchainError(
            f"PROVERRL_SECOND_Z3 has no effect: {found.dafny} passes Dafny a --solver-path of its "
            "own behind that of the caller; put its own before, or name the program that it starts"
        )
    return replace(found, z3=named, z3_version=version)


def _ignores_z3(dafny: str) -> bool:
    """Whether a Dafny 4 verifies although the prover that it is given does not exist."""
    with tempfile.TemporaryDirectory(prefix="proverrl-z3-") as folder:
        program = Path(folder, "one.dfy")
        program.write_text("lemma One(x: int) requires x > 1 ensures x > 0 {}\n", "utf-8")
        missing = str(Path(folder, "missing-z3"))
        command = [dafny, "verify", str(program), "--solver-path", missing]
        return ask_version(command, _VERSION_SECONDS).returncode == 0


def _find_second_dafny(first: DafnyToolchain | None) -> DafnyToolchain | None:
    named = os.environ.get("PROVERRL_SECOND_DAFNY")
    if not named:
        return None
    try:
        version = find_dafny_version(named)
    except ToolchainError as error:
        raise ToolchainError(
            f"PROVERRL_SECOND_DAFNY names no second judge ({error}): name the dafny command of a "
            f"Dafny 4 ({_INSTALL_DAFNY_4}), or set it to nothing to do without"
        ) from error
    if version.startswith("4."):
        return _open_dafny_4(named, version)
    if first is None or not first.is_4:
        raise ToolchainError(
            f"PROVERRL_SECOND_DAFNY names Dafny {version} ({named}), which is the first judge too; "
            f"name a Dafny 4 ({_INSTALL_DAFNY_4})"
        )
    return _open_dafny_2(named, version)


def find_dafny_toolchain(version: DafnyVersion = "auto") -> DafnyToolchain:
    """The first judge. ``auto`` takes what PROVERRL_DAFNY names, else the first Dafny 4 there is,
    else the first 2.3; with a version, those of another are passed over. Raises ``ToolchainError``
    with the command that installs one."""
    wanted = _WANTED[version]
    found, others = [], []
    for place in list_dafny():
        is_named = place == os.environ.get("PROVERRL_DAFNY")
        try:
            said = find_dafny_version(place)
        except ToolchainError as error:
            if is_named:
                raise
            others.append(str(error))
            continue
        if said.startswith(wanted[0]) or (is_named and said.startswith(wanted)):
            return _open_dafny(place, said)
        if said.startswith(wanted):
            found.append((place, said))
        else:
            others.append(f"{place} is Dafny {said}")
    if found:
        return _open_dafny(*found[0])
    missing = "" if version == "auto" else f" {version}"
    seen = f" ({'; '.join(others)})" if others else ""
    remedy = " or, for Dafny 2.3, ".join(_REMEDIES[first] for first in wanted)
    raise ToolchainError(f"Dafny{missing} is not installed{seen}; run: {remedy}")


def list_dafny() -> list[str]:
    """The ``dafny`` commands of this machine, each once: PROVERRL_DAFNY, those on PATH, and the one
    that ``install`` put into its folder."""
    named = os.environ.get("PROVERRL_DAFNY")
    folders = [*os.get_exec_path(), str(default_folder())]
    there = (shutil.which("dafny", path=folder) for folder in folders)
    places = [*([named] if named else []), *(place for place in there if place)]
    found: dict[str, str] = {}
    for place in places:
        found.setdefault(os.path.realpath(shutil.which(place) or place), place)
    return list(found.values())


def _open_dafny(dafny: str, version: str) -> DafnyToolchain:
    if version.startswith("4."):
        return _open_dafny_4(dafny, version)
    return _open_dafny_2(dafny, version)


def _open_dafny_2(dafny: str, version: str) -> DafnyToolchain:
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


def _open_dafny_4(dafny: str, version: str) -> DafnyToolchain:
    beside = Path(shutil.which(dafny) or dafny).resolve().parent
    # A dotnet tool keeps its files in a folder beside its command.
    stored = beside.glob(f".store/dafny/{version}/dafny/{version}/tools/*/*")
    folders = (beside, beside / "lib", *stored)
    z3, z3_version = _find_z3_of_4(folders)
    return DafnyToolchain(
        dafny, version, z3=z3, z3_version=z3_version, prelude=mend_prelude(folders)
    )


def _find_z3_of_4(folders: tuple[Path, ...]) -> tuple[str, str]:
    """The z3 that this Dafny brings, which it takes itself, else the one that it would find."""
    for folder in folders:
        if brought := [*folder.glob("bin/z3"), *folder.glob("z3/bin/z3-*")]:
            newest = max(brought, key=lambda place: list(map(int, re.findall(r"\d+", place.name))))
            return str(newest), _read_z3_version(str(newest))
    on_path = shutil.which("z3")
    if os.environ.get("PROVERRL_Z3") or on_path is None:
        return _find_z3()
    return on_path, _read_z3_version(on_path)


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


def find_dafny_version(path: str) -> str:
    """Dafny 2 answers ``/version``, Dafny 4 ``--version`` too."""
    match, said = None, ""
    for option in ("/version", "--version"):
        if match is None:
            said = run_for_version([path, option]).strip()
            match = re.search(r"\b(\d+\.\d+\.\d+)", said)
    if match is None:
        raise ToolchainError(f"{path} does not answer as Dafny ({said[:200] or 'no answer'})")
    version = match.group(1)
    if not version.startswith(_WANTED["auto"]):
        raise ToolchainError(
            f"{path} is Dafny {version}, which is untested; supported are Dafny 4 ({GET_DAFNY_4}) "
            f"and Dafny 2.3 ({_INSTALL_DAFNY})"
        )
    return version


def run_for_version(command: list[str]) -> str:
    """The output of a program that is asked for its version; raises ``ToolchainError``."""
    done = ask_version(command, _VERSION_SECONDS)
    return done.stdout + done.stderr


def check_dafny() -> list[Part]:
    """The Dafny that judges with its server and z3, and the others, for ``proverrl doctor``. Runs
    their ``--version``."""
    z3_remedy = f"{sys.executable} -m {_INSTALL_Z3}"
    try:
        found = find_dafny_toolchain()
    except ToolchainError as error:
        text = str(error)
        remedy = z3_remedy if text.endswith(_INSTALL_Z3) else f"{GET_DAFNY_4}, or {_INSTALL_DAFNY}"
        return [Part("Dafny", "missing", text, remedy)]
    servers = [] if found.is_4 else _check_server(found)
    parts = [_check_first(found), *servers, *_check_others(found), _check_second(found)]
    where = f"{found.z3_version}, {found.z3}"
    if found.is_4 or found.z3_version == Z3_VERSION:
        return [*parts, Part("z3", "ok", where)]
    detail = (
        f"{where}; {Z3_VERSION} is preferred: it is faster with this Dafny, and another "
        "version can judge a borderline proof differently"
    )
    return [*parts, Part("z3", "weak", detail, z3_remedy)]


def _check_first(found: DafnyToolchain) -> Part:
    where = f"{found.dafny_version}, {found.dafny}"
    if not found.is_4:
        return Part("Dafny", "weak", f"{where}: Dafny 4 texts are not read", GET_DAFNY_4)
    if not found.prelude:
        detail = f"{where}: refused, since its prelude is not known"
        return Part("Dafny", "missing", detail, _INSTALL_DAFNY_4)
    return Part("Dafny", "ok", where)


def _check_server(found: DafnyToolchain) -> list[Part]:
    if found.server is None:
        detail = "not found: each proof starts Dafny anew, which is slower"
        return [Part("DafnyServer", "weak", detail, f"{_INSTALL_DAFNY} mono-runtime")]
    runtime, server = found.server
    return [Part("DafnyServer", "ok", server), Part("mono", "ok", runtime)]


def _check_others(first: DafnyToolchain) -> list[Part]:
    """What else is there that answers as Dafny, or fails to."""
    parts = []
    for place in list_dafny():
        if place != first.dafny:
            try:
                detail = f"{find_dafny_version(place)}, {place}: --dafny-version, or PROVERRL_DAFNY"
            except ToolchainError as error:
                detail = str(error)
            parts.append(Part("another Dafny", "absent", detail))
    return parts


def _check_second(first: DafnyToolchain) -> Part:
    try:
        second = find_confirming_toolchain(first)
    except ToolchainError as error:
        return Part("second judge", "missing", str(error), "unset the variable")
    if second is not None and not second.prelude:
        detail = f"{second.name}, {second.dafny}: refused, since its prelude is not known"
        return Part("second judge", "weak", detail, _INSTALL_DAFNY_4)
    if second is not None:
        return Part("second judge", "ok", f"{second.name}, {second.dafny}")
    detail = "none is named: what Dafny proves counts at once (pool.confirm)"
    remedy = f"{_INSTALL_DAFNY_4} and set PROVERRL_SECOND_DAFNY to its dafny"
    if first.is_4:
        remedy = f"export PROVERRL_SECOND_DAFNY={first.dafny}"
    return Part("second judge", "absent", detail, remedy)
