"""What the documents say exists: commands, options, configuration keys, files.

Also that no tracked file names a path of the machine that it was written on, or a host of a
package registry: both belong to the reader's machine and the reader's pip configuration.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import click
import pytest

from proverrl.cli.main import cli
from proverrl.config import (
    AdvantageName,
    CurriculumName,
    FeedbackName,
    LossName,
    RewardName,
)
from proverrl.config.keys import USUAL_KEYS, iter_keys, write_value
from proverrl.config.search import SearchName
from proverrl.config.sections import RolloutMode
from tests import ROOT

CLI_PAGE = ROOT / "docs" / "cli.md"
CONFIGURATION_PAGE = ROOT / "docs" / "configuration.md"
LOG = sorted(ROOT.glob("results/*.md"))
DATA = [*sorted(ROOT.glob("dafny/**/README.md")), *sorted(ROOT.glob("lean/**/README.md"))]
LAB_DATA = "answers critiques decide programs statements".split()
"""Folders of problems that commands of the lab made."""
DATA_PAGES = [page for page in DATA if page.parent.name not in LAB_DATA]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *DATA_PAGES,
    *(page for page in sorted(ROOT.glob("docs/**/*.md")) if page.parent.name != "lab"),
    *LOG,
]
LAB_PAGES = [
    *sorted(ROOT.glob("docs/lab/*.md")),
    *(page for page in DATA if page.parent.name in LAB_DATA),
]
"""Their commands may be the lab's own: tests/lab checks them, here are their links."""
MAX_WORDS = 60_000

TREE_ENTRY = re.compile(r"^  ([a-z_]+(?:\.py|/))(?= )", re.MULTILINE)
HEADING = re.compile(r"^#{2,4} `(proverrl[^`]*)`$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MAX_KEYS = 200
"""Rows of the page, one for each key; the lab's options are not among them."""
KEY_ROW = re.compile(r"^\| `([a-zA-Z_.]+)` \| `?([^|`]*)`? \|", re.MULTILINE)


SMALLEST = (
    *("max_minutes=0", "grpo.steps=1", "warm_start.steps=2", "policy.num_layers=1"),
    *("policy.hidden_size=16", "policy.num_heads=2", "policy.intermediate_size=32"),
    *("evaluation.max_problems=2", "evaluation.samples=1", "evaluation.ks=[1]"),
    *("grpo.groups_per_step=1", "grpo.groups_per_draw=2", "sampling.max_new_tokens=8"),
)
"""Keys for a run of the demo that ends in seconds."""


def walk_commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            if not child.hidden:
                yield from walk_commands(child, f"{path} {name}")


COMMANDS: dict[str, click.Command] = dict(walk_commands(cli, "proverrl"))


def options_of(command: click.Command) -> set[str]:
    """Every visible spelling: ``--out``, ``-o``, ``--json``, ``--no-json``."""
    return {
        name
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def split_sections(page: str) -> dict[str, str]:
    """Command -> the text from its heading to the next command's heading."""
    found = list(HEADING.finditer(page))
    ends = [match.start() for match in found[1:]] + [len(page)]
    return {match.group(1): page[match.end() : end] for match, end in zip(found, ends, strict=True)}


def documented_options(section: str) -> set[str]:
    """The options in the first column of a section's table: ``| `-k`, `--ks LIST` | ... |``."""
    return {
        word
        for row in section.splitlines()
        if row.startswith("| `-")
        for span in re.findall(r"`([^`]*)`", row.split("|")[1])
        for word in re.split(r"[\s/,=]+", span)
        if word.startswith("-")
    }


def find_undocumented(commands: Mapping[str, click.Command], page: str) -> list[str]:
    sections = split_sections(page)
    missing = [path for path in commands if path not in sections]
    for path, command in commands.items():
        if path in sections:
            missing += [
                f"{path} {option}"
                for option in sorted(options_of(command) - documented_options(sections[path]))
            ]
    return missing


def find_invented(commands: Mapping[str, click.Command], page: str) -> list[str]:
    invented = []
    for path, section in split_sections(page).items():
        if path not in commands:
            invented.append(path)
            continue
        extra = documented_options(section) - options_of(commands[path]) - {"-h", "--help"}
        invented += [f"{path} {option}" for option in sorted(extra)]
    return invented


def iter_command_lines(page: str) -> Iterator[list[str]]:
    """The words of every line in a code block that runs this package or a script of it."""
    for block in CODE_BLOCK.findall(page):
        for line in block.replace("\\\n", " ").splitlines():
            text = line.strip().removeprefix("$ ")
            for part in re.split(r"\s(?:&&|\|\|?|;)\s", text):
                part = part.strip().removeprefix(".venv/bin/")
                if part.startswith(("proverrl ", "bash scripts/")):
                    yield shlex.split(part, comments=True)


def explain_command_line(words: list[str], commands: Mapping[str, click.Command] = COMMANDS) -> str:
    """Why a shown command cannot run as printed; empty when nothing speaks against it."""
    if words[0] == "bash":
        return "" if (ROOT / words[1]).is_file() else f"no script {words[1]}"
    path, rest = "proverrl", words[1:]
    while rest and f"{path} {rest[0]}" in commands:
        path, rest = f"{path} {rest[0]}", rest[1:]
    command = commands[path]
    if isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        return f"no command {path} {rest[0]}"
    known = options_of(command) | {"-h", "--help", "--version"}
    for word in rest:
        if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known:
            return f"{path} has no option {word}"
    for word in rest:
        # Runs are made by the reader; what lies in these folders is ours and must be there.
        if (
            re.match(r"(configs|dafny|lean|scripts|tests|docs)/", word)
            and not (ROOT / word).exists()
        ):
            return f"no file {word}"
    return ""


def list_own_files() -> list[Path]:
    """The files of the repository, tracked or about to be; without git, all but known leftovers."""
    if (ROOT / ".git").exists():
        done = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return [ROOT / name for name in done.stdout.split("\0") if name]
    left = set(".git .hypothesis .lake .tools .venv __pycache__ build dist runs".split())
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not left.intersection(path.relative_to(ROOT).parts)
        and not any(part.endswith(("_cache", ".egg-info")) for part in path.parts)
    ]


def foreign_words() -> re.Pattern[str]:
    # Put together here, because this file is one of those that are searched.
    folders = "|".join(("work", "root", "tmp"))
    hosts = [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("download", "pytorch", "org"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("index", "crates", "io"),
    ]
    names = "|".join(re.escape(".".join(host)) for host in hosts)
    return re.compile(rf"(?<![\w.~}})\]*>-])/(?:{folders})/|{names}|/opt/(?:pypi|wheels)")


def find_foreign_words(text: str) -> list[str]:
    return [
        f"line {number}: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), 1)
        if foreign_words().search(line)
    ]


def test_every_command_and_option_is_documented() -> None:
    assert find_undocumented(COMMANDS, CLI_PAGE.read_text("utf-8")) == []


def test_every_documented_command_and_option_exists() -> None:
    assert find_invented(COMMANDS, CLI_PAGE.read_text("utf-8")) == []


def test_the_commands_of_the_first_version_are_there() -> None:
    expected = {
        "proverrl doctor",
        "proverrl verify",
        "proverrl problems generate",
        "proverrl problems list",
        "proverrl problems show",
        "proverrl train",
        "proverrl eval",
        "proverrl report",
    }
    assert expected - set(COMMANDS) == set()


def test_a_missing_and_an_invented_option_are_found() -> None:
    @click.command()
    @click.option("--workers", "-w")
    @click.option("--json/--no-json", default=False)
    def verify(workers: str, json: bool) -> None:
        """Never called."""

    page = "## `proverrl verify`\n\n| option | means |\n|---|---|\n| `--workers N` | x |\n"
    assert find_undocumented({"proverrl verify": verify}, page) == [
        "proverrl verify --json",
        "proverrl verify --no-json",
        "proverrl verify -w",
    ]
    assert find_undocumented({"proverrl serve": verify}, page) == ["proverrl serve"]
    full = page + "| `-w`, `--speed` | x |\n| `--json / --no-json` | x |\n"
    assert find_undocumented({"proverrl verify": verify}, full) == []
    assert find_invented({"proverrl verify": verify}, full) == ["proverrl verify --speed"]
    assert find_invented({}, page) == ["proverrl verify"]


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p not in LOG], ids=lambda page: str(page.relative_to(ROOT))
)
def test_shown_command_lines_refer_to_what_exists(page: Path) -> None:
    lines = list(iter_command_lines(page.read_text("utf-8")))
    if page.name == "results.md":
        # It keeps the commands of their day, as the log does.
        lines = [words for words in lines if words[:2] != ["proverrl", "bench"]]
    assert [reason for words in lines if (reason := explain_command_line(words))] == []


def test_the_readme_shows_both_scripts_and_the_three_uses() -> None:
    lines = list(iter_command_lines((ROOT / "README.md").read_text("utf-8")))
    shown = {" ".join(words[:2]) for words in lines}
    expected = {"bash scripts/demo.sh", "bash scripts/test.sh", "proverrl train", "proverrl verify"}
    assert expected | {"proverrl eval"} <= shown


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.parametrize(
    ("page", "number", "prints"),
    [
        ("README.md", 0, r"proved\n"),
        ("docs/python.md", 0, r"proved True\nrejected False\n"),
        ("docs/python.md", 1, r"rejected\nproved\n"),
        ("docs/python.md", 2, r"proved\n"),
        ("docs/python.md", 3, r"(?s).*\{'value': [\d.]+, .*'low': [\d.]+, 'high': [\d.]+, .*\}\n"),
    ],
)
def test_python_that_is_shown_runs_and_prints_what_the_page_says(
    page: str, number: int, prints: str, tmp_path: Path
) -> None:
    text = (ROOT / page).read_text("utf-8")
    found = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(found) == (1 if page == "README.md" else 4)
    # What takes five minutes, at the smallest size, and only a part of the benchmark.
    code = found[number].replace('"max_minutes=5"', ", ".join(map(repr, SMALLEST)))
    code = code.replace("evaluate(run=run", 'evaluate(None, "evaluation.max_problems=2", run=run')
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert re.fullmatch(prints, done.stdout), done.stderr
    assert number == 3 or done.stderr == ""


def test_a_shown_command_line_that_cannot_run_is_found() -> None:
    page = (
        "proverrl train configs/none.toml\n"
        "```\n$ proverrl train configs/none.toml\nproverrl fly\nproverrl doctor --fast\n"
        "cd x && .venv/bin/proverrl report runs/a  # a comment\nbash scripts/none.sh\n```\n"
    )
    assert [explain_command_line(words) for words in iter_command_lines(page)] == [
        "no file configs/none.toml",
        "no command proverrl fly",
        "proverrl doctor has no option --fast",
        "",
        "no script scripts/none.sh",
    ]


def test_every_configuration_key_is_documented_with_its_default() -> None:
    documented = dict(KEY_ROW.findall(CONFIGURATION_PAGE.read_text("utf-8")))
    assert documented == {key.name: write_value(key.default) for key in iter_keys()}
    assert len(documented) <= MAX_KEYS
    assert len(set(USUAL_KEYS)) == 40
    assert set(USUAL_KEYS) <= documented.keys()


def test_the_configuration_page_is_as_the_configuration_says() -> None:
    script = ROOT / "scripts" / "write_configuration.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_configuration_page_that_is_out_of_date_is_written_anew() -> None:
    write_page = runpy.run_path(str(ROOT / "scripts" / "write_configuration.py"))["write_page"]
    page = CONFIGURATION_PAGE.read_text("utf-8")
    row = "| `pool.rlimit` | `3000000` | "
    assert row in page
    assert write_page(page.replace(row, "| `pool.rlimit` | `1` | ")) == page
    assert write_page(page.replace("| `search.calls`", "| `search.gone`")) == page
    with pytest.raises(ValueError, match=r"\[pol\] has no other keys; drop its heading"):
        write_page(f"{page}### `[pol]`\n\n| key | default | means |\n|---|---|---|\n")
    with pytest.raises(ValueError, match=r"no table for guard\.action; add a heading"):
        write_page(page.replace("### `[guard]`", "### The guard"))


CHOICES = [
    AdvantageName,
    CurriculumName,
    FeedbackName,
    LossName,
    RewardName,
    RolloutMode,
]
"""What a name chooses, and docs/algorithms.md compares."""


@pytest.mark.parametrize(
    ("page", "names"),
    [
        *(("docs/algorithms.md", names) for names in CHOICES),
        ("docs/search.md", SearchName),
        *(("docs/configuration.md", names) for names in (*CHOICES, SearchName)),
    ],
)
def test_pages_list_every_name(page: str, names: Any) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert [name for name in get_args(names) if f"`{name}`" not in text] == []


def test_the_architecture_page_shows_the_tree_as_it_is() -> None:
    shown = TREE_ENTRY.findall((ROOT / "docs" / "architecture.md").read_text("utf-8"))
    package = ROOT / "proverrl"
    there = [path.name for path in package.glob("*.py") if path.name != "__init__.py"]
    there += [f"{path.parent.name}/" for path in package.glob("*/__init__.py")]
    # The page shows the lab also where this copy leaves it out.
    assert sorted(shown) == sorted({*there, "lab/"})


def test_the_pages_stay_short() -> None:
    words = [len(page.read_text("utf-8").split()) for page in ROOT.glob("docs/**/*.md")]
    assert sum(words) <= MAX_WORDS


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*PAGES, *LAB_PAGES, ROOT / "CHANGELOG.md"]
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
        if not target.startswith(("http://", "https://", "mailto:"))
        and not (page.parent / target).exists()
    ]
    assert broken == []


def list_anchors(text: str) -> set[str]:
    """Of the headings outside of code blocks, as GitHub makes them: of two alike the first has the
    plain one."""
    found = list[str]()
    for title in re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M
    ):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        name = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        again = found.count(name)
        found += [name, f"{name}-{again}"] if again else [name]
    return set(found)


def test_links_to_headings_lead_to_one() -> None:
    broken = []
    for page in [*PAGES, *LAB_PAGES, ROOT / "CHANGELOG.md"]:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text("utf-8")):
            other = page.parent / target if target else page
            known = other.suffix == ".md" and other.is_file()
            if known and anchor not in list_anchors(other.read_text("utf-8")):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []
    assert list_anchors("# A `b`, [c](d)!\n```\n# e\n```\n## A b c\n") == {"a-b-c", "a-b-c-1"}


def test_no_file_names_this_machine_or_a_registry() -> None:
    found = []
    for path in list_own_files():
        if not path.is_file():
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)} {place}" for place in find_foreign_words(text)]
    assert found == []


def test_a_planted_machine_path_and_registry_are_found() -> None:
    slash = "/"
    planted = f"x = '{slash}work{slash}main'\nok = runs{slash}work{slash}a\nsee pypi{'.'}org\n"
    assert find_foreign_words(planted) == [
        f"line 1: x = '{slash}work{slash}main'",
        f"line 3: see pypi{'.'}org",
    ]
