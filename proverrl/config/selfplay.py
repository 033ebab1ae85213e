"""The section ``[selfplay]``: a composer that writes statements, and a solver that proves them.

Flows in: a table of TOML. Flows out: checked values. The functions that the names choose stand in
``proverrl.rewards.composer`` (``reward``), ``proverrl.compose`` (``operators``, ``guards``) and
``proverrl.loops.selfplay_step`` (``composer``). Not handled here: the loop.
"""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import model_validator

from proverrl.config.base import Fraction, NonNegative, Positive, Section
from proverrl.config.compose import DafnyOperator, GuardName, LeanOperator, SelfplayScaffold
from proverrl.config.curriculum import CollapseConfig

ComposerName = Literal["program", "policy"]
ComposerFormat = Literal["statement", "edit"]
ComposerRewardName = Literal["gar", "absolute_zero", "stp"]
ParentChoice = Literal["all", "solved", "mixed", "archive"]


class SelfplayConfig(Section):
    """``statements`` new ones a step, each from a pair of base problems.

    ``composer = "program"`` applies ``operators`` (all of the language where empty) and learns
    nothing. ``"policy"`` has a model write: the solver's weights with ``shared``, else a copy of
    them with a learner of its own; ``train_composer = false`` leaves out its samples. It writes
    whole statements, or with ``format = "edit"`` scripts of operators, which warm start teaches
    with ``warm_pairs`` examples.

    ``scaffold_share`` of the statements are made by ``scaffolds`` from what the run solved or
    failed, as far as there is such; none without names.

    The guard ``refuted`` tries ``attack_samples`` bodies of the solver on each negation.

    Of a step's ``grpo.groups_per_draw`` groups at least ``base_share`` are on problems that the
    curriculum draws; the solver learns from groups with ``solver_low`` < p <= ``solver_high``.
    """

    composer: ComposerName = "program"
    format: ComposerFormat = "edit"
    shared: bool = True
    train_composer: bool = True
    statements: Positive = 8
    parents: ParentChoice = "all"
    operators: tuple[DafnyOperator | LeanOperator, ...] = ()
    scaffolds: tuple[SelfplayScaffold, ...] = ()
    scaffold_share: Fraction = 0.5
    attack_samples: NonNegative = 0
    guards: tuple[GuardName, ...] = get_args(GuardName)
    near_share: Fraction = 1.0
    base_share: Fraction = 0.5
    reward: ComposerRewardName = "gar"
    stp_high: Fraction = 0.25
    stp_drop: Fraction = 0.2
    solver_low: Fraction = 0.0
    solver_high: Fraction = 0.5
    modified_weight: Fraction = 0.5
    max_new_tokens: Positive = 48
    warm_pairs: NonNegative = 400
    collapse: CollapseConfig = CollapseConfig()

    @model_validator(mode="after")
    def _window_is_open(self) -> SelfplayConfig:
        if self.solver_low >= self.solver_high:
            raise ValueError(
                "solver_low is not below solver_high: the solver would learn from no group"
            )
        return self
