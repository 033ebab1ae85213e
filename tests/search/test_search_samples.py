"""Samples of searches: values and advantages by hand, and the file that carries them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.errors import ProblemError, RecordError, RunError
from proverrl.lang.records import Segment
from proverrl.search.run import TreeSearch
from proverrl.search.samples import SearchSample, collect_samples, read_samples, write_samples
from tests.search_world import PROBLEM, World, build_search


def make_sample(**changed: Any) -> SearchSample:
    fields: dict[str, Any] = {
        "problem": PROBLEM,
        "body": "a; b;",
        "proved": True,
        "ends": (2, 5),
        "states": ("s", ""),
        "search": "rmax_ts",
        "calls": 7,
    }
    return SearchSample(**{**fields, **changed})


def finish(world: World, **config: Any) -> TreeSearch:
    search = build_search(world, **config)
    asyncio.run(search.run())
    return search


def test_states_by_hand() -> None:
    world = World(target="abb", script=["abb", "aba", "bx", "anb"])
    search = finish(world, name="best_of_n", calls=4, stop_after=9)
    samples = {sample.body: sample for sample in collect_samples(search)}
    proof = samples["abb"]
    assert (proof.proved, proof.ends) == (True, (1, 2, 3))
    # n changes nothing: its stretch is one with the step after it.
    assert (samples["anb"].ends, samples["anb"].proved) == ((1, 3), False)
    # What follows the last state is a stretch with the body's outcome.
    assert samples["bx"].ends == (1, 2)
    # Each stretch names the state that ends it, the key by which the tree knows it.
    assert proof.states == ("a", "ab", "")
    assert (samples["anb"].states, samples["bx"].states) == (("a", "ab"), ("b", ""))
    assert {(s.search, s.calls) for s in samples.values()} == {("best_of_n", 4)}
    assert all(s.problem is PROBLEM for s in samples.values())


def test_a_search_without_states_gives_whole_bodies() -> None:
    world = World(target="ab", script=["ab", "b", "x"])
    search = build_search(world, name="best_of_n", calls=3, stop_after=9)
    object.__setattr__(search.functions, "segment", None)
    asyncio.run(search.run())
    samples = collect_samples(search)
    assert [(s.body, s.ends, s.proved) for s in samples] == [
        ("ab", (2,), True),
        ("b", (1,), False),
        ("x", (1,), False),
    ]


def test_a_state_after_the_body_ends_with_the_body() -> None:
    world = World(target="abb", script=["ab"])
    search = build_search(world, name="best_of_n", calls=1)
    segments = (Segment("a", "1"), Segment("ab\n", "2"))
    object.__setattr__(search.functions, "segment", lambda candidate, verdict: segments)
    asyncio.run(search.run())
    (sample,) = collect_samples(search)
    assert (sample.ends, sample.states) == ((1, 2), ("1", "2"))


@settings(max_examples=30, deadline=None)
@given(body=st.text(max_size=8), proved=st.booleans(), data=st.data())
def test_a_file_gives_back_what_was_written(
    body: str, proved: bool, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    inner = data.draw(st.sets(st.integers(1, max(1, len(body) - 1)))) if len(body) > 1 else set()
    ends = (*sorted(inner - {len(body)}), len(body))
    states = tuple(data.draw(st.text(max_size=3)) for _ in ends)
    sample = make_sample(body=body, proved=proved, ends=ends, states=states)
    path = tmp_path_factory.mktemp("samples") / "samples.jsonl"
    write_samples(path, [sample, make_sample()])
    assert read_samples(path) == [sample, make_sample()]
    assert set(json.loads(path.read_text("utf-8").split("\n")[0])) == {
        "problem",
        "body",
        "proved",
        "ends",
        "states",
        "search",
        "calls",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ends": [2, 2]}, "'ends' must rise to the body's length 5, they are \\[2, 2\\]"),
        ({"ends": [2, 6]}, "'ends' must rise to the body's length 5"),
        ({"ends": [0, 5]}, "'ends' must rise"),
        ({"ends": [5]}, "differ in length"),
        ({"states": ["s"]}, "'ends' and 'states' differ in length"),
        ({"states": ["s", None]}, "states.1: Input should be a valid string"),
        ({"ends": [2, 5.0]}, "ends.1: Input should be a valid integer"),
        ({"proved": 1}, "proved: Input should be a valid boolean"),
        ({"calls": "7"}, "calls: Input should be a valid integer"),
        ({"body": None}, "body: Input should be a valid string"),
        ({"problem": "p"}, "problem: Input should be a valid dictionary"),
        ({"extra": 1}, "extra: Extra inputs are not permitted; write it anew"),
        ({"calls": float("inf")}, "Infinity is no number of JSON"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "s.jsonl"
    write_samples(path, [make_sample()] * 2)
    first, second, _ = path.read_text("utf-8").split("\n")
    path.write_text(f"{first}\n\n{json.dumps({**json.loads(second), **change})}\n\n", "utf-8")
    with pytest.raises(RunError, match=f"s.jsonl, line 3: .*{message}"):
        read_samples(path)


def test_other_wrong_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with pytest.raises(RunError, match=r"cannot read .*s.jsonl: No such file"):
        read_samples(path)
    path.write_text("{\n\n", "utf-8")
    with pytest.raises(RunError, match=r"s.jsonl, line 1: not a JSON object"):
        read_samples(path)
    path.write_bytes(b"\xff\n\n")
    with pytest.raises(RunError, match=r"line 1: not a JSON object: .*utf-8"):
        read_samples(path)
    write_samples(path, [make_sample()])
    row = json.loads(path.read_text("utf-8"))
    del row["problem"]["statement"]
    line = json.dumps(row) + "\n"
    path.write_text(line[:-9], "utf-8")
    with pytest.raises(RunError, match="line 1: the last line was cut off; write it anew"):
        read_samples(path)
    path.write_text(line, "utf-8")
    with pytest.raises(ProblemError, match=r"s.jsonl, line 1: field 'statement' is missing"):
        read_samples(path)


def test_a_sample_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(RecordError, match="differ in length"):
        make_sample(states=("s",))
    assert make_sample(body="", ends=(0,), states=("",)).ends == (0,)
    with pytest.raises(RecordError, match="must rise"):
        make_sample(body="", ends=(), states=())
