"""Attempts are counted in one pass, and the examples are the ones that the rule names."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proverrl.errors import RunError
from proverrl.evaluation import tally as tally_module
from proverrl.evaluation.tally import count_reason, fetch_rows, tally_attempts
from proverrl.files.lines import read_json_lines
from proverrl.report import problem_data
from proverrl.report.comparison import list_shelves
from proverrl.report.problem_data import build_problems
from proverrl.report.run import load_runs
from proverrl.types import Status
from tests import report_runs as made
from tests.report_page import unpack_json

NUMBERS = itertools.count()
"""No two attempts have one number."""


def attempt(problem: str, status: str, body: str = "b", message: str = "") -> dict[str, Any]:
    found = [{"severity": "error", "message": message, "line": 1}] if message else []
    return {
        "problem_id": problem,
        "level": 2,
        "family": "f",
        "attempt": next(NUMBERS),
        "status": status,
        "body": body,
        "diagnostics": found,
    }


ROWS = [
    attempt("p", "proved", "four"),
    attempt("q", "rejected", "1", "first"),
    attempt("p", "proved", "six  6"),
    attempt("p", "proved", "two"),
    attempt("p", "proved", "two"),
    attempt("p", "timeout", "", "no answer"),
    attempt("q", "rejected", "2", "second"),
    attempt("q", "rejected", "3", "second"),
    attempt("q", "unsound", "4", "third"),
    attempt("q", "crashed"),
    attempt("q", "incomplete", "5"),
]


def test_shortest_proofs_and_most_frequent_failures_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "after.jsonl"
    made.write_attempts(path, ROWS)
    tally = tally_attempts(path)
    p, q = tally.problems["p"], tally.problems["q"]
    assert (p.attempts, p.judged, p.solved) == (5, 4, 4)
    assert (q.attempts, q.judged, q.solved) == (6, 5, 0)
    # "two" came twice and counts once; of two proofs kept, "six  6" is the one to go.
    assert [proof[0] for proof in p.proofs] == [3, 4]
    bodies = [row["body"] for row in fetch_rows(tally, [place for _, _, place in p.proofs])]
    assert bodies == ["two", "four"]
    # "second" twice; then the first of those that came once.
    assert [count for count, _ in q.common_failures] == [2, 1]
    places = [place for _, place in q.common_failures]
    assert [row["body"] for row in fetch_rows(tally, places)] == ["2", "1"]
    assert tally.reasons == {"timeout: no answer": 1, "crashed: no message": 1}
    assert tally.total == 11


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("pqr"),
            st.sampled_from([str(status) for status in Status]),
            st.text(max_size=4),
            st.sampled_from(["", "a", "b", "c"]),
        )
    )
)
def test_counts_add_up_to_the_file(tmp_path: Path, draws: list[tuple[str, str, str, str]]) -> None:
    path = tmp_path / "after.jsonl"
    made.write_attempts(path, [attempt(*draw) for draw in draws])
    tally = tally_attempts(path)
    assert tally.total == len(draws)
    assert tally.statuses == Counter(status for _, status, _, _ in draws)
    for name, problem in tally.problems.items():
        proofs = {body for p, status, body, _ in draws if (p, status) == (name, "proved")}
        shown = fetch_rows(tally, [place for _, _, place in problem.proofs])
        assert [len(row["body"]) for row in shown] == sorted(map(len, proofs))[:2]
        assert {row["body"] for row in shown} <= proofs
        failures = fetch_rows(tally, [place for _, place in problem.common_failures])
        assert all(row["problem_id"] == name and row["status"] != "proved" for row in failures)


def test_distinct_messages_beyond_the_limit_cost_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally_module, "REASONS_COUNTED", 2)
    path = tmp_path / "after.jsonl"
    rows = [attempt("p", "rejected", "b", f"message {number}") for number in range(100)]
    made.write_attempts(path, rows)
    problem = tally_attempts(path).problems["p"]
    assert len(problem.failures) == 8
    assert problem.attempts == 100
    reasons: Counter[str] = Counter()
    for number in range(5):
        count_reason(reasons, attempt("p", "timeout", "", f"m{number}"))
    assert reasons == {"timeout: m0": 1, "timeout: m1": 1, "other messages": 3}


def test_a_file_that_changed_meanwhile_is_named(tmp_path: Path) -> None:
    path = tmp_path / "after.jsonl"
    made.write_attempts(path, ROWS)
    tally = tally_attempts(path)
    path.write_text("{}\n")
    with pytest.raises(RunError, match=r"after\.jsonl: changed while the report was made"):
        fetch_rows(tally, [tally.problems["q"].common_failures[0][1]])


def test_half_a_line_is_dropped_and_a_bad_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a":1}\n\n{"a":2}\n{"a"')
    assert read_json_lines(path) == [{"a": 1}, {"a": 2}]
    path.write_text('{"a":1}\n{"a"\n')
    assert read_json_lines(path) == [{"a": 1}]
    path.write_text('{"a":1}\n{"a"\n{"half"')
    assert read_json_lines(path) == [{"a": 1}]
    path.write_text('{"a"\n{"a":1}\n')
    with pytest.raises(RunError, match=r"x\.jsonl, line 1: not a JSON object"):
        read_json_lines(path)
    path.write_text("[1]\n")
    with pytest.raises(RunError, match="line 1: not a JSON object: list"):
        read_json_lines(path)


def test_the_page_holds_the_figures_of_every_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problem_data, "PROBLEMS_A_PIECE", 10)
    run = made.make_run(tmp_path / "run", steps=2)
    runs = load_runs([run])
    packed = build_problems(runs, list_shelves(runs))
    [entry] = packed.shelves
    pieces = {piece.name: unpack_json(piece.packed) for piece in packed.pieces}
    rows = [json.loads(line) for line in (run / "evals" / "after.jsonl").read_text().splitlines()]
    index = pieces["problems-0"]
    # Four levels of six problems with eight attempts each.
    assert (entry["problems"], entry["listed"], entry["detailed"]) == (24, 24, 24)
    titles = [(column["title"], column["attempts"]) for column in entry["columns"]]
    assert titles == [("Before", 192), ("After", 192)]
    assert index["attempts"] == [[8] * 24] * 2
    solved = Counter(row["problem_id"] for row in rows if row["status"] == "proved")
    assert dict(zip(index["ids"], index["solved"][1], strict=True)) == {
        name: solved[name] for name in index["ids"]
    }
    assert [len(pieces[f"problems-0-{number}"]) for number in range(3)] == [10, 10, 4]
    details = [item for number in range(3) for item in pieces[f"problems-0-{number}"]]
    for name, item in zip(index["ids"], details, strict=True):
        own = [row for row in rows if row["problem_id"] == name]
        assert item["statement"] == made.STATEMENT
        item = item["columns"][1]
        assert item["statuses"] == Counter(row["status"] for row in own)
        assert item["marks"] == "".join(row["status"][0] for row in own)
        kinds = {e["status"]: (e["count"], e["body"]) for e in item["examples"]}
        if item["statuses"].get("rejected"):
            # All rejected attempts carry the same first message.
            assert kinds["rejected"] == (item["statuses"]["rejected"], made.WRONG)
        if item["statuses"].get("proved"):
            assert kinds["proved"] == (1, made.PROOF)


def test_problems_that_do_not_fit_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made.make_run(tmp_path / "run", steps=2)
    monkeypatch.setattr(problem_data, "PROBLEMS_A_PIECE", 4)
    runs = load_runs([run])
    shelves = list_shelves(runs)
    full = build_problems(runs, shelves)
    sizes = [len(piece.packed) for piece in full.pieces]
    assert len(sizes) == 1 + 6
    monkeypatch.setattr(problem_data, "MAX_PACKED_CHARS", sum(sizes[:3]))
    [entry] = build_problems(runs, shelves).shelves
    # The index and two pieces of four problems.
    assert (entry["listed"], entry["detailed"]) == (24, 8)
    monkeypatch.setattr(problem_data, "MAX_LISTED", 5)
    [entry] = build_problems(runs, shelves).shelves
    assert (entry["problems"], entry["listed"], entry["detailed"]) == (24, 5, 5)
