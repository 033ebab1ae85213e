"""The front door: one call gives a verifier that is ready for use.

Flows in: how many workers, what a proof may cost, how often a canary, where verdicts are kept.
Flows out: a ``CachedVerifier`` over a pool of processes per language. No process is started
before the first candidate of its language; Lean is not even looked for.
Not handled here: printing anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from proverrl.config import PoolConfig
from proverrl.lang.dafny.audit import AUDIT_VERSION, audit_candidate
from proverrl.lang.dafny.known import KnownProblems
from proverrl.lang.dafny.workers.start import start_dafny_worker
from proverrl.lang.dafny.workers.toolchain import DafnyToolchain, find_dafny_toolchain
from proverrl.seeds import derive_seed
from proverrl.types import Language, Problem
from proverrl.verify.base import LanedVerifier, Limits, SpawnWorker, Worker
from proverrl.verify.cache import Appeals, CachedVerifier, make_salt
from proverrl.verify.canaries import CanaryVerifier
from proverrl.verify.pool import Upkeep, VerifierPool
from proverrl.verify.router import Backend, RecheckedVerifier, RoutedVerifier

_RECYCLE_SHARE = 0.4
"""A worker above this share of its memory limit is replaced before its next candidate."""

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
    toolchain: DafnyToolchain | None = None,
    needed: Sequence[Language] = ("dafny",),
    appeal_factor: float = 0.0,
    trace_states: bool = False,
) -> CachedVerifier:
    """Open a verifier on what is installed here.

    ``workers`` processes run at most per language, ``rlimit`` is z3's resource count per entry,
    ``memory_mb`` is as for ``open_router``, ``canary_rate`` is the share of calls that draw a false
    statement, and ``cache_path`` None keeps verdicts in memory only. With
    ``appeal_factor`` refused candidates may be judged again, by one separate worker per language
    and with so many times the limits; it starts with the first appeal. ``trace_states`` has Lean's
    verdicts carry the goals before each tactic. The languages of ``needed`` are looked for now,
    others when a candidate asks. Raises ``ToolchainError`` when a
    needed one is missing, ``UsageError`` when the cache file cannot be used. Call ``aclose`` at
    the end.
    """
    limits = Limits(rlimit=rlimit)
    router = open_router(
        workers=workers,
        limits=limits,
        memory_mb=memory_mb,
        canary_rate=canary_rate,
        seed=seed,
        toolchain=toolchain,
        trace_states=trace_states,
    )
    backends = [router.open_backend(language) for language in needed]
    return CachedVerifier(
        router,
        cache_path,
        toolchain="; ".join(backend.toolchain for backend in backends),
        backend="; ".join(backend.name for backend in backends),
        limits=limits,
        identify=router.identify,
        appeals=open_appeals(limits, memory_mb, appeal_factor, toolchain)
        if appeal_factor
        else None,
    )


def open_appeals(
    limits: Limits, memory_mb: float | None, factor: float, toolchain: DafnyToolchain | None = None
) -> Appeals:
    """Workers for second looks, apart from all others, with ``factor`` times the limits."""
    router = open_router(
        workers=1,
        limits=replace(limits, rlimit=round(factor * limits.rlimit)),
        memory_mb=memory_mb,
        toolchain=toolchain,
        max_candidates=_APPEAL_CANDIDATES,
        effort=factor,
    )
    return Appeals(router, factor)


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
    )


def open_router(
    *,
    workers: int,
    limits: Limits,
    memory_mb: float | None = None,
    canary_rate: float = 0.0,
    seed: int = 0,
    toolchain: DafnyToolchain | None = None,
    paranoid: bool = False,
    max_candidates: int = Upkeep().max_candidates,
    effort: float = 1.0,
    trace_states: bool = False,
) -> RoutedVerifier:
    """Both languages behind one verifier without a cache; nothing is looked for yet.

    ``memory_mb`` holds for a worker with its children, of either language; left out, Dafny's have
    what ``limits`` say and Lean's what ``LeanLimits`` say. ``paranoid`` has every accepted Lean
    proof checked again by what is installed for that. A worker is replaced after
    ``max_candidates``. ``effort`` multiplies Lean's heartbeats, as ``limits`` say nothing of those.
    """
    if memory_mb is not None:
        limits = replace(limits, memory_mb=memory_mb)
    upkeep = replace(_make_upkeep(limits.memory_mb), max_candidates=max_candidates)
    return RoutedVerifier(
        {
            "dafny": lambda: _open_dafny(
                toolchain,
                workers=workers,
                limits=limits,
                canary_rate=canary_rate,
                seed=seed,
                upkeep=upkeep,
            ),
            "lean": lambda: _open_lean(
                workers=workers,
                memory_mb=memory_mb,
                canary_rate=canary_rate,
                seed=seed,
                paranoid=paranoid,
                max_candidates=max_candidates,
                effort=effort,
                trace_states=trace_states,
            ),
        }
    )


def make_spawn(
    toolchain: DafnyToolchain, limits: Limits, known: KnownProblems | None = None
) -> SpawnWorker:
    """How the pool starts one worker of this toolchain; ``known`` is shared by all of them."""
    known = known or KnownProblems()

    async def spawn() -> Worker:
        return await start_dafny_worker(toolchain, limits, known)

    return spawn


def _open_dafny(
    toolchain: DafnyToolchain | None,
    *,
    workers: int,
    limits: Limits,
    canary_rate: float,
    seed: int,
    upkeep: Upkeep,
) -> Backend:
    toolchain = toolchain or find_dafny_toolchain()
    pool = VerifierPool(
        make_spawn(toolchain, limits),
        workers=workers,
        audit=audit_candidate,
        toolchain=toolchain.name,
        upkeep=upkeep,
    )
    return Backend(
        name=toolchain.backend,
        toolchain=toolchain.name,
        salt=make_salt(toolchain.name, limits, AUDIT_VERSION),
        verifier=_mix_in_canaries(pool, "dafny", canary_rate, seed),
    )


def _open_lean(
    *,
    workers: int,
    memory_mb: float | None,
    canary_rate: float,
    seed: int,
    paranoid: bool,
    max_candidates: int,
    effort: float,
    trace_states: bool,
) -> Backend:
    # Here, so that a machine without Lean loads nothing of it.
    from proverrl.lang.lean.audit import LEAN_AUDIT_VERSION, audit_lean_candidate
    from proverrl.lang.lean.deep import ParanoidVerifier
    from proverrl.lang.lean.judge import KnownStatements, LeanLimits
    from proverrl.lang.lean.workers.repl_worker import LeanReplWorker
    from proverrl.lang.lean.workers.toolchain import find_lean_toolchain

    toolchain = find_lean_toolchain()
    usual = LeanLimits()
    lean_limits = LeanLimits(
        max_heartbeats=round(effort * usual.max_heartbeats),
        memory_mb=usual.memory_mb if memory_mb is None else memory_mb,
        trace_states=trace_states,
    )
    known = KnownStatements()

    async def spawn() -> Worker:
        return await LeanReplWorker.start(toolchain, lean_limits, known)

    pool = VerifierPool(
        spawn,
        workers=workers,
        audit=audit_lean_candidate,
        toolchain=toolchain.name,
        languages=frozenset({"lean"}),
        upkeep=replace(_make_upkeep(lean_limits.memory_mb), max_candidates=max_candidates),
    )
    salt = (
        toolchain.name,
        str(lean_limits.max_heartbeats),
        ",".join(sorted(lean_limits.allowed_axioms)),
        str(lean_limits.goals_before_error),
        str(LEAN_AUDIT_VERSION),
        "paranoid" if paranoid else "",
        # Only where it is on, so that verdicts of earlier versions stay known.
        *(("states",) if trace_states else ()),
    )
    verifier = _mix_in_canaries(pool, "lean", canary_rate, seed)
    if paranoid:
        verifier = RecheckedVerifier(
            verifier, lambda inner: ParanoidVerifier(inner, toolchain, lean_limits)
        )
    return Backend(
        name=toolchain.backend,
        toolchain=toolchain.name,
        salt="\x00".join(salt),
        verifier=verifier,
    )


def _make_upkeep(memory_mb: float) -> Upkeep:
    return Upkeep(memory_mb=memory_mb, recycle_mb=_RECYCLE_SHARE * memory_mb)


def _mix_in_canaries(
    pool: VerifierPool, language: Language, rate: float, seed: int
) -> LanedVerifier:
    if rate == 0.0:
        return pool
    seed = derive_seed("canaries", language, seed)
    return CanaryVerifier(pool, language=language, rate=rate, seed=seed)
