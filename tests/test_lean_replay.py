"""Replay of what a Lean REPL answered: recorded transcripts where they are, ours everywhere.

The recordings are data of real Lean processes that were made elsewhere; they lie beside the
checkout, or in the folder that PROVERRL_LEAN_FIXTURES names, and these tests are skipped without
them. The transcripts beside this file are made up, in the same format.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from proverrl.lang.lean.identity import DeclarationReport
from proverrl.lang.lean.judge import STANDARD_AXIOMS, judge_declaration, judge_messages
from proverrl.lang.lean.workers.messages import Elaboration
from proverrl.lang.lean.workers.protocol import (
    Answer,
    AnswerReader,
    CommandAnswer,
    ErrorAnswer,
    parse_answer,
)
from proverrl.types import HOLE, Candidate, Problem, Status

ROOT = Path(__file__).resolve().parents[1]
RECORDED = Path(os.environ.get("PROVERRL_LEAN_FIXTURES", ROOT.parent / "shared" / "fixtures"))
TRANSCRIPTS = "lean_repl_transcripts.jsonl"
VERDICTS = "lean_proof_verdicts.jsonl"
OWN = ROOT / "tests" / "lean_transcripts.jsonl"

PROOF_STATE = {"proofState", "unpickleProofStateFrom"}

Exchange = tuple[dict[str, Any], Answer]


def load(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        pytest.skip(f"no recorded answers of Lean at {path}")
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line, strict=False) for line in lines]


def replay(transcript: dict[str, Any]) -> list[Exchange]:
    """The commands of one transcript, each answer cut out of a stream of bytes and parsed; the
    questions in tactic mode, which nobody asks any more, are left out."""
    reader = AnswerReader()
    exchanges = []
    for exchange in list_commands(transcript):
        text = json.dumps(exchange["response"], ensure_ascii=False, indent=1)
        reader.feed(text.encode() + b"\n\n")
        taken = reader.take()
        assert taken == text
        exchanges.append((exchange["request"], parse_answer(taken)))
    return exchanges


def list_commands(transcript: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in transcript["exchanges"] if not PROOF_STATE & one["request"].keys()]


def check_numbers(exchanges: list[Exchange]) -> None:
    """The numbers that ``LeanRepl`` expects: each new environment the next."""
    num_environments = 0
    for request, answer in exchanges:
        if isinstance(answer, CommandAnswer) and "pickleTo" not in request:
            assert answer.env == num_environments
            num_environments += 1


def count_kinds(transcripts: list[dict[str, Any]]) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for transcript in transcripts:
        exchanges = replay(transcript)
        check_numbers(exchanges)
        kinds.update(type(answer).__name__ for _, answer in exchanges)
    return kinds


def test_our_transcripts_are_understood() -> None:
    assert count_kinds(load(OWN)) == {"CommandAnswer": 8, "ErrorAnswer": 1}


def test_every_recorded_exchange_is_understood() -> None:
    transcripts = load(RECORDED / TRANSCRIPTS)
    kinds = count_kinds(transcripts)
    assert sum(kinds.values()) == sum(len(list_commands(one)) for one in transcripts)
    assert kinds["CommandAnswer"] > 0


def judge_recorded(text: str, answer: CommandAnswer) -> Status:
    """The verdict on a recorded answer. The axioms and the type are not in the recordings: the
    step that reads them is answered here as clean."""
    candidate = Candidate(Problem("recorded", "lean", "file", "", HOLE), text)
    done = Elaboration(answer.env, answer.messages, answer.sorries, answer.tactics)
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
    for transcript in load(RECORDED / TRANSCRIPTS):
        for exchange, (request, answer) in zip(
            list_commands(transcript), replay(transcript), strict=True
        ):
            if isinstance(answer, CommandAnswer) and "cmd" in request:
                status = judge_recorded(request["cmd"], answer)
                assert status is expect(exchange["response"]), (transcript["file"], request)
                found[status] += 1
    assert all(found[s] > 0 for s in (Status.PROVED, Status.REJECTED, Status.INCOMPLETE))


def test_recorded_whole_proofs_are_not_refused_by_their_messages() -> None:
    found: Counter[str] = Counter()
    for record in load(RECORDED / VERDICTS):
        result = record["result"]
        if result["error"] is not None:
            assert "timed out" in result["error"]
            found["timed out"] += 1
            continue
        raw = {key: value for key, value in result["response"].items() if key != "time"}
        # The recording server dropped the environment's number.
        answer = parse_answer(json.dumps({"env": 0} | raw))
        assert isinstance(answer, CommandAnswer)
        status = judge_recorded(record["body"], answer)
        assert status is expect(result["response"]), record["id"]
        found[status.value] += 1
    assert found["proved"] > 0
    assert set(found) <= {"proved", "timed out"}


def test_a_recorded_refusal_is_no_answer_to_a_text() -> None:
    refusals = [
        (request, answer)
        for transcript in load(OWN)
        for request, answer in replay(transcript)
        if isinstance(answer, ErrorAnswer)
    ]
    assert [answer.message for _, answer in refusals] == ["Unknown environment."]
