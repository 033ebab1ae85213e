"""Group-relative policy optimization on verdicts of the pool.

Paper order (Shao et al. 2024, arXiv 2402.03300): draw problems, sample a group on each, verify,
reward, compare within the group, update. Groups that the method of comparison cannot learn from,
for most methods those whose rewards are all equal, are counted and leave the batch, and draws go on
until there are enough others (dynamic sampling, DAPO, Yu et al. 2025, arXiv 2503.14476).

Flows in: a session, and a step's groups from a collector, which overlaps generation, verification
and learning (``collector`` in order, ``overlap`` as groups complete). Flows out: updated weights,
metrics, rollouts, checkpoints. Everything that decides the future is in the checkpoint, what is in
flight included. Not handled here: where groups come from (the collectors), and what they are
(``ledger``).
"""

from __future__ import annotations

import asyncio
import copy
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from proverrl.learner.guard import GUARD_FOLDER, Guard
from proverrl.learner.learner import TorchLearner
from proverrl.loops.adapter_probe import probe_adapter
from proverrl.loops.checkpoint import latest_checkpoint, read_state, restoring, save_checkpoint
from proverrl.loops.collector import Collector, InOrder
from proverrl.loops.follow import check_weights, open_learner, start_learners
from proverrl.loops.ledger import Ledger, StepBatch
from proverrl.loops.overlap import Overlap, PushedSampler, SamplerCopy
from proverrl.loops.reverify import reverify_proofs
from proverrl.loops.search_samples import keep_sample_proofs, learn_paths
from proverrl.loops.session import Session, proof_sources, reference_sources, seconds_left
from proverrl.rollout.samples import build_replay_sample, build_samples
from proverrl.rollout.teaching import TeacherPair, build_pairs
from proverrl.rollout.training_sample import TrainingSample
from proverrl.seeds import derive_seed

LedgerT = TypeVar("LedgerT", bound=Ledger)


async def run_grpo(session: Session) -> None:
    """Train until ``grpo.steps``, ``max_verifier_calls`` or ``max_minutes``; resumes by itself."""
    await run_steps(session, Ledger, open_collector)


OpenLedger = Callable[[Session], LedgerT]
OpenCollector = Callable[[LedgerT, Mapping[str, Any] | None], Collector]


async def run_steps(
    session: Session, open_ledger: OpenLedger[LedgerT], open_groups: OpenCollector[LedgerT]
) -> None:
    """The steps of a run whose ledger and collector these make. See ``run_grpo``."""
    config, monitor = session.config, session.monitor
    guard = Guard(
        config.guard, session.folder / GUARD_FOLDER, lambda text: monitor.phase("guard", text)
    )
    # The others begin at the same time: where weights are cut, making a learner takes them all.
    start_learners(session.policy.world, latest_checkpoint(session.checkpoints))
    learner = await asyncio.to_thread(
        open_learner, config, session.policy, session.problems, guard.check
    )
    ledger = open_ledger(session)
    in_flight = _restore(session, learner, ledger, guard)
    if config.learner.shard != "none":
        world = session.policy.world
        monitor.phase("learner", f"{config.learner.shard} over {world.size} processes")
    ledger.progress.verifier_calls += await reverify_proofs(session, ledger.store)
    if in_flight is None:
        ledger.progress.verifier_calls += await keep_sample_proofs(session, ledger.store)
        ledger.progress.verifier_calls += await learn_paths(session, learner)
    if ledger.end():
        return
    collector = open_groups(ledger, in_flight)
    try:
        while not (end := ledger.end()):
            session.check_stop(f"step {ledger.progress.step} is saved")
            await _step(session, learner, ledger, collector, guard)
            step, end = ledger.progress.step, ledger.end()
            if end or session.stop.is_set() or step % config.checkpoint_every == 0:
                await _save(session, learner, ledger, collector, guard)
        monitor.phase("loop ended", end)
    finally:
        await collector.aclose()
        ledger.auditor.close()


def open_collector(ledger: Ledger, state: Mapping[str, Any] | None) -> Collector:
    """The collector that ``[grpo]`` asks for, with what was in flight in ``state``."""
    session, settings = ledger.session, ledger.session.config.grpo
    if settings.in_order or settings.max_staleness == 0:
        ahead = "one draw ahead" if settings.max_staleness else "nothing written ahead"
        session.monitor.phase("groups", f"in order, {ahead}")
        return InOrder(ledger, state)
    bound = f"at most {settings.max_staleness} steps old"
    session.monitor.phase("groups", f"as they complete, {bound}; the sampler has its own weights")
    if session.sampler is session.policy:
        return Overlap(ledger, SamplerCopy(session.policy, ledger.progress.step), state)
    return Overlap(ledger, PushedSampler(session, ledger.progress.step), state)


async def _step(
    session: Session, learner: TorchLearner, ledger: Ledger, collector: Collector, guard: Guard
) -> None:
    """Collect a batch, learn from it, write down what came of it."""
    progress, monitor = ledger.progress, session.monitor
    started = time.monotonic()
    batch = await collector.collect()
    ledger.compare(batch)
    with collector.usage.busy("learner"):
        metrics = await _learn(session, learner, ledger, batch, guard)
    progress.step += 1
    progress.verifier_calls += batch.tally.verifier_calls
    metrics |= await collector.learned()
    if progress.step == 1 or progress.step % session.config.checkpoint_every == 0:
        problems = session.problems.without_reference
        metrics |= await asyncio.to_thread(probe_adapter, session.policy, problems)
    monitor.write_rollouts(progress.step, batch.tally.rows(progress.step))
    seconds = time.monotonic() - started
    progress.seconds += seconds
    values = batch.metrics(seconds) | metrics | ledger.curriculum.metrics()
    values |= ledger.auditor.metrics() | progress.restarts.metrics()
    values |= collector.usage.take_idle()
    values["verifier_calls_total"] = progress.verifier_calls
    values |= seconds_left(session.config, progress.seconds)
    monitor.log("step", progress.step, values)


async def _learn(
    session: Session, learner: TorchLearner, ledger: Ledger, batch: StepBatch, guard: Guard
) -> dict[str, float]:
    """One optimizer step on the admitted groups; no update when there are none."""
    guard.watch(batch.groups, batch.tally.solve_rate)
    if not batch.groups and not batch.extra:
        return {}
    samples = [
        sample
        for group, advantages in zip(batch.groups, batch.advantages, strict=True)
        for sample in build_samples(group, advantages)
    ]
    samples += batch.extra
    replay = _make_replay(session, ledger, learner.version)
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
    session: Session, ledger: Ledger, version: int
) -> Callable[[], list[TrainingSample]]:
    """Gives proofs to imitate, drawn anew each time: half of them the run's own, as far as there
    are so many, the rest references, so that what is not yet proved again is not forgotten; and of
    another role that the weights have a quarter as many beside them."""
    num = session.config.learner.replay_samples
    references = reference_sources(session) if num else []
    own = proof_sources(session, ledger.store.pairs()) if num else []
    rng = random.Random(derive_seed(session.config.seed, "replay", version))

    def draw() -> list[TrainingSample]:
        chosen = rng.sample(own, min((num + 1) // 2, len(own)))
        chosen += rng.sample(references, min(num - len(chosen), len(references)))
        chosen += rng.sample(ledger.other_role, min(num // 4, len(ledger.other_role)))
        pairs = [source() for source in chosen]
        return [build_replay_sample(pair.prompt_ids, pair.target_ids) for pair in pairs]

    return draw


async def _save(
    session: Session, learner: TorchLearner, ledger: Ledger, collector: Collector, guard: Guard
) -> None:
    await asyncio.to_thread(check_weights, learner.world, session.policy)
    # Taken at one moment: a collector may go on while the files are written.
    state = copy.deepcopy(ledger.state_dict())
    state |= {"in_flight": collector.state_dict(), "guard": guard.state_dict()}
    await asyncio.to_thread(
        save_checkpoint,
        session.checkpoints,
        ledger.progress.step,
        state,
        save_policy=session.policy.save,
        save_learner=learner.save,
        save_files=ledger.save_files,
    )


def _restore(
    session: Session, learner: TorchLearner, ledger: Ledger, guard: Guard
) -> dict[str, Any] | None:
    """Load the newest checkpoint into learner, ledger and guard, and return what was in flight;
    the session has already loaded its weights."""
    checkpoint = latest_checkpoint(session.checkpoints)
    if checkpoint is None:
        return None
    state = read_state(checkpoint)
    learner.load(checkpoint / "learner.pt")
    session.policy.version = learner.version
    session.sampler.push(learner.version)
    ledger.load_files(checkpoint)
    with restoring(checkpoint):
        ledger.load_state_dict(state)
        guard.load_state_dict(state["guard"])
        in_flight: dict[str, Any] = state["in_flight"]
    return in_flight
