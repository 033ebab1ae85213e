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
ComposerRewardName = Literal["gar", "absolute_zero", "stp"]
OperatorChoice = Literal["uniform", "useful"]
ParentChoice = Literal["all", "solved", "mixed", "archive"]


class SelfplayConfig(Section):
    """A composer that writes statements, each from a pair of base problems, and a solver.

    A composing policy that is not ``shared`` has a learner of its own. A statement must pass all
    ``filters``.
    """

    composer: Annotated[str, name_of("composer", ComposerName)] = "program"
    """what writes statements: ``program``, one operator per statement; or ``policy``"""
    options: Options = Field(default_factory=dict)
    """of a composer of your own, ``composer = "package.module:function"``
    ([plugins.md](plugins.md))"""
    format: ComposerFormat = "edit"
    """what a policy writes: ``edit``, scripts of operators; ``statement``, whole programs in a code
    block"""
    shared: bool = True
    """the composer shares the solver's weights; `false` gives it a copy of the initial ones"""
    train_composer: bool = True
    """learn from the composer's samples. ``false`` with ``shared = false`` is a frozen composer"""
    statements: Positive = 8
    """statements per step, before the filters"""
    parents: ParentChoice = "all"
    """which base problems are paired: ``all``; ``solved``, both proved by this run; ``mixed``, one
    proved and one not; ``archive``, also kept composed ones with a solve rate between 0 and 1"""
    operators: tuple[DafnyOperator | LeanOperator, ...] = ()
    """the operators to use; empty: all operators of the problems' language"""
    operator_choice: OperatorChoice = "uniform"
    """how a program chooses among them: ``uniform``; ``useful``, by how often their statements
    passed and lay in the solver's window (Thompson sampling). Refused in the data loop"""
    attack_samples: NonNegative = 0
    """bodies that the solver writes for the negation of each new statement, for the filter
    ``refuted``; 0 is off"""
    filters: tuple[FilterName, ...] = get_args(FilterName)
    """the filters that check statements"""
    late_filters: tuple[FilterName, ...] = ()
    """those of the filters that run after the solver's attempts
    ([selfplay.md](selfplay.md#late-filters)). Not ``duplicate`` and ``leak``, which cost no calls.
    Refused in the data loop"""
    near_share: Fraction = 1.0
    """a statement that holds this share of a held-out problem's token runs is a leak"""
    base_share: Fraction = 0.5
    """the smallest share of a step's ``grpo.groups_per_draw`` groups on problems of the
    curriculum"""
    reward: ComposerRewardName = "gar"
    """what a statement earns: ``gar``, ``absolute_zero`` or ``stp``"""
    stp_high: Fraction = 0.25
    """``stp``: statements with a solve rate above 0 and up to this are useful"""
    stp_drop: Fraction = 0.2
    """``stp``: this share of the useful ones, those with the lowest ratio of proof to statement
    length, earns nothing"""
    solver_low: Fraction = 0.0
    """the solver learns from groups with a solve rate above this"""
    solver_high: Fraction = 0.5
    """and up to this"""
    modified_weight: Fraction = 0.5
    """the share of its reward that a proof loses for changing the statement"""
    max_new_tokens: Positive = 48
    """the most tokens that a composing policy writes"""
    warm_pairs: NonNegative = 400
    """scripts on training problems that the warm start teaches, when a policy writes scripts"""

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
        if self.solver_low >= self.solver_high:
            raise ValueError(
                "solver_low is not below solver_high: the solver would learn from no group"
            )
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
