"""Group-relative policy optimization on verdicts of the pool.

Paper order (Shao et al. 2024, arXiv 2402.03300): draw problems, sample a group on each, verify,
reward, compare within the group, update. Groups that the method of comparison cannot learn from,
for most methods those whose rewards are all equal, are counted and leave the batch, and draws go on
until there are enough others (dynamic sampling, DAPO, Yu et al. 2025, arXiv 2503.14476).

Flows in: a session, and judged draws from a source, which overlaps generation, verification and
learning (``pipeline`` in order, ``overlap`` as groups complete). Flows out: updated weights,
metrics, rollouts, checkpoints, which hold what is in flight too. Not handled here: what overlaps
with what (the sources), and what a run knows beside its weights (``state``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress

from proverrl.advantages import AdvantageInputs, admit_groups, choose_method
from proverrl.learner.guard import GUARD_FOLDER, Guard
from proverrl.learner.learner import TorchLearner
from proverrl.learner.optimizers import rate_factor
from proverrl.rewards import RewardFn, build_reward
from proverrl.rollout.samples import TrainingSample, build_samples
from proverrl.run.adapter_probe import probe_adapter
from proverrl.run.checkpoint import latest_checkpoint
from proverrl.run.follow import check_weights, open_learner, start_learners
from proverrl.run.overlap import AsCompleted
from proverrl.run.pipeline import InOrder, Pipeline, Source
from proverrl.run.reverify import keep_sample_proofs, reverify_proofs
from proverrl.run.samplers import PushedSampler, SamplerCopy
from proverrl.run.session import Session, run_fraction
from proverrl.run.state import GrpoState
from proverrl.run.tally import Tally
from proverrl.types import Group

NOTHING_LEARNED = (
    "nothing was learned so far: no group had attempts that earned more than others. Start with "
    "warm_start, take easier problems, or raise grpo.group_size"
)


@dataclass(frozen=True, slots=True)
class GrpoRun:
    """The parts that make the steps of a run; only groups that are ``wanted`` are learned from."""

    session: Session
    state: GrpoState
    reward: RewardFn
    wanted: Callable[[Group], bool]
    source: Source
    learner: TorchLearner
    guard: Guard


async def run_grpo(session: Session) -> None:
    """Train until ``grpo.steps``, ``max_verifier_calls`` or ``max_minutes``; resumes by itself."""
    state = GrpoState(session)
    await run_steps(state, make_reward(state), partial(open_source, state))


async def run_steps(
    state: GrpoState,
    reward: RewardFn,
    open_draws: Callable[[], Source],
    wanted: Callable[[Group], bool] = lambda group: True,
) -> None:
    """The steps of a run whose draws come from this source, which takes up ``state.in_flight``.
    See ``run_grpo``."""
    session, world = state.session, state.session.policy.world
    config, monitor = session.config, session.monitor
    guard = Guard(config.guard, session.folder / GUARD_FOLDER, partial(monitor.phase, "guard"))
    state.parts["guard"] = guard
    # The others begin at the same time: where weights are cut, making a learner takes them all.
    start_learners(world, latest_checkpoint(session.checkpoints))
    learner = await asyncio.to_thread(
        open_learner, config, session.policy, session.problems, state.experiments, guard.check
    )
    state.restore(learner)
    if config.learner.shard != "none":
        monitor.phase("learner", f"{config.learner.shard} over {world.size} processes")
    if learner.recomputes:
        monitor.phase("learner", "recomputes activations (learner.gradient_checkpointing)")
    state.progress.verifier_calls += await reverify_proofs(session, state.store)
    if state.in_flight is None:
        state.progress.verifier_calls += await keep_sample_proofs(session, state.store)
    if state.end():
        return
    run = GrpoRun(session, state, reward, wanted, open_draws(), learner, guard)
    try:
        while not (end := state.end()):
            session.check_stop(f"step {state.progress.step} is saved")
            await make_step(run)
            monitor.warn("nothing learned", "" if learner.version else NOTHING_LEARNED)
            step, end = state.progress.step, state.end()
            if end or session.stop.is_set() or step % config.checkpoint_every == 0:
                await asyncio.to_thread(check_weights, world, session.policy)
                await state.save(learner.save, in_flight=run.source.state_dict())
        monitor.phase("loop ended", end)
    finally:
        await run.source.aclose()
        state.reviewer.close()


async def make_step(run: GrpoRun) -> None:
    """A step, in the order of the paper."""
    state, source, tally, started = run.state, run.source, Tally(), time.monotonic()
    seen: list[Group] = []
    admitted: list[Group] = []
    # Draw problems, write completions, verify, until there are enough groups.
    async for judged in source.draws():
        groups = state.reward(judged, run.reward, tally)
        if judged.use == "learned":
            seen += groups
            fresh = _admit(run, groups)
            tally.ages += [judged.age] * len(fresh)
            admitted += fresh
        source.took(len(admitted))
    others = source.end_step(admitted, tally)
    compare = choose_method(run.session.config.advantage)
    advantages = compare(_describe(state, admitted))
    tally.add_step(admitted, advantages)
    run.guard.watch(admitted, tally.solve_rate)
    with source.usage.busy("learner"):
        samples = list(chain(*map(build_samples, admitted, advantages), others))
        tally.add_samples(samples, run.learner.version)
        metrics = await _learn(run, samples, seen)
    state.progress.step += 1
    state.progress.verifier_calls += tally.verifier_calls
    metrics |= await source.learned()
    metrics |= await _probe(run.session, state.progress.step)
    metrics |= tally.staleness() | source.usage.take_idle()
    state.log("step", tally, metrics, started=started)


def _admit(run: GrpoRun, groups: Sequence[Group]) -> list[Group]:
    """The groups that the method of comparison can learn from."""
    config = run.session.config
    admits = admit_groups(_describe(run.state, groups), config.advantage, config.grpo)
    return [group for group in compress(groups, admits) if run.wanted(group)]


def _describe(state: GrpoState, groups: Sequence[Group]) -> AdvantageInputs:
    return AdvantageInputs(groups, _share_done(state))


def _share_done(state: GrpoState) -> float:
    config, progress = state.session.config, state.progress
    return run_fraction(
        config, progress.step / config.grpo.steps, progress.verifier_calls, progress.seconds
    )


async def _learn(
    run: GrpoRun, samples: Sequence[TrainingSample], seen: Sequence[Group]
) -> dict[str, float]:
    """One optimizer step; no update when there is nothing to learn from."""
    if not samples:
        return {}
    session, learner = run.session, run.learner
    replay = run.state.make_replay(learner.version)
    items = {
        name: run.state.experiments[name].list_items(session, seen, learner.version)
        for name in learner.terms
    }
    settings = session.config.learner
    rate = rate_factor(
        settings.schedule,
        step=run.state.progress.step,
        warmup_steps=settings.warmup_steps,
        done=_share_done(run.state),
    )
    await asyncio.to_thread(session.sampler.sleep)
    metrics = await asyncio.to_thread(learner.step, samples, replay, items, rate)
    session.policy.version = learner.version
    metrics |= {f"guard_{name}": float(count) for name, count in run.guard.warnings.items()}
    return metrics | {"learning_rate": settings.learning_rate * rate}


async def _probe(session: Session, step: int) -> dict[str, float]:
    """Now and then, whether the sampler uses the adapter that is trained."""
    if step > 1 and step % session.config.checkpoint_every:
        return {}
    problems = filter(session.has_room, session.problems.without_reference)
    return await asyncio.to_thread(probe_adapter, session.policy, problems)


def make_reward(state: GrpoState) -> RewardFn:
    """The reward of the configuration."""
    config = state.session.config
    return build_reward(config.reward, max_new_tokens=config.sampling.max_new_tokens)


def open_source(state: GrpoState) -> Source:
    """The source that ``[grpo]`` asks for, with what was in flight."""
    session, settings, step = state.session, state.session.config.grpo, state.progress.step
    in_flight = state.in_flight
    if settings.in_order or settings.max_staleness == 0:
        ahead = "one draw ahead" if settings.max_staleness else "nothing written ahead"
        session.monitor.phase("groups", f"in order, {ahead}")
        pipeline = Pipeline(session, state.reviewer, settings.group_size)
        return InOrder(
            pipeline,
            state.choose,
            most=settings.max_draws_per_step,
            wanted=settings.groups_per_step,
            ahead=settings.max_staleness > 0,
            now=lambda: state.progress.step,
            flight=pipeline.relaunch(in_flight),
        )
    bound = f"at most {settings.max_staleness} steps old"
    session.monitor.phase("groups", f"as they complete, {bound}; the sampler has its own weights")
    if session.sampler is session.policy:
        return AsCompleted(state, SamplerCopy(session.policy, step), in_flight)
    return AsCompleted(state, PushedSampler(session, step), in_flight)
