"""Group-relative policy optimization on verdicts of the pool.

Paper order (Shao et al. 2024, arXiv 2402.03300): draw problems, sample a group on each, verify,
reward, compare within the group, update. Groups that the method of comparison cannot learn from,
for most methods those whose rewards are all equal, are counted and leave the batch, and draws go on
until there are enough others (dynamic sampling, DAPO, Yu et al. 2025, arXiv 2503.14476).

The pool never waits: while it judges one draw the policy writes the next, and while the learner
updates, the pool is judging what was written. So a draw is at most one step behind the policy
that learns from it. Everything that decides the future is in the checkpoint, the draw in flight
included.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

from proverrl.advantages import (
    ADMITS,
    ADVANTAGES,
    AdvantageInputs,
    GroupAdvantages,
    RewardHistory,
    line_steps,
)
from proverrl.checkpoint import (
    dump_draws,
    latest_checkpoint,
    load_draws,
    read_state,
    save_checkpoint,
)
from proverrl.curriculum.sampler import CURRICULA, Curriculum
from proverrl.errors import StoppedError
from proverrl.guard import GUARD_FOLDER, Guard
from proverrl.learner import TorchLearner
from proverrl.loops.adapter_probe import probe_adapter
from proverrl.loops.follow import check_weights, start_learners
from proverrl.loops.session import (
    Session,
    budget_spent,
    finish_rollouts,
    proof_sources,
    reference_sources,
    run_fraction,
    sample_draw,
    seconds_left,
)
from proverrl.loops.tally import Tally, absorb_draw
from proverrl.rewards import build_reward
from proverrl.rollout.proofs import ProofStore
from proverrl.rollout.samples import build_replay_sample, build_samples
from proverrl.rollout.teaching import TeacherPair, build_pairs
from proverrl.rollout.whole_proof import Draw, JudgedDraw, judge_all
from proverrl.seeds import derive_seed
from proverrl.types import Group, TrainingSample


@dataclass
class Progress:
    """How far a run is and what its problems earned so far; saved in the checkpoint."""

    step: int = 0
    num_draws: int = 0
    verifier_calls: int = 0
    seconds: float = 0.0
    history: RewardHistory = field(default_factory=RewardHistory)


@dataclass
class Flight:
    """A draw whose verdicts are on their way."""

    draws: list[Draw]
    judged: asyncio.Task[list[JudgedDraw]]
    generation_seconds: float


@dataclass
class StepBatch:
    """What a step learns from, and what its draws were like. ``groups`` are those admitted, with
    one entry of ``advantages`` each; ``seen`` are all."""

    groups: list[Group] = field(default_factory=list)
    advantages: list[GroupAdvantages] = field(default_factory=list)
    seen: list[Group] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)


async def run_grpo(session: Session) -> None:
    """Train until ``grpo.steps``, ``max_verifier_calls`` or ``max_minutes``; resumes by itself."""
    config, monitor = session.config, session.monitor
    problems = session.problems.without_reference
    guard = Guard(
        config.guard, session.folder / GUARD_FOLDER, lambda text: monitor.phase("guard", text)
    )
    learner = TorchLearner(
        session.policy.model,
        config.learner,
        temperature=config.sampling.temperature,
        loss=config.loss,
        version=session.policy.version,
        check=guard.check,
        world=session.policy.world,
    )
    curriculum = CURRICULA[config.curriculum.name](
        problems, config.curriculum, derive_seed(config.seed, "curriculum")
    )
    store = ProofStore(config.grpo.keep_shortest)
    progress, draws = _restore(session, learner, curriculum, store, guard)
    start_learners(learner.world, latest_checkpoint(session.checkpoints))
    if _end(session, progress):
        return
    if draws is None:
        flight = _launch(session, *await _draw(session, curriculum, progress))
    else:
        flight = _launch(session, draws, 0.0)
    try:
        while not (end := _end(session, progress)):
            started = time.monotonic()
            batch, flight = await _collect(session, curriculum, store, progress, flight)
            _compare(session, progress, batch)
            metrics = await _learn(session, learner, store, batch, guard)
            progress.step += 1
            progress.verifier_calls += batch.tally.verifier_calls
            if progress.step == 1 or progress.step % config.checkpoint_every == 0:
                metrics |= await asyncio.to_thread(probe_adapter, session.policy, problems)
            monitor.write_rollouts(progress.step, batch.tally.rows(progress.step))
            seconds = time.monotonic() - started
            progress.seconds += seconds
            values = batch.tally.metrics(seconds) | metrics | curriculum.metrics()
            values["verifier_calls_total"] = progress.verifier_calls
            values |= seconds_left(config, progress.seconds)
            monitor.log("step", progress.step, values)
            end = _end(session, progress)
            if end or session.stop.is_set() or progress.step % config.checkpoint_every == 0:
                await asyncio.to_thread(
                    _save, session, learner, curriculum, store, progress, flight, guard
                )
            if session.stop.is_set() and not end:
                raise StoppedError(f"stopped; step {progress.step} is saved")
        monitor.phase("GRPO ended", end)
    finally:
        flight.judged.cancel()


def _end(session: Session, progress: Progress) -> str:
    """Why no further step is to be made, or an empty string."""
    if progress.step >= session.config.grpo.steps:
        return f"all {progress.step} steps made"
    return budget_spent(session.config, progress.verifier_calls, progress.seconds)


async def _draw(
    session: Session, curriculum: Curriculum, progress: Progress
) -> tuple[list[Draw], float]:
    config = session.config.grpo
    progress.num_draws += 1
    return await sample_draw(
        session,
        curriculum.draw(config.groups_per_draw),
        n=config.group_size,
        number=progress.num_draws - 1,
    )


def _launch(session: Session, draws: list[Draw], generation_seconds: float) -> Flight:
    deadline = session.config.pool.deadline_seconds
    judging = judge_all(draws, session.verifier, deadline_seconds=deadline)
    return Flight(draws, asyncio.create_task(judging), generation_seconds)


async def _collect(
    session: Session,
    curriculum: Curriculum,
    store: ProofStore,
    progress: Progress,
    flight: Flight,
) -> tuple[StepBatch, Flight]:
    """Judge draws until enough groups are admitted; returns them and the draw in flight."""
    config = session.config.grpo
    batch = StepBatch()
    admits = ADMITS[session.config.advantage.name]
    reward = build_reward(
        session.config.reward, max_new_tokens=session.config.sampling.max_new_tokens
    )
    for _ in range(config.max_draws_per_step):
        following = _launch(session, *await _draw(session, curriculum, progress))
        judged, generation_seconds, flight = (
            await finish_rollouts(session, await flight.judged),
            flight.generation_seconds,
            following,
        )
        groups = absorb_draw(
            judged,
            generation_seconds,
            tally=batch.tally,
            curriculum=curriculum,
            store=store,
            reward=reward,
        )
        batch.seen += groups
        admitted = admits(_inputs(session, progress, groups))
        batch.groups += compress(groups, admitted)
        if stats := session.verifier.stats():
            session.monitor.display(verifier_queue=stats.queued)
        if len(batch.groups) >= config.groups_per_step:
            break
    return batch, flight


def _inputs(session: Session, progress: Progress, groups: Sequence[Group]) -> AdvantageInputs:
    config, tokenizer = session.config, session.policy.tokenizer
    done = run_fraction(
        config, progress.step / config.grpo.steps, progress.verifier_calls, progress.seconds
    )
    steps = line_steps(lambda ids: str(tokenizer.decode(ids)))
    return AdvantageInputs(groups, config.advantage, done, progress.history, steps)


def _compare(session: Session, progress: Progress, batch: StepBatch) -> None:
    """Give the admitted groups their advantages; then let the history know all groups."""
    advantage = ADVANTAGES[session.config.advantage.name]
    batch.advantages = advantage(_inputs(session, progress, batch.groups))
    for group, values in zip(batch.groups, batch.advantages, strict=True):
        batch.tally.add_advantages(group, values)
    for group in batch.seen:
        progress.history.observe(group)


async def _learn(
    session: Session, learner: TorchLearner, store: ProofStore, batch: StepBatch, guard: Guard
) -> dict[str, float]:
    """One optimizer step on the admitted groups; no update when there are none."""
    guard.watch(batch.groups, batch.tally.solve_rate)
    if not batch.groups:
        return {}
    samples = [
        sample
        for group, advantages in zip(batch.groups, batch.advantages, strict=True)
        for sample in build_samples(group, advantages)
    ]
    replay = _make_replay(session, store, learner.version)
    pairs = _make_pairs(session, batch, learner.version)
    metrics = await asyncio.to_thread(learner.step, samples, replay, pairs)
    session.policy.version = learner.version
    metrics |= {f"guard_{name}": float(count) for name, count in guard.warnings.items()}
    return metrics | {"learning_rate": session.config.learner.learning_rate}


def _make_pairs(session: Session, batch: StepBatch, version: int) -> list[TeacherPair]:
    """Failed attempts of all groups, with a teacher's prompts; none without self-distillation."""
    settings = session.config.loss.distill
    if settings.weight == 0.0:
        return []
    return build_pairs(
        session.policy,
        [rollout for group in batch.seen for rollout in group.rollouts],
        session.config.rollout,
        max_pairs=settings.max_pairs,
        max_tokens=session.policy.model.config.max_position_embeddings,
        seed=derive_seed(session.config.seed, "distill", version),
    )


def _make_replay(
    session: Session, store: ProofStore, version: int
) -> Callable[[], list[TrainingSample]]:
    """Gives proofs to imitate, drawn anew each time: half of them the run's own, as far as there
    are so many, the rest references, so that what is not yet proved again is not forgotten."""
    num = session.config.learner.replay_samples
    references = reference_sources(session) if num else []
    own = proof_sources(session, store) if num else []
    rng = random.Random(derive_seed(session.config.seed, "replay", version))

    def draw() -> list[TrainingSample]:
        chosen = rng.sample(own, min((num + 1) // 2, len(own)))
        chosen += rng.sample(references, min(num - len(chosen), len(references)))
        pairs = [source() for source in chosen]
        return [build_replay_sample(pair.prompt_ids, pair.target_ids) for pair in pairs]

    return draw


def _save(
    session: Session,
    learner: TorchLearner,
    curriculum: Curriculum,
    store: ProofStore,
    progress: Progress,
    flight: Flight,
    guard: Guard,
) -> None:
    check_weights(learner.world, session.policy)
    state: dict[str, Any] = {
        "num_draws": progress.num_draws,
        "verifier_calls": progress.verifier_calls,
        "seconds": progress.seconds,
        "curriculum": curriculum.state_dict(),
        "proofs": store.state_dict(),
        "rewards": progress.history.state_dict(),
        "draws": dump_draws(flight.draws),
        "guard": guard.state_dict(),
    }
    save_checkpoint(
        session.checkpoints,
        progress.step,
        state,
        save_policy=session.policy.save,
        save_learner=learner.save,
    )


def _restore(
    session: Session,
    learner: TorchLearner,
    curriculum: Curriculum,
    store: ProofStore,
    guard: Guard,
) -> tuple[Progress, list[Draw] | None]:
    """Load the newest checkpoint into learner, curriculum and store; the session has already
    loaded its weights."""
    checkpoint = latest_checkpoint(session.checkpoints)
    if checkpoint is None:
        return Progress(), None
    state = read_state(checkpoint)
    learner.load(checkpoint / "learner.pt")
    session.policy.version = learner.version
    curriculum.load_state_dict(state["curriculum"])
    store.load_state_dict(state["proofs"])
    guard.load_state_dict(state["guard"])
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    progress = Progress(
        state["step"], state["num_draws"], state["verifier_calls"], state["seconds"]
    )
    progress.history.load_state_dict(state["rewards"])
    return progress, load_draws(state["draws"], by_id)
