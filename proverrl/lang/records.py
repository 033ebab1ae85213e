"""Records and types of functions that searches and composers exchange with a language."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proverrl.errors import RecordError
from proverrl.types import Candidate, Problem, Verdict


@dataclass(frozen=True, slots=True)
class Prefix:
    """The start of a proof attempt: kept proof text, "" at the root, and the key of the state
    that it reaches, "" when unknown (the root before its first verdict)."""

    text: str
    state: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a body after which a state was seen.

    ``text`` is the body up to the end of this segment; that of the last may have a line break more
    than the body, which asks for another statement. ``state`` is the key of the state after it.
    """

    text: str
    state: str


Verify = Callable[[Candidate], Awaitable[Verdict]]

Category = Literal["syntax", "cheat", "hole"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason why the audit refuses a text.

    ``cheat`` is a known way to get a verdict without a proof, ``hole`` a proof that says itself
    that it is not finished, ``syntax`` anything else that is not admitted. ``rule`` names the
    layer of the audit, ``line`` counts from 1 and ``column`` from 0 in the text that was read.
    ``trust`` is the word with which a user may admit it in a bare file, where there is one.
    ``older``: an older prover believes it; a newer one was tested and does not, or is asked about
    it once it has verified the text.
    """

    category: Category
    rule: str
    message: str
    line: int
    column: int
    trust: str = ""
    older: bool = False


SegmentFn = Callable[[Candidate, Verdict], tuple[Segment, ...]]
"""The segments of a judged body up to its first error."""


NO_GOALS = "no goals"
"""The key of the state in which nothing is left to prove."""


@dataclass(frozen=True, slots=True)
class PooledHint:
    """A proof hint of a body, on one line, that may stand in other bodies. Two with one ``key`` say
    the same. Those of lower ``rank`` come first, because later ones may need them to have a
    meaning. ``measure`` names the loop or declaration whose measure it is, empty for what is none;
    a body may have one of each. What ``declares`` the lemma or function of this name is no hint of
    other bodies, and may have more lines."""

    text: str
    key: str
    rank: int = 0
    measure: str = ""
    declares: str = ""


@dataclass(frozen=True, slots=True)
class Hole:
    """A ``word`` that the author of a file left in place of a proof: its ``line`` (from 1) and
    ``column`` (from 0), its place in characters, the declaration with its line, and whether a term
    belongs there."""

    line: int
    column: int
    word: str
    offset: int
    holder: str
    holder_line: int
    is_term: bool


Failure = Literal["failed", "unreadable"]
"""What became of a filling that did not fit: ``unreadable`` if it is no text of the language."""


@dataclass(frozen=True, slots=True)
class RefusedHints:
    """A verdict's findings on the hints in a body, by their keys: ``refuted`` in any company,
    ``failed`` in this one. ``endless`` names that whose measure, or the lack of one, failed."""

    refuted: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    endless: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Parent:
    """A problem to compose from, and a body that proves it where one is known."""

    problem: Problem
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A new statement with its hole, and a body that may prove it; nothing of it was checked."""

    kind: str
    statement: str
    reference: str | None = None
    preamble: str = ""


Compose = Callable[[random.Random, Sequence[Parent]], Made | None]
"""One draw of an operator; None where it has no hold on these parents."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A function that makes a new problem of old ones, and how many of them it takes."""

    arity: int
    compose: Compose


@dataclass(frozen=True, slots=True)
class Extraction:
    """The proposal of an answer. ``span`` is the place of the code in the completion's text, in
    characters from 0; ``reason`` says why there is no body, and is empty when there is one."""

    body: str | None
    prelude: str = ""
    reason: str = ""
    span: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if (self.body is None) != bool(self.reason):
            raise RecordError("an extraction has either a body or a reason")

    def candidate(self, problem: Problem) -> Candidate | None:
        """The candidate to verify, or None."""
        return None if self.body is None else Candidate(problem, self.body, self.prelude)


@dataclass(frozen=True, slots=True)
class Includes:
    """A file's text with blanks in place of what names other files, and these names as they are
    written, each with its line; ``fault`` says why the text is no program by itself. ``declared``
    are its own names that other files may use (``A.B`` by both parts), ``words`` all that stand in
    it, ``alone`` those names that no other file of the program may declare."""

    text: str
    files: tuple[tuple[str, int], ...] = ()
    fault: str = ""
    declared: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Project:
    """A project file that was read: the files that it chooses, which make up one program, the
    options that it gives to the verifier, and what of it is not followed, with the reason."""

    path: Path
    files: tuple[Path, ...]
    arguments: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


PartState = Literal["ok", "missing", "weak", "absent"]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the machine. "missing" stops the default set-up from working; "weak" makes it
    slower or less; "absent" is an extra that nothing needs by default."""

    name: str
    state: PartState
    detail: str
    remedy: str = ""
