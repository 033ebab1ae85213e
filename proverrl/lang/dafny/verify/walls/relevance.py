"""The walls of relevance and of consequence: a proof that does not need our program proves nothing
about it, and one from which anything follows proves nothing at all.

Flows in: a Dafny to ask, an accepted candidate's file, its problem with an empty hole. Flows out:
the claims of ours that are still proved when the program is forgotten (``forget``), and are not
with an empty hole: they hold for a reason that is not the program, such as a bug of Dafny. What the
policy wrote and what fails then is taken away first, round by round, so that it lends nothing to
the rest. Where the policy's branches begin and end, and where a loop of ours begins, our
postconditions are asked too, so that a bug behind a condition is seen. The program as it is is
asked for ``false`` behind what the policy wrote.
Not covered: claims that speak of nothing that was forgotten; one expression of the policy's that
needs the program and hides a bug beside; what a prover gave up on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from proverrl.lang.dafny.syntax.parsed import Element
from proverrl.lang.dafny.verify.walls.answers import GAVE_UP, AskFailures, Questioned
from proverrl.lang.dafny.verify.walls.edited import EditedProgram, OwnedProgram
from proverrl.lang.dafny.verify.walls.forget import forget_program
from proverrl.lang.dafny.verify.walls.questions import FALSE

OpenBlank = Callable[[], Awaitable[OwnedProgram]]
"""Gives the problem with an empty hole."""

_MAX_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class WallFinding:
    """``believed``: the claims that a wall found to be proved for a wrong reason, as written.

    ``num_asked`` counts what it asked about: claims of ours, or places. ``doubt`` says why the wall
    was not asked to the end; empty where it was.
    """

    believed: tuple[str, ...] = ()
    num_asked: int = 0
    doubt: str = ""


async def ask_relevance(
    ask: AskFailures, owned: OwnedProgram, open_blank: OpenBlank
) -> WallFinding:
    """Those of our claims that are proved though the program is forgotten.

    ``open_blank`` is called where a claim is believed.
    """
    num_asked = 0
    for holders in owned.held_apart:
        found = WallFinding()
        for keep_promises in (True, False):
            asked = _forget(owned, holders, keep_promises=keep_promises)
            if not asked.claims:
                break
            asked.detach_claims()
            await _ask_in_rounds(ask, asked)
            found = await _compare(ask, asked, open_blank)
            if not found.believed or FALSE in found.believed:
                break
            # A claim may follow from what our declarations ensure; false does not.
        if found.believed and FALSE not in found.believed:
            found = await _leave_out_plain(ask, _forget(owned, holders), found)
        if found.believed or found.doubt:
            return found
        num_asked += found.num_asked
    return WallFinding(num_asked=num_asked)


def _forget(
    owned: OwnedProgram, holders: Sequence[Element], *, keep_promises: bool = False
) -> Questioned:
    asked = Questioned(forget_program(owned, holders, keep_promises=keep_promises), holders)
    asked.question_branches()
    asked.question_runs()
    return asked


async def _leave_out_plain(ask: AskFailures, asked: Questioned, found: WallFinding) -> WallFinding:
    """Less what plain assertions prove alone: what equal values have in common holds whatever the
    program does."""
    asked.edited.keep_plain()
    await _ask_in_rounds(ask, asked)
    if asked.doubt or FALSE in asked.believed.values():
        return found
    plainly = set(asked.believed.values())
    return replace(found, believed=tuple(text for text in found.believed if text not in plainly))


async def ask_consequence(
    ask: AskFailures, owned: OwnedProgram, open_blank: OpenBlank, *, reached: bool = False
) -> WallFinding:
    """Ask if anything follows from what the policy wrote: ``false`` behind it, where it did not
    follow before it, and at the loops whose clauses it wrote, where it does not with an empty
    hole. Its blocks are asked without what stands before them. ``reached``: only in functions, and
    behind what a call comes by."""
    asked = Questioned(EditedProgram(owned), owned.holders)
    asked.question_runs(reached=reached)
    asked.question_steps()
    if not (reached and EditedProgram(owned).keep_plain()):
        asked.question_exits()
    if not reached:
        asked.question_loops()
    texts = [(asked, _ask_all)]
    if not reached:
        opened = Questioned(EditedProgram(owned), owned.holders)
        opened.question_branches()
        opened.open_heads()
        opened.leave_promises()
        texts.append((opened, _ask_in_rounds))
    # What ensures false needs its demands for it.
    needless = Questioned(EditedProgram(owned), owned.holders)
    if needless.forget_demands():
        needless.question_runs()
        texts.append((needless, _ask_in_rounds))
    num_asked = 0
    for questioned, ask_it in texts:
        if not questioned.num_questions:
            continue
        await ask_it(ask, questioned)
        found = await _compare(ask, questioned, open_blank)
        num_asked += questioned.num_questions
        if found.believed or found.doubt:
            return found
    return WallFinding(num_asked=num_asked)


async def _ask_all(ask: AskFailures, asked: Questioned) -> None:
    await asked.ask(ask)
    while not asked.doubt and asked.leave_out_failed():
        await asked.ask(ask)


async def _ask_in_rounds(ask: AskFailures, asked: Questioned) -> None:
    """Ask until nothing fails of what the policy wrote, then at the loops too. Where all of it
    failed nothing is left that could prove anything."""
    for _ in range(_MAX_ROUNDS):
        await asked.ask(ask)
        if asked.doubt or not (asked.drop() or asked.leave_out_failed()):
            break
        if asked.is_bare:
            return
    else:
        asked.doubt = f"hints still fail after {_MAX_ROUNDS} rounds"
    if asked.loops and not asked.doubt:
        asked.question_loops()
        await _ask_all(ask, asked)


async def _compare(ask: AskFailures, asked: Questioned, open_blank: OpenBlank) -> WallFinding:
    """Less what is proved with an empty hole too."""
    num_asked = asked.num_claims or asked.num_questions
    if asked.doubt or asked.is_bare or not asked.believed:
        return WallFinding((), num_asked, asked.doubt)
    blank = asked.open_blank(await open_blank())
    await blank.ask(ask)
    believed = tuple(text for key, text in asked.believed.items() if blank.fails(key))
    # What a prover gave up on was neither proved nor refuted.
    doubt = "" if believed and blank.doubt == GAVE_UP else blank.doubt
    if believed and (asked.gave_up or asked.unplaced):
        doubt = asked.unplaced or GAVE_UP
    return WallFinding(() if doubt else believed, num_asked, doubt)
