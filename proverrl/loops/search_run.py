"""A search for a proof of each of some problems, on disk and on a terminal.

Flows in: a configuration, problems, where the policy comes from. Flows out: a folder a problem
(``proverrl.search.folder``) and what was written into its ``result.json``. What a search calls a
proof was judged twice: by the verifier and then, as a whole file, by a worker that was started for
it; so was what is left of the shortest proof after minimising. Interrupted, the same call with
``resume`` goes on.
Not handled here: strategies, estimates over many problems (``proverrl.evaluate``).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch

from proverrl.config import Config
from proverrl.errors import UsageError
from proverrl.loops.evaluate_run import open_policy, open_sampling
from proverrl.loops.session import lock_run
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.policy.weights import name_weights
from proverrl.search.base import Functions, SearchResult, ValueFn
from proverrl.search.display import SearchDisplay, open_display
from proverrl.search.folder import (
    SearchFolder,
    check_folder,
    choose_shortest,
    name_folders,
)
from proverrl.search.methods import make_search
from proverrl.search.minimise import Minimised, minimise
from proverrl.search.proposals import Corrector, Proposer
from proverrl.search.run import Search
from proverrl.search.states_dafny import KINDS, segment_dafny
from proverrl.search.states_lean import segment_lean
from proverrl.search.values import WEIGHTS, load_value
from proverrl.types import Candidate, Problem, Sampling, Verdict
from proverrl.verify.base import Limits
from proverrl.verify.cache import CachedVerifier
from proverrl.verify.make import open_configured, open_router


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """``out`` holds a folder a problem. ``value`` is the folder of a value head. So many problems
    as ``parallel`` are searched at once. ``minimise_calls`` verifier calls, beside those of the
    search, go into a shorter proof; 0 is none."""

    out: Path
    resume: bool = False
    value: Path | None = None
    parallel: int = 1
    minimise_calls: int = 64


@dataclass
class _Desk:
    """What all searches of one call share."""

    config: Config
    options: SearchOptions
    policy: Policy
    verifier: CachedVerifier
    confirm: Any
    value: ValueFn | None
    display: SearchDisplay
    settings: dict[str, Any]

    def make_functions(self, problem: Problem) -> Functions:
        config = self.config
        sampling = _make_sampling(config)

        async def verify(candidate: Candidate) -> Verdict:
            seconds = config.pool.deadline_seconds
            return await self.verifier.verify(candidate, deadline_seconds=seconds)

        async def confirm(candidate: Candidate) -> Verdict:
            seconds = config.pool.deadline_seconds
            verdict: Verdict = await self.confirm.verify(candidate, deadline_seconds=seconds)
            return verdict

        has_states = problem.language == "lean" or problem.kind in KINDS
        states = segment_lean if problem.language == "lean" else segment_dafny
        return Functions(
            propose=Proposer(self.policy, sampling),
            verify=verify,
            segment=states if has_states else None,
            value=self.value,
            correct=Corrector(self.policy, sampling, config.rollout),
            confirm=confirm,
        )


async def search_problems(
    config: Config,
    problems: Sequence[Problem],
    *,
    from_run: Path | None,
    options: SearchOptions,
    stream: TextIO,
) -> list[dict[str, Any]]:
    """Search each problem under ``config.search``; returns what ``result.json`` of each holds.

    Raises:
        UsageError: a folder holds something already, or the policy or the search cannot be used.
        RunError: a search that is gone on with is of other settings.
        VerifierError: the verifier is broken; what was searched is saved.
    """
    folders = name_folders(options.out, problems)
    for path in folders.values():
        check_folder(path, resume=options.resume)
    if config.threads:
        torch.set_num_threads(config.threads)
    trained = open_policy(config, from_run)
    value = _open_value(trained, options.value)
    with open_sampling(trained, config, list(problems)) as policy:
        verifier = open_configured(
            config.pool,
            seed=config.seed,
            problems=problems,
            trace_states=any(problem.language == "lean" for problem in problems),
        )
        confirm = open_router(
            workers=1, limits=Limits(config.pool.rlimit, config.pool.memory_mb), max_candidates=1
        )
        display = open_display(stream)
        try:
            display.note(f"policy: {policy.engine}")
            display.note(f"verifier: {verifier.backend}: {verifier.toolchain}")
            settings = _describe_settings(config, policy, options.value)
            desk = _Desk(config, options, policy, verifier, confirm, value, display, settings)
            return await _search_all(desk, problems, folders)
        finally:
            display.close()
            await verifier.aclose()
            await confirm.aclose()


async def _search_all(
    desk: _Desk, problems: Sequence[Problem], folders: dict[str, Path]
) -> list[dict[str, Any]]:
    """Results in the order of the problems; when one fails, none is left running."""
    free = asyncio.Semaphore(desk.options.parallel)

    async def search_next(problem: Problem) -> dict[str, Any]:
        async with free:
            return await _search_one(desk, problem, folders[problem.id])

    tasks = [asyncio.ensure_future(search_next(problem)) for problem in problems]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _search_one(desk: _Desk, problem: Problem, path: Path) -> dict[str, Any]:
    identity = desk.verifier.identify(Candidate(problem, "")).replace("\x00", " ")
    folder = SearchFolder(path, {**desk.settings, "verifier": identity})
    functions = desk.make_functions(problem)
    search = make_search(problem, functions, desk.config.search, seed=desk.config.seed)
    with lock_run(path):
        if desk.options.resume and folder.load(search):
            desk.display.note(f"{problem.id}: going on after {search.calls} calls")

        def watch(search: Search) -> None:
            folder.save_if_due(search)
            desk.display.watch(search)

        desk.display.watch(search)
        try:
            result = await search.run(watch)
        finally:
            folder.save(search)
            folder.write_tree(search)
        shown = _find_finished(folder, result, desk.options)
        if shown is None:
            minimised = await _keep_proof(desk, folder, search, result)
            shown = folder.write_result(search, result, minimised)
        desk.display.end(search)
        return shown


async def _keep_proof(
    desk: _Desk, folder: SearchFolder, search: Search, result: SearchResult
) -> Minimised | None:
    """Write the shortest proof as a whole file, and beside it what is left of it."""
    if not result.proofs:
        return None
    problem, body = search.problem, choose_shortest(result.proofs).body
    folder.write_proof(problem, body)
    if not desk.options.minimise_calls:
        return None
    minimised = await minimise(
        problem,
        body,
        search.functions.verify,
        calls=desk.options.minimise_calls,
        confirm=search.functions.confirm,
    )
    folder.write_proof(problem, minimised.body, minimised=True)
    return minimised


def _find_finished(
    folder: SearchFolder, result: SearchResult, options: SearchOptions
) -> dict[str, Any] | None:
    """What an earlier call wrote about this very end of the search, its proofs minimised if they
    are to be."""
    earlier = folder.read_result()
    if earlier is None or not options.resume:
        return None
    same = (
        earlier.get("calls") == result.calls
        and earlier.get("expansions") == result.expansions
        and earlier.get("stopped") == result.stopped
    )
    is_whole = not result.proofs or not options.minimise_calls or earlier.get("minimised")
    return earlier if same and is_whole else None


def _open_value(policy: TransformersPolicy | EndpointPolicy, folder: Path | None) -> ValueFn | None:
    if folder is None:
        return None
    if isinstance(policy, EndpointPolicy):
        raise UsageError(
            f"--value {folder}: a value head reads hidden states, which {policy.address} does not "
            "give; search with a model of this process"
        )
    return load_value(policy, folder)


def _describe_settings(config: Config, policy: Policy, value: Path | None) -> dict[str, Any]:
    """What proposals and values depend on."""
    sampling = _make_sampling(config)
    found: dict[str, Any] = {
        "policy_sha256": name_weights(policy),
        "layout": policy.layout,
        "temperature": sampling.temperature,
        "max_new_tokens": sampling.max_new_tokens,
        "deadline_seconds": config.pool.deadline_seconds,
    }
    if value is not None:
        found["value_sha256"] = hashlib.sha256((value / WEIGHTS).read_bytes()).hexdigest()
    if config.search.name == "self_correct":
        found["rollout"] = config.rollout.model_dump(mode="json", exclude={"mode"})
    return found


def _make_sampling(config: Config) -> Sampling:
    return Sampling(
        temperature=config.evaluation.temperature, max_new_tokens=config.sampling.max_new_tokens
    )
