"""What a Dafny process is asked before it may judge anything.

Flows in: ways to ask. Flows out: nothing, or a ``ToolchainError`` that names the option which has
no effect. Dafny silently takes an option that it does not know for a file name, so each one that
guards a verdict is tried, in three questions because every start pays for them.
Not covered: ``/timeLimit``, which is only a back-stop.
"""

from __future__ import annotations

from typing import Protocol

from proverrl.errors import ProblemError, ToolchainError
from proverrl.lang.dafny.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.workers.reply import LIMIT_OUTCOMES, Reply
from proverrl.types import HOLE, Candidate, Problem


class TracedProcess(DafnyProcess, Protocol):
    """A Dafny that can be asked to name its prover."""

    async def ask_traced(self, source: str, rlimit: int) -> Reply:
        """As ``ask``; the reply names the prover (``/trace``)."""


_LEMMAS = """\
lemma CanaryTrue(x: int) ensures x * x >= 0 && CanaryKey == 1 {}
"""
FIRST = f"""\
const CanaryKey: int := 1
{_LEMMAS}\
lemma CanaryFalse(x: int) ensures x * x >= 1 {{}}
lemma CanaryAssume() ensures false {{ assume false; }}
"""
FIRST_OUTCOMES = {"CanaryTrue": "verified", "CanaryFalse": "error", "CanaryAssume": "error"}
# Only the constant differs from what was verified a moment ago, and nothing fits this rlimit:
# CanaryTrue says "verified" again when a stale verdict is given, CanaryHard when no limit holds.
SECOND = f"""\
const CanaryKey: int := 2
{_LEMMAS}\
lemma CanaryHard(x: int) ensures x * x >= 0 {{}}
"""
# What the hole steers to a bit vector must be an int all the same.
TYPES = Problem(
    "canary",
    "dafny",
    "statements",
    "",
    f"method CanaryTypes() {{ var i := 0; var f := x => x && i == 0; {HOLE} }}\n",
)
TYPES_WRITTEN = """\
method CanaryTypes() { var i: int := 0; var f: bool -> bool := (x: bool) => x && i == 0;  }
"""
RLIMIT = 3_000_000
TIGHT_RLIMIT = 50_000


async def check_canaries(process: TracedProcess, z3: str) -> None:
    """See that Dafny tells true from false under our options; raises ``ToolchainError`` if not."""
    first = await process.ask_traced(FIRST, RLIMIT)
    found = _read_outcomes(first)
    if found != FIRST_OUTCOMES:
        cheats = {**FIRST_OUTCOMES, "CanaryAssume": "verified"}
        why = "ignores /noCheating:1" if found == cheats else "misjudges known lemmas"
        raise ToolchainError(
            f"Dafny {why} ({found or first.messages or first.unknown}); "
            "reinstall it: sudo apt-get install --reinstall dafny"
        )
    if first.prover != z3:
        raise ToolchainError(f"Dafny ignores /z3exe: it uses {first.prover!r} instead of {z3!r}")
    second = _read_outcomes(await process.ask_traced(SECOND, TIGHT_RLIMIT))
    if second.get("CanaryHard") not in LIMIT_OUTCOMES:
        raise ToolchainError(f"Dafny ignores /rlimit, so proofs could not be bounded: {second}")
    if second.get("CanaryTrue", LIMIT_OUTCOMES[0]) not in LIMIT_OUTCOMES:
        raise ToolchainError(
            f"Dafny ignores /verifySnapshots:0 and repeats a verdict that is stale: {second}"
        )
    await _check_types(process)


async def _check_types(process: TracedProcess) -> None:
    """See that the types which Dafny infers are read as it means them."""
    try:
        written = await KnownProblems().write_types(process, Candidate(TYPES, ""))
    except ProblemError as error:
        raise ToolchainError(f"Dafny does not tell the types that it infers: {error}") from error
    if written.text != TYPES_WRITTEN:
        raise ToolchainError(
            f"Dafny tells other types than those that it infers: {written.text!r} instead of "
            f"{TYPES_WRITTEN!r}"
        )


def _read_outcomes(reply: Reply) -> dict[str, str]:
    """The outcome of each lemma by its bare name."""
    names = (entry.name.rpartition(".")[2].rpartition("$$")[2] for entry in reply.entries)
    return dict(zip(names, (entry.outcome for entry in reply.entries), strict=True))
