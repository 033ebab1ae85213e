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

from proverrl.lab.words.kinds import AskingKind
from proverrl.lab.words.parts import Deciding, blank_out, find_deciding, refuse_opening
from proverrl.types import Candidate, Problem, Verdict

DECIDE = "decide"
"""The kind of a claim that is to be proved or disproved."""
SIDES = ("prove", "disprove")
"""The words for a claim that holds, and for one that does not."""

_SIDE = re.compile(r"\s*(prove|disprove)(?![\w'?!.])")


def read_side(problem: Problem, body: str) -> str:
    """The side that a body chooses; empty without one, and for a problem that decides nothing."""
    found = _SIDE.match(body) if problem.kind == DECIDE else None
    return found[1] if found else ""


def settle(deciding: Deciding, candidate: Candidate) -> Candidate | Verdict:
    """The candidate to verify for a side; the verdict of one that chooses no side. Raises
    ``ProblemError`` as ``Deciding.state``."""
    body = candidate.body
    found = _SIDE.match(body)
    if found is None:
        message = "side: begin with 'prove' or 'disprove', then a proof of that side"
        return refuse_opening(candidate, "side", message)
    stated = deciding.state(candidate.problem, found[1])
    return Candidate(stated, blank_out(found[0]) + body[found.end() :], candidate.prelude)


class DecideKind(AskingKind[Deciding]):
    """The kind ``decide`` of one language."""

    asked = "claims to be decided"
    words = frozenset(SIDES)
    ask = (
        "Decide whether the lemma holds: write the word prove and then its proof statements, or "
        "the word disprove and then proof statements that show arguments for which it fails "
        "(assert Fails(...);),"
    )

    def find_part(self) -> Deciding | None:
        """See ``AskingKind``."""
        return find_deciding(self.language)

    def check(self, problem: Problem) -> None:
        """See ``Kind``."""
        self.part.check(problem)

    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        """See ``Kind``."""
        return settle(self.part, candidate)

    def show(self, problem: Problem) -> str:
        """See ``Kind``."""
        return self.part.show(problem)


DAFNY = DecideKind("dafny")
LEAN = DecideKind("lean")
