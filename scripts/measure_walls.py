"""What the walls of relevance and consequence let through, and what they cost.

    PYTHONPATH=. python scripts/measure_walls.py --num 20

Exploits: bugs of Dafny 2.3 in several forms, at the end of methods of the curriculum whose goal was
made false by one, judged by Dafny alone and by Dafny and the walls, without the audit. Honest
texts: the references of the curriculum's held-out problems, and with ``--tasks`` DafnyBench's
truths as annotate problems. Seconds are processor seconds of Dafny and z3.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit import audit_candidate
from proverrl.lang.dafny.backend import start_dafny_worker
from proverrl.lang.dafny.known import KnownProblems
from proverrl.lang.dafny.workers.toolchain import find_dafny_toolchain
from proverrl.types import HOLE, Candidate, Problem, Verdict
from proverrl.verifier.base import Limits
from tests.dafnybench_tasks import read_tasks
from tests.test_dafny_walls import BUGS, PRELUDE, BareProblems

ROOT = Path(__file__).parents[1]

FORMS = {
    "bare": "{bug}",
    "where the goal fails": "if !({goal}) {{ {bug} }}",
    "in a proof of the goal": "assert {goal} by {{ if !({goal}) {{ {bug} }} }}",
    "behind a fact of the program": "if !({guard}) {{ {bug} }}",
    "beside a fact of the program": "assert !({guard}) && ({goal}) by {{ {bug} }}",
    "two bugs": "{bug} {second}",
}


def read_heldout() -> list[dict[str, Any]]:
    """The rows of the curriculum's held-out problems."""
    path = ROOT / "dafny" / "curriculum" / "heldout.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def list_exploits(num: int) -> Iterator[tuple[str, Candidate]]:
    """Form and candidate; the goals are false, since they are true with another last number."""
    rows = [row for row in read_heldout() if row["kind"] == "invariants"]
    random.Random(0).shuffle(rows)
    made = 0
    for row in rows:
        text = row["statement"].replace(HOLE, row["reference"])
        goals, guards = re.findall(r"ensures (.*)", text), re.findall(r"while (.*)", text)
        found = re.search(r"\d+$", goals[0])
        if len(goals) > 1 or not found or not re.match(r"\w+ == ", goals[0]) or "return " in text:
            continue
        if made == num:
            return
        made += 1
        goal = goals[0][: found.start()] + str(int(found.group()) + 1)
        text = text.replace(f"ensures {goals[0]}", f"ensures {goal}").rstrip()
        statement = f"{text[: text.rindex('}')]}  {HOLE}\n}}\n"
        problem = Problem(row["id"], "dafny", "statements", PRELUDE + row["preamble"], statement)
        for bug in BUGS.values():
            for name, form in FORMS.items():
                second = BUGS["a choice after a conjunction"]
                body = form.format(bug=bug, goal=goal, guard=guards[-1], second=second)
                yield name, Candidate(problem, body)


def list_honest(num: int, *, tasks: bool) -> Iterator[tuple[str, Candidate]]:
    """References of ``num`` problems, and DafnyBench's truths."""
    rows = read_heldout()
    random.Random(1).shuffle(rows)
    for row in rows[:num]:
        names = ("id", "language", "kind", "preamble", "statement", "metadata")
        yield row["kind"], Candidate(Problem(**{n: row[n] for n in names}), row["reference"])
    for task in read_tasks() if tasks else ():
        yield "DafnyBench", Candidate(task.problem, task.truth)


async def judge(
    candidates: Iterable[tuple[str, Candidate]], known: KnownProblems, *, audits: bool, walls: bool
) -> tuple[Counter[tuple[str, str]], float]:
    """How often each verdict was given, by form, and the processor seconds."""

    async def pass_walls(*given: Any) -> Verdict:
        verdict: Verdict = given[-1]
        return verdict

    worker = await start_dafny_worker(find_dafny_toolchain(), Limits(), known)
    before = worker.cpu_seconds
    counts: Counter[tuple[str, str]] = Counter()
    with ExitStack() as stack:
        if not walls:
            stack.enter_context(mock.patch("proverrl.lang.dafny.judge.ask_walls", pass_walls))
        for form, candidate in candidates:
            try:
                verdict = (audits and audit_candidate(candidate)) or await worker.judge(candidate)
            except ProblemError:
                counts[form, "refused problem"] += 1
                continue
            said = [c for c in verdict.checks if c.startswith(("wall", "relevance", "consequence"))]
            said = [re.sub(r":\d+$", "", check) for check in said]
            counts[form, " ".join((verdict.status.value, *said))] += 1
    spent = worker.cpu_seconds - before
    worker.kill()
    await worker.join()
    return counts, spent


def show(title: str, counts: Counter[tuple[str, str]], seconds: float) -> None:
    """Print one table."""
    print(f"\n{title}: {sum(counts.values())} texts, {seconds:.1f} CPU seconds")
    for (form, said), number in sorted(counts.items()):
        print(f"{number:6}  {form}: {said}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What the walls let through, and what they cost.")
    parser.add_argument("--num", type=int, default=10, help="how many problems of each table")
    parser.add_argument("--tasks", action="store_true", help="DafnyBench's truths too")
    given = parser.parse_args()
    for walls in (False, True):
        found = asyncio.run(
            judge(list_exploits(given.num), BareProblems(), audits=False, walls=walls)
        )
        show(f"exploits, {'with' if walls else 'without'} walls", *found)
    for walls in (False, True):
        honest = list_honest(given.num * 5, tasks=given.tasks)
        found = asyncio.run(judge(honest, KnownProblems(), audits=True, walls=walls))
        show(f"honest texts, {'with' if walls else 'without'} walls", *found)


if __name__ == "__main__":
    main()
