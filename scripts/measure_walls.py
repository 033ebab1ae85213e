"""What each wall lets through, and what the walls cost.

    PYTHONPATH=. python scripts/measure_walls.py exploits --num 4
    PYTHONPATH=. python scripts/measure_walls.py attacks
    PYTHONPATH=. python scripts/measure_walls.py honest --num 20

Without the audit: ``exploits``, bugs of the Dafny that judges in several forms at the end of
methods of the curriculum whose goal was made false by one (``--kinds``: by bug, not by form);
``attacks``, the files of ``tests/attacks`` that Dafny believes and that are no bare files, by the
layer that refuses them. With the audit: ``honest``, the references of the curriculum's held-out
problems (``--tasks``: and DafnyBench's truths as annotate problems).

Each table counts what is proved: by Dafny alone, with each wall alone, with all three, with a
second judge (``PROVERRL_SECOND_DAFNY``), and with all of them. Seconds are processor seconds of the
first Dafny and its z3.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from proverrl.errors import ProblemError, WorkerError
from proverrl.lang.base import BackendOptions
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.verify.backend import open_second_judge, start_dafny_worker
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.walls.relevance import WallFinding, ask_relevance
from proverrl.lang.dafny.verify.workers.toolchain import (
    find_confirming_toolchain,
    find_dafny_toolchain,
)
from proverrl.types import FILE, HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Limits
from tests.dafnybench_tasks import read_tasks
from tests.lang.dafny.test_audit_attacks import CASES, make_candidate
from tests.lang.dafny.test_dafny_walls import BUGS, PRELUDE, BareProblems

ROOT = Path(__file__).parents[1]
Text = tuple[str, Candidate]
Judged = list[tuple[str, Candidate, Verdict]]

DECLARED = f"""{PRELUDE}
function Kept(x: nat): nat {{ x }}
function Other(x: nat): nat {{ if x < 100 then x else x + 1 }}
lemma AtLeast(x: nat) ensures x >= 0 {{ }}
"""
MORE_BUGS = {
    "a constructor in a pattern": (
        "ghost var Cons(h, Nil) := Cons(1, Cons(2, Nil)); assert Cons(1, Cons(2, Nil)).tail.Nil?;"
    ),
    "a type in a pattern": "match (-1, 0) { case (n: nat, m: int) => assert n == -1; }",
    "a subset of sequences": "ghost var e: seq<int> := []; ghost var l: Some := e;",
    "a sum of sequences": (
        "ghost var n: seq<nat> := [0]; ghost var z: seq<int> := [-1]; "
        "ghost var t: seq<nat> := n + z; AtLeast(t[1]);"
    ),
    "an assertion that assigns": "ghost var g := 1; assert g == 0 by { g := 0; }",
    "a key outside a map": (
        "ghost var m := map i | 0 <= i < 10 :: Kept(i); "
        "ghost var o := map i | 0 <= i < 10 :: Other(i); assert m == o; "
        "forall z: int | z == 0 ensures m[200] == Kept(200) {} "
        "forall z: int | z == 0 ensures o[200] == Other(200) {}"
    ),
}
DECLARED_4 = """\
type Nothing = x: int | false witness *
function Frame(k: int): set<object> requires k > 0 ensures k > 0 { {} }
method Touch(k: int) requires k > 0 modifies Frame(k) { }
"""
BUGS_4 = {
    "a calc that turns": BUGS["a calc that turns"],
    "a choice in a loop's measure": (
        "while false invariant false decreases (var y: int :| false; y) { }"
    ),
    "a choice in a second invariant": (
        "while false invariant false invariant (var y: int :| false; y) == 0 { }"
    ),
    "a forall without a body": "forall z: int | z == 0 ensures false",
    "a frame of a call": "Touch(0);",
    "a key of a map": BUGS["a key of a map"],
    "a lambda over no values": "ghost var f := (e: Nothing) => Above(0); assert f == f;",
    "a lambda that reads all": (
        "var c := new bool[1]; c[0] := false; ghost var f := () reads * => if c[0] then true "
        "else GOAL; ghost var a := f(); c[0] := true; assert a == f();"
    ),
    "a loop without a body": "while true",
    "a partial function in a measure": "while false invariant false decreases Above(0) { }",
    "an assertion by paths": 'assert {:isolate "paths"} true;',
    "an assertion alone": "assert {:only} true;",
}
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


def list_exploits(num: int, *, kinds: bool, newer: bool) -> Iterator[Text]:
    """Form, or bug, and candidate, with the bugs of Dafny 4 if ``newer``; the goals are false: they
    are true with another last number."""
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
        preamble = DECLARED + DECLARED_4 * newer + row["preamble"]
        problem = Problem(row["id"], "dafny", "statements", preamble, statement)
        second = BUGS["a calc that turns" if newer else "a choice after a conjunction"]
        for title, written in (BUGS_4 if newer else BUGS | MORE_BUGS).items():
            bug = written.replace("GOAL", goal)
            for name, form in FORMS.items():
                body = form.format(bug=bug, goal=goal, guard=guards[-1], second=second)
                yield title if kinds else name, Candidate(problem, body)


def list_attacks() -> Iterator[Text]:
    """The attack files that Dafny alone believes, by the layer that refuses them."""
    for case in CASES:
        if case["status_without_audit"] == "proved" and case["kind"] != FILE:
            yield case["caught_by"], make_candidate(case)


def list_honest(num: int, *, tasks: bool) -> Iterator[Text]:
    """References of ``num`` problems, and DafnyBench's truths."""
    rows = read_heldout()
    random.Random(1).shuffle(rows)
    for row in rows[:num]:
        names = ("id", "language", "kind", "preamble", "statement", "metadata")
        yield row["kind"], Candidate(Problem(**{n: row[n] for n in names}), row["reference"])
    for task in read_tasks() if tasks else ():
        yield "DafnyBench", Candidate(task.problem, task.truth)


async def pass_walls(*given: Any) -> Verdict:
    """The verdict as Dafny gave it."""
    verdict: Verdict = given[-1]
    return verdict


async def ask_nothing(*given: Any, **named: Any) -> WallFinding:
    """In place of a wall that is left out."""
    return WallFinding()


async def count_claims(*given: Any, **named: Any) -> WallFinding:
    """The wall of relevance, of which only the number of claims counts."""
    found = await ask_relevance(*given, **named)
    return WallFinding(num_asked=found.num_asked)


async def refute_nothing(*given: Any) -> str:
    """In place of the wall of refutation."""
    return ""


ASKED = "proverrl.lang.dafny.verify.walls.asked."
NO_REFUTATION = {f"{ASKED}find_refuted": refute_nothing}
NO_CONSEQUENCE = {f"{ASKED}ask_consequence": ask_nothing}
WALLS: dict[str, dict[str, Any]] = {
    "Dafny": {"proverrl.lang.dafny.verify.judge.ask_walls": pass_walls},
    "refutation": {f"{ASKED}ask_relevance": ask_nothing, **NO_CONSEQUENCE},
    "relevance": NO_REFUTATION | NO_CONSEQUENCE,
    "consequence": NO_REFUTATION | {f"{ASKED}ask_relevance": count_claims},
    "walls": {},
}


async def judge(
    texts: Sequence[Text], walls: dict[str, Any], *, audits: bool
) -> tuple[Judged, float]:
    """The verdict on each, and the processor seconds."""
    known = KnownProblems() if audits else BareProblems(refutes=True)
    seconds, judged, worker = 0.0, Judged(), None
    with ExitStack() as stack:
        for name, other in walls.items():
            stack.enter_context(mock.patch(name, other))
        for form, candidate in texts:
            if worker is None:
                worker = await start_dafny_worker(find_dafny_toolchain(), Limits(), known)
            before = worker.cpu_seconds
            try:
                verdict = (audits and audit_candidate(candidate)) or await worker.judge(candidate)
            except (ProblemError, GrammarError) as error:
                verdict = Verdict(Status.REJECTED, (Diagnostic("error", str(error)),))
            except WorkerError as error:
                verdict = Verdict(Status.CRASHED, (Diagnostic("error", str(error)),))
            seconds += worker.cpu_seconds - before
            judged.append((form, candidate, verdict))
            if verdict.status is Status.CRASHED:
                worker.kill()
                await worker.join()
                worker = None
    if worker is not None:
        worker.kill()
        await worker.join()
    return judged, seconds


async def confirm(proofs: Judged) -> Judged:
    """What a second judge says of proofs; nothing where there is none."""
    first = find_dafny_toolchain()
    toolchain = find_confirming_toolchain(first)
    if toolchain is None:
        return []
    options = BackendOptions(workers=1, limits=Limits())
    wall = open_second_judge(toolchain, Limits(), options, reads_4=first.is_4)
    confirmed = []
    for form, candidate, verdict in proofs:
        try:
            again = await wall.confirm(candidate, verdict, deadline_seconds=60, lane=DEFAULT_LANE)
        except ProblemError as error:
            # Without the audit a text that is not the problem's program comes this far.
            said = Diagnostic("error", str(error))
            again = replace(verdict, status=Status.UNCONFIRMED, diagnostics=(said,))
        confirmed.append((form, candidate, again))
    await wall.aclose()
    return confirmed


def measure(title: str, texts: Sequence[Text], *, audits: bool) -> None:
    """Print what is proved behind each wall, and which proofs all walls let through (of honest
    texts: those that they do not)."""
    judged, seconds = asyncio.run(judge(texts, WALLS["Dafny"], audits=audits))
    proofs = [row for row in judged if row[2].proved]
    believed = [(form, candidate) for form, candidate, _ in proofs]
    found, costs = {"texts": judged, "Dafny": proofs}, {"Dafny": seconds}
    names = ["walls"] if audits else ["refutation", "relevance", "consequence", "walls"]
    for name in names:
        found[name], costs[name] = asyncio.run(judge(believed, WALLS[name], audits=audits))
    found["second judge"] = asyncio.run(confirm(proofs))
    if found["second judge"]:
        pairs = zip(found["walls"], found["second judge"], strict=True)
        found["all"] = [again if first[2].proved else first for first, again in pairs]
    last = found.get("all") or found["walls"]
    print(f"\n{title}; processor seconds: {', '.join(f'{n} {s:.1f}' for n, s in costs.items())}")
    columns = {name: rows for name, rows in found.items() if rows}
    print(f"| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    counts = {
        name: Counter(form for form, _, verdict in rows if name == "texts" or verdict.proved)
        for name, rows in columns.items()
    }
    for form in sorted(counts["texts"]):
        print(f"| {form} | {' | '.join(str(counts[name][form]) for name in columns)} |")
    print(f"| all | {' | '.join(str(counts[name].total()) for name in columns)} |")
    for form, candidate, verdict in [*judged, *last] if audits else last:
        if verdict.proved is not audits:
            told = f"{verdict.stage} {verdict.rule}: " + "; ".join(
                found.message for found in verdict.diagnostics[:1]
            )
            said = told if audits else (candidate.body,)
            print(f"  {form}: {candidate.problem.id}: {verdict.status.value}: {said}")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="What each wall lets through, and the costs.")
    parser.add_argument("table", choices=("exploits", "attacks", "honest"))
    parser.add_argument("--num", type=int, default=10, help="how many problems")
    parser.add_argument("--kinds", action="store_true", help="exploits by bug")
    parser.add_argument("--tasks", action="store_true", help="DafnyBench's truths too")
    given = parser.parse_args()
    newer = find_dafny_toolchain().is_4
    texts = list_attacks()
    if given.table == "exploits":
        texts = list_exploits(given.num, kinds=given.kinds, newer=newer)
    elif given.table == "honest":
        texts = list_honest(given.num, tasks=given.tasks)
    measure(given.table, list(texts), audits=given.table == "honest")


if __name__ == "__main__":
    main()
