"""A Python that has imported torch and transformers before it is asked for: seconds less for each.

``WARM`` stands in a command where ``sys.executable`` would (``-m MODULE`` and ``-c CODE`` follow).
It is a small program that has a waiting process forked, with its own folder, environment and
descriptors, and that ends as the fork does: with its exit status, or by its signal. The waiting
processes belong to a test run. There are two for each setting of torch, of different hash seeds, so
that an order of sets which decides something shows.
Not for tests of what is imported, or of who gets a signal of a terminal: these start Python anew.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

_VARIABLE = "PROVERRL_WARM_FOLDER"


def _find_folder() -> str:
    """Where the waiting processes of a test run are; made by its first process, and the waiting
    end when it is gone."""
    if _VARIABLE not in os.environ:
        # Not for the program, which is to start at once.
        from proverrl.verifier.process_group import make_folder, remove_folder

        folder = make_folder()
        os.environ[_VARIABLE] = str(folder)
        atexit.register(remove_folder, folder)
    return os.environ[_VARIABLE]


WARM: tuple[str, ...] = ()
if __name__ != "__main__":
    WARM = (sys.executable, "-S", "-E", str(Path(__file__).resolve()), _find_folder())
NUM_WAITING = 2
_READ_ONCE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "ATEN_CPU_CAPABILITY", "MKL_CBWR")
"""What torch and its libraries read of the environment when they are loaded."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE_SECONDS = 300.0


def run_client(folder: Path, words: list[str]) -> None:
    """Have ``python WORDS`` run by a fork, and end as it does."""
    connection = _connect(folder)
    request = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
    line = json.dumps(request).encode() + b"\n"
    socket.send_fds(connection, [line[:1]], [0, 1, 2])
    connection.sendall(line[1:])
    answers = connection.makefile("r", encoding="utf-8")
    pid = int(answers.readline())
    for number in _SIGNALS:
        signal.signal(number, lambda number, _: _pass_on(pid, number))
    status = int(answers.readline())
    if status < 0:
        with contextlib.suppress(OSError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _pass_on(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _connect(folder: Path) -> socket.socket:
    setting = json.dumps([os.environ.get(name) for name in _READ_ONCE])
    name = hashlib.sha256(setting.encode()).hexdigest()[:12]
    path = folder / f"{name}-{os.getpid() % NUM_WAITING}"
    with open(f"{path}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            subprocess.Popen(
                [sys.executable, __file__, "--wait", str(path)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=open(f"{path}.stderr", "wb"),  # noqa: SIM115
                start_new_session=True,
            )
            give_up = time.monotonic() + _PATIENCE_SECONDS
            while not path.exists():
                if time.monotonic() > give_up:
                    raise SystemExit(Path(f"{path}.stderr").read_text("utf-8"))
                time.sleep(0.05)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    return connection


def wait_and_fork(path: Path) -> dict[str, object]:
    """Import what is slow, then fork for each connection; returns the request in the fork."""
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: F401

    import proverrl.cli
    import proverrl.jobs.train  # noqa: F401

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(64)
    # Where it has its name, it listens.
    os.rename(f"{path}.new", path)
    listener.settimeout(1.0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while path.exists():
        with contextlib.suppress(TimeoutError):
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                return _fork_and_tell(connection)
            connection.close()
    os._exit(0)


def _fork_and_tell(connection: socket.socket) -> dict[str, object]:
    """In a process that stays: tell the client of the fork, and end the fork with the client."""
    connection.setblocking(True)
    data, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
    while not data.endswith(b"\n"):
        data += connection.recv(65536)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        connection.close()
        return dict(json.loads(data))
    for descriptor in descriptors:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        connection.sendall(f"{pid}\n".encode())
    end = os.pidfd_open(pid)
    ready, _, _ = select.select([end, connection.fileno()], [], [])
    if end not in ready:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(request: dict[str, object], base: list[str]) -> None:
    """Run what was asked for as a fresh Python would."""
    import runpy

    words, environment = request["words"], request["environment"]
    assert isinstance(words, list)
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(request["folder"]))
    given = [place for place in environment.get("PYTHONPATH", "").split(os.pathsep) if place]
    option, target, *arguments = words
    sys.path[:] = [os.getcwd() if option == "-m" else "", *given, *base]
    sys.argv[:] = [option, *arguments]
    if option == "-m":
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        main = ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(target, "<string>", "exec", dont_inherit=True), main.__dict__)


if __name__ == "__main__":
    if sys.argv[1] == "--wait":
        _base = [place for place in sys.path if place != str(Path(__file__).parent)]
        become(wait_and_fork(Path(sys.argv[2])), _base)
    else:
        run_client(Path(sys.argv[1]), sys.argv[2:])
