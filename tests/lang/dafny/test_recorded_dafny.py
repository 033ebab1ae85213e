"""What is recorded of Dafny's answers: which question has which, and what is noticed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from proverrl.errors import WorkerError
from proverrl.lang.dafny.verify.judge import make_options
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.verifier.base import Limits
from tests import recorded_dafny
from tests.recorded_dafny import Record, RecordedDafny, make_key, trim

TOOLCHAIN = DafnyToolchain("dafny", "2.3.0", ("server",), "z3", "4.8.5")


class StandIn:
    """Answers each question with its text and the number of questions so far."""

    groups = ()

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def _ask(self, source: str, rlimit: int | None, *more: str) -> str:
        self.asked.append(source)
        if source == "dies":
            raise WorkerError("it died", "died")
        return f"{source} {len(self.asked)}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()

    async def start(*given: object) -> StandIn:
        return stand_in

    monkeypatch.setattr(recorded_dafny, "START", start)
    return stand_in


def ask(record: Record, *sources: str) -> list[str]:
    async def run() -> list[str]:
        worker = RecordedDafny(record, TOOLCHAIN, Limits(), KnownProblems())
        return [await worker._ask(source, None) for source in sources]

    return asyncio.run(run())


def find_text(wanted: Callable[[int], bool]) -> str:
    """A text whose recorded answer is, or is not, among those that are asked again."""
    for number in range(10_000):
        text = f"text {number}"
        options = make_options(TOOLCHAIN, Limits(), None)
        if wanted(int(make_key(text, options, "")[:8], 16) % recorded_dafny.ONE_IN):
            return text
    raise AssertionError


def test_what_is_recorded_is_not_asked_but_for_a_sample(tmp_path: Path, server: StandIn) -> None:
    path = tmp_path / "new" / "m.jsonl"
    record = Record(path, "new")
    rare, usual = find_text(lambda n: n == 0), find_text(lambda n: n > 0)
    assert ask(record, rare, usual) == [f"{rare} 1", f"{usual} 2"]
    assert (len(record.asked), record.differ) == (2, [])
    record.write()
    again = Record(path, "")
    # The sample was answered in another way, which is noticed; the rest is what it was.
    assert ask(again, usual, rare) == [f"{usual} 2", f"{rare} 3"]
    assert again.asked == {}
    [told] = again.differ
    assert told.endswith(f"is said of\n{rare}")
    assert server.asked == [rare, usual, rare]
    assert Record(path, "all").known == {}


def test_a_failure_is_recorded(tmp_path: Path, server: StandIn) -> None:
    path = tmp_path / "m.jsonl"
    for mode in ("new", ""):
        record = Record(path, mode)
        with pytest.raises(WorkerError, match="it died") as caught:
            ask(record, "dies")
        assert caught.value.cause == "died"
        record.write()
    assert server.asked == ["dies"]
    assert [json.loads(line)[1:] for line in path.read_text().splitlines()] == [["it died", "died"]]


def test_a_key_is_of_the_text_the_options_and_what_the_prelude_says(tmp_path: Path) -> None:
    one, same, other = (tmp_path / name for name in ("one", "same", "other"))
    for path, text in ((one, "axiom"), (same, "axiom"), (other, "axioms")):
        path.write_text(text)
    key = make_key("text", ["/rlimit:1", "/z3exe:/a/z3", f"/dprelude:{one}"], str(one))
    assert key == make_key("text", ["/rlimit:1", "/z3exe:/b/z3", f"/dprelude:{same}"], str(same))
    others = {
        key,
        make_key("texts", ["/rlimit:1"], str(one)),
        make_key("text", ["/rlimit:2"], str(one)),
        make_key("text", ["/rlimit:1"], str(other)),
        make_key("text", ["/rlimit:1"], ""),
    }
    assert len(others) == 5


def test_types_are_numbered_alike() -> None:
    said = """p.dfy(1,2): Error: no
DEBUG: ---------- type constraints ---------- 0
    bool :> bool
    IsNullableRefType: ?{0}
DEBUG: setting proxy ?{1}.T := seq<?{0}>
DEBUG: (invariance) assigning proxy ?{0}.T := C?"""
    trimmed = trim(said.format(31, 32))
    assert trimmed == trim(said.format(4105, 4106))
    assert trimmed.splitlines() == [
        "p.dfy(1,2): Error: no",
        "    IsNullableRefType: ?1000",
        "DEBUG: setting proxy ?1001.T := seq<?1000>",
        "DEBUG: (invariance) assigning proxy ?1000.T := C?",
    ]
    plain = "Execution trace:\n    (0,0): anon0\nVerification completed successfully!"
    assert trim(plain) == plain
