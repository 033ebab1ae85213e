"""A wall: what fails on small inputs is not proved.

Flows in: a problem. Flows out: a program in which Dafny proves an entry only where a claim of the
problem fails (``compose.attack``): a method runs on a few inputs with its loops unrolled, a lemma's
parameters are small values. Nothing that a policy wrote is in it. Not covered: what fails on larger
inputs only, type parameters, types without known values, members of classes and modules.
"""

from __future__ import annotations

from proverrl.errors import ProblemError
from proverrl.lang.dafny.compose.attack import RUN_NAME, list_denials, list_runs
from proverrl.lang.dafny.compose.declarations import Program
from proverrl.lang.dafny.known_bugs.joined_invariants import join_invariants
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.declarations import Declaration, read_declarations
from proverrl.lang.dafny.syntax.text import name_entry
from proverrl.lang.dafny.verify.known import DafnyProcess
from proverrl.types import Problem

_RLIMIT = 300_000
"""For values that are written out it takes little to see that a claim fails."""
_MAX_TARGETS = 4
_TRIED = {"method": list_runs, "lemma": list_denials}


def write_runs(problem: Problem) -> tuple[str, list[str]]:
    """The program, and whose claim each of its runs is about; both empty where there is none."""
    try:
        found = read_declarations(problem.preamble + problem.statement)
    except ProblemError:
        return "", []
    runs: list[Declaration] = []
    names: list[str] = []
    claiming = [d for d in found if d.word in _TRIED and d.list_clauses("ensures") and d.body]
    for target in [d for d in claiming if d.has_hole] or claiming[:_MAX_TARGETS]:
        tried = _TRIED[target.word](target, Program(found))
        runs += [run.rewrite(name=f"{RUN_NAME}{len(names) + i}") for i, run in enumerate(tried)]
        names += [target.name] * len(tried)
    others = (d for d in found if not d.has_hole)
    return (Program((*others, *runs)).text if runs else ""), names


async def find_refuted(process: DafnyProcess, problem: Problem) -> str:
    """Whose claim fails on some input, by the name of its declaration; empty where none is seen
    to."""
    text, names = write_runs(problem)
    try:
        joined = join_invariants(text, admitted=True)
    except GrammarError:
        return ""
    reply = await process.ask(joined.text, _RLIMIT, name_entry(f"{RUN_NAME}*")) if names else None
    proved = {e.name for e in reply.entries if e.outcome == "verified"} if reply else set()
    refuted = (n for i, n in enumerate(names) if name_entry(f"{RUN_NAME}{i}") in proved)
    return next(refuted, "")
