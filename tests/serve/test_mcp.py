"""The tools for agents, asked by the SDK's own client."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from proverrl.integrations.mcp import make_server
from proverrl.problems.load import load_references, make_row
from proverrl.types import Candidate, Diagnostic, Obligations, Problem, Stage, Status, Verdict
from proverrl.verifier.base import Verifier
from tests import ROOT
from tests.builders import build_problem
from tests.fake_verifier import FakeVerifier
from tests.serve_world import in_loop, judge

CURRICULUM = ROOT / "dafny" / "curriculum" / "heldout.jsonl"
PROBLEM = make_row(build_problem("p", n=3))


async def searched(problem: Problem, calls: int | None) -> dict[str, Any]:
    return {"problem_id": problem.id, "calls": calls, "proved": True}


@asynccontextmanager
async def connect(fake: FakeVerifier, *, searches: bool = False) -> AsyncIterator[Client]:
    traced: list[bool] = []

    def open_verifier(is_traced: bool) -> Verifier:
        traced.append(is_traced)
        return fake

    server, closing = make_server(
        open_verifier, deadline_seconds=5.0, search=searched if searches else None
    )
    async with closing, Client(server) as client:
        yield client
    assert traced == sorted(set(traced)), "each verifier is opened once"


async def call(client: Client, name: str, **given: Any) -> dict[str, Any]:
    answer = await client.call_tool(name, given)
    assert answer.content[0].type == "text"
    text = answer.content[0].text
    return {"error": text} if answer.is_error else dict(json.loads(text))


@in_loop
async def test_a_file_and_a_body_are_judged() -> None:
    fake = FakeVerifier(judge)
    async with connect(fake) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        good = await call(client, "verify", language="dafny", code="good")
        held = await call(client, "verify", problem=PROBLEM, body="bad")
    assert tools == {"verify", "goals", "annotate"}
    assert (good["status"], held["status"]) == ("proved", "rejected")
    assert [candidate.problem.kind for candidate in fake.calls] == ["file", "invariants"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give either `code`"),
        ({"language": "dafny", "code": "x", "problem": PROBLEM}, "give either `code`"),
        ({"language": "coq", "code": "x"}, "coq"),
        ({"code": "x"}, "give `language` with `code`"),
        ({"problem": {"id": "p"}, "body": ""}, "problem: field 'kind' is missing"),
        ({"problem": PROBLEM, "body": "\0"}, "NUL"),
    ],
)
@in_loop
async def test_what_is_wrong_with_a_call_is_its_error(given: dict[str, Any], said: str) -> None:
    async with connect(FakeVerifier(judge)) as client:
        assert said in (await call(client, "verify", **given))["error"]


@in_loop
async def test_a_policy_adds_the_search() -> None:
    async with connect(FakeVerifier(judge), searches=True) as client:
        found = await call(client, "search", problem=PROBLEM, calls=7)
        assert found == {"problem_id": "p", "calls": 7, "proved": True}
        assert (await call(client, "search", problem=PROBLEM))["calls"] is None
        refused = await call(client, "search", problem={"id": "p"})
        assert "is missing" in refused["error"]


@in_loop
async def test_hints_are_found_for_a_whole_file() -> None:
    def judge_loop(candidate: Candidate) -> Verdict:
        if "invariant i <= n" in candidate.body:
            return Verdict(Status.PROVED, checks=("believes",))
        error = Diagnostic("error", "assertion might not hold", 5, 3, 5, 3)
        counts = (Obligations("M", 2, 1),)
        return Verdict(Status.REJECTED, (error,), obligations=counts, stage=Stage.PROVER)

    loop = "method M(n: nat)\n{\n  var i := 0;\n  while i < n { i := i + 1; }\n  assert i == n;\n}"
    async with connect(FakeVerifier(judge_loop)) as client:
        found = await call(client, "annotate", code=loop)
        assert "at least 1" in (await call(client, "annotate", code=loop, calls=0))["error"]
    assert "error" not in found, found
    assert found["text"] == loop.replace("n { i", "n\n    invariant i <= n\n  { i")
    hint = {"line": 4, "column": 15, "text": "invariant i <= n"}
    assert (found["status"], found["hints"], found["left"]) == ("solved", [hint], {})
    assert found["solved"] == {"M": 1}

    def judge_hole(candidate: Candidate) -> Verdict:
        is_open = "sorry" in candidate.body
        status = Status.INCOMPLETE if is_open else Status.PROVED
        return Verdict(status, stage=Stage.PROVER, checks=("believes",))

    async with connect(FakeVerifier(judge_hole)) as client:
        code = "theorem t : True := by\n  sorry\n"
        found = await call(client, "annotate", code=code, language="lean")
    assert (found["status"], found["text"]) == ("solved", code.replace("sorry", "rfl"))


@pytest.mark.dafny
@pytest.mark.slow
@in_loop
async def test_the_command_judges_real_dafny() -> None:
    row = json.loads(CURRICULUM.open().readline())
    reference = load_references(CURRICULUM)[row["id"]]
    problem = {key: value for key, value in row.items() if key != "reference"}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "proverrl", "mcp", "--workers", "1"], cwd=ROOT
    )
    async with Client(command) as client:
        good = await call(client, "verify", problem=problem, body=reference)
        bad = await call(client, "goals", problem=problem, body="invariant true")
        cheat = await call(client, "verify", problem=problem, body="{ assume false; }")
    assert [row["status"] for row in (good, bad)] == ["proved", "rejected"]
    assert cheat["status"] == "unsound"
    assert bad["diagnostics"]
