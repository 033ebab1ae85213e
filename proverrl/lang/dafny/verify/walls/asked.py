"""Asks the walls about an accepted candidate, on the Dafny that accepted it.

Flows in: a Dafny process, a candidate and its PROVED verdict. Flows out: the verdict, UNSOUND where
a wall finds that something of ours is proved for another reason than our program, UNCONFIRMED where
that could not be asked. It is asked too whether anything follows from what the policy wrote: fully
where our claims speak of nothing that could be forgotten. Not covered: bare files, which have no
part of ours.
"""

from __future__ import annotations

from dataclasses import replace

from proverrl.lang.dafny.audit.written_types import get_empty_body
from proverrl.lang.dafny.known_bugs.joined_invariants import join_invariants
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.plain import WrittenText
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.reply import Reply, ReplyMessage
from proverrl.lang.dafny.verify.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.verify.walls.edited import OwnedProgram, own_program
from proverrl.lang.dafny.verify.walls.refuted import find_refuted
from proverrl.lang.dafny.verify.walls.relevance import WallFinding, ask_consequence, ask_relevance
from proverrl.types import Candidate, Diagnostic, Stage, Status, Verdict

_FOUND = {
    "relevance": "it is proved although what the program does was forgotten, so for another reason",
    "refuted": "on small inputs it does not hold",
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

    async def ask(text: str) -> Reply:
        try:
            joined = join_invariants(text, admitted=True)
        except GrammarError as error:
            return Reply((), (ReplyMessage("error", error.finding.line, 0, str(error)),), ())
        return joined.restore(await process.ask_failures(joined.text))

    owned = _read(candidate, written)
    if not owned.theirs:
        return replace(verdict, checks=(*verdict.checks, "relevance:nothing-written"))
    if places := sorted(owned.theirs.difference(*(range(h.start, h.end) for h in owned.holders))):
        place = owned.program.tokens[places[0]]
        doubt = f"line {place.line}: {place.text!r} is in no function, method or lemma"
        return _refuse(verdict, WallFinding(doubt=doubt), "relevance")
    if name := await known.find_refuted(process, problem, find_refuted):
        return _refuse(verdict, WallFinding((name,)), "refuted")
    found = await ask_relevance(ask, owned, open_blank)
    if found.believed or found.doubt:
        return _refuse(verdict, found, "relevance")
    checks = (*verdict.checks, f"relevance:{found.num_asked}")
    reached = found.num_asked > 0
    found = await ask_consequence(ask, owned, open_blank, reached=reached)
    if found.believed or found.doubt:
        return _refuse(verdict, found, "consequence")
    return replace(verdict, checks=(*checks, f"consequence:{found.num_asked}"))


def _read(candidate: Candidate, written: WrittenText) -> OwnedProgram:
    program = read_text(written.text, admitted=True)
    return own_program(candidate, written, program)


def _refuse(verdict: Verdict, found: WallFinding, rule: str) -> Verdict:
    why = _FOUND[rule] if found.believed else _UNKNOWN
    said = Diagnostic("error", f"{rule}: {why}: {(*found.believed, found.doubt)[0]}")
    return replace(
        verdict,
        status=Status.UNSOUND if found.believed else Status.UNCONFIRMED,
        diagnostics=(said,),
        stage=Stage.WALL,
        rule=rule,
        checks=("audit", "resolve", f"{Stage.WALL}:{rule}"),
    )
