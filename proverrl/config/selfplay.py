"""The section ``[selfplay]``, a composer that writes statements for a solver.

The functions that the names choose stand in ``proverrl.rewards`` (``reward``),
``proverrl.compose.operators`` and ``proverrl.lang.lean.compose`` (``operators``),
``proverrl.compose.filters`` (``filters``) and ``proverrl.loops.selfplay.selfplay`` (``composer``).
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from proverrl.config.base import Fraction, Options, Positive, Section, name_of

DafnyOperator = Literal[
    "change_constant",
    "flip_sign",
    "change_bound",
    "drop_requires",
    "add_requires",
    "drop_ensures",
    "weaken_ensures",
    "strengthen_ensures",
    "instantiate",
    "generalise",
    "apply_lemma",
    "negate",
    "conjoin_lemmas",
    "sequence_loops",
    "chain_calls",
    "nest_loop",
]

LeanOperator = Literal["lean_fuse", "lean_instantiate", "lean_generalise", "lean_negate"]

FilterName = Literal[
    "duplicate",
    "leak",
    "well_formed",
    "satisfiable",
    "trivial",
    "weak_contract",
    "refuted",
]


ComposerName = Literal["program", "policy"]
OperatorChoice = Literal["uniform", "useful"]
ParentChoice = Literal["all", "solved"]
ComposerWeights = Literal["shared", "own", "frozen"]


class SelfplayConfig(Section):
    """A composer that writes statements, each from a pair of base problems, and a solver.

    A statement must pass all ``filters``.
    """

    composer: Annotated[str, name_of("composer", ComposerName)] = "program"
    """what writes statements: ``program``, one operator per statement; or ``policy``, scripts of
    operators"""
    options: Options = Field(default_factory=dict)
    """of a composer of your own, ``composer = "package.module:function"``
    ([plugins.md](plugins.md))"""
    weights: ComposerWeights = "shared"
    """of a composing policy: ``shared``, the solver's; ``own``, a copy of the first ones, which
    learns by itself; ``frozen``, a copy that never learns"""
    statements: Positive = 8
    """statements per step, before the filters"""
    parents: ParentChoice = "all"
    """which base problems are paired: ``all``, or ``solved``, those that this run has proved"""
    operators: tuple[DafnyOperator | LeanOperator, ...] = ()
    """the operators to use; empty: all operators of the problems' language"""
    operator_choice: OperatorChoice = "uniform"
    """how a program chooses among them: ``uniform``; ``useful``, by how often their statements
    passed and lay in the solver's window (Thompson sampling). Refused in the data loop"""
    filters: tuple[FilterName, ...] = get_args(FilterName)
    """the filters that check statements"""
    late_filters: tuple[FilterName, ...] = ()
    """those of the filters that run after the solver's attempts
    ([selfplay.md](selfplay.md#late-filters)). Not ``duplicate`` and ``leak``, which cost no calls.
    Refused in the data loop"""
    base_share: Fraction = 0.5
    """the smallest share of a step's ``grpo.groups_per_draw`` groups on problems of the
    curriculum"""
    solve_rates: tuple[Fraction, Fraction] = (0.0, 0.5)
    """the solver learns from groups with a solve rate above the first and up to the second"""
    max_new_tokens: Positive = 48
    """the most tokens that a composing policy writes"""

    @model_validator(mode="after")
    def _late_filters_are_filters(self) -> SelfplayConfig:
        for name in self.late_filters:
            if name in ("duplicate", "leak"):
                raise ValueError(f"late_filters: {name} costs no call and is always asked first")
            if name not in self.filters:
                raise ValueError(f"late_filters names {name}, which filters does not")
        return self

    @model_validator(mode="after")
    def _window_is_open(self) -> SelfplayConfig:
        if self.solve_rates[0] >= self.solve_rates[1]:
            raise ValueError("solve_rates do not rise: the solver would learn from no group")
        return self
