"""Methods that look beyond one group: over the batch of a step, or over earlier visits. Groups of
different roles share no statistics. The loop observes a step's groups after its advantages."""

from __future__ import annotations

from proverrl.advantages.base import AdvantageInputs, GroupAdvantages, per_group, spread, totals
from proverrl.statistics import STD_EPSILON, centre, deviation, standardize
from proverrl.types import Group, Role


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
