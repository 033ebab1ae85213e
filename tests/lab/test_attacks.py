"""Every known way to cheat with a claim or a question, beside those of the core."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proverrl.lang.dafny.language import DAFNY
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.types import Candidate
from tests.lang.dafny import test_audit_attacks as core

CASES = core.load_cases(Path(__file__).with_name("attacks"))


def make_candidate(case: dict[str, Any]) -> Candidate:
    """What is verified of a case; one that chooses no side, as if it had proved the claim."""
    candidate = core.make_candidate(case)
    settled = DAFNY.settle(candidate)
    if isinstance(settled, Candidate):
        return settled
    return replace(candidate, problem=replace(candidate.problem, kind="statements"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_named_layer_stops_it(case: dict[str, Any]) -> None:
    core.check_layer(case)


def test_the_layers_of_the_kinds_stop_something() -> None:
    assert len(CASES) == 58
    assert {"audit:answer", "audit:side"} <= {case["caught_by"] for case in CASES}


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_what_dafny_says_of_the_bare_text(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = core.measure_bare(monkeypatch, CASES, make_candidate)
    assert statuses == {case["name"]: case["status_without_audit"] for case in CASES}


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_what_passes_the_audit_is_not_proved() -> None:
    admitted = [case for case in CASES if case["caught_by"] in core.BEHIND_THE_AUDIT]
    found = core.measure(admitted, KnownProblems(), make_candidate)
    assert {name: status for name, (status, _) in found.items()} == {
        case["name"]: case["status"] for case in admitted
    }
