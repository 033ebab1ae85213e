"""Restarts in a run: which groups of a draw begin with a hint, and what became of them.

Flows in: an open session, the run's proofs, judged rollouts. Flows out: problems with their hints.
Not handled here: the choice of the share (``rollout.restart``), the cut (``rollout.hints``).
"""

from __future__ import annotations

from collections.abc import Sequence

from proverrl.benchmarks.open import open_benchmark
from proverrl.hint import Hint
from proverrl.rollout.hints import cut_opening, failed_attempt, read_failure, verified_opening
from proverrl.rollout.proofs import ProofStore
from proverrl.rollout.restart import Restarts
from proverrl.rollout.self_correct import tell
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.run.session import Session
from proverrl.types import Problem


def open_restarts(session: Session) -> Restarts:
    """Restarts without a past; references are read only where the configuration says so."""
    settings = session.config.restart
    if settings.name == "none" or settings.source != "reference":
        return Restarts(settings)
    known = open_benchmark(str(session.config.problems.train)).references
    drawn = {problem.id for problem in session.problems.without_reference}
    return Restarts(settings, {name: body for name, body in known.items() if name in drawn})


def plan_restarts(
    session: Session, restarts: Restarts, store: ProofStore, num_groups: int
) -> list[tuple[Problem, Hint]]:
    """The restarts of a draw of ``num_groups``: those that waited longest and have a hint."""
    room = restarts.room(num_groups)
    if not room:
        return []
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    planned: list[tuple[Problem, Hint]] = []
    for name, ratio in restarts.waiting():
        if len(planned) == room:
            break
        hint = _make_hint(session, restarts, store, by_id[name], ratio)
        if hint is not None and _fits(session, by_id[name], hint):
            restarts.take(name)
            planned.append((by_id[name], hint))
    return planned


def observe_draw(session: Session, restarts: Restarts, judged: Sequence[JudgedDraw]) -> None:
    """Tell the restarts what became of every group, and keep failed attempts if they are wanted."""
    for draw in judged:
        restarts.observe(draw.rollouts)
        if not restarts.keeps_failures:
            continue
        for rollout in draw.rollouts:
            told = tell(rollout.turns[0], session.policy, session.config.rollout)
            if (failure := read_failure(rollout, told)) is not None:
                restarts.add_failure(rollout.problem.id, failure)


def _make_hint(
    session: Session, restarts: Restarts, store: ProofStore, problem: Problem, ratio: float
) -> Hint | None:
    """The hint at a share of what is known of the problem; None where it has none, or none that
    fits the model's positions."""
    policy, settings = session.policy, restarts.settings
    if restarts.keeps_failures:
        failure = restarts.failures.get(problem.id)
        if failure is None:
            return None
        if settings.source == "failed_attempt":
            return failed_attempt(policy, problem, failure)
        return verified_opening(policy.tokenizer, problem, failure, policy.layout)
    if settings.source == "reference":
        body = restarts.references.get(problem.id)
    else:
        kept = store.proofs.get(problem.id)
        body = kept[0].body if kept else None
    if body is None:
        return None
    return cut_opening(
        policy.tokenizer,
        problem,
        body,
        policy.layout,
        ratio=ratio,
        unit=settings.unit,
        source=settings.source,
    )


def _fits(session: Session, problem: Problem, hint: Hint) -> bool:
    num_tokens = len(session.policy.prompt(problem).token_ids) + len(hint.token_ids)
    limit = int(session.policy.model.config.max_position_embeddings)
    return num_tokens + session.config.sampling.max_new_tokens <= limit
