"""Languages of somebody's own: known in every process, judged by themselves, and nobody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl import lang, plugins
from proverrl.cli.main import cli
from proverrl.cli.options import read_config
from proverrl.config import PoolConfig
from proverrl.errors import ProblemError, UsageError
from proverrl.lang import (
    LANGUAGES,
    add_languages,
    find_language,
    find_suffixes,
    list_languages,
    list_names,
    list_own,
)
from proverrl.lang.base import BackendOptions, Language
from proverrl.lang.open import _list_serve_arguments
from proverrl.problems.load import make_row
from proverrl.verifier.base import Limits
from tests import ROOT
from tests.config.test_plugins import bring_module
from tests.sums import Sums, make_sum

SUMS = "tests.sums:SUMS"
OURS = tuple(name for name in LANGUAGES if name in lang.OURS)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test adds is gone after it, and nothing of the lab is installed."""
    before = {name: LANGUAGES[name] for name in OURS}

    def list_points(*, group: str) -> list[EntryPoint]:
        points = entry_points(group=group)
        return [point for point in points if not point.value.startswith("proverrl.lab")]

    monkeypatch.setattr(plugins, "entry_points", list_points)

    def forget() -> None:
        LANGUAGES.clear()
        LANGUAGES.update(before)
        find_language.cache_clear()
        lang._find_or_leave_out.cache_clear()
        lang._INSTALLED.clear()
        lang._BROKEN.clear()
        lang._LOADED.clear()
        lang._add_installed.cache_clear()
        plugins.load.cache_clear()

    forget()
    yield
    forget()


def write_inputs(folder: Path) -> tuple[Path, Path, Path]:
    good, bad, lines = folder / "good.sum", folder / "bad.sum", folder / "lines.jsonl"
    good.write_text("1 + 1 = 2\n2 + 2 = 4\n")
    bad.write_text("1 + 1 = 3\n")
    rows = [
        {"id": name, "problem": make_row(make_sum("p", 2, 3)), "body": body}
        for name, body in (("right", "5"), ("wrong", "6"), ("cheat", "5\n1 + 1 = 2"))
    ]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return good, bad, lines


def test_a_command_in_a_process_of_its_own_verifies_it(tmp_path: Path) -> None:
    paths = [str(path) for path in write_inputs(tmp_path)]
    command = [sys.executable, "-m", "proverrl", "--language", f"sums={SUMS}", "verify", "--json"]
    done = subprocess.run(
        [*command, "--no-cache", *paths], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    found = {Path(row["id"]).name: row["status"] for row in rows}
    assert found == {
        "good.sum": "proved",
        "bad.sum": "rejected",
        "right": "proved",
        "wrong": "rejected",
        "cheat": "rejected",
    }
    # Without the option the ending means nothing.
    done = subprocess.run(
        [sys.executable, "-m", "proverrl", "verify", "--json", paths[0]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2


def test_a_configuration_names_it(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f'[languages]\nsums = "{SUMS}"\n[policy]\npath = "x"\n')
    config = read_config(file, None, (), ask="")
    assert config.languages == {"sums": SUMS}
    assert list_names() == (*OURS, "sums")
    assert find_language("sums").title == "Sums"
    # Servers that are started for this run are told of it.
    options = BackendOptions(workers=1, limits=Limits(rlimit=PoolConfig().rlimit))
    assert _list_serve_arguments(options)[-2:] == ("--language", f"sums={SUMS}")


def test_an_installed_package_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [EntryPoint("sums", SUMS, "proverrl.language")]
    monkeypatch.setattr(plugins, "entry_points", lambda *, group: given)
    assert [one.name for one in list_languages()] == [*OURS, "sums"]
    with pytest.raises(ProblemError, match=r"unknown language 'sum'; .*nearest is 'sums'"):
        find_language("sum")


def test_a_broken_language_of_a_package_stops_only_who_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_language.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("broken", "broken_language:IT", "proverrl.language")
    monkeypatch.setattr(plugins, "entry_points", lambda *, group: [point])
    with pytest.warns(RuntimeWarning) as said:
        found = [find_suffixes() for _ in range(2)]
    assert found[0] == found[1]
    assert found[0].items() >= {".dfy": "dafny", ".lean": "lean"}.items()
    assert "broken" not in found[0].values()
    (warning,) = said
    assert "package broken_language:IT is left out: languages.broken: " in str(warning.message)
    assert "RuntimeError: no licence" in str(warning.message)
    # Servers are not told of it.
    assert list_own() == {}
    with pytest.raises(UsageError, match="RuntimeError: no licence"):
        find_language("broken")
    add_languages({"broken": "broken_language:IT"})
    with pytest.raises(UsageError, match="RuntimeError: no licence"):
        list_languages()


NAME_FAULTS = {
    "dafny": ("tests.sums:SUMS", "languages.dafny: dafny is a language already, proverrl.lang.da"),
    "my-sums": ("tests.sums:SUMS", "languages.my-sums: 'tests.sums:SUMS'; write NAME = package.mo"),
    "placeless": ("tests.sums", "language 'placeless' of the installed package given is 'tests.su"),
}


@pytest.mark.parametrize("name", NAME_FAULTS)
def test_a_name_that_no_language_can_have_stops_only_who_asks_for_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, fault = NAME_FAULTS[name]
    package = tmp_path / "given-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: given\nVersion: 1\n")
    points = f"[proverrl.language]\n{name} = {place}\nsums = {SUMS}\n"
    (package / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(RuntimeWarning) as said:
        found = [list_names() for _ in range(2)]
    # The others of the package are languages.
    assert found == 2 * [(*OURS, "sums")]
    (warning,) = said
    text = str(warning.message)
    assert text.startswith(f"the language {name} of the installed package given is left out: ")
    assert fault in text
    assert text.endswith(". Update or uninstall the package")
    if name == "dafny":
        assert find_language(name).title == "Dafny"
        return
    with pytest.raises(UsageError) as error:
        find_language(name)
    assert str(error.value).startswith(fault)


def test_a_language_of_two_packages_is_the_one_that_a_command_names(tmp_path: Path) -> None:
    for number in (1, 2):
        package = tmp_path / f"given{number}-1.dist-info"
        package.mkdir()
        (package / "METADATA").write_text(f"Name: given{number}\nVersion: 1\n")
        (package / "entry_points.txt").write_text("[proverrl.language]\nsums = tests.sums:Sums\n")
    good = tmp_path / "good.sum"
    good.write_text("1 + 1 = 2\n")

    def verify(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "proverrl", *words, "verify", "--no-cache", str(good)]
        where = os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
        return subprocess.run(
            command, cwd=ROOT, env=where, capture_output=True, text=True, timeout=120
        )

    chosen = verify("--language", f"sums={SUMS}")
    assert (chosen.returncode, "1 proved" in chosen.stderr) == (0, True), chosen
    assert chosen.stderr.count("warning: the language sums of the installed package given") == 1
    unknown = verify()
    assert unknown.returncode == 2
    assert "'sums' is a name of two installed packages, given" in unknown.stderr


def test_two_languages_of_ones_own_share_neither_ending_nor_fence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ending = type("Ending", (Sums,), {"name": "ending", "fences": ("e",)})
    fence = type("Fence", (Sums,), {"name": "fence", "suffix": ".f"})
    bring_module(monkeypatch, "own_language", ending=ending, fence=fence)
    places = {name: f"own_language:{name}" for name in ("ending", "fence")}
    add_languages({"sums": SUMS, **places})
    assert find_language("sums").name == "sums"
    for name in places:
        with pytest.raises(UsageError, match=rf"languages\.{name}: .* is that of sums"):
            find_language(name)


def test_commands_take_a_language_of_ones_own_by_its_name(tmp_path: Path) -> None:
    good, bad, _ = map(str, write_inputs(tmp_path))
    own = ["--language", f"sums={SUMS}"]
    words = ["verify", "--no-cache", "--json"]
    assert CliRunner().invoke(cli, [*own, *words, good]).exit_code == 0
    assert CliRunner().invoke(cli, [*own, *words, bad]).exit_code == 1
    out = ["--out", str(tmp_path / "x.jsonl")]
    done = CliRunner().invoke(cli, [*own, "problems", "generate", "sum", *out])
    assert done.exit_code == 2
    assert "unknown language 'sum'" in done.output
    assert "the nearest is 'sums'" in done.output
    done = CliRunner().invoke(cli, [*own, "problems", "generate", "sums", *out])
    known = "there is one of dafny and lean"
    assert str(done.exception) == f"there is no generator of sums problems; {known}"


@pytest.mark.parametrize("name", OURS)
def test_none_of_ours_can_be_replaced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(LANGUAGES)
    with pytest.raises(UsageError, match=f"languages.{name}: {name} is a language already"):
        add_languages({name: SUMS})
    done = CliRunner().invoke(cli, ["--language", f"{name}={SUMS}", "verify", "x.sum"])
    assert isinstance(done.exception, UsageError)
    given = [EntryPoint(name, SUMS, "proverrl.language")]
    monkeypatch.setattr(plugins, "entry_points", lambda *, group: given)
    with pytest.warns(RuntimeWarning, match="is a language already"):
        list_names()
    assert before == LANGUAGES


class Renamed(Sums):
    name = "dafny"


class Endings(Sums):
    name = "endings"
    suffix = ".dfy"


class Rows(Sums):
    name = "rows"
    suffix = ".jsonl"


class Fences(Sums):
    name = "fences"
    fences: tuple[str, ...] = ("sums", "lean4")


class Unfinished(Language):
    name = "unfinished"


class Untitled(Sums):
    name = "untitled"

    def __getattribute__(self, name: str) -> object:
        if name == "layout":
            raise AttributeError(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize(
    ("name", "found", "said"),
    [
        ("mine", Renamed, "the language calls itself 'dafny'; use that name"),
        ("endings", Endings, ".dfy or a fence of sums is that of dafny"),
        ("rows", Rows, ".jsonl files hold rows of problems; choose another"),
        ("fences", Fences(), ".sum or a fence of sums, lean4 is that of lean"),
        ("unfinished", Unfinished, "abstract"),
        ("untitled", Untitled, "the language has no 'layout'; set it in its class"),
        ("mine", 3, "it is no proverrl.lang.base.Language, but int"),
    ],
)
def test_a_language_that_does_not_fit_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, found: object, said: str
) -> None:
    bring_module(monkeypatch, "own_language", found=found)
    add_languages({name: "own_language:found"})
    with pytest.raises(UsageError) as error:
        find_language(name)
    assert str(error.value).startswith(f"languages.{name}: ")
    assert said in str(error.value)


def test_a_place_has_one_form_and_a_name_one_place() -> None:
    with pytest.raises(UsageError, match=r"write NAME = package\.module:object"):
        add_languages({"sums": "tests/sums.py"})
    with pytest.raises(UsageError, match=r"languages\.a b: "):
        add_languages({"a b": SUMS})
    add_languages({"sums": SUMS})
    add_languages({"sums": SUMS})
    with pytest.raises(UsageError, match="sums is a language already"):
        add_languages({"sums": "other:SUMS"})
