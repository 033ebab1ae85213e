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
from typing import TYPE_CHECKING, Any

from proverrl.config import Config
from proverrl.config.base import DafnyVersion, LeanBackend
from proverrl.errors import UsageError
from proverrl.lang import find_language, list_names, list_own
from proverrl.lang.base import CANARY_RATE, BackendOptions
from proverrl.types import Problem
from proverrl.verifier.base import Limits
from proverrl.verifier.cache import Appeals, CachedVerifier, default_cache
from proverrl.verifier.router import OpenBackend, RoutedVerifier

if TYPE_CHECKING:
    from proverrl.verifier.cluster import ClusterVerifier
    from proverrl.verifier.remote import RemoteVerifier

KEY_VARIABLE = "PROVERRL_API_KEY"
"""The environment variable with this client's key for the servers."""

OWN_DAFNY = (
    "servers judge with the Dafny that they were started with (proverrl serve --dafny-version): "
    "leave dafny.version (--dafny-version) at auto"
)
_SERVER_DEADLINE = 86_400
"""Seconds that a server of a cluster allows: a run's own deadline counts."""
_SERVER_TEXT = 2**24
"""Characters of a candidate there: the audit has limits of its own."""
_APPEAL_CANDIDATES = 20
"""A worker of the appeals is replaced after so many: to start one costs ten verifications."""


def open_verifier(
    *,
    workers: int = 2,
    rlimit: int | None = None,
    memory_mb: float | None = None,
    canary_rate: float = 0.0,
    seed: int = 0,
    cache_path: Path | None = None,
    toolchain: Any = None,
    needed: Sequence[str] = ("dafny",),
    appeal_factor: float = 0.0,
    trace_states: bool = False,
    lean_backend: LeanBackend = "lean-server",
    dafny_version: DafnyVersion = "auto",
    confirm: str = "proved",
    servers: str | Sequence[str] = (),
    cluster: tuple[str, int, int] = ("", 1, 1),
) -> CachedVerifier:
    """Open a verifier on what is installed here, on ``servers`` (URLs, or one), or on a Ray
    ``cluster`` (its address, and the fewest and most servers on it).

    ``workers`` processes run at most per language. ``rlimit`` is z3's resource count per entry
    (None: three million, or the servers' own). ``cache_path`` None keeps verdicts in memory only.
    See ``BackendOptions`` for the others. With ``appeal_factor`` refused candidates may be judged
    again, by one separate worker per language with so many times the limits. The languages of
    ``needed`` are looked for now, others when a candidate asks. Raises ``ToolchainError`` when a
    needed one is missing, ``UsageError`` when the cache file cannot be used, servers are to hear
    appeals, or they and a cluster are both named. Call ``aclose`` at the end.
    """
    urls = (servers,) if isinstance(servers, str) and servers else tuple(servers)
    if (urls or cluster[0]) and appeal_factor:
        raise UsageError(
            "servers judge under their own limits and hear no appeals: set appeal.rate = 0, or "
            "leave pool.servers and pool.cluster empty"
        )
    if urls and dafny_version != "auto":
        raise UsageError(OWN_DAFNY)
    if urls and cluster[0]:
        raise UsageError("pool.servers and pool.cluster both say who judges: leave one empty")
    limits = Limits() if rlimit is None else Limits(rlimit=rlimit)
    options = BackendOptions(
        workers=workers,
        limits=limits,
        memory_mb=memory_mb,
        canary_rate=canary_rate,
        seed=seed,
        toolchain=toolchain,
        trace_states=trace_states,
        lean_backend=lean_backend,
        dafny_version=dafny_version,
        confirm=confirm,
        servers=urls,
        cluster=cluster,
    )
    router = open_router(options, rlimit)
    backends = [router.open_backend(language) for language in needed]
    return CachedVerifier(
        router,
        cache_path,
        toolchain="; ".join(backend.toolchain for backend in backends),
        described="; ".join(backend.described for backend in backends),
        identify=router.identify,
        appeals=open_appeals(options, appeal_factor) if appeal_factor else None,
    )


def open_appeals(options: BackendOptions, factor: float, cache_path: Path | None = None) -> Appeals:
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
        paranoid=options.paranoid,
        lean_backend=options.lean_backend,
        dafny_version=options.dafny_version,
        confirm=options.confirm,
    )
    router = open_router(looks)
    return Appeals(CachedVerifier(router, cache_path, identify=router.identify), factor)


def open_configured(
    config: Config,
    *,
    seed: int,
    problems: Iterable[Problem],
    appeal_factor: float = 0.0,
    trace_states: bool = False,
) -> CachedVerifier:
    """``open_verifier`` as a run's configuration says, for the languages of its problems."""
    pool = config.pool
    return open_verifier(
        appeal_factor=appeal_factor,
        workers=pool.workers,
        rlimit=pool.rlimit,
        memory_mb=pool.memory_mb,
        canary_rate=CANARY_RATE,
        seed=seed,
        cache_path=pool.cache or default_cache(),
        needed=sorted({problem.language for problem in problems}),
        trace_states=trace_states,
        dafny_version=config.dafny.version,
        confirm=pool.confirm,
        servers=pool.servers,
        cluster=(pool.cluster, *pool.cluster_servers),
    )


def open_router(options: BackendOptions, rlimit: int | None = None) -> RoutedVerifier:
    """All languages behind one verifier without a cache; nothing is looked for yet. With
    ``options.servers`` or a cluster they are behind those, which must have this ``rlimit``, if
    any."""

    @cache
    def connect() -> RemoteVerifier | ClusterVerifier:
        # Here, because the HTTP client is a tenth of what a pool of this machine needs to import.
        from proverrl.verifier.cluster import ClusterOptions, ClusterVerifier
        from proverrl.verifier.remote import RemoteVerifier

        address, fewest, most = options.cluster
        if address:
            settings = ClusterOptions(
                address, fewest, most, options.workers, _list_serve_arguments(options)
            )
            return ClusterVerifier(settings)
        key = os.environ.get(KEY_VARIABLE, "").strip()
        if not key.isascii() or any(map(str.isspace, key)):
            raise UsageError(f"{KEY_VARIABLE} holds no key: it has blanks, or other than ASCII")
        return RemoteVerifier(options.servers, key=key)

    def make_opener(name: str) -> OpenBackend:
        if options.servers or options.cluster[0]:
            return lambda: connect().open_backend(
                name, rlimit=rlimit, states=options.trace_states, confirm=options.confirm
            )
        return lambda: find_language(name).open_backend(options)

    return RoutedVerifier(
        {name: make_opener(name) for name in list_names()},
        lambda candidate: find_language(candidate.problem.language).settle(candidate),
    )


def _list_serve_arguments(options: BackendOptions) -> tuple[str, ...]:
    """Arguments that tell ``proverrl serve`` of a back end's options, its workers aside."""
    given = {
        "--deadline": _SERVER_DEADLINE,
        "--max-text": _SERVER_TEXT,
        "--rlimit": options.limits.rlimit,
        "--memory-mb": options.memory_mb,
        "--confirm": options.confirm,
        "--dafny-version": options.dafny_version,
    }
    said = {name: str(value) for name, value in given.items() if value is not None}
    known = [word for pair in said.items() for word in pair]
    known += [
        word for name, place in list_own().items() for word in ("--language", f"{name}={place}")
    ]
    return (*known, *(["--trace-states"] if options.trace_states else []))
