"""Bodies that prove a claim or disprove it, and say which in their first word.

Flows in: a candidate of the kind ``decide``. Flows out: the candidate that is audited and verified
in its place. Its statement is our own text, the claim or its negation; its body is the rest, with
blanks where the word stood, so that all places in it stay. Without that word there is a verdict,
and nothing is verified. So ``proved`` is a proof of the side that was chosen, and no body can leave
the choice to a law such as that of the excluded middle.
Not handled here: the two statements (``Deciding.state``, a language's own).
"""

from __future__ import annotations

import re

from proverrl.lang.parts import Deciding
from proverrl.types import DECIDE, Candidate, Problem, Verdict
from proverrl.verifier.body_place import blank_out, refuse_opening

SIDES = ("prove", "disprove")
"""What is said of a claim that holds, and of one that does not."""

_SIDE = re.compile(r"\s*(prove|disprove)(?![\w'?!.])")


def read_side(problem: Problem, body: str) -> str:
    """The side that a body chooses; empty without one, and for a problem that decides nothing."""
    found = _SIDE.match(body) if problem.kind == DECIDE else None
    return found[1] if found else ""


def settle(deciding: Deciding, candidate: Candidate) -> Candidate | Verdict:
    """What is verified of a candidate; the verdict of one that chooses no side. Raises
    ``ProblemError`` as ``Deciding.state``."""
    body = candidate.body
    found = _SIDE.match(body)
    if found is None:
        message = "side: begin with 'prove' or 'disprove', then a proof of that side"
        return refuse_opening(candidate, "side", message)
    stated = deciding.state(candidate.problem, found[1])
    return Candidate(stated, blank_out(found[0]) + body[found.end() :], candidate.prelude)
