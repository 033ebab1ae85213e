"""The front door: one call gives a verifier that is ready for use.

Flows in: how many workers, z3's resource limit, where verdicts are kept. Flows out: a
``CachedVerifier`` over a pool of Dafny processes. Nothing is started before the first candidate
(or ``warm``). Not handled here: printing anything.
"""

from __future__ import annotations

from pathlib import Path

from proverrl.verify.base import Limits, SpawnWorker, Worker
from proverrl.verify.cache import CachedVerifier
from proverrl.verify.dafny import DafnyServerWorker
from proverrl.verify.dafny_audit import AUDIT_VERSION, audit_candidate
from proverrl.verify.dafny_cli import DafnyCliWorker
from proverrl.verify.dafny_judge import ExpectedEntries
from proverrl.verify.pool import VerifierPool
from proverrl.verify.toolchain import DafnyToolchain, find_dafny_toolchain


def open_verifier(
    *,
    workers: int = 2,
    rlimit: int = Limits().rlimit,
    cache_path: Path | None = None,
    toolchain: DafnyToolchain | None = None,
) -> CachedVerifier:
    """Open a verifier on the Dafny that is installed here.

    ``workers`` processes run at most, ``rlimit`` is z3's resource count per entry, and
    ``cache_path`` None keeps verdicts in memory only. Raises ``ToolchainError`` when Dafny or z3
    is missing, ``UsageError`` when the cache file cannot be used. Call ``aclose`` at the end.
    """
    toolchain = toolchain or find_dafny_toolchain()
    limits = Limits(rlimit=rlimit)
    pool = VerifierPool(
        make_spawn(toolchain, limits),
        workers=workers,
        audit=audit_candidate,
        toolchain=toolchain.name,
    )
    return CachedVerifier(
        pool,
        cache_path,
        toolchain=toolchain.name,
        limits=limits,
        backend=toolchain.backend,
        audit_version=AUDIT_VERSION,
    )


def make_spawn(toolchain: DafnyToolchain, limits: Limits) -> SpawnWorker:
    """How the pool starts one worker of this toolchain."""
    expected = ExpectedEntries()

    async def spawn() -> Worker:
        if toolchain.server is None:
            return await DafnyCliWorker.start(toolchain, limits, expected)
        return await DafnyServerWorker.start(toolchain, limits, expected)

    return spawn
