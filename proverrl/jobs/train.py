"""A whole run: warm start, evaluation before, the loop, evaluation after, the policy saved.

Flows in: a ``Config``. Flows out: a run folder. Each stage leaves a file that says it is done, so
that the same call continues where the run was stopped, and does nothing on a finished run; with a
higher limit that goes on too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from proverrl import plugins
from proverrl.concurrency import cancel_all
from proverrl.config import Config
from proverrl.config.loops import LoopName, check_loop, find_traits
from proverrl.errors import StoppedError, UsageError
from proverrl.files.disk import appearing, saving
from proverrl.lang import add_languages
from proverrl.lang.open import open_configured
from proverrl.learner.memory import settle_cache
from proverrl.loops.expert_iteration import run_expert_iteration
from proverrl.loops.grpo import run_grpo
from proverrl.loops.selfplay.composer import teach_composer
from proverrl.loops.selfplay.selfplay import run_selfplay
from proverrl.monitor import Monitor
from proverrl.monitor.interrupt import stop_on_signals
from proverrl.monitor.metrics import read_limits
from proverrl.monitor.trackers import open_trackers
from proverrl.parallel import World, close_world, open_world, prepare_process
from proverrl.policy.engines import open_sampler
from proverrl.policy.lora import ADAPTER_FOLDER, stack_adapters
from proverrl.rollout.extract import open_mode
from proverrl.run.checkpoint import latest_checkpoint, read_state
from proverrl.run.evaluation import build_evaluation, evaluate_one, load_benchmark
from proverrl.run.experiments import open_experiments
from proverrl.run.follow import Follower, dismiss, open_learner, push_weights
from proverrl.run.pairs import check_files, reference_sources
from proverrl.run.pipeline import APPEAL_FACTOR
from proverrl.run.reverify import check_sample_files
from proverrl.run.run_folder import (
    check_resumable,
    lock_run,
    reopen,
    settle,
    write_resolved,
)
from proverrl.run.session import WARM_POLICY, Session, load_training, open_policy
from proverrl.run.supervised import warm_start
from proverrl.run.taught import teach_all


async def _no_loop(session: Session) -> None:
    """A run that is only a warm start."""


LOOPS: dict[LoopName, Callable[[Session], Awaitable[None]]] = {
    "warm_start": _no_loop,
    "grpo": run_grpo,
    "expert_iteration": run_expert_iteration,
    "selfplay": run_selfplay,
}


async def train(config: Config, *, live: bool | None = None) -> Path:
    """Run or resume a run; returns its folder. Raises ``UsageError``: the policy is behind an
    endpoint, or ``policy.engine`` is not installed; ``WeightSyncError``: the engine that samples
    does not hold the trained weights; ``RunError``: the folder belongs to another configuration, is
    locked or damaged; ``ToolchainError``: no Dafny back end is installed."""
    if config.policy.endpoint:
        raise UsageError(
            f"policy.path = {config.policy.path!r} is a server whose weights cannot be trained; "
            "name a folder, or use proverrl eval"
        )
    if config.policy.is_function:
        raise UsageError(
            f"policy.engine = {config.policy.engine!r} has no weights that could be trained; set "
            '"transformers" or "vllm", or use proverrl eval or search'
        )
    if config.evaluation.search:
        raise UsageError(
            "evaluation.search = true is for proverrl eval; a run evaluates whole proofs. Unset it "
            "and give --mode search to proverrl eval --run afterwards"
        )
    add_languages(config.languages)
    plugins.check(config.list_parts())
    check_loop(config)
    config = settle(config)
    folder = config.run
    prepare_process(config.threads)
    world = open_world(config.learner.shard)
    try:
        if world.leads:
            await _lead(config, world, live)
        else:
            _follow(config, world)
    except StoppedError:
        # After any other error the others may wait for something else; the launcher ends them.
        dismiss(world)
        close_world(world)
        raise
    close_world(world)
    return folder


def _follow(config: Config, world: World) -> None:
    """A process beside rank 0, from its first weights to the last order."""
    world.share(None)
    problems = load_training(config)
    policy = open_policy(config, config.run, problems, open_mode(config))
    policy.world = world
    with contextlib.closing(
        open_sampler(policy, settle_cache(config, policy), problems.all)
    ) as sampler:
        Follower(
            world,
            policy,
            partial(open_learner, config, policy, problems, open_experiments(config)),
            sampler,
        ).run()


async def _lead(config: Config, world: World, live: bool | None) -> None:
    folder = config.run
    with lock_run(folder):
        check_resumable(folder, config)
        if find_traits(config.loop).unit == "round":
            check_files(config)
        check_sample_files(config)
        mode = open_mode(config)
        open_experiments(config)  # Refused now, not after the warm start.
        problems = load_training(config)
        world.share("open")
        policy = open_policy(config, folder, problems, mode)
        policy.world = world
        with contextlib.closing(
            open_sampler(policy, settle_cache(config, policy), problems.all)
        ) as sampler:
            verifier = open_configured(
                config,
                seed=config.seed,
                problems=problems.all,
                appeal_factor=APPEAL_FACTOR if config.appeal.rate else 0.0,
            )
            try:
                reopened = reopen(folder, config)
                write_resolved(folder, config, toolchain=verifier.toolchain, engine=sampler.engine)
                with _open_monitor(config, folder, live) as monitor:
                    session = Session(
                        config, folder, verifier, policy, sampler, problems, monitor, mode
                    )
                    if reopened:
                        monitor.phase("run", reopened)
                    with stop_on_signals(session.stop.set, partial(describe_unsaved, session)):
                        await _run_stages(session)
            finally:
                await verifier.aclose()
    dismiss(world)


async def _run_stages(session: Session) -> None:
    config = session.config
    monitor, problems = session.monitor, session.problems
    monitor.phase("policy", session.sampler.engine)
    if session.mode.engine:
        monitor.phase("rollouts", session.mode.engine)
    monitor.phase("verifier", session.verifier.described)
    monitor.phase(
        "problems",
        f"{len(problems.references)} with references for warm start, "
        f"{len(problems.without_reference)} without for the loop",
    )
    if not session.warm_policy.exists():
        taught = [
            *await session.mode.teach(session, reference_sources(session)),
            *teach_composer(session),
            *await teach_all(session),
        ]
        await asyncio.to_thread(warm_start, session, taught)
    await asyncio.to_thread(push_weights, session.policy.world, session.policy)
    if session.policy.world.size > 1:
        await asyncio.to_thread(session.sampler.push, session.policy.version)
    if config.evaluation.before:
        await _evaluate(session, "before")
    loop = plugins.choose("loop", LOOPS, config.loop, config.loop_options)
    with plugins.refuse_exit("loop", config.loop):
        await loop(session)
    if config.loop != "warm_start" and config.evaluation.after:
        await _evaluate(session, "after")
    # The folder appears whole, because it is what says that the run is finished.
    final = session.folder / "policy"
    with saving(final), appearing(final) as unfinished:
        session.policy.save(unfinished)
        if config.policy.lora.rank:
            warm = session.warm_policy.parent / ADAPTER_FOLDER
            stack_adapters(warm, unfinished / ADAPTER_FOLDER, config.policy.path)


def describe_unsaved(session: Session) -> str:
    """The work that a process loses when it ends now, and where the same command continues."""
    unit = find_traits(session.config.loop).unit
    checkpoint = latest_checkpoint(session.checkpoints)
    saved = read_state(checkpoint)["step"] if checkpoint else 0
    made = session.monitor.last_step
    lost = ""
    if made > saved:
        several = f"{unit}s {saved + 1} to {made}"
        lost = f"{unit} {made} and " if made == saved + 1 else f"{several} and "
    where = f"{unit} {saved}" if session.warm_policy.exists() else "the beginning"
    return f"ended at once; lost: {lost}what was under way; the same command continues from {where}"


async def _until_stopped(session: Session, work: Coroutine[Any, Any, Any], saved: str) -> None:
    """Do ``work``, which keeps what it has when it is cancelled; ``StoppedError`` where the run is
    to end first."""
    task = asyncio.ensure_future(work)
    stop = asyncio.ensure_future(session.stop.wait())
    try:
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            session.check_stop(saved)
        task.result()
    finally:
        await cancel_all((task, stop))


def _open_monitor(config: Config, folder: Path, live: bool | None) -> Monitor:
    checkpoint = latest_checkpoint(folder / "checkpoints")
    resume_step: int | None = None
    if (folder / "metrics.jsonl").exists():
        warm = (folder / WARM_POLICY).exists()
        resume_step = read_state(checkpoint)["step"] if checkpoint else (0 if warm else -1)
    return Monitor(
        folder,
        live=live,
        limits=read_limits(config.dump()),
        resume_step=resume_step,
        trackers=open_trackers(config, folder),
        callbacks=[plugins.bind("callback", name, {}) for name in config.logging.callbacks],
    )


async def _evaluate(session: Session, name: str) -> None:
    """Evaluate under ``evals/NAME`` unless that is done already."""
    monitor, policy = session.monitor, session.sampler
    evaluation = build_evaluation(
        session.config,
        name,
        policy=policy,
        verifier=session.verifier,
        benchmark=load_benchmark(session.config, None),
        split=session.config.evaluation.split,
        answers=session.mode,
    )
    if (evaluation.folder / f"{name}.json").exists():
        return

    work = evaluate_one(
        evaluation,
        policy,
        session.verifier,
        session.config.problems.train,
        show=monitor.phase,
        warn=monitor.warn,
    )
    await _until_stopped(session, work, f"the attempts of evaluation {name} are stored")
    monitor.log("eval", policy.version, {"name": name, "path": f"evals/{name}.json"})
