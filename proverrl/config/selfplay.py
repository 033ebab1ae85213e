"""The section ``[selfplay]``: a composer that writes statements, and a solver that proves them.

Flows in: a table of TOML. Flows out: checked values. The functions that the names choose stand in
``proverrl.rewards.composer`` (``reward``), ``proverrl.compose`` (``operators``, ``guards``) and
``proverrl.loops.selfplay.source`` (``composer``). Not handled here: the loop.
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
    """A composer that writes statements, each from a pair of base problems, and a solver.

    A composing policy that is not ``shared`` has a learner of its own. A statement must pass all
    ``guards``.
    """

    composer: ComposerName = "program"
    """what writes statements: ``program``, one operator a statement, or ``policy``"""
    format: ComposerFormat = "edit"
    """what a policy writes: ``edit``, scripts of operators; ``statement``, whole programs in a code
    block"""
    shared: bool = True
    """the composer has the solver's weights; otherwise a copy of the first ones"""
    train_composer: bool = True
    """the composer's samples are learned from. ``false`` with ``shared = false`` is a frozen
    composer"""
    statements: Positive = 8
    """statements a step, before the guards"""
    parents: ParentChoice = "all"
    """which base problems are paired: ``all``; ``solved``, both proved by this run; ``mixed``, one
    proved and one not (while none is proved, any); ``archive``, base problems and kept composed
    ones with a solve rate between 0 and 1"""
    operators: tuple[DafnyOperator | LeanOperator, ...] = ()
    """the operators that are used; empty: all of the problems' language"""
    operator_choice: OperatorChoice = "uniform"
    """how a program chooses among them: ``uniform``, each with the same chance; ``useful``, by the
    share of their statements so far that no guard stopped and that the solver's window held
    (Thompson's sampling). Refused in the data loop"""
    scaffolds: tuple[SelfplayScaffold, ...] = ()
    """scaffolds that make part of the statements from what the run solved or failed: ``subgoals``,
    ``show_hints``, ``mask_hint``, ``easier``, ``harder``, ``extract_lemma``, ``chain_solved``"""
    scaffold_share: Fraction = 0.5
    """the share of a step's statements that scaffolds make, as far as there is something to build
    on"""
    attack_samples: NonNegative = 0
    """bodies that the solver writes for the negation of each new statement, for the guard
    ``refuted``; 0 is off"""
    guards: tuple[GuardName, ...] = get_args(GuardName)
    """the guards that are asked"""
    late_guards: tuple[GuardName, ...] = ()
    """of these the ones that are asked after the solver's attempts, and only about statements that
    some attempts proved and others did not; nothing is learned from the others. Not ``duplicate``
    and ``leak``, which cost no call. Refused in the data loop, which has an order of its own"""
    near_share: Fraction = 1.0
    """the share of a held-out problem's runs of tokens that makes a leak"""
    base_share: Fraction = 0.5
    """of a step's ``grpo.groups_per_draw`` groups, the share on problems of the curriculum, at
    least"""
    reward: ComposerRewardName = "gar"
    """what a statement earns: ``gar``, ``absolute_zero`` or ``stp``"""
    stp_high: Fraction = 0.25
    """``stp``: statements with a solve rate above 0 up to this are useful"""
    stp_drop: Fraction = 0.2
    """``stp``: of the useful ones the share with the lowest ratio of proof to statement earns
    nothing"""
    solver_low: Fraction = 0.0
    """the solver learns from groups with a solve rate above this"""
    solver_high: Fraction = 0.5
    """and up to this"""
    modified_weight: Fraction = 0.5
    """what a proof that changed the statement loses of its reward"""
    max_new_tokens: Positive = 48
    """the limit of what a composing policy writes"""
    warm_pairs: NonNegative = 400
    """scripts on training problems that warm start teaches, where a policy writes scripts"""
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
