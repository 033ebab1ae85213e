"""Malformed input at length: a clear error each, nothing crashes, nothing leaks."""

import asyncio
import gc
import os
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from proverrl.problems.batch import read_in_thread, verify_stream
from proverrl.problems.inputs import Submission, Unusable, read_inputs
from proverrl.types import Status
from tests.fake_verifier import FakeVerifier
from tests.malformed import iter_malformed, make_good

NUM_LINES = 10_000
GOOD_EVERY = 1000
PLACE = re.compile(r"^(?P<file>.*\.jsonl):(?P<line>\d+): (?P<reason>\S.*)$", re.DOTALL)


def iter_lines(num_lines: int) -> Iterator[bytes]:
    for number, line in enumerate(iter_malformed(num_lines, seed=7), start=1):
        if number % GOOD_EVERY == 0:
            yield make_good(number)
        yield line


def count_children() -> int:
    mine = os.getpid()
    found = 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = place.read_text("utf-8", "replace")
        except OSError:
            continue
        found += int(text.rpartition(")")[2].split()[1]) == mine
    return found


async def judge_file(path: Path) -> tuple[list[str], list[str]]:
    verifier = FakeVerifier(lambda _: Status.PROVED)
    entries = read_in_thread(read_inputs([str(path)], stdin=open(os.devnull, "rb")))  # noqa: SIM115, ASYNC230
    messages, proved = [], []
    async for entry, verdict in verify_stream(entries, verifier, deadline_seconds=5):
        if isinstance(entry, Unusable):
            assert verdict is None
            messages.append(entry.message)
        else:
            assert isinstance(entry, Submission)
            assert verdict is not None
            proved.append(entry.id)
    await verifier.aclose()
    return messages, proved


@pytest.mark.slow
def test_ten_thousand_malformed_lines(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    with path.open("wb") as file:
        for line in iter_lines(NUM_LINES):
            assert b"\n" not in line
            file.write(line + b"\n")
    asyncio.run(judge_file(path))
    gc.collect()
    before = (len(os.listdir("/proc/self/fd")), count_children())
    messages, proved = asyncio.run(judge_file(path))
    gc.collect()
    assert (len(os.listdir("/proc/self/fd")), count_children()) == before
    assert len(messages) == NUM_LINES
    assert proved == [f"good-{n}" for n in range(GOOD_EVERY, NUM_LINES + 1, GOOD_EVERY)]
    lines = []
    for message in messages:
        match = PLACE.match(message)
        assert match is not None, message
        assert match["file"] == str(path)
        assert len(match["reason"]) <= 300
        lines.append(int(match["line"]))
    good = range(GOOD_EVERY, NUM_LINES + 1, GOOD_EVERY)
    places = {n + sum(1 for g in good if g < n + 1) for n in range(1, NUM_LINES + 1)}
    assert lines == sorted(places)


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    def peak(num_lines: int) -> int:
        path = tmp_path / f"{num_lines}.jsonl"
        with path.open("wb") as file:
            for number in range(num_lines):
                file.write(make_good(number) + b"\n")
        tracemalloc.start()
        asyncio.run(drain(path))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    async def drain(path: Path) -> None:
        verifier = FakeVerifier(lambda _: Status.PROVED)
        entries = read_in_thread(read_inputs([str(path)], stdin=open(os.devnull, "rb")))  # noqa: SIM115, ASYNC230
        async for _ in verify_stream(entries, verifier, deadline_seconds=5):
            verifier.calls.clear()

    peak(100)
    assert peak(4000) < 2 * peak(400)
