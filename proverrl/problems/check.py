"""Checks a file of somebody's own problems, line by line.

Flows in: a file, perhaps a verifier. Flows out: what is wrong, each with its line and a remedy, and
what the verifier says of the references. Not handled here: other formats than our own rows, which
``problems convert`` reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from proverrl.errors import ProblemError, ToolchainError
from proverrl.lang import find_language
from proverrl.problems.load import read_places
from proverrl.types import FILE, Candidate, Problem
from proverrl.verifier.base import Verifier


@dataclass(slots=True)
class FileCheck:
    """``faults`` begin with the file and the line. ``right`` are the other problems, with their
    places and references, ``num_missing`` those whose verifier is not there, ``num_problems`` all
    of the file."""

    faults: list[str] = field(default_factory=list)
    right: list[tuple[str, Problem, str | None]] = field(default_factory=list)
    num_proved: int = 0
    num_missing: int = 0
    num_problems: int = 0

    def describe(self) -> str:
        """One line for a person."""
        known = sum(reference is not None for _, _, reference in self.right)
        return f"{self.num_problems} problems, {known} with a reference; {len(self.faults)} faults"


def check_file(path: Path) -> FileCheck:
    """Faults that show without a verifier: fields, ids, texts that no proof can be held to, and
    references that the audit refuses. Raises ``ProblemError`` for a file that cannot be read."""
    found = FileCheck()
    first: dict[str, str] = {}

    def fault(error: ProblemError) -> None:
        found.faults.append(str(error))

    for where, problem, reference in read_places(path, fault):
        language = find_language(problem.language)
        said = language.find_objection(problem, reference)
        can_hold = not said and FILE in language.kinds
        if can_hold and (cheat := language.find_cheat(problem)):
            said = f"the problem assumes something, of which a proof may then be made: {cheat}"
        key = Candidate(problem, "").key
        if not said and key in first:
            said = f"it states what {first[key]} does; drop one of the two"
        if said:
            found.faults.append(f"{where}: problem {problem.id!r}: {said}")
        else:
            first[key] = where
            found.right.append((where, problem, reference))
    # Each has one fault so far, or is right.
    found.num_problems = len(found.right) + len(found.faults)
    return found


async def prove_references(
    found: FileCheck, verifier: Verifier, *, deadline_seconds: float, show: Callable[[], None]
) -> None:
    """Add a fault for each reference that the verifier does not prove; ``show`` is called after
    each. A problem that the verifier refuses, or for which there is none, is a fault as well."""

    async def prove(where: str, problem: Problem, reference: str) -> None:
        try:
            verdict = await verifier.verify(
                Candidate(problem, reference), deadline_seconds=deadline_seconds
            )
        except (ProblemError, ToolchainError) as error:
            found.num_missing += isinstance(error, ToolchainError)
            found.faults.append(f"{where}: {error}")
        else:
            found.num_proved += verdict.proved
            if not verdict.proved:
                said = next((d.message for d in verdict.diagnostics if d.severity == "error"), "")
                reason = f": {said.splitlines()[0]}" if said else ""
                found.faults.append(
                    f"{where}: problem {problem.id!r}: its reference is {verdict.status}{reason}"
                )
        show()

    known = [(where, p, body) for where, p, body in found.right if body is not None]
    await asyncio.gather(*(prove(*each) for each in known))
