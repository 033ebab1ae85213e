"""The guides of docs/guides as a stranger follows them: the wheel, an empty folder, their own files
and commands, in order. What they quote as printed has to be printed, figures apart."""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
from tests import ROOT
from tests.house.test_installed import environment, own_environment  # noqa: F401  (a fixture)

GUIDES, LAB = ROOT / "docs" / "guides", ROOT / "docs" / "lab"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+−]?\d[\d.,]*")
PORT = "8765"
"""The port in the endpoint's guide; a test takes a free one."""
DAFNY = "dafny 4.11.0 (language server), z3 4.12.1"
"""What the guides name, in the place of which another may judge here."""
SMALLER = {
    "own-checkpoint": {"steps = 5": "steps = 1"},
    "own-problems": {
        "range(2, 42)": "range(2, 22)",
        "range(42, 52)": "range(42, 47)",
        "grpo = { steps = 2": "grpo = { steps = 1",
    },
    "own-reward": {"grpo = { steps = 2": "grpo = { steps = 1"},
}
"""What takes minutes, at a smaller size: the same files, commands and lines, with other figures."""


@dataclass(frozen=True)
class Followed:
    """A guide that was followed: the exit status of each command, and where."""

    folder: Path
    statuses: dict[str, int]

    def read(self, path: str) -> list[dict[str, object]]:
        """The JSON lines of a file."""
        return [json.loads(line) for line in (self.folder / path).open()]


Check = Callable[[Followed], None]


def level_out(text: str) -> list[str]:
    """Its lines without figures and widths: what does not depend on the machine."""
    lines = re.sub(r"[─━┏┓┗┛┡┩┳┻╇┼├┤└┘┬┴]+", "", text).splitlines()
    return [" ".join(NUMBER.sub("0", line).split()) for line in lines]


def find_unprinted(quoted: str, printed: str) -> list[str]:
    """The quoted lines that were not printed, in this order; ``...`` stands for anything."""
    left = iter(level_out(printed))
    return [line for line in level_out(quoted) if line not in ("", "...") and line not in left]


def follow(name: str, programs: Path, folder: Path) -> Followed:
    """Write the guide's files and run its commands, one after another."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    folder_of = next(path for path in (GUIDES, LAB) if (path / f"{name}.md").exists())
    text = (folder_of / f"{name}.md").read_text("utf-8").replace(PORT, port)
    text = text.replace(DAFNY, find_dafny_toolchain().name)
    for large, small in SMALLER.get(name, {}).items():
        assert text.count(large) == 1, large
        text = text.replace(large, small)
    own = own_environment() | {
        "PATH": f"{programs / 'bin'}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    statuses: dict[str, int] = {}
    printed = ""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for language, title, content in BLOCK.findall(text):
            if title:
                path = folder / title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, "utf-8")
            elif language == "bash" and content.startswith("python stand_in.py"):
                words, hidden = content.split(), subprocess.DEVNULL
                started.append(subprocess.Popen(words, cwd=folder, env=own, stderr=hidden))
                wait_for(port, started[-1])
            elif language == "bash":
                printed = ""
                for line in content.splitlines():
                    done = subprocess.run(
                        ["bash", "-c", line], cwd=folder, env=own, capture_output=True, text=True
                    )
                    statuses[line] = done.returncode
                    printed += done.stdout + done.stderr
            elif language == "text":
                assert find_unprinted(content, printed) == [], printed
    finally:
        for process in started:
            process.kill()
            process.wait()
    return Followed(folder, statuses)


def wait_for(port: str, server: subprocess.Popen[bytes]) -> None:
    """Until the server listens there."""
    while server.poll() is None:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", int(port))) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the stand-in has ended")


@pytest.fixture
def guide(
    request: pytest.FixtureRequest,
    environment: Path,  # noqa: F811
    tmp_path: Path,
) -> Followed:
    """The guide that ``follows`` names, followed in an empty folder."""
    return follow(request.param, environment, tmp_path)


def follows(name: str) -> Callable[[Check], Check]:
    """Marks a test of what following a guide leaves."""
    chosen = pytest.mark.parametrize("guide", [name], indirect=True)
    return lambda test: pytest.mark.slow(pytest.mark.dafny(chosen(test)))


@follows("own-checkpoint")
def test_own_checkpoint(guide: Followed) -> None:
    assert set(guide.statuses.values()) == {0}
    trained = json.loads((guide.folder / "runs/own/policy/config.json").read_text())
    given = json.loads((guide.folder / "checkpoint/config.json").read_text())
    assert trained["hidden_size"] == given["hidden_size"] == 128
    assert trained["architectures"] == ["LlamaForCausalLM"]
    before, again = (
        json.loads((guide.folder / f"runs/own/evals/{name}.json").read_text())
        for name in ("before", "again")
    )
    assert before["num_problems"] == again["num_problems"] == 10
    # Random weights prove nothing; these were warmed up.
    assert again["levels"][0]["pass"]["1"]["value"] > 0.1


@follows("own-problems")
def test_own_problems(guide: Followed) -> None:
    assert set(guide.statuses.values()) == {0}
    verdicts = guide.read("verdicts.jsonl")
    assert len(verdicts) >= 3  # of the evaluations and the loop
    assert {row["status"] for row in verdicts} == {"proved"}


@follows("own-reward")
def test_own_reward(guide: Followed) -> None:
    assert set(guide.statuses.values()) == {0}
    rows = guide.read("runs/short/rollouts/step_1.jsonl")
    proofs = [row for row in rows if row["status"] == "proved"]
    assert proofs
    assert {row["reward"] for row in proofs} <= {1.0, 0.8, 0.6, 0.5}
    assert {row["reward"] for row in rows if row["status"] != "proved"} == {0.0}


@follows("verify-in-ci")
def test_verification_in_ci(guide: Followed) -> None:
    assert list(guide.statuses.values()) == [0, 1]
    assert [row["status"] for row in guide.read("verdicts.jsonl")] == ["proved", "proved"]
    assert [row["status"] for row in guide.read("drafts.jsonl")] == ["unsound"]
    assert 'tests="2" failures="0"' in (guide.folder / "verdicts.xml").read_text()


@follows("annotate")
def test_annotate(guide: Followed) -> None:
    # One of its three methods is wrong.
    assert list(guide.statuses.values()) == [1, 1, 1]
    written = (guide.folder / "sums.dfy").read_text("utf-8")
    assert written.count("invariant ") == 4
    assert "h := n / 2;" in written


@follows("endpoint")
def test_an_endpoint(guide: Followed) -> None:
    assert list(guide.statuses.values()) == [0, 0]
    found = json.loads((guide.folder / "runs/endpoint/evals/first.json").read_text())
    assert found["num_problems"] == 20
    # One of twenty is the problem that the stand-in answers.
    assert [found["levels"][0]["pass"][k]["value"] for k in ("1", "4")] == [0.05, 0.05]


@follows("one-proof")
def test_one_proof(guide: Followed) -> None:
    assert set(guide.statuses.values()) == {0}
    [verdict] = guide.read("verdict.jsonl")
    assert verdict["status"] == "proved"
    proof = (guide.folder / "searches/mine/triple/proof.dfy").read_text()
    assert "ensures r == 3 * n" in proof
    assert "invariant" in proof


@pytest.mark.parametrize(
    ("quoted", "missing"),
    [
        ("solved 0.5\n...\n2 proved", []),
        ("2 proved\nsolved 0.5", ["solved 0"]),
        ("3 rejected", ["0 rejected"]),
    ],
)
def test_a_quoted_line_that_is_not_printed_is_found(quoted: str, missing: list[str]) -> None:
    assert find_unprinted(quoted, "solved 0.25\nother\n  11   proved\n") == missing


def test_every_guide_is_short_followed_and_in_the_navigation() -> None:
    names = sorted(path.stem for path in GUIDES.glob("*.md"))
    tests = Path(__file__).read_text("utf-8")
    assert names == sorted(re.findall(r'^@follows\("([a-z-]+)"\)', tests, re.MULTILINE))
    navigation = (GUIDES.parents[1] / "mkdocs.yml").read_text("utf-8")
    for name in names:
        assert len((GUIDES / f"{name}.md").read_text("utf-8").splitlines()) <= 95
        assert f"guides/{name}.md" in navigation


def list_messages() -> list[str]:
    """Every string of the package, ``...`` where a value stands in it."""
    found = []
    for path in GUIDES.parents[1].glob("proverrl/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else "..." for p in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def holds(message: str, quoted: str) -> bool:
    """Whether the fixed parts of what is quoted stand in the message, in this order."""
    place = 0
    for part in (part.strip() for part in quoted.split("...")):
        if (found := message.find(part, place)) < 0:
            return False
        place = found + len(part)
    return True


def test_messages_that_are_explained_are_those_of_the_program() -> None:
    page = (GUIDES.parent / "troubleshooting.md").read_text("utf-8")
    quoted = re.findall(r"^> (.*)$", page, re.MULTILINE)
    assert len(quoted) > 20
    messages = list_messages()
    assert [text for text in quoted if not any(holds(one, text) for one in messages)] == []
    assert not any(holds(one, "the moon is not installed; run: ...") for one in messages)
