"""Dafny's project files: the files and options that they choose, and one program of many files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.errors import UsageError
from proverrl.lang.dafny.project import read_project
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.problems.input_paths import open_project
from proverrl.problems.inputs import Submission, read_inputs

MAX = "module Max {\n  function Max(a: int, b: int): int { if a < b then b else a }\n}\n"
USE = "module Use {\n  import M = Max\n  lemma L() ensures M.Max(1, 2) == 2 {}\n}\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "src/use.dfy": USE,
        "src/deep/max.dfy": MAX,
        "src/odd[1].dfy": "const odd := 1\n",
        "test/t.dfy": "lemma T() {}\n",
        "src/notes.txt": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str, name: str = "dfyconfig.toml") -> Path:
    Path(name).write_text(text)
    return Path(name)


def list_files(text: str) -> list[str]:
    return list(map(str, read_project(write(text)).files))


def test_patterns(tree: Path) -> None:
    every = ["src/deep/max.dfy", "src/odd[1].dfy", "src/use.dfy", "test/t.dfy"]
    assert list_files("") == every
    assert list_files('includes = ["**/*"]') == every
    assert list_files('includes = ["src/*.dfy"]') == ["src/odd[1].dfy", "src/use.dfy"]
    assert list_files('includes = ["src/"]') == every[:-1]
    assert list_files('includes = ["./src/odd[1].dfy"]') == ["src/odd[1].dfy"]
    assert list_files('excludes = ["**/deep/*.dfy", "test/**"]') == every[1:3]
    with pytest.raises(UsageError, match=r"dfyconfig.toml: it chooses no .dfy file"):
        list_files("includes = []")


def test_bases(tree: Path) -> None:
    write(
        'includes = ["t.dfy"]\nexcludes = ["../src/use.dfy"]\n'
        "[options]\nmanual-triggers = true\nfunction-syntax = 3\n",
        "test/low.toml",
    )
    read = read_project(
        write(
            'base = "test/low.toml"\nincludes = ["src/*.dfy"]\n[options]\nmanual-triggers = false\n'
        )
    )
    assert list(map(str, read.files)) == ["src/odd[1].dfy", "test/t.dfy"]
    assert read.arguments == ("--function-syntax:3",)
    with pytest.raises(UsageError, match="its bases never end"):
        read_project(write('base = "dfyconfig.toml"'))


def test_options(tree: Path) -> None:
    text = (
        "[options]\nstandard-libraries = true\nfunction-syntax = 4\nenforce-determinism = false\n"
        "default-function-opacity = 'opaque'\ntarget = 'cs'\nallow-warnings = true\n"
        "warn-shadowing = true\ncores = '50%'\nresource-limit = 5\nverification-time-limit = 9\n"
        "allow-axioms = true\nunicode-char = true\nno-verify = false\n"
    )
    read = read_project(write(text))
    assert read.arguments == ("--standard-libraries:true", "--default-function-opacity:opaque")
    assert read.left == (
        "cores (use -j of this command)",
        "resource-limit (use --rlimit or --timeout of this command)",
        "verification-time-limit (use --rlimit or --timeout of this command)",
        "allow-axioms (use --allow, which counts what is believed)",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[options]\ngeneral-traits = 'datatype'", "general-traits = datatype: it changes what"),
        ("[options]\nno-verify = true", "no-verify = true: a part of the program would not be"),
        ("[options]\nunicode-char = false", "unicode-char = false: not among the options"),
        ("[options]\nfunction-syntax = 2", "this value of --function-syntax may not be given"),
        ("[options]\nlibrary = ['a.doo']", "name the files themselves; leave it out"),
        ("includdddes = ['a']", "no project file of Dafny: includdddes: Extra inputs"),
        ("includes = 'a'", "includes: Input should be a valid list"),
        ("includes = [", "no project file of Dafny: Invalid value"),
    ],
)
def test_what_is_refused(tree: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"^dfyconfig\.toml: ") as error:
        read_project(write(text))
    assert said in str(error.value)


def test_files_see_each_other(tree: Path) -> None:
    write("")
    paths, project = open_project(["."])
    assert open_project(["dfyconfig.toml"]) == (paths, project)
    entries = {entry.id: entry for entry in read_inputs(paths, io.BytesIO(), project)}
    joined = entries["src/use.dfy"]
    assert isinstance(joined, Submission)
    assert joined.candidate.body == USE + MAX
    assert [part.name for part in joined.included] == ["src/deep/max.dfy"]
    assert [candidate.own_lines for candidate in joined.apart] == [0, 4]
    alone = entries["src/deep/max.dfy"]
    assert isinstance(alone, Submission)
    assert (alone.candidate.body, alone.included) == (MAX, ())
    # Without the project nothing is seen that is not included.
    (entry,) = read_inputs(["src/use.dfy"], io.BytesIO())
    assert isinstance(entry, Submission)
    assert entry.candidate.body == USE


def test_a_round_of_names(tree: Path) -> None:
    """Modules of two files that use each other's names, one of them by an include."""
    write("excludes = ['test/**']")
    Path("src/deep/max.dfy").write_text('include "../use.dfy"\nmodule Max { import odd = Use }\n')
    paths, project = open_project(["."])
    entries = {entry.id: entry for entry in read_inputs(paths, io.BytesIO(), project)}
    names = {
        name: [part.name for part in entry.included]
        for name, entry in entries.items()
        if isinstance(entry, Submission)
    }
    # The import names ``odd``, which a third file declares.
    assert names == {
        "src/deep/max.dfy": ["src/use.dfy", "src/odd[1].dfy"],
        "src/odd[1].dfy": [],
        "src/use.dfy": ["src/deep/max.dfy", "src/odd[1].dfy"],
    }


def test_modules_in_parts(tree: Path) -> None:
    write("")
    for name, text in {
        "a.dfy": "module A.Face {\n  import B.Face\n}\n",
        "b.dfy": 'module {:options "-functionSyntax:4"} B.Face {}\n',
        "c.dfy": "module C.Face {}\n",
        "whole.dfy": "module B {}\n",
    }.items():
        Path("src", name).write_text(text)
    paths, project = open_project(["."])
    (entry,) = (e for e in read_inputs(paths, io.BytesIO(), project) if e.id == "src/a.dfy")
    assert isinstance(entry, Submission)
    assert [part.name for part in entry.included] == ["src/b.dfy", "src/whole.dfy"]


def test_a_constructor_inside_a_module_declares_no_name_of_the_file(tree: Path) -> None:
    """To Dafny ``odd`` is the constant of the other file, since the constructor is imported."""
    write("")
    text = "module N { datatype D = odd }\nimport opened N\nconst c := odd\n"
    Path("src/use.dfy").write_text(text)
    paths, project = open_project(["."])
    (entry,) = (e for e in read_inputs(paths, io.BytesIO(), project) if e.id == "src/use.dfy")
    assert isinstance(entry, Submission)
    assert [part.name for part in entry.included] == ["src/odd[1].dfy"]


def test_a_name_that_two_files_declare(tree: Path) -> None:
    """For Dafny they are one program, of which it reads nothing."""
    kind = "datatype D = Same(x: int)\n"
    write(f"function Q(): bool {{ false }}\n{kind}module A.B {{ const c := 1 }}\n", "src/a.dfy")
    write("lemma C() {}\ndatatype E = Same\nmodule A.C { const c := 1 }\n", "src/c.dfy")
    write("")
    paths, project = open_project(["."])
    read = list(read_inputs(paths, io.BytesIO(), project=project))
    assert all(isinstance(entry, Submission) for entry in read)
    write("predicate Q() { true }\nmodule Z { const C := 1 }\n", "src/q.dfy")
    paths, project = open_project(["."])
    read = list(read_inputs(paths, io.BytesIO(), project=project))
    said = [e.message.partition(";")[0] for e in read if not isinstance(e, Submission)]
    assert said == [
        "src/a.dfy: q.dfy, a file of the same project, declares Q too",
        "src/q.dfy: a.dfy, a file of the same project, declares Q too",
    ]


def test_two_projects(tree: Path) -> None:
    write("")
    write("", "src/dfyconfig.toml")
    with pytest.raises(UsageError, match="are two projects"):
        open_project([".", "src"])
    with pytest.raises(UsageError, match=r"no such file or folder: none/dfyconfig\.toml"):
        open_project(["none/dfyconfig.toml"])


@pytest.mark.slow
def test_verdicts(tree: Path, real: DafnyToolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVERRL_DAFNY", real.dafny)
    write("includes = ['src/**/*.dfy']\n[options]\ncores = 2\nmanual-triggers = true\n")
    done = CliRunner().invoke(cli, ["verify", "--no-cache", "-j", "1", "."])
    rows = {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert {name: row["status"] for name, row in rows.items()} == {
        "src/deep/max.dfy": "proved",
        "src/odd[1].dfy": "proved",
        "src/use.dfy": "proved",
    }
    assert all("--manual-triggers:true" in row["toolchain"] for row in rows.values())
    assert done.stderr.strip().endswith(
        "; by dfyconfig.toml (not followed: cores (use -j of this command))"
    )
    Path("src/deep/max.dfy").write_text(MAX.replace("b else a", "a else b"))
    done = CliRunner().invoke(cli, ["verify", "--no-cache", "-j", "1", "src/../dfyconfig.toml"])
    rows = {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert rows["src/use.dfy"]["status"] == "rejected"
