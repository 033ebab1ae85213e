"""How a Dafny 4 is had where there is none: each way, and what is said where none works."""

from __future__ import annotations

import os
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from proverrl.errors import ToolchainError
from proverrl.lang.dafny.install import VERSION, get_dafny_4
from proverrl.verifier.process_group import ask_version

ANSWERS = "#!/bin/sh\necho 4.11.0\n"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Of a server of the files in ``served``."""
    served = tmp_path / "served"
    served.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has neither .NET nor a package."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("PROVERRL_DAFNY_PACKAGE", raising=False)
    monkeypatch.setenv("PROVERRL_DAFNY_RELEASE", "http://127.0.0.1:9/none.zip")


def write_release(place: Path, program: str = ANSWERS) -> None:
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("dafny/dafny", program)
        archive.writestr("dafny/z3/bin/z3-4.12.1", "#!/bin/sh\n")


def test_a_release_archive_is_downloaded(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_release(tmp_path / "served" / "release.zip")
    monkeypatch.setenv("PROVERRL_DAFNY_RELEASE", f"{address}/release.zip")
    command = get_dafny_4(tmp_path / "a" / "dafny")
    assert ask_version([str(command), "--version"], 10).stdout == "4.11.0\n"
    assert os.access(tmp_path / "a" / "dafny" / "release" / "z3" / "bin" / "z3-4.12.1", os.X_OK)
    # A second time nothing is fetched, and nothing half made is left.
    monkeypatch.setenv("PROVERRL_DAFNY_RELEASE", f"{address}/other.zip")
    assert get_dafny_4(tmp_path / "a" / "dafny") == command
    assert [place.name for place in (tmp_path / "a").iterdir()] == ["dafny"]


def test_a_dotnet_sdk_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dotnet = tmp_path / "bin" / "dotnet"
    dotnet.write_text(
        '#!/bin/sh\nif [ "$1" = --list-sdks ]; then echo "8.0.100 [/x]"; exit; fi\n'
        'echo "$@" >&2\nwhile [ "$1" != --tool-path ]; do shift; done\nmkdir -p "$2"\n'
        'printf \'#!/bin/sh\\necho 4.11.0 "$@"\\n\' > "$2/dafny"\nchmod +x "$2/dafny"\n'
    )
    dotnet.chmod(0o755)
    wheel = "z3_solver-4.12.1.0.data/data/bin/z3"

    def fetch(requirement: str, folder: Path) -> Path:
        with zipfile.ZipFile(folder / "z3.whl", "w") as archive:
            archive.writestr(wheel, "#!/bin/sh\n")
        return folder / "z3.whl"

    monkeypatch.setattr("proverrl.lang.dafny.install._fetch_wheel", fetch)
    command = get_dafny_4(tmp_path / "dafny")
    said = ask_version([str(command), "verify", "a.dfy"], 10).stdout
    # Of two solvers Dafny takes the last.
    assert said == f"4.11.0 verify --solver-path {tmp_path}/dafny/bin/z3 a.dfy\n"


@pytest.mark.parametrize(
    ("served", "said"),
    [
        ("old", "the release archive: it answers '2.3.0' as its version"),
        ("broken", "the release archive: File is not a zip file"),
        ("other", "the release archive: release.zip holds no dafny/"),
        ("outside", "the release archive: release.zip holds a file outside itself: dafny/../../x"),
    ],
)
def test_what_is_no_dafny_is_refused(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, served: str, said: str
) -> None:
    place = tmp_path / "served" / "release.zip"
    if served == "old":
        write_release(place, "#!/bin/sh\necho 2.3.0\n")
    elif served == "broken":
        place.write_text("no archive")
    else:
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr("dafny/../../x" if served == "outside" else "readme", "")
    monkeypatch.setenv("PROVERRL_DAFNY_RELEASE", f"{address}/release.zip")
    with pytest.raises(ToolchainError) as failure:
        get_dafny_4(tmp_path / "a" / "dafny")
    assert str(failure.value) == (
        f"Dafny {VERSION} could not be had (dotnet tool install: no .NET SDK is on PATH; "
        f"PROVERRL_DAFNY_PACKAGE: it names no file; {said})"
    )
    assert list((tmp_path / "a").iterdir()) == []
