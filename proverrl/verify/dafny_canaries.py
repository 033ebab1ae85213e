"""What a Dafny process is asked before it may judge anything.

Flows in: ways to ask. Flows out: nothing, or a ``ToolchainError`` that names the option which
does not bite. Dafny takes an option that it does not know for a file name, without a word, so
each one that guards a verdict is tried. Two questions in all, because every start pays for them.
Covered: true and false lemmas, ``/noCheating:1``, ``/rlimit``, ``/verifySnapshots:0`` (server),
``/z3exe``. Not covered: ``/timeLimit``, which is only a back-stop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from proverrl.errors import ToolchainError
from proverrl.verify.dafny_reply import Reply

AskTraced = Callable[[str, int], Awaitable[Reply]]
"""Verifies a source under an rlimit, and asks Dafny to name its prover (``/trace``)."""

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
RLIMIT = 3_000_000
TIGHT_RLIMIT = 50_000
_LIMIT_OUTCOMES = ("timed out", "out of resource")


async def check_canaries(ask: AskTraced, z3: str) -> None:
    """See that Dafny tells true from false under our options; raises ``ToolchainError`` if not."""
    first = await ask(FIRST, RLIMIT)
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
    second = _read_outcomes(await ask(SECOND, TIGHT_RLIMIT))
    if second.get("CanaryHard") not in _LIMIT_OUTCOMES:
        raise ToolchainError(f"Dafny ignores /rlimit, so proofs could not be bounded: {second}")
    if second.get("CanaryTrue", _LIMIT_OUTCOMES[0]) not in _LIMIT_OUTCOMES:
        raise ToolchainError(
            f"Dafny ignores /verifySnapshots:0 and repeats a verdict that is stale: {second}"
        )


def _read_outcomes(reply: Reply) -> dict[str, str]:
    """The outcome of each lemma by its bare name."""
    names = (entry.name.rpartition(".")[2].rpartition("$$")[2] for entry in reply.entries)
    return dict(zip(names, (entry.outcome for entry in reply.entries), strict=True))
