"""Credit for what a rollout adds to the best of k: for a policy that will be sampled k times. The
values include the baseline and must not be centred again."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from proverrl.advantages.base import AdvantageInputs, per_group, totals
from proverrl.advantages.group import leave_one_out
from proverrl.config import AdvantageConfig
from proverrl.types import Group


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
