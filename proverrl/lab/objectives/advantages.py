"""Advantages in place of a reward's distance from its group's mean. Each reads its constants from
``[advantage.options]``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import comb
from typing import Annotated, Self

from pydantic import Field, model_validator

from proverrl.advantages import AdvantageInputs, GroupAdvantages, spread, totals
from proverrl.config.base import Section
from proverrl.statistics import STD_EPSILON, centre, deviation
from proverrl.types import Group, Role, Rollout, Status

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Above = Annotated[float, Field(gt=0.0)]
Weight = Annotated[float, Field(ge=0.0)]
Count = Annotated[int, Field(ge=1)]


class MaxRlOptions(Section):
    """``cap``: the largest advantage."""

    cap: Above = 8.0


class NgrpoOptions(Section):
    """``imagined``: the reward of the imagined rollout, which is the best possible one; advantages
    lie between -``cap`` and ``cap``."""

    imagined: float = 1.0
    cap: Above = 3.0


class ReinforceOptions(Section):
    """The weights of a proof and of a failure: 0 and 1 learn from failures alone (NSR), 1 and 0
    from proofs alone (PSR)."""

    proved: Weight = 0.1
    failed: Weight = 1.0

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if self.proved == self.failed == 0.0:
            raise ValueError("proved and failed are both 0: nothing would be learned")
        return self


class PkpoOptions(Section):
    """The k of the best of k at the start, at the end, and the share of the run (by the limit that
    is nearest) after which k is ``end``."""

    k: Count = 8
    end: Count = 1
    anneal: Share = 0.5


class TurnOptions(Section):
    """``discount``: the factor for each turn between a turn and the proof that follows it."""

    discount: Share = 0.9


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


def max_rl(inputs: AdvantageInputs, *, options: MaxRlOptions) -> list[GroupAdvantages]:
    """(r - mean) / mean, at most ``cap``: gives hard problems more weight (MaxRL, as in prime-rl).
    A group whose mean is not positive gets 0."""

    def compare(rewards: list[float]) -> list[float]:
        mean = sum(rewards) / len(rewards)
        if mean <= 0.0:
            return [0.0] * len(rewards)
        return [min(value / mean, options.cap) for value in centre(rewards)]

    return [spread(group, compare(totals(group))) for group in inputs.groups]


def ngrpo(inputs: AdvantageInputs, *, options: NgrpoOptions) -> list[GroupAdvantages]:
    """GRPO with one imagined rollout in mean and std (NGRPO, Nan et al. 2025, arXiv 2509.18851).
    The std is the unbiased one, over the G rewards and the imagined one: in a group of G that
    failed entirely each rollout gets -1 / sqrt(G + 1). The paper also clips the ratio at 0.16 below
    and 0.24 above (``loss.clip_low``, ``loss.clip_high``)."""

    def compare(rewards: list[float]) -> list[float]:
        centred = centre([*rewards, options.imagined])
        std = math.sqrt(sum(value * value for value in centred) / len(rewards))
        cap = options.cap
        return [max(-cap, min(cap, value / (std + STD_EPSILON))) for value in centred[:-1]]

    return [spread(group, compare(totals(group))) for group in inputs.groups]


def w_reinforce(inputs: AdvantageInputs, *, options: ReinforceOptions) -> list[GroupAdvantages]:
    """+``proved`` for a proved rollout, -``failed`` for any other, whatever the rewards
    (W-REINFORCE, Zhu et al. 2025, arXiv 2506.01347: weights 0.1 and 1)."""
    return [
        spread(
            group,
            [
                options.proved if rollout.status is Status.PROVED else -options.failed
                for rollout in group.rollouts
            ],
        )
        for group in inputs.groups
    ]


def pkpo(inputs: AdvantageInputs, *, options: PkpoOptions) -> list[GroupAdvantages]:
    """n times the leave-one-out-minus-one weights of the best of k (PKPO, Walder and Karkhanis
    2025, arXiv 2505.15201), with k from ``annealed_k`` and at most the group's size. Unbiased for n
    times the gradient of E[best reward of k rollouts]."""
    k = annealed_k(options, inputs.progress)
    return [
        spread(group, [len(group.rewards) * w for w in best_of_weights(totals(group), k)])
        for group in inputs.groups
    ]


def annealed_k(options: PkpoOptions, progress: float) -> int:
    """``k`` at the start of the run, ``end`` after a share ``anneal`` of it, linear in between,
    rounded to the nearest."""
    share = 1.0 if options.anneal == 0.0 else min(1.0, progress / options.anneal)
    return round(options.k + (options.end - options.k) * share)


def best_of_weights(rewards: Sequence[float], k: int) -> list[float]:
    """By how much each reward raises the best of k, averaged over all subsets of size k.

    For k >= 2: w_i = sum over S that contain i of (max S - max S without i) / C(n, k), in O(n log
    n). In ascending order, element r is the best of S exactly when all others come before it, and j
    is the best of those in C(j, k - 2) ways: w_r = sum_{j<r} C(j, k - 2) (h_r - h_j) / C(n, k),
    kept as two running sums. For k = 1 nothing is left of S without i; the baseline is then the
    mean of the others (RLOO), and a single reward has none. ``k`` larger than n counts as n.
    """
    n = len(rewards)
    k = min(k, n)
    if n == 1:
        return [0.0]
    if k <= 1:
        return [value / (n - 1) for value in centre(list(rewards))]
    weights = [0.0] * n
    ways, topped = 0, 0.0
    for place, index in enumerate(sorted(range(n), key=rewards.__getitem__)):
        value = rewards[index]
        weights[index] = (ways * value - topped) / comb(n, k)
        count = comb(place, k - 2)
        ways += count
        topped += count * value
    return weights


def turn_credit(inputs: AdvantageInputs, *, options: TurnOptions) -> list[GroupAdvantages]:
    """Per turn k the return max over j >= k of discount^(j - k) [turn j proved], minus the mean of
    the returns of all rollouts that have a turn k: first turns are compared with first turns. A
    turn that only one rollout reached gets 0."""
    return [_compare_turns(group, options.discount) for group in inputs.groups]


def _compare_turns(group: Group, discount: float) -> GroupAdvantages:
    returns = [turn_returns(rollout, discount) for rollout in group.rollouts]
    advantages: GroupAdvantages = [[] for _ in returns]
    for k in range(max(len(values) for values in returns)):
        there = [i for i, values in enumerate(returns) if len(values) > k]
        for i, value in zip(there, centre([returns[i][k] for i in there]), strict=True):
            advantages[i].append(value)
    return advantages


def turn_returns(rollout: Rollout, discount: float) -> list[float]:
    """Per turn k the best discounted verdict from there on: max over j >= k of discount^(j - k)
    [turn j proved]. A turn that was not judged adds nothing; one without a candidate is a failure.
    """
    returns = [0.0]
    for turn in reversed(rollout.turns):
        proved = turn.verdict is not None and turn.verdict.proved
        returns.append(1.0 if proved else discount * returns[-1])
    return returns[:0:-1]
