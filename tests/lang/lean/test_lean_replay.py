"""What is made of messages that a Lean process gave, against recordings.

The recordings are data of real Lean processes that were made elsewhere (through a REPL); they lie
beside the checkout, or in the folder that PROVERRL_LEAN_FIXTURES names, and these tests are skipped
without them.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from proverrl.lang.lean.verify.identity import DeclarationReport
from proverrl.lang.lean.verify.judge import STANDARD_AXIOMS, judge_declaration, judge_messages
from proverrl.lang.lean.verify.workers.messages import Elaboration, LeanMessage
from proverrl.types import HOLE, Candidate, Problem, Status
from tests import ROOT

RECORDED = Path(os.environ.get("PROVERRL_LEAN_FIXTURES", ROOT.parent / "shared" / "fixtures"))
TRANSCRIPTS = "lean_repl_transcripts.jsonl"
VERDICTS = "lean_proof_verdicts.jsonl"
MESSAGES = TypeAdapter(tuple[LeanMessage, ...])


def load(name: str) -> list[dict[str, Any]]:
    path = RECORDED / name
    if not path.is_file():
        pytest.skip(f"no recorded answers of Lean at {path}")
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line, strict=False) for line in lines]


def judge_recorded(text: str, response: dict[str, Any]) -> Status:
    """The verdict on a recorded answer. The axioms and the type are not in the recordings: the
    step that reads them is answered here as clean."""
    candidate = Candidate(Problem("recorded", "lean", "file", "", HOLE), text)
    done = Elaboration(None, MESSAGES.validate_python(response.get("messages", [])))
    judgement = judge_messages(done, candidate, 0)
    if judgement is not None:
        return judgement.status
    return judge_declaration(DeclarationReport("@t : p"), "@t : p", STANDARD_AXIOMS).status


def expect(response: dict[str, Any]) -> Status:
    """What a recorded answer means, decided here on the raw JSON and in another way."""
    messages = response.get("messages", [])
    if any(message["severity"] == "error" for message in messages):
        return Status.REJECTED
    warnings = [message["data"] for message in messages if message["severity"] == "warning"]
    if response.get("sorries") or any("declaration uses" in text for text in warnings):
        return Status.INCOMPLETE
    return Status.PROVED


def test_recorded_commands_are_judged_as_they_came_out() -> None:
    found: Counter[Status] = Counter()
    for transcript in load(TRANSCRIPTS):
        for exchange in transcript["exchanges"]:
            request, response = exchange["request"], exchange["response"]
            if "cmd" in request and "env" in response:
                status = judge_recorded(request["cmd"], response)
                assert status is expect(response), (transcript["file"], request)
                found[status] += 1
    assert all(found[s] > 0 for s in (Status.PROVED, Status.REJECTED, Status.INCOMPLETE))


def test_recorded_whole_proofs_are_not_refused_by_their_messages() -> None:
    found: Counter[str] = Counter()
    for record in load(VERDICTS):
        result = record["result"]
        if result["error"] is not None:
            assert "timed out" in result["error"]
            found["timed out"] += 1
            continue
        status = judge_recorded(record["body"], result["response"])
        assert status is expect(result["response"]), record["id"]
        found[status.value] += 1
    assert found["proved"] > 0
    assert set(found) <= {"proved", "timed out"}
