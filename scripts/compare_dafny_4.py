#!/usr/bin/env python3
"""Compares a warm Dafny 4 language server with ``dafny verify`` for each file, text by text.

    python scripts/compare_dafny_4.py RESULTS.jsonl \\
        --attacks tests/attacks --curriculum dafny/curriculum/heldout.jsonl \\
        --dafnybench ../shared/data/dafnybench_dafny4.jsonl

Both sides have the same options and limits, and neither the audit nor the walls are asked. What
RESULTS.jsonl holds is not asked again, so that an interrupted run goes on; ``--side`` runs one side
alone. The tables are printed at the end; the exit status is 1 where the server proved a text that
the reference does not prove.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.errors import WorkerError
from proverrl.lang.dafny.syntax.reply import LIMIT_OUTCOMES, Reply
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.language_server import AS_4, DafnyLanguageServer
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain, find_dafny_toolchain
from proverrl.problems.load import load_problems, load_references
from proverrl.types import Candidate, Problem
from proverrl.verifier.base import Limits
from scripts.arguments import at_least, telling_errors

Text = tuple[str, str, str]
"""Its group, its name and itself."""
Record = Callable[[Text, dict[str, Any]], None]
SIDES = ("server", "command line")
RECYCLE_AFTER = 300
_DEADLINE_SECONDS = 300
_FINISHED = re.compile(r"finished with (\d+) verified, (\d+) errors?(.*)")
_ERROR = re.compile(r"\((\d+),(\d+)\): Error: ", re.MULTILINE)


def list_attacks(folder: Path) -> Iterator[Text]:
    """The texts of attacks with what the policy wrote in its place."""
    for path in sorted(folder.glob("*.json")):
        case = json.loads(path.read_text("ascii"))
        problem = Problem(path.stem, "dafny", case["kind"], "", case["statement"])
        yield "attacks", path.stem, Candidate(problem, case["body"]).source


def list_curriculum(path: Path) -> Iterator[Text]:
    """Each problem with its reference, with the reference without its first line, and without
    any."""
    references = load_references(path)
    for problem in load_problems(path):
        level = f"level {problem.metadata['level']}"
        reference = references[problem.id]
        yield level, f"{problem.id} right", Candidate(problem, reference).source
        for name, body in (("short", reference.partition("\n")[2]), ("empty", "")):
            yield f"{level}, wrong", f"{problem.id} {name}", Candidate(problem, body).source


def list_dafnybench(path: Path) -> Iterator[Text]:
    """Ground truths, and what is left of them without hints."""
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        yield "DafnyBench", row["id"], row["ground_truth"]
        yield "DafnyBench, no hints", f"{row['id']} no hints", row["hints_removed"]


def read_reply(reply: Reply) -> dict[str, Any]:
    """What counts of the server's reply."""
    outcomes = {entry.outcome for entry in reply.entries}
    if not reply.resolved:
        outcome = "not resolved"
    elif reply.errors:
        outcome = "rejected"
    elif outcomes & {*LIMIT_OUTCOMES} or any(m.kind == "limit" for m in reply.messages):
        outcome = "exhausted"
    elif not outcomes:
        outcome = "nothing to verify"
    else:
        outcome = "proved" if reply.all_verified else "no result"
    places = {(m.line, m.column) for m in reply.messages if m.kind in ("error", "limit")}
    warnings = sum(m.kind == "warning" for m in reply.messages)
    return {"outcome": outcome, "errors": sorted(places), "warnings": warnings}


def read_output(exit_code: int, output: str) -> dict[str, Any]:
    """What counts of the output of ``dafny verify``."""
    finished = _FINISHED.search(output)
    outcome = "crashed"
    if finished is None and exit_code == 2 and " detected in " in output:
        outcome = "not resolved"
    elif finished and exit_code in (0, 4):
        verified, errors, more = int(finished[1]), int(finished[2]), finished[3]
        if errors:
            outcome = "rejected"
        elif "inconclusive" in more or "out of memory" in more:
            outcome = "no result"
        elif more:
            outcome = "exhausted"
        else:
            outcome = "proved" if verified else "nothing to verify"
        if (outcome in ("proved", "nothing to verify")) != (exit_code == 0):
            outcome = "crashed"
    places = {(int(line), int(column)) for line, column in _ERROR.findall(output)}
    warnings = output.count(": Warning: ")
    said = output[-300:] if outcome == "crashed" else ""
    return {"outcome": outcome, "errors": sorted(places), "warnings": warnings, "said": said}


def ask_command_line(toolchain: DafnyToolchain, text: str, rlimit: int) -> dict[str, Any]:
    """The reference: a process for this text alone."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "p.dfy"
        file.write_text(text, encoding="utf-8", newline="")
        command = (
            *(toolchain.dafny, "verify", "--allow-warnings", "--show-snippets=false", *AS_4),
            *("--cores=1", "--error-limit=1000", f"--resource-limit={rlimit}"),
            f"--verification-time-limit={_DEADLINE_SECONDS}",
            *([f"--prelude={toolchain.prelude}"] if toolchain.prelude else []),
            *([f"--solver-path={toolchain.z3}"] if toolchain.z3 else []),
            str(file),
        )
        before = os.times()
        started = time.monotonic()
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_DEADLINE_SECONDS, check=False
            )
            read = read_output(done.returncode, done.stdout + done.stderr)
        except subprocess.TimeoutExpired:
            read = {"outcome": "late", "errors": [], "warnings": 0}
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return {**read, "cpu": round(cpu, 3), "seconds": round(time.monotonic() - started, 3)}


async def ask_server(
    toolchain: DafnyToolchain, texts: list[Text], rlimit: int, record: Record
) -> None:
    """One warm server, replaced after 300 texts and where it gave no answer."""
    server: DafnyLanguageServer | None = None
    num_asked = 0
    for text in texts:
        if server is None or num_asked == RECYCLE_AFTER:
            await _end(server)
            limits = Limits(rlimit=rlimit, time_limit_seconds=_DEADLINE_SECONDS)
            server = await DafnyLanguageServer.start(
                toolchain, limits, KnownProblems(), analyses=False
            )
            num_asked = 0
        cpu, started = server.cpu_seconds, time.monotonic()
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                read = read_reply(await server.ask_failures(text[2]))
        except (WorkerError, TimeoutError) as error:
            outcome = "crashed" if isinstance(error, WorkerError) else "late"
            read = {"outcome": outcome, "errors": [], "warnings": 0, "said": str(error)[:300]}
        num_asked += 1
        cpu = server.cpu_seconds - cpu
        seconds = time.monotonic() - started
        record(text, {**read, "cpu": round(cpu, 3), "seconds": round(seconds, 3)})
        if read["outcome"] in ("crashed", "late"):
            await _end(server)
            server = None
    await _end(server)


async def _end(server: DafnyLanguageServer | None) -> None:
    if server is not None:
        server.kill()
        await server.join()


def make_tables(texts: list[Text], found: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    """The lines of the tables, for the texts that both sides were asked of."""
    both = [
        (group, name, found["server", name], found["command line", name])
        for group, name, _ in texts
        if all((side, name) in found for side in SIDES)
    ]
    lines = ["| command line | server | texts | of these with warnings | errors elsewhere |"]
    lines.append("|---|---|---|---|---|")
    cells: Counter[tuple[str, str]] = Counter()
    warned: Counter[tuple[str, str]] = Counter()
    elsewhere: Counter[tuple[str, str]] = Counter()
    for _, _, server, command in both:
        cell = command["outcome"], server["outcome"]
        cells[cell] += 1
        warned[cell] += command["warnings"] > 0
        elsewhere[cell] += command["errors"] != server["errors"]
    for cell, number in sorted(cells.items()):
        lines.append(f"| {' | '.join(cell)} | {number} | {warned[cell]} | {elsewhere[cell]} |")
    lines += ["", "| group | texts | CPU s, command line | CPU s, server | ratio |"]
    lines.append("|---|---|---|---|---|")
    for group in dict.fromkeys(group for group, *_ in both):
        mine = [one for one in both if one[0] == group]
        cold, warm = (sum(one[place]["cpu"] for one in mine) / len(mine) for place in (3, 2))
        lines.append(f"| {group} | {len(mine)} | {cold:.2f} | {warm:.2f} | {cold / warm:.1f} |")
    lines.append("")
    for _, name, server, command in both:
        if command["outcome"] != server["outcome"]:
            said = server.get("said") or command.get("said") or ""
            lines.append(f"{name}: {command['outcome']}, server {server['outcome']} {said[:150]!r}")
    return lines


def is_severe(found: dict[tuple[str, str], dict[str, Any]]) -> bool:
    """True if the server proved what the reference does not. A text without obligations counts for
    neither: the reference verifies nothing, and the server names its declarations."""
    return any(
        side == "server"
        and read["outcome"] == "proved"
        and found.get(("command line", name), read)["outcome"]
        not in ("proved", "nothing to verify")
        for (side, name), read in found.items()
    )


def main() -> int:
    """Ask both; returns the exit status."""
    parser = argparse.ArgumentParser(description="Compare Dafny 4's server with dafny verify.")
    parser.add_argument("results", type=Path)
    parser.add_argument("--attacks", type=Path)
    parser.add_argument("--curriculum", type=Path)
    parser.add_argument("--dafnybench", type=Path)
    parser.add_argument("--num", type=at_least(1), help="only so many, drawn from all")
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--rlimit", type=at_least(1), default=Limits().rlimit)
    given = parser.parse_args()
    texts: list[Text] = []
    with telling_errors():
        toolchain = find_dafny_toolchain("4")
        texts += list_attacks(given.attacks) if given.attacks else ()
        texts += list_curriculum(given.curriculum) if given.curriculum else ()
        texts += list_dafnybench(given.dafnybench) if given.dafnybench else ()
    random.Random(0).shuffle(texts)
    texts = texts[: given.num]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in given.results.read_text("utf-8").splitlines() if given.results.exists() else ():
        read = json.loads(line)
        found[read["side"], read["name"]] = read

    with given.results.open("a", encoding="utf-8") as results:
        for side in (given.side,) if given.side else SIDES:

            def record(text: Text, read: dict[str, Any], side: str = side) -> None:
                read = {"side": side, "group": text[0], "name": text[1], **read}
                found[side, text[1]] = read
                results.write(json.dumps(read) + "\n")
                results.flush()

            due = [text for text in texts if (side, text[1]) not in found]
            if side == "server":
                asyncio.run(ask_server(toolchain, due, given.rlimit, record))
            else:
                for text in due:
                    record(text, ask_command_line(toolchain, text[2], given.rlimit))
    # Places are lists once they were stored.
    stored = {key: json.loads(json.dumps(read)) for key, read in found.items()}
    print("\n".join(make_tables(texts, stored)))
    return 1 if is_severe(stored) else 0


if __name__ == "__main__":
    raise SystemExit(main())
