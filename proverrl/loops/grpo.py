"""Group-relative policy optimization on verdicts of the pool.

Paper order (Shao et al. 2024, arXiv 2402.03300): draw problems, sample a group on each, verify,
reward, compare within the group, update. Groups that the method of comparison cannot learn from,
for most methods those whose rewards are all equal, are counted and leave the batch, and draws go on
until there are enough others (dynamic sampling, DAPO, Yu et al. 2025, arXiv 2503.14476).

Flows in: a session, and judged draws from a source, which overlaps generation, verification and
learning (``pipeline`` in order, ``overlap`` as groups complete). Flows out: updated weights,
metrics, rollouts, checkpoints. Everything that decides the future is in the checkpoint, what is in
flight included. Not handled here: what overlaps with what (the sources), and what a run knows
beside its weights (``state``).
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

from proverrl.advantages.base import AdvantageInputs, GroupAdvantages
from proverrl.advantages.methods import ADVANTAGES, STEPS, admit_groups
from proverrl.learner.guard import GUARD_FOLDER, Guard
from proverrl.learner.learner import TorchLearner
from proverrl.loops.adapter_probe import probe_adapter
from proverrl.loops.checkpoint import (
    latest_checkpoint,
    load_draws,
    read_state,
    restoring,
    save_checkpoint,
)
from proverrl.loops.follow import check_weights, open_learner, start_learners
from proverrl.loops.overlap import Overlap, PushedSampler, SamplerCopy
from proverrl.loops.pipeline import InOrder, Pipeline, Source
from proverrl.loops.replay import make_pairs, make_replay
from proverrl.loops.reverify import reverify_proofs
from proverrl.loops.search_samples import keep_sample_proofs, learn_paths
from proverrl.loops.session import Session, run_fraction, seconds_left
from proverrl.loops.state import GrpoState
from proverrl.loops.tally import Tally
from proverrl.rewards.verdicts import RewardFn, build_reward
from proverrl.rollout.inject import inject_proof
from proverrl.rollout.samples import TrainingSample, build_samples
from proverrl.types import Group

OpenSource = Callable[[Mapping[str, Any] | None], Source]
"""Opens the source of a run's draws, with what its checkpoint has in flight."""


@dataclass(frozen=True, slots=True)
class Run:
    """What the steps of a run are made with; only groups that are ``wanted`` are learned from."""

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
    await run_steps(state, make_reward(state), lambda in_flight: open_source(state, in_flight))


async def run_steps(
    state: GrpoState,
    reward: RewardFn,
    open_draws: OpenSource,
    wanted: Callable[[Group], bool] = lambda group: True,
) -> None:
    """The steps of a run whose draws come from this source. See ``run_grpo``."""
    session = state.session
    config, monitor = session.config, session.monitor
    guard = Guard(
        config.guard, session.folder / GUARD_FOLDER, lambda text: monitor.phase("guard", text)
    )
    # The others begin at the same time: where weights are cut, making a learner takes them all.
    start_learners(session.policy.world, latest_checkpoint(session.checkpoints))
    learner = await asyncio.to_thread(
        open_learner, config, session.policy, session.problems, guard.check
    )
    in_flight = _restore(state, learner, guard)
    if config.learner.shard != "none":
        world = session.policy.world
        monitor.phase("learner", f"{config.learner.shard} over {world.size} processes")
    state.progress.verifier_calls += await reverify_proofs(session, state.store)
    if in_flight is None:
        state.progress.verifier_calls += await keep_sample_proofs(session, state.store)
        state.progress.verifier_calls += await learn_paths(session, learner)
    if state.end():
        return
    run = Run(session, state, reward, wanted, open_draws(in_flight), learner, guard)
    try:
        while not (end := state.end()):
            session.check_stop(f"step {state.progress.step} is saved")
            await make_step(run)
            step, end = state.progress.step, state.end()
            if end or session.stop.is_set() or step % config.checkpoint_every == 0:
                await _save(run)
        monitor.phase("loop ended", end)
    finally:
        await run.source.aclose()
        state.auditor.close()


async def make_step(run: Run) -> None:
    """A step, in the order of the paper."""
    state, source, tally, started = run.state, run.source, Tally(), time.monotonic()
    seen: list[Group] = []
    admitted: list[Group] = []
    # Draw problems, write completions, verify, until there are enough groups.
    async for judged in source.draws():
        groups = state.reward(judged, run.reward, tally)
        if judged.use == "learned":
            seen += groups
            fresh = await _admit(run, groups, tally)
            tally.ages += [judged.age] * len(fresh)
            admitted += fresh
        source.took(len(admitted))
    beside = source.end_step(admitted)
    advantages = _compare(run, admitted, seen)
    tally.add_step(admitted, advantages, beside.verifier_calls)
    run.guard.watch(admitted, tally.solve_rate)
    with source.usage.busy("learner"):
        samples = list(chain(*map(build_samples, admitted, advantages), beside.samples))
        metrics = await _learn(run, samples, seen)
    state.progress.step += 1
    state.progress.verifier_calls += tally.verifier_calls
    metrics |= await source.learned()
    await _log(run, tally, {**beside.figures, **metrics}, started)


async def _admit(run: Run, groups: Sequence[Group], tally: Tally) -> list[Group]:
    """The groups that are compared: those that the method can learn from, some of them with a
    stored proof. What was put in is counted apart; the run's figures, its curriculum and its
    history hear of the groups as they were."""
    session, state = run.session, run.state
    config, compared = session.config, list(groups)
    for place, group in enumerate(groups if config.grpo.inject_proofs else ()):
        state.injectable.observe(group)
        put = await inject_proof(
            group,
            state.injectable,
            session.verifier,
            run.reward,
            deadline_seconds=config.pool.deadline_seconds,
        )
        if put is not None:
            tally.add_injected(put.rollouts[-1], put.rewards[-1])
            compared[place] = put
    admits = admit_groups(_describe(state, compared), config.advantage.name, config.grpo)
    return [group for group in compress(compared, admits) if run.wanted(group)]


def _compare(run: Run, groups: Sequence[Group], seen: Sequence[Group]) -> list[GroupAdvantages]:
    """The advantages of the admitted groups; then the history knows all groups."""
    state = run.state
    advantages = ADVANTAGES[run.session.config.advantage.name](_describe(state, groups))
    for group in seen:
        state.history.observe(group)
    return advantages


def _describe(state: GrpoState, groups: Sequence[Group]) -> AdvantageInputs:
    config, progress = state.session.config, state.progress
    tokenizer = state.session.policy.tokenizer
    done = run_fraction(
        config, progress.step / config.grpo.steps, progress.verifier_calls, progress.seconds
    )
    steps = STEPS[config.advantage.states](lambda ids: str(tokenizer.decode(ids)))
    return AdvantageInputs(groups, config.advantage, done, state.history, steps)


async def _learn(
    run: Run, samples: Sequence[TrainingSample], seen: Sequence[Group]
) -> dict[str, float]:
    """One optimizer step; no update when there is nothing to learn from."""
    if not samples:
        return {}
    session, learner = run.session, run.learner
    replay = make_replay(session, run.state, learner.version)
    pairs = make_pairs(session, seen, learner.version)
    metrics = await asyncio.to_thread(learner.step, samples, replay, pairs)
    session.policy.version = learner.version
    metrics |= {f"guard_{name}": float(count) for name, count in run.guard.warnings.items()}
    return metrics | {"learning_rate": session.config.learner.learning_rate}


def make_reward(state: GrpoState) -> RewardFn:
    """The reward of the configuration."""
    config = state.session.config
    return build_reward(
        config.reward,
        max_new_tokens=config.sampling.max_new_tokens,
        false_negative_rate=state.auditor.rate,
    )


def open_source(state: GrpoState, in_flight: Mapping[str, Any] | None) -> Source:
    """The source that ``[grpo]`` asks for, with what was in flight."""
    session, settings, step = state.session, state.session.config.grpo, state.progress.step
    if settings.in_order or settings.max_staleness == 0:
        ahead = "one draw ahead" if settings.max_staleness else "nothing written ahead"
        session.monitor.phase("groups", f"in order, {ahead}")
        pipeline = Pipeline(session, state.auditor, settings.group_size)
        flight = None
        if in_flight is not None and in_flight["draws"]:
            by_id = {p.id: p for p in session.problems.without_reference}
            draws = load_draws(in_flight["draws"], by_id)
            flight = pipeline.launch(draws, step=in_flight["step"])
        return InOrder(
            pipeline,
            state.choose,
            most=settings.max_draws_per_step,
            wanted=settings.groups_per_step,
            ahead=settings.max_staleness > 0,
            now=lambda: state.progress.step,
            flight=flight,
        )
    bound = f"at most {settings.max_staleness} steps old"
    session.monitor.phase("groups", f"as they complete, {bound}; the sampler has its own weights")
    if session.sampler is session.policy:
        return Overlap(state, SamplerCopy(session.policy, step), in_flight)
    return Overlap(state, PushedSampler(session, step), in_flight)


async def _log(run: Run, tally: Tally, figures: dict[str, Any], started: float) -> None:
    """Write down what came of a step."""
    session, state, monitor = run.session, run.state, run.session.monitor
    progress, problems = state.progress, session.problems.without_reference
    if progress.step == 1 or progress.step % session.config.checkpoint_every == 0:
        figures |= await asyncio.to_thread(probe_adapter, session.policy, problems)
    monitor.write_rollouts(progress.step, tally.rows(progress.step))
    seconds = time.monotonic() - started
    progress.seconds += seconds
    values = tally.metrics(seconds) | tally.staleness() | figures | state.curriculum.metrics()
    values |= state.auditor.metrics() | state.restarts.metrics()
    values |= run.source.usage.take_idle()
    values["verifier_calls_total"] = progress.verifier_calls
    values |= seconds_left(session.config, progress.seconds)
    monitor.log("step", progress.step, values)


async def _save(run: Run) -> None:
    session, state = run.session, run.state
    await asyncio.to_thread(check_weights, run.learner.world, session.policy)
    # Taken at one moment: a source may go on while the files are written.
    values = copy.deepcopy(state.state_dict())
    values |= {"in_flight": run.source.state_dict(), "guard": run.guard.state_dict()}
    await asyncio.to_thread(
        save_checkpoint,
        session.checkpoints,
        state.progress.step,
        values,
        save_policy=session.policy.save,
        save_learner=run.learner.save,
        save_files=state.extension.save_files if state.extension is not None else None,
    )


def _restore(state: GrpoState, learner: TorchLearner, guard: Guard) -> dict[str, Any] | None:
    """Load the newest checkpoint into learner, state and guard, and return what was in flight;
    the session has already loaded its weights."""
    session = state.session
    checkpoint = latest_checkpoint(session.checkpoints)
    if checkpoint is None:
        return None
    values = read_state(checkpoint)
    learner.load(checkpoint / "learner.pt")
    session.policy.version = learner.version
    session.sampler.push(learner.version)
    if state.extension is not None:
        state.extension.load_files(checkpoint)
    with restoring(checkpoint):
        state.load_state_dict(values)
        guard.load_state_dict(values["guard"])
        in_flight: dict[str, Any] = values["in_flight"]
    return in_flight
