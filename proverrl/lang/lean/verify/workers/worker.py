"""One Lean worker: candidates go in one at a time, verdicts come out.

Flows in: candidates that passed the audit. Flows out: verdicts. A candidate costs its imports
(elaborated once and kept), its text, and a question about the declaration that it had to make. Its
text is elaborated behind the imports and our options alone: nothing that one declares is there for
the next. Covered: an answer that is not provably the answer (the sessions in ``server`` and
``file``); a Lean that cannot tell true from false (canaries at the start). Not covered:
replacing workers, deadlines and memory (``proverrl.verifier.pool``), the candidate's text
(``proverrl.lang.lean.audit.text``).
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from proverrl.errors import ProblemError, ToolchainError, WorkerError
from proverrl.lang.lean.audit.text import PROPOSITION, audit_lean_candidate
from proverrl.lang.lean.syntax.declarations import find_declarations, find_target, split_header
from proverrl.lang.lean.syntax.lexical import find_holes
from proverrl.lang.lean.verify.goals import find_states
from proverrl.lang.lean.verify.identity import (
    make_axioms_question,
    make_report_question,
    read_axioms,
    read_report,
)
from proverrl.lang.lean.verify.judge import (
    STANDARD_AXIOMS,
    KnownStatement,
    KnownStatements,
    LeanLimits,
    find_doubt,
    is_limit,
    judge_declaration,
    judge_file,
    judge_messages,
    make_diagnostics,
)
from proverrl.lang.lean.verify.workers.file import LeanFile
from proverrl.lang.lean.verify.workers.messages import Elaboration, Environment
from proverrl.lang.lean.verify.workers.server import LeanServer
from proverrl.lang.lean.verify.workers.session import LeanSession
from proverrl.lang.lean.verify.workers.toolchain import REMEDY, LeanToolchain
from proverrl.lang.records import NO_GOALS
from proverrl.types import FILE, HOLE, Candidate, Diagnostic, Problem, Stage, Status, Verdict
from proverrl.verifier.base import refuse_text
from proverrl.verifier.process_group import GroupWorker, ProcessGroup

# Core Lean binds unknown names of a statement by itself: a name that was misspelled, or that an
# import lost, would make a statement of another meaning.
_OUR_OPTIONS = "set_option autoImplicit false\nset_option relaxedAutoImplicit false\n"
_HEARTBEATS = re.compile(r"(\bset_option\s+maxHeartbeats\s+)(\d+)")

_CANARY_NAME = "proverrl_canary"
_CANARIES = (
    ("True ∧ True", "⟨trivial, trivial⟩", "", Status.PROVED),
    ("(1 : Nat) = 2", "rfl", "", Status.REJECTED),
    ("(1 : Nat) = 2", "sorry", "", Status.INCOMPLETE),
    ("(1 : Nat) = 2", "canary_axiom", "axiom canary_axiom : (1 : Nat) = 2\n", Status.UNSOUND),
)


@dataclass(frozen=True, slots=True)
class SplitFile:
    """An assembled file, cut after its imports. ``rest`` starts after ``header``."""

    header: str
    rest: str

    @property
    def first_line(self) -> int:
        """The number of lines of the file before ``rest``."""
        return self.header.count("\n")


def open_session(toolchain: LeanToolchain) -> LeanSession:
    """Lean, asked as the toolchain says."""
    if toolchain.backend == "lean-file":
        return LeanFile(toolchain)
    return LeanServer(toolchain)


class LeanWorker(GroupWorker):
    """A started and tested session. After any ``WorkerError`` it must be killed."""

    def __init__(
        self,
        session: LeanSession,
        toolchain: LeanToolchain,
        limits: LeanLimits,
        known: KnownStatements,
    ) -> None:
        self.session = session
        self._toolchain = toolchain
        self._limits = limits
        self._known = known
        self.replays = True
        """True if this Lean could replay the last proof that was to be."""
        self._headers: dict[tuple[str, str], Environment] = {}

    @classmethod
    async def start(
        cls, toolchain: LeanToolchain, limits: LeanLimits, known: KnownStatements
    ) -> LeanWorker:
        """Start a session and see that it tells true from false; raises ``ToolchainError`` when it
        does not, ``WorkerError`` when it dies meanwhile."""
        session = open_session(toolchain)
        worker = cls(session, toolchain, limits, known)
        try:
            strict = replace(limits, allowed_axioms=STANDARD_AXIOMS, trace_states=False)
            await _check_canaries(cls(session, toolchain, strict, KnownStatements()))
        except BaseException:
            worker.kill()
            await worker.join()
            raise
        return worker

    @property
    def groups(self) -> Sequence[ProcessGroup]:
        return self.session.groups

    def is_warm_for(self, candidate: Candidate) -> bool:
        text = split_candidate(candidate)
        if not any(header == text.header for header, _ in self._headers):
            return False
        ours = self.cap_heartbeats(candidate.problem, text)[: _count_ours(candidate.problem, text)]
        return self.session.is_warm_for(text.header, ours)

    async def judge(self, candidate: Candidate) -> Verdict:
        """Judge one audited candidate; raises ``WorkerError`` on any doubt about the answer,
        ``ProblemError`` when our own statement does not elaborate."""
        started = time.monotonic()
        if (refusal := _refuse_encoding(candidate.source)) is not None:
            return replace(refusal, toolchain=self._toolchain.name)
        text = split_candidate(candidate)
        loaded = await self._load_header(text.header, candidate.problem)
        header_seconds = time.monotonic() - started
        if isinstance(loaded, Elaboration):
            verdict = self._refuse_header(loaded, candidate)
        elif candidate.problem.kind == FILE:
            verdict = await self._judge_file(candidate, text, loaded)
        else:
            verdict = await self._judge_statement(candidate, text, loaded)
        if verdict.proved and self._limits.take_holes(candidate.problem):
            # Lean may have taken another way round a hole.
            verdict = audit_lean_candidate(candidate) or verdict
        return replace(
            verdict,
            seconds=time.monotonic() - started,
            header_seconds=header_seconds,
            toolchain=self._toolchain.name,
        )

    async def _load_header(self, header: str, problem: Problem) -> Environment | Elaboration:
        """The environment of a header, or what Lean said when it has none."""
        options = "" if problem.kind == FILE else _OUR_OPTIONS
        env = self._headers.get((header, options))
        if env is not None:
            return env
        heartbeats = f"set_option maxHeartbeats {self._limits.max_heartbeats}\n"
        done = await self.session.load_header(header, options + heartbeats)
        if done.env is None or done.errors or not done.reached_end:
            return done
        self._headers[header, options] = done.env
        return done.env

    def _refuse_header(self, done: Elaboration, candidate: Candidate) -> Verdict:
        if candidate.problem.kind != FILE:
            raise ProblemError(_explain_header(candidate.problem, done, self._toolchain))
        diagnostics = make_diagnostics(done.messages, candidate, 0)
        checks = ("audit", "header")
        return Verdict(Status.REJECTED, diagnostics, stage=Stage.READING, checks=checks)

    async def _judge_statement(
        self, candidate: Candidate, text: SplitFile, env: Environment
    ) -> Verdict:
        problem = candidate.problem
        target = find_target(problem)
        known = self._known.find(problem)
        if known is None:
            known = await self._find_statement(problem, target, env)
            self._known.record(problem, known)
        done, verdict = await self._run(candidate, text, env)
        if verdict is not None:
            return verdict
        assert done.env is not None
        answer = await self.session.run(make_report_question(target), done.env)
        judged = judge_declaration(
            read_report(answer, target),
            known.fingerprint,
            self._limits.allowed_axioms,
            make_diagnostics(done.messages, candidate, text.first_line),
        )
        judged = await self._replay(judged, done.env, candidate, target, known.challenge)
        return replace(judged, states=find_states(done.tactics, candidate, text.first_line))

    async def _replay(
        self,
        verdict: Verdict,
        env: Environment,
        candidate: Candidate,
        target: str | None = None,
        challenge: bytes = b"",
    ) -> Verdict:
        """A proof after the kernel saw it once more, where there is a compiled file of it, and
        after its statement was compared with the challenge, unless it is a bare file. Where
        this Lean cannot replay, no text may even name the option that skips the kernel, and no
        bare file may declare notation: its macros would be at work in our question about axioms."""
        if not verdict.proved:
            return verdict
        outcome = await self.session.replay(env, target, self._limits.allowed_axioms, challenge)
        if outcome is None:
            return verdict
        self.replays = outcome.ran
        if not outcome.ran:
            checks = (*verdict.checks, "replay:not-possible-here")
            if (doubt := find_doubt(candidate)) is None:
                return replace(verdict, checks=checks)
            why = Diagnostic("error", f"{doubt}, which needs a replay; {outcome.detail}")
            return replace(verdict, status=Status.UNSOUND, diagnostics=(why,), checks=checks)
        checks = (*verdict.checks, "replay")
        if outcome.passed:
            return replace(verdict, checks=checks)
        why = Diagnostic("error", f"the compiled text is refused: {outcome.detail}")
        status = Status.EXHAUSTED if is_limit(outcome.detail) else Status.UNSOUND
        return replace(verdict, status=status, diagnostics=(why,), checks=checks)

    async def _judge_file(self, candidate: Candidate, text: SplitFile, env: Environment) -> Verdict:
        done, verdict = await self._run(candidate, text, env)
        if verdict is not None:
            return verdict
        assert done.env is not None
        names = list_theorems(text.rest)
        axioms: dict[str, tuple[str, ...] | None] = {}
        if names:
            answer = await self.session.run(make_axioms_question(names), done.env)
            axioms = read_axioms(answer, names)
        diagnostics = make_diagnostics(done.messages, candidate, text.first_line)
        judged = judge_file(axioms, self._limits.allowed_axioms, diagnostics)
        return await self._replay(judged, done.env, candidate)

    async def _run(
        self, candidate: Candidate, text: SplitFile, env: Environment
    ) -> tuple[Elaboration, Verdict | None]:
        rest = self.cap_heartbeats(candidate.problem, text)
        holes = find_holes(candidate.body) if self._limits.take_holes(candidate.problem) else {}
        done = await self.session.run(
            rest,
            env,
            num_shared=_count_ours(candidate.problem, text),
            goals_at="steps" if self._limits.trace_states else "holes" if holes else "",
        )
        verdict = judge_messages(done, candidate, text.first_line)
        if verdict is None:
            return done, None
        states = find_states(done.tactics, candidate, text.first_line)
        known = {(line, column): state for line, column, state in states}
        # A hole stands for the first goal; one that is a term has none.
        first = (known.get(at, NO_GOALS).split("\n\n")[0] for at in holes)
        goals = verdict.goals or tuple(goal for goal in first if goal != NO_GOALS)
        if not self._limits.trace_states:
            states = tuple((*at, known.get(at, "")) for at in holes)
        return done, replace(verdict, goals=goals, states=states)

    async def _find_statement(
        self, problem: Problem, target: str, env: Environment
    ) -> KnownStatement:
        """The type of our own statement, in an environment without the candidate's text."""
        done = await self.run_statement(problem, env)
        assert done.env is not None
        challenge = self.session.read_compiled(done.env)
        report = read_report(await self.session.run(make_report_question(target), done.env), target)
        if report.missing:
            raise ProblemError(
                f"problem {problem.id!r}: Lean knows no {target} after the statement: "
                f"{report.missing}"
            )
        return KnownStatement(report.fingerprint, challenge)

    async def run_statement(self, problem: Problem, env: Environment) -> Elaboration:
        """A statement with ``sorry`` in its hole; raises ``ProblemError`` when it fails in Lean."""
        text = split_candidate(Candidate(problem, "sorry"))
        if problem.kind == PROPOSITION:
            # What follows compares it with what is meant.
            head = Candidate(problem, "sorry").head
            text = SplitFile(text.header, f"{head}sorry\n"[len(text.header) :])
        done = await self.session.run(
            self.cap_heartbeats(problem, text), env, num_shared=_count_ours(problem, text)
        )
        if done.errors or not done.reached_end:
            said = done.errors[0].text if done.errors else "it was not read to its end"
            raise ProblemError(f"problem {problem.id!r}: its own statement fails in Lean: {said}")
        return done

    def cap_heartbeats(self, problem: Problem, text: SplitFile) -> str:
        """The text to run, with our limit in place of a larger one in the problem's preamble."""
        limit = self._limits.max_heartbeats

        def cap(match: re.Match[str]) -> str:
            wanted = int(match.group(2))
            return f"{match.group(1)}{limit if wanted == 0 or wanted > limit else wanted}"

        length = _count_ours(problem, text)
        return _HEARTBEATS.sub(cap, text.rest[:length]) + text.rest[length:]


def split_candidate(candidate: Candidate) -> SplitFile:
    """Cut a candidate's file after its imports, which for a statement are the problem's own."""
    source = candidate.source
    is_file = candidate.problem.kind == FILE
    header, _ = split_header(source if is_file else candidate.problem.preamble)
    rest = source[len(header) :]
    if header and rest and not header.endswith("\n"):
        raise ProblemError(
            f"problem {candidate.problem.id!r}: its imports must end with a line break"
        )
    return SplitFile(header, rest)


def _count_ours(problem: Problem, text: SplitFile) -> int:
    """The number of characters of ``rest`` that are the problem's own: its preamble without the
    imports."""
    ours = len(problem.preamble) - len(text.header)
    return 0 if problem.kind == FILE else max(0, ours)


def list_theorems(text: str) -> tuple[str, ...]:
    """The full names of the theorems that a file offers to others, without repeats. What a private
    one rests on shows in those that use it."""
    found = [d for d in find_declarations(text) if d.keyword in ("theorem", "lemma")]
    return tuple(dict.fromkeys(d.name for d in found if d.name and "private" not in d.modifiers))


def _refuse_encoding(text: str) -> Verdict | None:
    """A lone surrogate is no character, so that no Lean file can hold it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        diagnostic = Diagnostic("error", f"the text is not valid Unicode: {error.reason}")
        return refuse_text(Status.REJECTED, "text", (diagnostic,))
    return None


def _explain_header(problem: Problem, done: Elaboration, toolchain: LeanToolchain) -> str:
    said = done.errors[0].text if done.errors else "they were not read to their end"
    remedy = ""
    if not toolchain.has_mathlib and "Mathlib" in problem.preamble:
        remedy = f"; Mathlib is not installed here, run: {REMEDY} --mathlib"
    if toolchain.trouble:
        remedy = f"; {toolchain.trouble}"
    return f"problem {problem.id!r}: its imports fail in Lean: {said[:500]}{remedy}"


async def _check_canaries(worker: LeanWorker) -> None:
    """See that Lean tells true from false under our options; raises ``ToolchainError`` if not."""
    for number, (statement, body, prelude, expected) in enumerate(_CANARIES):
        name = f"{_CANARY_NAME}_{number}"
        problem = Problem(name, "lean", "term", "", f"theorem {name} : {statement} := {HOLE}\n")
        try:
            verdict = await worker.judge(Candidate(problem, body, prelude))
        except (ProblemError, WorkerError) as error:
            if isinstance(error, WorkerError) and error.cause != "protocol":
                raise
            raise ToolchainError(
                f"Lean cannot read a plain theorem ({error}); run: {REMEDY}"
            ) from error
        if verdict.status is not expected:
            said = "; ".join(diagnostic.message for diagnostic in verdict.diagnostics)[:300]
            raise ToolchainError(
                f"Lean misjudges a known theorem: {statement} by {body} came out as "
                f"{verdict.status.value}, not {expected.value} ({said}); run: {REMEDY}"
            )
