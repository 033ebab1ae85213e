"""The section ``[search]``: which search, its budget, and the constants of each.

Flows in: a table of TOML. Flows out: checked values. The functions that ``name`` chooses stand in
``proverrl.search.methods.SEARCHES`` and ``COMPOSITES``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast, get_args

from pydantic import Field

from proverrl.config.base import NonNegative, Positive, PositiveFloat, Section

BaseName = Literal["best_of_n", "self_correct", "best_first", "rmax_ts", "puct", "deepsearch"]
CompositeName = Literal["subgoals", "lemmas"]
SearchName = Literal[BaseName, CompositeName]
SearchStates = Literal["obligations", "statements"]
StepName = Literal["proof", "tactic"]
TierName = Literal["light", "medium", "heavy"]


class SearchConfig(Section):
    """A search for one proof. A budget of 0 tokens is no limit; ``width`` 0 is the method's own.

    ``max_in_flight`` 1 makes a search repeatable. A search ends before its budget when ``max_idle``
    expansions in a row proposed nothing that was not judged before. ``states`` is what is kept of a
    failed Dafny body: the set of obligations that it leaves open, or also each of the statements
    before, even where nothing was verified (``proverrl.lang.dafny.search.states``). ``value`` is
    the folder of a value model. ``step`` is what an expansion writes: all that is missing of a
    proof, or (Lean) one tactic (``proverrl.search.step_proposals``).

    In a search of several (``subgoals``, ``lemmas``), ``base`` writes the bodies and
    ``whole_share`` of the calls that are left goes to whole proofs; a part is taken apart down to
    ``part_depth``, and ``tier`` says how much goes into lemmas.
    """

    name: SearchName = "rmax_ts"
    states: SearchStates = "obligations"
    step: StepName = "proof"
    calls: Positive = 64
    tokens: NonNegative = 0
    stop_after: Positive = 1
    max_in_flight: Positive = 1
    max_idle: Positive = 64
    width: NonNegative = 0
    gamma: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.99
    max_prefixes: Positive = 16
    max_prefix_tokens: NonNegative = 0
    exploration: PositiveFloat = 0.2
    keep: Positive = 3
    length_power: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    rounds: NonNegative = 2
    max_depth: Positive = 64
    value_weight: Annotated[float, Field(ge=0.0)] = 0.4
    entropy_weight: Annotated[float, Field(ge=0.0)] = 0.4
    depth_weight: Annotated[float, Field(ge=0.0)] = 0.01
    base: BaseName = "best_of_n"
    whole_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    part_depth: Positive = 2
    tier: TierName = "medium"
    value: Path | None = None
    check: bool = False

    @property
    def base_name(self) -> BaseName:
        """The search that writes bodies: ``base`` in a search that is made of several."""
        return self.base if self.name in get_args(CompositeName) else cast(BaseName, self.name)
