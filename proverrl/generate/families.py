"""The common part of all generators of problems: drafts, streams, names and numbers by split.

Flows in: families (functions that write a problem), pools of names, a level, a seed and a split.
Flows out: ``CurriculumDraft``s in a fixed order: a statement with a hole and the reference body.
They depend on these values only, not on the machine or on PYTHONHASHSEED.

The splits differ in three ways at once:

* Programs. The normal form of a statement (names and layout forgotten, constants kept) is hashed;
  its value modulo 10 decides: 0-6 train, 7 valid, 8-9 held out. No valid or held-out problem
  equals a train problem, whatever its names.
* Names. For each role (counter, bound, array, ...) train draws from one pool, and valid and
  held-out draw from another. Every name of a second pool is in the first pool of another role of
  the same kind, so a model trained from nothing knows the token but never saw it play that part.
* Numbers. For each role of number (slope, offset, limit, base) one residue modulo 7 is never
  drawn in train, and only it is drawn in valid and held-out. Numbers computed from drawn ones and
  small structural ones (a stride, an exponent) are shared.

Not handled here: whether a verifier proves a draft (``proverrl.problems.drafts``), files, prompts.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from proverrl.config.base import DafnyVersion
from proverrl.errors import ProblemError
from proverrl.lang.pools import NUMBER_PERIOD, Pools, is_train_number
from proverrl.types import Candidate, Problem, Split
from proverrl.verifier.base import LanedVerifier

MAX_MISSES = 600
"""Draws of one family in a row without a new program before it counts as used up."""

_Item = TypeVar("_Item")


class NoDraftError(Exception):
    """A draw gave nothing."""


class NamesExhaustedError(NoDraftError):
    """A program asked for more names of one role than its pool can still give."""


class Names:
    """Draws names and numbers for one program; no name is given twice."""

    def __init__(self, rng: random.Random, split: Split, pools: Pools) -> None:
        self._rng = rng
        self.split = split
        self._is_train = split == "train"
        self._pools = pools
        self._used: set[str] = set()

    def pick(self, role: str) -> str:
        """A fresh name of ``role``. Raises NamesExhaustedError when none is left."""
        pool = self._pools[role][0 if self._is_train else 1]
        free = [name for name in pool if name not in self._used]
        if not free:
            raise NamesExhaustedError(role)
        name = self._rng.choice(free)
        self._used.add(name)
        return name

    def picks(self, *roles: str) -> list[str]:
        """A fresh name of each role, in their order."""
        return [self.pick(role) for role in roles]

    def number(self, role: str, low: int, high: int) -> int:
        """An integer of ``role`` in ``low..high``; the range must span NUMBER_PERIOD values."""
        if high - low + 1 < NUMBER_PERIOD:
            raise ValueError(f"{low}..{high} is too narrow to hold values of every split")
        values = [v for v in range(low, high + 1) if is_train_number(role, v) == self._is_train]
        return self._rng.choice(values)


@dataclass(frozen=True, slots=True)
class ProgramText:
    """The work of a family: a statement line by line, and the body that should fill its hole.

    ``informal`` is the statement in words, where one is to be shown. ``metadata`` is for the
    problem; no prompt shows it.
    """

    lines: list[str]
    reference: str
    kind: str = "statements"
    informal: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


Family = Callable[[random.Random, Names], ProgramText]


@dataclass(frozen=True, slots=True)
class CurriculumDraft:
    """A statement with a hole, and the body that should fill it; see ``ProgramText``."""

    level: int
    family: str
    kind: str
    statement: str
    reference: str
    informal: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


LearnMetadata = Callable[[Problem], dict[str, Any] | None]
"""Reads metadata of a problem from the verifier that has just proved its reference; None where the
verifier saw too little."""


class Generator(ABC):
    """The families of a language, and the streams of drafts that they give."""

    language: str
    families: Mapping[int, Mapping[str, Family]]
    """Level to family name to generator."""
    unseen: frozenset[str] = frozenset()
    """Families that no ordinary file holds, for an evaluation on what training never saw."""
    pools: Pools

    @abstractmethod
    def normalise(self, statement: str) -> str:
        """A statement with names and layout forgotten."""

    @abstractmethod
    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """Bodies that must not prove a draft, the quickest to be judged first."""

    @abstractmethod
    def open_verifier(
        self, workers: int, dafny_version: DafnyVersion = "auto"
    ) -> tuple[LanedVerifier, LearnMetadata]:
        """A verifier without a cache; call ``aclose`` after. Raises ToolchainError when the
        language is not installed."""

    def assign_split(self, statement: str) -> Split:
        """The split that a program belongs to: 7 train, 1 valid, 2 held out."""
        digest = hashlib.sha256(self.normalise(statement).encode("utf-8")).digest()
        bucket = int.from_bytes(digest[:8], "big") % 10
        if bucket < 7:
            return "train"
        return "valid" if bucket == 7 else "heldout"

    def build_id(self, draft: CurriculumDraft) -> str:
        """The problem id of a draft: its level, its family, and eight digits of its text's hash."""
        digest = hashlib.sha256(draft.statement.encode("utf-8")).hexdigest()[:8]
        stem = draft.family.partition("_")[2]
        return f"{self.language}-l{draft.level}-{stem}-{digest}"

    def draw_one(self, level: int, family: str, split: Split, key: str) -> CurriculumDraft | None:
        """One draft of ``family`` from the text ``key``; None when it belongs to another split."""
        seed = int.from_bytes(hashlib.sha256(f"{key}:{family}".encode()).digest(), "big")
        rng = random.Random(seed)
        try:
            made = self.families[level][family](rng, Names(rng, split, self.pools))
        except NoDraftError:
            return None
        statement = "\n".join(made.lines) + "\n"
        if self.assign_split(statement) != split:
            return None
        texts = (made.kind, statement, made.reference, made.informal)
        return CurriculumDraft(level, family, *texts, made.metadata)

    def stream_family(
        self, level: int, family: str, seed: int, split: Split, seen: set[str]
    ) -> Iterator[CurriculumDraft]:
        """Drafts of one family whose normal form is not yet in ``seen``, which grows; ends when
        MAX_MISSES draws bring none."""
        misses = place = 0
        while misses < MAX_MISSES:
            draft = self.draw_one(level, family, split, f"{seed}:{split}:{place}")
            place += 1
            normal = "" if draft is None else self.normalise(draft.statement)
            if draft is None or normal in seen:
                misses += 1
                continue
            misses = 0
            seen.add(normal)
            yield draft

    def stream_level(
        self, level: int, seed: int, split: Split, *, unseen: bool = False
    ) -> Iterator[CurriculumDraft]:
        """Distinct drafts of one level, its families taking turns until all are used up; with
        ``unseen`` those of the families that are kept back."""
        if level not in self.families:
            known = ", ".join(str(number) for number in self.families)
            raise ProblemError(f"there is no level {level}; choose among {known}")
        families = [f for f in self.families[level] if (f in self.unseen) == unseen]
        if not families:
            raise ProblemError(f"no {self.language} family of level {level} is kept back")
        seen: set[str] = set()
        yield from take_turns(
            self.stream_family(level, family, seed, split, seen) for family in families
        )


class DerivedGenerator(Generator):
    """Problems made of those of another generator, whose families and splits are kept."""

    mark: str
    """Ends their ids: a problem may give one of each sort."""

    def __init__(self, base: Generator) -> None:
        self.base = base
        self.language, self.pools, self.unseen = base.language, base.pools, base.unseen
        self.families = {
            level: {name: self._derive(family) for name, family in known.items()}
            for level, known in base.families.items()
        }

    @abstractmethod
    def derive(
        self, made: ProgramText, known: Candidate, rng: random.Random, names: Names
    ) -> ProgramText | None:
        """A problem made of a draw of the other generator, which is ``known`` with its reference;
        None where the draw gives none."""

    def normalise(self, statement: str) -> str:
        """The normal form that the other generator gives."""
        return self.base.normalise(statement)

    def open_verifier(
        self, workers: int, dafny_version: DafnyVersion = "auto"
    ) -> tuple[LanedVerifier, LearnMetadata]:
        """The verifier of the other generator."""
        return self.base.open_verifier(workers, dafny_version)

    def build_id(self, draft: CurriculumDraft) -> str:
        """The id that every generator gives, with the mark."""
        return f"{super().build_id(draft)}-{self.mark}"

    def _derive(self, family: Family) -> Family:
        def make(rng: random.Random, names: Names) -> ProgramText:
            made = family(rng, names)
            text = "\n".join(made.lines) + "\n"
            known = Candidate(Problem("draft", self.language, made.kind, "", text), made.reference)
            derived = self.derive(made, known, rng, names)
            if derived is None:
                raise NoDraftError
            return derived

        return make


def take_turns(streams: Iterable[Iterator[_Item]]) -> Iterator[_Item]:
    """One item of each stream in turn, until all are used up."""
    waiting = deque(streams)
    while waiting:
        stream = waiting.popleft()
        if (draft := next(stream, None)) is not None:
            waiting.append(stream)
            yield draft
