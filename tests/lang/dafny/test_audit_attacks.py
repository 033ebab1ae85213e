"""Every known way to cheat, one file each in ``attacks/``: the named layer must stop it.

A case names the layer that stops it (``caught_by``; ``types`` are those of our text, which are
written out; ``invariants`` are joined, and conjunctions nested, before they are sent; ``walls`` are
asked of what Dafny accepts; ``problem``: the problem itself is refused), the verdict, and what
Dafny with the verdict rule says of the bare text (``status_without_audit``, measured on Dafny 2.3.0
with z3 4.8.5; ``proved`` there means that only the named layer stands in the way).
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proverrl.errors import ProblemError, ToolchainError, WorkerError
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.language import DAFNY
from proverrl.lang.dafny.syntax.plain import WrittenText
from proverrl.lang.dafny.verify.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.verify.workers.server import DafnyServerWorker
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain, find_dafny_toolchain
from proverrl.types import Candidate, Problem, Stage, Status, Verdict
from proverrl.verifier.base import Limits
from tests import ROOT


def load_cases(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text("ascii")) for path in sorted(folder.glob("*.json"))]


CASES = load_cases(ROOT / "tests" / "attacks")
AUDIT_LAYERS = {
    "after-fresh",
    "assignment",
    "attributes",
    "believed-measure",
    "bit-measure",
    "called-key",
    "captured-pattern",
    "changed-program",
    "characters",
    "circular-type",
    "circular-witness",
    "co-call",
    "comments",
    "constructor-pattern",
    "contract",
    "declaration",
    "decreases-to",
    "generic-choice",
    "grammar",
    "guarded-choice",
    "hidden-references",
    "infinite-set",
    "keywords",
    "labelled-assertion",
    "labelled-state",
    "lambda-update",
    "missing-body",
    "names",
    "narrow-type",
    "not-ghost",
    "own-promise",
    "promised-step",
    "reading-lambda",
    "reversed-calc",
    "scope",
    "size",
    "staged-ordinal",
    "stored-function",
    "strings",
    "subset-base",
    "two-parents",
    "two-state-forall",
    "two-state-measure",
    "typed-pattern",
    "unallocated",
    "unchecked-key",
    "unread-lambda",
    "untyped-forall",
    "unused-variable",
    "uncomputed",
    "unordered-measure",
    "unproved-calc",
    "unread-heap",
    "wildcard",
}
BEHIND_THE_AUDIT = ("dafny", "types", "invariants", "walls")


Make = Callable[[dict[str, Any]], Candidate]


def make_candidate(case: dict[str, Any]) -> Candidate:
    problem = Problem(case["name"], "dafny", case["kind"], "", case["statement"])
    return Candidate(problem, case["body"])


def find_toolchain() -> DafnyToolchain:
    try:
        toolchain = find_dafny_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    if toolchain.server is None:
        pytest.skip("DafnyServer is not installed")
    return toolchain


def check_layer(case: dict[str, Any]) -> None:
    if case["caught_by"] == "problem":
        with pytest.raises(ProblemError, match="no proof can be held to its program"):
            audit_candidate(make_candidate(case))
        return
    verdict = DAFNY.audit(make_candidate(case))
    if case["caught_by"] in BEHIND_THE_AUDIT:
        assert verdict is None
    else:
        assert verdict is not None
        assert f"{verdict.stage}:{verdict.rule}" == case["caught_by"]
        assert verdict.status is Status(case["status"])
        assert verdict.diagnostics[0].severity == "error"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_named_layer_stops_it(case: dict[str, Any]) -> None:
    check_layer(case)


def test_every_layer_of_the_audit_stops_something() -> None:
    layers = Counter(case["caught_by"] for case in CASES)
    assert {f"audit:{layer}" for layer in AUDIT_LAYERS} == layers.keys() - {
        *BEHIND_THE_AUDIT,
        "problem",
    }


class BareProblems(KnownProblems):
    """Dafny gets the text as it is, and infers what types it likes."""

    async def write_types(self, process: DafnyProcess, candidate: Candidate) -> WrittenText:
        return WrittenText(candidate.source, {})


def measure(
    cases: list[dict[str, Any]], known: KnownProblems, make: Make = make_candidate
) -> dict[str, tuple[str, Stage]]:
    """What a worker says of each case, without the audit, and who decided."""
    toolchain = find_toolchain()

    async def measure_all() -> dict[str, tuple[str, Stage]]:
        worker: DafnyServerWorker | None = None
        found = {}
        for case in cases:
            if worker is None:
                worker = await DafnyServerWorker.start(toolchain, Limits(), known)
            try:
                verdict = await worker.judge(make(case))
            except WorkerError:
                found[case["name"]] = "crashed", Stage.NOBODY
                worker.kill()
                await worker.join()
                worker = None
            else:
                found[case["name"]] = verdict.status.value, verdict.stage
        if worker is not None:
            worker.kill()
            await worker.join()
        return found

    return asyncio.run(measure_all())


def measure_bare(
    monkeypatch: pytest.MonkeyPatch, cases: list[dict[str, Any]], make: Make = make_candidate
) -> dict[str, str]:
    monkeypatch.setattr(
        "proverrl.lang.dafny.verify.judge.join_invariants", lambda text, **_: WrittenText(text, {})
    )

    async def pass_walls(*given: Any) -> Verdict:
        return given[-1]  # type: ignore[no-any-return]

    monkeypatch.setattr("proverrl.lang.dafny.verify.judge.ask_walls", pass_walls)
    found = measure(cases, BareProblems(), make)
    return {name: status for name, (status, _) in found.items()}


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_what_dafny_says_of_the_bare_text(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = measure_bare(monkeypatch, CASES)
    assert statuses == {case["name"]: case["status_without_audit"] for case in CASES}


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_what_passes_the_audit_is_not_proved() -> None:
    admitted = [case for case in CASES if case["caught_by"] in BEHIND_THE_AUDIT]
    assert sum(case["caught_by"] == "types" for case in admitted) >= 25
    assert sum(case["caught_by"] == "invariants" for case in admitted) >= 12
    found = measure(admitted, KnownProblems())
    assert {name: status for name, (status, _) in found.items()} == {
        case["name"]: case["status"] for case in admitted
    }
    # What is named is what stops it, and nothing else.
    walled = {case["name"] for case in admitted if case["caught_by"] == "walls"}
    assert {name for name, (_, stage) in found.items() if stage is Stage.WALL} == walled
