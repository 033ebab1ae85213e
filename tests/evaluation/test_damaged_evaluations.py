"""Damaged evaluations and run folders: one clear line each, exit status 2, no figure."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proverrl.cli import main as cli
from proverrl.evaluation.attempts import describe_gaps
from proverrl.files.seal import SEAL, add_seal
from tests import report_runs as made
from tests.cli.test_compare import FIRST, SECOND, write
from tests.report.test_report_comparison import ONE, write_run

Row = dict[str, Any]
Damage = Callable[[Path], None]


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["proverrl", *map(str, arguments)])
        status: object = 0
        try:
            cli.main()
        except SystemExit as stop:
            status = stop.code
    assert isinstance(status, int)
    out, err = capsys.readouterr()
    return status, out, err


def change_row(number: int, **changes: Any) -> Damage:
    """Set fields of a line, with a seal that fits; a field that is set to ``...`` goes."""

    def change(path: Path) -> None:
        lines = path.read_text().splitlines()
        row = {**json.loads(lines[number - 1]), **changes}
        owner = json.loads(path.with_suffix(".settings").read_text())[SEAL]
        kept = {k: v for k, v in row.items() if v is not ...}
        lines[number - 1] = json.dumps(add_seal(kept, owner))
        path.write_text("\n".join(lines) + "\n")

    return change


def put_line(number: int, line: bytes) -> Damage:
    """In the place of a line."""

    def put(path: Path) -> None:
        lines = path.read_bytes().splitlines()
        lines[number - 1] = line
        path.write_bytes(b"\n".join(lines) + b"\n")

    return put


def keep_lines(keep: Callable[[int], bool]) -> Damage:
    def drop(path: Path) -> None:
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for n, line in enumerate(lines, start=1) if keep(n)))

    return drop


def repeat_line(number: int) -> Damage:
    def repeat(path: Path) -> None:
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*lines, lines[number - 1]]))

    return repeat


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DEEP = b'{"problem_id":' + b"[" * 100_000
TURN = {"candidate": "k", "num_tokens": 5, "finish_reason": "stop"}
USAGE = {"requests": 1, "unreported": 0, "prompt_tokens": 5, "completion_tokens": 7}

# Lines of an attempt file: what is done to line 7 of 20, and what the message says of it.
LINES: dict[str, tuple[Damage, str]] = {
    "no status": (change_row(7, status=...), ", line 7: status: Field required;"),
    "unknown status": (
        change_row(7, status="banana"),
        ", line 7: status: Input should be 'proved'",
    ),
    "status of no text": (change_row(7, status=1), ", line 7: status: Input should be 'proved'"),
    "turns null": (change_row(7, turns=None), ", line 7: turns: Input should be a valid list;"),
    "a turn of text": (
        change_row(7, turns=["x"]),
        ", line 7: turns.0: Input should be a valid dict",
    ),
    "a turn without tokens": (
        change_row(7, turns=[{"candidate": "k"}]),
        ", line 7: turns.0.num_tokens: Field required;",
    ),
    "tokens below zero": (
        change_row(7, turns=[TURN | {"num_tokens": -1}]),
        ", line 7: turns.0.num_tokens: Input should be greater than or equal to 0;",
    ),
    "tokens as text": (
        change_row(7, turns=[TURN | {"num_tokens": "5"}]),
        ", line 7: turns.0.num_tokens: Input should be a valid integer;",
    ),
    "candidate of no text": (
        change_row(7, turns=[TURN | {"candidate": 5}]),
        ", line 7: turns.0.candidate: Input should be a valid string;",
    ),
    "finish of another kind": (
        change_row(7, turns=[TURN | {"finish_reason": "end"}]),
        ", line 7: turns.0.finish_reason: Input should be "
        "'stop', 'length', 'content_filter' or 'no_room';",
    ),
    "reason null": (
        change_row(7, turns=[TURN | {"reason": None}]),
        ", line 7: turns.0.reason: Input should be a valid string;",
    ),
    "usage of text": (
        change_row(7, usage=USAGE | {"requests": "1"}),
        ", line 7: usage.requests: Input should be a valid integer;",
    ),
    "usage in part": (
        change_row(7, usage={"requests": 1}),
        ", line 7: usage.unreported: Field required;",
    ),
    "usage of more": (
        change_row(7, usage=USAGE | {"cached": 1}),
        ", line 7: usage.cached: Extra inputs are not permitted;",
    ),
    "cause of another kind": (
        change_row(7, cause="bored"),
        ", line 7: cause: Input should be '', 'deadline', ",
    ),
    "diagnostics of text": (
        change_row(7, diagnostics="x"),
        ", line 7: diagnostics: Input should be a valid list;",
    ),
    "a diagnostic without message": (
        change_row(7, diagnostics=[{"line": 1}]),
        ", line 7: diagnostics.0.message: Field required;",
    ),
    "no number": (change_row(7, attempt=...), ", line 7: attempt: Field required;"),
    "number of NaN": (
        change_row(7, attempt=float("nan")),
        ", line 7: not a JSON object: NaN is no number of JSON;",
    ),
    "number below zero": (
        change_row(7, attempt=-1),
        ", line 7: attempt: Input should be greater t",
    ),
    "number true": (
        change_row(7, attempt=True),
        ", line 7: attempt: Input should be a valid integer",
    ),
    "no problem": (change_row(7, problem_id=...), ", line 7: problem_id: Field required;"),
    "problem null": (
        change_row(7, problem_id=None),
        ", line 7: problem_id: Input should be a valid",
    ),
    "problem empty": (change_row(7, problem_id=""), ", line 7: problem_id: String should have at"),
    "level a list": (change_row(7, level=[1]), ", line 7: level."),
    "family a number": (
        change_row(7, family=3),
        ", line 7: family: Input should be a valid string;",
    ),
    "body a list": (change_row(7, body=["x"]), ", line 7: body: Input should be a valid string;"),
    "not UTF-8": (
        put_line(7, b'{"problem_id": "\xff"}'),
        ", line 7: not a JSON object: 'utf-8' codec",
    ),
    "not JSON": (put_line(7, b"{'a': 1}"), ", line 7: not a JSON object: "),
    "a list": (put_line(7, b"[]"), ", line 7: not a JSON object: list;"),
    "very deep": (put_line(7, DEEP), ", line 7: not a JSON object: maximum recursion depth"),
    "huge number": (
        put_line(7, b'{"attempt": ' + b"9" * 6000 + b"}"),
        ", line 7: not a JSON object: ",
    ),
    "noise": (put_line(7, bytes(range(128, 256))), ", line 7: not a JSON object: "),
}
# The file as a whole: what is missing, doubled or cut, of which `--common` makes warnings.
GAPS: dict[str, tuple[Damage, str]] = {
    "cut": (cut, ", line 20: the last line was cut off"),
    "doubled": (repeat_line(3), ", line 21: attempt 2 of problem 'a1' occurs twice"),
    "one missing": (
        keep_lines(lambda n: n != 7),
        "missing attempts: 1, the first is 2 of 'a2'",
    ),
    "cut in the middle": (
        keep_lines(lambda n: n <= 10),
        "problems with attempts: 3 of 5; missing attempts: 2, the first is 2 of 'b1'",
    ),
    "one too many": (change_row(8, attempt=4), "attempts beyond those: 1, the first is 4 of 'a2'"),
}
WHOLE: dict[str, tuple[Damage, str]] = {
    "empty": (empty, "second.jsonl holds no attempt;"),
    "gone": (Path.unlink, "second.jsonl: no such file;"),
    "a folder": (make_folder, "second.jsonl: no such file;"),
}


def change_summary(**changes: Any) -> Damage:
    def change(path: Path) -> None:
        row = json.loads(path.read_text()) | changes
        made.write_summary(path, {k: v for k, v in row.items() if v is not ...})

    return change


def set_figure(figure: Any) -> Damage:
    return change_summary(levels=[{"level": "all", "num_problems": 5, "pass": {"1": figure}}])


def write_bytes(content: bytes) -> Damage:
    def change(path: Path) -> None:
        path.write_bytes(content)

    return change


SUMMARIES: dict[str, tuple[Damage, str]] = {
    "empty": (empty, "second.json: cannot be read as JSON: "),
    "cut": (cut, "second.json: cannot be read as JSON: "),
    "a list": (write_bytes(b"[]"), "second.json: cannot be read as JSON: it holds a list,"),
    "not UTF-8": (
        write_bytes(b'{"a": "\xff"}'),
        "second.json: cannot be read as JSON: 'utf-8' codec",
    ),
    "very deep": (
        write_bytes(DEEP),
        "second.json: cannot be read as JSON: maximum recursion depth",
    ),
    "gone": (Path.unlink, "second.json: no such file;"),
    "a folder": (make_folder, "second.json: no such file;"),
    "levels null": (
        change_summary(levels=None),
        "second.json: levels: Input should be a valid list;",
    ),
    "a level of text": (
        change_summary(levels=["all"]),
        "second.json: levels.0: Input should be a ",
    ),
    "value NaN": (
        set_figure({"value": float("nan")}),
        "second.json: levels.0.pass.1.value: Input s",
    ),
    "value 3": (
        set_figure({"value": 3}),
        "second.json: levels.0.pass.1.value: Input should be less",
    ),
    "no value": (set_figure({}), "second.json: levels.0.pass.1.value: Field required;"),
    "figure null": (set_figure(None), "second.json: levels.0.pass.1: Input should be a valid dict"),
    "low as text": (
        set_figure({"value": 0.5, "low": "0"}),
        "second.json: levels.0.pass.1.low: Input",
    ),
    "k of text": (
        change_summary(levels=[{"level": "all", "pass": {"x": {"value": 0.5}}}]),
        "second.json: levels.0.pass.x.[key]: String should match",
    ),
    "problems below zero": (
        change_summary(levels=[{"level": "all", "num_problems": -1}]),
        "second.json: levels.0.num_problems: Input should be greater than or equal to 0;",
    ),
    "completions as text": (
        change_summary(completions="4"),
        "second.json: completions: Input should be a valid integer;",
    ),
    "more cut off than all": (
        change_summary(truncated_share=1.5),
        "second.json: truncated_share: Input should be less than or equal to 1;",
    ),
    "share as text": (
        change_summary(without_candidate_share="0.5"),
        "second.json: without_candidate_share: Input should be a valid number;",
    ),
    "reason a list": (
        change_summary(without_candidate_reason=[]),
        "second.json: without_candidate_reason: Input should be a valid string;",
    ),
    "warnings of text": (
        change_summary(warnings="loud"),
        "second.json: warnings: Input should be a valid list;",
    ),
    "usage without cost": (
        change_summary(usage=USAGE),
        "second.json: usage.cost: Field required;",
    ),
    "top_p as text": (
        change_summary(top_p="0.9"),
        "second.json: top_p: Input should be a valid number;",
    ),
    "fatal as text": (
        change_summary(levels=[{"level": "all", "fatal": "2"}]),
        "second.json: levels.0.fatal: Input should be a valid integer;",
    ),
    "attempts as text": (
        change_summary(samples_per_problem="4"),
        "second.json: samples_per_problem: Input should be a valid integer;",
    ),
    "benchmark a number": (
        change_summary(benchmark_sha256=7),
        "second.json: benchmark_sha256: Input should be a valid string;",
    ),
}
# What `compare` needs and the report does not.
NEEDED: dict[str, tuple[Damage, str]] = {
    "no levels": (change_summary(levels=[]), "second.json has no levels;"),
    "no benchmark": (change_summary(benchmark_sha256=...), "second.json has no benchmark_sha256;"),
    "no number of attempts": (
        change_summary(samples_per_problem=...),
        "second.json has no samples_per_problem;",
    ),
    "more attempts than there are": (
        change_summary(samples_per_problem=10**30),
        f"missing attempts: {5 * 10**30 - 20}, the first is 4 of 'a1';",
    ),
}


def check_refused(found: tuple[int, str, str], message: str) -> None:
    """One line on standard error, exit status 2, and no figure."""
    status, out, err = found
    assert (status, out) == (2, ""), err
    assert err.startswith("error: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert message in err
    # What to do about it.
    assert any(word in err.rpartition("; ")[2] for word in ("give", "again", "delete", "restore"))


def write_pair(folder: Path) -> tuple[Path, Path]:
    return write(folder, "first", FIRST), write(folder, "second", SECOND)


@pytest.mark.parametrize("budget", [(), ("--budget", "calls")], ids=["compare", "budget"])
@pytest.mark.parametrize("name", [*LINES, *GAPS, *WHOLE])
def test_compare_refuses_damaged_attempts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, budget: tuple[str, ...]
) -> None:
    first, second = write_pair(tmp_path)
    damage, message = (LINES | GAPS | WHOLE)[name]
    damage(second.with_suffix(".jsonl"))
    check_refused(call(capsys, "compare", first, second, *budget), message)
    check_refused(call(capsys, "compare", second, first, *budget), message)


@pytest.mark.parametrize("name", [*SUMMARIES, *NEEDED])
def test_compare_refuses_damaged_summaries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    first, second = write_pair(tmp_path)
    damage, message = (SUMMARIES | NEEDED)[name]
    damage(second)
    check_refused(call(capsys, "compare", first, second), message)
    check_refused(call(capsys, "compare", second, first, "--budget", "turns"), message)


@pytest.mark.parametrize("name", LINES)
def test_the_report_refuses_damaged_attempts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run = write_run(tmp_path / "run", ONE)
    _, second = write_pair(tmp_path)
    damage, message = LINES[name]
    damage(second.with_suffix(".jsonl"))
    shutil.copy(second.with_suffix(".jsonl"), run / "evals" / "after.jsonl")
    check_refused(call(capsys, "report", run), message)
    assert [path for path in run.iterdir() if path.name.startswith("report")] == []


@pytest.mark.parametrize("name", sorted(SUMMARIES.keys() - {"gone"}))
def test_the_report_refuses_damaged_summaries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run = write_run(tmp_path / "run", ONE)
    damage, message = SUMMARIES[name]
    damage(run / "evals" / "after.json")
    check_refused(call(capsys, "report", run), message.replace("second", "after"))


@pytest.mark.parametrize("name", LINES)
def test_recheck_refuses_damaged_attempts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    _, second = write_pair(tmp_path)
    attempts = second.with_suffix(".jsonl")
    # Nothing is claimed but by the damaged line, so that nothing has to be verified.
    rows = [json.loads(line) | {"status": "rejected"} for line in attempts.read_text().splitlines()]
    made.write_lines(attempts, rows)
    LINES[name][0](attempts)
    made.write_lines(tmp_path / "problems.jsonl", [PROBLEM])
    status, _, err = call(capsys, "recheck", attempts, "--benchmark", tmp_path / "problems.jsonl")
    assert status == 2
    assert err.startswith(f"error: {attempts}:7: ")
    assert err.count("\n") == 1


PROBLEM = {"id": "a1", "language": "dafny", "kind": "statements"} | {
    "statement": "lemma L() ensures 1 + 1 == 2 { /*{HOLE}*/ }"
}
OUTCOME = {"line": 1, "sample": 0, "claim": "c", "status": "proved"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "claims.jsonl holds no line;"),
        (b"\n\n", "claims.jsonl holds no line;"),
    ],
)
def test_recheck_refuses_a_file_of_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    (tmp_path / "claims.jsonl").write_bytes(content)
    made.write_lines(tmp_path / "problems.jsonl", [PROBLEM])
    benchmark = ("--benchmark", tmp_path / "problems.jsonl")
    status, out, err = call(capsys, "recheck", tmp_path / "claims.jsonl", *benchmark)
    assert (status, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ({**OUTCOME, "status": "banana"}, "out.jsonl, line 1: status: Input should be 'proved'"),
        ({"line": 1}, "out.jsonl, line 1: sample: Field required; leave out --resume"),
        ({**OUTCOME, "line": [1]}, "out.jsonl, line 1: line: Input should be a valid integer;"),
        ({**OUTCOME, "claim": None}, "out.jsonl, line 1: claim: Input should be a valid string;"),
    ],
)
def test_recheck_goes_on_from_no_damaged_outcomes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], outcome: Row, message: str
) -> None:
    made.write_lines(tmp_path / "claims.jsonl", [{"name": "a1", "code": "x", "pass": False}])
    made.write_lines(tmp_path / "problems.jsonl", [PROBLEM])
    made.write_lines(tmp_path / "out.jsonl", [outcome])
    paths = ("--benchmark", tmp_path / "problems.jsonl", "--out", tmp_path / "out.jsonl")
    status, out, err = call(capsys, "recheck", tmp_path / "claims.jsonl", *paths, "--resume")
    assert (status, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("name", GAPS)
def test_what_is_there_is_compared_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    first, second = write_pair(tmp_path)
    damage, message = GAPS[name]
    damage(second.with_suffix(".jsonl"))
    status, out, err = call(capsys, "compare", first, second, "--common", "--json", "-k", "1")
    assert status == 0
    assert f"warning: {second.with_suffix('.jsonl')}" in err
    assert message in err
    found = json.loads(out)
    assert any(message in line for line in found["warnings"])
    whole = found["comparisons"][0]["groups"][0]
    # Half of the lines: a1 and a2 whole and b1 with "pr"; b2 and b3 are on one side only.
    expected = {
        "cut": (5, [1 / 2, 1 / 4, 3 / 4, 0, 1 / 3]),
        "doubled": (5, [1 / 2, 1 / 4, 3 / 4, 0, 1 / 4]),
        "one missing": (5, [1 / 2, 1 / 3, 3 / 4, 0, 1 / 4]),
        "cut in the middle": (3, [1 / 2, 1 / 4, 1 / 2]),
        "one too many": (5, [1 / 2, 1 / 4, 3 / 4, 0, 1 / 4]),
    }[name]
    assert whole["num_paired"] == expected[0]
    assert whole["second"]["value"] == pytest.approx(sum(expected[1]) / expected[0])


def test_nothing_in_common_is_no_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = write(tmp_path, "one", {"a": "p"}), write(tmp_path, "two", {"b": "p"})
    found = call(capsys, "compare", one, two, "--common")
    assert found[0] == 2
    assert "no problem in common" in found[2]


def test_a_k_that_no_problem_has_attempts_for_has_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = write_pair(tmp_path)
    status, out, _ = call(capsys, "compare", first, second, "-k", "5")
    assert status == 0
    row = next(line for line in out.splitlines() if "all" in line)
    assert "0 of 5" in row
    assert row.split() == ["all", "5", "0", "of", "5", "-", "-", "-", "-", "0,", "0", "-"]


RUN_FILES: dict[str, tuple[str, bytes, str]] = {
    "no object": (
        "resolved.json",
        b"[]",
        "resolved.json: cannot be read as JSON: it holds a list,",
    ),
    "configuration a list": ("resolved.json", b'{"config": []}', "resolved.json: config: Input"),
    "steps as text": (
        "resolved.json",
        b'{"config": {"grpo": {"steps": "x"}}}',
        "resolved.json: config.grpo.steps: Input should be a valid integer;",
    ),
    "metrics deep": (
        "metrics.jsonl",
        DEEP + b"\n{}\n",
        "metrics.jsonl, line 1: not a JSON object:",
    ),
    "levels a list": (
        "metrics.jsonl",
        b'{"kind": "step", "step": 1}\n{"kind": "step", "step": 2, "levels": [1]}\n',
        "metrics.jsonl, line 2: levels: Input should be a valid dictionary;",
    ),
    "share of a step": (
        "metrics.jsonl",
        b'{"kind": "step", "step": 1, "truncated_share": "0.9"}\n',
        "metrics.jsonl, line 1: truncated_share: Input should be a valid number;",
    ),
    "fatal below zero": (
        "metrics.jsonl",
        b'{"kind": "step", "step": 1, "fatal": -1}\n',
        "metrics.jsonl, line 1: fatal: Input should be greater than or equal to 0;",
    ),
    "seconds NaN": (
        "metrics.jsonl",
        b'{"kind": "step", "step": 1, "seconds": NaN}\n{}\n',
        "metrics.jsonl, line 1: not a JSON object: NaN is no number of JSON;",
    ),
    "solve rate 7": (
        "metrics.jsonl",
        b'{"kind": "step", "step": 1, "solve_rate": 7}\n',
        "metrics.jsonl, line 1: solve_rate: Input should be less than or equal to 1;",
    ),
    "rollout without problem": (
        "rollouts/step_1.jsonl",
        b'{"rollout_id": "1-a-0", "status": "proved"}\n',
        "step_1.jsonl, line 1: problem: Field required;",
    ),
    "diagnostics of a rollout": (
        "rollouts/step_1.jsonl",
        b'{"rollout_id": "1", "status": "x", "problem": {"id": "a"}, "turns": [],'
        b' "diagnostics": true}\n',
        "step_1.jsonl, line 1: diagnostics: Input should be a valid list;",
    ),
    "turns of a rollout": (
        "rollouts/step_1.jsonl",
        b'{"rollout_id": "1", "status": "x", "problem": {"id": "a"}, "turns": null}\n',
        "step_1.jsonl, line 1: turns: Input should be a valid list;",
    ),
}


@pytest.mark.parametrize("name", RUN_FILES)
def test_the_report_refuses_damaged_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run = write_run(tmp_path / "run", ONE)
    file, content, message = RUN_FILES[name]
    (run / file).parent.mkdir(parents=True, exist_ok=True)
    (run / file).write_bytes(content)
    status, out, err = call(capsys, "report", run)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_gaps_by_hand() -> None:
    numbers = {"a": {0, 1}, "b": {0, 3}}
    summary: Row = {"samples_per_problem": 2, "levels": [{"num_problems": 3}]}
    assert describe_gaps(numbers, summary) == (
        "problems with attempts: 2 of 3; missing attempts: 1, the first is 1 of 'b'; "
        "attempts beyond those: 1, the first is 3 of 'b'"
    )
    assert describe_gaps({"a": {0, 1}}, summary | {"levels": [{}]}) == ""
    # Where nothing says how many attempts there were.
    assert describe_gaps(numbers, {}) == ""
