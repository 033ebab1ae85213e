"""Opens what verifies Lean, a pool of REPLs of one toolchain, and says what of it is installed.

Flows in: options. Flows out: a ``Backend``, of which no process runs yet; parts for ``proverrl
doctor``. Not handled here: finding Lean (``proverrl.lang.lean.workers.toolchain``), the cache.
"""

from __future__ import annotations

from proverrl.errors import ToolchainError
from proverrl.lang.base import BackendOptions
from proverrl.lang.lean.audit import LEAN_AUDIT_VERSION, audit_lean_candidate
from proverrl.lang.lean.canaries import CANARIES
from proverrl.lang.lean.deep import CHECKERS, ParanoidVerifier, find_checkers
from proverrl.lang.lean.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.workers.repl_worker import LeanReplWorker
from proverrl.lang.lean.workers.toolchain import REMEDY, find_lean_toolchain
from proverrl.lang.records import Part
from proverrl.verify.base import Worker
from proverrl.verify.canaries import mix_in_canaries
from proverrl.verify.pool import VerifierPool, make_upkeep
from proverrl.verify.router import Backend


def open_lean(options: BackendOptions) -> Backend:
    """Raises ``ToolchainError`` with the command that brings Lean."""
    toolchain = find_lean_toolchain()
    usual = LeanLimits()
    lean_limits = LeanLimits(
        max_heartbeats=round(options.effort * usual.max_heartbeats),
        memory_mb=usual.memory_mb if options.memory_mb is None else options.memory_mb,
        trace_states=options.trace_states,
    )
    known = KnownStatements()

    async def spawn() -> Worker:
        return await LeanReplWorker.start(toolchain, lean_limits, known)

    pool = VerifierPool(
        spawn,
        workers=options.workers,
        audit=audit_lean_candidate,
        toolchain=toolchain.name,
        languages=frozenset({"lean"}),
        upkeep=make_upkeep(lean_limits.memory_mb, options.max_candidates),
    )
    salt = (
        toolchain.name,
        str(lean_limits.max_heartbeats),
        ",".join(sorted(lean_limits.allowed_axioms)),
        # A limit of earlier versions: their verdicts stay known.
        "False",
        str(LEAN_AUDIT_VERSION),
        "paranoid" if options.paranoid else "",
        # Only where it is on, so that verdicts of earlier versions stay known.
        *(("states",) if options.trace_states else ()),
    )
    verifier = mix_in_canaries(pool, "lean", CANARIES, options.canary_rate, options.seed)
    if options.paranoid:
        verifier = ParanoidVerifier(verifier, toolchain, lean_limits)
    return Backend(
        name=toolchain.backend,
        toolchain=toolchain.name,
        salt="\x00".join(salt),
        verifier=verifier,
    )


def check_lean() -> list[Part]:
    """Lean, its REPL and the deep checkers. Asks Lean for its version, in its project."""
    try:
        found = find_lean_toolchain()
    except ToolchainError as error:
        # The remedy stands in a line of its own.
        text = str(error).removesuffix(f"; run: {REMEDY}")
        return [Part("Lean", "absent", f"{text}; only Dafny can be judged", REMEDY)]
    mathlib = "with Mathlib" if found.has_mathlib else "without Mathlib"
    findings = [
        Part("Lean", "ok", f"{found.lean_version}, {mathlib}, {found.lake}"),
        Part("Lean REPL", "ok", found.repl_command[-1]),
    ]
    checkers = find_checkers()
    absent = "not found; verify --paranoid does without it"
    return findings + [
        Part(name, "ok", checkers[name]) if name in checkers else Part(name, "absent", absent)
        for name in CHECKERS
    ]
