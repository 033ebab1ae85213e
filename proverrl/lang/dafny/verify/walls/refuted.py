"""A wall: what fails on small inputs is not proved.

Flows in: a problem. Flows out: a program in which Dafny proves an entry only where a claim of the
problem fails (``compose.attack``): a method runs on a few inputs with its loops unrolled, a lemma's
parameters are small values, numbers that the problem writes, and those beside them. (For methods
such numbers would cost as much again, and there is a program to forget.) Nothing that a policy
wrote is in it. Not covered: what fails on other inputs only, type parameters, types without known
values, members of classes and modules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.written_types import get_empty_body
from proverrl.lang.dafny.compose.attack import list_denials, list_runs, name_runs
from proverrl.lang.dafny.compose.declarations import Program
from proverrl.lang.dafny.known_bugs.joined_invariants import join_invariants
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.declarations import Declaration, read_declarations
from proverrl.lang.dafny.syntax.text import fill_hole, name_entry
from proverrl.lang.dafny.verify.known import DafnyProcess
from proverrl.types import Problem

_RLIMIT = 300_000
"""For values that are written out it takes little to see that a claim fails."""
_MAX_TARGETS = 4
_CLAIMING = ("method", "lemma")
_MAX_NUMBERS = 3
_NUMBER = re.compile(r"-?\b\d+\b")


def write_runs(problem: Problem) -> tuple[str, list[str]]:
    """The program, and whose claim each of its runs is about; both empty where there is none."""
    begin = name_runs(problem.preamble + problem.statement)
    try:
        found = read_declarations(problem.preamble + problem.statement)
    except ProblemError:
        return "", []
    runs: list[Declaration] = []
    names: list[str] = []
    claiming = [d for d in found if d.word in _CLAIMING and d.list_clauses("ensures") and d.body]
    for target in [d for d in claiming if d.has_hole] or claiming[:_MAX_TARGETS]:
        program = Program(found)
        if target.word == "method":
            tried = list_runs(target, program)
        else:
            tried = list_denials(target, program, _list_numbers(target, found))
        runs += [run.rewrite(name=f"{begin}{len(names) + i}") for i, run in enumerate(tried)]
        names += [target.name] * len(tried)
    # With an empty hole, since others may call what holds it, and a method itself.
    body = get_empty_body(problem)
    blank = (replace(d, text=fill_hole(d.text, body)) if d.has_hole else d for d in found)
    return (Program((*blank, *runs)).text if runs else ""), names


def _list_numbers(target: Declaration, found: Sequence[Declaration]) -> list[str]:
    """The largest numbers in a declaration and in functions, and those beside them: where a claim
    may turn. Small ones are tried anyway."""
    read = [target.text, *(d.text for d in found if d.word.startswith(("function", "predicate")))]
    written = {int(number) for text in read for number in _NUMBER.findall(text)}
    largest = sorted((n for n in written if abs(n) > 3), key=abs, reverse=True)[:_MAX_NUMBERS]
    return [str(n + beside) for n in largest for beside in (0, -1, 1)]


async def find_refuted(process: DafnyProcess, problem: Problem) -> str:
    """Whose claim fails on some input, by the name of its declaration; empty where none is seen
    to."""
    text, names = write_runs(problem)
    begin = name_runs(problem.preamble + problem.statement)
    try:
        joined = join_invariants(text, admitted=True)
    except GrammarError:
        return ""
    reply = await process.ask(joined.text, _RLIMIT, name_entry(f"{begin}*")) if names else None
    proved = {e.name for e in reply.entries if e.outcome == "verified"} if reply else set()
    refuted = (n for i, n in enumerate(names) if name_entry(f"{begin}{i}") in proved)
    return next(refuted, "")
