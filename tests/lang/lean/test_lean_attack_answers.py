"""Every recorded or derived answer to a cheat, given by a toy Lean to a whole worker.

The text of a cheat is not sent: the fake understands a toy Lean only. What it sends back is the
answer of the case file, as if the audit of the text were not there, and the worker must come to
the verdict that the rule of verdicts alone comes to. Whose answer it is says the case's source.
"""

import asyncio
import json
from collections import Counter
from typing import Any

from proverrl.lang.lean.syntax.declarations import find_target
from proverrl.lang.lean.verify.identity import read_report
from proverrl.lang.lean.verify.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.types import Candidate, Status, Verdict
from tests.lang.lean.test_lean_audit import ANSWERED, judge_answer, make_candidate, place_report
from tests.lean_builders import FAKE_SERVER, build_lean_candidate


def make_script(case: dict[str, Any]) -> dict[str, Any]:
    """The case's answer in the words of the toy Lean."""
    answer = case["lean_answer"]
    said = answer["candidate"].get("messages", [])
    script: dict[str, Any] = {
        "messages": [{"severity": m["severity"], "data": m["data"]} for m in said],
    }
    if "check" in answer:
        target = find_target(make_candidate(case).problem)
        report = read_report(place_report(answer["check"], target), target)
        script |= {"missing": bool(report.missing), "axioms": list(report.axioms)}
        if case.get("then", case["caught_by"]) == "type-identity":
            script["type"] = "another type than ours"
    return script


def make_stand_in(case: dict[str, Any], name: str) -> Candidate:
    body = f"trivial\n  -- fake {json.dumps(make_script(case))}"
    if not case["lean_answer"].get("reached_end", True):
        body += "\n#exit"
    return build_lean_candidate(body, name)


async def judge_all(candidates: list[Candidate]) -> list[Verdict]:
    worker = await LeanWorker.start(FAKE_SERVER, LeanLimits(), KnownStatements())
    try:
        return [await worker.judge(candidate) for candidate in candidates]
    finally:
        worker.kill()
        await worker.join()


def test_a_worker_comes_to_the_verdict_of_the_rule_on_every_answer() -> None:
    stand_ins = [make_stand_in(case, f"t{i}") for i, case in enumerate(ANSWERED)]
    verdicts = asyncio.run(judge_all(stand_ins))
    expected = {case["name"]: judge_answer(case).status for case in ANSWERED}
    assert {
        case["name"]: verdict.status for case, verdict in zip(ANSWERED, verdicts, strict=True)
    } == expected
    statuses = Counter(expected.values())
    assert statuses.keys() <= {status for status in Status if status is not Status.PROVED}
    assert statuses[Status.UNSOUND] >= 40
