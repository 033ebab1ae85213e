"""Credit within a rollout: for its turns, from their verdicts, and for the entries it verified."""

from __future__ import annotations

from proverrl.advantages.base import AdvantageInputs, GroupAdvantages, per_group, totals
from proverrl.rewards.verdicts import entry_credits, turn_returns
from proverrl.statistics import centre
from proverrl.types import Group, Status


def turn_credit(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """Per turn k the return max over j >= k of discount^(j - k) [turn j proved], minus the mean of
    the returns of all rollouts that have a turn k: first turns are compared with first turns. A
    turn that only one rollout reached gets 0."""
    return [_turn_credit(group, inputs.settings.turn_discount) for group in inputs.groups]


def _turn_credit(group: Group, discount: float) -> GroupAdvantages:
    returns = [turn_returns(rollout, discount) for rollout in group.rollouts]
    advantages: GroupAdvantages = [[] for _ in returns]
    for k in range(max(len(values) for values in returns)):
        there = [i for i, values in enumerate(returns) if len(values) > k]
        for i, value in zip(there, centre([returns[i][k] for i in there]), strict=True):
            advantages[i].append(value)
    return advantages


@per_group
def obligations(group: Group, inputs: AdvantageInputs) -> list[float]:
    """(r - mean) + ``obligation_weight`` (d - mean of d), where d is 1 for a proved rollout and
    else ``obligation_share`` times its weighted credit (after VeRPO, Wang et al. 2026, arXiv
    2601.03525, whose unit tests are a program's entries here). The share is below 1, so a failed
    proof never outranks a proved one unless the rewards themselves say so. If the back end counts
    no obligations, every failure has d = 0."""
    settings = inputs.settings
    earned = weigh_entries(group, settings.obligation_floor)
    dense = [
        1.0 if rollout.status is Status.PROVED else settings.obligation_share * credit
        for rollout, credit in zip(group.rollouts, earned, strict=True)
    ]
    pairs = zip(centre(totals(group)), centre(dense), strict=True)
    return [outcome + settings.obligation_weight * part for outcome, part in pairs]


def weigh_entries(group: Group, floor: float) -> list[float]:
    """Per rollout sum_j w_j c_j in [0, 1], with c_j the credit of entry j in its last verdict. w_j
    is proportional to 1 - (mean credit of j in the group) + floor: entries that few prove weigh
    more. Only entries that all rollouts with counted obligations share are weighted, so a rollout
    gains nothing from declarations that it adds."""
    earned = [entry_credits(rollout.turns[-1].verdict) for rollout in group.rollouts]
    counted = [entries for entries in earned if entries]
    if not counted:
        return [0.0] * len(earned)
    shared = sorted(set.intersection(*(set(entries) for entries in counted)))
    weights = {
        entry: 1.0 - sum(entries.get(entry, 0.0) for entries in earned) / len(earned) + floor
        for entry in shared
    }
    whole = sum(weights.values())
    return [
        sum(weight * entries.get(entry, 0.0) for entry, weight in weights.items()) / whole
        if whole
        else 0.0
        for entries in earned
    ]
