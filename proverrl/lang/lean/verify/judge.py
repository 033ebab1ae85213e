"""The verdict rule of Lean, as functions without side effects.

Flows in: a candidate, what Lean said of its text, and what Lean said of its declaration. Flows out:
a ``Verdict`` without times. PROVED needs all of these: Lean read the text to its end, no error, no
``sorry`` in any of the ways in which Lean tells of one, a declaration with the name of our
statement and with the type that our statement has in an environment that the candidate never
touched, and axioms on the allow-list. Whatever is not understood is a ``WorkerError``, never a
proof. Not handled here: the order of questions (``proverrl.lang.lean.verify.workers.worker``),
tampering with Lean itself (``proverrl.lang.lean.verify.deep``).
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from proverrl.errors import UsageError
from proverrl.lang.lean.syntax.lexical import has_notation
from proverrl.lang.lean.syntax.tokens import scan_code
from proverrl.lang.lean.verify.identity import DeclarationReport
from proverrl.lang.lean.verify.workers.messages import Elaboration, LeanMessage
from proverrl.types import FILE, Candidate, Diagnostic, Problem, Stage, Status, Verdict
from proverrl.verifier.base import NOTHING
from proverrl.verifier.body_place import find_body_place

STANDARD_AXIOMS = frozenset({"propext", "Classical.choice", "Quot.sound"})
MAX_DIAGNOSTICS = 50
_MAX_MESSAGE_LENGTH = 20_000
_MAX_KNOWN_PROBLEMS = 100_000
_MAX_CHALLENGE_BYTES = 256 * 2**20
_SORRY = re.compile(r"\bsorry(?:Ax)?\b")
_UNSOLVED = "unsolved goals"
_SKIPS_KERNEL = "skipKernelTC"
# Lean's own words for its deterministic limits, those of its kernel included.
_LIMITS = (
    "(deterministic) timeout",
    "maximum number of heartbeats",
    "maximum recursion depth has been reached",
    "(kernel) deterministic timeout",
    "(kernel) deep recursion detected",
)


@dataclass(frozen=True, slots=True)
class LeanLimits:
    """The costs and axioms that a proof may have.

    ``max_heartbeats`` is Lean's option of that name (in thousands of small allocations, per
    declaration), the same on every machine: running out of it counts against the proof. A larger
    number in a problem's preamble, or 0 for none, is brought down to it. With ``trace_states``
    verdicts carry the goals before every tactic. ``memory_mb`` is for all processes of a worker
    together.
    """

    max_heartbeats: int = 400_000
    allowed_axioms: frozenset[str] = STANDARD_AXIOMS
    trace_states: bool = False
    memory_mb: float = 8192.0

    def __post_init__(self) -> None:
        if self.max_heartbeats < 1:
            raise UsageError(f"max_heartbeats must be positive, got {self.max_heartbeats}")
        if not 0 < self.memory_mb < math.inf:
            raise UsageError(f"memory_mb must be positive and finite, got {self.memory_mb}")
        if "sorryAx" in self.allowed_axioms:
            raise UsageError("sorryAx cannot be allowed: it proves everything")

    def take_holes(self, problem: Problem) -> bool:
        """True if Lean is asked of a text whose only fault are holes: of files, and wherever goals
        are wanted. It is no proof, whatever Lean says."""
        return self.trace_states or problem.kind == FILE


@dataclass(frozen=True, slots=True)
class KnownStatement:
    """A statement of ours as Lean knows it without any candidate: the fingerprint of its type, and
    its challenge, the compiled file that it makes with ``sorry``. That is empty where the worker
    compiles none."""

    fingerprint: str
    challenge: bytes = b""


class KnownStatements:
    """Our own statements, elaborated once per problem and pool."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, KnownStatement] = OrderedDict()

    def find(self, problem: Problem) -> KnownStatement | None:
        """The statement that was found earlier; None when unknown."""
        return self._known.get(Candidate(problem, "").key)

    def record(self, problem: Problem, statement: KnownStatement) -> None:
        """Remember a statement; the oldest is forgotten when there are too many, or too many bytes
        of challenges."""
        self._known[Candidate(problem, "").key] = statement
        while len(self._known) > _MAX_KNOWN_PROBLEMS or self._num_bytes > _MAX_CHALLENGE_BYTES:
            self._known.popitem(last=False)

    @property
    def _num_bytes(self) -> int:
        return sum(len(statement.challenge) for statement in self._known.values())


def judge_messages(done: Elaboration, candidate: Candidate, first_line: int) -> Verdict | None:
    """The verdict from the messages alone; None when only the declaration is left to look at. The
    text of ``done`` starts after line ``first_line`` of the assembled file."""
    diagnostics = make_diagnostics(done.messages, candidate, first_line)
    errors = done.errors
    if errors:
        limited = all(is_limit(message.text) for message in errors)
        status = Status.EXHAUSTED if limited else Status.REJECTED
        return _conclude(status, diagnostics, ("audit", "messages"), goals=find_open_goals(errors))
    if not done.reached_end:
        swallowed = Diagnostic("error", "Lean did not read the text to its end")
        return _conclude(Status.UNSOUND, (swallowed, *diagnostics), ("audit", "messages"))
    if any(_is_sorry_warning(message) for message in done.messages):
        return _conclude(Status.INCOMPLETE, diagnostics, ("audit", "messages"))
    return None


def judge_declaration(
    report: DeclarationReport,
    fingerprint: str,
    allowed_axioms: frozenset[str],
    diagnostics: tuple[Diagnostic, ...] = (),
) -> Verdict:
    """The verdict from the declaration, after the messages were found clean."""
    done = ("audit", "no-errors", "no-sorry")
    if report.missing:
        why = f"the statement is not in the environment: {report.missing[:300]}"
        return _unsound(why, diagnostics, (), done)
    if report.fingerprint != fingerprint:
        why = (
            "the proved statement is not ours: its type is "
            f"{report.fingerprint[:300]!r}, ours {fingerprint[:300]!r}"
        )
        return _unsound(why, diagnostics, report.axioms, (*done, "target"))
    if foreign := sorted(set(report.axioms) - allowed_axioms):
        why = f"the proof rests on axioms that are not allowed: {', '.join(foreign)}"
        return _unsound(why, diagnostics, report.axioms, (*done, "target", "type"))
    checks = (*done, "target", "type", f"axioms:{len(report.axioms)}")
    return _conclude(Status.PROVED, diagnostics, checks, axioms=report.axioms)


def judge_file(
    axioms: Mapping[str, tuple[str, ...] | None],
    allowed_axioms: frozenset[str],
    diagnostics: tuple[Diagnostic, ...] = (),
) -> Verdict:
    """A bare file, whose messages were found clean, by the axioms of each theorem in it. ``checks``
    says that there was no statement to hold it to."""
    done = ("audit", "no-errors", "no-sorry", "no-statement")
    if not axioms:
        nothing = Diagnostic("error", f"{NOTHING}the file declares no named theorem")
        return _conclude(Status.REJECTED, (nothing, *diagnostics), done)
    used = tuple(sorted({axiom for found in axioms.values() for axiom in found or ()}))
    if unknown := [name for name, found in axioms.items() if found is None]:
        why = f"the axioms of these theorems cannot be asked for: {', '.join(unknown)}"
        return _unsound(why, diagnostics, used, done)
    if foreign := sorted(set(used) - allowed_axioms):
        why = f"the file rests on axioms that are not allowed: {', '.join(foreign)}"
        return _unsound(why, diagnostics, used, done)
    checks = (*done, f"theorems:{len(axioms)}", f"axioms:{len(used)}")
    return _conclude(Status.PROVED, diagnostics, checks, axioms=used)


def find_doubt(candidate: Candidate) -> str | None:
    """A word in a text for which only the replay can answer."""
    if _SKIPS_KERNEL in candidate.source:
        return f"the text speaks of {_SKIPS_KERNEL}"
    if candidate.problem.kind == FILE and has_notation(scan_code(candidate.body)):
        return "the text declares notation"
    return None


def _unsound(
    why: str,
    diagnostics: tuple[Diagnostic, ...],
    axioms: tuple[str, ...],
    checks: tuple[str, ...],
) -> Verdict:
    found = (Diagnostic("error", why), *diagnostics)
    return _conclude(Status.UNSOUND, found, checks, axioms=axioms)


def _conclude(
    status: Status,
    diagnostics: tuple[Diagnostic, ...],
    checks: tuple[str, ...],
    *,
    goals: tuple[str, ...] = (),
    axioms: tuple[str, ...] = (),
) -> Verdict:
    return Verdict(status, diagnostics, goals, axioms, stage=Stage.PROVER, checks=checks)


def is_limit(text: str) -> bool:
    """True if Lean says that it ran into one of its own deterministic limits."""
    return any(words in text for words in _LIMITS)


def _is_sorry_warning(message: LeanMessage) -> bool:
    """Lean 4.28 changed the quotes of its warning, so the word decides and not the quotes."""
    return message.severity == "warning" and _SORRY.search(message.text) is not None


def find_open_goals(errors: tuple[LeanMessage, ...]) -> tuple[str, ...]:
    """The goals in Lean's "unsolved goals" errors, in order."""
    found: list[str] = []
    for message in errors:
        first, _, rest = message.text.partition("\n")
        if first.startswith(_UNSOLVED):
            found += [goal.strip() for goal in rest.split("\n\n") if "⊢" in goal]
    return tuple(found)


def make_diagnostics(
    messages: tuple[LeanMessage, ...], candidate: Candidate, first_line: int
) -> tuple[Diagnostic, ...]:
    """Lean's messages with their places in the assembled file and in the body, errors first."""
    made = []
    for message in messages:
        start, end = message.start.down(first_line), message.end and message.end.down(first_line)
        body = find_body_place(candidate, start.line, start.column)
        made.append(
            Diagnostic(
                severity="info" if message.severity == "trace" else message.severity,
                message=_shorten(message.text),
                line=start.line,
                column=start.column,
                end_line=None if end is None else end.line,
                end_column=None if end is None else end.column,
                body_line=body[0] if body else None,
                body_column=body[1] if body else None,
            )
        )
    ranks = {"error": 0, "warning": 1, "info": 2}
    made.sort(key=lambda diagnostic: ranks[diagnostic.severity])
    return tuple(made[:MAX_DIAGNOSTICS])


def _shorten(text: str) -> str:
    left_out = len(text) - _MAX_MESSAGE_LENGTH
    shown = f"{text[:_MAX_MESSAGE_LENGTH]}… ({left_out} more characters)"
    return shown if left_out > 0 else text
