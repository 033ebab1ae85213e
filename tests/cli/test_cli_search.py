"""``proverrl search``: its folder, resuming after a kill, exit statuses; real Dafny throughout."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proverrl.cli.search import find_problems, search
from proverrl.config import Config, SearchConfig
from proverrl.errors import CanaryError, ProblemError, RunError, StoppedError, UsageError
from proverrl.files.seal import add_seal
from proverrl.jobs.search import SearchOptions, _judge_saved, _SearchRun
from proverrl.monitor.search_display import open_display
from proverrl.problems.load import load_problems, write_problems
from proverrl.search.base import Proposal
from proverrl.search.folder import SearchFolder
from proverrl.search.run import TreeSearch
from proverrl.search.samples import read_samples
from proverrl.search.spending import FoundProof
from proverrl.search.wiring import make_search
from proverrl.types import Candidate, Status, Verdict
from tests import ROOT
from tests.policy.test_policy import tiny_policy
from tests.search_world import PROBLEM, World
from tests.warm import WARM

HELDOUT = ROOT / "dafny" / "curriculum" / "heldout.jsonl"
VALID = ROOT / "dafny" / "curriculum" / "valid.jsonl"

LOOP = {
    "id": "loop/38",
    "language": "dafny",
    "kind": "invariants",
    "statement": """method Val(x: nat) returns (n: int)
  ensures n == x * 38
{
  n := 0;
  var m := 0;
  while m < x
    /*{HOLE}*/
  {
    m := m + 1;
    n := n + 38;
  }
}
""",
}
CONFIG = """
[policy]
path = "policy"
[pool]
workers = 1
deadline_seconds = 300.0
[search]
name = "rmax_ts"
"""
LONG = ("--set", "search.calls=12", "--set", "search.stop_after=99", "--minimise", "0")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of one problem and a configuration; verdicts are shared in it."""
    folder = tmp_path_factory.mktemp("search")
    write_problems(folder / "loop.jsonl", [LOOP])
    (folder / "search.toml").write_text(CONFIG)
    return folder


def run_drawn(
    place: Path, out: str, *more: str, event: tuple[str, int] = ("none", 0)
) -> subprocess.CompletedProcess[str]:
    """The command with ``tests.search_process``'s policy, sent a signal before it writes for the
    given time."""
    given = ("search", "loop.jsonl", "--config", "search.toml", "--out", out)
    return subprocess.run(
        [*WARM, "-m", "tests.search_process", event[0], str(event[1]), *given, *more],
        capture_output=True,
        text=True,
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"},
        timeout=600,
        check=False,
    )


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def call(place: Path, *arguments: str) -> Result:
    """The command in this process, in the folder; what it raises is kept."""
    before = Path.cwd()
    os.chdir(place)
    try:
        return CliRunner().invoke(search, list(arguments))
    finally:
        os.chdir(before)


@pytest.mark.slow
def test_a_killed_search_goes_on_bit_for_bit(place: Path) -> None:
    whole = run_drawn(place, "whole", *LONG)
    assert whole.returncode == 0, whole.stderr
    killed = run_drawn(place, "killed", *LONG, event=("SIGKILL", 7))
    assert killed.returncode == -9
    folder = place / "killed" / "loop_38"
    half = read(folder / "search.json")["search"]
    # Six expansions had ended, not each of them saved; the seventh was under way.
    assert 1 <= half["expansions"] <= 6
    assert not (folder / "result.json").exists()
    refused = run_drawn(place, "killed", *LONG)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    assert read(folder / "search.json")["search"] == half
    gone_on = run_drawn(place, "killed", *LONG, "--resume")
    assert gone_on.returncode == 0, gone_on.stderr
    assert f"going on after {half['spent']['calls']} calls" in gone_on.stdout
    other = place / "whole" / "loop_38"
    assert (folder / "tree.json").read_bytes() == (other / "tree.json").read_bytes()
    assert len(read(other / "tree.json")["nodes"]) > 2
    ours, theirs = read(folder / "result.json"), read(other / "result.json")
    assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}
    assert ours["calls"] == 12


def test_samples_do_not_overwrite_the_problems(place: Path) -> None:
    before = (place / "loop.jsonl").read_bytes()
    given = ("loop.jsonl", "--config", "search.toml", "--out", "over", "--emit-samples")
    refused = call(place, *given, "loop.jsonl").exception
    assert str(refused) == "loop.jsonl is read by this command; write to another file"
    assert "search.toml is read" in str(call(place, *given, "search.toml").exception)
    assert "in the folder over, whose own" in str(call(place, *given, "over/p/s").exception)
    assert "cannot write loop.jsonl/s.jsonl" in str(
        call(place, *given, "loop.jsonl/s.jsonl").exception
    )
    assert (place / "loop.jsonl").read_bytes() == before
    assert not (place / "over").exists()


@pytest.mark.slow
def test_a_search_that_has_ended_is_left_as_it_is(place: Path) -> None:
    pooled = ("--set", "search.name=pooled_hints", "--set", "search.calls=3")
    done = run_drawn(place, "ended", *pooled)
    assert done.returncode in (0, 1), done.stderr
    folder = place / "ended" / "loop_38"
    before = {name: (folder / name).read_bytes() for name in ("tree.json", "result.json")}
    assert read(folder / "result.json")["walk"]["turns"]
    again = run_drawn(place, "ended", *pooled, "--resume", "--emit-samples", "samples.jsonl")
    assert again.returncode == done.returncode, again.stderr
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert (place / "samples.jsonl").read_text().count("\n") >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["best_of_n", "pooled_hints"])
def test_a_proof_that_a_file_claims_is_judged_again(place: Path, name: str) -> None:
    out = f"forged-{name}"
    given = ("--set", f"search.name={name}", "--set", "search.calls=1")
    done = run_drawn(place, out, *given)
    assert done.returncode == 1, done.stdout
    folder = place / out / "loop_38"
    result = read(folder / "result.json")
    state = read(folder / "search.json")
    search = state["search"]
    verdicts = search["spent"]["verdicts"] or search["whole"]["spent"]["verdicts"]
    verdict = verdicts[0][1] | {"status": "proved", "checks": ["obligations:9"], "diagnostics": []}
    for part in [search, *([search["whole"]] if "whole" in search else [])]:
        part["spent"]["proofs"] = [["assume false;", verdict, 1, 1, True]]
    (folder / "search.json").write_text(json.dumps(state))
    refused = run_drawn(place, out, *given, "--resume")
    assert refused.returncode == 2
    assert "search.json: changed after it was written (sha256 does not fit)" in refused.stderr
    # A checksum that fits proves nothing either.
    (folder / "search.json").write_text(json.dumps(add_seal(state)))
    claimed = {"body": "assume false;", "calls": 1, "tokens": 1, "confirmed": True}
    (folder / "result.json").write_text(json.dumps(result | {"proved": True, "proofs": [claimed]}))
    again = run_drawn(place, out, *given, "--resume")
    assert again.returncode == 1, again.stdout
    assert "0 of 1 proved" in again.stdout
    assert (read(folder / "result.json")["proved"], read(folder / "result.json")["proofs"]) == (
        False,
        [],
    )
    assert not (folder / "proof.dfy").exists()


@pytest.mark.parametrize("name", ["best_of_n", "pooled_hints"])
def test_no_verdict_of_a_file_is_a_sample_and_no_problem_of_it_is_ours(
    place: Path, name: str
) -> None:
    out = f"believed-{name}"
    given = ("--set", f"search.name={name}", "--set", "search.calls=2")
    assert run_drawn(place, out, *given).returncode == 1
    path = place / out / "loop_38" / "search.json"
    state = read(path)
    search = state["search"]
    parts = [search, *([search["whole"]] if "whole" in search else [])]
    for part in parts:
        for _, verdict in part["spent"]["verdicts"]:
            verdict |= {"status": "proved", "checks": ["obligations:9"], "diagnostics": []}
    path.write_text(json.dumps(add_seal(state)))
    done = run_drawn(place, out, *given, "--resume", "--emit-samples", f"{out}.jsonl")
    assert "0 of 1 proved" in done.stdout
    samples = read_samples(place / f"{out}.jsonl")
    assert samples
    assert not any(sample.proved for sample in samples)


def test_a_saved_proof_that_cannot_be_judged_now_ends_the_command(tmp_path: Path) -> None:
    async def verify(candidate: Candidate) -> Verdict:
        return Verdict(Status.TIMEOUT)

    world = World()
    config = SearchConfig(name="best_of_n")
    saved = TreeSearch(PROBLEM, world.functions(verify=verify), config)
    verdict = Verdict(Status.PROVED, checks=("obligations:4",))
    saved.spent.proofs.append(FoundProof("abba", verdict, 1, 4, True))
    with pytest.raises(RunError, match="a saved proof could not be verified again"):
        asyncio.run(_judge_saved(saved, tmp_path))
    saved.functions = world.functions()
    saved.spent.proofs.append(FoundProof("abba", verdict, 1, 4, True))
    saved.spent.proofs.append(FoundProof("abb", verdict, 1, 4, True))
    assert not asyncio.run(_judge_saved(saved, tmp_path))
    assert [proof.body for proof in saved.spent.proofs] == ["abba"]


@pytest.mark.parametrize(
    ("name", "error", "is_written"),
    [
        ("best_of_n", StoppedError, True),
        ("pooled_hints", StoppedError, True),
        # What somebody's own search called proved has not been verified yet.
        ("lying_search:Chance", StoppedError, False),
        ("best_of_n", CanaryError, False),
    ],
)
def test_a_proof_that_was_found_before_a_stop_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    error: type[Exception],
    is_written: bool,
) -> None:
    (tmp_path / "lying_search.py").write_text(
        "from proverrl.search.strategy import BestOfN as Chance\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    world = World(script=["abxba", "abba", "abnba"])

    async def propose(*given: Any) -> list[Proposal]:
        if not world.script:
            raise error("enough")
        return await world.propose(*given)

    config = SearchConfig(name=name, stop_after=9, width=1)
    search = make_search(PROBLEM, world.functions(propose=propose), config)
    display = open_display(io.StringIO(), 64)
    tools: Any = None
    run = _SearchRun(Config(search=config), SearchOptions(tmp_path), tools, tools, display, {})
    folder = SearchFolder(tmp_path / "search", config, 0, {})
    with pytest.raises(error):
        asyncio.run(run._run_saved(search, folder))
    proofs = json.loads((folder.path / "tree.json").read_text("utf-8"))["proofs"]
    assert bool(proofs) == is_written
    written = [path.read_text("utf-8") for path in folder.path.glob("proof.*")]
    assert written == [Candidate(PROBLEM, "abba").source] * is_written
    folder.drop_proofs(PROBLEM)
    assert not list(folder.path.glob("proof.*"))
    # The search holds them, and they are judged again when it is continued.
    assert {proof.body for proof in search.all_proofs} == {"abba", "abnba"}


def test_proofs_that_are_judged_again_are_not_lost_when_that_is_stopped() -> None:
    world = World()
    told: list[str] = []

    async def verify(candidate: Candidate) -> Verdict:
        if told:
            raise asyncio.CancelledError
        told.append(candidate.body)
        return await world.verify(candidate)

    search = TreeSearch(PROBLEM, world.functions(verify=verify), SearchConfig())
    verdict = Verdict(Status.PROVED, checks=("obligations:4",))
    search.spent.proofs = [FoundProof(body, verdict, 1, 4, True) for body in ("abb", "abba")]
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(search.judge_proofs_again())
    assert [proof.body for proof in search.spent.proofs] == ["abb", "abba"]
    assert search.spent.refuted == []


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(place: Path) -> None:
    done = run_drawn(place, "stopped", *LONG, event=("SIGINT", 4))
    assert done.returncode == 130
    assert "interrupted; stopped is saved, the same command with --resume continues" in done.stderr
    saved = read(place / "stopped" / "loop_38" / "search.json")["search"]
    assert (saved["expansions"], len(saved["jobs"])) == (3, 1)
    nodes = read(place / "stopped" / "loop_38" / "tree.json")["nodes"]
    assert len(nodes) == len(saved["strategy"]["tree"]["nodes"])


@pytest.mark.slow
def test_a_proof_is_confirmed_minimised_and_both_verify(place: Path) -> None:
    done = run_drawn(place, "proved", "--set", "search.calls=60")
    assert done.returncode == 0, done.stderr
    assert "1 of 1 proved" in done.stdout
    folder = place / "proved" / "loop_38"
    result = read(folder / "result.json")
    (proof,) = result["proofs"]
    assert proof["confirmed"]
    assert result["minimised"]["complete"]
    small = result["minimised"]["body"]
    # Nothing but these two lines is needed, and neither can be left out.
    assert sorted(line for line in small.splitlines() if line) == [
        "invariant 0 <= m <= x",
        "invariant n == m * 38",
    ]
    before, after = str(LOOP["statement"]).split("/*{HOLE}*/")
    assert (folder / "proof.dfy").read_text() == before + proof["body"] + after
    assert (folder / "proof.min.dfy").read_text() == before + small + after
    (way,) = (row["way"] for row in read(folder / "tree.json")["proofs"])
    assert way[0] == 0
    # Asked again, it has nothing to do and writes nothing but the samples that are asked for.
    changed = (folder / "result.json").stat().st_mtime_ns
    again = run_drawn(
        place, "proved", "--set", "search.calls=60", "--resume", "--emit-samples", "s.jsonl"
    )
    assert again.returncode == 0, again.stderr
    assert (folder / "result.json").stat().st_mtime_ns == changed
    samples = read_samples(place / "s.jsonl")
    assert [s.problem.id for s in samples] == ["loop/38"] * len(samples)
    assert [s.body for s in samples if s.proved] == [proof["body"]]


def test_a_policy_that_proves_nothing_exits_with_1(place: Path) -> None:
    tiny_policy().save(place / "policy")
    given = ("loop.jsonl", "--config", "search.toml", "--out", "none")
    few = ("--set", "search.max_idle=1", "--set", "search.calls=1")
    done = call(place, *given, *few, "--set", "sampling.max_new_tokens=2")
    assert done.exit_code == 1, done.output
    assert "0 of 1 proved" in done.output
    folder = place / "none" / "loop_38"
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock",
        "result.json",
        "search.json",
        "tree.json",
    ]
    # The same search with another policy is another search.
    tiny_policy(seed=1).save(place / "policy")
    refused = call(place, *given, *few, "--set", "sampling.max_new_tokens=2", "--resume")
    assert isinstance(refused.exception, UsageError)
    assert "policy_sha256" in str(refused.exception)


def test_a_search_of_ones_own_has_a_folder_whose_name_works_anywhere(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "own_parts"))
    tiny_policy().save(place / "policy")
    few = ("search.name=own_search:CheapFirst", "search.max_idle=1", "search.calls=1")
    sets = [word for value in (*few, "sampling.max_new_tokens=2") for word in ("--set", value)]
    done = call(place, "loop.jsonl", "--config", "search.toml", *sets)
    assert done.output.splitlines()[-1] == "written: searches/own_search_CheapFirst"
    assert (place / "searches" / "own_search_CheapFirst" / "loop_38" / "result.json").is_file()


def test_a_problem_without_states_is_refused_before_any_search_begins(tmp_path: Path) -> None:
    program = {"id": "program", "language": "dafny", "kind": "file", "statement": "/*{HOLE}*/"}
    write_problems(tmp_path / "both.jsonl", [LOOP, program])
    (tmp_path / "search.toml").write_text(CONFIG)
    tiny_policy().save(tmp_path / "policy")
    done = call(tmp_path, "both.jsonl", "--config", "search.toml", "--out", "both")
    assert isinstance(done.exception, UsageError)
    assert "'program' (dafny, file) has no states" in str(done.exception)
    assert not (tmp_path / "both").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["loop.jsonl"], "--run RUN, or --config FILE"),
        (["loop.jsonl", "--run", "none"], "not a run folder"),
        (["none.jsonl", "--config", "search.toml"], "none.jsonl"),
        (["loop/3", "--benchmark", "loop.jsonl", "--config", "search.toml"], "'loop/38'"),
        (["loop.jsonl", "loop.jsonl", "--config", "search.toml"], "given twice"),
        (["loop.jsonl", "--config", "search.toml", "--set", "search.cals=3"], "search.calls"),
    ],
)
def test_wrong_usage_names_the_place(place: Path, arguments: list[str], message: str) -> None:
    done = call(place, *arguments)
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)


def test_problems_are_ids_of_a_source_or_whole_sources() -> None:
    files = {"train": VALID, "valid": VALID, "heldout": HELDOUT}
    config = Config().model_copy(update={"problems": Config().problems.model_copy(update=files)})
    heldout, valid = load_problems(HELDOUT), load_problems(VALID)
    one, other = heldout[3].id, valid[2].id
    assert [p.id for p in find_problems((one, other), None, config)] == [one, other]
    assert find_problems((str(VALID),), None, config) == valid
    assert find_problems((other,), str(VALID), config) == [valid[2]]
    with pytest.raises(UsageError, match="is no problem of"):
        find_problems((one,), str(VALID), config)
    with pytest.raises(ProblemError, match=r"none\.dfy"):
        find_problems(("none.dfy",), None, config)
