"""Dafny's answers to what tests ask, from ``tests/recorded``: a file for each module.

What Dafny answers depends on the question alone: its text, its options and the prelude. These make
the key of an answer, so that Dafny is asked anew whatever we change in a question. The test then
fails, until the answer is recorded. Only answers are recorded: what is asked, and what follows from
an answer, is the work of our code in each run. One answer in 64 is asked of Dafny all the same.

    PROVERRL_RECORD=new python -m pytest MODULE    asks what is not recorded, and keeps the rest
    PROVERRL_RECORD=all python -m pytest MODULE    asks everything, and drops what is not asked
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from proverrl.errors import Cause, ToolchainError, WorkerError
from proverrl.lang.dafny.verify.judge import make_options
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.server import DafnyServerWorker
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain, find_dafny_toolchain
from proverrl.verifier.base import Limits
from proverrl.verifier.process_group import ProcessGroup
from tests import ROOT
from tests.shared_verifier import close_verifier

FOLDER = ROOT / "tests" / "recorded"
TOOLCHAIN = "dafny 2.3.0 (dafny-server), z3 4.8.5"
"""What was asked. Another one is asked everything."""
ONE_IN = 64
REMEDY = "run: PROVERRL_RECORD={} python -m pytest {}"

Answer = tuple[str] | tuple[str, Cause]
"""What Dafny said, or the message and the cause of its failure."""


class Record:
    """The answers of a module, by key."""

    def __init__(self, path: Path, mode: str) -> None:
        self.known: dict[str, Answer] = {}
        self.asked: dict[str, Answer] = {}
        self.differ: list[str] = []
        self._path = path
        if path.is_file() and mode != "all":
            rows = [json.loads(line) for line in path.read_text("ascii").splitlines()]
            self.known = {key: (said, *cause) for key, said, *cause in rows}

    def write(self) -> None:
        rows = sorted((self.known | self.asked).items())
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text("".join(json.dumps([k, *a]) + "\n" for k, a in rows), "ascii")


class RecordedDafny(DafnyServerWorker):
    """A worker that starts a server when an answer is not known, or is to be asked again."""

    def __init__(
        self, record: Record, toolchain: DafnyToolchain, limits: Limits, known: KnownProblems
    ) -> None:
        self._record = record
        self._toolchain = toolchain
        self._limits = limits
        self._known = known
        self._server: DafnyServerWorker | None = None

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        return self._server.groups if self._server else ()

    async def ask_part(self, source: str, included: str) -> None:
        """What a program includes is no part of a key."""

    async def _ask(self, source: str, rlimit: int | None, *more: str) -> str:
        options = make_options(self._toolchain, self._limits, rlimit)
        key = make_key(source, [*options, *more], self._toolchain.prelude)
        answer = self._record.known.get(key)
        if answer is None or int(key[:8], 16) % ONE_IN == 0:
            said = await self._ask_server(source, rlimit, *more)
            if answer is None:
                self._record.asked[key] = said
            elif answer != said:
                self._record.differ.append(f"{said}\nand not\n{answer}\nis said of\n{source}")
            answer = said
        if len(answer) == 2:
            raise WorkerError(*answer)
        return answer[0]

    async def _ask_server(self, source: str, rlimit: int | None, *more: str) -> Answer:
        if self._server is None:
            self._server = await START(self._toolchain, self._limits, self._known)
        try:
            return (trim(await self._server._ask(source, rlimit, *more)),)
        except WorkerError as error:
            return str(error), error.cause


START = DafnyServerWorker.start
_UNKNOWN = re.compile(r"(?<![A-Za-z0-9_'?])\?(\d+)")
_FIRST_NUMBER = 1000


def trim(said: str) -> str:
    """Of what Dafny tells of types, which is long, what is read of it, each line once. A server
    numbers unknown types from question to question; here each answer begins at the same number."""
    if "DEBUG: " not in said:
        return said
    lines = [
        line
        for line in said.split("\n")
        if not line.startswith(("DEBUG: ", "    ", "  ----> "))
        or " proxy ?" in line
        or "IsNullableRefType: ?" in line
    ]
    text = "\n".join(dict.fromkeys(lines))
    lowest = min(map(int, _UNKNOWN.findall(text)), default=0)
    return _UNKNOWN.sub(lambda found: f"?{int(found[1]) - lowest + _FIRST_NUMBER}", text)


def make_key(source: str, options: list[str], prelude: str) -> str:
    # Where they lie depends on the machine.
    same = [word for word in options if not word.startswith(("/z3exe:", "/dprelude:"))]
    question = json.dumps([source, same, hash_prelude(prelude)])
    return hashlib.sha256(question.encode("ascii")).hexdigest()[:32]


@cache
def hash_prelude(place: str) -> str:
    return hashlib.sha256(Path(place).read_bytes()).hexdigest() if place else ""


@cache
def open_record(name: str, mode: str) -> Record:
    return Record(FOLDER / f"{name}.jsonl", mode)


@pytest.fixture
def recorded_dafny(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have what starts DafnyServer in this test start a ``RecordedDafny``."""
    try:
        same = find_dafny_toolchain().name == TOOLCHAIN
    except ToolchainError:
        # The test says what that means for it.
        same = False
    if not same:
        yield
        return
    mode = os.environ.get("PROVERRL_RECORD", "")
    module = request.path.relative_to(ROOT)
    record = open_record(".".join(module.with_suffix("").parts[1:]), mode)

    async def start(
        toolchain: DafnyToolchain, limits: Limits, known: KnownProblems
    ) -> DafnyServerWorker:
        return RecordedDafny(record, toolchain, limits, known)

    close_verifier()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DafnyServerWorker, "start", start)
        yield
        close_verifier()
    assert not record.differ, "\n".join([*record.differ, REMEDY.format("all", module)])
    if mode:
        record.write()
    else:
        num = len(record.asked)
        assert not num, f"{num} answers of Dafny are not recorded; {REMEDY.format('new', module)}"
