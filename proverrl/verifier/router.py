"""Sends each candidate to the back end of its language.

Flows in: candidates of any language. Flows out: the verdict of the back end that judges it; of one
that chooses a side of a claim, a proof of that side is judged (``Settle``). A back end is opened
when the first candidate needs it; a missing one stays missing, names its remedy and does not affect
the others. Not handled here: how a back end is found (``proverrl.lang.open``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from proverrl.errors import ToolchainError, VerifierError
from proverrl.types import Candidate, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane, LanedVerifier, PoolStats


@dataclass(frozen=True, slots=True)
class Backend:
    """An opened back end. ``salt`` names all that determines its verdicts besides the candidate."""

    name: str
    toolchain: str
    salt: str
    verifier: LanedVerifier

    @property
    def described(self) -> str:
        """Who judges, for a person to read: a toolchain here says itself how it is asked."""
        if f"({self.name})" in self.toolchain:
            return self.toolchain
        return f"{self.name}, {self.toolchain}"


OpenBackend = Callable[[], Backend]
"""Opens a back end; raises ``ToolchainError`` naming the command that installs a missing one."""

Settle = Callable[[Candidate], Candidate | Verdict]
"""Gives the candidate that is verified in its place, or a verdict where it states nothing."""


class RoutedVerifier:
    """A ``LanedVerifier`` over one back end per language, each opened when it is first needed."""

    def __init__(
        self, openers: Mapping[str, OpenBackend], settle: Settle = lambda candidate: candidate
    ) -> None:
        self._openers = dict(openers)
        self._settle = settle
        self._opened: dict[str, Backend] = {}
        self._missing: dict[str, str] = {}
        self._closed = False

    @property
    def opened(self) -> tuple[Backend, ...]:
        """The back ends needed so far, in order of first use."""
        return tuple(self._opened.values())

    def open_backend(self, language: str) -> Backend:
        """The back end of a language; raises ``ToolchainError`` with the remedy when missing."""
        if self._closed:
            raise VerifierError("this verifier was closed")
        if language in self._missing:
            raise ToolchainError(self._missing[language])
        if language not in self._openers:
            known = ", ".join(sorted(self._openers))
            raise ToolchainError(f"{language} is not judged here; this verifier has: {known}")
        if language not in self._opened:
            try:
                self._opened[language] = self._openers[language]()
            except ToolchainError as error:
                self._missing[language] = str(error)
                raise
        return self._opened[language]

    def identify(self, candidate: Candidate) -> str:
        """All that determines a candidate's verdict besides itself, for the key of a cache: also
        what a kind makes of it, since another kind of that name makes something else."""
        salt = self.open_backend(candidate.problem.language).salt
        settled = self._settle(candidate)
        if settled is candidate:
            return salt
        made = settled.key if isinstance(settled, Candidate) else repr(settled)
        return f"{salt}\0{hashlib.sha256(made.encode()).hexdigest()}"

    def stats(self) -> PoolStats | None:
        """The sums over all opened back ends; None before the first."""
        parts = [backend.verifier.stats() for backend in self._opened.values()]
        known = [part for part in parts if part is not None]
        return sum(known, start=PoolStats()) if known else None

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        backend = self.open_backend(candidate.problem.language)
        settled = self._settle(candidate)
        if isinstance(settled, Verdict):
            return replace(settled, toolchain=backend.toolchain)
        return await backend.verifier.verify(settled, deadline_seconds=deadline_seconds, lane=lane)

    async def aclose(self) -> None:
        self._closed = True
        for backend in self._opened.values():
            await backend.verifier.aclose()
