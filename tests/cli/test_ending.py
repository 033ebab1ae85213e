"""How the processes of a run end: with their own exit status, whatever gloo's threads still do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from proverrl.cli.main import EXIT_BROKEN, EXIT_USAGE
from tests import ROOT
from tests.learner.test_parallel import launch, start
from tests.warm import WARM

FRESH = (sys.executable,)
"""How a process ends is what is tested: no fork of another, but where many are to end."""


@pytest.mark.slow
def test_a_process_ends_while_gloo_lets_go_of_a_message() -> None:
    # Going down instead, the interpreter meets gloo's threads in two of five runs.
    for _ in range(2):
        leader, follower = start(2, "tests.ending_worker", python=FRESH)
        assert follower.stdout is not None
        said = follower.stdout.readline()
        _, leader_error = leader.communicate()
        _, follower_error = follower.communicate()
        assert said == "ready\n", follower_error
        assert (leader.returncode, follower.returncode) == (0, 3), leader_error + follower_error


@pytest.mark.parametrize("code", ["0", "7", "None", "'a text'"])
@pytest.mark.parametrize("size", ["1", "2"])
def test_the_status_is_that_of_the_command(size: str, code: str) -> None:
    program = (
        "import atexit, sys; from proverrl.cli.main import run_to_the_end\n"
        "def run():\n"
        "    atexit.register(print, 'a handler of the run')\n"
        f"    sys.exit({code})\n"
        "run_to_the_end(run)"
    )
    done = run_python(program, size)
    assert done.returncode == {"7": 7, "'a text'": 1}.get(code, 0)
    assert done.stdout == "a handler of the run\n"
    assert done.stderr == ("a text\n" if "text" in code else "")


@pytest.mark.parametrize("size", ["1", "2"])
def test_what_nobody_caught_is_shown(size: str) -> None:
    program = "from proverrl.cli.main import run_to_the_end; run_to_the_end(lambda: 1 / 0)"
    done = run_python(program, size)
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def run_python(program: str, size: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"WORLD_SIZE": size},
        capture_output=True,
        text=True,
        check=False,
    )


def train(
    folder: Path, name: str, *, python: Sequence[str] = FRESH, **changes: str
) -> list[subprocess.CompletedProcess[str]]:
    """A warm start of one step by two processes."""
    lines = (ROOT / "dafny/curriculum/train.jsonl").read_text().splitlines()
    problems = folder / "problems.jsonl"
    problems.write_text("\n".join(lines[:8]) + "\n")
    settings = {
        "run": str(folder / name),
        "loop": "warm_start",
        "problems.train": str(problems),
        "pool.workers": 1,
        "policy.num_layers": 1,
        "policy.hidden_size": 32,
        "policy.num_heads": 2,
        "policy.intermediate_size": 64,
        "warm_start.steps": 1,
        "warm_start.references_per_level": {},
        "evaluation.before": False,
        **changes,
    }
    words = [f"--set={key}={json.dumps(value)}" for key, value in settings.items()]
    return launch(2, "proverrl", "train", str(ROOT / "configs/grpo.toml"), *words, python=python)


@pytest.mark.slow
def test_one_process_says_what_is_wrong_and_the_other_that_it_is_alone(tmp_path: Path) -> None:
    leader, follower = train(tmp_path, "run", **{"problems.train": str(tmp_path / "none.jsonl")})
    assert leader.returncode == EXIT_USAGE
    assert leader.stderr.splitlines()[-1].startswith("error: cannot read")
    assert follower.returncode == EXIT_BROKEN
    assert follower.stderr.splitlines()[-1] == (
        "error: another process of this run has ended, and its output says why; this one ends too"
    )
    assert "Traceback" not in leader.stderr + follower.stderr


@contextmanager
def busy_cores(number: int) -> Iterator[None]:
    """So many programs that do nothing but take a core."""
    with ExitStack() as stack:
        for _ in range(number):
            program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(program.wait)
            stack.callback(program.kill)
        yield


@pytest.mark.slow
@pytest.mark.dafny
def test_runs_end_on_a_loaded_machine(tmp_path: Path) -> None:
    with busy_cores(2):
        # Forks end as fresh processes do, and more of them end in the same time.
        for number in range(5):
            done = train(tmp_path, f"run{number}", python=WARM)
            assert [d.returncode for d in done] == [0, 0], done[0].stderr + done[1].stderr
            assert (tmp_path / f"run{number}" / "policy" / "model.safetensors").exists()
