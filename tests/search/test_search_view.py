"""Figures and folders of searches, in the world of letters."""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proverrl.errors import RunError, UsageError
from proverrl.lang.dafny.search.states import NOTHING_KNOWN
from proverrl.monitor.search_display import (
    PLAIN_SECONDS,
    LiveSearches,
    PlainSearches,
    draw_way,
    make_summary,
    take_glance,
)
from proverrl.search.folder import SearchFolder, check_folder, name_folders
from proverrl.search.run import TreeSearch
from proverrl.search.tree import Tree
from proverrl.search.view import count_open, find_way, measure_tree
from tests.builders import build_problem
from tests.search_world import World, build_search


def small_tree() -> Tree:
    """Root - a - ab - abb, and root - b; ``a`` was expanded once, with reward 1."""
    tree = Tree()
    tree.insert(tree.root, 0, "abb", [(1, "a"), (2, "ab"), (3, "abb")])
    tree.insert(tree.root, 0, "b", [(1, "b")])
    tree.record(tree.nodes[1], 1.0)
    return tree


def run(search: TreeSearch) -> None:
    asyncio.run(search.run())


@pytest.mark.parametrize(
    ("state", "count"),
    [
        ("", None),
        ("text: x := 1 ;", None),
        (NOTHING_KNOWN, 0),
        (f"{NOTHING_KNOWN}\nin: match xs {{", 0),
        ("no goals", 0),
        ("assertion might not hold [-1:4]\nat: f ( x )", 1),
        # Two postconditions fail on one return path; one of them in a part, which is a place more.
        (
            "A postcondition might not hold on this return path. [return]\n"
            "This is the postcondition that might not hold. [-5:2]\n"
            "This is the postcondition that might not hold. [-4:2]\n"
            "Related location [-4:9]\nassertion might not hold [-1:4]",
            3,
        ),
        ("A postcondition might not hold on this return path. [return]", 1),
    ],
)
def test_open_obligations_of_a_dafny_state(state: str, count: int | None) -> None:
    assert count_open(state, "dafny") == count


def test_open_goals_of_a_lean_state() -> None:
    assert count_open("p q : Prop\n⊢ p\n\np q : Prop\n⊢ q", "lean") == 2
    assert count_open("no goals", "lean") == 0


def test_the_figures_of_a_tree() -> None:
    tree = small_tree()
    tree.start(tree.nodes[4])
    found = measure_tree(tree, "dafny")
    # Five nodes; the root, ab and abb are open, a was expanded and b is being expanded.
    assert (found.nodes, found.depth, found.open_states) == (5, 3, 3)
    assert found.widths == (1, 2, 1, 1)
    assert found.way == ("a", "ab", "abb")


def test_of_the_deepest_states_that_with_the_fewest_open_obligations_is_best() -> None:
    tree = Tree()
    tree.insert(tree.root, 0, "a", [(1, "one [1]\ntwo [2]")])
    tree.insert(tree.root, 0, "b", [(1, "one [1]")])
    tree.insert(tree.root, 0, "c", [(1, "text: c")])
    found = measure_tree(tree, "dafny")
    assert (found.way, found.num_open) == (("one [1]",), 1)


def test_a_proof_passes_the_states_that_it_begins_with() -> None:
    tree = small_tree()
    assert find_way(tree, "abba") == [0, 1, 2, 3]
    assert find_way(tree, "ac") == [0, 1]
    assert find_way(tree, "c") == [0]


def make_folder(path: Path, search: TreeSearch, **settings: Any) -> SearchFolder:
    return SearchFolder(path, search.config, search.seed, {"policy": "a", **settings})


def test_a_saved_search_goes_on_from_its_folder(tmp_path: Path) -> None:
    given = {"calls": 12, "stop_after": 99}
    whole = build_search(World(), **given)
    run(whole)
    half = build_search(World(), **{**given, "calls": 5})
    run(half)
    make_folder(tmp_path, half).save(half)
    other = build_search(World(), **given)
    assert make_folder(tmp_path, other).load(other)
    assert other.calls == 5
    run(other)
    assert other.state_dict() == whole.state_dict()


def test_a_search_under_other_settings_is_refused_by_name(tmp_path: Path) -> None:
    search = build_search(World())
    make_folder(tmp_path, search).save(search)
    with pytest.raises(RunError, match=r"other settings \(policy\).*--out"):
        make_folder(tmp_path, search, policy="b").load(search)
    changed = build_search(World(), length_power=1.0)
    with pytest.raises(RunError, match=r"search\.json: .*differs in search.length_power.*--out"):
        make_folder(tmp_path, changed).load(changed)
    path = tmp_path / "search.json"
    path.write_text(path.read_text()[:-9])
    with pytest.raises(RunError, match=r"cannot be read .*--out"):
        make_folder(tmp_path, search).load(search)
    path.write_text('{"settings": {"policy": "a"}, "seconds": 1, "search": {"of": 3}}')
    with pytest.raises(RunError, match=r"changed after it was written .*--out"):
        make_folder(tmp_path, search).load(search)


def test_saving_takes_its_share_of_the_time_and_no_more(tmp_path: Path) -> None:
    search = build_search(World())
    times = iter([0.0, 10.0, 10.0, 11.0, 30.0, 31.0, 32.0, 32.0, 33.0])
    folder = SearchFolder(tmp_path, search.config, 0, {}, clock=lambda: next(times))
    saved = tmp_path / "search.json"
    folder.save(search)  # begun at 10, done at 11: a cost of 1 s
    saved.unlink()
    folder.save_if_due(search)  # at 30: 19 s later, less than 1 s / 5 % = 20 s
    assert not saved.exists()
    folder.save_if_due(search)  # at 31: 20 s later
    assert saved.exists()


def test_a_folder_with_a_search_is_refused_without_resume(tmp_path: Path) -> None:
    check_folder(tmp_path / "new", resume=False)
    check_folder(tmp_path, resume=False)
    (tmp_path / "search.json").write_text("{}")
    check_folder(tmp_path, resume=True)
    with pytest.raises(RunError, match="--resume"):
        check_folder(tmp_path, resume=False)
    with pytest.raises(RunError, match="is a file"):
        check_folder(tmp_path / "search.json", resume=True)
    (tmp_path / "search.json").rename(tmp_path / "notes")
    with pytest.raises(RunError, match="other things"):
        check_folder(tmp_path, resume=True)


def test_a_folder_a_problem(tmp_path: Path) -> None:
    names = name_folders(tmp_path, [build_problem("a/b"), build_problem("..")])
    assert names == {"a/b": tmp_path / "a_b", "..": tmp_path / "_"}
    with pytest.raises(UsageError, match="given twice"):
        name_folders(tmp_path, [build_problem("a"), build_problem("a")])
    with pytest.raises(UsageError, match="'a/b' and 'a_b'"):
        name_folders(tmp_path, [build_problem("a/b"), build_problem("a_b")])


def test_plain_lines_come_every_few_seconds_and_at_the_end() -> None:
    now = 0.0
    stream = io.StringIO()
    display = PlainSearches(stream, 12, clock=lambda: now)
    search = build_search(World(target="bbbbbb"), calls=12)
    display.watch(search)
    display.watch(search)
    now = PLAIN_SECONDS
    run(search)
    display.watch(search)
    display.end(search)
    lines = stream.getvalue().splitlines()
    assert lines[0] == (
        "letters: calls 0/12  tokens 0  nodes 1  depth 0  open 1  best: nothing kept yet"
    )
    assert len(lines) == 3
    assert lines[1] == lines[2]
    assert "calls 12/12" in lines[2]
    assert f"best: depth {measure_tree(search.tree, 'dafny').depth}" in lines[2]


def test_the_live_panel_has_a_row_a_search_and_the_way_to_the_best() -> None:
    from rich.console import Console

    display = LiveSearches(io.StringIO(), 12)
    search = build_search(World(target="ab", script=["a", "ab"]), calls=12)
    # A search of several has no tree before the first of them begins.
    empty = Console(file=io.StringIO(), width=100)
    glance = replace(take_glance(search, 12), tree=measure_tree(None, "dafny"))
    empty.print(draw_way(glance))
    assert isinstance(empty.file, io.StringIO)
    assert empty.file.getvalue().strip() == "nodes by depth"
    watched: list[TreeSearch] = []
    asyncio.run(search.run(watched.append))
    display.watch(search)
    console = Console(file=io.StringIO(), width=100)
    console.print(display._render())
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    display.end(search)
    display.close()
    assert "letters" in shown
    assert f"{search.calls}/12" in shown
    assert "proved" in shown
    assert "nodes by depth 1" in shown


def test_the_table_says_what_became_of_each(tmp_path: Path) -> None:
    from rich.console import Console

    results = []
    for name, script in (("won", ["a", "ab"]), ("lost", [*"xxxxxx"])):
        search = build_search(World(target="ab", script=script), calls=6, max_idle=2)
        result = asyncio.run(search.run())
        folder = make_folder(tmp_path / name, search)
        results.append(folder.write_result(search, result, None))
        assert json.loads((tmp_path / name / "result.json").read_text()) == json.loads(
            json.dumps(results[-1])
        )
    console = Console(file=io.StringIO(), width=120)
    console.print(make_summary("rmax_ts", results))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "rmax_ts: 1 of 2 proved" in shown
    assert "proved at call 2" in shown
    # "x" is judged once; twice more it is nothing new.
    assert "open: nothing new was written" in shown
