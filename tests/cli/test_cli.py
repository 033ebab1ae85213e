"""The command line as a user meets it: exit statuses, messages, real Dafny behind ``verify``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from proverrl.cli.problems import parse_levels
from proverrl.config import load_config
from proverrl.errors import UsageError
from tests import ROOT
from tests.warm import WARM


def proverrl(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WARM, "-c", "from proverrl.cli.main import main; main()", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("text", "levels"), [("1-5", (1, 2, 3, 4, 5)), ("3", (3,)), ("1,4-5,4", (1, 4, 5))]
)
def test_levels(text: str, levels: tuple[int, ...]) -> None:
    assert parse_levels(text) == levels


@pytest.mark.parametrize("text", ["", "0", "a-b", "5-1", "1-"])
def test_levels_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--levels"):
        parse_levels(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "no/such.dfy"], "no such file or folder: no/such.dfy"),
        (["train", "configs/none.toml"], "no such configuration file"),
        (["train", "configs/demo.toml", "--set", "grpo.stepz=1"], "'grpo.steps'"),
        (["train"], "give a configuration file"),
        (["eval", "--run", "no/run"], "no/run is not a run folder: no such folder"),
        (["eval", "--run", "docs"], "docs is not a run folder: it has no resolved.json"),
        (["eval", "configs/demo.toml", "-k", "0"], "write numbers from 1"),
        (["report", "docs"], "docs"),
        (["problems", "show", "dafny/curriculum/valid.jsonl", "x"], "the nearest id is"),
        (["problems", "list", "no.jsonl"], "no.jsonl"),
        (["problems", "list", "dafny/curriculum/valid.jsonl", "--families", ","], "names none"),
    ],
)
def test_wrong_usage_exits_2_and_names_the_place(arguments: list[str], message: str) -> None:
    done = proverrl(*arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_problems_are_listed_and_shown() -> None:
    ids = proverrl("problems", "list", "dafny/curriculum/heldout.jsonl", "--levels", "3", "--ids")
    names = ids.stdout.split()
    assert len(names) == 40
    shown = proverrl("problems", "show", "dafny/curriculum/heldout.jsonl", names[0], "--reference")
    assert shown.returncode == 0
    assert "/*{HOLE}*/" in shown.stdout
    assert "// reference body\ninvariant " in shown.stdout
    hidden = proverrl("problems", "show", "dafny/curriculum/heldout.jsonl", names[0])
    assert "reference" not in hidden.stdout


@pytest.mark.slow
@pytest.mark.dafny
def test_verify_judges_in_order_and_one_bad_line_stops_nothing(tmp_path: Path) -> None:
    lines = (ROOT / "examples" / "bodies.jsonl").read_text().splitlines()
    lines.insert(1, '{"id": "broken"')
    out = tmp_path / "verdicts.jsonl"
    done = proverrl("verify", "-", "examples/copy.dfy", "--out", str(out), stdin="\n".join(lines))
    verdicts = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(v["id"], v["status"]) for v in verdicts] == [
        ("reference", "proved"),
        ("", "error"),
        ("too-weak", "rejected"),
        ("cheat", "unsound"),
        ("bare", "proved"),
        ("examples/copy.dfy", "proved"),
    ]
    assert done.returncode == 2
    assert "-:2:" in done.stderr
    expected = "id key status diagnostics goals obligations axioms seconds header_seconds"
    rest = "queue_seconds toolchain stage rule believed at_limit checks conditions sha256"
    assert list(verdicts[0]) == [*expected.split(), *rest.split()]


@pytest.mark.slow
@pytest.mark.dafny
def test_verify_exit_statuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = tmp_path / "good.dfy"
    good.write_text("lemma L(x: int) ensures x * x >= 0 {}\n")
    assert proverrl("verify", str(good)).returncode == 0
    bad = tmp_path / "bad.dfy"
    bad.write_text("lemma L(x: int) ensures x * x > 0 {}\n")
    assert proverrl("verify", str(good), str(bad)).returncode == 1
    lean = tmp_path / "t.lean"
    lean.write_text("theorem t : True := trivial\n")
    monkeypatch.setenv("PROVERRL_LEAN", str(tmp_path / "nothing"))
    done = proverrl("verify", str(lean))
    assert done.returncode == 3
    assert "run: bash scripts/setup_lean.sh" in done.stderr


def test_a_finished_run_is_not_taken_for_one_of_other_settings(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "policy").mkdir(parents=True)
    (run / "policy/config.json").write_text("{}")
    config = load_config(Path("demo"), [f"run={run}"])
    (run / "resolved.json").write_text(json.dumps({"config": config.dump()}))
    done = proverrl("train", "demo", f"run={run}")
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        f"{run} is finished; nothing to do",
    )
    changed = proverrl("train", "demo", f"run={run}", "grpo.group_size=8")
    assert changed.returncode == 2
    assert "was begun with grpo.group_size = 4, now it is 8; name another folder" in changed.stderr
