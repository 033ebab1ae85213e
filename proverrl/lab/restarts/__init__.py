"""Restarts: a problem whose group has no proof comes again with a part of an answer (GHPO, Liu et
al. 2025, arXiv 2507.10628; Goedel-Prover-V2, Lin et al. 2025, arXiv 2508.03613).

Flows in: the proofs of a run, judged draws. Flows out: problems with their hints. Not handled here:
the choice of the share (``queue``), the cut (``hints``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from proverrl.benchmarks.open import open_benchmark
from proverrl.config import Config
from proverrl.lab.restarts.hints import (
    RestartOptions,
    cut_opening,
    failed_attempt,
    read_failure,
    verified_opening,
)
from proverrl.lab.restarts.queue import Queue
from proverrl.rollout.proofs import Proof
from proverrl.rollout.self_correct import tell
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.run.experiments import Experiment
from proverrl.run.session import Session
from proverrl.types import Hint, Problem


class Restarts(Experiment):
    """Groups of a draw that begin with a hint, and what became of them."""

    def __init__(self, config: Config, *, options: RestartOptions) -> None:
        self.config = config
        self.options = options
        self.queue = Queue(options)

    def choose(
        self, session: Session, proofs: Mapping[str, Sequence[Proof]], num_groups: int
    ) -> list[tuple[Problem, Hint]]:
        """The restarts of a draw: those that waited longest and have a hint."""
        room = self.queue.room(num_groups)
        by_id = {problem.id: problem for problem in session.problems.without_reference}
        planned: list[tuple[Problem, Hint]] = []
        for name, ratio in self.queue.waiting():
            if len(planned) >= room:
                break
            hint = self._make_hint(session, proofs.get(name, ()), by_id[name], ratio)
            if hint is not None and _fits(session, by_id[name], hint):
                self.queue.take(name)
                planned.append((by_id[name], hint))
        return planned

    def observe(self, session: Session, draws: Sequence[JudgedDraw]) -> dict[str, float]:
        """Note what became of every group, and keep failed attempts if they are wanted."""
        for draw in draws:
            self.queue.observe(draw.rollouts)
            if not self.queue.keeps_failures:
                continue
            for rollout in draw.rollouts:
                told = tell(rollout.turns[0], session.policy, session.config.rollout)
                if (failure := read_failure(rollout, told)) is not None:
                    self.queue.add_failure(rollout.problem.id, failure)
        return self.queue.metrics()

    def state_dict(self) -> dict[str, Any]:
        return self.queue.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.queue.load_state_dict(state)

    @cached_property
    def references(self) -> Mapping[str, str]:
        """The bodies of the training file, of which the warm start's are never asked for."""
        return open_benchmark(str(self.config.problems.train)).references

    def _make_hint(
        self, session: Session, proofs: Sequence[Proof], problem: Problem, ratio: float
    ) -> Hint | None:
        """The hint at a share of what is known of the problem; None where it has none, or none
        that can be cut."""
        policy, options = session.policy, self.options
        if self.queue.keeps_failures:
            failure = self.queue.failures.get(problem.id)
            if failure is None:
                return None
            if options.source == "failed_attempt":
                return failed_attempt(policy, problem, failure)
            return verified_opening(policy.tokenizer, problem, failure, policy.layout)
        if options.source == "reference":
            body = self.references.get(problem.id)
        else:
            body = proofs[0].body if proofs else None
        if body is None:
            return None
        return cut_opening(
            policy.tokenizer,
            problem,
            body,
            policy.layout,
            ratio=ratio,
            unit=options.unit,
            source=options.source,
        )


def _fits(session: Session, problem: Problem, hint: Hint) -> bool:
    num_tokens = len(session.policy.prompt(problem).token_ids) + len(hint.token_ids)
    limit = int(session.policy.model.config.max_position_embeddings)
    return num_tokens + session.config.sampling.max_new_tokens <= limit
