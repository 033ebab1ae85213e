"""The section ``[selfplay]``: a composer that writes statements, and a solver that proves them.

Flows in: a table of TOML. Flows out: checked values. The functions that the names choose stand in
``proverrl.rewards.composer`` (``reward``), ``proverrl.compose`` (``operators``, ``guards``) and
``proverrl.loops.selfplay.step`` (``composer``). Not handled here: the loop.
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
OperatorChoice = Literal["uniform", "useful"]
ParentChoice = Literal["all", "solved", "mixed", "archive"]


class SelfplayConfig(Section):
    """``statements`` new ones per step, each from a pair of base problems.

    ``composer = "program"`` applies ``operators`` (all of the language where empty), each with the
    same chance, or with ``operator_choice = "useful"`` by what became of their statements: by the
    share that lay within the solver's window. ``"policy"`` has a model write: the solver's weights
    with ``shared``, else a copy of them with a learner of its own; ``train_composer = false``
    leaves out its samples. It writes whole statements, or with ``format = "edit"`` scripts of
    operators, which warm start teaches with ``warm_pairs`` examples.

    ``scaffold_share`` of the statements are made by ``scaffolds`` from what the run solved or
    failed, as far as there is such; none without names.

    A statement must pass all ``guards``. ``late_guards`` of them are asked after the solver's
    attempts, and only if some of these proved it and others did not: nothing is learned from the
    rest, which need no answer. The guard ``refuted`` tries ``attack_samples`` bodies of the solver
    on each negation.

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
    operator_choice: OperatorChoice = "uniform"
    scaffolds: tuple[SelfplayScaffold, ...] = ()
    scaffold_share: Fraction = 0.5
    attack_samples: NonNegative = 0
    guards: tuple[GuardName, ...] = get_args(GuardName)
    late_guards: tuple[GuardName, ...] = ()
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
    def _late_guards_are_guards(self) -> SelfplayConfig:
        for name in self.late_guards:
            if name in ("duplicate", "leak"):
                raise ValueError(f"late_guards: {name} costs no call and is always asked first")
            if name not in self.guards:
                raise ValueError(f"late_guards names {name}, which guards does not")
        return self

    @model_validator(mode="after")
    def _window_is_open(self) -> SelfplayConfig:
        if self.solver_low >= self.solver_high:
            raise ValueError(
                "solver_low is not below solver_high: the solver would learn from no group"
            )
        return self
