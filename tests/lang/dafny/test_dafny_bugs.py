"""What ``docs/dafny_bugs`` says: Dafny 4.11 believes each file, and we prove none."""

from __future__ import annotations

import asyncio

import pytest

from proverrl.lang.base import BackendOptions
from proverrl.lang.dafny.verify.backend import open_dafny
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.language_server import DafnyLanguageServer
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.types import FILE, HOLE, Candidate, Problem
from proverrl.verifier.base import Limits, verify_all
from tests import ROOT

FOLDER = ROOT / "docs" / "dafny_bugs"
FILES = {path.stem: path.read_text("ascii") for path in sorted(FOLDER.glob("*.dfy"))}


def test_each_file_is_in_the_table() -> None:
    table = (FOLDER / "README.md").read_text("utf-8").partition("\n|---")[2]
    cells = [line.split("|")[1] for line in table.split("\n")[1:] if line]
    named = [name.strip(" `") for cell in cells for name in cell.split(",")]
    assert sorted(named) == list(FILES)


@pytest.mark.dafny
def test_dafny_believes_each_and_we_do_not(
    real: DafnyToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROVERRL_SECOND_DAFNY", raising=False)
    candidates = [
        Candidate(Problem(name, "dafny", FILE, "", HOLE), text) for name, text in FILES.items()
    ]

    async def main() -> tuple[list[str], list[str]]:
        server = await DafnyLanguageServer.start(real, Limits(), KnownProblems(), analyses=False)
        replies = [await server.ask(text) for text in FILES.values()]
        server.kill()
        await server.join()
        backend = open_dafny(BackendOptions(workers=1, limits=Limits(), toolchain=real))
        verdicts = await verify_all(backend.verifier, candidates, deadline_seconds=60)
        await backend.verifier.aclose()
        doubted = [name for name, r in zip(FILES, replies, strict=True) if not r.all_verified]
        judged = zip(FILES, verdicts, strict=True)
        return doubted, [name for name, v in judged if v.proved or not v.status.judged]

    assert asyncio.run(main()) == ([], [])
