"""Opens what verifies Lean, a pool of workers of one toolchain, and says what of it is installed.

Flows in: options. Flows out: a ``Backend``, of which no process runs yet; parts for ``proverrl
doctor``. Not handled here: finding Lean (``workers.toolchain``), the cache.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from functools import partial

from proverrl.config.base import LeanBackend
from proverrl.errors import ToolchainError, UsageError, VerifierError
from proverrl.lang.base import BackendOptions
from proverrl.lang.lean.audit.text import LEAN_AUDIT_VERSION, audit_lean_candidate
from proverrl.lang.lean.syntax.keywords import LEAN_RELEASE
from proverrl.lang.lean.verify.canaries import CANARIES
from proverrl.lang.lean.verify.confirm import FreshProcess
from proverrl.lang.lean.verify.deep import CHECKERS, ParanoidVerifier, find_checkers
from proverrl.lang.lean.verify.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain, find_lean_toolchain
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.lang.records import Part
from proverrl.types import Candidate, Status, Verdict
from proverrl.verifier.base import Worker
from proverrl.verifier.canaries import mix_in_canaries
from proverrl.verifier.confirm import ConfirmingVerifier, read_rate
from proverrl.verifier.pool import VerifierPool, make_upkeep
from proverrl.verifier.router import Backend

_CANARY_SECONDS = 120.0
_WAYS: dict[LeanBackend, str] = {
    "lean-server": "used, because it needs Lean alone and elaborates only what changed",
    "lean-file": "a fresh process each; confirms what was accepted",
}
"""The ways to ask Lean, the preferred way first, and why."""


def open_lean(options: BackendOptions) -> Backend:
    """Raises ``ToolchainError`` with the command that brings Lean."""
    if options.trace_states and options.lean_backend == "lean-file":
        raise UsageError("lean-file does not tell the goals on the way; ask lean-server")
    toolchain = find_lean_toolchain(options.lean_backend)
    usual = LeanLimits()
    lean_limits = LeanLimits(
        max_heartbeats=round(options.effort * usual.max_heartbeats),
        memory_mb=usual.memory_mb if options.memory_mb is None else options.memory_mb,
        trace_states=options.trace_states,
    )

    def open_pool(toolchain: LeanToolchain, limits: LeanLimits) -> VerifierPool:
        # Types are compared as Lean prints them, and only within one way of asking.
        known = KnownStatements()

        async def spawn() -> Worker:
            return await LeanWorker.start(toolchain, limits, known)

        return VerifierPool(
            spawn,
            workers=options.workers,
            audit=partial(refuse, limits=limits),
            toolchain=toolchain.name,
            languages=frozenset({"lean"}),
            upkeep=make_upkeep(lean_limits.memory_mb, options.max_candidates),
        )

    pool = open_pool(toolchain, lean_limits)
    salt = (
        toolchain.name,
        str(lean_limits.max_heartbeats),
        ",".join(sorted(lean_limits.allowed_axioms)),
        options.confirm,
        str(LEAN_AUDIT_VERSION),
        "paranoid" if options.paranoid else "",
        # Two projects may hold other things under the same names.
        *(value for name, value in toolchain.environment if name == "LEAN_PATH"),
        "states" if options.trace_states else "",
    )
    verifier = mix_in_canaries(pool, "lean", CANARIES, options.canary_rate, options.seed)
    if rate := read_rate(options.confirm):
        fresh = open_pool(
            replace(toolchain, backend="lean-file"), replace(lean_limits, trace_states=False)
        )
        verifier = ConfirmingVerifier(verifier, [FreshProcess(fresh)], rate)
    if options.paranoid:
        verifier = ParanoidVerifier(verifier, toolchain, lean_limits)
    return Backend(
        name=toolchain.backend,
        toolchain=toolchain.name,
        salt="\x00".join(salt),
        verifier=verifier,
    )


def refuse(candidate: Candidate, *, limits: LeanLimits) -> Verdict | None:
    """The audit's verdict, where Lean is not asked what is open at the holes."""
    verdict = audit_lean_candidate(candidate)
    is_open = verdict is not None and verdict.status is Status.INCOMPLETE
    return None if is_open and limits.take_holes(candidate.problem) else verdict


def check_lean() -> list[Part]:
    """Lean, its project, which ways to ask it tell true from false, and the deep checkers. Starts
    Lean."""
    try:
        found = find_lean_toolchain()
    except ToolchainError as error:
        text, remedy = _split_remedy(error)
        return [Part("Lean", "absent", f"{text}; only Dafny can be judged", remedy)]
    mathlib = "with Mathlib" if found.has_mathlib else "without Mathlib"
    parts = [Part("Lean", "ok", f"{found.lean_version}, {mathlib}, {found.lean_command[0]}")]
    if _number(found.lean_version) > _number(LEAN_RELEASE):
        newer = f"the audit knows the keywords of {LEAN_RELEASE}; it takes newer ones for names"
        parts.append(Part("Lean keywords", "weak", newer))
    if found.trouble:
        parts.append(Part("Lean project", "weak", *_split_remedy(ToolchainError(found.trouble))))
    parts += [_check_way(replace(found, backend=way), why) for way, why in _WAYS.items()]
    checkers = find_checkers()
    absent = "not found; verify --paranoid does without it"
    return parts + [
        Part(name, "ok", checkers[name]) if name in checkers else Part(name, "absent", absent)
        for name in CHECKERS
    ]


def _check_way(found: LeanToolchain, why: str) -> Part:
    """Check that workers that ask Lean in one way start, and so pass the canaries."""
    try:
        replays = asyncio.run(_try_canaries(found))
    except VerifierError as error:
        return Part(found.backend, "weak", *_split_remedy(error))
    if not replays:
        missing = "this Lean cannot replay proofs in its kernel (it has no compiled `Lean.Replay`)"
        return Part(found.backend, "weak", f"tells true from false; {why}; {missing}")
    return Part(found.backend, "ok", f"tells true from false; {why}")


def _split_remedy(error: VerifierError) -> tuple[str, str]:
    """The remedy stands in a line of its own."""
    text, _, remedy = str(error).partition("; run: ")
    return text, remedy


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


async def _try_canaries(toolchain: LeanToolchain) -> bool:
    """True if a true theorem is replayed, after a worker passed its canaries."""
    try:
        async with asyncio.timeout(_CANARY_SECONDS):
            worker = await LeanWorker.start(toolchain, LeanLimits(), KnownStatements())
            try:
                await worker.judge(CANARIES[0](2, 0))
                return worker.replays
            finally:
                worker.kill()
                await worker.join()
    except TimeoutError:
        raise ToolchainError(f"no answer in {_CANARY_SECONDS:g} seconds") from None
