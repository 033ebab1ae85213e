"""Methods that compare the rewards of one group: for every rollout one value, the same for all its
turns and tokens."""

from __future__ import annotations

import math

from proverrl.advantages.base import AdvantageInputs, per_group, totals
from proverrl.statistics import STD_EPSILON, centre, standardize
from proverrl.types import Group, Status


@per_group
def grpo(group: Group, inputs: AdvantageInputs) -> list[float]:
    """(r - mean) / (std + 1e-6), population std (GRPO, Shao et al. 2024, arXiv 2402.03300)."""
    return standardize(totals(group))


@per_group
def dr_grpo(group: Group, inputs: AdvantageInputs) -> list[float]:
    """r - mean, without the division by std (Dr. GRPO, Liu et al. 2025, arXiv 2503.20783)."""
    return centre(totals(group))


@per_group
def rloo(group: Group, inputs: AdvantageInputs) -> list[float]:
    """r minus the mean of the others (RLOO, Ahmadian et al. 2024, arXiv 2402.14740); 0 in a group
    of one."""
    return leave_one_out(totals(group))


def leave_one_out(rewards: list[float]) -> list[float]:
    """Each reward minus the mean of the others; 0 for a single one."""
    n = len(rewards)
    return [value * n / (n - 1) for value in centre(rewards)] if n > 1 else [0.0] * n


@per_group
def max_rl(group: Group, inputs: AdvantageInputs) -> list[float]:
    """(r - mean) / mean, at most ``max_rl_cap``: gives hard problems more weight (MaxRL, as in
    prime-rl). A group whose mean is not positive gets 0."""
    rewards = totals(group)
    mean = sum(rewards) / len(rewards)
    if mean <= 0.0:
        return [0.0] * len(rewards)
    return [min(value / mean, inputs.settings.max_rl_cap) for value in centre(rewards)]


@per_group
def ngrpo(group: Group, inputs: AdvantageInputs) -> list[float]:
    """GRPO with one virtual rollout of reward ``ngrpo_virtual`` in mean and std (NGRPO, Nan et al.
    2025, arXiv 2509.18851). The std is the unbiased one, over the G rewards and the virtual one: in
    a group of G that failed entirely each rollout gets -1 / sqrt(G + 1). Values are clipped to
    +-``ngrpo_cap``. The paper also clips the ratio at 0.16 below and 0.24 above, which is up to the
    learner."""
    cap = inputs.settings.ngrpo_cap
    centred = centre([*totals(group), inputs.settings.ngrpo_virtual])
    std = math.sqrt(sum(value * value for value in centred) / len(group.rewards))
    return [max(-cap, min(cap, value / (std + STD_EPSILON))) for value in centred[:-1]]


@per_group
def w_reinforce(group: Group, inputs: AdvantageInputs) -> list[float]:
    """+``proved_weight`` for a proved rollout, -``failed_weight`` for any other, whatever the
    rewards (W-REINFORCE, Zhu et al. 2025, arXiv 2506.01347: weights 0.1 and 1). Their NSR (negative
    samples only) is ``proved_weight = 0``, their PSR ``failed_weight = 0``."""
    proved, failed = inputs.settings.proved_weight, -inputs.settings.failed_weight
    return [proved if r.status is Status.PROVED else failed for r in group.rollouts]
