"""The solver's attack on new statements: bodies that may prove their negations.

Flows in: a round's drafts. Flows out: bodies for the negation of each, which the guard ``refuted``
has judged (Xin et al. 2024, DeepSeek-Prover, arXiv 2405.14333, attack both sides with the prover).
They are written with the round, by the weights of that moment, and go into the checkpoint with it:
the guards work while the learner updates, when other weights would be a matter of time.
Not handled here: methods, whose contracts have no negation; the statement itself, which the solver
attacks when it has passed the guards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proverrl.compose.composers import Draft
from proverrl.compose.guards import Attack, make_negation
from proverrl.errors import ProblemError
from proverrl.loops.pipeline import make_sampling
from proverrl.loops.session import Session
from proverrl.rollout.whole_proof import Draw, draw_groups
from proverrl.types import Problem

Attacks = dict[str, list[str]]
"""Distinct bodies for each negation, by its id, in the order in which they are tried."""


async def write_attacks(session: Session, drafts: Sequence[Draft], round_number: int) -> Attacks:
    """``selfplay.attack_samples`` completions on the negation of each draft that has one."""
    config = session.config
    num = config.selfplay.attack_samples
    negations = list_negations(drafts) if num and "refuted" in config.selfplay.guards else []
    if not negations:
        return {}
    draws = await draw_groups(
        session.sampler,
        negations,
        n=num,
        sampling=make_sampling(config, "attack", round_number),
        name=f"attack{round_number}",
    )
    return {draw.problem.id: list_bodies(draw) for draw in draws}


def list_bodies(draw: Draw) -> list[str]:
    """A draw's distinct bodies, in the order of writing. None of those with a prelude: a proof
    would not be kept, since the body alone leans on it."""
    candidates = [extraction.candidate(draw.problem) for extraction in draw.extractions]
    return list(dict.fromkeys(c.body for c in candidates if c is not None and not c.prelude))


def list_negations(drafts: Sequence[Draft]) -> list[Problem]:
    """The negations of the drafts' statements, each once."""
    found: dict[str, Problem] = {}
    for draft in drafts:
        negation = None if draft.composed is None else negate(draft.composed.problem)
        if negation is not None:
            found.setdefault(negation.id, negation)
    return list(found.values())


def negate(problem: Problem) -> Problem | None:
    """The negation of a statement; None where it has none, or where the program cannot be taken
    apart, which the guard stops with that reason."""
    try:
        negation = make_negation(problem)
    except ProblemError:
        return None
    return negation.problem if negation is not None else None


def use_attacks(attacks: Mapping[str, Sequence[str]]) -> Attack:
    """The attack of ``GuardTools`` that tries these bodies; none on anything else."""

    async def attack(problem: Problem) -> Sequence[str]:
        return attacks.get(problem.id, ())

    return attack
