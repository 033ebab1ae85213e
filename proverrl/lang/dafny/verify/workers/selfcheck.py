"""Questions that a Dafny process must pass before it may judge anything.

Flows in: ways to ask. Flows out: nothing, or a ``ToolchainError`` that names the option which has
no effect. Dafny silently takes an option that it does not know for a file name, so each one that
guards a verdict is tried, in three questions because every start pays for them.
Not covered: ``/timeLimit``, which is only a back-stop.
"""

from __future__ import annotations

from typing import Protocol

from proverrl.errors import ProblemError, ToolchainError
from proverrl.lang.dafny.syntax.reply import LIMIT_OUTCOMES, Reply
from proverrl.lang.dafny.verify.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.verify.workers.prelude import NAME
from proverrl.types import HOLE, Candidate, Problem


class TracedProcess(DafnyProcess, Protocol):
    """A Dafny that can be asked to name its prover."""

    async def ask_traced(self, source: str, rlimit: int) -> Reply:
        """As ``ask``; the reply names the prover (``/trace``)."""


class LanguageServer(Protocol):
    """A Dafny 4 that reads one text after another."""

    async def ask(self, source: str) -> Reply:
        """Its reply to a text; raises ``WorkerError`` on any doubt about the answer."""


_LEMMAS = """\
lemma CanaryTrue(x: int) ensures x * x >= 0 && CanaryKey == 1 {}
"""
# Dafny 2.3 proves each of these without a mended prelude, and Dafny 4 the first two.
_UNMENDED = """\
lemma CanaryMaps() {
  ghost var m, o := map k: int | k in {1} :: k, map k: int | k in {1} :: k * k;
  ghost var f := (k: int) => if k in m then m[k] else 0;
  ghost var g := (k: int) => if k in o then o[k] else 0;
  assert m != o || f(200) != g(200);
}
lemma CanaryOrdinals(o: ORDINAL) {
  ghost var s := set k: int | k in {1} && o.Offset > 0 && o - 1 + 1 == o;
  assert 2 !in s; assert o.Offset > 0;
}
lemma CanaryMultisets(n: int) {
  ghost var m: multiset<int> := multiset{};
  ghost var s := set k: int | k in {1} && n >= 0 && |m[0 := n]| == n;
  assert 2 !in s; assert n >= 0;
}
"""
_UNMENDED_OUTCOMES = dict.fromkeys(("CanaryMaps", "CanaryOrdinals", "CanaryMultisets"), "error")
FIRST = f"""\
const CanaryKey: int := 1
{_LEMMAS}\
lemma CanaryFalse(x: int) ensures x * x >= 1 {{}}
lemma CanaryAssume() ensures false {{ assume false; }}
{_UNMENDED}"""
FIRST_OUTCOMES = {
    "CanaryTrue": "verified",
    "CanaryFalse": "error",
    "CanaryAssume": "error",
    **_UNMENDED_OUTCOMES,
}
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
_CANARIES_4 = f"""\
lemma CanaryTrue(x: int) ensures x * x >= 0 {{}}
lemma CanaryFalse(x: int) ensures x * x >= 1 {{}}
lemma CanaryContradiction(x: int) requires x < 0 < x ensures x == 5 {{}}
lemma CanaryHard(a: nat, b: nat, c: nat, d: nat, e: nat) requires a * b * c * d * e > 0
  ensures a*a*a*a*a + b*b*b*b*b + c*c*c*c*c + d*d*d*d*d != e*e*e*e*e {{}}
lemma CanaryAssume() ensures false {{ assume false; }}
{_UNMENDED}"""
_OUTCOMES_4 = {
    "CanaryTrue": "verified",
    "CanaryFalse": "error",
    "CanaryContradiction": "verified",
    "CanaryHard": "out of resource",
    "CanaryAssume": "verified",
    **_UNMENDED_OUTCOMES,
}
_BELIEVES = f"believes too much: {NAME} is not found beside it, or is another"
_TOLD_KINDS = ("error", "limit")
_TOLD_4 = [
    ("contradiction", 3),
    *(("error", line) for line in (2, 6, 11, 15, 20)),
    ("limit", 4),
]
"""Expected notes at these lines: the assumption, which is called verified, is told as an error."""
DO_WITHOUT = (
    "do without it: --dafny-version 2.3 (dafny.version), or PROVERRL_SECOND_DAFNY= where it is the "
    "second judge"
)
"""What can be done about a Dafny 4 that does not work."""
RLIMIT = 3_000_000
TIGHT_RLIMIT = 50_000


async def check_language_server(server: LanguageServer, rlimit: int, *, analyses: bool) -> None:
    """As ``check_canaries``, for Dafny 4's language server, whose limit holds for all texts. Where
    that is large, the lemma that exceeds it gets a smaller one, which keeps a start short."""
    own = f"{{:resource_limit {RLIMIT}}} " if rlimit > RLIMIT else ""
    reply = await server.ask(_CANARIES_4.replace("lemma CanaryHard", f"lemma {own}CanaryHard"))
    marked = [("contradiction", message.line) for message in reply.contradictions]
    told = sorted([*marked, *((m.kind, m.line) for m in reply.messages if m.kind in _TOLD_KINDS)])
    found, right = _read_outcomes(reply), _TOLD_4 if analyses else _TOLD_4[1:]
    if found != _OUTCOMES_4 or told != right:
        why = "misjudges known lemmas"
        if _is_unmended(found, _OUTCOMES_4):
            why = f"{_BELIEVES} (that of 4.9.1 to 4.11.0 is known)"
        raise ToolchainError(
            f"Dafny 4 {why}: it says {found or reply.messages} and tells {told}, "
            f"where {_OUTCOMES_4} and {right} are right; install another Dafny 4, or {DO_WITHOUT}"
        )


async def check_canaries(process: TracedProcess, z3: str) -> None:
    """See that Dafny tells true from false under our options; raises ``ToolchainError`` if not."""
    first = await process.ask_traced(FIRST, RLIMIT)
    found = _read_outcomes(first)
    if found != FIRST_OUTCOMES:
        cheats = {**FIRST_OUTCOMES, "CanaryAssume": "verified"}
        why = "ignores /noCheating:1" if found == cheats else "misjudges known lemmas"
        if _is_unmended(found, FIRST_OUTCOMES):
            why = _BELIEVES
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


def _is_unmended(found: dict[str, str], right: dict[str, str]) -> bool:
    """True if the lemmas that only a mended prelude refutes are all that is misjudged."""
    return found != right and {**found, **_UNMENDED_OUTCOMES} == right


def _read_outcomes(reply: Reply) -> dict[str, str]:
    """The outcome of each lemma by its bare name."""
    names = (entry.name.rpartition(".")[2].rpartition("$$")[2] for entry in reply.entries)
    return dict(zip(names, (entry.outcome for entry in reply.entries), strict=True))
