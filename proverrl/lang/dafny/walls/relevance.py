"""The wall of relevance: a proof that does not need our program proves nothing about it.

Flows in: a Dafny to ask, an accepted candidate's file, its problem with an empty hole. Flows out:
the claims of ours that are still proved when the program is forgotten (``forget``), and are not
with an empty hole: they hold for a reason that is not the program, such as a bug of Dafny. What the
policy wrote and what fails then is taken away first, round by round, so that it lends nothing to
the rest. Where the policy's branches begin and end, and where a loop of ours begins, our
postconditions are asked too, so that a bug behind a condition is seen.
Not covered: claims that speak of nothing that was forgotten; one expression of the policy's that
needs the program and hides a bug beside; what a prover gave up on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from proverrl.lang.dafny.walls.edited import EditedProgram, OwnedProgram
from proverrl.lang.dafny.walls.forget import forget_program
from proverrl.lang.dafny.walls.questions import FALSE, GAVE_UP, AskFailures, Questioned

OpenBlank = Callable[[], Awaitable[OwnedProgram]]
"""Gives the problem with an empty hole."""

_MAX_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class WallFinding:
    """``believed``: the claims that a wall found to be proved for a wrong reason, as written.

    ``num_claims`` counts the obligations that the wall could see, ``num_asked`` how often Dafny was
    asked at last. ``doubt`` says why the wall was not asked to the end; empty where it was.
    """

    believed: tuple[str, ...] = ()
    num_claims: int = 0
    num_asked: int = 0
    doubt: str = ""


async def ask_relevance(
    ask: AskFailures, owned: OwnedProgram, open_blank: OpenBlank
) -> WallFinding:
    """What of our claims is proved though the program is forgotten.

    ``open_blank`` is called where a claim is believed.
    """
    num_claims = num_asked = 0
    for holders in owned.held_apart:
        found = WallFinding()
        for keep_promises in (True, False):
            forgotten = forget_program(owned, holders, keep_promises=keep_promises)
            asked = Questioned(forgotten, holders)
            if not asked.claims:
                break
            asked.detach_claims()
            asked.question_branches()
            asked.question_runs()
            await _ask_in_rounds(ask, asked)
            found = await _compare(ask, asked, open_blank)
            if not found.believed or FALSE in found.believed:
                break
            # A claim may follow from what our declarations ensure; false does not.
        if found.believed or found.doubt:
            return found
        num_claims, num_asked = num_claims + found.num_claims, num_asked + found.num_asked
    return WallFinding((), num_claims, num_asked)


async def ask_consequence(
    ask: AskFailures, owned: OwnedProgram, open_blank: OpenBlank, *, reached: bool = False
) -> WallFinding:
    """Whether anything follows from what the policy wrote: ``false`` behind it, where it did not
    follow before it, and at the loops whose clauses it wrote, where it does not with an empty
    hole. Its blocks are asked without what stands before them. ``reached``: only in functions, and
    behind what a call comes by."""
    asked = Questioned(EditedProgram(owned), owned.holders)
    asked.question_runs(reached=reached)
    asked.question_steps()
    if reached:
        if asked.num_questions:
            await _ask_all(ask, asked)
        return await _compare(ask, asked, open_blank)
    asked.question_loops(asked.list_loops())
    await _ask_all(ask, asked)
    found = await _compare(ask, asked, open_blank)
    opened = Questioned(EditedProgram(owned), owned.holders)
    opened.question_branches()
    if found.believed or found.doubt or not opened.num_questions:
        return found
    opened.open_heads()
    await _ask_in_rounds(ask, opened)
    return await _compare(ask, opened, open_blank)


async def _ask_all(ask: AskFailures, asked: Questioned) -> None:
    await asked.ask(ask)
    while not asked.doubt and asked.leave_out_failed():
        await asked.ask(ask)


async def _ask_in_rounds(ask: AskFailures, asked: Questioned) -> None:
    """Ask until nothing fails of what the policy wrote, then at the loops too. Where all of it
    failed nothing is left that could prove anything."""
    loops = asked.list_loops()
    for _ in range(_MAX_ROUNDS):
        await asked.ask(ask)
        if asked.doubt or not (asked.drop() or asked.leave_out_failed()):
            break
        if asked.is_bare:
            return
    else:
        asked.doubt = f"hints still fail after {_MAX_ROUNDS} rounds"
    if loops and not asked.doubt:
        asked.question_loops(loops)
        await _ask_all(ask, asked)


async def _compare(ask: AskFailures, asked: Questioned, open_blank: OpenBlank) -> WallFinding:
    """Less what is proved with an empty hole too."""
    num_claims = len(asked.claims)
    if asked.doubt or asked.is_bare or not asked.believed:
        return WallFinding((), num_claims, asked.num_asked, asked.doubt)
    blank = asked.open_blank(await open_blank())
    await blank.ask(ask)
    # What a prover gave up on is not proved with an empty hole.
    gave_up = blank.doubt == GAVE_UP
    believed = [text for key, text in asked.believed.items() if gave_up or blank.fails(key)]
    if blank.doubt and not gave_up:
        believed = []
    doubt = "" if gave_up else blank.doubt
    return WallFinding(tuple(believed), num_claims, asked.num_asked + 1, doubt)
