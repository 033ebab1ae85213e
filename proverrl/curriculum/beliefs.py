"""What is believed of solve rates: one Beta distribution per problem or family; and MoPPS, which
finds problems whose rate is thought to be near one half without spending a rollout."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from proverrl.config.curriculum import MoppsConfig

Belief = list[float]
"""The two parameters of a Beta distribution, for proofs and failures; [1, 1] knows nothing."""


def update_belief(belief: Belief, solved: int, total: int, discount: float) -> None:
    """Let a belief fade towards [1, 1], then count a group: with discount d, each parameter x
    becomes d x + (1 - d) plus the new proofs or failures (MoPPS, Qu et al. 2025,
    arXiv 2507.04632). d = 1 forgets nothing; below 1 it follows a policy that changes."""
    belief[0] = discount * belief[0] + (1.0 - discount) + solved
    belief[1] = discount * belief[1] + (1.0 - discount) + total - solved


def mean_rate(belief: Belief) -> float:
    """The expected solve rate."""
    return belief[0] / (belief[0] + belief[1])


class Beliefs:
    """One belief a key, [1, 1] for a key that was never observed."""

    def __init__(self, discount: float) -> None:
        self._discount = discount
        self._beliefs: dict[str, Belief] = {}

    def observe(self, key: str, solved: int, total: int) -> None:
        update_belief(self._beliefs.setdefault(key, [1.0, 1.0]), solved, total, self._discount)

    def mean(self, key: str) -> float:
        return mean_rate(self._beliefs.get(key, [1.0, 1.0]))

    def sample(self, key: str, rng: random.Random) -> float:
        """A solve rate drawn from the belief (Thompson sampling)."""
        a, b = self._beliefs.get(key, (1.0, 1.0))
        return rng.betavariate(a, b)

    def dump(self) -> dict[str, Belief]:
        return {key: list(belief) for key, belief in self._beliefs.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        self._beliefs = {key: [float(a), float(b)] for key, (a, b) in state.items()}


def pick_problems(
    names: Sequence[str], n: int, beliefs: Beliefs, settings: MoppsConfig, rng: random.Random
) -> list[str]:
    """``n`` of ``names``, all of them if there are fewer (MoPPS, Qu et al. 2025, arXiv 2507.04632):
    ``candidates`` names for each place are drawn at random (0: all), a rate is sampled from the
    belief of each, and those nearest to ``target`` are taken."""
    if settings.candidates:
        names = rng.sample(names, min(len(names), settings.candidates * n))
    rates = {name: beliefs.sample(name, rng) for name in names}
    return sorted(names, key=lambda name: (rates[name] - settings.target) ** 2)[:n]
