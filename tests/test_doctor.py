"""The doctor names what is missing and what brings it, and says ready only when it is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from proverrl.cli import doctor
from proverrl.cli.doctor import is_healthy
from proverrl.errors import ToolchainError
from proverrl.lang.dafny.workers import toolchain as dafny
from proverrl.lang.dafny.workers.toolchain import DafnyToolchain
from proverrl.lang.lean import backend as lean
from proverrl.lang.lean.workers.toolchain import LeanToolchain
from proverrl.lang.records import Part
from proverrl.verify.memory_cgroup import CGROUP_GUARD, WATCH_GUARD


def give_toolchain(
    monkeypatch: pytest.MonkeyPatch, *, server: tuple[str, ...] | None, z3_version: str
) -> None:
    found = DafnyToolchain(
        dafny="/bin/dafny",
        dafny_version="2.3.0",
        server=server,
        z3="/bin/z3",
        z3_version=z3_version,
    )
    monkeypatch.setattr(dafny, "find_dafny_toolchain", lambda: found)


def test_a_whole_dafny_is_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    give_toolchain(monkeypatch, server=("/bin/mono", "/lib/DafnyServer.exe"), z3_version="4.8.5")
    assert dafny.check_dafny() == [
        Part("Dafny", "ok", "2.3.0, /bin/dafny"),
        Part("DafnyServer", "ok", "/lib/DafnyServer.exe"),
        Part("mono", "ok", "/bin/mono"),
        Part("z3", "ok", "4.8.5, /bin/z3"),
    ]


def test_the_fallbacks_are_weak_but_work(monkeypatch: pytest.MonkeyPatch) -> None:
    give_toolchain(monkeypatch, server=None, z3_version="4.8.12")
    findings = dafny.check_dafny()
    assert [(item.name, item.state) for item in findings] == [
        ("Dafny", "ok"),
        ("DafnyServer", "weak"),
        ("z3", "weak"),
    ]
    assert findings[1].remedy == "sudo apt-get install dafny mono-runtime"
    assert findings[2].remedy == f"{sys.executable} -m pip install z3-solver==4.8.5.0"
    assert is_healthy(findings)


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("Dafny is not installed; run: x", "sudo apt-get install dafny"),
        ("z3 is not installed; run: y", f"{sys.executable} -m pip install z3-solver==4.8.5.0"),
    ],
)
def test_a_missing_dafny_is_not_healthy(
    monkeypatch: pytest.MonkeyPatch, message: str, remedy: str
) -> None:
    def fail() -> DafnyToolchain:
        raise ToolchainError(message)

    monkeypatch.setattr(dafny, "find_dafny_toolchain", fail)
    findings = dafny.check_dafny()
    assert findings == [Part("Dafny", "missing", message, remedy)]
    assert not is_healthy(findings)


def test_a_missing_package_names_its_range() -> None:
    assert doctor.check_package("no-such-package-here", "no-such-package-here>=2") == Part(
        "no-such-package-here",
        "missing",
        "not installed",
        f"{sys.executable} -m pip install 'no-such-package-here>=2'",
    )
    assert doctor.check_package("rich", "rich").state == "ok"


def test_a_missing_extra_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.EXTRAS, "vllm", ("no_such_module_here", "vllm", "fast"))
    finding = doctor.check_extra("vllm")
    assert finding == Part(
        "vllm", "absent", "fast", f"{sys.executable} -m pip install -e '.[vllm]'"
    )
    assert is_healthy([finding])


def test_a_missing_lean_is_optional_and_names_the_script(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> LeanToolchain:
        raise ToolchainError("Lean is not installed; run: bash scripts/setup_lean.sh")

    monkeypatch.setattr(lean, "find_lean_toolchain", fail)
    findings = lean.check_lean()
    detail = "Lean is not installed; only Dafny can be judged"
    assert findings == [Part("Lean", "absent", detail, "bash scripts/setup_lean.sh")]
    assert is_healthy(findings)


def test_a_lean_is_shown_with_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = LeanToolchain("4.32.0", Path("/p"), ("/bin/lake", "env", "/p/repl"), lake="/bin/lake")
    monkeypatch.setattr(lean, "find_lean_toolchain", lambda: found)
    monkeypatch.setattr(lean, "find_checkers", lambda: {"leanchecker": "/bin/leanchecker"})
    findings = lean.check_lean()
    assert findings[:2] == [
        Part("Lean", "ok", "4.32.0, without Mathlib, /bin/lake"),
        Part("Lean REPL", "ok", "/p/repl"),
    ]
    states = {finding.name: finding.state for finding in findings[2:]}
    assert states.pop("leanchecker") == "ok"
    assert set(states.values()) == {"absent"}


def test_the_memory_limit_says_what_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "describe_guard", lambda: CGROUP_GUARD)
    assert doctor.check_memory_limit() == Part("memory limit", "ok", CGROUP_GUARD)
    monkeypatch.setattr(doctor, "describe_guard", lambda: WATCH_GUARD)
    assert doctor.check_memory_limit().detail.startswith(f"{WATCH_GUARD}: ")


def test_memory_is_the_lower_of_machine_and_container(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("500000000\n")
    assert doctor.read_memory_gb(limit) == 0.5
    limit.write_text("max\n")
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    assert doctor.read_memory_gb(limit) == machine


def test_the_run_folder_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = doctor.check_writable(tmp_path / "not" / "yet")
    assert finding.state == "ok"
    assert list(tmp_path.iterdir()) == []

    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    finding = doctor.check_writable(tmp_path / "not" / "yet")
    assert finding == Part(
        "run folder", "missing", f"{tmp_path}: Permission denied", f"chmod u+w '{tmp_path}'"
    )


def test_the_table_shows_the_command_beside_what_is_missing() -> None:
    findings = [
        Part("Python", "ok", "3.11.9"),
        Part("Dafny", "missing", "Dafny is not installed", "sudo apt-get install dafny"),
    ]
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(doctor.render(findings))
    assert [line.rstrip() for line in capture.get().splitlines()] == [
        "ok       Python  3.11.9",
        "missing  Dafny   Dafny is not installed",
        "                 sudo apt-get install dafny",
        "Not ready: run the commands beside what is missing.",
    ]
    with console.capture() as capture:
        console.print(doctor.render(findings[:1]))
    assert "Ready: everything that the default set-up needs is there." in capture.get()


def test_importing_the_doctor_does_not_import_torch() -> None:
    code = "import sys, proverrl.cli.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_diagnose_covers_every_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    give_toolchain(monkeypatch, server=("/bin/mono", "/lib/DafnyServer.exe"), z3_version="4.8.5")
    monkeypatch.setattr(
        "proverrl.lang.lean.backend.check_lean", lambda: [Part("Lean", "absent", "x")]
    )
    names = [finding.name for finding in doctor.diagnose(tmp_path)]
    assert names == [
        "Python",
        "torch",
        *("transformers", "tokenizers", "plotly"),
        *("Dafny", "DafnyServer", "mono", "z3", "Lean"),
        *("vllm", "peft", "lean-dojo"),
        *("processors", "memory", "memory limit", "run folder"),
    ]
