"""Finding Lean, over a made-up lake on PATH."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proverrl.errors import ToolchainError
from proverrl.lang.lean.workers import toolchain as lean_toolchain
from proverrl.lang.lean.workers.toolchain import find_lean_toolchain

LAKE = f"#!{sys.executable}\nprint('Lean (version 4.32.0, x86_64-unknown-linux-gnu, Release)')\n"
REPL = ".lake/packages/REPL/.lake/build/bin/repl"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing of Lean on it."""
    for name in ("PROVERRL_LEAN_PROJECT", "PROVERRL_LEAN_REPL", "ELAN_TOOLCHAIN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ELAN_HOME", str(tmp_path / "elan"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(lean_toolchain, "_REPOSITORY_PROJECT", tmp_path / "lean")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_project_of_this_repository_is_looked_for_at_its_root() -> None:
    assert Path(__file__).resolve().parents[1] / "lean" == lean_toolchain._REPOSITORY_PROJECT


def test_what_is_missing_is_said_with_its_remedy(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remedy = r"; run: bash scripts/setup_lean\.sh$"
    with pytest.raises(ToolchainError, match=rf"Lean is not installed .*{remedy}"):
        find_lean_toolchain()
    lake = write(machine / "elan" / "bin" / "lake", LAKE)
    with pytest.raises(ToolchainError, match=rf"no Lean project .*{remedy}"):
        find_lean_toolchain()
    monkeypatch.setenv("PROVERRL_LEAN_PROJECT", str(machine / "nowhere"))
    with pytest.raises(ToolchainError, match=rf"PROVERRL_LEAN_PROJECT names no .*{remedy}"):
        find_lean_toolchain()
    monkeypatch.delenv("PROVERRL_LEAN_PROJECT")
    write(machine / "lean" / "lakefile.toml", "")
    with pytest.raises(ToolchainError, match=rf"the Lean REPL is not built .*{remedy}"):
        find_lean_toolchain()
    monkeypatch.setenv("PROVERRL_LEAN_REPL", str(machine / "nothing"))
    with pytest.raises(ToolchainError, match=rf"PROVERRL_LEAN_REPL names no program.*{remedy}"):
        find_lean_toolchain()
    monkeypatch.delenv("PROVERRL_LEAN_REPL")
    write(machine / "lean" / REPL, "")
    write(lake, f"#!{sys.executable}\nimport sys\nsys.exit('error: no default toolchain')\n")
    with pytest.raises(ToolchainError, match=rf"no default toolchain.*{remedy}"):
        find_lean_toolchain()


def test_a_toolchain_is_found_outside_path(machine: Path) -> None:
    lake = write(machine / "elan" / "bin" / "lake", LAKE)
    write(machine / "lean" / "lakefile.toml", "")
    write(machine / "lean" / "lean-toolchain", "leanprover/lean4:v4.32.0\n")
    repl = write(machine / "lean" / REPL, "")
    found = find_lean_toolchain()
    assert (found.name, found.backend) == ("lean 4.32.0 (lean-repl)", "lean-repl")
    assert found.repl_command == (str(lake), f"--dir={machine / 'lean'}", "env", str(repl))
    assert dict(found.environment) == {
        "ELAN_HOME": str(machine / "elan"),
        "ELAN_TOOLCHAIN": "leanprover/lean4:v4.32.0",
        "PATH": f"{lake.parent}{os.pathsep}/usr/bin:/bin",
    }


def test_a_built_mathlib_project_is_preferred_and_named(machine: Path) -> None:
    write(machine / "elan" / "bin" / "lake", LAKE)
    for project in ("lean", "lean/mathlib"):
        write(machine / project / "lakefile.toml", "")
    write(machine / "lean" / REPL, "")
    assert find_lean_toolchain().project == machine / "lean"
    write(machine / "lean" / "mathlib" / REPL, "")
    (machine / "lean" / "mathlib" / ".lake" / "packages" / "mathlib").mkdir()
    found = find_lean_toolchain()
    assert found.project == machine / "lean" / "mathlib"
    assert found.name == "lean 4.32.0 (lean-repl), mathlib"


def test_variables_decide_over_places(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(machine / "elan" / "bin" / "lake", LAKE)
    write(machine / "lean" / "lakefile.toml", "")
    write(machine / "lean" / REPL, "")
    write(machine / "other" / "lakefile.lean", "")
    monkeypatch.setenv("PROVERRL_LEAN_PROJECT", str(machine / "other"))
    monkeypatch.setenv("PROVERRL_LEAN_REPL", str(write(machine / "bin" / "myrepl", "")))
    found = find_lean_toolchain()
    assert found.project == machine / "other"
    assert found.repl_command[-1] == str(machine / "bin" / "myrepl")


SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "setup_lean.sh"


def run_script(machine: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script whose project is made up and whose machine has no lake."""
    copy = write(machine / "scripts" / "setup_lean.sh", SCRIPT.read_text("utf-8"))
    for project in ("lean", "lean/mathlib"):
        write(machine / project / "lean-toolchain", "leanprover/lean4:v4.32.0\n")
        write(machine / project / "lakefile.toml", "")
    environment = {"PATH": "/usr/bin:/bin", "ELAN_HOME": str(machine / "elan")}
    command = ["bash", str(copy), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "project", "needs"),
    [
        (["--plan"], "lean", "3 GB of disk (Lean itself and the REPL)"),
        (
            ["--mathlib", "--plan"],
            "lean/mathlib",
            "12 GB of disk (Lean, the REPL, Mathlib and its compiled files)",
        ),
    ],
)
def test_the_setup_script_tells_its_plan(
    machine: Path, arguments: list[str], project: str, needs: str
) -> None:
    done = run_script(machine, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"setup_lean: would install elan into {machine / 'elan'}",
        "setup_lean: release: leanprover/lean4:v4.32.0",
        f"setup_lean: would build the REPL in {machine / project}",
        f"setup_lean: needs the network and by estimate {needs}",
    ]
    assert not (machine / "elan").exists()


def test_the_setup_script_refuses_what_it_does_not_know(machine: Path) -> None:
    done = run_script(machine, "--force")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "setup_lean: error: unknown argument '--force'",
        "            usage: bash scripts/setup_lean.sh [--mathlib] [--plan]",
    ]


def test_the_setup_script_passes_shellcheck() -> None:
    program = shutil.which("shellcheck")
    if program is None:
        pytest.skip("shellcheck is not here")
    done = subprocess.run([program, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
