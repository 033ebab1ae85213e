"""The sections ``[selfplay]``, a composer that writes statements for a solver, and ``[data_loop]``,
expert iteration on statements that the run composes itself.

The functions that the names choose stand in ``proverrl.rewards.composer`` (``reward``),
``proverrl.compose`` (``operators``, ``filters``, grades) and ``proverrl.loops.selfplay.selfplay``
(``composer``).
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from proverrl.config.base import Fraction, NonNegative, Options, Positive, Section, name_of
from proverrl.config.compose import DafnyOperator, FilterName, LeanOperator

ComposerName = Literal["program", "policy"]
ComposerFormat = Literal["statement", "edit"]
OperatorChoice = Literal["uniform", "useful"]
ParentChoice = Literal["all", "solved"]
ComposerWeights = Literal["shared", "own", "frozen"]


class SelfplayConfig(Section):
    """A composer that writes statements, each from a pair of base problems, and a solver.

    A statement must pass all ``filters``.
    """

    composer: Annotated[str, name_of("composer", ComposerName)] = "program"
    """what writes statements: ``program``, one operator per statement; or ``policy``"""
    options: Options = Field(default_factory=dict)
    """of a composer of your own, ``composer = "package.module:function"``
    ([plugins.md](plugins.md))"""
    format: ComposerFormat = "edit"
    """what a policy writes: ``edit``, scripts of operators; ``statement``, whole programs in a code
    block"""
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


GradeName = Literal["excellent", "good", "above_average", "fair", "poor"]


class DataLoopConfig(Section):
    """Grades, attack and end of the data loop.

    A statement is excellent, and one step worse for each limit that it misses, two where it misses
    it by half: ``min_obligations``, ``min_tokens`` to ``max_tokens``, ``min_novelty``.
    """

    keep: tuple[GradeName, ...] = ("excellent", "good", "above_average")
    """grades to keep; the others are ``fair`` and ``poor``"""
    min_obligations: NonNegative = 2
    """the fewest obligations that the verifier finds in a statement with an empty hole"""
    min_tokens: Positive = 20
    """the fewest tokens of a statement"""
    max_tokens: Positive = 300
    """and at most"""
    min_novelty: Fraction = 0.1
    """the smallest share of a statement's runs of four tokens that its nearest parent lacks"""
    attack_samples: Positive = 8
    """the policy's samples on a new statement, and the same number on its negation"""
    min_gain: Fraction = 0.02
    """growth of the number of proved statements in a round that counts as a gain; 0 never ends the
    loop"""
    patience: Positive = 2
    """rounds in a row without a gain that end the loop"""

    @model_validator(mode="after")
    def _something_is_kept(self) -> DataLoopConfig:
        if not self.keep:
            raise ValueError('keep names no grade; every statement would be dropped, set ["good"]')
        if self.min_tokens > self.max_tokens:
            raise ValueError("min_tokens is above max_tokens: no statement would be excellent")
        return self
