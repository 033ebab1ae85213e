"""What searches ask of Lean.

Flows in: bodies, verdicts, keys of states. Flows out: what ``Searching`` promises.
"""

from __future__ import annotations

from proverrl.config.search import SearchStates
from proverrl.errors import UsageError
from proverrl.lang.base import Searching
from proverrl.lang.lean.audit import LEAN_KINDS
from proverrl.lang.lean.search.states import resume_comment, segment_lean
from proverrl.lang.records import NO_GOALS, Prefix, SegmentFn
from proverrl.types import Problem


class LeanSearching(Searching):
    """States are goals, as Lean prints them before each tactic."""

    kinds = frozenset(LEAN_KINDS)
    has_steps = True
    needs_traces = True

    def segment(self, states: SearchStates) -> SegmentFn:
        return segment_lean

    def list_prefixes(self, body: str) -> list[str]:
        raise UsageError("prefixes of Lean proofs are read from their states, not from their text")

    def count_open(self, state: str) -> int | None:
        if not state or state.startswith("text: "):
            return None
        return 0 if state == NO_GOALS else state.count("\n\n") + 1

    def resume_comment(self, problem: Problem, prefix: Prefix) -> str:
        return resume_comment(problem, prefix)


SEARCHING = LeanSearching()
