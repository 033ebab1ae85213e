"""Methods that give every rollout one value, the same for all its turns and tokens: from the
rewards of its group, with those of the batch or of earlier visits, or for the best of k rollouts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import comb

from proverrl.advantages.base import AdvantageInputs, GroupAdvantages, per_group, spread, totals
from proverrl.config import AdvantageConfig
from proverrl.statistics import STD_EPSILON, centre, deviation, standardize
from proverrl.types import Group, Role, Status


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


def batch_std(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """(r - mean of the group) / (std of all rewards of the batch + 1e-6), per role (LitePPO, Liu et
    al. 2025, "Tricks or Traps", arXiv 2508.08221). The std is the population's, around the mean of
    the batch. A group's own std explodes when one rollout of many differs; the batch's does not."""
    by_role: dict[Role, list[float]] = {}
    for group in inputs.groups:
        by_role.setdefault(group.key[0], []).extend(totals(group))
    scales = {role: deviation(rewards) + STD_EPSILON for role, rewards in by_role.items()}
    return [
        spread(group, [value / scales[group.key[0]] for value in centre(totals(group))])
        for group in inputs.groups
    ]


@per_group
def dcpo_smooth(group: Group, inputs: AdvantageInputs) -> list[float]:
    """Standardised within the group and over all rewards ever seen on the problem, mixed by the
    number i of visits, this one included (DCPO, Yang et al. 2025, arXiv 2509.02333). Of ((i-1) new
    + all) / i and (new + (i-1) all) / i the one nearer to 0 is taken. So a group whose rewards are
    all equal keeps all / i if earlier visits earned something else."""
    rewards = totals(group)
    seen = inputs.history.moments(group.key).including(rewards)
    i = seen.visits
    values = []
    for new, reward in zip(standardize(rewards), rewards, strict=True):
        every = (reward - seen.mean) / (seen.std + STD_EPSILON)
        values.append(min(((i - 1) * new + every) / i, (new + (i - 1) * every) / i, key=abs))
    return values


@per_group
def pkpo(group: Group, inputs: AdvantageInputs) -> list[float]:
    """n times the leave-one-out-minus-one weights of the best of k (PKPO, Walder and Karkhanis
    2025, arXiv 2505.15201), with k from ``annealed_k`` and at most the group's size. Unbiased for n
    times the gradient of E[best reward of k rollouts]."""
    k = annealed_k(inputs.settings, inputs.progress)
    return [len(group.rewards) * weight for weight in best_of_weights(totals(group), k)]


def annealed_k(settings: AdvantageConfig, progress: float) -> int:
    """``pkpo_k`` at the start of the run, ``pkpo_k_end`` after a share ``pkpo_anneal`` of it,
    linear in between, rounded to the nearest."""
    share = 1.0 if settings.pkpo_anneal == 0.0 else min(1.0, progress / settings.pkpo_anneal)
    return round(settings.pkpo_k + (settings.pkpo_k_end - settings.pkpo_k) * share)


def best_of_weights(rewards: Sequence[float], k: int) -> list[float]:
    """By how much each reward raises the best of k, averaged over all subsets of size k.

    For k >= 2: w_i = sum over S that contain i of (max S - max S without i) / C(n, k), in O(n log
    n). In ascending order, element r is the best of S exactly when all others come before it, and j
    is the best of those in C(j, k - 2) ways: w_r = sum_{j<r} C(j, k - 2) (h_r - h_j) / C(n, k),
    kept as two running sums. For k = 1 nothing is left of S without i; the baseline is then the
    mean of the others (RLOO). ``k`` larger than n counts as n.
    """
    n = len(rewards)
    k = min(k, n)
    if k <= 1:
        return [value / n for value in leave_one_out(list(rewards))]
    weights = [0.0] * n
    ways, topped = 0, 0.0
    for place, index in enumerate(sorted(range(n), key=rewards.__getitem__)):
        value = rewards[index]
        weights[index] = (ways * value - topped) / comb(n, k)
        count = comb(place, k - 2)
        ways += count
        topped += count * value
    return weights
