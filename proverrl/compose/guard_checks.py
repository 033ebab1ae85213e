"""The guards, by their names, cheapest first.

Flows in: tools. Flows out: one ``Guard`` a name.
Not handled here: the order of problems and what is counted (``guards``).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from proverrl.compose.archive import Composed
from proverrl.compose.guards import (
    Guard,
    GuardTools,
    Stop,
    find_first_proof,
)
from proverrl.compose.operators import compose
from proverrl.config.compose import GuardName
from proverrl.lang import find_composing
from proverrl.lang.records import Parent
from proverrl.problems.contamination import Statement, make_skeleton
from proverrl.types import Candidate, Problem, Verdict


def guard_duplicate(tools: GuardTools) -> Guard:
    """Stops what differs from an existing problem in names, comments and layout only."""

    async def check(problem: Problem) -> Stop | None:
        skeleton = make_skeleton(problem)
        if skeleton in tools.seen:
            return Stop("duplicate", problem.id, "the same but for names")
        tools.seen.add(skeleton)
        return None

    return check


def guard_leak(tools: GuardTools) -> Guard:
    """Stops what is a held-out problem under other names, or holds one whole (Wang et al. 2025,
    Kimina-Prover, arXiv 2504.11354: runs of 13 tokens)."""

    async def check(problem: Problem) -> Stop | None:
        text = problem.preamble + problem.statement
        for match in tools.held_out.find(Statement(problem.id, problem.language, text)):
            if match.kind != "near" or match.share >= tools.near_share:
                return Stop("leak", problem.id, f"{match.kind} as {match.benchmark_id}")
        return None

    return check


def guard_well_formed(tools: GuardTools) -> Guard:
    """Stops what the verifier cannot read, and what no body could prove. The text is audited first
    as if a policy had written it, for a policy may have: nothing may be assumed or switched off."""

    async def check(problem: Problem) -> Stop | None:
        composing = find_composing(problem.language)
        for rule, message in composing.find_cheats(problem):
            return Stop("well_formed", problem.id, f"refused by the audit: {rule}", body=message)
        verdict = await tools.asker.ask("well_formed", composing.ask_well_formed(problem))
        found = composing.explain_malformed(problem, verdict)
        return found and Stop("well_formed", problem.id, found[0], body=found[1])

    return check


def guard_trivial(tools: GuardTools) -> Guard:
    """Stops what an empty body, one that says nothing, or a fixed portfolio proves."""

    async def check(problem: Problem) -> Stop | None:
        bodies = find_composing(problem.language).list_trivial(problem)
        body = await find_first_proof(tools.asker, "trivial", problem, bodies)
        if body is None:
            return None
        return Stop("trivial", problem.id, f"proved by {body or 'an empty body'}", body=body)

    return check


def guard_satisfiable(tools: GuardTools) -> Guard:
    """Stops what assumes a contradiction: ``false`` must not follow from the assumptions
    (hypothesis rejection; Xin et al. 2024, DeepSeek-Prover, arXiv 2405.14333)."""

    async def check(problem: Problem) -> Stop | None:
        composing = find_composing(problem.language)
        for candidate in composing.ask_contradiction(problem):
            verdict = await tools.asker.ask("satisfiable", candidate)
            if reason := composing.explain_contradiction(candidate, verdict):
                return Stop("satisfiable", problem.id, reason, body=candidate.body)
        return None

    return check


def guard_weak_contract(tools: GuardTools) -> Guard:
    """Stops a method whose contract a program that does nothing meets."""

    async def check(problem: Problem) -> Stop | None:
        for candidate in find_composing(problem.language).list_exploits(problem):
            if (await tools.asker.ask("weak_contract", candidate)).proved:
                reason = "a program that does nothing meets its contract"
                return Stop("weak_contract", problem.id, reason, body=candidate.body)
        return None

    return check


def guard_refuted(tools: GuardTools) -> Guard:
    """Stops what is false. Statement and negation are attacked at the same time, a body of each at
    a turn; a proof ends both (Xin et al. 2024, DeepSeek-Prover, arXiv 2405.14333).

    The negation of a refuted lemma is kept as a problem, with its proof. A method is refuted by a
    run on a small input that breaks its contract.
    """

    async def check(problem: Problem) -> Stop | None:
        composing = find_composing(problem.language)
        runs = composing.ask_run(problem)
        if runs is not None and composing.is_broken(await tools.asker.ask("refuted", runs)):
            return Stop("refuted", problem.id, "a small run breaks it", body=runs.body)
        negation = make_negation(problem)
        if negation is None:
            return None
        found = await _attack_both(tools, problem, negation.problem)
        if found is None:
            return None
        body, reason = found
        kept = replace(negation, reference=body)
        return Stop("refuted", problem.id, reason, body=body, kept=kept)

    return check


async def _attack_both(
    tools: GuardTools, problem: Problem, negation: Problem
) -> tuple[str, str] | None:
    """The body that proves the negation and a reason that says whose it is, or None.

    Both bodies of a turn are judged, whichever verdict comes first, so that the calls that a run
    makes do not depend on the verifier's speed.
    """
    composing = find_composing(problem.language)
    for_it: Sequence[str] = composing.list_proofs(problem)
    against: Sequence[str] = composing.list_refutations(problem)
    num_plain = len(against)
    if tools.attack is not None:
        for_it = (*for_it, *await tools.attack(problem))
        against = (*against, *await tools.attack(negation))

    async def judge(attacked: Problem, body: str | None) -> Verdict | None:
        return body if body is None else await tools.asker.ask("refuted", Candidate(attacked, body))

    for turn, (one, other) in enumerate(itertools.zip_longest(for_it, against)):
        answers = await asyncio.gather(
            judge(problem, one), judge(negation, other), return_exceptions=True
        )
        holds, fails = (isinstance(answer, Verdict) and answer.proved for answer in answers)
        if fails:
            whose = "" if turn < num_plain else " by the solver"
            return other or "", f"its negation is proved{whose}"
        if holds:
            return None
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
    return None


def make_negation(problem: Problem) -> Composed | None:
    """The negation as a problem; None where the language or the form has none."""
    name = find_composing(problem.language).negate(problem)
    if name is None:
        return None
    number = int(problem.metadata.get("round", 0))
    return compose(name, [Parent(problem)], round_number=number, seed=0)


GUARDS: Mapping[GuardName, Callable[[GuardTools], Guard]] = {
    "duplicate": guard_duplicate,
    "leak": guard_leak,
    "well_formed": guard_well_formed,
    "satisfiable": guard_satisfiable,
    "trivial": guard_trivial,
    "weak_contract": guard_weak_contract,
    "refuted": guard_refuted,
}


def make_guards(
    tools: GuardTools, names: Iterable[GuardName] = tuple(GUARDS)
) -> dict[GuardName, Guard]:
    """The guards of these names, in the order of ``GUARDS``."""
    chosen = set(names)
    return {name: make(tools) for name, make in GUARDS.items() if name in chosen}
