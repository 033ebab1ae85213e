"""The section ``[search]``: the search, its budget, and the constants of each.

The strategies that ``name`` chooses stand in ``proverrl.search.run.SEARCHES``, but for
``pooled_hints``, which is made around ``best_of_n``.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from proverrl.config.base import (
    NonNegative,
    Options,
    Positive,
    Section,
    name_of,
)

TreeSearchName = Literal["best_of_n", "self_correct", "best_first", "rmax_ts"]
SearchName = Literal[TreeSearchName, "pooled_hints"]
SearchStates = Literal["obligations", "statements"]
StepName = Literal["proof", "tactic"]


class SearchConfig(Section):
    """A search for one proof. ``proverrl.lang.dafny.search.states`` says more of ``states``,
    ``proverrl.search.proposals.PROPOSERS`` of ``step``."""

    name: Annotated[str, name_of("search", SearchName)] = "best_of_n"
    """``best_of_n``, ``self_correct``, ``best_first``, ``rmax_ts`` or ``pooled_hints``"""
    options: Options = Field(default_factory=dict)
    """of a search of your own, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""
    states: SearchStates = "obligations"
    """what is kept of a failed Dafny body: ``obligations``, the statements before the first failing
    one; ``statements``, each earlier statement as well"""
    step: StepName = "proof"
    """what an expansion writes: ``proof``, all of the rest; ``tactic`` (Lean), one line of tactics,
    as in BFS-Prover"""
    calls: Positive = 64
    """the most verifier calls; a body that the search has judged costs none"""
    stop_after: Positive = 1
    """ends the search after this many proofs"""
    max_in_flight: Positive = 1
    """expansions and verifier calls at once; 1 makes a search repeatable"""
    max_idle: Positive = 64
    """ends the search after so many expansions in a row without anything new; ``pooled_hints``:
    judges whole bodies again after so many answers"""
    width: NonNegative = 0
    """bodies per expansion; 0: 1, but ``best_first`` 4, ``pooled_hints`` 8 after what
    stands (``self_correct`` has its own)"""
    length_power: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    """``best_first``: log-probability is divided by depth to this power"""
    whole_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """``pooled_hints``: share of the remaining calls that goes to whole proofs"""

    @property
    def is_ours(self) -> bool:
        """False where ``name`` is a search of somebody's own."""
        return self.name in get_args(SearchName)
