"""A fork of a waiting Python is to its caller what a fresh one would be."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from tests.warm import WARM

pytestmark = pytest.mark.slow


def start(code: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*WARM, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe)


def test_folder_environment_descriptors_and_status_are_its_own(tmp_path: Path) -> None:
    code = (
        "import os, sys; print(sys.argv, os.getcwd(), os.environ['HERE'], 'HOME' in os.environ);"
        "print(input()); sys.exit(3)"
    )
    done = subprocess.run(
        [*WARM, "-c", code, "a"],
        cwd=tmp_path,
        env={"HERE": "1"},
        input="said\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"['-c', 'a'] {tmp_path} 1 False\nsaid\n"
    assert (done.returncode, done.stderr) == (3, "")


def test_it_ends_by_the_signal_that_ends_its_fork() -> None:
    process = start("import os; os.kill(os.getpid(), 9)")
    assert process.communicate() == (b"", b"")
    assert process.returncode == -signal.SIGKILL
    process = start("print(1, flush=True); input()")
    assert process.stdout is not None
    assert process.stdout.read(1) == b"1"
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == -signal.SIGTERM


def test_a_fork_ends_with_its_caller() -> None:
    process = start("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    assert process.stdout is not None
    end = os.pidfd_open(int(process.stdout.readline()))
    process.kill()
    process.communicate()
    assert select.select([end], [], [], 60.0)[0] == [end]
    os.close(end)
