"""The doctor names what is missing and what brings it, and says ready only when it is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import pytest
from rich.console import Console

from proverrl.cli import doctor
from proverrl.cli.doctor import is_healthy
from proverrl.errors import ToolchainError
from proverrl.files import extras, shipped
from proverrl.lang.dafny.verify.workers import toolchain as dafny
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.lang.lean.verify import backend as lean
from proverrl.lang.lean.verify.workers import toolchain
from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain, find_lean_toolchain
from proverrl.lang.records import Part
from tests import ROOT

EITHER = f"{sys.executable} -m proverrl.lang.dafny.install, or sudo apt-get install dafny"


def test_stored_models_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub", reason="needs the extra train")
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    assert doctor.check_models() == Part("models", "absent", f"none in {cache}")
    for name in ("models--acme--coder", "datasets--acme--rows"):
        snapshot = cache / name / "snapshots" / "abc"
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_bytes(b" " * 60_000_000)
        (cache / name / "refs").mkdir()
        (cache / name / "refs" / "main").write_text("abc")
    found = Part("models", "ok", f"acme/coder (0.1 GB) in {cache}")
    assert doctor.check_models() == found


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
    monkeypatch.setattr(dafny, "list_dafny", lambda: [found.dafny])
    monkeypatch.delenv("PROVERRL_SECOND_DAFNY", raising=False)


def test_a_whole_dafny_is_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    give_toolchain(monkeypatch, server=("/bin/mono", "/lib/DafnyServer.exe"), z3_version="4.8.5")
    assert dafny.check_dafny() == [
        Part(
            "Dafny",
            "weak",
            "2.3.0, /bin/dafny: Dafny 4 texts are not read",
            f"{sys.executable} -m proverrl.lang.dafny.install",
        ),
        Part("DafnyServer", "ok", "/lib/DafnyServer.exe"),
        Part("mono", "ok", "/bin/mono"),
        Part(
            "second judge",
            "absent",
            "none is named: what Dafny proves counts at once (pool.confirm)",
            "dotnet tool install --global dafny --version 4.11.0 and set PROVERRL_SECOND_DAFNY to "
            "its dafny",
        ),
        Part("z3", "ok", "4.8.5, /bin/z3"),
    ]


def test_the_fallbacks_are_weak_but_work(monkeypatch: pytest.MonkeyPatch) -> None:
    give_toolchain(monkeypatch, server=None, z3_version="4.8.12")
    findings = dafny.check_dafny()
    assert [(item.name, item.state) for item in findings] == [
        ("Dafny", "weak"),
        ("DafnyServer", "weak"),
        ("second judge", "absent"),
        ("z3", "weak"),
    ]
    assert findings[1].remedy == "sudo apt-get install dafny mono-runtime"
    assert findings[3].remedy == f"{sys.executable} -m pip install z3-solver==4.8.5.0"
    assert is_healthy(findings)


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("Dafny is not installed; run: x", EITHER),
        (
            "z3 is not installed; run: pip install z3-solver==4.8.5.0",
            f"{sys.executable} -m pip install z3-solver==4.8.5.0",
        ),
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


def test_a_dafny_that_misses_its_z3_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "dafny"
    program.write_text("#!/bin/sh\necho '*** ProverException: Cannot find /usr/bin/z3'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PROVERRL_DAFNY", str(program))
    (finding,) = dafny.check_dafny()
    assert "(*** ProverException: Cannot find /usr/bin/z3)" in finding.detail
    assert finding.remedy == EITHER


def test_what_trains_is_missing_only_where_a_part_of_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = f"{sys.executable} -m pip install -e '.[train]'"
    parts = doctor.check_training()
    assert [(part.name, part.state) for part in parts] == [("torch", "ok"), ("training", "ok")]
    assert parts[1].detail.startswith(f"transformers {metadata.version('transformers')}, ")
    monkeypatch.setattr(doctor, "TRAINING", ("torch", "no_such_module", "numpy", "nor_this"))
    detail = "not installed: no_such_module, nor_this"
    parts = doctor.check_training()
    assert parts[1:] == [Part("training", "missing", detail, command)]
    assert not is_healthy(parts)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    detail = "not installed; verifying, serving and checking do without it"
    parts = doctor.check_training()
    assert parts == [Part("training", "absent", detail, command)]
    assert is_healthy(parts)


def test_a_missing_extra_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.OPTIONAL, "no_such_module", "fast")
    monkeypatch.setitem(extras.EXTRAS, "no_such_module", "vllm")
    finding = doctor.check_optional("no_such_module")
    assert finding == Part(
        "no-such-module", "absent", "fast", f"{sys.executable} -m pip install -e '.[vllm]'"
    )
    assert is_healthy([finding])


def test_remedies_name_the_checkout_where_another_folder_is_the_working_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert extras.install_extra("vllm").endswith(f" -m pip install -e '{ROOT}[vllm]'")
    assert shipped.find_script("setup_lean.sh") == ROOT / "scripts" / "setup_lean.sh"
    monkeypatch.chdir(ROOT)
    assert extras.install_extra("vllm").endswith(" -m pip install -e '.[vllm]'")
    assert str(shipped.find_script("setup_lean.sh")) == "scripts/setup_lean.sh"


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


def find_lean_states() -> dict[str, tuple[str, str, str]]:
    return {part.name: (part.state, part.detail, part.remedy) for part in lean.check_lean()}


FALSE_LEAN = """#!/bin/sh
case "$*" in
--print-prefix) echo "{prefix}";;
--version) echo "Lean (version 4.35.0, x86_64-unknown-linux-gnu, Release)";;
--worker*) echo "no library here" >&2; exit 3;;
esac
"""


@pytest.fixture
def false_lean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Lean that finds nothing wrong with anything and compiles nothing; its server dies."""
    program = tmp_path / "bin" / "lean"
    program.parent.mkdir()
    program.write_text(FALSE_LEAN.format(prefix=tmp_path), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.delenv("PROVERRL_LEAN_PROJECT", raising=False)
    monkeypatch.setenv("PROVERRL_LEAN", str(program))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("ELAN_HOME", str(tmp_path / "elan"))
    monkeypatch.setattr(toolchain, "_OWN_PROJECT", tmp_path / "none")
    return program


def test_a_lean_whose_canaries_fail_is_named_with_the_reason(
    false_lean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lean, "find_checkers", lambda: {"leanchecker": "/bin/leanchecker"})
    findings = find_lean_states()
    absent = ("absent", "not found; verify --paranoid does without it", "")
    assert findings == {
        "Lean": ("ok", f"4.35.0, without Mathlib, {false_lean}", ""),
        "lean-server": ("weak", "Lean's server died; it said: no library here", ""),
        "lean-file": ("weak", "Lean compiled nothing and said no error: ()", ""),
        "leanchecker": ("ok", "/bin/leanchecker", ""),
        "safe_verify": absent,
        "comparator": absent,
    }
    assert is_healthy(lean.check_lean())


def test_a_lean_that_never_answers_does_not_hold_the_doctor_up(
    false_lean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = false_lean.read_text("utf-8").replace("exit 3", "exec sleep 1000")
    false_lean.write_text(text, encoding="utf-8")
    monkeypatch.setattr(lean, "_CANARY_SECONDS", 0.2)
    assert find_lean_states()["lean-server"] == ("weak", "no answer in 0.2 seconds", "")


def test_a_project_that_is_not_used_is_a_part_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = "/p is not used, only core Lean is there: no manifest; run: cd /p && lake update"
    found = LeanToolchain("4.32.0", ("/no/lean",), trouble=trouble)
    monkeypatch.setattr(lean, "find_lean_toolchain", lambda *_: found)
    findings = lean.check_lean()
    assert findings[1] == Part(
        "Lean project",
        "weak",
        "/p is not used, only core Lean is there: no manifest",
        "cd /p && lake update",
    )


@pytest.mark.lean
def test_a_real_lean_tells_true_from_false_in_every_way_that_is_there() -> None:
    try:
        found = find_lean_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no real Lean here: {error}")
    findings = find_lean_states()
    assert findings["Lean"][:2] == (
        "ok",
        f"{found.lean_version}, {'with' if found.has_mathlib else 'without'} Mathlib, "
        f"{found.lean_command[0]}",
    )
    assert findings["lean-server"] == (
        "ok",
        "tells true from false; used, because it needs Lean alone and elaborates only what changed",
        "",
    )
    state, said, remedy = findings["lean-file"]
    told = "tells true from false; a fresh process each; confirms what was accepted"
    missing = "; this Lean cannot replay proofs in its kernel (it has no compiled `Lean.Replay`)"
    replays = (Path(found.lean_command[0]).parents[1] / "lib/lean/Lean/Replay.olean").exists()
    assert (state, said, remedy) == (("ok", told, "") if replays else ("weak", told + missing, ""))


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
        "proverrl.lang.lean.verify.backend.check_lean", lambda: [Part("Lean", "absent", "x")]
    )
    names = [finding.name for finding in doctor.diagnose(tmp_path)]
    assert names == [
        "Python",
        *("torch", "training"),
        *("Dafny", "DafnyServer", "mono", "second judge", "z3", "Lean"),
        *("vllm", "peft", "tensorboard", "wandb", "ray", "mcp", "lean-dojo", "models"),
        *("run folder", "verdict cache"),
    ]


def test_the_verdict_cache_is_named_with_its_size(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "verdicts.sqlite"
    assert doctor.check_cache(path) == Part("verdict cache", "ok", f"{path}, not there yet")
    path.parent.mkdir()
    path.write_bytes(b"x" * 2_500_000)
    assert doctor.check_cache(path).detail == f"{path}, 2.5 MB"
    folder = doctor.check_cache(path.parent)
    assert (folder.state, folder.remedy) == ("weak", "name another with pool.cache")
    assert "Is a directory" in folder.detail
