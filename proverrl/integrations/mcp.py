"""An MCP server: agents have proofs judged, see open goals, and search (the SDK's version 2).

Flows in: calls of the tools ``verify``, ``goals``, ``annotate`` and, with a policy, ``search``.
Flows out: JSON.
A bare file is judged as it is; a problem with a body is held to the problem's own text, which is
what an agent needs that must not change what it proves. A fault of a call, or of the verifier,
is the error of that call. Not handled here: arguments of the command line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from proverrl.errors import ProblemError, ProverRLError
from proverrl.jobs.annotate import open_annotating
from proverrl.jobs.hint_files import HintBudget, HintSource
from proverrl.problems.inputs import (
    Submission,
    Unusable,
    read_entry,
    refuse_stranger,
    verdict_to_json,
)
from proverrl.types import Problem, Verdict
from proverrl.verifier.base import Verifier
from proverrl.version import __version__

Row = dict[str, Any]
OpenTraced = Callable[[bool], Verifier]
"""Opens a verifier; the argument says whether it traces the goals on the way through a body."""
SearchProblem = Callable[[Problem, int | None], Awaitable[Row]]
"""Searches for a proof of a problem with so many verifier calls, or as many as its settings say;
the row of its result."""

_INSTRUCTIONS = """\
Judges Lean 4 and Dafny. A `problem` is {"id", "language", "kind", "statement", "preamble"?}, its
statement with the mark /*{HOLE}*/ where `body` goes; without one give `language` and `code`, a
whole file. Only the status "proved" means proved."""


def make_server(
    open_verifier: OpenTraced, *, deadline_seconds: float, search: SearchProblem | None = None
) -> tuple[MCPServer, AsyncExitStack]:
    """The server, and what must be closed at its end. No verifier is opened before it is needed."""
    closing = AsyncExitStack()
    opened: dict[bool, Verifier] = {}
    server = MCPServer("proverrl", version=__version__, instructions=_INSTRUCTIONS)

    def choose(traced: bool) -> Verifier:
        if traced not in opened:
            opened[traced] = open_verifier(traced)
            closing.push_async_callback(opened[traced].aclose)
        return opened[traced]

    async def judge(
        language: str, code: str, problem: Row | None, body: str, prelude: str, *, traced: bool
    ) -> tuple[Row, Verdict]:
        with _say_errors():
            entry = _read(language, code, problem, body, prelude)
            verdict = await choose(traced).verify(
                entry.candidate, deadline_seconds=deadline_seconds
            )
        return verdict_to_json(entry, verdict), verdict

    @server.tool()
    async def verify(
        language: str = "",
        code: str = "",
        problem: Row | None = None,
        body: str = "",
        prelude: str = "",
    ) -> Row:
        """Judge a whole file (`language`, `code`), or a `body` for a `problem`. The answer has
        `status`: proved, rejected, incomplete (holes are left), unconfirmed
        (accepted, but a wall could not be passed or asked), unsound (it cheats), exhausted
        (a resource limit); timeout and crashed say nothing of the proof."""
        row, _ = await judge(language, code, problem, body, prelude, traced=False)
        return row

    @server.tool()
    async def goals(
        language: str = "",
        code: str = "",
        problem: Row | None = None,
        body: str = "",
        prelude: str = "",
    ) -> Row:
        """The goals left to prove: those at each place of the body or file, by line and column,
        and those that are open at its end or at an error. In Lean, `sorry` leaves a goal open."""
        row, verdict = await judge(language, code, problem, body, prelude, traced=True)
        states = [
            {"line": line, "column": column, "goals": text} for line, column, text in verdict.states
        ]
        return row | {"states": states}

    @server.tool()
    async def annotate(code: str, language: str = "dafny", calls: int = 64) -> Row:
        """Find the invariants, assertions and measures that a whole Dafny file lacks, or a tactic
        for each sorry of a Lean file, with at most so many verifier calls for each declaration that
        fails. `text` is the file with them, `solved`
        and `left` are declarations by line. Code and contracts stay as they are."""
        with _say_errors():
            source = HintSource(_read(language, code, None, "", ""))
            if calls < 1:
                raise ProblemError("`calls` is at least 1")
            budget = HintBudget(calls=calls, deadline_seconds=deadline_seconds)
            found = await open_annotating(source, choose(traced=False), budget).run()
        return found.to_json() | {"text": found.text}

    if search is not None:
        find = search
        one = asyncio.Semaphore(1)

        @server.tool(name="search")
        async def search_proof(problem: Row, calls: int | None = None) -> Row:
            """Have the policy search for a proof of a `problem`, with at most so many verifier
            calls, or as many as it was started with. `proofs` are bodies, confirmed by a fresh
            verifier."""
            with _say_errors():
                entry = _read("", "", problem, "", "")
                async with one:
                    return await find(entry.candidate.problem, calls)

    return server, closing


@contextmanager
def _say_errors() -> Iterator[None]:
    """The client is told of our own errors; of others the SDK says nothing."""
    try:
        yield
    except ProverRLError as error:
        raise ToolError(str(error)) from error


def _read(language: str, code: str, problem: Row | None, body: str, prelude: str) -> Submission:
    """The candidate to judge. Raises ``ProblemError`` saying what is wrong with the call."""
    if (problem is None) == (not code):
        raise ProblemError("give either `code` with `language`, or `problem` with `body`")
    asked: Row
    if problem is None:
        if not language:
            raise ProblemError("give `language` with `code`, such as dafny or lean")
        asked = {"id": "file", "language": language, "code": code}
    else:
        asked = {"id": "body", "problem": problem, "body": body}
        asked |= {"prelude": prelude} if prelude else {}
    entry = read_entry(asked, "call", 1)
    if isinstance(entry, Unusable):
        raise ProblemError(entry.reason)
    if (refused := refuse_stranger(entry)) is not None:
        raise ProblemError(refused.reason)
    return entry
