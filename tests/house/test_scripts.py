"""The scripts, the pins and the Dockerfile: syntax, contracts, and set-up piece by piece.

The pieces of ``scripts/setup.sh`` run here with a PATH of stand-ins, so that nothing is installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import runpy
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from proverrl.config import load_config
from proverrl.errors import ConfigError, RunError, UsageError
from proverrl.files.seal import add_seal
from proverrl.lang.dafny import install
from proverrl.problems.load import load_problems, load_references
from scripts import choose_tasks, compare_search, compare_training, reproduce, split_families
from scripts.reproduce import FIGURES
from tests import ROOT
from tests import report_runs as made

SCRIPTS = [*sorted(ROOT.glob("scripts/*.sh")), ROOT / ".ci" / "run"]
TOOLS = (
    "bash",
    "cat",
    "cut",
    "dirname",
    "env",
    "grep",
    "mkdir",
    "rm",
    "sha256sum",
    "sleep",
    "tail",
)


def read_project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project


def read_pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    """A copy of the set-up in a folder with a space in its name, and a PATH of stand-ins."""
    root = tmp_path / "a folder"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup.sh", root / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, root)
    (root / "bin").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None, f"{tool} is needed by setup.sh"
        (root / "bin" / tool).symlink_to(found)
    write_program(root / "bin" / "id", "echo 1000")
    return root


def run_setup(root: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Source setup.sh in the sandbox and run some of its functions."""
    return subprocess.run(
        ["bash", "-c", f'source "$1/scripts/setup.sh"; mkdir -p "$VENV"\n{code}', "-", str(root)],
        env={"PATH": str(root / "bin"), "HOME": str(root), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


def write_python(root: Path, name: str, *, recent: bool) -> Path:
    """A stand-in for Python: answers the version question, and prints a fixed build."""
    path = root / "bin" / name
    write_program(
        path,
        f"""case "$2" in
  *"(3, 11)"*) exit {0 if recent else 1} ;;
  *sys.version*) echo "build of {name}" ;;
esac""",
    )
    return path


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script_parses_and_is_strict_and_executable(script: Path) -> None:
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.access(script, os.X_OK)
    text = script.read_text("utf-8")
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "\nset -euo pipefail\n" in text


def test_ci_runs_the_test_script_with_a_dafny_4_and_without() -> None:
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    commands = [line for line in lines if "bash scripts/" in line]
    assert commands[0] == "bash scripts/test.sh"
    assert "bash scripts/demo.sh" in commands[1]
    assert commands[2:] == ["bash scripts/test.sh --fast"]


def test_the_test_script_runs_every_check_in_order() -> None:
    text = (ROOT / "scripts" / "test.sh").read_text("utf-8")
    assert re.findall(r"^check (.*)$", text, re.MULTILINE) == [
        "ruff format --check .",
        "ruff check .",
        'mypy --strict --num-workers "$(getconf _NPROCESSORS_ONLN)"',
        'python -m pytest --durations=20 "${chosen[@]}" "$@"',
    ]


def test_the_test_script_stops_at_the_first_failure_and_names_it(sandbox: Path) -> None:
    shutil.copy(ROOT / "scripts" / "test.sh", sandbox / "scripts")
    write_program(sandbox / "scripts" / "setup.sh", "exit 0")
    write_program(sandbox / ".venv" / "bin" / "ruff", '[ "$1" = format ] || exit 7')
    write_program(sandbox / ".venv" / "bin" / "mypy", "echo mypy must not run")
    done = subprocess.run(
        ["bash", str(sandbox / "scripts" / "test.sh")],
        env={"PATH": str(sandbox / "bin")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 7
    assert "== passed in " in done.stdout
    assert "mypy must not run" not in done.stdout
    assert done.stderr == "test: FAILED (exit 7) at: ruff check .\n"


def test_find_python_takes_the_first_recent_one(sandbox: Path) -> None:
    write_python(sandbox, "python3", recent=False)
    assert run_setup(sandbox, "find_python").returncode == 1
    recent = write_python(sandbox, "python3.11", recent=True)
    assert run_setup(sandbox, "find_python").stdout == f"{recent}\n"
    newer = write_python(sandbox, "python3.12", recent=True)
    assert run_setup(sandbox, "find_python").stdout == f"{newer}\n"


def test_find_python_obeys_the_variable_and_nothing_else(sandbox: Path) -> None:
    write_python(sandbox, "python3", recent=True)
    old = write_python(sandbox, "python3.9", recent=False)
    assert run_setup(sandbox, "find_python", PROVERRL_PYTHON=str(old)).returncode == 1
    other = write_python(sandbox, "mine", recent=True)
    done = run_setup(sandbox, "find_python", PROVERRL_PYTHON=str(other))
    assert done.stdout == f"{other}\n"


def test_find_python_passes_over_its_own_environment(sandbox: Path) -> None:
    outside = write_python(sandbox, "python3", recent=True)
    inside = sandbox / ".venv" / "bin"
    inside.mkdir(parents=True)
    shutil.copy(outside, inside)
    done = run_setup(sandbox, "find_python", PATH=f"{inside}:{sandbox / 'bin'}")
    assert done.stdout == f"{outside}\n"


def test_without_python_setup_says_what_to_run(sandbox: Path) -> None:
    done = subprocess.run(
        ["bash", str(sandbox / "scripts" / "setup.sh")],
        env={"PATH": str(sandbox / "bin")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "no Python 3.11 or newer was found" in done.stderr
    assert "sudo apt-get install -y python3.11 python3.11-venv" in done.stderr


def test_an_unknown_argument_is_refused(sandbox: Path) -> None:
    done = run_setup(sandbox, "main everything")
    assert done.returncode == 1
    assert "unknown argument 'everything'" in done.stderr


def test_stamp_changes_with_everything_that_it_stands_for(sandbox: Path) -> None:
    write_python(sandbox, "python3", recent=True)
    write_python(sandbox, "python3.12", recent=True)

    def stamp(python: str = "python3", extras: str = "") -> str:
        done = run_setup(sandbox, f"stamp_of {python} '{extras}'")
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(r"[0-9a-f]{64}\n", done.stdout)
        return done.stdout

    seen = [stamp(), stamp(extras="dev"), stamp("python3.12")]
    assert stamp() == seen[0]
    for name in ("pyproject.toml", "constraints.txt"):
        with (sandbox / name).open("a") as file:
            file.write("# changed\n")
        seen.append(stamp())
    moved = sandbox.with_name("moved")
    shutil.copytree(sandbox, moved, symlinks=True)
    seen.append(run_setup(moved, "stamp_of python3 ''").stdout)
    assert len(set(seen)) == 6


def test_installed_means_a_fresh_stamp_and_no_interruption(sandbox: Path) -> None:
    write_python(sandbox, "python3", recent=True)
    venv = sandbox / ".venv"

    def installed(extras: str = "") -> bool:
        return run_setup(sandbox, f"is_installed python3 '{extras}'").returncode == 0

    assert not installed()
    write_program(venv / "bin" / "proverrl", "")
    assert not installed()
    run_setup(sandbox, "write_stamps python3 ''")
    assert installed()
    assert not installed("dev")
    run_setup(sandbox, "write_stamps python3 dev")
    assert installed()
    assert installed("dev")
    (venv / ".setup-installing").touch()
    assert not installed()
    (venv / ".setup-installing").unlink()
    assert installed()
    with (sandbox / "constraints.txt").open("a") as file:
        file.write("# changed\n")
    assert not installed()


def test_an_interrupted_environment_is_not_used_again(sandbox: Path) -> None:
    write_python(sandbox, "python3", recent=True)
    write_program(sandbox / ".venv" / "bin" / "python", "exit 0")
    check = "venv_is_usable python3"
    assert run_setup(sandbox, check).returncode == 1
    run_setup(sandbox, 'made_for python3 >"$VENV/.setup-made-for"')
    assert run_setup(sandbox, check).returncode == 0
    (sandbox / ".venv" / ".setup-installing").touch()
    assert run_setup(sandbox, check).returncode == 1


def write_answers(root: Path, *, without: str = "") -> None:
    """A Python that has every module and library that set-up asks for, but for one."""
    lacks = f"*{without}*) exit 1 ;;" if without else ""
    write_program(
        root / "bin" / "python3",
        f'case "$2" in *sys.version_info*) echo python3.99-venv ;; {lacks} esac',
    )


def test_missing_packages_are_found_one_by_one(sandbox: Path) -> None:
    code = "list_missing_packages python3"
    write_answers(sandbox)
    assert run_setup(sandbox, code).stdout == ""
    write_answers(sandbox, without="libgomp")
    assert run_setup(sandbox, code).stdout == "libgomp1\n"
    write_answers(sandbox, without="ensurepip")
    assert run_setup(sandbox, code).stdout == "python3.99-venv\n"


class Machine:
    """A sandbox whose Python finds the Dafnys that stand as files in its folder; with a file
    ``network`` a Dafny 4 can be had."""

    def __init__(self, root: Path) -> None:
        self.root = root
        write_program(
            root / ".venv" / "bin" / "python",
            """case "$1 $2" in
  "-m proverrl.lang.dafny.install")
    echo install >>"$HOME/calls"
    [ -e "$HOME/network" ] || { echo "error: Dafny 4 could not be had"; exit 1; }
    : >"$HOME/4" ;;
  -c*) case "$3" in auto) [ -e "$HOME/4" ] || [ -e "$HOME/2.3" ] ;; *) [ -e "$HOME/$3" ] ;; esac ;;
esac""",
        )
        write_program(root / "bin" / "id", "echo 0")
        write_program(root / "bin" / "apt-get", ': >"$HOME/2.3"; echo "apt $3" >>"$HOME/calls"')

    def run(self, extras: str = "", **environment: str) -> tuple[list[str], str]:
        """What is called, and what is said last."""
        (self.root / "calls").write_text("")
        code = f"dafny_is_settled '{extras}' || get_dafny '{extras}'; say_what_judges"
        done = run_setup(self.root, code, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        calls = (self.root / "calls").read_text().splitlines()
        return [call for call in calls if call != "apt update"], done.stdout.rpartition("setup: ")[
            2
        ]

    def add(self, *names: str) -> None:
        for name in names:
            (self.root / name).touch()


@pytest.fixture
def machine(sandbox: Path) -> Machine:
    return Machine(sandbox)


LOST = "Dafny 2.3 judges, and texts of Dafny 4 are not read. To try again: "


def test_a_dafny_4_that_is_there_is_enough(machine: Machine) -> None:
    machine.add("4")
    assert machine.run() == ([], "")
    assert machine.run("dev")[0] == ["apt install"]
    assert machine.run("dev") == ([], "")


def test_a_dafny_4_is_got_where_it_can_be(machine: Machine) -> None:
    machine.add("network")
    calls, said = machine.run()
    assert calls == ["install"]
    assert said.startswith("getting Dafny 4 ...")
    assert not (machine.root / "2.3").exists()


def test_without_a_network_dafny_2_is_installed_and_4_is_tried_once(machine: Machine) -> None:
    calls, said = machine.run()
    assert calls == ["install", "apt install"]
    assert said.startswith(LOST)
    calls, said = machine.run()
    assert calls == []
    assert said.startswith(LOST)
    # Another source.
    assert machine.run(PROVERRL_DAFNY_PACKAGE="/a/dafny.nupkg")[0] == ["install"]
    assert machine.run(PROVERRL_DAFNY_PACKAGE="/a/dafny.nupkg")[0] == []
    machine.add("4")
    assert machine.run() == ([], "")


def test_a_dafny_2_that_is_there_is_no_reason_to_stop(machine: Machine) -> None:
    machine.add("2.3", "network")
    assert machine.run()[0] == ["install"]


def test_a_named_dafny_is_not_replaced(machine: Machine) -> None:
    machine.add("2.3", "network")
    assert machine.run(PROVERRL_DAFNY="/usr/bin/dafny") == ([], "")


def test_without_any_dafny_setup_fails(machine: Machine) -> None:
    (machine.root / "bin" / "apt-get").unlink()
    done = run_setup(machine.root, "get_dafny ''")
    assert done.returncode == 1
    assert "error: Dafny 4 could not be had" in done.stdout
    assert "which has no apt-get to bring them: dafny" in done.stderr
    assert not (machine.root / ".venv" / ".setup-no-dafny-4").exists()


def test_apt_get_is_called_as_root_without_questions(sandbox: Path) -> None:
    write_program(sandbox / "bin" / "id", "echo 0")
    write_program(sandbox / "bin" / "apt-get", 'echo "$DEBIAN_FRONTEND $*" >>"$HOME/calls"')
    done = run_setup(sandbox, "need_packages dafny")
    assert (done.returncode, done.stderr) == (0, "")
    assert (sandbox / "calls").read_text().splitlines() == [
        "noninteractive -o DPkg::Lock::Timeout=300 update",
        "noninteractive -o DPkg::Lock::Timeout=300 install -y --no-install-recommends dafny",
    ]


def test_apt_get_goes_through_sudo_that_must_not_ask(sandbox: Path) -> None:
    write_program(sandbox / "bin" / "sudo", 'echo "sudo $1" >>"$HOME/calls"; shift; "$@"')
    write_program(sandbox / "bin" / "true", "exit 0")
    write_program(sandbox / "bin" / "apt-get", "exit 0")
    assert run_setup(sandbox, "need_packages dafny").returncode == 0
    assert set((sandbox / "calls").read_text().splitlines()) == {"sudo -n"}


def test_a_failed_apt_get_shows_the_log_and_the_remedy(sandbox: Path) -> None:
    write_program(sandbox / "bin" / "id", "echo 0")
    write_program(sandbox / "bin" / "apt-get", "echo no such package; exit 100")
    done = run_setup(sandbox, "need_packages dafny")
    assert done.returncode == 1
    assert "no such package" in done.stderr
    assert "sudo apt-get update && sudo apt-get install -y dafny" in done.stderr


@pytest.mark.parametrize("sudo", [None, "exit 1"])
def test_without_rights_setup_says_what_to_run(sandbox: Path, sudo: str | None) -> None:
    write_program(sandbox / "bin" / "apt-get", 'echo called >>"$HOME/calls"')
    if sudo is not None:
        write_program(sandbox / "bin" / "sudo", sudo)
    done = run_setup(sandbox, "need_packages dafny")
    assert done.returncode == 1
    assert "sudo apt-get update && sudo apt-get install -y dafny" in done.stderr
    assert not (sandbox / "calls").exists()


def test_without_apt_get_setup_says_so(sandbox: Path) -> None:
    done = run_setup(sandbox, "need_packages dafny")
    assert done.returncode == 1
    assert "which has no apt-get to bring them: dafny" in done.stderr


def test_two_setups_at_once_take_turns(sandbox: Path) -> None:
    (sandbox / "bin" / "flock").symlink_to(str(shutil.which("flock")))
    code = """
lock_setup
printf 'first\n'
( exec 9>&-; lock_setup; printf 'second\n' ) &
while ! grep -q waiting "$LOG" 2>/dev/null; do sleep 0.1; done
printf 'first ends\n'
exec 9>&-
wait
"""
    # The second one announces on the log that it waits, so that the order below is no accident.
    code = 'say() { printf "%s\\n" "$*" >>"$LOG"; }\n' + code
    done = run_setup(sandbox, code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "first\nfirst ends\nsecond\n"


def test_every_direct_dependency_has_a_pin_that_fits() -> None:
    project = read_project()
    pins = read_pins()
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["dev"] + extras["dafny"] + extras["train"]
    unfit = [
        text
        for text in wanted
        if not (requirement := Requirement(text)).specifier.contains(
            pins.get(canonicalize_name(requirement.name), "0")
        )
    ]
    assert unfit == []
    assert pins["torch"] == "2.13.0"
    assert pins["z3-solver"] == "4.8.5.0"


def test_the_dockerfile_agrees_with_the_project() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    project = read_project()
    # bookworm's python3 is 3.11.
    assert "FROM mcr.microsoft.com/dotnet/runtime:8.0-bookworm-slim AS dafny\n" in text
    assert f"dotnet tool install dafny --version {install.VERSION} --tool-path /opt/dafny\n" in text
    assert f"--target /opt/dafny {install.Z3}\n" in text
    assert project["requires-python"] == ">=3.11"
    copied = re.findall(r"^COPY (?:--chown=prover )?([^-].*) \S+$", text, re.MULTILINE)
    sources = [word for line in copied for word in line.split()]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert text.count("-c constraints.txt") == text.count("pip install") - 1 == 2
    installed = re.search(r"apt-get install ([^&]*)", text.replace("\\\n", " "))
    assert installed is not None
    assert {"libgomp1", "python3", "python3-venv"} <= set(installed.group(1).split())
    assert 'ENTRYPOINT ["proverrl"]' in text
    assert "proverrl" in project["scripts"]
    assert text.index("USER prover") < text.index("ENTRYPOINT")


def test_the_dockerfile_has_a_stage_with_lean_that_is_not_the_default() -> None:
    """Never built here. The back end looks for ``lean/`` beside the installed package."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    stages = re.split(r"^(?=FROM )", text, flags=re.MULTILINE)[1:]
    heads = [stage.splitlines()[0] for stage in stages]
    assert heads[2:] == ["FROM dafny AS lean", "FROM dafny"]
    assert 'pip install --no-cache-dir -c constraints.txt -e ".[dafny,train]"' in stages[1]
    assert "setup_lean" not in stages[1] + stages[3]
    script = (ROOT / "scripts" / "setup_lean.sh").read_text("utf-8")
    lines = stages[2].splitlines()
    # What the script calls for without options, as the user that will run it.
    assert "need_command curl" in script
    assert any(line.endswith("--no-install-recommends curl \\") for line in lines)
    wanted = [
        "COPY --chown=prover lean /opt/proverrl/lean",
        "COPY scripts/setup_lean.sh /opt/proverrl/scripts/",
        "USER prover",
        'ENV PATH="/home/prover/.elan/bin:$PATH"',
        "RUN bash /opt/proverrl/scripts/setup_lean.sh",
    ]
    assert [line for line in lines if line in wanted] == wanted
    assert 'ELAN_DIR="${ELAN_HOME:-$HOME/.elan}"' in script


def test_the_license_is_the_one_that_the_project_names() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert read_project()["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_every_pin_can_be_installed_with_the_oldest_python() -> None:
    """A pin that asks for 3.11.5 sends pip on Debian 12, which has 3.11.2, looking for hours."""
    asked = {}
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        name = line.partition("==")[0]
        if "==" in line and not line.startswith("#"):
            with contextlib.suppress(metadata.PackageNotFoundError):  # Not of this system.
                asked[name] = metadata.metadata(name)["Requires-Python"] or ""
    assert len(asked) > 50
    assert {name for name, range_ in asked.items() if "3.11.0" not in SpecifierSet(range_)} == set()


def test_the_figures_that_are_repeated_are_those_of_the_log() -> None:
    log = "".join(page.read_text("utf-8") for page in ROOT.glob("results/*.md"))
    log = log.replace("\u2013", ", ")
    log = log.replace("[", "(").replace("]", ")").replace("**", "")
    for name, figure in FIGURES.items():
        for recorded in figure.evaluations.values():
            for value, low, high in recorded.values():
                assert f"{value:.1f} ({low:.1f}, {high:.1f})" in log, (name, value)
    (line,) = FIGURES["expert_iteration"].list_commands("expert_iteration", 1)
    assert line == (
        "proverrl train configs/expert_iteration.toml --run runs/reproduce/expert_iteration-1 "
        "--set seed=1 --set evaluation.max_problems=150 --set max_verifier_calls=2260"
    )


def test_a_command_that_fails_is_no_figure_outside_its_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    failing = reproduce.Figure(("echo no Lean >&2; exit 3",), {"after": {0: (1.0, 0.0, 2.0)}})
    monkeypatch.setitem(FIGURES, "failing", failing)
    monkeypatch.setattr(reproduce, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["reproduce.py", "failing"])
    with pytest.raises(SystemExit) as ended:
        reproduce.main()
    assert ended.value.code == 3
    said = capfd.readouterr().err.splitlines()
    assert said == ["no Lean", "failing, seed 0: a command failed, nothing was compared"]


def run_script(
    script: str, given: Sequence[str | Path], capture: pytest.CaptureFixture[str]
) -> str:
    """The last line of what a script says that ends with an error; here, since each process of its
    own would load torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [script, *map(str, given)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / "scripts" / script), run_name="__main__")
    code, said = ended.value.code, capture.readouterr().err
    # Python prints a text, and its status is 1.
    line = code if isinstance(code, str) else said.strip().rpartition("\n")[2]
    assert code != 0
    return line


def test_what_a_script_cannot_use_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    valid = tmp_path / "valid.jsonl"
    shutil.copy(ROOT / "dafny" / "curriculum" / "valid.jsonl", valid)
    before = valid.read_bytes()
    read = f"{valid} is read by this command; write to another file"
    third = tmp_path / "third.jsonl"
    cases: list[tuple[tuple[str | Path, ...], str]] = [
        (("choose_poolable.py", valid, valid), read),
        (("choose_tasks.py", valid, valid), read),
        (("measure_operators.py", "--apart", valid, "--out", valid), read),
        (("measure_operators.py", "--workers", "0"), "argument --workers: 0 is below 1"),
        (("measure_operators.py", "--num", "-3"), "argument --num: -3 is below 1"),
        (("measure_operators.py", "--out", tmp_path), f"cannot write {tmp_path}: it is no file"),
        (("measure_operators.py", "--apart", "none.jsonl"), "none.jsonl"),
        (("measure_pooled_hints.py", valid, "--tasks", "0"), "argument --tasks: 0 is below 1"),
        (("measure_pooled_hints.py", valid, "--keep", "nan"), "--keep: nan is not from 0 to 1"),
        (("measure_pooled_hints.py", valid, "--corrupt", "inf"), "inf is not from 0 to 1"),
        (("measure_pooled_hints.py", valid, "--corrupt", "x"), "'x' is no number"),
        (("measure_pooled_hints.py", valid, "--corrupt", "0.5"), "are together above 1"),
        (("measure_pooled_hints.py", valid, "--calls", "0"), "argument --calls: 0 is below 1"),
        (("measure_pooled_hints.py", valid, "--least", "99999"), "no task has 99999 hints"),
        (("split_families.py", third, third), f"{third} cannot hold both; name two files"),
        (
            ("split_families.py", ROOT / "dafny/curriculum/train.jsonl", third),
            "is read by this command",
        ),
        (("split_families.py", third, valid / "x"), f"cannot write {valid / 'x'}"),
        (("compare_search.py", "run", valid, third, "word"), "'word' is no KEY=VALUE"),
        (("compare_search.py", "run", valid, third, "seeds=0"), "seeds and calls are at least 1"),
    ]
    for (script, *given), said in cases:
        line = run_script(str(script), given, capfd)
        assert said in line
        assert "error: " in line
    assert valid.read_bytes() == before


def test_a_third_of_the_families_keeps_its_references(tmp_path: Path) -> None:
    third, others = tmp_path / "third.jsonl", tmp_path / "others.jsonl"
    split_families.main(third, others, whole=True)
    rows, held = ([json.loads(line) for line in path.open()] for path in (third, others))
    known = {row["metadata"]["family"] for row in rows if "reference" in row}
    assert (len(rows), sum("reference" in row for row in rows), len(known)) == (2400, 824, 16)
    assert len({row["metadata"]["family"] for row in rows}) == 46
    unknown = {row["metadata"]["family"] for row in held}
    assert (len(held), len(unknown), unknown & known) == (131, 30, set())


NO_FIGURE = {"level": "all", "pass": {"1": {"value": None}}}


def test_a_damaged_result_is_no_figure(tmp_path: Path) -> None:
    path = tmp_path / "after.json"
    for text, said in (
        ("{", "cannot be read as JSON"),
        ("{}", "changed after it was written"),
        (json.dumps(add_seal({})), "has no pass@1 of 'all'"),
        (json.dumps(add_seal({"levels": [NO_FIGURE]})), "has no pass@1"),
    ):
        path.write_text(text)
        with pytest.raises(RunError, match=said):
            reproduce.read_rate(path, "all")
    level = {**NO_FIGURE, "pass": {"1": {"value": 0.25}}}
    path.write_text(json.dumps(add_seal({"levels": [level]})))
    assert reproduce.read_rate(path, "all") == 25.0


def test_a_misspelt_method_is_said_before_anything_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ROOT / "dafny" / "curriculum" / "valid.jsonl"
    problems = load_problems(chosen)[:2]
    monkeypatch.setattr(compare_search, "choose_problems", lambda *_: problems)
    monkeypatch.setattr(compare_search, "evaluate_benchmarks", None)
    made.make_run(run := tmp_path / "run")
    with pytest.raises(ConfigError, match="unknown search 'rmax'"):
        compare_search.main(run, chosen, tmp_path / "out", ["methods=best_of_n,rmax"])
    assert not (tmp_path / "out").exists()
    shutil.copy(chosen, tmp_path / "problems.jsonl")
    with pytest.raises(UsageError, match="is read by this command"):
        compare_search.main(run, tmp_path / "problems.jsonl", tmp_path, [])
    assert (tmp_path / "problems.jsonl").read_bytes() == chosen.read_bytes()


RATES = {
    # Two problems, two seeds. Means: 1/4 and 1/2 for `plain`, 1/2 and 1 for `other`.
    "plain-0": {"p": 0.5, "q": 0.5},
    "plain-1": {"p": 0.0, "q": 0.5},
    "other-0": {"p": 0.5, "q": 1.0},
    "other-1": {"p": 0.5, "q": 1.0},
    "start-0": {"p": 0.25, "q": 0.0},
    "start-1": {"p": 0.25, "q": 0.5},
    "start-other-0": {"p": 0.0, "q": 0.0},
    "start-other-1": {"p": 0.5, "q": 0.0},
}

RESOLVED = {"learner": {"precision": "bf16"}, "sampling": {"max_new_tokens": 96}}


def test_methods_start_from_one_policy_and_are_paired_by_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[tuple[str, ...]] = []

    def prove(*words: str) -> None:
        said.append(words)
        run = Path(words[words.index("--run") + 1])
        run.mkdir(parents=True, exist_ok=True)
        made.write_json(run / "resolved.json", {"config": RESOLVED})

    monkeypatch.setattr(compare_training, "prove", prove)
    monkeypatch.setattr(compare_training, "read_rates", lambda run: RATES[run.name])
    monkeypatch.setattr(compare_training, "read_costs", lambda run: (int(run.name[-1]), 6.0, 0.5))
    file, out = tmp_path / "methods.toml", tmp_path / "out"
    file.write_text('plain = []\nother = ["warm_start.corrections=1", "a.b={out}/plain-{seed}"]\n')
    compare_training.main("demo", file, out, ["calls=9", "c.d=1"])
    # For each seed and method: the start, its evaluation, the loop, its evaluation.
    assert [Path(words[words.index("--run") + 1]).name for words in said[::2]] == [
        *("start-0", "plain-0", "start-other-0", "other-0"),
        *("start-1", "plain-1", "start-other-1", "other-1"),
    ]
    start, own_start, other = said[8], said[12], said[14]
    assert start[-3:] == ("c.d=1", "seed=1", "loop=warm_start")
    assert own_start[-2:] == ("warm_start.corrections=1", "loop=warm_start")
    assert f"a.b={out}/plain-1" in other
    assert other[6:8] == ("learner.precision=bf16", "sampling.max_new_tokens=96")
    assert f'policy.path="{out}/start-other-1/policy"' in other
    assert {"warm_start.steps=0", "max_verifier_calls=9", "max_minutes=0"} < {*other}
    rows = capsys.readouterr().out.splitlines()[-4:]
    assert rows[0] == "| plain | 50.0 / 25.0 | - | 0 | 6 | 0.5 |"
    assert rows[1].startswith("| other | 75.0 / 75.0 | +37.5 (")
    assert rows[2].startswith("| warm start | 12.5 / 37.5 | -12.5 (")
    assert rows[3].startswith("| warm start of other | 0.0 / 25.0 | -25.0 (")
    # Without a problem that one of the runs did not judge.
    monkeypatch.setitem(RATES, "other-1", {"p": 0.5})
    compare_training.main("demo", file, out, [])
    rows = capsys.readouterr().out.splitlines()[-4:]
    assert rows[0] == "| plain | 50.0 / 25.0 | - | 0 | 6 | 0.5 |"
    assert rows[1].startswith("| other | 50.0 / 50.0 | +25.0 (")


def test_what_is_no_file_of_methods_is_said(tmp_path: Path) -> None:
    file = tmp_path / "methods.toml"
    for text, match in (
        ("grpo = 1", "grpo must be a list"),
        ("", "names no method"),
        ("grpo = [", "methods.toml: "),
    ):
        file.write_text(text)
        with pytest.raises(UsageError, match=match):
            compare_training.main("demo", file, tmp_path / "out", [])
    for word, match in (("seeds", "no KEY=VALUE"), ("seeds=x", "numbers"), ("calls=0", "at least")):
        with pytest.raises(UsageError, match=match):
            compare_training.main("demo", file, tmp_path / "out", [word])
    assert not (tmp_path / "out").exists()


LOOP = """method Up(n: nat) returns (i: nat)
  ensures i == n
{
  i := 0;
  while i < n
%s  {
    i := i + 1;
  }
}
"""


@pytest.mark.dafny
@pytest.mark.slow
def test_tasks_are_programs_that_dafny_proves_with_their_hints_alone(tmp_path: Path) -> None:
    hint = "    invariant i <= n\n"
    for name, goal in {"loop": "i == n", "easy": "i >= 0", "wrong": "i > n"}.items():
        for folder, end, kept in (("ground_truth", "", hint), ("hints_removed", "_no_hints", "")):
            (place := tmp_path / "dataset" / folder).mkdir(parents=True, exist_ok=True)
            text = (LOOP % kept).replace("i == n", goal)
            (place / f"{name}{end}.dfy").write_text(text)
    out = tmp_path / "tasks.jsonl"
    said = asyncio.run(choose_tasks.choose(str(tmp_path / "dataset"), out, workers=1))
    assert said == (
        f"1 of 3 programs written to {out}; of 1 the ground truth is not proved, "
        "1 need no hint, 0 could not be read"
    )
    assert [problem.id for problem in load_problems(out)] == ["loop"]
    assert load_references(out)["loop"].strip() == (LOOP % hint).strip()


def split_as_bash(line: str) -> list[str]:
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True
    )
    return words.stdout.decode().split("\0")[:-1]


def needs_lab(name: str) -> bool:
    """True if a figure is one of the lab's: of its configurations, or of one of them on Lean."""
    commands = FIGURES[name].list_commands(name, FIGURES[name].seeds[0])
    own = ROOT / "configs/lab" / f"{name.removeprefix('lean_')}.toml"
    return own.exists() or any("configs/lab/" in line for line in commands)


@pytest.mark.parametrize("name", [name for name in FIGURES if not needs_lab(name)])
def test_the_commands_of_a_figure_set_keys_that_there_are(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    check_keys(name)


def check_keys(name: str) -> None:
    """Raise for a command that sets a key that there is not."""
    figure = FIGURES[name]
    for seed in figure.seeds:
        commands = figure.list_commands(name, seed)
        lines = [split_as_bash(line) for line in commands if line.startswith("proverrl ")]
        trained = [words[2:] for words in lines if words[:2] == ["proverrl", "train"]]
        assert trained
        evaluated = [words[2:] for words in lines if words[:2] == ["proverrl", "eval"]]
        runs: dict[str, tuple[str, list[str]]] = {}
        for config, *words in trained + evaluated:
            settings = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
            if config == "--run":
                # Of a run's policy, under the run's configuration.
                config, before = runs[words[0]]
                settings = before + settings
            loaded = load_config(config, settings)
            if [config, *words] in trained:
                # One policy for both seeds of the search.
                assert loaded.seed == (0 if name == "lean_best_first" else seed)
                runs[words[words.index("--run") + 1]] = config, settings
