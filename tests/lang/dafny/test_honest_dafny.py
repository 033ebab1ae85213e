"""Honest bodies and honest annotated programs: the audit refuses none of them.

``status`` is what Dafny 2.3.0 with z3 4.8.5 says; some bodies are honest and wrong.
"""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from proverrl.errors import ToolchainError
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.verify.backend import start_dafny_worker
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
from proverrl.types import Candidate, Problem
from proverrl.verifier.base import Limits
from tests import ROOT

HONEST = [
    json.loads(line)
    for name in ("dafny_bodies.jsonl", "dafny_annotated.jsonl", "dafny_idioms.jsonl")
    for line in (ROOT / "tests" / "honest" / name).read_text("ascii").splitlines()
]
# Without one that ends at the limit, now as rejected and now as exhausted.
SAMPLED = [c for c in (*HONEST[:152:6], *HONEST[152:]) if c["id"] != "honest-037"]


def make_candidate(case: dict[str, Any]) -> Candidate:
    problem = Problem(case["id"], "dafny", case["kind"], case["preamble"], case["statement"])
    return Candidate(problem, case["body"])


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case["id"])
def test_honest_text_is_admitted(case: dict[str, Any]) -> None:
    assert audit_candidate(make_candidate(case)) is None


def test_there_is_enough_honest_text() -> None:
    assert len({case["id"] for case in HONEST}) == len(HONEST) == 195
    assert len({(case["statement"], case["body"]) for case in HONEST}) == 195
    assert Counter(case["kind"] for case in HONEST) == {
        "annotate": 63,
        "assertions": 8,
        "calc": 6,
        "invariants": 48,
        "program": 1,
        "statements": 69,
    }
    assert Counter(case["status"] for case in HONEST) == {"proved": 187, "rejected": 8}


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_what_dafny_says_of_a_sample() -> None:
    async def measure() -> dict[str, str]:
        try:
            toolchain = find_dafny_toolchain()
        except ToolchainError as error:
            pytest.skip(str(error))
        worker = await start_dafny_worker(toolchain, Limits(), KnownProblems())
        found = {}
        for case in SAMPLED:
            found[case["id"]] = (await worker.judge(make_candidate(case))).status.value
        worker.kill()
        await worker.join()
        return found

    assert asyncio.run(measure()) == {case["id"]: case["status"] for case in SAMPLED}
