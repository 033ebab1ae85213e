"""Expert iteration: sample, keep what the verifier proved, learn it, repeat.

Paper order (Anthony et al. 2017, arXiv 1705.08439; for proofs Polu and Sutskever 2020,
arXiv 2009.03393; DeepSeek-Prover, Xin et al. 2024, arXiv 2405.14333): each round draws problems,
samples bodies, keeps the shortest distinct proved ones of every problem over all rounds, and trains
on them together with the warm start's references. A run can start from the proofs of another;
what was not verified under the present conditions is verified before it is learned from. Runs
resume at a round; verdicts of a half round come from the cache.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from proverrl.policy.lora import has_adapter, reset_adapter
from proverrl.rewards import proved_reward
from proverrl.run.adapter_probe import probe_adapter
from proverrl.run.follow import check_weights
from proverrl.run.pairs import (
    PairSource,
    proof_sources,
    reference_sources,
)
from proverrl.run.pipeline import InOrder, Order, Pipeline
from proverrl.run.reverify import import_proofs, keep_sample_proofs, reverify_proofs
from proverrl.run.session import Session, load_at
from proverrl.run.state import RunState, Stateful
from proverrl.run.supervised import train_supervised
from proverrl.run.tally import Tally
from proverrl.seeds import derive_seed


class Supply(Stateful, Protocol):
    """Brings new problems before each round; its state is part of the checkpoint."""

    def why_done(self) -> str:
        """The reason why there is no further round, or an empty string."""

    async def bring(self) -> int:
        """Add problems, and proofs where some are found; returns the verifier calls."""

    def describe(self) -> dict[str, Any]:
        """The figures of the round, once its proofs are in the store."""


async def run_expert_iteration(
    session: Session, open_supply: Callable[[RunState], Supply] | None = None
) -> None:
    """Run rounds until ``rounds``, ``max_verifier_calls`` or ``max_minutes``, or until the supply
    of new problems is done; resumes by itself."""
    settings = session.config.expert_iteration
    state = RunState(session)
    supply = open_supply(state) if open_supply is not None else None
    if supply is not None:
        state.parts["supply"] = supply
    state.restore()
    progress = state.progress
    progress.verifier_calls += await _check_proofs(state)
    base = reference_sources(session)
    try:
        while progress.step < settings.rounds:
            session.check_stop(f"round {progress.step} is saved")
            if spent := state.spent():
                session.monitor.phase("budget", spent)
                break
            if supply is not None and (reason := supply.why_done()):
                session.monitor.phase("done", reason)
                break
            await _make_round(state, base, supply)
            await state.save()
    finally:
        state.reviewer.close()


async def _make_round(state: RunState, base: list[PairSource], supply: Supply | None) -> None:
    """A round, in the order of the paper; ``base`` is what every round learns from."""
    session, progress, started = state.session, state.progress, time.monotonic()
    num_calls = await supply.bring() if supply is not None else 0
    progress.verifier_calls += num_calls
    tally = await _sample_round(state)
    tally.verifier_calls += num_calls
    progress.step += 1
    sampling_seconds = time.monotonic() - started
    proofs = [(name, proof.body) for name, proof in state.store.entries()]
    sources = base + proof_sources(session, proofs)
    loss = await asyncio.to_thread(_train_round, session, sources, progress.step)
    await asyncio.to_thread(check_weights, session.policy.world, session.policy)
    pushed = await asyncio.to_thread(session.sampler.push, progress.step)
    problems = filter(session.has_room, session.problems.without_reference)
    pushed |= await asyncio.to_thread(probe_adapter, session.policy, problems)
    figures = {
        "kept": len(state.store.pairs()),
        "trained_on": len(sources),
        "problems_solved": len(state.store.proofs),
        "loss": loss,
        "learning_rate": session.config.expert_iteration.learning_rate,
        **pushed,
        **(supply.describe() if supply is not None else {}),
    }
    state.log("round", tally, figures, started=started, seconds=sampling_seconds)


async def _sample_round(state: RunState) -> Tally:
    """Draw problems, write completions, verify, and keep what was proved."""
    session, progress, tally = state.session, state.progress, Tally()
    settings = session.config.expert_iteration
    left = most = settings.problems_per_round

    def choose() -> Order | None:
        nonlocal left
        if left <= 0:
            return None
        session.check_stop(f"round {progress.step} is saved")
        number = state.number_draw()
        problems = state.curriculum.draw(min(left, settings.problems_per_draw))
        left -= len(problems)
        session.monitor.phase(f"round {progress.step + 1}", f"{most - left}/{most} problems drawn")
        return Order(number, tuple(problems))

    pipeline = Pipeline(session, state.reviewer, settings.samples_per_problem)
    source = InOrder(pipeline, choose, most=most)
    try:
        async for judged in source.draws():
            before = tally.verifier_calls
            # Imitation takes a proof or leaves it; no shaped reward, and advantages stay 0.
            state.reward(judged, proved_reward, tally)
            progress.verifier_calls += tally.verifier_calls - before
            if state.spent():
                # What was written ahead is not waited for.
                source.took(1)
    finally:
        await source.aclose()
    return tally


async def _check_proofs(state: RunState) -> int:
    """Bring in the proofs of an earlier run, or verify a resumed run's own where that is due."""
    session, store = state.session, state.store
    path = session.config.expert_iteration.proofs
    if state.progress.step:
        return await reverify_proofs(session, store)
    num_calls = await import_proofs(session, store, Path(path)) if path else 0
    return num_calls + await keep_sample_proofs(session, store)


def _go_back(session: Session) -> None:
    """Take the weights of warm start again; here alone they are held twice."""
    config = session.config
    start = load_at(config, session.warm_policy, config.policy, "policy.path")
    session.policy.model.load_state_dict(start.model.state_dict())


def _train_round(session: Session, sources: list[PairSource], number: int) -> float:
    """Supervised training on ``sources``; returns the final loss, NaN without any."""
    config = session.config
    if not sources:
        session.monitor.phase(f"round {number}", "nothing to learn from: no proof, no reference")
        return math.nan
    settings = config.expert_iteration
    if settings.from_warm_start and has_adapter(session.policy.model):
        reset_adapter(session.policy.model, seed=derive_seed(config.seed, "lora"))
    elif settings.from_warm_start:
        _go_back(session)
    steps = max(1, settings.epochs * len(sources) // settings.batch_size)

    def show(step: int, loss: float) -> None:
        session.monitor.phase(f"round {number}", f"training {step}/{steps}, loss {loss:.3f}")

    seed = derive_seed(config.seed, "round", number)
    return train_supervised(session, sources, settings, steps=steps, seed=seed, progress=show)
