"""A search by its name, and its functions, made of a policy and of verifiers.

Flows in: a policy that samples, a verifier, and what confirms a proof. Flows out: ``Functions`` for
a problem of any language, and a ``Search`` that can be run. Not handled here: files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from proverrl.config import Config, SearchConfig
from proverrl.errors import ToolchainError, UsageError
from proverrl.lang import find_language
from proverrl.lang.base import BackendOptions
from proverrl.lang.open import open_router
from proverrl.lang.records import SegmentFn
from proverrl.search.base import Functions, Search
from proverrl.search.pooled_hints import PooledHints
from proverrl.search.proposals import Corrector, Proposer
from proverrl.search.run import SEARCHES, TreeSearch
from proverrl.types import Problem
from proverrl.verifier.base import FRESH_GROWTH, Limits, Verifier


def make_search(
    problem: Problem, functions: Functions, config: SearchConfig, *, seed: int = 0
) -> Search:
    """The search that ``config`` names. ``ConfigError`` when it lacks a function that it needs,
    ``UsageError`` when it is not for such a problem."""
    kind = PooledHints if config.name == "pooled_hints" else TreeSearch
    return kind(problem, functions, config, seed=seed)


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools that all searches of a command share. ``confirm`` judges proofs again, with fresh
    workers."""

    propose: Proposer
    correct: Corrector
    verifier: Verifier
    confirm: Verifier
    deadline_seconds: float


def open_confirm(config: Config, languages: Iterable[str] = ()) -> Verifier:
    """A verifier of this machine that starts a fresh worker for every candidate and remembers
    nothing. Raises ``ToolchainError`` if one for these languages is missing: without it a search
    would end at its first proof."""
    limits = Limits(rlimit=config.pool.rlimit)
    options = BackendOptions(
        workers=1,
        limits=limits,
        memory_mb=config.pool.memory_mb,
        max_candidates=1,
        lean_backend="lean-file",
        dafny_version=config.dafny.version,
        confirm="off",
    )
    router = open_router(options, config.pool.rlimit)
    for language in languages:
        try:
            router.open_backend(language)
        except ToolchainError as error:
            raise ToolchainError(
                f"proofs that a search finds are verified a second time on this machine: {error}"
            ) from error
    return router


def make_functions(problem: Problem, tools: Tools, config: SearchConfig) -> Functions:
    """The functions of one problem's search. Raises ``UsageError`` if the search needs states, and
    problems of this kind or layout have none."""
    return Functions(
        propose=tools.propose,
        verify=partial(tools.verifier.verify, deadline_seconds=tools.deadline_seconds),
        segment=choose_states(problem, config),
        correct=tools.correct,
        confirm=partial(
            tools.confirm.verify, deadline_seconds=FRESH_GROWTH * tools.deadline_seconds
        ),
        policy=tools.propose.policy,
    )


def uses_states(config: SearchConfig) -> bool:
    """True if the search reads states from verdicts; of one of somebody's own it is assumed."""
    name = config.name
    return not config.is_ours or (name in SEARCHES and "segment" in SEARCHES[name].NEEDS)


def choose_states(problem: Problem, config: SearchConfig) -> SegmentFn | None:
    """The function that reads states from verdicts; None for searches that need none."""
    if not uses_states(config):
        return None
    searching = find_language(problem.language).searching
    if searching is None or problem.kind not in searching.kinds:
        if not config.is_ours:
            # Its own strategy says whether it needs states.
            return None
        kinds = sorted(searching.kinds) if searching else []
        remedy = f"give problems of the kinds {', '.join(kinds)}, or " if kinds else ""
        raise UsageError(
            f"problem {problem.id!r} ({problem.language}, {problem.kind}) has no states for "
            f'search; {remedy}set search.name = "best_of_n"'
        )
    return searching.segment(config.states)


def needs_traces(problems: Iterable[Problem], config: SearchConfig) -> bool:
    """True if verdicts must carry the goals before each step."""
    if not uses_states(config):
        return False
    found = (find_language(problem.language).searching for problem in problems)
    return any(searching is not None and searching.needs_traces for searching in found)
