"""The front door: one call gives a verifier that is ready for use.

Flows in: how many workers, what a proof may cost, how often a canary, where verdicts are kept.
Flows out: a ``CachedVerifier`` over a pool of processes per language, none of which is started
before the first candidate of its language.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from proverrl.config import PoolConfig
from proverrl.config.base import LeanBackend
from proverrl.errors import UsageError
from proverrl.lang import LANGUAGES, find_language
from proverrl.lang.base import BackendOptions
from proverrl.types import Problem
from proverrl.verify.base import Limits
from proverrl.verify.cache import Appeals, CachedVerifier
from proverrl.verify.remote import RemoteVerifier
from proverrl.verify.router import OpenBackend, RoutedVerifier

KEY_VARIABLE = "PROVERRL_API_KEY"
"""The environment variable with this client's key for the servers."""

_APPEAL_CANDIDATES = 20
"""A worker of the appeals is replaced after so many: to start one costs ten verifications."""


def open_verifier(
    *,
    workers: int = 2,
    rlimit: int = Limits().rlimit,
    memory_mb: float | None = None,
    canary_rate: float = 0.0,
    seed: int = 0,
    cache_path: Path | None = None,
    toolchain: Any = None,
    needed: Sequence[str] = ("dafny",),
    appeal_factor: float = 0.0,
    trace_states: bool = False,
    lean_backend: LeanBackend = "lean-server",
    confirm: str = "proved",
    servers: tuple[str, ...] = (),
) -> CachedVerifier:
    """Open a verifier on what is installed here, or on ``servers``.

    ``workers`` processes run at most per language, ``rlimit`` is z3's resource count per entry, and
    ``cache_path`` None keeps verdicts in memory only; see ``BackendOptions`` for the others. With
    ``appeal_factor`` refused candidates may be judged again, by one separate worker per language
    with so many times the limits. The languages of ``needed`` are looked for now, others when a
    candidate asks. Raises ``ToolchainError`` when a needed one is missing, ``UsageError`` when the
    cache file cannot be used, or servers are to hear appeals. Call ``aclose`` at the end.
    """
    if servers and appeal_factor:
        raise UsageError(
            "servers judge under their own limits and hear no appeals: set appeal.rate = 0, or "
            "leave pool.servers empty"
        )
    limits = Limits(rlimit=rlimit)
    options = BackendOptions(
        workers=workers,
        limits=limits,
        memory_mb=memory_mb,
        canary_rate=canary_rate,
        seed=seed,
        toolchain=toolchain,
        trace_states=trace_states,
        lean_backend=lean_backend,
        confirm=confirm,
        servers=servers,
    )
    router = open_router(options)
    backends = [router.open_backend(language) for language in needed]
    return CachedVerifier(
        router,
        cache_path,
        toolchain="; ".join(backend.toolchain for backend in backends),
        backend="; ".join(backend.name for backend in backends),
        identify=router.identify,
        appeals=open_appeals(options, appeal_factor) if appeal_factor else None,
    )


def open_appeals(options: BackendOptions, factor: float) -> Appeals:
    """Workers for second looks, apart from all others, with ``factor`` times the limits; what they
    refuse is not traced, and no canary is drawn."""
    limits = replace(options.limits, rlimit=round(factor * options.limits.rlimit))
    looks = BackendOptions(
        workers=1,
        limits=limits,
        memory_mb=options.memory_mb,
        toolchain=options.toolchain,
        max_candidates=_APPEAL_CANDIDATES,
        effort=factor,
        lean_backend=options.lean_backend,
        confirm=options.confirm,
    )
    return Appeals(open_router(looks), factor)


def open_configured(
    pool: PoolConfig,
    *,
    seed: int,
    problems: Iterable[Problem],
    appeal_factor: float = 0.0,
    trace_states: bool = False,
) -> CachedVerifier:
    """``open_verifier`` as a run's configuration says, for the languages of its problems."""
    return open_verifier(
        appeal_factor=appeal_factor,
        workers=pool.workers,
        rlimit=pool.rlimit,
        memory_mb=pool.memory_mb,
        canary_rate=pool.canary_rate,
        seed=seed,
        cache_path=pool.cache,
        needed=sorted({problem.language for problem in problems}),
        trace_states=trace_states,
        lean_backend=pool.lean_backend,
        confirm=pool.confirm,
        servers=pool.servers,
    )


def open_router(options: BackendOptions) -> RoutedVerifier:
    """All languages behind one verifier without a cache; nothing is looked for yet. With
    ``options.servers`` they are behind those."""

    @cache
    def connect() -> RemoteVerifier:
        return RemoteVerifier(options.servers, key=os.environ.get(KEY_VARIABLE, ""))

    def make_opener(name: str) -> OpenBackend:
        if options.servers:
            rlimit, states = options.limits.rlimit, options.trace_states
            return lambda: connect().open_backend(name, rlimit=rlimit, states=states)
        return lambda: find_language(name).open_backend(options)

    return RoutedVerifier({name: make_opener(name) for name in LANGUAGES})
