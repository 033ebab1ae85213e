"""Methods that compare the rewards of one group, one number per rollout.

Flows in: ``AdvantageInputs``. Flows out: for every rollout one value, the same for all its turns
and tokens. Each group is judged alone. Not handled here: statistics over the batch or over earlier
steps (``batch``), sets of k rollouts (``best_of``), credit within a rollout (``turns``, ``tree``).
"""

from __future__ import annotations

import math

from proverrl.advantages.base import AdvantageInputs, GroupAdvantages, spread, totals
from proverrl.config import AdvantageConfig
from proverrl.statistics import STD_EPSILON, centre, standardize
from proverrl.types import Group, Status


def grpo(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """(r - mean) / (std + 1e-6), population std (GRPO, Shao et al. 2024, arXiv 2402.03300)."""
    return [spread(group, standardize(totals(group))) for group in inputs.groups]


def dr_grpo(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """r - mean, without the division by std (Dr. GRPO, Liu et al. 2025, arXiv 2503.20783)."""
    return [spread(group, centre(totals(group))) for group in inputs.groups]


def rloo(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """r minus the mean of the others (RLOO, Ahmadian et al. 2024, arXiv 2402.14740).

    A group of one has no baseline and gets advantage 0.
    """
    return [spread(group, leave_one_out(totals(group))) for group in inputs.groups]


def leave_one_out(rewards: list[float]) -> list[float]:
    """Each reward minus the mean of the others; 0 for a single one."""
    n = len(rewards)
    return [value * n / (n - 1) for value in centre(rewards)] if n > 1 else [0.0] * n


def max_rl(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """(r - mean) / mean, at most ``max_rl_cap``: gives hard problems more weight (MaxRL, as in
    prime-rl).

    A mean that is not positive leaves the weight undefined; such a group gets 0.
    """
    return [
        spread(group, _over_mean(totals(group), inputs.settings.max_rl_cap))
        for group in inputs.groups
    ]


def _over_mean(rewards: list[float], cap: float) -> list[float]:
    mean = sum(rewards) / len(rewards)
    if mean <= 0.0:
        return [0.0] * len(rewards)
    return [min(value / mean, cap) for value in centre(rewards)]


def ngrpo(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """GRPO with one virtual rollout of reward ``ngrpo_virtual`` in mean and std (NGRPO, Nan et al.
    2025, arXiv 2509.18851).

    The std is the unbiased one, over the G rewards and the virtual one. In a group of G that failed
    entirely each rollout gets -1 / sqrt(G + 1), where GRPO gives 0. Values are clipped to
    +-``ngrpo_cap``. The paper also clips the ratio at 0.16 below and 0.24 above, which is up to the
    learner.
    """
    return [spread(group, _with_virtual(totals(group), inputs.settings)) for group in inputs.groups]


def _with_virtual(rewards: list[float], settings: AdvantageConfig) -> list[float]:
    centred = centre([*rewards, settings.ngrpo_virtual])
    std = math.sqrt(sum(value * value for value in centred) / len(rewards))
    cap = settings.ngrpo_cap
    return [max(-cap, min(cap, value / (std + STD_EPSILON))) for value in centred[:-1]]


def w_reinforce(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """+``proved_weight`` for a proved rollout, -``failed_weight`` for any other (W-REINFORCE, Zhu
    et al. 2025, arXiv 2506.01347: weights 0.1 and 1).

    Their NSR (negative samples only) is ``proved_weight = 0``, their PSR ``failed_weight = 0``.
    Reads verdicts, not rewards, so partial credit and penalties have no effect.
    """
    return [spread(group, _signed(group, inputs.settings)) for group in inputs.groups]


def _signed(group: Group, settings: AdvantageConfig) -> list[float]:
    return [
        settings.proved_weight if rollout.status is Status.PROVED else -settings.failed_weight
        for rollout in group.rollouts
    ]
