"""The dialect of kimina-lean-server, so that its clients change only the URL.

Flows in: snippets, each a whole Lean file. Flows out: what Lean's community REPL would have said:
messages, sorries, an environment's number. A snippet that this server does not accept has an error
among its messages, whatever else it says, so that no client calls it valid. A fault of
one snippet is said in its own result, with status 200: the client would throw a whole batch away.
Covered: ``/api/check``, of kimina-client 0.2. Not covered: info trees, which get an error; and
``reuse``, because no snippet sees another and verdicts are shared by content.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, FailFast, Field, field_validator
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from proverrl.problems.inputs import Submission, Unusable, make_file_candidate
from proverrl.serve.app import Row, answer_all, make_routes, parse
from proverrl.serve.desk import Desk
from proverrl.types import Diagnostic, Status, Verdict

_LANGUAGE = "lean"
_START = {"line": 1, "column": 0}
_HOLES = ("sorry", "admit", "stop")
InfoTree = Literal["full", "tactics", "original", "substantive"]


class Snippet(BaseModel):
    """One Lean file."""

    id: str
    code: str


class CheckRequest(BaseModel):
    """``timeout`` is wall time for each snippet, in seconds."""

    snippets: Annotated[list[Snippet], FailFast()] = Field(min_length=1)
    timeout: int = Field(30, ge=0)
    debug: bool = False
    reuse: bool = True
    infotree: InfoTree | None = None

    @field_validator("snippets")
    @classmethod
    def _are_unique(cls, snippets: list[Snippet]) -> list[Snippet]:
        if len({snippet.id for snippet in snippets}) != len(snippets):
            raise ValueError("the ids of snippets must be unique")
        return snippets


def make_kimina_routes(desk: Desk) -> list[Route]:
    """``/api/check``, with or without a slash at its end."""
    return make_routes(desk, ["/api/check", "/api/check/"], check)


async def check(desk: Desk, request: Request, client: str) -> Response:
    """Check Lean files, as kimina-client asks it."""
    asked = await parse(CheckRequest, await desk.read(request))
    room = desk.reserve(len(asked.snippets), client)

    async def judge(snippet: Snippet) -> Row:
        answer = await _judge(desk, client, snippet.code, asked.timeout, asked.infotree)
        return {"id": snippet.id, **answer}

    return await answer_all(request, room, [partial(judge, s) for s in asked.snippets])


async def _judge(
    desk: Desk, client: str, code: str, seconds: float, infotree: InfoTree | None
) -> dict[str, Any]:
    if infotree is not None:
        return {"time": 0.0, "error": "info trees are not served here; leave infotree out"}
    entry = Submission("snippet", make_file_candidate("snippet", code, _LANGUAGE))
    seconds = min(seconds or math.inf, desk.settings.deadline_seconds)
    found = await desk.judge(entry, deadline_seconds=seconds, client=client)
    if isinstance(found, Unusable):
        return {"time": 0.0, "error": found.reason}
    return to_answer(found, code, seconds)


def to_answer(verdict: Verdict, code: str, seconds: float) -> dict[str, Any]:
    """The verdict on a file as ``time`` and either ``response`` or ``error``; it had so many
    seconds."""
    if verdict.status is Status.TIMEOUT:
        return {"time": seconds, "error": f"Lean REPL command timed out in {seconds:.1f} seconds"}
    if not verdict.status.judged:
        return {"time": verdict.seconds, "error": f"the Lean process ended: {verdict.cause}"}
    messages = [_to_message(diagnostic) for diagnostic in verdict.diagnostics]
    response: dict[str, Any] = {"env": 0}
    if verdict.status is Status.INCOMPLETE:
        response["sorries"] = _list_sorries(verdict, code)
        # Lean only warns of a sorry, and the client tells such files from those with errors.
        messages = [
            message | {"severity": "warning"} if message["severity"] == "error" else message
            for message in messages
        ]
    elif not verdict.proved and all(message["severity"] != "error" for message in messages):
        said = f"not accepted: {verdict.status.value}"
        messages.append({"severity": "error", "pos": _START, "endPos": _START, "data": said})
    if messages:
        response["messages"] = messages
    return {"time": verdict.seconds, "response": response}


def _to_message(diagnostic: Diagnostic) -> dict[str, Any]:
    message: dict[str, Any] = {
        "severity": diagnostic.severity,
        "pos": {"line": max(1, diagnostic.line), "column": diagnostic.column},
        "data": diagnostic.message,
    }
    if diagnostic.end_line is not None:
        end = {"line": diagnostic.end_line, "column": diagnostic.end_column or 0}
        message["endPos"] = end
    return message


def _list_sorries(verdict: Verdict, code: str) -> list[dict[str, Any]]:
    """Each hole with its goals, of which a term has none; at least one."""
    lines = code.split("\n")
    sorries = []
    for line, column, goals in verdict.states:
        word = next((word for word in _HOLES if lines[line - 1].startswith(word, column)), "")
        if word:
            start = {"line": line, "column": column}
            end = {"line": line, "column": column + len(word)}
            sorries.append({"pos": start, "endPos": end, "goal": goals.split("\n\n")[0]})
    return sorries or [{"pos": _START, "endPos": _START, "goal": ""}]
