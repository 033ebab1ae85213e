"""The section ``[search]``: which search, its budget, and the constants of each.

Flows in: a table of TOML. Flows out: checked values. The functions that ``name`` chooses stand in
``proverrl.search.methods.SEARCHES``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from proverrl.config.base import NonNegative, Positive, PositiveFloat, Section

SearchName = Literal["best_of_n", "self_correct", "best_first", "rmax_ts", "puct", "deepsearch"]
SearchStates = Literal["obligations", "statements"]
StepName = Literal["proof", "tactic"]
TierName = Literal["light", "medium", "heavy"]


class SearchConfig(Section):
    """A search for one proof. A budget of 0 tokens is no limit; ``width`` 0 is the method's own.

    ``max_in_flight`` 1 makes a search repeatable. A search ends before its budget when
    ``max_idle`` expansions in a row proposed nothing that was not judged before. ``states`` is what
    is kept of a failed Dafny body: the set of obligations that it leaves open, or also each of the
    statements before, even where nothing was verified (``proverrl.search.states_dafny``). ``value``
    is the folder of a value model. ``step`` is what an expansion writes: all that is missing of a
    proof, or (Lean) one tactic (``proverrl.search.step_proposals``).
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
    value: Path | None = None
    check: bool = False
