"""Finding Lean, over made-up programs lean and lake."""

import os
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from proverrl.config.base import LeanBackend
from proverrl.errors import ToolchainError
from proverrl.lang.base import BackendOptions
from proverrl.lang.lean.verify.backend import open_lean
from proverrl.lang.lean.verify.workers import toolchain as lean_toolchain
from proverrl.lang.lean.verify.workers.messages import Elaboration, LeanMessage, Position
from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain, find_lean_toolchain
from proverrl.lang.lean.verify.workers.worker import _explain_header as explain_header
from proverrl.types import HOLE, Problem
from proverrl.verifier.base import Limits
from tests import ROOT

REMEDY = "bash scripts/setup_lean.sh"

PIN = "leanprover/lean4:v4.32.0"
# Like ``lake --dir=P env CMD``: it runs the command with the project's search path.
LAKE = """#!/bin/sh
echo "$1 $2" >>"{log}"
echo "lake speaks first" >&2
project=${{1#--dir=}}
[ "$2" = env ] && shift 2
if [ -e "$project/unfetched" ]; then echo "error: missing manifest" >&2; exit 1; fi
LEAN_PATH="$project/.lake/build/lib/lean:$project/.lake/packages/mathlib/lib${{LEAN_PATH:+:$LEAN_PATH}}"
export LEAN_PATH
exec "$@"
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def write_lean(place: Path, prefix: Path, version: str = "4.32.0") -> Path:
    """A ``lean`` that says where it really is, as elan's does, which wants to know a release."""
    write(prefix / "bin" / "lean", "#!/bin/sh\n") if place != prefix / "bin" / "lean" else None
    needs = f'[ "$ELAN_TOOLCHAIN" = {PIN} ] || {{ echo "no default toolchain" >&2; exit 1; }}\n'
    return write(
        place,
        "#!/bin/sh\n"
        + (needs if "elan" in str(place) else "")
        + f'case "$1" in\n--print-prefix) echo {shlex.quote(str(prefix))};;\n'
        f'--version) echo "Lean (version {version}, x86_64-unknown-linux-gnu, Release)";;\nesac\n',
    )


def write_elan(machine: Path) -> Path:
    """elan's folder with lake and lean; the program of the pinned release."""
    program = machine / "elan" / "toolchains" / "leanprover--lean4---v4.32.0"
    write(machine / "elan" / "bin" / "lake", LAKE.format(log=machine / "asked"))
    write_lean(machine / "elan" / "bin" / "lean", program)
    return program / "bin" / "lean"


def write_project(project: Path) -> Path:
    write(project / "lakefile.toml", "")
    return write(project / "lean-toolchain", f"{PIN}\n").parent


def find_variables(found: LeanToolchain) -> dict[str, str]:
    return dict(found.environment)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing of Lean on it."""
    for name in ("", "_PROJECT"):
        monkeypatch.delenv(f"PROVERRL_LEAN{name}", raising=False)
    for name in ("ELAN_TOOLCHAIN", "LEAN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ELAN_HOME", str(tmp_path / "elan"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(lean_toolchain, "_OWN_PROJECT", tmp_path / "lean")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_project_of_this_repository_is_looked_for_at_its_root() -> None:
    assert ROOT / "lean" == lean_toolchain._OWN_PROJECT


def explain(backend: LeanBackend = "lean-server") -> str:
    with pytest.raises(ToolchainError) as caught:
        find_lean_toolchain(backend)
    return str(caught.value)


def test_what_is_missing_is_said_with_its_remedy(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = machine / "elan" / "bin"
    missing = (
        f"Lean is not installed (not on PATH or in {place}; PROVERRL_LEAN can name a program); "
        f"run: {REMEDY}"
    )
    assert explain() == missing
    monkeypatch.setenv("PROVERRL_LEAN", str(machine / "nothing"))
    assert explain() == (
        f"PROVERRL_LEAN names no program (correct it, or unset it): {machine / 'nothing'}; "
        f"run: {REMEDY}"
    )
    monkeypatch.delenv("PROVERRL_LEAN")
    monkeypatch.setenv("PROVERRL_LEAN_PROJECT", str(machine / "nowhere"))
    assert explain() == f"PROVERRL_LEAN_PROJECT needs lake, which is not here; run: {REMEDY}"
    write_elan(machine)
    assert explain() == (
        f"PROVERRL_LEAN_PROJECT names no Lean project: {machine / 'nowhere'} has no lakefile; "
        f"run: {REMEDY}"
    )
    monkeypatch.delenv("PROVERRL_LEAN_PROJECT")
    # elan without a default release, and no project that pins one.
    assert explain() == (f"{place / 'lean'} gave no answer: 'no default toolchain'; run: {REMEDY}")


@pytest.mark.parametrize(
    "lean",
    [
        "#!/bin/sh\necho 'Lean (version 4.32.0, Release)'\n",
        "#!/bin/sh\necho /usr; echo nonsense\n",
        "#!/bin/sh\nexit 3\n",
    ],
)
def test_a_lean_that_does_not_say_what_it_is_is_refused(
    machine: Path, monkeypatch: pytest.MonkeyPatch, lean: str
) -> None:
    program = write(machine / "bin" / "lean", lean)
    monkeypatch.setenv("PROVERRL_LEAN", str(program))
    said = explain()
    assert said.startswith(f"{program} gave no answer: ")
    assert said.endswith(f"; run: {REMEDY}")


def test_elans_lean_is_resolved_to_the_program_of_the_pinned_release(machine: Path) -> None:
    program = write_elan(machine)
    write_project(machine / "lean")
    found = find_lean_toolchain()
    assert found == LeanToolchain(
        "4.32.0",
        (str(program),),
        found.environment,
        machine / "lean",
        lake=str(machine / "elan" / "bin" / "lake"),
    )
    assert found.name == "lean 4.32.0 (lean-server)"
    folders = [str(program.parent), str(machine / "elan" / "bin"), "/usr/bin", "/bin"]
    # What the search path names is not built here, so that there is none.
    assert find_variables(found) == {
        "ELAN_HOME": str(machine / "elan"),
        "ELAN_TOOLCHAIN": PIN,
        "PATH": os.pathsep.join(folders),
    }
    # The search path, the program and the version were asked for at once.
    assert (machine / "asked").read_text("utf-8") == f"--dir={machine / 'lean'} env\n"


def test_plain_lean_needs_neither_lake_nor_a_project(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lean = write_lean(machine / "bin" / "lean", machine, "4.33.0-nightly-2026-06-01")
    monkeypatch.setenv("PATH", f"{lean.parent}:/usr/bin:/bin")
    write_project(machine / "lean")
    found = find_lean_toolchain("lean-file")
    assert found == LeanToolchain(
        "4.33.0-nightly-2026-06-01", (str(lean),), found.environment, backend="lean-file"
    )
    assert find_variables(found) == {"PATH": f"{lean.parent}:/usr/bin:/bin"}


def test_a_lean_that_was_named_is_used_as_it_is(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_elan(machine)
    write_project(machine / "lean")
    # A wrapper: what it says of its prefix does not replace it.
    lean = write_lean(machine / "wrapped" / "lean", machine / "prefix", "4.35.0")
    monkeypatch.setenv("PROVERRL_LEAN", str(lean))
    monkeypatch.setenv("LEAN_PATH", f"{machine / 'lean'}::missing:wrapped")
    found = find_lean_toolchain()
    assert (found.lean_version, found.lean_command) == ("4.35.0", (str(lean),))
    assert (found.project, (machine / "asked").exists()) == (None, False)
    variables = find_variables(found)
    assert variables["LEAN_PATH"] == f"{machine / 'lean'}:{machine / 'wrapped'}"
    assert variables["PATH"].startswith(f"{lean.parent}:")
    # With a project that was named too, that project's lake is asked about this program.
    monkeypatch.setenv("PROVERRL_LEAN_PROJECT", str(machine / "lean"))
    (machine / "lean" / ".lake" / "build" / "lib" / "lean").mkdir(parents=True)
    found = find_lean_toolchain()
    assert (found.lean_command, found.project) == ((str(lean),), machine / "lean")
    built = machine / "lean" / ".lake" / "build" / "lib" / "lean"
    assert find_variables(found)["LEAN_PATH"].split(":")[0] == str(built)
    # elan's own program is no wrapper.
    monkeypatch.setenv("PROVERRL_LEAN", str(machine / "elan" / "bin" / "lean"))
    (program,) = find_lean_toolchain().lean_command
    assert program == str(machine / "elan/toolchains/leanprover--lean4---v4.32.0/bin/lean")


def test_a_fetched_mathlib_project_is_preferred_and_named(machine: Path) -> None:
    write_elan(machine)
    write_project(machine / "lean")
    mathlib = write_project(machine / "lean" / "mathlib")
    assert find_lean_toolchain().project == machine / "lean"
    library = mathlib / ".lake" / "packages" / "mathlib" / "lib"
    library.mkdir(parents=True)
    found = find_lean_toolchain()
    # Fetched, but not its compiled files.
    assert (found.project, found.has_mathlib) == (mathlib, False)
    (library / "Mathlib.olean").touch()
    found = find_lean_toolchain()
    assert found.name == "lean 4.32.0 (lean-server), mathlib"
    assert find_variables(found)["LEAN_PATH"] == str(library)


def test_verdicts_of_one_search_path_are_not_those_of_another(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two projects may declare other things under the same names."""
    monkeypatch.setenv("PROVERRL_LEAN", str(write_lean(machine / "bin" / "lean", machine)))
    salts = set()
    for folder in ("a", "b"):
        (machine / folder).mkdir()
        monkeypatch.setenv("LEAN_PATH", str(machine / folder))
        opened = open_lean(BackendOptions(workers=1, limits=Limits()))
        assert opened.toolchain == "lean 4.32.0 (lean-server)"
        salts.add(opened.salt)
    assert len(salts) == 2


@pytest.mark.parametrize(
    ("project", "remedy"),
    [("lean/mathlib", f"{REMEDY} --mathlib"), ("lean", "cd {} && lake update")],
)
def test_a_project_that_was_not_fetched_leaves_plain_lean(
    machine: Path, monkeypatch: pytest.MonkeyPatch, project: str, remedy: str
) -> None:
    program = write_elan(machine)
    folder = write_project(machine / project)
    (machine / "lean" / "mathlib" / ".lake" / "packages" / "mathlib").mkdir(parents=True)
    (folder / "unfetched").touch()
    found = find_lean_toolchain()
    assert (found.lean_command, found.project) == ((str(program),), None)
    lake = machine / "elan" / "bin" / "lake"
    why = (
        f"{lake} --dir={folder} env lean gave no answer: "
        f"'lake speaks first\\nerror: missing manifest'; run: {remedy.format(folder)}"
    )
    assert found.trouble == f"{folder} is not used, only core Lean is there: {why}"
    # An import that fails for that reason says so.
    failed = Elaboration(None, (LeanMessage("error", "unknown module", Position(1, 0)),))
    problem = Problem("p", "lean", "term", "import Mathlib\n", f"theorem p : True := {HOLE}\n")
    assert explain_header(problem, failed, found) == (
        f"problem 'p': its imports fail in Lean: unknown module; {found.trouble}"
    )
    # One that was asked for by name is never left out.
    monkeypatch.setenv("PROVERRL_LEAN_PROJECT", str(folder))
    assert explain() == why


def test_variables_decide_over_places(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_elan(machine)
    write_project(machine / "lean")
    write(machine / "other" / "lakefile.lean", "")
    write(machine / "other" / "lean-toolchain", f"{PIN}\n")
    monkeypatch.setenv("PROVERRL_LEAN_PROJECT", "other")
    found = find_lean_toolchain("lean-file")
    assert found.project == machine / "other"
    assert found.name == "lean 4.32.0 (lean-file)"


SCRIPT = ROOT / "scripts" / "setup_lean.sh"
# Stands in for curl: what it "downloads" installs an elan whose lean and lake are made up.
CURL = """#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = --output ] && out="$2"; shift; done
if [ -e "{machine}/offline" ]; then echo "curl: no network" >&2; exit 6; fi
cat >"$out" <<'END'
echo "elan-init $*" >>"{machine}/done"
mkdir -p "$ELAN_HOME/bin"
cp "{machine}/new/lean" "{machine}/new/lake" "$ELAN_HOME/bin/"
END
"""
ELAN_LEAN = """#!/bin/sh
[ -z "$ELAN_TOOLCHAIN" ] && exit 1
if [ "$1" = --stdin ]; then read -r line; echo "lean read: $line" >>"{machine}/done"; exit; fi
place="$ELAN_HOME/toolchains/leanprover--lean4---v4.32.0/bin"
if [ ! -e "$place/lean" ]; then
  [ -e "{machine}/offline" ] && {{ echo "error: no network" >&2; exit 1; }}
  echo "elan installs $ELAN_TOOLCHAIN" >>"{machine}/done"
  mkdir -p "$place" && cp "$0" "$place/lean"
fi
echo "Lean (version 4.32.0, x86_64-unknown-linux-gnu, Release)"
"""
SETUP_LAKE = """#!/bin/sh
echo "${{PWD##*/}}: lake $*" >>"{machine}/done"
case "$*" in "$(cat "{machine}/fails" 2>/dev/null)") exit 1;; esac
mkdir -p .lake
[ "$1" = env ] && {{ shift; exec "$@"; }}
exit 0
"""


def prepare(machine: Path) -> None:
    """A copy of the script with projects of its own, on a machine without Lean or a network."""
    write(machine / "scripts" / "setup_lean.sh", SCRIPT.read_text("utf-8"))
    for project in ("lean", "lean/mathlib"):
        write_project(machine / project)
    for place, text in (
        ("bin/curl", CURL),
        ("bin/git", "#!/bin/sh\n"),
        ("new/lean", ELAN_LEAN),
        ("new/lake", SETUP_LAKE),
    ):
        write(machine / place, text.format(machine=machine))


def set_up(machine: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{machine / 'bin'}:/usr/bin:/bin"
    environment = {"PATH": path, "ELAN_HOME": str(machine / "elan"), "HOME": str(machine)}
    command = ["bash", str(machine / "scripts" / "setup_lean.sh"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def take_done(machine: Path) -> list[str]:
    """What the stand-ins were asked to do since the last call."""
    place = machine / "done"
    lines = place.read_text("utf-8").splitlines() if place.exists() else []
    place.unlink(missing_ok=True)
    return lines


THERE = "setup_lean: Lean is there: Lean (version 4.32.0, x86_64-unknown-linux-gnu, Release)"
END = "setup_lean: done; try: proverrl doctor"
UPDATE = "lake --keep-toolchain update"


def test_the_plain_call_installs_elan_and_the_release_and_builds_nothing(machine: Path) -> None:
    prepare(machine)
    done = set_up(machine)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"setup_lean: installing elan into {machine / 'elan'} (from github.com)",
        THERE,
        END,
    ]
    assert take_done(machine) == [
        f"elan-init -y --no-modify-path --default-toolchain {PIN}",
        f"elan installs {PIN}",
    ]
    # Again: without a network, and nothing is left to do.
    (machine / "offline").touch()
    again = set_up(machine)
    assert (again.returncode, again.stdout.splitlines()) == (0, [THERE, END])
    assert take_done(machine) == []
    plan = set_up(machine, "--plan")
    assert plan.stdout.splitlines() == [
        f"setup_lean: {PIN} is installed",
        "setup_lean: needs the network and by estimate 2 GB of disk for Lean",
    ]


def test_an_interrupted_set_up_goes_on(machine: Path) -> None:
    prepare(machine)
    (machine / "offline").touch()
    first = set_up(machine)
    assert first.returncode == 1
    assert first.stderr.splitlines()[:2] == [
        "curl: no network",
        "setup_lean: error: elan was not installed",
    ]
    for name in ("lean", "lake"):
        write(machine / "elan" / "bin" / name, (machine / "new" / name).read_text("utf-8"))
    second = set_up(machine)
    assert second.returncode == 1
    assert second.stderr.splitlines()[:2] == [
        "error: no network",
        f"setup_lean: error: {PIN} was not installed",
    ]
    (machine / "offline").unlink()
    assert set_up(machine).returncode == 0
    assert take_done(machine) == [f"elan installs {PIN}"]


def test_mathlib_is_fetched_once_and_again_for_another_pin(machine: Path) -> None:
    steps = [
        f"mathlib: {UPDATE}",
        "mathlib: lake exe cache get",
        "mathlib: lake env lean --stdin",
        "lean read: import Mathlib",
    ]
    prepare(machine)
    assert set_up(machine).returncode == 0
    take_done(machine)
    (machine / "fails").write_text("exe cache get", encoding="utf-8")
    failed = set_up(machine, "--mathlib")
    assert failed.returncode == 1
    assert "setup_lean: error: Mathlib's compiled files were not fetched\n" in failed.stderr
    assert take_done(machine) == steps[:2]
    (machine / "fails").unlink()
    done = set_up(machine, "--mathlib")
    assert (done.returncode, done.stderr, done.stdout.splitlines()[-1]) == (0, "", END)
    assert take_done(machine) == steps
    again = set_up(machine, "--mathlib")
    assert again.stdout.splitlines() == [THERE, "setup_lean: lean/mathlib is ready", END]
    assert take_done(machine) == []
    write(machine / "lean" / "mathlib" / "lakefile.toml", "# another release\n")
    assert set_up(machine, "--mathlib").returncode == 0
    assert take_done(machine) == steps


def test_a_lean_of_another_release_is_named(machine: Path) -> None:
    prepare(machine)
    lean = write(machine / "bin" / "lean", '#!/bin/sh\necho "Lean (version 4.9.0, Release)"\n')
    done = set_up(machine)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"setup_lean: error: {lean} is another release: Lean (version 4.9.0, Release)",
        f"            This project pins {PIN}. Remove that Lean from PATH, or use it as it is: "
        f"PROVERRL_LEAN={lean}",
    ]


def test_the_setup_script_tells_its_plan(machine: Path) -> None:
    prepare(machine)
    done = set_up(machine, "--mathlib", "--plan")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"setup_lean: would install elan and {PIN} into {machine / 'elan'}",
        "setup_lean: would make lean/mathlib",
        "setup_lean: needs the network and by estimate 2 GB of disk for Lean, "
        "9 GB for Mathlib and its compiled files",
    ]
    assert not (machine / "elan").exists()


def test_the_setup_script_refuses_what_it_does_not_know(machine: Path) -> None:
    prepare(machine)
    done = set_up(machine, "--force")
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


def test_all_projects_pin_one_release() -> None:
    """The plain project requires nothing, so that Lean alone is enough for it."""
    lean = SCRIPT.parents[1] / "lean"
    pin = (lean / "lean-toolchain").read_text("utf-8")
    assert pin == f"{PIN}\n"
    required = {}
    for folder in (lean, lean / "mathlib"):
        assert (folder / "lean-toolchain").read_text("utf-8") == pin
        lakefile = tomllib.loads((folder / "lakefile.toml").read_text("utf-8"))
        required[folder.name] = [(one["name"], one["rev"]) for one in lakefile.get("require", [])]
    release = PIN.rpartition(":")[2]
    assert required == {"lean": [], "mathlib": [("mathlib", release)]}
