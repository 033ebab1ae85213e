"""Result files of others: what they claim, and what of it holds by real Dafny."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from proverrl.errors import UsageError
from proverrl.evaluation.claims import Claim, Misfit, read_claims
from proverrl.evaluation.recheck import RecheckedClaim, prepare, recheck_claims
from proverrl.lang.lean.syntax.declarations import problem_from_statement
from proverrl.problems.load import load_problems, load_references
from proverrl.types import HOLE, Candidate, Problem, Status
from tests import ROOT
from tests.builders import build_problem
from tests.fake_verifier import FakeVerifier

HELDOUT = ROOT / "dafny" / "curriculum" / "heldout.jsonl"
HEADER = "import Mathlib\nimport Aesop\n\nset_option maxHeartbeats 400000\n\nopen Nat\n\n"
STATEMENT = "theorem twice (n : ℕ) : n + n = 2 * n := by\n"
LEAN = problem_from_statement("twice", STATEMENT + "  sorry", header=HEADER)
WHOLE = HEADER + STATEMENT + "  omega\n"


def read(tmp_path: Path, *rows: Any) -> list[Claim | Misfit]:
    path = tmp_path / "claims.jsonl"
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows))
    return list(read_claims(path))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        # DeepSeek-Prover: the verifier's result beside the code; pass without complete is a sorry.
        ({"name": "n", "code": "c", "complete": True, "pass": True}, [("c", True)]),
        ({"name": "n", "code": "c", "complete": False, "pass": True}, [("c", False)]),
        ({"name": "n", "proof": "c", "result": {"pass": True, "complete": False}}, [("c", False)]),
        # Goedel-Prover: the compiler's answer nested, several samples a line.
        ({"name": "n", "code": "c", "compilation_result": {"complete": True}}, [("c", True)]),
        ({"problem_id": "n", "full_code": ["c", "d"], "complete": [False, True]},
         [("c", False), ("d", True)]),
        ({"name": "n", "full_code": ["c", "d"],
          "compilation_result": [{"pass": True, "complete": True}, {"pass": True}]},
         [("c", True), ("d", True)]),
        ({"name": "n", "verified_code": "c", "correct": 0}, [("c", False)]),
        # Ours, and bare files.
        ({"problem_id": "n", "body": "c", "status": "proved"}, [("c", True)]),
        ({"problem_id": "n", "body": "c", "status": "timeout"}, [("c", False)]),
        ({"id": "n", "code": "c"}, [("c", True)]),
        ({"id": 7, "code": "c", "status": "valid"}, [("c", True)]),
        ({"name": "n", "complete": True}, [(None, True)]),
        # Kimina Lean Server: no word of its own, only what Lean said.
        ({"custom_id": "n", "proof": "c", "error": "timed out", "response": None}, [("c", False)]),
        ({"custom_id": "n", "proof": "c", "error": None, "response": {"env": 0}}, [("c", True)]),
        ({"custom_id": "n", "proof": "c", "response": {"message": "unknown env"}}, [("c", False)]),
        ({"custom_id": "n", "proof": "c", "response": {"env": 0, "sorries": [{"goal": ""}]}},
         [("c", False)]),
        ({"custom_id": "n", "proof": "c", "response": {"messages": [{"severity": "warning"}]}},
         [("c", True)]),
        ({"custom_id": "n", "proof": "c", "response": {"messages": [
            {"severity": "warning"}, {"severity": "error"}]}}, [("c", False)]),
        ({"custom_id": "n", "response": {"messages": [{"severity": "error"}]}}, [(None, False)]),
    ],
)  # fmt: skip
def test_formats(tmp_path: Path, row: dict[str, Any], expected: list[Any]) -> None:
    claims = read(tmp_path, row)
    assert [(c.code, c.claimed) for c in claims if isinstance(c, Claim)] == expected
    assert [c.number for c in claims if isinstance(c, Claim)] == list(range(len(expected)))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "not JSON"),
        ("[]", "a list, not a JSON object"),
        ({"code": "c"}, "names no problem; looked for name, problem_id"),
        ({"name": "n", "text": "c"}, "holds no proof; looked for full_code, code"),
        ({"name": "n", "code": ["c", "d", "e"], "pass": [True, True]}, "3 proofs in 'code' and 2"),
        ({"name": "n", "code": 5}, "field 'code' holds a int"),
    ],
)
def test_lines_that_fit_no_format(tmp_path: Path, row: Any, message: str) -> None:
    (_, found) = read(tmp_path, {"name": "n", "code": "c"}, row)
    assert isinstance(found, Misfit)
    assert (found.line, message in found.reason) == (2, True)


def test_an_array_is_read_like_lines(tmp_path: Path) -> None:
    rows: list[Any] = [{"name": "n", "code": "c"}, 5, {"name": "m", "code": "d", "pass": False}]
    path = tmp_path / "claims.json"
    for text in (json.dumps(rows), "\ufeff \n" + json.dumps(rows, indent=4)):
        path.write_text(text)
        assert list(read_claims(path)) == [
            Claim(1, 0, ("n",), "c", True),
            Misfit(2, "a int, not a JSON object"),
            Claim(3, 0, ("m",), "d", False),
        ]
    for text, reason in (
        ('[\n{"name": "n"},\n]', r"line 3, column 1: not JSON \(Expecting value\)"),
        ("[]", "holds no proof"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=reason):
            list(read_claims(path))


def test_what_dafnybench_publishes(tmp_path: Path) -> None:
    answers = tmp_path / "reconstructed_files" / "gpt_outputs.json"
    row = {"test_ID": "000", "test_file": "Clover_abs_no_hints.dfy", "llm_output": "method A"}
    rows = {"000": row, "001": row | {"test_ID": "001"}}
    answers.parent.mkdir()
    answers.write_text(json.dumps(rows, indent=4))
    # Alone they all claim to be proved; with the summary beside it those with an attempt do.
    assert list(read_claims(answers)) == [
        Claim(place, 0, ("Clover_abs",), "method A", True) for place in (1, 2)
    ]
    summary = tmp_path / "results_summary" / "gpt_results.csv"
    summary.parent.mkdir()
    head = "test_ID,test_file,success_on_attempt_#\n"
    summary.write_text(head + "000,Clover_abs_no_hints.dfy,3\n001,Clover_abs_no_hints.dfy,failed\n")
    assert list(read_claims(answers)) == [
        Claim(1, 0, ("Clover_abs",), "method A", True),
        Claim(2, 0, ("Clover_abs",), "method A", False),
    ]
    with pytest.raises(UsageError, match="a table holds no proofs"):
        list(read_claims(summary))
    summary.write_text(head + "000,Clover_abs_no_hints.dfy,3\n")
    with pytest.raises(UsageError, match="lacks '001'"):
        list(read_claims(answers))
    summary.write_text(head + "x" * 200_000 + ",Clover_abs_no_hints.dfy,3\n")
    with pytest.raises(UsageError, match=r"no table \(field larger than field limit"):
        list(read_claims(answers))


def test_what_vericoding_publishes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no proof"):
        list(read_claims(tmp_path))
    text = """\
predicate P()
// <vc-helpers>
%s
// </vc-helpers>

// <vc-spec>
method M() returns (n: int)
// </vc-spec>
// <vc-code>
{
  n := 1;
}
// </vc-code>
"""
    helped = text % "// a lemma\nlemma L() {}"
    (tmp_path / "DA0001_vericoded.dfy").write_text(text % "// none\n")
    (tmp_path / "DA0002_vericoded.dfy").write_text(helped)
    (tmp_path / "DA0003.dfy").write_bytes(b"\xff")
    (tmp_path / "README.md").write_text("no proof")
    plain, whole, broken = read_claims(tmp_path)
    assert plain == Claim(1, 0, ("DA0001",), "{\n  n := 1;\n}", True, is_body=True)
    assert whole == Claim(2, 0, ("DA0002",), helped, True)
    assert isinstance(broken, Misfit)
    assert "DA0003.dfy" in broken.reason


def build_claim(code: str | None, name: str = "twice", **fields: Any) -> Claim:
    return Claim(1, 0, (name,), code, True, **fields)


def body_of(found: Candidate | RecheckedClaim) -> str:
    assert isinstance(found, Candidate), found
    return found.body.strip()


def test_lean_files_give_the_proof_and_keep_our_statement() -> None:
    by_id = {"twice": LEAN}
    assert body_of(prepare(build_claim(WHOLE), by_id)) == "omega"
    assert body_of(prepare(build_claim("omega"), by_id)) == "omega"
    assert body_of(prepare(build_claim(WHOLE, "twice_g12"), by_id)) == "omega"
    lemma = "lemma one : 1 = 1 := rfl\n\n"
    found = prepare(build_claim(HEADER + lemma + STATEMENT + "  omega\n"), by_id)
    assert isinstance(found, Candidate)
    assert found.prelude.strip() == lemma.strip()
    # The weaker theorem under the same name is the classic cheat.
    for code, reason in (
        (WHOLE.replace("n + n = 2 * n", "n = n"), "the statement of twice was changed"),
        (WHOLE.replace("twice", "other"), "the code declares other, not twice"),
        (HEADER + STATEMENT, "no proof follows the statement of twice"),
    ):
        other = prepare(build_claim(code), by_id)
        assert isinstance(other, RecheckedClaim)
        assert (other.status, other.reason) == ("other-statement", reason)
    unknown = prepare(build_claim(WHOLE, "twicf"), by_id)
    assert isinstance(unknown, RecheckedClaim)
    assert unknown.status == "unknown-problem"
    assert "the nearest id is 'twice'" in unknown.reason
    nothing = prepare(build_claim(None), by_id)
    assert isinstance(nothing, RecheckedClaim)
    assert nothing.status == "no-proof"


def collect(claims: Iterable[Claim | Misfit], problems: list[Problem], verifier: Any) -> list[Any]:
    async def run() -> list[Any]:
        stream = recheck_claims(claims, problems, verifier, deadline_seconds=5)
        return [item async for item in stream]

    return asyncio.run(run())


def test_outcomes_come_in_order_and_unjudged_does_not_hold() -> None:
    problems = [build_problem("p"), build_problem("q", n=2)]
    statuses = {"good": Status.PROVED, "bad": Status.REJECTED, "slow": Status.TIMEOUT}
    claims: list[Claim | Misfit] = []
    for line, (name, body) in enumerate(
        [("p", "good"), ("z", "good"), ("q", "bad"), ("p", "slow"), ("q", "good")], start=1
    ):
        claims += [Claim(line, 0, (name,), body, True, is_body=True), Misfit(line, "x")]
    claims.append(Claim(6, 0, ("p",), "good", False, is_body=True))
    found = collect(claims, problems, FakeVerifier(lambda c: statuses[c.body]))
    outcomes = [item for item in found if isinstance(item, RecheckedClaim)]
    assert [item.line if isinstance(item, Misfit) else item.claim.line for item in found] == [
        1, 1, 2, 2, 3, 3, 4, 4, 5, 5
    ]  # fmt: skip
    assert [item.status for item in outcomes] == [
        "proved", "unknown-problem", "rejected", "timeout", "proved"
    ]  # fmt: skip
    assert [item.holds for item in outcomes] == [True, False, False, False, True]
    assert outcomes[3].reason.startswith("nothing was judged")
    assert outcomes[0].reason == ""


def recheck(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from proverrl.cli.main import main; main()", "recheck", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_real_dafny_finds_the_claims_that_do_not_hold(tmp_path: Path) -> None:
    problem, other = load_problems(HELDOUT)[:2]
    references = load_references(HELDOUT)
    full = problem.statement.replace(HOLE, references[problem.id])
    rows = [
        {"id": problem.id, "code": full},
        {"name": other.id, "proof": references[other.id], "complete": True},
        {"id": problem.id, "code": problem.statement.replace(HOLE, "")},
        {"id": problem.id, "code": full.replace("ensures n == x * 38", "ensures n >= 0")},
        {"problem_id": problem.id, "body": "{:verify false}", "status": "proved"},
        {"problem_id": problem.id, "body": "invariant false", "status": "rejected"},
    ]
    path, out = tmp_path / "claims.jsonl", tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = recheck(str(path), "--benchmark", str(HELDOUT), "--out", str(out))
    assert done.returncode == 1, done.stderr
    assert "2 of 5 claimed proofs hold" in done.stdout
    assert ":4: " + problem.id + ": other-statement: the statement of Val was" in done.stdout
    written = [json.loads(line) for line in out.read_text().splitlines()]
    expected = ["proved", "proved", "rejected", "other-statement", "unsound"]
    assert [row["status"] for row in written] == expected
    assert [row["holds"] for row in written] == [True, True, False, False, False]
    assert "postcondition" in written[2]["reason"]
    assert all(row["toolchain"].startswith("dafny 2.3") for row in written[:3])
    # An interrupted file is gone on with: the same lines in the end.
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:2]) + lines[2][:40])
    with path.open("a") as file:
        file.write("no json\n")
    arguments = (str(path), "--benchmark", str(HELDOUT), "--out", str(out), "--resume")
    again = recheck(*arguments)
    assert again.returncode == 2
    assert f"{path}:7: not JSON" in again.stderr
    finished = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["line"], row["status"]) for row in finished] == [
        (row["line"], row["status"]) for row in written
    ]
    assert out.read_text().startswith(lines[0] + lines[1])
    forged = lines[2].replace('"rejected"', '"proved"')
    assert forged != lines[2]
    out.write_text(lines[0] + lines[1] + forged)
    stopped = recheck(*arguments)
    assert stopped.returncode == 2
    assert f"{out}, line 3: changed after it was written" in stopped.stderr
    damaged = lines[0] + lines[1][:40] + "\n" + lines[2]
    out.write_text(damaged)
    stopped = recheck(*arguments)
    assert (stopped.returncode, out.read_text()) == (2, damaged)
    assert f"{out}, line 2: not a JSON object" in stopped.stderr
    out.write_text("".join(lines))
    # What was proved of one statement is no proof of another, and other limits are others.
    own = tmp_path / "benchmark.jsonl"
    known = [json.loads(line) for line in HELDOUT.read_text().splitlines()]
    changed = [
        row | {"statement": row["statement"].replace("n == x * 38", "n == x * 38 + 1")}
        for row in known
        if row["id"] in (problem.id, other.id)
    ]
    own.write_text("".join(json.dumps(row) + "\n" for row in changed))
    for benchmark, more in ((own, ()), (HELDOUT, ("--rlimit", "5000000"))):
        options = ("--benchmark", str(benchmark), "--out", str(out), "--resume", *more)
        refused = recheck(str(path), *options)
        assert (refused.returncode, "another statement" in refused.stderr) == (2, True)
    rows[1] = rows[0]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused = recheck(*arguments)
    assert (refused.returncode, "line 2" in refused.stderr) == (2, True)
