"""Dafny's reply to each problem with an empty body, asked once per problem.

Flows in: problems, and a process to ask. Flows out: the entries that a proof must verify, and a
candidate's file with the types that Dafny infers for our text (``written_types``) written out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from proverrl.errors import ProblemError, WorkerError
from proverrl.lang.dafny.audit.written_types import (
    TypeInsertion,
    get_blank,
    get_empty_body,
    read_insertions,
    read_untyped,
    write_types,
)
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.plain import WrittenText
from proverrl.lang.dafny.syntax.reply import Reply
from proverrl.types import Candidate, Problem

_NAMES_ONLY_RLIMIT = 50_000
_MAX_KNOWN_PROBLEMS = 100_000


class DafnyProcess(Protocol):
    """A Dafny to ask; all raise ``WorkerError`` on any doubt about the answer."""

    async def ask(self, source: str, rlimit: int | None = None, *only: str) -> Reply:
        """Verify a program under an rlimit (None: the usual one); ``only``: nothing but the
        entries that match one of these patterns, with ``*`` for any text."""

    async def ask_failures(self, source: str) -> Reply:
        """Verify a program that may assume and leave out bodies, and name all that fails."""

    async def ask_part(self, source: str, included: str) -> Reply | None:
        """Verify a program but not what it includes; None where it cannot be asked so."""
        return None

    async def ask_names(self, source: str) -> Reply:
        """Its reply, in which only the names of the entries count."""
        # With less than Dafny's own axioms cost the prover gives up at once, where failed proofs of
        # an empty body would use up the whole limit. Far less kills it.
        return await self.ask(source, _NAMES_ONLY_RLIMIT)

    async def ask_resolved(self, source: str) -> Reply:
        """Read a program and verify nothing."""

    async def ask_types(self, program: ParsedProgram) -> tuple[Reply, Sequence[str]]:
        """As ``ask_resolved``, and the type that Dafny infers for each binding; empty for what is
        not told."""

    async def ask_value_types(
        self, source: str, spans: Sequence[tuple[int, int]], *, as_ghost: bool = False
    ) -> tuple[Reply, Sequence[str]]:
        """As ``ask_resolved``, and the type of each expression, by its start and end; empty for
        what is not told. ``as_ghost``: its functions are ghost. Only a Dafny 4 can be asked."""
        raise WorkerError("this Dafny does not tell the types of expressions")


@dataclass(slots=True)
class _KnownProblem:
    entries: frozenset[str] | None = None
    insertions: tuple[TypeInsertion, ...] | None = None
    types_hold: bool = False
    refuted: str | None = None


class KnownProblems:
    """Known facts of each problem, shared by the workers of a pool."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _KnownProblem] = OrderedDict()

    def _look_up(self, problem: Problem) -> _KnownProblem:
        known = self._known.setdefault(Candidate(problem, "").key, _KnownProblem())
        while len(self._known) > _MAX_KNOWN_PROBLEMS:
            self._known.popitem(last=False)
        return known

    def find_entries(self, problem: Problem, *, by_4: bool = False) -> frozenset[str] | None:
        """The entries named by the problem itself, or found earlier; None when unknown. ``by_4``:
        as a Dafny 4 names them; those of a problem are Dafny 2.3's."""
        if not by_4 and (named := problem.metadata.get("expected_entries")):
            return frozenset(str(name) for name in named)
        return self._look_up(problem).entries

    async def ask_entries(self, process: DafnyProcess, problem: Problem) -> frozenset[str]:
        """The entries of the problem with an empty body; raises ``ProblemError`` without any."""
        reply = await process.ask_names(await self._write_blank(process, problem))
        return self.record_entries(problem, reply)

    def record_entries(self, problem: Problem, blank: Reply) -> frozenset[str]:
        """Take the entries from a reply about the problem with an empty body."""
        if not blank.resolved or not blank.entries:
            raise ProblemError(
                f"problem {problem.id!r}: with an empty body Dafny says "
                f"{next(iter(blank.errors), '') or 'no entries'!r}, so what a proof "
                "must verify is unknown; mend the problem (under Dafny 2.3: or name it in the "
                "problem's metadata as expected_entries)"
            )
        self._look_up(problem).entries = blank.names
        return blank.names

    async def write_types(self, process: DafnyProcess, candidate: Candidate) -> WrittenText:
        """The candidate's file, with a type behind every name of ours that had none.

        Raises ``ProblemError`` when Dafny does not tell a type.
        """
        problem = candidate.problem
        if problem.kind == "file":
            return WrittenText(candidate.source, {})
        blank = read_untyped(problem.id, get_blank(problem))
        known = self._look_up(problem)
        if not blank.has_untyped:
            return WrittenText(candidate.source, {})
        if known.insertions is None:
            reply, types = await process.ask_types(blank)
            if error := next(iter(reply.errors), ""):
                raise ProblemError(
                    f"problem {problem.id!r}: with an empty body Dafny says {error!r}, so the "
                    "types that are left to it are unknown; write them out"
                )
            # Not before the answer: other workers of the pool look here meanwhile.
            known.insertions = tuple(read_insertions(problem, blank, types))
        return write_types(candidate, blank, known.insertions)

    async def find_refuted(
        self,
        process: DafnyProcess,
        problem: Problem,
        find: Callable[[DafnyProcess, Problem], Awaitable[str]],
    ) -> str:
        """The answer of ``find`` for the problem, asked once."""
        known = self._look_up(problem)
        if known.refuted is None:
            known.refuted = await find(process, problem)
        return known.refuted

    async def check_types(self, process: DafnyProcess, problem: Problem) -> None:
        """See that the types do no harm; raises ``ProblemError`` when Dafny refuses one.

        Due when a candidate was refused before anything was verified, which may be its own doing.
        """
        known = self._look_up(problem)
        if known.types_hold or not known.insertions:
            return
        reply = await process.ask_resolved(await self._write_blank(process, problem))
        if error := next(iter(reply.errors), ""):
            types = ", ".join(i.text.strip("(): ") for i in known.insertions if i.behind)
            raise ProblemError(
                f"problem {problem.id!r}: with the types that it infers written out ({types}) "
                f"Dafny says {error!r}; write them out in the problem"
            )
        known.types_hold = True

    async def _write_blank(self, process: DafnyProcess, problem: Problem) -> str:
        body = get_empty_body(problem)
        return (await self.write_types(process, Candidate(problem, body))).text
