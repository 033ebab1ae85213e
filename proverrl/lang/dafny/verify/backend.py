"""Opens what verifies Dafny: a pool of workers of one toolchain, and the walls behind it.

Flows in: options. Flows out: a ``Backend``, of which no process runs yet. Not handled here: finding
Dafny (``workers.toolchain``), the cache (``proverrl.lang.open``).
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from functools import partial

from proverrl.lang.base import BackendOptions
from proverrl.lang.dafny.audit.arguments import check_arguments, write_seed
from proverrl.lang.dafny.audit.bodies import AUDIT_VERSION, audit_candidate
from proverrl.lang.dafny.verify.canaries import CANARIES
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.walls import second_judge
from proverrl.lang.dafny.verify.workers.command_line import DafnyCliWorker
from proverrl.lang.dafny.verify.workers.language_server import DafnyLanguageServer
from proverrl.lang.dafny.verify.workers.server import DafnyServerWorker
from proverrl.lang.dafny.verify.workers.toolchain import (
    DafnyToolchain,
    find_confirming_toolchain,
    find_dafny_toolchain,
)
from proverrl.verifier.base import LanedVerifier, Limits, SpawnWorker, Worker
from proverrl.verifier.cache import make_salt
from proverrl.verifier.canaries import mix_in_canaries
from proverrl.verifier.confirm import ConfirmingVerifier, Wall, read_rate
from proverrl.verifier.pool import VerifierPool, make_upkeep
from proverrl.verifier.router import Backend

_GROWTH_4 = 4
"""The resource limit of a Dafny 4, or of a second judge, in those of a Dafny 2.3 that judges first:
another z3 counts otherwise."""
_LARGEST = 2**32 - 1
"""Dafny 4 reads no larger limit."""


def _grow(limits: Limits) -> Limits:
    return replace(limits, rlimit=min(_GROWTH_4 * limits.rlimit, _LARGEST))


async def start_dafny_worker(
    toolchain: DafnyToolchain, limits: Limits, known: KnownProblems
) -> Worker:
    """Start the worker of this toolchain and see that it tells true from false.

    Raises ``ToolchainError`` when it does not, ``WorkerError`` when it dies meanwhile.
    """
    if toolchain.is_4:
        grown = _grow(limits)
        return await DafnyLanguageServer.start(toolchain, grown, known, analyses=False)
    if toolchain.backend == "dafny-cli":
        return await DafnyCliWorker.start(toolchain, limits, known)
    return await DafnyServerWorker.start(toolchain, limits, known)


def make_spawn(
    toolchain: DafnyToolchain, limits: Limits, known: KnownProblems | None = None
) -> SpawnWorker:
    """The function by which the pool starts a worker of this toolchain; ``known`` is shared by all
    of them."""
    known = known or KnownProblems()

    async def spawn() -> Worker:
        return await start_dafny_worker(toolchain, limits, known)

    return spawn


def open_dafny(options: BackendOptions) -> Backend:
    """Raises ``ToolchainError`` with the command that brings Dafny."""
    toolchain = options.toolchain or find_dafny_toolchain(options.dafny_version)
    check_arguments(options.arguments, toolchain.dafny_version)
    seeded = write_seed(options.solver_seed, toolchain.dafny_version)
    arguments = (*options.arguments, *seeded)
    toolchain = replace(toolchain, allowed=options.allowed, arguments=arguments)
    limits = options.limits
    if options.memory_mb is not None:
        limits = replace(limits, memory_mb=options.memory_mb)
    pool = VerifierPool(
        make_spawn(toolchain, limits),
        workers=options.workers,
        audit=partial(audit_candidate, allowed=toolchain.allowed, dafny=toolchain.dafny_version),
        toolchain=toolchain.name,
        upkeep=make_upkeep(limits.memory_mb, options.max_candidates),
    )
    salt = make_salt(toolchain.name, limits, AUDIT_VERSION)
    verifier = mix_in_canaries(pool, "dafny", CANARIES, options.canary_rate, options.seed)
    rate, name = read_rate(options.confirm), toolchain.name
    second = find_confirming_toolchain(toolchain) if rate else None
    if second and options.arguments:
        # What one Dafny is told by options of its own says nothing to another.
        name += "; the second judge is not asked under --dafny-arg"
    elif second:
        name += f"; second judge: {second.name}"
        judge = open_second_judge(second, limits, options, reads_4=toolchain.is_4)
        verifier = ConfirmingVerifier(verifier, [judge], rate)
        salt = "\x00".join((salt, options.confirm, second.name, str(second_judge.VERSION)))
    return Backend(name=toolchain.backend, toolchain=name, salt=salt, verifier=verifier)


def open_second_judge(
    toolchain: DafnyToolchain, limits: Limits, options: BackendOptions, *, reads_4: bool
) -> Wall:
    """As many workers as the first Dafny has. ``limits`` are those for a Dafny 2.3 that judges
    first; ``reads_4``: the first is a Dafny 4."""
    limits = _grow(limits)

    def open_pool(analyses: bool) -> LanedVerifier:
        def start() -> Awaitable[Worker]:
            if not toolchain.is_4:
                return start_dafny_worker(toolchain, limits, known)
            return DafnyLanguageServer.start(toolchain, limits, analyses=analyses, reads_4=reads_4)

        known = KnownProblems()
        pool = VerifierPool(
            start,
            workers=options.workers,
            audit=lambda candidate: None,
            toolchain=toolchain.name,
            upkeep=make_upkeep(limits.memory_mb, options.max_candidates),
        )
        name = f"dafny, second judge{'' if analyses else ' without analysis'}"
        return mix_in_canaries(pool, name, CANARIES, options.canary_rate, options.seed)

    if not toolchain.is_4:
        return second_judge.OlderJudge(open_pool(False), toolchain.name)
    return second_judge.SecondJudge(open_pool(True), open_pool(False))
