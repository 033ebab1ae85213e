"""The records that flow through ProverRL, from problem to judged group.

Every other module imports this one. No field is filled in by a later stage, and a combination that
makes no sense is refused when the record is built.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from proverrl.errors import Cause, ProblemError, RecordError

Split = Literal["train", "valid", "heldout"]
Role = Literal["solver", "composer"]
FinishReason = Literal["stop", "length", "content_filter", "no_room"]
TokenField = Literal["prompt_ids", "token_ids", "logprobs"]
GroupKey = tuple[Role, str]
BodyState = tuple[int, int, str]
"""Line (from 1) and column (from 0) in a body, and the goals before what begins there."""

HOLE = "/*{HOLE}*/"
"""Marks the one place in a statement where the policy's body goes."""

ANNOTATE = "annotate"
"""The kind of a problem whose body is the whole program with proof hints added."""

FILE = "file"
"""The kind of a bare file, which is all body."""


class Status(StrEnum):
    """The verifier's answer. The last two mean that nothing was judged."""

    PROVED = "proved"
    REJECTED = "rejected"
    INCOMPLETE = "incomplete"
    UNCONFIRMED = "unconfirmed"
    UNSOUND = "unsound"
    EXHAUSTED = "exhausted"
    TIMEOUT = "timeout"
    CRASHED = "crashed"

    @property
    def judged(self) -> bool:
        """False for TIMEOUT and CRASHED: such a rollout leaves its group and is never scored 0."""
        return self not in (Status.TIMEOUT, Status.CRASHED)


def is_fatal(status: str, cause: str) -> bool:
    """True for a candidate that ended the checker and was rejected for it; also for stored rows."""
    return status == Status.REJECTED and bool(cause)


@dataclass(frozen=True, slots=True)
class Problem:
    """A statement to prove. Its text is ours: the policy never writes any of it.

    ``preamble`` precedes the statement in the file (imports, definitions). ``statement`` holds
    ``HOLE`` exactly once. ``kind`` says what may stand in the hole. ``metadata`` carries JSON
    values such as ``level`` and ``expected_entries``, and never the reference body.
    """

    id: str
    language: str
    kind: str
    preamble: str
    statement: str
    split: Split = "train"
    origin: str = ""
    informal: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.id:
            raise ProblemError("a problem needs a non-empty id")
        if (count := self.statement.count(HOLE)) != 1:
            raise ProblemError(
                f"problem {self.id!r}: its statement must hold the marker {HOLE} exactly once, "
                f"found {count} times"
            )
        if HOLE in self.preamble:
            raise ProblemError(f"problem {self.id!r}: its preamble must not hold the marker {HOLE}")
        if self.kind == FILE and (self.preamble + self.statement).strip() != HOLE:
            # The audit of a file reads its body, so nothing may stand beside it.
            raise ProblemError(f"problem {self.id!r}: a bare file has no text but its body")

    @property
    def level(self) -> int:
        """Difficulty by construction, 1 the easiest; 0 when the problem carries none."""
        return int(self.metadata.get("level", 0))

    @property
    def family(self) -> str:
        """The generator family, or the origin when there is none."""
        return str(self.metadata.get("family", self.origin))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A problem and a proposed body: the unit of verification and of caching.

    ``prelude`` is the policy's own text before the statement: auxiliary lemmas, if the back end
    allows them. The body of an ``annotate`` problem is the whole file. With ``own_lines`` only so
    many first lines of a bare file need be judged: the rest is, apart.
    """

    problem: Problem
    body: str
    prelude: str = ""
    own_lines: int = 0

    @property
    def head(self) -> str:
        """All text of the file before the body."""
        if self.problem.kind == ANNOTATE:
            return ""
        return self.problem.preamble + self.prelude + self.problem.statement.partition(HOLE)[0]

    @property
    def source(self) -> str:
        """The whole file: preamble, prelude, statement with the hole filled by the body."""
        if self.problem.kind == ANNOTATE:
            return self.body
        _, _, after = self.problem.statement.partition(HOLE)
        return self.head + self.body + after

    @property
    def key(self) -> str:
        """SHA-256 over everything that determines a verdict, except toolchain and limits."""
        of, own = self.problem, [str(self.own_lines)] * bool(self.own_lines)
        if dialect := of.metadata.get("dialect"):
            own.append(f"in {dialect}")
        parts = (of.language, of.kind, of.preamble, of.statement, self.prelude, self.body, *own)
        text = "\x00".join(f"{len(part)}:{part}" for part in parts)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of the checker. Lines count from 1, columns from 0, in the assembled file.

    ``body_line`` (from 1) and ``body_column`` (from 0) are the place within the candidate's body,
    or None when the message points outside it.
    """

    severity: Literal["error", "warning", "info"]
    message: str
    line: int = 0
    column: int = 0
    end_line: int | None = None
    end_column: int | None = None
    body_line: int | None = None
    body_column: int | None = None


@dataclass(frozen=True, slots=True)
class Obligations:
    """The number of obligations of one entry of a program, and how many were proved."""

    entry: str
    total: int
    proved: int

    def __post_init__(self) -> None:
        if not 0 <= self.proved <= self.total:
            raise RecordError(f"{self.entry}: {self.proved} of {self.total} obligations proved")

    @property
    def all_proved(self) -> bool:
        """True when there was something to prove, and all of it was."""
        return self.proved == self.total > 0


class Stage(StrEnum):
    """The part that decided about a candidate: the last that looked at it."""

    NOBODY = ""
    AUDIT = "audit"
    """The rules about its text alone."""
    READING = "reading"
    """The verifier's parser and type checker; for Lean what the problem imports."""
    PROVER = "prover"
    """The verifier's prover; for Lean its elaborator and its kernel."""
    WALL = "wall"
    """The questions about an accepted proof."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verifier's answer about one candidate.

    ``stage`` decided, by ``rule`` where the audit or a wall did. ``believed`` counts what a bare
    file rests on by its user's choice, by its word; ``at_limit`` says that the verdict hangs on the
    verifier's resource limit. ``checks`` names what was checked, in order, for a person to read and
    for nothing else. ``seconds`` is the time of the checker, ``header_seconds`` the part of it that
    went into imports, ``queue_seconds`` the wait for a worker. ``obligations`` is filled by back
    ends that count them, for partial credit; ``goals`` are those left open or, on request, those
    before an error, and ``states`` those on the way through the body. ``cause`` says why nothing
    was judged or confirmed, or that a rejected candidate ended the checker each time.
    """

    status: Status
    diagnostics: tuple[Diagnostic, ...] = ()
    goals: tuple[str, ...] = ()
    axioms: tuple[str, ...] = ()
    obligations: tuple[Obligations, ...] = ()
    seconds: float = 0.0
    header_seconds: float = 0.0
    queue_seconds: float = 0.0
    toolchain: str = ""
    stage: Stage = Stage.NOBODY
    rule: str = ""
    believed: tuple[tuple[str, int], ...] = ()
    at_limit: bool = False
    checks: tuple[str, ...] = ()
    cause: Cause = ""
    states: tuple[BodyState, ...] = ()

    def __post_init__(self) -> None:
        if self.status is Status.PROVED:
            if any(d.severity == "error" for d in self.diagnostics):
                raise RecordError("a PROVED verdict cannot carry an error diagnostic")
            if not self.checks:
                raise RecordError("a PROVED verdict must name the checks that it passed")
        if self.cause and self.status.judged and self.status not in ("rejected", "unconfirmed"):
            raise RecordError(f"a judged verdict has no cause, this one names {self.cause!r}")

    @property
    def proved(self) -> bool:
        return self.status is Status.PROVED

    @property
    def fatal(self) -> bool:
        """True when the candidate ended the checker and was rejected for it."""
        return is_fatal(self.status, self.cause)

    @property
    def failed_in_prover(self) -> bool:
        """True when it was read, the prover did not prove it, and nothing worse is known of it."""
        return self.stage is Stage.PROVER and self.status in (Status.REJECTED, Status.EXHAUSTED)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """The input of a policy for one problem: text, and its exact token ids.

    A policy behind a server has no token ids; it gets ``messages`` instead.
    """

    problem_id: str
    text: str
    token_ids: tuple[int, ...]
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """The settings by which completions are drawn; ``seed`` makes a draw repeatable on one device.

    A completion ends with the token that completes a text of ``stop``. ``top_k`` above 0 keeps so
    many likeliest tokens; what ``top_p`` below 1 draws lacks log-probabilities, and is not learned.
    """

    temperature: float = 1.0
    max_new_tokens: int = 128
    seed: int = 0
    stop: tuple[str, ...] = ()
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf or self.max_new_tokens < 1:
            raise RecordError(
                "temperature must be finite and >= 0 and max_new_tokens >= 1, got "
                f"{self.temperature} and {self.max_new_tokens}"
            )
        if not 0 < self.top_p <= 1:
            raise RecordError(f"top_p must be above 0 and <= 1, got {self.top_p}")
        if self.top_k < 0:
            raise RecordError(f"top_k must be >= 0 (0 keeps all tokens), got {self.top_k}")
        if "" in self.stop:
            raise RecordError("a stop text must not be empty")


@dataclass(frozen=True, slots=True)
class Completion:
    """One generation. ``logprobs`` are the sampler's own, one per token in ``token_ids``,
    at the sampling temperature; ``token_ids`` ends with the end token if it was drawn.

    ``missing`` names what a server did not give: the fields of that name are empty, and nothing
    can be learned from such a completion.
    """

    text: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    policy_version: int
    missing: tuple[TokenField, ...] = ()

    def __post_init__(self) -> None:
        for name in self.missing:
            if getattr(self, name):
                raise RecordError(f"a completion has {name} and calls them missing")
        if not self.missing and len(self.token_ids) != len(self.logprobs):
            raise RecordError(
                f"{len(self.token_ids)} token ids but {len(self.logprobs)} log-probabilities"
            )
        if not all(math.isfinite(value) for value in self.logprobs):
            raise RecordError("a log-probability of a completion is not finite")


@dataclass(frozen=True, slots=True)
class Hint:
    """``text`` and ``token_ids`` stand after the problem's prompt and are never learned; ``ratio``
    is their share of the answer, in tokens. Except for a failed attempt, they begin the answer and
    are part of what is judged. Draws and rollouts carry it, so that no proof found with help
    counts as found without."""

    source: str
    ratio: float
    text: str
    token_ids: tuple[int, ...]

    @property
    def opening(self) -> str:
        """The text that every answer begins with."""
        return "" if self.source == "failed_attempt" else self.text


@dataclass(frozen=True, slots=True)
class Turn:
    """A completion, the candidate read from it, the verdict, and what the policy is told next.

    ``reason`` says why no candidate was found.
    """

    completion: Completion
    candidate: Candidate | None
    verdict: Verdict | None
    feedback: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        if self.candidate is not None and self.reason:
            raise RecordError("a turn with a candidate has no reason for lacking one")
        if self.verdict is not None and self.candidate is None:
            raise RecordError("a turn with a verdict needs the candidate that was judged")


@dataclass(frozen=True, slots=True)
class Rollout:
    """All turns on one problem; ``marks`` are what the reward found out about the last candidate
    beside its verdict."""

    id: str
    problem: Problem
    role: Role
    turns: tuple[Turn, ...]
    hint: Hint | None = None
    marks: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.turns:
            raise RecordError(f"rollout {self.id!r} has no turn")

    @property
    def group_key(self) -> GroupKey:
        """The group it is compared in: role, problem, and how much of an answer was given."""
        given = f" + {self.hint.source} {len(self.hint.token_ids)}" if self.hint else ""
        return self.role, self.problem.id + given

    @property
    def status(self) -> Status:
        """The last verdict's status; a completion with no candidate counts as rejected."""
        last, verdict = self.turns[-1].completion, self.turns[-1].verdict
        unread = Status.CRASHED if last.finish_reason == "no_room" else Status.REJECTED
        return unread if verdict is None else verdict.status

    def judge(self, verdict: Verdict) -> Rollout:
        """The same with this as the last verdict."""
        *before, last = self.turns
        return replace(self, turns=(*before, replace(last, verdict=verdict)))


@dataclass(frozen=True, slots=True)
class Reward:
    """A rollout's reward and its named parts."""

    total: float
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Judged rollouts on one problem by one role, compared with each other."""

    key: GroupKey
    rollouts: tuple[Rollout, ...]
    rewards: tuple[Reward, ...]

    def __post_init__(self) -> None:
        if len(self.rollouts) != len(self.rewards):
            raise RecordError(
                f"group {self.key}: {len(self.rollouts)} rollouts, {len(self.rewards)} rewards"
            )
        for rollout in self.rollouts:
            if rollout.group_key != self.key:
                raise RecordError(f"rollout {rollout.id!r} does not belong to group {self.key}")
            if not rollout.status.judged:
                raise RecordError(f"rollout {rollout.id!r} was not judged and cannot be scored")

    @property
    def mixed(self) -> bool:
        """True when the rewards differ, so that the group carries a learning signal."""
        return len({reward.total for reward in self.rewards}) > 1
