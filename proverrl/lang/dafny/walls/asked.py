"""Asks the walls about an accepted candidate, on the Dafny that accepted it.

Flows in: a Dafny process, a candidate and its PROVED verdict. Flows out: the verdict, UNSOUND where
a wall finds that something of ours is proved for another reason than our program, UNCONFIRMED where
that could not be asked. It is asked too whether anything follows from what the policy wrote: fully
where our claims speak of nothing that could be forgotten. Not covered: bare files, which have no
part of ours.
"""

from __future__ import annotations

from dataclasses import replace

from proverrl.lang.dafny.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.syntax.plain import WrittenText
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.walls.edited import OwnedProgram, own_program
from proverrl.lang.dafny.walls.relevance import WallFinding, ask_consequence, ask_relevance
from proverrl.lang.dafny.written_types import get_empty_body
from proverrl.types import Candidate, Diagnostic, Status, Verdict

_FOUND = {
    "relevance": "it is proved although what the program does was forgotten, so for another reason",
    "consequence": "from what was written anything follows, also this",
}
_UNKNOWN = "what was written could not be told from what the program does"


async def ask_walls(
    process: DafnyProcess,
    known: KnownProblems,
    candidate: Candidate,
    written: WrittenText,
    verdict: Verdict,
) -> Verdict:
    """PROVED, UNSOUND or UNCONFIRMED. Raises ``WorkerError`` on doubt about an answer."""
    problem = candidate.problem

    async def open_blank() -> OwnedProgram:
        blank = Candidate(problem, get_empty_body(problem))
        return _read(blank, await known.write_types(process, blank))

    owned = _read(candidate, written)
    if not owned.theirs:
        return replace(verdict, checks=(*verdict.checks, "relevance:nothing-written"))
    found = await ask_relevance(process.ask_failures, owned, open_blank)
    if found.believed or found.doubt:
        return _refuse(verdict, found, "relevance")
    checks = (*verdict.checks, f"relevance:{found.num_claims}")
    reached = found.num_claims > 0
    found = await ask_consequence(process.ask_failures, owned, open_blank, reached=reached)
    if found.believed or found.doubt:
        return _refuse(verdict, found, "consequence")
    return replace(verdict, checks=(*checks, "consequence:none"))


def _read(candidate: Candidate, written: WrittenText) -> OwnedProgram:
    program = read_text(written.text, admitted=True)
    return own_program(candidate, written, program)


def _refuse(verdict: Verdict, found: WallFinding, rule: str) -> Verdict:
    why = _FOUND[rule] if found.believed else _UNKNOWN
    said = Diagnostic("error", f"{rule}: {why}: {(*found.believed, found.doubt)[0]}")
    checks = ("audit", "resolve", f"wall:{rule}")
    status = Status.UNSOUND if found.believed else Status.UNCONFIRMED
    return replace(verdict, status=status, diagnostics=(said,), checks=checks)
