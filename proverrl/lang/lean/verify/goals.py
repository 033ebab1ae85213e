"""The states that a Lean proof goes through, in a form in which equal states are equal texts.

Flows in: the tactics of an elaboration with the goals before each. Flows out: places in the body
with those goals, for searches that follow states and not words.
Not handled here: states that differ in the names of hypotheses alone, which stay different.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from proverrl.lang.lean.verify.workers.messages import TacticStep
from proverrl.lang.records import NO_GOALS
from proverrl.types import BodyState, Candidate
from proverrl.verifier.body_place import find_body_place

_CASE = re.compile(r"^case .*$\n?", re.MULTILINE)
_METAVARIABLE = re.compile(r"\?[A-Za-z_]\w*\.\d+(?:\.\d+)*")


def canonical_goals(goals: Sequence[str]) -> str:
    """Goals as one text: names of cases left out, blanks squeezed, numbered metavariables counted
    from 1 in order of appearance; ``no goals`` for none."""
    numbers: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        return numbers.setdefault(match.group(), f"?{len(numbers) + 1}")

    kept = []
    for goal in goals:
        lines = (" ".join(line.split()) for line in _CASE.sub("", goal).split("\n"))
        text = _METAVARIABLE.sub(rename, "\n".join(line for line in lines if line))
        if text and text != NO_GOALS:
            kept.append(text)
    return "\n\n".join(kept) or NO_GOALS


def find_states(
    tactics: Sequence[TacticStep], candidate: Candidate, first_line: int
) -> tuple[BodyState, ...]:
    """The places where tactics begin in the body and the goals before them, in the order of the
    text.

    ``first_line`` is the line of the assembled file, less one, at which the text that was run
    starts. Of tactics that begin together the one that Lean lists first counts, the outer one.
    """
    found: dict[tuple[int, int], str] = {}
    for step in tactics:
        place = find_body_place(candidate, step.start.line + first_line, step.start.column)
        if place is not None:
            found.setdefault(place, canonical_goals(step.goals.split("\n\n")))
    return tuple((line, column, goals) for (line, column), goals in sorted(found.items()))
