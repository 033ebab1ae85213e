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
from proverrl.compose.operators import OperatorName, compose
from proverrl.config.compose import GuardName
from proverrl.lang.dafny.compose import attack as dafny_attack
from proverrl.lang.dafny.compose.declarations import read_problem
from proverrl.lang.dafny.file_audit import audit_file
from proverrl.lang.dafny.vacuity import TRIVIAL_BODIES, build_requires_probe, proves_probe
from proverrl.lang.lean.compose import mutate as lean_text
from proverrl.lang.records import Parent
from proverrl.problems.contamination import Statement, make_skeleton
from proverrl.types import Candidate, Problem, Status, Verdict

LEAN_PORTFOLIO: tuple[str, ...] = (
    *("rfl", "trivial", "decide", "simp", "simp_all", "omega", "norm_num", "tauto", "aesop"),
)
"""Tactics that prove a Lean statement which is not worth a proof of its own."""


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
    """Stops what the verifier cannot read, and what no body could prove.

    For Dafny the hole stays empty: the answer names what was checked. An entry that fails beside
    the declaration with the hole (a function that may not end, an index out of range in a
    contract) would fail with every body. Its text is audited first as if a policy had written it,
    for a policy may have: nothing may be assumed or switched off. For Lean the hole holds
    ``sorry``.
    """

    async def check(problem: Problem) -> Stop | None:
        if problem.language == "dafny":
            text = problem.preamble + problem.statement
            for finding in audit_file(text):
                reason = f"refused by the audit: {finding.rule}"
                return Stop("well_formed", problem.id, reason, body=finding.message)
        body = "sorry" if problem.language == "lean" else ""
        verdict = await tools.asker.ask("well_formed", Candidate(problem, body))
        if problem.language == "lean":
            is_fine = verdict.status in (Status.INCOMPLETE, Status.UNSOUND)
            return None if is_fine else Stop("well_formed", problem.id, "does not elaborate")
        if verdict.status is Status.UNSOUND:
            return Stop("well_formed", problem.id, "refused by the audit")
        if "obligations" not in verdict.checks and not verdict.proved:
            message = next((d.message for d in verdict.diagnostics), "")
            return Stop("well_formed", problem.id, "does not resolve", body=message)
        own = f".{_find_target(problem)}"
        for entry in verdict.obligations:
            is_own = entry.entry.startswith("Impl$$") and entry.entry.endswith(own)
            if entry.proved < entry.total and not is_own:
                return Stop("well_formed", problem.id, "fails with any body", body=entry.entry)
        return None

    return check


def guard_trivial(tools: GuardTools) -> Guard:
    """Stops what an empty body, one that says nothing, or a fixed portfolio proves."""

    async def check(problem: Problem) -> Stop | None:
        bodies: Sequence[str] = LEAN_PORTFOLIO
        if problem.language == "dafny":
            bodies = ("", *TRIVIAL_BODIES[problem.kind])
        elif problem.kind == "term":
            bodies = tuple(f"by {tactic}" for tactic in LEAN_PORTFOLIO)
        body = await find_first_proof(tools.asker, "trivial", problem, bodies)
        if body is None:
            return None
        return Stop("trivial", problem.id, f"proved by {body or 'an empty body'}", body=body)

    return check


def guard_satisfiable(tools: GuardTools) -> Guard:
    """Stops what assumes a contradiction: ``false`` must not follow from the assumptions
    (hypothesis rejection; Xin et al. 2024, DeepSeek-Prover, arXiv 2405.14333)."""

    async def check(problem: Problem) -> Stop | None:
        if problem.language == "lean":
            absurd = make_lean_absurd(problem)
            bodies: Iterable[str] = LEAN_PORTFOLIO
            if absurd is None:
                return None
            found = await find_first_proof(tools.asker, "satisfiable", absurd, bodies)
            reason = f"its hypotheses prove False by {found}"
            return None if found is None else Stop("satisfiable", problem.id, reason, body=found)
        probe = build_requires_probe(problem)
        if probe is None:
            return None
        if proves_probe(await tools.asker.ask("satisfiable", probe)):
            return Stop("satisfiable", problem.id, "its requires contradict each other")
        return None

    return check


def guard_weak_contract(tools: GuardTools) -> Guard:
    """Stops a method whose contract a program that does nothing meets."""

    async def check(problem: Problem) -> Stop | None:
        if problem.language != "dafny":
            return None
        for candidate in dafny_attack.list_exploits(problem):
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
        if problem.language == "dafny" and (runs := dafny_attack.build_runs(problem)) is not None:
            verdict = await tools.asker.ask("refuted", runs)
            for entry in verdict.obligations:
                name = entry.entry.rpartition(".")[2]
                is_run = entry.entry.startswith("Impl$$") and name.startswith(dafny_attack.RUN_NAME)
                if is_run and entry.proved == entry.total > 0:
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
    if problem.language == "lean":
        for_it, against = LEAN_PORTFOLIO, tuple(f"push_neg; {t}" for t in LEAN_PORTFOLIO)
    else:
        for_it = tuple(dafny_attack.list_plain_proofs(problem))
        witnesses = dafny_attack.write_witnesses(problem)
        against = () if witnesses is None else (witnesses,)
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
    name: OperatorName = "negate" if problem.language == "dafny" else "lean_negate"
    if problem.language == "dafny" and problem.kind not in ("statements", "calc"):
        return None
    number = int(problem.metadata.get("round", 0))
    return compose(name, [Parent(problem)], round_number=number, seed=0)


def make_lean_absurd(problem: Problem) -> Problem | None:
    """The statement with the same hypotheses and the goal ``False``; None without hypotheses."""
    theorem = lean_text.read_theorem(problem)
    if theorem is None or not theorem.binders:
        return None
    absurd = lean_text.Theorem(f"{theorem.name}_absurd", theorem.binders, "False", theorem.ending)
    return Problem(f"{problem.id}#absurd", "lean", problem.kind, problem.preamble, absurd.text)


def _find_target(problem: Problem) -> str:
    return read_problem(problem).target.name


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
