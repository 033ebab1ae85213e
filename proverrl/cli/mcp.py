"""``proverrl mcp``: the verifiers, and a searching policy, for agents.

Flows in: arguments; calls on standard input, or over HTTP on loopback. Flows out: their answers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proverrl.cli.options import (
    DAFNY_VERSION,
    FILE,
    FOLDER,
    MEMORY_MB,
    OVERRIDES,
    SERVERS,
    read_config,
    timeout_option,
    workers_option,
)
from proverrl.config.base import DafnyVersion
from proverrl.config.load import choose_run
from proverrl.errors import UsageError
from proverrl.files.extras import require_module

if TYPE_CHECKING:
    from proverrl.integrations.mcp import SearchProblem


@click.command()
@workers_option("Processes per language.")
@timeout_option("Seconds for one candidate.")
@MEMORY_MB
@DAFNY_VERSION
@SERVERS
@click.option("--run", type=FOLDER, help="Offer `search`, with this run's policy.")
@click.option("--config", "config_file", type=FILE, help="The same with its policy or endpoint.")
@OVERRIDES
@click.option(
    "--out",
    type=FOLDER,
    default="searches/mcp",
    show_default=True,
    help="Where searches are written.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Answer HTTP on this port of loopback.")
def mcp(
    workers: int,
    timeout: float,
    memory_mb: float | None,
    dafny_version: DafnyVersion,
    servers: tuple[str, ...],
    run: Path | None,
    config_file: Path | None,
    overrides: tuple[str, ...],
    out: Path,
    port: int | None,
) -> None:
    """Serve verify, goals, annotate and search to agents (MCP), on standard input and output.

    In an agent's settings: {"mcpServers": {"proverrl": {"command": "proverrl", "args": ["mcp"]}}}
    """
    require_module("mcp", "proverrl mcp")
    from proverrl.integrations.mcp import make_server
    from proverrl.lang.open import open_verifier

    def open_traced(traced: bool) -> Any:
        return open_verifier(
            workers=workers,
            memory_mb=memory_mb,
            dafny_version=dafny_version,
            servers=servers,
            trace_states=traced,
            needed=(),
        )

    search = _make_search(run, config_file, overrides, out) if run or config_file else None

    async def answer() -> None:
        server, closing = make_server(open_traced, deadline_seconds=timeout, search=search)
        async with closing:
            if port is None:
                await server.run_stdio_async()
            else:
                await server.run_streamable_http_async(port=port)

    # Its client tells of every request, on the stream that an agent shows to its user.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    if port is not None:
        _require_free(port)
    asyncio.run(answer())


def _require_free(port: int) -> None:
    """Raises ``UsageError``: somebody else listens there."""
    with socket.socket() as probe:
        # As the server will: what an ended one leaves behind is no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UsageError(
                f"127.0.0.1:{port} cannot be listened on; choose another --port"
            ) from error


def _make_search(
    run: Path | None, config_file: Path | None, overrides: tuple[str, ...], out: Path
) -> SearchProblem:
    """Raises ``UsageError``: the configuration cannot be read, or two are named."""
    from proverrl.jobs.search import SearchOptions, search_problems
    from proverrl.types import Problem

    ask = "name one policy: --run RUN or --config FILE"
    read_config(config_file, run, overrides, ask=ask)

    async def search(problem: Problem, calls: int | None) -> dict[str, Any]:
        more = () if calls is None else (f"search.calls={calls}",)
        config = read_config(config_file, run, (*overrides, *more), ask=ask)
        text = json.dumps([problem.preamble, problem.statement, problem.kind, calls])
        # Another problem of the same id has another folder; the same call again goes on.
        folder = out / hashlib.sha256(text.encode()).hexdigest()[:16]
        options = SearchOptions(folder, resume=True)
        (found,) = await search_problems(
            config,
            [problem],
            from_run=choose_run(run, overrides),
            options=options,
            stream=sys.stderr,
        )
        return found

    return search
