"""What a user has who installed the wheel: no repository, an empty folder, the commands."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from proverrl.cli.main import main
from proverrl.config import load_config
from proverrl.errors import ConfigError
from proverrl.files import extras, shipped
from tests import ROOT
from tests.house.test_docs import SMALLEST
from tests.house.test_scripts import read_project


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, and of this one's packages those that it needs."""
    place = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    with (ROOT / "pyproject.toml").open() as project:
        # Setuptools builds in the folder itself, and other modules want a wheel too.
        fcntl.flock(project, fcntl.LOCK_EX)
        subprocess.run([*build, "-w", str(place), str(ROOT)], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "env")], check=True)
    python = place / "env" / "bin" / "python"
    [wheel] = place.glob("*.whl")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps"]
    subprocess.run([*install, str(wheel)], env=own_environment(), check=True)
    [packages] = (place / "env").glob("lib/python*/site-packages")
    # A path and no more: the .pth file of the editable install there is not read.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "env"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the user works: empty at first, then as the tests before left it."""
    return tmp_path_factory.mktemp("work")


def own_environment() -> dict[str, str]:
    """Without a path to the repository."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(environment: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # A width of its own: where lines break would else depend on the terminal that starts the tests.
    own = {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}", "COLUMNS": "200"}
    command = [str(environment / "bin" / "proverrl"), *words]
    return subprocess.run(
        command, cwd=folder, env=own_environment() | own, capture_output=True, text=True
    )


@pytest.mark.slow
def test_the_wheel_holds_what_is_looked_up(environment: Path) -> None:
    [wheel] = environment.parent.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        ["git", "ls-files", *shipped.FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert {f"proverrl/shipped/{name}" for name in tracked} - names == set()
    assert "proverrl/py.typed" in names


@pytest.mark.slow
def test_the_installed_package_is_the_one_that_runs(environment: Path, folder: Path) -> None:
    code = "import proverrl, proverrl.files.shipped as s; print(s.shipped_root(), s.is_checkout())"
    python = [str(environment / "bin" / "python"), "-c", code]
    done = subprocess.run(
        python, cwd=folder, env=own_environment(), capture_output=True, text=True, check=True
    )
    [packages] = environment.glob("lib/python*/site-packages")
    assert done.stdout.split() == [str(packages / "proverrl" / "shipped"), "False"]


@pytest.mark.slow
@pytest.mark.dafny
def test_the_shipped_example_prints_its_table(environment: Path, folder: Path) -> None:
    [script] = environment.glob("lib/python*/site-packages/proverrl/shipped/examples/verify_*.py")
    done = subprocess.run(
        [str(environment / "bin" / "python"), str(script)],
        cwd=folder,
        env=own_environment() | {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split()[1:3] for line in done.stdout.splitlines()]
    assert rows == 3 * [["right", "proved"], ["weak", "rejected"], ["cheat", "unsound"]]
    assert "'assume' assumes what is to be proved" in done.stdout


@pytest.mark.slow
@pytest.mark.dafny
def test_a_stranger_gets_from_an_empty_folder_to_a_trained_policy(
    environment: Path, folder: Path
) -> None:
    trained = run(environment, folder, "train", "demo", *SMALLEST)
    assert trained.returncode == 0, trained.stderr
    assert (folder / "runs" / "demo" / "evals" / "after.json").is_file()
    evaluated = run(
        *(environment, folder, "eval", "--run", "runs/demo", "--name", "own"),
        *("--benchmark", "proverrl-dafny", "-k", "1", "evaluation.max_problems=3"),
    )
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads((folder / "runs/demo/evals/own.json").read_text())["num_problems"] == 3
    searched = run(
        *(environment, folder, "search", "dafny-l5-rev-9fa438b9", "--run", "runs/demo"),
        *("--set", "search.calls=2", "--set", "search.name=best_of_n"),
    )
    assert searched.returncode == 1, searched.stderr  # not proved: such a policy knows nothing
    assert "written: " in searched.stdout


@pytest.mark.slow
@pytest.mark.dafny
def test_own_problems_are_made_and_trained_on(environment: Path, folder: Path) -> None:
    made = run(environment, folder, "init", "mine", "--per-level", "4")
    assert made.returncode == 0, made.stderr
    place = folder / "mine"
    rows = [json.loads(line) for line in (place / "problems/train.jsonl").open()]
    levels = [row["metadata"]["level"] for row in rows]
    assert sorted(levels) == sorted(4 * [1, 2, 3, 4, 5])
    assert all(row["reference"] for row in rows)
    again = run(environment, folder, "init", "mine")
    assert again.returncode == 2
    assert "mine/configs/demo.toml is there already; nothing was written" in again.stderr
    # From elsewhere: the problems lie beside the file.
    trained = run(environment, folder, "train", "mine/mine.toml", *SMALLEST)
    assert trained.returncode == 0, trained.stderr
    stored = json.loads((folder / "runs/mine/resolved.json").read_text())["config"]["problems"]
    assert stored["train"] == "mine/problems/train.jsonl"


@pytest.mark.slow
@pytest.mark.dafny
def test_a_verdict_is_kept_between_commands(
    environment: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    shutil.copy(ROOT / "examples" / "copy.dfy", folder)
    first = run(environment, folder, "verify", "copy.dfy", "--json")
    assert first.returncode == 0, first.stderr
    assert (folder / "cache" / "proverrl" / "verdicts.sqlite").is_file()
    second = run(environment, folder, "verify", "copy.dfy", "--json")
    seconds = [json.loads(done.stdout)["queue_seconds"] for done in (first, second)]
    assert json.loads(second.stdout)["status"] == "proved"
    assert seconds[1] == 0 < seconds[0]


def test_named_configurations_are_those_that_come_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    by_name = load_config(Path("presets/dapo"))
    assert by_name == load_config(Path("configs/presets/dapo.toml"))
    assert by_name == load_config(ROOT / "configs/presets/dapo.toml")
    with pytest.raises(ConfigError, match=r"^dem: no such configuration file; .*'demo'"):
        load_config(Path("dem"))
    # One's own file of a shipped name comes first, and may extend the shipped one by name.
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "demo.toml").write_text('extends = "grpo"\nseed = 7\n')
    mine = load_config(Path("configs/demo.toml"))
    assert (mine.seed, mine.run) == (7, Path("runs/grpo"))
    assert load_config(Path("demo")).seed == 0


def test_problems_are_looked_for_beside_the_file_then_here_then_among_the_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub" / "rows").mkdir(parents=True)
    (tmp_path / "sub" / "own.toml").write_text(
        'problems = {train = "rows/t.jsonl", valid = "rows/v.jsonl"}\n'
        'evaluation.benchmarks = ["rows/t.jsonl", "minif2f"]\n'
    )
    (tmp_path / "sub" / "rows" / "t.jsonl").touch()
    config = load_config(Path("sub/own.toml"))
    assert config.problems.train == Path("sub/rows/t.jsonl")
    assert config.evaluation.benchmarks == ("sub/rows/t.jsonl", "minif2f")
    assert config.problems.valid == Path("rows/v.jsonl")
    assert shipped.find_file("rows/v.jsonl") == Path("rows/v.jsonl")
    there = Path("dafny/curriculum/valid.jsonl")
    assert shipped.find_file(there) == ROOT / there
    # A table's title has the name that was typed, not the folder of the package.
    assert shipped.name_file(ROOT / there) == "dafny/curriculum/valid.jsonl"
    assert shipped.name_file(ROOT / "pyproject.toml") == str(ROOT / "pyproject.toml")
    (tmp_path / "dafny" / "curriculum").mkdir(parents=True)
    (tmp_path / there).touch()
    assert shipped.find_file(there) == there


@pytest.mark.parametrize("name", ["/etc/passwd", "configs/../pyproject.toml", "pyproject.toml", ""])
def test_only_shipped_files_are_found_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shipped.find_file(name) == Path(name)
    assert name == "/etc/passwd" or shipped.find_config(Path(name)) is None


def test_setup_ships_the_folders_that_are_looked_in() -> None:
    said = next(line for line in (ROOT / "setup.py").open() if line.startswith("FOLDERS"))
    assert said == f"FOLDERS = {json.dumps(shipped.FOLDERS)[1:-1].join('()')}\n"


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with this checkout, and of this one's packages only those that
    ``pip install proverrl[dafny]`` brings."""
    place = tmp_path_factory.mktemp("light") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    [packages] = place.glob("lib/python*/site-packages")
    (packages / "checkout.pth").write_text(f"{ROOT}\n")
    project = read_project()
    for name in close_over(project["dependencies"] + project["optional-dependencies"]["dafny"]):
        found = metadata.distribution(name)
        # A package's programs lie elsewhere, above this folder.
        tops = {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}
        for top in tops:
            if not (packages / top).exists():
                (packages / top).symlink_to(str(found.locate_file(top)))
    python = place / "bin" / "python"
    (place / "bin" / "proverrl").write_text(
        f"#!{python}\nfrom proverrl.cli.main import main\nmain()\n"
    )
    (place / "bin" / "proverrl").chmod(0o755)
    return place


def close_over(wanted: list[str]) -> set[str]:
    """The names of the installed packages that requirements ask for, and what those need."""
    names: set[str] = set()
    todo = [(Requirement(text), "") for text in wanted]
    while todo:
        requirement, extra = todo.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        if name not in names or requirement.extras:
            names.add(name)
            needs = [Requirement(text) for text in metadata.requires(name) or ()]
            todo += [(need, extra) for need in needs for extra in ("", *requirement.extras)]
    return names


def imported_modules() -> set[str]:
    """The outermost names that the package imports anywhere."""
    found = set()
    for path in (ROOT / "proverrl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def test_the_extras_are_those_of_the_project() -> None:
    project = read_project()
    optional = project["optional-dependencies"]
    named = {
        extra: {canonicalize_name(Requirement(text).name) for text in texts}
        for extra, texts in optional.items()
    }
    assert {canonicalize_name(name) for name in extras.TRAINING} == named["train"]
    for module, extra in extras.EXTRAS.items():
        assert canonicalize_name(module) in named[extra], module
    # What the package imports, it asks for; and it asks for nothing else.
    core = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    # The server's protocol is uvicorn's over httptools, which uvicorn alone does not bring.
    imported = {canonicalize_name(name) for name in imported_modules()} | {"httptools"}
    assert (core | named["train"]) - imported == set()
    assert core.isdisjoint(named["train"])


def test_the_light_environment_has_no_extra(light: Path) -> None:
    code = "import sys; from importlib.util import find_spec as f; print(*filter(f, sys.argv[1:]))"
    modules = [*extras.EXTRAS, "starlette", "z3", "pandas", "rich"]
    done = subprocess.run(
        [str(light / "bin" / "python"), "-c", code, *modules],
        env=own_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["starlette", "z3", "rich"]


@pytest.mark.slow
@pytest.mark.dafny
def test_a_light_installation_tells_true_from_false(light: Path, tmp_path: Path) -> None:
    (tmp_path / "true.dfy").write_text("lemma L(n: int) ensures n * n >= 0 { }\n")
    (tmp_path / "false.dfy").write_text("lemma L(n: int) ensures n > 0 { }\n")
    judged = [run(light, tmp_path, "verify", f"{name}.dfy") for name in ("true", "false")]
    assert [done.returncode for done in judged] == [0, 1], judged[0].stderr
    found = [json.loads(done.stdout)["status"] for done in judged]
    assert found == ["proved", "rejected"]


@pytest.mark.slow
@pytest.mark.dafny
def test_a_light_installation_is_ready_and_names_what_it_lacks(light: Path, tmp_path: Path) -> None:
    done = run(light, tmp_path, "doctor")
    assert done.returncode == 0, done.stdout
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    place = lines.index(
        "optional training not installed; verifying, serving and checking do without it"
    )
    assert lines[place + 1] == f"{light}/bin/python -m pip install -e '{ROOT}[train]'"
    assert lines[-1] == "Ready to verify, serve and check."


@pytest.mark.slow
@pytest.mark.dafny
def test_a_light_installation_serves_and_checks(light: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (ROOT / "dafny/curriculum/valid.jsonl").open()][:2]
    problems = tmp_path / "problems.jsonl"
    problems.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    bodies = [rows[0]["reference"], "assume false;"]
    claims = [
        {"id": row["id"], "body": body, "status": "proved"}
        for row, body in zip(rows, bodies, strict=True)
    ]
    (tmp_path / "claims.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in claims))
    checked = run(light, tmp_path, "problems", "check", "problems.jsonl", "--prove")
    said = "problems.jsonl: 2 problems, 2 with a reference; 0 faults, 2 proved\n"
    assert (checked.returncode, checked.stdout) == (0, said)
    rechecked = run(light, tmp_path, "recheck", "claims.jsonl", "--benchmark", "problems.jsonl")
    assert rechecked.returncode == 1, rechecked.stderr
    assert rechecked.stdout.splitlines()[-1] == "1 of 2 claimed proofs hold; 1 unsound"
    (tmp_path / "true.dfy").write_text("lemma L(n: int) ensures n * n >= 0 { }\n")
    command = [str(light / "bin" / "proverrl"), "serve", "--port", "0", "--workers", "1"]
    server = subprocess.Popen(
        command, cwd=tmp_path, env=own_environment(), stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    try:
        url = next(line.split()[2] for line in server.stderr if line.startswith("listening on"))
        asked = run(light, tmp_path, "verify", "true.dfy", "--server", url.rstrip(","))
        assert asked.returncode == 0, asked.stderr
        assert json.loads(asked.stdout)["status"] == "proved"
    finally:
        server.terminate()
        server.communicate()
    assert server.returncode == 0


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        ("train demo", "this command needs torch"),
        ("eval demo", "this command needs torch"),
        ("plan demo", "this command needs torch"),
        ("compare a b", "this command needs numpy"),
        ("report .", "this command needs numpy"),
        ("mcp", "proverrl mcp needs mcp"),
    ],
)
def test_what_is_not_installed_is_one_line_with_the_extra(
    words: str, needs: str, light: Path, tmp_path: Path
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    done = run(light, tmp_path, *words.split())
    extra = "mcp" if words == "mcp" else "train"
    command = f"{light}/bin/python -m pip install -e '{ROOT}[{extra}]'"
    said = f"error: {needs}, which is not installed; run: {command}\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_bug_of_ours_is_not_taken_for_a_missing_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(**_: object) -> None:
        raise ModuleNotFoundError("No module named 'proverrl.nothing'", name="proverrl.nothing")

    monkeypatch.setattr("proverrl.cli.main.cli", fail)
    with pytest.raises(ModuleNotFoundError, match=r"proverrl\.nothing"):
        main()
