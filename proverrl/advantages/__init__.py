"""Advantages: pure functions from the groups of a step to a number for each turn or token.

Flows in: ``AdvantageInputs``. Flows out: ``GroupAdvantages``, which the sample builder applies to
the tokens. ``base`` defines the interface; a method is a function in ``ADVANTAGES`` and a name in
``proverrl.config.AdvantageName``, and ``ADMITS`` says which groups it can learn from.
"""

from proverrl.advantages.admission import (
    ADMITS,
    AdmitFn,
    admit_groups,
    pass_rate,
    within_pass_rates,
)
from proverrl.advantages.base import (
    AdvantageFn,
    AdvantageInputs,
    Credit,
    GroupAdvantages,
    MakeSteps,
    Moments,
    RewardHistory,
    Step,
    StepsFn,
    carries_signal,
    mean_credit,
    token_credit,
)
from proverrl.advantages.batch import batch_std, dcpo_smooth
from proverrl.advantages.best_of import annealed_k, best_of_weights, pkpo
from proverrl.advantages.goals import goal_steps
from proverrl.advantages.group import dr_grpo, grpo, max_rl, ngrpo, rloo, w_reinforce
from proverrl.advantages.tree import line_steps, prefix_values, salt, tempo
from proverrl.advantages.verdicts import obligations, turn_credit, weigh_entries
from proverrl.config import AdvantageName, StatesName

ADVANTAGES: dict[AdvantageName, AdvantageFn] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "batch_std": batch_std,
    "rloo": rloo,
    "max_rl": max_rl,
    "ngrpo": ngrpo,
    "w_reinforce": w_reinforce,
    "pkpo": pkpo,
    "dcpo_smooth": dcpo_smooth,
    "turn_credit": turn_credit,
    "obligations": obligations,
    "tempo": tempo,
    "salt": salt,
}

STEPS: dict[StatesName, MakeSteps] = {"lines": line_steps, "goals": goal_steps}
"""What the steps of a turn are, for methods that compare steps."""

__all__ = [
    "ADMITS",
    "ADVANTAGES",
    "STEPS",
    "AdmitFn",
    "AdvantageFn",
    "AdvantageInputs",
    "Credit",
    "GroupAdvantages",
    "MakeSteps",
    "Moments",
    "RewardHistory",
    "Step",
    "StepsFn",
    "admit_groups",
    "annealed_k",
    "batch_std",
    "best_of_weights",
    "carries_signal",
    "dcpo_smooth",
    "dr_grpo",
    "goal_steps",
    "grpo",
    "line_steps",
    "max_rl",
    "mean_credit",
    "ngrpo",
    "obligations",
    "pass_rate",
    "pkpo",
    "prefix_values",
    "rloo",
    "salt",
    "tempo",
    "token_credit",
    "turn_credit",
    "w_reinforce",
    "weigh_entries",
    "within_pass_rates",
]
