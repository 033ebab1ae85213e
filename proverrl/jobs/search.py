"""A search for a proof of each of some problems, on disk and on a terminal.

Flows in: a configuration, problems, where the policy comes from. Flows out: a folder per problem
(``proverrl.search.folder``). What a search calls a proof was judged twice: by the verifier and, as
a whole file, by a fresh worker; so was the minimised proof. Interrupted, the same call with
``resume`` continues. Not handled here: strategies, estimates over many problems (``evaluation``).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from proverrl.concurrency import finish_all
from proverrl.config import Config
from proverrl.errors import RunError, UsageError, VerifierError
from proverrl.jobs.evaluate import open_policy, open_prover
from proverrl.monitor.search_display import SearchDisplay, open_display
from proverrl.plugins import is_place
from proverrl.policy.engines import name_weights
from proverrl.run.run_folder import lock_run
from proverrl.search.base import Search, SearchResult
from proverrl.search.folder import SearchFolder, check_folder, describe_result, name_folders
from proverrl.search.minimise import Minimised, minimise
from proverrl.search.samples import SearchSample, collect_samples, write_samples
from proverrl.search.wiring import Tools, make_functions, make_search
from proverrl.types import Candidate, Problem
from proverrl.verifier.cache import CachedVerifier


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


async def search_problems(
    config: Config,
    problems: Sequence[Problem],
    *,
    from_run: Path | None,
    options: SearchOptions,
    stream: TextIO,
) -> list[dict[str, Any]]:
    """Search each problem under ``config.search``; returns what ``result.json`` of each holds.
    Raises ``UsageError``: a folder holds something already, or the policy or the search cannot be
    used; ``RunError``: a search that is continued is of other settings; ``VerifierError``: the
    verifier is broken; what was searched is saved."""
    if is_place(config.rollout.mode):
        raise UsageError(
            f"rollout.mode = {config.rollout.mode!r} finds bodies in its own way, and a search "
            "takes the policy's answers for bodies; set rollout.mode = 'whole_proof'"
        )
    folders = name_folders(options.out, problems)
    for path in folders.values():
        check_folder(path, resume=options.resume)
    trained = open_policy(config, from_run)
    async with open_prover(trained, config, problems, searches=True) as (policy, verifier, tools):
        assert tools is not None
        settings = _describe_settings(config, tools)
        with contextlib.closing(open_display(stream, config.search.calls)) as display:
            display.note(f"policy: {policy.engine}, temperature {config.evaluation.temperature:g}")
            display.note(f"verifier: {verifier.described}")
            run = _SearchRun(config, options, tools, verifier, display, settings)
            results = await run.search_all(problems, folders)
            if options.samples is not None:
                samples = [sample for p in problems for sample in run.samples[p.id]]
                write_samples(options.samples, samples)
                counted = f"{len(samples)} samples of {len(problems)} problems"
                display.note(f"{options.samples}: {counted}")
            return results


@dataclass(frozen=True, slots=True)
class _SearchRun:
    """The searches of one call, and what they share; ``samples`` by problem."""

    config: Config
    options: SearchOptions
    tools: Tools
    verifier: CachedVerifier
    display: SearchDisplay
    settings: Mapping[str, Any]
    samples: dict[str, list[SearchSample]] = field(default_factory=dict)

    async def search_all(
        self, problems: Sequence[Problem], folders: dict[str, Path]
    ) -> list[dict[str, Any]]:
        """Results in the order of the problems; when one fails, none is left running."""
        free = asyncio.Semaphore(self.options.parallel)
        searching, seed = self.config.search, self.config.seed
        # All before the first begins: a problem that cannot be searched is refused at once.
        searches = [
            make_search(
                problem, make_functions(problem, self.tools, searching), searching, seed=seed
            )
            for problem in problems
        ]

        async def search_next(search: Search) -> dict[str, Any]:
            async with free:
                return await self._search_one(search, folders[search.problem.id])

        return await finish_all(search_next(search) for search in searches)

    async def _search_one(self, search: Search, path: Path) -> dict[str, Any]:
        config, options, problem = self.config, self.options, search.problem
        identity = self.verifier.identify(Candidate(problem, "")).replace("\x00", " ")
        settings = {**self.settings, "verifier": identity}
        with lock_run(path):
            folder = SearchFolder(path, config.search, config.seed, settings)
            if options.resume and folder.load(search):
                self.display.note(f"{problem.id}: going on after {search.calls} calls")
                if not await _judge_saved(search, path):
                    folder.drop_proofs(problem)
            result = await self._run_saved(search, folder)
            shown = await self._find_finished(folder, search, result)
            if shown is None:
                minimised = await self._minimise(folder, search, result)
                shown = folder.write_result(search, result, minimised)
            if options.samples is not None:
                self.samples[problem.id] = collect_samples(search)
            self.display.end(search)
            return shown

    async def _run_saved(self, search: Search, folder: SearchFolder) -> SearchResult:
        """Run it; however it ends, what was found out is saved, the shortest proof as a whole
        file."""

        def watch(_: Search) -> None:
            folder.save_if_due(search)
            self.display.watch(search)

        self.display.watch(search)
        # What a strategy of somebody's own wrote down as proved is verified when the search ends.
        is_trusted = search.config.is_ours
        try:
            result = await search.run(watch)
            is_trusted = True
        except VerifierError:
            # It may have been caught proving what is false.
            is_trusted = False
            raise
        finally:
            bodies = [proof.body for proof in search.all_proofs] if is_trusted else []
            folder.save(search)
            folder.write_tree(search, bodies)
            if bodies:
                folder.write_proof(search.problem, min(bodies, key=len))
        return result

    async def _minimise(
        self, folder: SearchFolder, search: Search, result: SearchResult
    ) -> Minimised | None:
        """Write what is left of the shortest proof when it is minimised."""
        problem, functions, calls = search.problem, search.functions, self.options.minimise_calls
        if not result.proofs or not calls:
            return None
        body = min((proof.body for proof in result.proofs), key=len)
        self.display.note(f"{problem.id}: proved; shorter proofs are tried, {calls} calls at most")
        minimised = await minimise(
            problem, body, functions.verify, calls=calls, confirm=functions.confirm
        )
        folder.write_proof(problem, minimised.body, minimised=True)
        return minimised

    async def _find_finished(
        self, folder: SearchFolder, search: Search, result: SearchResult
    ) -> dict[str, Any] | None:
        """The summary that an earlier call wrote about this very end of the search, its proofs
        minimised if they are to be; None where it says anything else."""
        earlier = folder.read_result()
        if earlier is None or not self.options.resume:
            return None
        described = json.loads(json.dumps(describe_result(result)))
        if any(earlier.get(name) != value for name, value in described.items()):
            return None
        if not result.proofs or not self.options.minimise_calls:
            return earlier
        shortest = earlier.get("minimised")
        body = shortest.get("body") if isinstance(shortest, dict) else None
        if not isinstance(body, str):
            return None
        verdict = await search.functions.verify(Candidate(search.problem, body))
        return earlier if verdict.proved else None


async def _judge_saved(search: Search, path: Path) -> bool:
    """Judge the proofs of a saved search again, and say whether all still are. Raises ``RunError``
    where that is not possible now: nothing has been saved then, and no proof is lost."""
    verdicts = await search.judge_proofs_again()
    for verdict in verdicts:
        if not verdict.status.judged:
            raise RunError(
                f"{path}: a saved proof could not be verified again ({verdict.status.value}); "
                "continue with --resume when the machine has time, or raise pool.deadline_seconds"
            )
    return all(verdict.proved for verdict in verdicts)


def _describe_settings(config: Config, tools: Tools) -> dict[str, Any]:
    """The settings that proposals depend on."""
    policy, sampling = tools.propose.policy, tools.propose.sampling
    found: dict[str, Any] = {
        "policy_sha256": name_weights(policy),
        "layout": policy.layout,
        "temperature": sampling.temperature,
        "max_new_tokens": sampling.max_new_tokens,
        "deadline_seconds": tools.deadline_seconds,
    }
    found |= policy.before.describe()
    if config.search.name == "self_correct":
        found["rollout"] = config.rollout.model_dump(mode="json", exclude={"mode"})
    return found
