"""A search for a proof of each of some problems, on disk and on a terminal.

Flows in: a configuration, problems, where the policy comes from. Flows out: a folder per problem
(``proverrl.search.folder``) and what was written into its ``result.json``. What a search calls a
proof was judged twice: by the verifier and then, as a whole file, by a worker that was started for
it; so was what is left of the shortest proof after minimising. Interrupted, the same call with
``resume`` goes on.
Not handled here: strategies, estimates over many problems (``proverrl.evaluation.evaluate``).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch

from proverrl.concurrency import finish_all
from proverrl.config import Config
from proverrl.lang.open import open_configured
from proverrl.loops.evaluate_run import open_policy, open_sampling, open_tools
from proverrl.loops.run_folder import lock_run
from proverrl.monitor.search_display import SearchDisplay, open_display
from proverrl.policy.weights import name_weights
from proverrl.search.base import Search, SearchResult
from proverrl.search.folder import SearchFolder, check_folder, name_folders
from proverrl.search.minimise import Minimised, minimise
from proverrl.search.samples import SearchSample, collect_samples, write_samples
from proverrl.search.values import WEIGHTS
from proverrl.search.wiring import Tools, make_functions, make_search, needs_traces
from proverrl.types import Candidate, Problem
from proverrl.verify.cache import CachedVerifier


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """``out`` holds a folder per problem. So many problems as ``parallel`` are searched at once.
    ``minimise_calls`` verifier calls, beside those of the search, go into a shorter proof; 0 is
    none. What the searches leave to learn from goes into the file ``samples``."""

    out: Path
    resume: bool = False
    parallel: int = 1
    minimise_calls: int = 64
    samples: Path | None = None


@dataclass(frozen=True, slots=True)
class _Desk:
    """What all searches of one call share."""

    config: Config
    options: SearchOptions
    tools: Tools
    verifier: CachedVerifier
    display: SearchDisplay
    settings: Mapping[str, Any]
    samples: dict[str, list[SearchSample]]


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
        RunError: a search that is continued is of other settings.
        VerifierError: the verifier is broken; what was searched is saved.
    """
    folders = name_folders(options.out, problems)
    for path in folders.values():
        check_folder(path, resume=options.resume)
    if config.threads:
        torch.set_num_threads(config.threads)
    trained = open_policy(config, from_run)
    with open_sampling(trained, config, list(problems)) as policy:
        traced = needs_traces(problems, config.search)
        verifier = open_configured(
            config.pool, seed=config.seed, problems=problems, trace_states=traced
        )
        tools = open_tools(policy, verifier, config)
        display = open_display(stream, config.search.calls)
        settings = _describe_settings(config, tools)
        try:
            display.note(f"policy: {policy.engine}")
            display.note(f"verifier: {verifier.backend}: {verifier.toolchain}")
            desk = _Desk(config, options, tools, verifier, display, settings, {})
            results = await _search_all(desk, problems, folders)
            if options.samples is not None:
                everything = [sample for p in problems for sample in desk.samples[p.id]]
                write_samples(options.samples, everything)
            return results
        finally:
            display.close()
            await verifier.aclose()
            await tools.confirm.aclose()


async def _search_all(
    desk: _Desk, problems: Sequence[Problem], folders: dict[str, Path]
) -> list[dict[str, Any]]:
    """Results in the order of the problems; when one fails, none is left running."""
    free = asyncio.Semaphore(desk.options.parallel)
    settings, seed = desk.config.search, desk.config.seed
    # All of them before the first begins: a problem that cannot be searched is refused at once.
    searches = [
        make_search(problem, make_functions(problem, desk.tools, settings), settings, seed=seed)
        for problem in problems
    ]

    async def search_next(search: Search) -> dict[str, Any]:
        async with free:
            return await _search_one(desk, search, folders[search.problem.id])

    return await finish_all(search_next(search) for search in searches)


async def _search_one(desk: _Desk, search: Search, path: Path) -> dict[str, Any]:
    config, problem = desk.config, search.problem
    identity = desk.verifier.identify(Candidate(problem, "")).replace("\x00", " ")
    settings = {**desk.settings, "verifier": identity}
    with lock_run(path):
        folder = SearchFolder(path, config.search, config.seed, settings)
        if desk.options.resume and folder.load(search):
            desk.display.note(f"{problem.id}: going on after {search.calls} calls")
        result = await _run_saved(search, folder, desk.display)
        shown = _find_finished(folder, result, desk.options)
        if shown is None:
            minimised = await _keep_proof(desk.options, folder, search, result)
            shown = folder.write_result(search, result, minimised)
        if desk.options.samples is not None:
            desk.samples[problem.id] = collect_samples(search)
        desk.display.end(search)
        return shown


async def _run_saved(search: Search, folder: SearchFolder, display: SearchDisplay) -> SearchResult:
    """Run it; however it ends, what was found out is saved."""

    def watch(_: Search) -> None:
        folder.save_if_due(search)
        display.watch(search)

    display.watch(search)
    bodies: list[str] = []
    try:
        result = await search.run(watch)
        bodies = [proof.body for proof in result.proofs]
    finally:
        folder.save(search)
        folder.write_tree(search, bodies)
    return result


async def _keep_proof(
    options: SearchOptions, folder: SearchFolder, search: Search, result: SearchResult
) -> Minimised | None:
    """Write the shortest proof as a whole file, and beside it what is left of it."""
    if not result.proofs:
        return None
    problem, functions = search.problem, search.functions
    body = min((proof.body for proof in result.proofs), key=len)
    folder.write_proof(problem, body)
    if not options.minimise_calls:
        return None
    minimised = await minimise(
        problem, body, functions.verify, calls=options.minimise_calls, confirm=functions.confirm
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


def _describe_settings(config: Config, tools: Tools) -> dict[str, Any]:
    """What proposals and values depend on."""
    policy, sampling, value = tools.propose.policy, tools.propose.sampling, config.search.value
    found: dict[str, Any] = {
        "policy_sha256": name_weights(policy),
        "layout": policy.layout,
        "temperature": sampling.temperature,
        "max_new_tokens": sampling.max_new_tokens,
        "deadline_seconds": tools.deadline_seconds,
    }
    if value is not None:
        found["value_sha256"] = hashlib.sha256((value / WEIGHTS).read_bytes()).hexdigest()
    if config.search.name == "self_correct":
        found["rollout"] = config.rollout.model_dump(mode="json", exclude={"mode"})
    return found
