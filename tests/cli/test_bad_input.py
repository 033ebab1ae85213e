"""Bad input and full disks: one line that names the place and the remedy, and nothing is lost."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from proverrl.benchmarks.open import open_benchmark
from proverrl.cli.main import cli
from proverrl.config import load_config, load_stored_config, parse_config
from proverrl.errors import (
    ConfigError,
    ProblemError,
    ProverRLError,
    RecordError,
    RunError,
    UsageError,
)
from proverrl.files.disk import loading, saving
from proverrl.files.lines import RESOLVED_FILE, read_json_lines, write_lines_atomically
from proverrl.files.strict_json import load_json, read_object
from proverrl.lang import open as make
from proverrl.lang.base import BackendOptions
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.lang.lean.verify.judge import LeanLimits
from proverrl.monitor.metrics import MetricsTail
from proverrl.monitor.rollout_rows import iter_rollouts
from proverrl.problems.contamination import read_statements
from proverrl.problems.input_paths import check_paths
from proverrl.problems.inputs import Unusable, read_inputs
from proverrl.problems.load import load_problems, write_problems
from proverrl.report.run import iter_problems
from proverrl.run.checkpoint import STATE_FILE, read_state, restoring
from proverrl.run.run_folder import check_resumable, settle
from proverrl.search.samples import read_samples
from proverrl.types import HOLE, Sampling
from proverrl.verifier.base import Limits
from tests import ROOT

FULL = Path("/dev/full")
DEEP = "[" * 100_000
NAN = '{"id": "a", "x": NaN}'
NO_JSON = {
    "deep": (DEEP, "nested too deeply"),
    "nan": (NAN, "NaN is no number of JSON"),
    "long number": ('{"id": ' + "9" * 5000 + "}", "4300 digits"),
}
EMPTY = "the path is empty; name one, or write . for the current folder"

needs_dev_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("verify {file} --timeout nan", "'--timeout': nan is not a finite number"),
        ("verify {file} --timeout inf", "'--timeout': inf is not a finite number"),
        ("verify {file} --memory-mb nan", "'--memory-mb': nan is not a finite number"),
        ("verify {file} --memory-mb 63", "'--memory-mb': 63.0 is not in the range"),
        (
            "verify {file} --workers 1025",
            "'--workers' / '-j': 1025 is not in the range",
        ),
        ("verify {file} --out {empty}", f"'--out': {EMPTY}"),
        ("verify {empty}", "a path is empty; write . for the current folder"),
        ("verify {file} --out {file}", "is an input, {file}: its verdicts would overwrite it"),
        ("recheck {file} --benchmark {file} --timeout nan", "nan is not a finite number"),
        ("recheck {file} --benchmark {file} --out {file}", "is an input, {file}"),
        ("merge {empty} {empty} --out x", f"'FIRST': {EMPTY}"),
        ("merge . . --alpha nan --out x", "'--alpha': nan is not a finite number"),
        ("watch {empty} --once", f"'RUN': {EMPTY}"),
        ("report {empty}", f"'RUNS...': {EMPTY}"),
        ("compare {empty} {empty}", f"'EVALUATIONS...': {EMPTY}"),
        ("inspect {empty} 1", f"'RUN': {EMPTY}"),
        ("train {empty}", f"'[CONFIG_FILE]': {EMPTY}"),
        ("problems convert {empty} --out x.jsonl", "the name of a benchmark is empty"),
        ("eval --name ../x configs/demo.toml", "--name '../x': results are files of RUN/evals"),
        ("problems list {blank}", "blank.jsonl holds no row"),
    ],
)
def test_options_and_paths_that_mean_nothing(tmp_path: Path, arguments: str, message: str) -> None:
    file, blank = tmp_path / "in.jsonl", tmp_path / "blank.jsonl"
    file.write_text("kept\n")
    blank.write_text("\n")
    names = {"file": str(file), "empty": "", "blank": str(blank)}
    done = CliRunner().invoke(cli, [word.format(**names) for word in arguments.split()])
    assert isinstance(done.exception, SystemExit | UsageError)
    assert done.exit_code in (1, 2)
    said = f"{done.output}{done.exception}"
    assert message.format(**names) in said
    assert file.read_text() == "kept\n"


@pytest.mark.parametrize(("text", "reason"), NO_JSON.values(), ids=NO_JSON)
def test_json_has_one_kind_of_fault(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        load_json(text)


@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda text: json.dumps([text]).encode()))
@example(b'"\\ud800"')
@example(b"[" * 300 + b"]" * 300)
@example(b'{"a": 1, "a": 2}')
@example(b"\xef\xbb\xbf{}")
@example(b"[-0.0, 1e-400, 9007199254740993, 0.1]")
def test_the_fast_way_reads_as_the_slow_one(text: bytes) -> None:
    """With NaN allowed the standard library alone reads."""
    slow, fast = describe_json(text, allow_nan=True), describe_json(text)
    assert fast == slow or fast.endswith("is no number of JSON")


def describe_json(text: bytes, *, allow_nan: bool = False) -> str:
    try:
        return repr(load_json(text, allow_nan=allow_nan))
    except ValueError as error:
        return str(error)


def test_keys_that_occur_twice_are_refused_where_it_is_asked_for() -> None:
    text = '{"a": {"b": 1, "b": 2}}'
    assert load_json(text) == {"a": {"b": 2}}
    with pytest.raises(ValueError, match="the key 'b' occurs twice in one object"):
        load_json(text, unique_keys=True)


def test_a_file_of_ours_may_hold_nan_and_no_list(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(NAN)
    assert read_object(file).keys() == {"id", "x"}
    for text, reason in (("[]", "it holds a list, no object"), (DEEP, "nested too deeply")):
        file.write_text(text)
        with pytest.raises(ValueError, match=reason):
            read_object(file)


def test_pipes_are_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "a.dfy"
    os.mkfifo(pipe)
    (tmp_path / "b.dfy").write_text("lemma B() {}\n")
    with pytest.raises(UsageError, match=r"a\.dfy is a pipe, a device or a socket"):
        check_paths([str(pipe)])
    first, second = read_inputs([str(tmp_path)], io.BytesIO())
    assert isinstance(first, Unusable)
    assert first.message == f"{pipe}: it is a pipe, a device or a socket, which may never end; " + (
        "remove it"
    )
    assert second.id == str(tmp_path / "b.dfy")


def test_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    loop, dangling = tmp_path / "loop.dfy", tmp_path / "none.dfy"
    loop.symlink_to(loop)
    dangling.symlink_to(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"loop\.dfy: cannot be read: Too many levels"):
        check_paths([str(loop)])
    found = list(read_inputs([str(tmp_path)], io.BytesIO()))
    assert [one.message for one in found if isinstance(one, Unusable)] == [
        f"{loop}: cannot be read: Too many levels of symbolic links",
        f"{dangling}: cannot be read: No such file or directory",
    ]


PROBLEM: dict[str, Any] = {
    "id": "a",
    "language": "dafny",
    "kind": "statements",
    "preamble": "",
    "statement": f"lemma A() {{ {HOLE} }}\n",
}


def annotate(statement: str) -> dict[str, Any]:
    return PROBLEM | {"id": "b", "kind": "annotate", "statement": statement}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (DEEP, "nested too deeply"),
        (NAN, "NaN is no number of JSON"),
        ('{"id": "b", "id": "c"}', "the key 'id' occurs twice"),
        (PROBLEM | {"id": "b", "statement": "\0" + HOLE}, "field 'statement' holds a NUL"),
        (PROBLEM | {"id": "b", "preamble": "\ud800"}, "field 'preamble' holds half of a surrogate"),
        (PROBLEM | {"id": "b", "statement": f"lemma A() {{ x{HOLE} }}"}, "its hole touches 'x'"),
        (annotate(f"lemma A() ensures true\n{HOLE}"), "this lemma has no body"),
        (annotate(f"lemma A() {{ assume false; }}\n{HOLE}"), "'assume' assumes"),
        (annotate(f'include "x.dfy"\n{HOLE}'), "'include' brings in another file"),
        (
            PROBLEM
            | {
                "id": "b",
                "language": "lean",
                "kind": "tactics",
                "statement": f"theorem : True := by {HOLE}",
            },
            "has no name",
        ),
    ],
)
def test_a_file_of_ours_is_refused_at_its_unusable_line(
    tmp_path: Path, row: str | dict[str, Any], reason: str
) -> None:
    file = tmp_path / "p.jsonl"
    text = row if isinstance(row, str) else json.dumps(row)
    file.write_text("\ufeff" + json.dumps(PROBLEM) + "\n")
    assert [problem.id for problem in open_benchmark(str(file)).problems] == ["a"]
    file.write_text(json.dumps(PROBLEM) + "\n" + text + "\n")
    with pytest.raises(ProblemError, match=rf"p\.jsonl, line 2: .*{reason}"):
        open_benchmark(str(file))


READERS: dict[str, Callable[[Path], object]] = {
    "problems": load_problems,
    "samples": read_samples,
    "rollouts": lambda path: list(iter_rollouts(path)),
    "metrics": read_json_lines,
    "statements": lambda path: list(read_statements(path)),
    "rows": lambda path: open_benchmark(str(path)),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_every_reader_of_lines_names_the_line(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text(DEEP + "\n\n")
    with pytest.raises(ProverRLError, match=r"lines\.jsonl, line 1: .*[Rr]ecursion"):
        read(file)
    with pytest.raises(ProverRLError, match=r"none\.jsonl"):
        read(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("learner.learning_rate=nan", "learner.learning_rate: Input should be a finite number"),
        ("pool.memory_mb=nan", "pool.memory_mb: Input should be"),
        ("pool.memory_mb=inf", "pool.memory_mb: Input should be a finite number"),
        ("pool.workers=1025", "pool.workers: Input should be less than or equal to 1024"),
        ("seed=99999999999999999999", "seed: Input should be less than"),
        ("problems.train=", "problems.train: .*the path is empty"),
        ("run=", "run: .*the path is empty"),
        ("policy.hidden_size=33", "hidden_size 33 is no multiple of twice num_heads"),
        ("evaluation.ks=[]", "evaluation.ks: "),
        (f"grpo.steps={DEEP}", "nested too deeply"),
    ],
)
def test_values_that_no_run_could_use(tmp_path: Path, override: str, reason: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text("")
    with pytest.raises(ConfigError, match=reason):
        load_config(file, [override])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"a = {DEEP}".encode(), "nested too deeply|cannot be read as TOML"),
        (b"\xff\xfe[\0", "cannot be read as TOML: .*utf-8"),
        (b'extends = "c.toml"', "extends this file"),
    ],
)
def test_configuration_files_that_cannot_be_read(tmp_path: Path, text: bytes, reason: str) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=rf"c\.toml.*({reason})"):
        load_config(file)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"config": 3}', DEEP])
def test_a_damaged_configuration_of_a_run(tmp_path: Path, text: str) -> None:
    file = tmp_path / RESOLVED_FILE
    file.write_text(text)
    with pytest.raises(RunError, match=r"resolved\.json cannot be read: ."):
        load_stored_config(tmp_path)
    other = tmp_path / "c.toml"
    other.write_text("")
    with pytest.raises(RunError, match=r"resolved\.json: damaged \(.+\); name another run folder"):
        check_resumable(tmp_path, load_config(other))


def test_a_run_that_failed_at_its_first_file_can_begin_again(tmp_path: Path) -> None:
    run, file = tmp_path / "run", tmp_path / "c.toml"
    run.mkdir()
    file.write_text("")
    for name in (".lock", f"{RESOLVED_FILE}.partial"):
        (run / name).write_text("")
    check_resumable(run, load_config(file))
    (run / "other").write_text("")
    with pytest.raises(RunError, match="exists and is not a run folder"):
        check_resumable(run, load_config(file))


def test_a_setting_of_vllm_may_differ_where_vllm_does_not_write(tmp_path: Path) -> None:
    given = {"policy": {"path": "p"}, "learner": {"precision": "bf16"}}
    config = settle(parse_config(given, source="here"))
    stored = config.dump()
    stored["vllm"]["dtype"] = "float32"
    (tmp_path / RESOLVED_FILE).write_text(json.dumps({"config": stored}))
    check_resumable(tmp_path, config)
    with_vllm = {**given, "policy": {"path": "p", "engine": "vllm"}}
    with pytest.raises(RunError, match=r"begun with policy\.engine = 'transformers'"):
        check_resumable(tmp_path, settle(parse_config(with_vllm, source="here")))


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"step": null}', DEEP])
def test_a_damaged_checkpoint_names_its_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE_FILE).write_text(text)
    with pytest.raises(RunError, match=r"damaged checkpoint \(.+\); delete its folder to use the"):
        read_state(tmp_path)


def test_a_state_without_its_form_is_a_damaged_checkpoint(tmp_path: Path) -> None:
    with (
        pytest.raises(RunError, match=r"damaged checkpoint \(KeyError\('proofs'\)\)"),
        restoring(tmp_path),
    ):
        dict[str, int]()["proofs"]


def fill_with_torch() -> None:
    torch.save({"a": torch.zeros(100_000)}, FULL)


def fill_with_text() -> None:
    FULL.write_text("a" * 100_000)


def fail_with_safetensors() -> None:
    # Not the device: this library renames a file over what it is given.
    save_file({"a": torch.zeros(1)}, Path("/proc/x.safetensors"))


@needs_dev_full
@pytest.mark.parametrize("write", [fill_with_torch, fill_with_text, fail_with_safetensors])
def test_a_refusal_to_write_is_one_error_whichever_library_meets_it(
    write: Callable[[], None],
) -> None:
    with (
        pytest.raises(RunError, match=r"^cannot write the file: .+ then give the same command"),
        saving(Path("the file")),
    ):
        write()


@pytest.mark.parametrize("write", [write_lines_atomically, write_problems])
def test_no_file_takes_the_place_of_a_device(
    tmp_path: Path, write: Callable[[Path, list[dict[str, Any]]], object]
) -> None:
    pipe, link = tmp_path / "pipe.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link, tmp_path):
        with pytest.raises(RunError, match="it is no file, and a file would replace it; name one"):
            write(path, [{"a": 1}])
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


def test_what_is_no_fault_of_the_disk_passes() -> None:
    for error in (KeyError("a"), RuntimeError("shapes differ"), RunError("said already")):
        with pytest.raises(type(error), match=r"a|shapes differ|said already"), saving(FULL):
            raise error


@pytest.mark.parametrize("data", [b"", b"garbage", b"PK\x03\x04 cut"])
@pytest.mark.parametrize(
    "read", [lambda path: torch.load(path, weights_only=True), load_file], ids=["torch", "tensors"]
)
def test_damaged_weights_name_their_file(
    tmp_path: Path, data: bytes, read: Callable[[Path], object]
) -> None:
    file = tmp_path / "weights"
    file.write_bytes(data)
    with (
        pytest.raises(RunError, match=r"^cannot read .*weights: [^\n]+; if a checkpoint holds it"),
        loading(file),
    ):
        read(file)


def test_files_that_cannot_be_written_leave_no_part(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("kept")
    for write in (write_lines_atomically, write_problems):
        with pytest.raises(RunError, match=r"cannot write .*x\.jsonl: (Not a directory|File exi)"):
            write(blocked / "x.jsonl", [{"a": 1}])
    with pytest.raises(RunError, match="cannot write"):
        write_lines_atomically(Path("/proc/x.jsonl"), [])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert blocked.read_text() == "kept"


@needs_dev_full
@pytest.mark.parametrize("buffered", [True, False])
def test_a_full_standard_output_is_one_line(buffered: bool) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": "" if buffered else "1"}
    command = "from proverrl.cli.main import main; main()"
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", command, "problems", "list", "dafny/curriculum/valid.jsonl"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
            check=False,
        )
    place = "standard output" if buffered else "standard output, or a file"
    assert (done.returncode, done.stderr) == (2, f"error: {place}: No space left on device\n")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0])
def test_limits_are_finite(value: float) -> None:
    for limits in (Limits, LeanLimits):
        with pytest.raises(UsageError, match="memory_mb must be positive and finite"):
            limits(memory_mb=value)
    if value:
        with pytest.raises(RecordError, match="temperature must be finite and >= 0"):
            Sampling(temperature=value, max_new_tokens=1)


@pytest.mark.parametrize(
    ("given", "dafny", "lean"), [(None, 4096.0, 8192.0), (512.0, 512.0, 512.0)]
)
def test_memory_that_is_given_holds_for_either_language(
    monkeypatch: pytest.MonkeyPatch, given: float | None, dafny: float, lean: float
) -> None:
    seen: dict[str, float] = {}

    def keep_dafny(limits: Limits) -> None:
        seen["dafny"] = limits.memory_mb
        raise UsageError("seen")

    def keep_lean(memory_mb: float, **_: Any) -> LeanLimits:
        seen["lean"] = memory_mb
        raise UsageError("seen")

    toolchain = DafnyToolchain("dafny", "2.3.0", None, "z3", "4.8.5")
    monkeypatch.setattr(
        "proverrl.lang.dafny.verify.backend.make_spawn", lambda _, limits: keep_dafny(limits)
    )
    monkeypatch.setattr("proverrl.lang.lean.verify.backend.find_lean_toolchain", lambda *_: None)
    usual = LeanLimits()
    monkeypatch.setattr(
        "proverrl.lang.lean.verify.backend.LeanLimits",
        lambda **more: keep_lean(**more) if more else usual,
    )
    limits = Limits()
    router = make.open_router(
        BackendOptions(workers=1, limits=limits, memory_mb=given, toolchain=toolchain)
    )
    for language in ("dafny", "lean"):
        with pytest.raises(UsageError, match="seen"):
            router.open_backend(language)
    assert seen == {"dafny": dafny, "lean": lean}


BAD_LINES = (
    "nonsense",
    "[1]",
    NAN,
    '{"step": "1"}',
    '{"step": 1, "seconds": "x"}',
    '{"step": 1, "solve_rate": true}',
    '{"step": 1, "verdicts": [1]}',
    '{"step": 1, "verdicts": {"proved": "2"}}',
    '{"step": 1, "seconds": 1e400}',
    '{"step": 1, "truncated_share": "0.9"}',
    '{"step": 1, "without_candidate_share": [1]}',
    '{"step": 1, "composer_truncated_share": true}',
    '{"step": 1, "fatal": "2"}',
    DEEP,
)


def test_damaged_lines_are_counted_and_not_drawn(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    good = '{"kind": "step", "step": 1, "seconds": null, "verdicts": {"proved": 2}}'
    file.write_text("\n".join([*BAD_LINES, good]) + "\n")
    tail = MetricsTail(file)
    assert tail.read() == ([json.loads(good)], True)
    assert tail.bad_lines == len(BAD_LINES)


def test_damaged_problems_are_named_where_the_report_reads_their_texts(tmp_path: Path) -> None:
    file = tmp_path / "problems.jsonl"
    write_lines_atomically(
        file, [{"id": "a", "statement": "s", "more": 1}, {"id": "b", "level": []}]
    )
    rows = iter_problems(file)
    assert next(rows) == {"id": "a", "statement": "s", "more": 1}
    with pytest.raises(RunError, match=r"problems\.jsonl, line 2: level\..*; restore the file$"):
        next(rows)


def test_a_folder_in_the_place_of_the_metrics_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(UsageError, match=r"metrics\.jsonl is no file; name the folder of a run"):
        MetricsTail(tmp_path / "metrics.jsonl").read()
