"""Expert iteration: sample, keep what the verifier proved, learn it, repeat.

Paper order (Anthony et al. 2017, arXiv 1705.08439; for proofs Polu and Sutskever 2020,
arXiv 2009.03393; DeepSeek-Prover, Xin et al. 2024, arXiv 2405.14333): each round draws problems,
samples bodies, keeps the shortest distinct proved ones of every problem over all rounds, and trains
on them together with the warm start's references. Proofs of an earlier run can be had as a start;
whatever was not verified under the present conditions is verified before it is learned from. A
round is the unit of resumption; verdicts of a half round come from the cache.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from proverrl.curriculum.base import Curriculum
from proverrl.curriculum.sampler import CURRICULA
from proverrl.files.disk import loading
from proverrl.loops.adapter_probe import probe_adapter
from proverrl.loops.audit import Auditor, build_auditor, judge_first, judge_rest
from proverrl.loops.checkpoint import latest_checkpoint, read_state, restoring, save_checkpoint
from proverrl.loops.follow import push_weights
from proverrl.loops.mixture import choose_proofs, load_sft_data
from proverrl.loops.reverify import import_proofs, reverify_proofs
from proverrl.loops.search_samples import keep_sample_proofs
from proverrl.loops.session import (
    Session,
    budget_spent,
    open_store,
    proof_sources,
    reference_sources,
    sample_draw,
    seconds_left,
)
from proverrl.loops.tally import Tally, absorb_draw
from proverrl.loops.warm_start import PairSource, SftSettings, make_source, train_supervised
from proverrl.policy.lora import has_adapter, reset_adapter
from proverrl.rewards import proved_reward
from proverrl.rollout.proofs import ProofStore
from proverrl.rollout.whole_proof import Draw, JudgedDraw
from proverrl.seeds import derive_seed


@dataclass
class Progress:
    """How far a run is; saved in the checkpoint."""

    round: int = 0
    num_draws: int = 0
    verifier_calls: int = 0
    seconds: float = 0.0


class Supply(Protocol):
    """Brings new problems before each round; its state is part of the checkpoint."""

    def why_done(self) -> str:
        """Why there is no further round, or an empty string."""

    async def bring(self, curriculum: Curriculum, store: ProofStore, progress: Progress) -> int:
        """Add problems, and proofs where some are found; returns the verifier calls."""

    def describe(self, store: ProofStore) -> dict[str, Any]:
        """The figures of the round, once its proofs are in the store."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


async def run_expert_iteration(session: Session, supply: Supply | None = None) -> None:
    """Run rounds until ``rounds``, ``max_verifier_calls`` or ``max_minutes``, or until the supply
    of new problems is done; resumes by itself."""
    config = session.config
    settings = config.expert_iteration
    curriculum = CURRICULA[config.curriculum.name](
        session.problems.without_reference,
        config.curriculum,
        derive_seed(config.seed, "curriculum"),
    )
    store = open_store(session, settings.keep_shortest)
    auditor = build_auditor(session)
    progress = _restore(session, curriculum, store, auditor, supply)
    progress.verifier_calls += await _check_proofs(session, store, progress)
    try:
        await _run_rounds(session, curriculum, store, auditor, progress, supply)
    finally:
        auditor.close()


async def _run_rounds(
    session: Session,
    curriculum: Curriculum,
    store: ProofStore,
    auditor: Auditor,
    progress: Progress,
    supply: Supply | None,
) -> None:
    config, monitor = session.config, session.monitor
    settings = config.expert_iteration
    base = _base_sources(session)
    while progress.round < settings.rounds:
        session.check_stop(f"round {progress.round} is saved")
        if spent := budget_spent(config, progress.verifier_calls, progress.seconds):
            monitor.phase("budget", spent)
            break
        if supply is not None and (reason := supply.why_done()):
            monitor.phase("done", reason)
            break
        started = time.monotonic()
        num_calls = await supply.bring(curriculum, store, progress) if supply is not None else 0
        progress.verifier_calls += num_calls
        tally = await _sample_round(session, curriculum, store, auditor, progress)
        tally.verifier_calls += num_calls
        progress.round += 1
        sampling_seconds = time.monotonic() - started
        sources = base + _round_sources(session, store, progress.round)
        loss = await asyncio.to_thread(_train_round, session, sources, progress.round)
        await asyncio.to_thread(push_weights, session.policy.world, session.policy)
        pushed = await asyncio.to_thread(session.sampler.push, progress.round)
        pushed |= await asyncio.to_thread(
            probe_adapter, session.policy, session.problems.without_reference
        )
        values = tally.metrics(sampling_seconds) | curriculum.metrics() | auditor.metrics()
        values |= {
            "verifier_calls_total": progress.verifier_calls,
            "kept": len(store.pairs()),
            "trained_on": len(sources),
            "problems_solved": len(store.proofs),
            "loss": loss,
            "learning_rate": settings.learning_rate,
            **pushed,
            **(supply.describe(store) if supply is not None else {}),
        }
        monitor.write_rollouts(progress.round, tally.rows(progress.round))
        progress.seconds += time.monotonic() - started
        monitor.log("round", progress.round, values | seconds_left(config, progress.seconds))
        await asyncio.to_thread(_save, session, curriculum, store, auditor, progress, supply)


async def _sample_round(
    session: Session,
    curriculum: Curriculum,
    store: ProofStore,
    auditor: Auditor,
    progress: Progress,
) -> Tally:
    """Sample and judge a round's problems; one draw is written while the last is judged."""
    config = session.config
    settings = config.expert_iteration
    tally = Tally()
    waiting: tuple[asyncio.Task[list[JudgedDraw]], float] | None = None
    left = settings.problems_per_round
    try:
        while left > 0:
            session.check_stop(f"round {progress.round} is saved")
            draws, seconds = await _draw(session, curriculum, progress, left)
            left -= len(draws)
            if waiting:
                judged = await judge_rest(session, auditor, await waiting[0])
                _absorb(judged, waiting[1], tally, curriculum, store, auditor, progress)
                waiting = None
                if budget_spent(config, progress.verifier_calls, progress.seconds):
                    break
            waiting = (asyncio.create_task(judge_first(session, auditor, draws)), seconds)
            done = settings.problems_per_round - left
            detail = f"{done}/{settings.problems_per_round} problems drawn"
            session.monitor.phase(f"round {progress.round + 1}", detail)
        if waiting:
            judged = await judge_rest(session, auditor, await waiting[0])
            _absorb(judged, waiting[1], tally, curriculum, store, auditor, progress)
            waiting = None
    finally:
        if waiting:
            waiting[0].cancel()
    return tally


async def _draw(
    session: Session, curriculum: Curriculum, progress: Progress, left: int
) -> tuple[list[Draw], float]:
    settings = session.config.expert_iteration
    progress.num_draws += 1
    return await sample_draw(
        session,
        curriculum.draw(min(left, settings.problems_per_draw)),
        n=settings.samples_per_problem,
        number=progress.num_draws - 1,
    )


def _absorb(
    judged: list[JudgedDraw],
    generation_seconds: float,
    tally: Tally,
    curriculum: Curriculum,
    store: ProofStore,
    auditor: Auditor,
    progress: Progress,
) -> None:
    before = tally.verifier_calls
    absorb_draw(
        judged,
        generation_seconds,
        tally=tally,
        curriculum=curriculum,
        store=store,
        # Imitation takes a proof or leaves it; no shaped reward, and advantages stay 0.
        reward=proved_reward,
        auditor=auditor,
    )
    progress.verifier_calls += tally.verifier_calls - before


async def _check_proofs(session: Session, store: ProofStore, progress: Progress) -> int:
    """Bring in the proofs of an earlier run, or verify a resumed run's own where that is due."""
    path = session.config.expert_iteration.proofs
    if progress.round:
        return await reverify_proofs(session, store)
    num_calls = await import_proofs(session, store, Path(path)) if path else 0
    return num_calls + await keep_sample_proofs(session, store)


def _base_sources(session: Session) -> list[PairSource]:
    """What every round learns from: references of warm start, and ``sft_data``."""
    sources = reference_sources(session)
    config = session.config
    if path := config.expert_iteration.sft_data:
        pairs = load_sft_data(Path(path), config.problems)
        sources += [make_source(session.policy, problem, body) for problem, body in pairs]
    return sources


def _round_sources(session: Session, store: ProofStore, number: int) -> list[PairSource]:
    """The kept proofs that round ``number`` (from 1) learns from."""
    settings = session.config.expert_iteration
    chosen = choose_proofs(
        store.entries(),
        # Its own are those that the policy of the round before wrote.
        policy_version=number - 1,
        earlier_share=settings.earlier_share,
        max_per_problem=settings.max_proofs_per_problem,
        rng=random.Random(derive_seed(session.config.seed, "mixture", number)),
    )
    return proof_sources(session, [(name, proof.body) for name, proof in chosen])


def _train_round(session: Session, sources: list[PairSource], number: int) -> float:
    """Supervised training on ``sources``; returns the final loss."""
    config = session.config
    settings = config.expert_iteration
    if settings.restart and has_adapter(session.policy.model):
        reset_adapter(session.policy.model, seed=derive_seed(config.seed, "lora"))
    elif settings.restart:
        with loading(session.warm_weights):
            state = torch.load(session.warm_weights, weights_only=True)
        session.policy.model.load_state_dict(state)
    steps = max(1, settings.epochs * len(sources) // settings.batch_size)

    def show(step: int, loss: float) -> None:
        session.monitor.phase(f"round {number}", f"training {step}/{steps}, loss {loss:.3f}")

    return train_supervised(
        session.policy,
        sources,
        SftSettings(
            steps=steps,
            batch_size=settings.batch_size,
            optimizer=settings.optimizer,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            max_grad_norm=config.learner.max_grad_norm,
            prompt_weight=config.warm_start.prompt_weight,
            pack_tokens=settings.pack_tokens,
            seed=derive_seed(config.seed, "round", number),
        ),
        progress=show,
    )


def _save(
    session: Session,
    curriculum: Curriculum,
    store: ProofStore,
    auditor: Auditor,
    progress: Progress,
    supply: Supply | None,
) -> None:
    state: dict[str, Any] = {
        "num_draws": progress.num_draws,
        "verifier_calls": progress.verifier_calls,
        "seconds": progress.seconds,
        "curriculum": curriculum.state_dict(),
        "proofs": store.state_dict(),
        "audits": auditor.state_dict(),
        **({"supply": supply.state_dict()} if supply is not None else {}),
    }
    save_checkpoint(session.checkpoints, progress.round, state, save_policy=session.policy.save)


def _restore(
    session: Session,
    curriculum: Curriculum,
    store: ProofStore,
    auditor: Auditor,
    supply: Supply | None,
) -> Progress:
    checkpoint = latest_checkpoint(session.checkpoints)
    if checkpoint is None:
        return Progress()
    state = read_state(checkpoint)
    with restoring(checkpoint):
        curriculum.load_state_dict(state["curriculum"])
        store.load_state_dict(state["proofs"])
        auditor.load_state_dict(state["audits"])
        if supply is not None:
            supply.load_state_dict(state["supply"])
        progress = Progress(
            state["step"], state["num_draws"], state["verifier_calls"], state["seconds"]
        )
    session.sampler.push(progress.round)
    return progress
