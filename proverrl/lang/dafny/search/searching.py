"""What searches ask of Dafny.

Flows in: bodies, verdicts, keys of states. Flows out: what ``Searching`` promises.
"""

from __future__ import annotations

from proverrl.config.search import SearchStates
from proverrl.lang.base import Searching
from proverrl.lang.dafny.search.places import find_cuts
from proverrl.lang.dafny.search.states import (
    KINDS,
    NOTHING_KNOWN,
    segment_dafny,
    statement_segments,
)
from proverrl.lang.records import NO_GOALS, SegmentFn

_NO_OBLIGATION = ("in: ", "at: ")
_RETURN, _POST = "A postcondition might not hold", "This is the postcondition"
_NOTES = ("Related location", "This is the ")
_SEGMENTS: dict[SearchStates, SegmentFn] = {
    "obligations": segment_dafny,
    "statements": statement_segments,
}


class DafnySearching(Searching):
    """States are obligations, and texts before them."""

    kinds = KINDS

    def segment(self, states: SearchStates) -> SegmentFn:
        return _SEGMENTS[states]

    def list_prefixes(self, body: str) -> list[str]:
        return ["", *(body[: cut.end] for cut in find_cuts(body)[:-1])]

    def count_open(self, state: str) -> int | None:
        if not state or state.startswith("text: "):
            return None
        if NO_GOALS in (state, state.partition("\n")[0]):
            return 0
        lines = [line for line in state.split("\n") if not line.startswith(_NO_OBLIGATION)]
        if lines == [NOTHING_KNOWN]:
            return 0
        failed = [line for line in lines if not line.startswith(_NOTES)]
        returns = [line for line in failed if line.startswith(_RETURN)]
        # A return path has one line, however many postconditions fail on it; each has a note.
        num_post = sum(line.startswith(_POST) for line in lines)
        return len(failed) - len(returns) + max(len(returns), num_post)


SEARCHING = DafnySearching()
