"""MoPPS: problems whose solve rate is thought to be near one half, without spending a rollout. Each
problem has a belief of its own; ``PosteriorCurriculum`` shares one among a family."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from proverrl.config import CurriculumConfig
from proverrl.config.curriculum import MoppsConfig
from proverrl.curriculum.base import BeliefCurriculum
from proverrl.curriculum.beliefs import Beliefs, read_counts
from proverrl.types import Problem


def open_beliefs(settings: MoppsConfig) -> Beliefs:
    """Beliefs about single problems, warm where a file of counts is given."""
    beliefs = Beliefs(settings.discount)
    if settings.warm_start:
        beliefs.start(read_counts(Path(settings.warm_start)), settings.warm_weight)
    return beliefs


def pick_problems(
    names: Sequence[str], n: int, beliefs: Beliefs, settings: MoppsConfig, rng: Random
) -> list[str]:
    """``n`` of ``names``, all of them if there are fewer (MoPPS, Qu et al. 2025, arXiv 2507.04632).
    ``candidates`` names for each place are drawn at random (0: all), a rate is sampled from the
    belief of each, and ``closest`` takes those nearest to ``target``. ``threshold`` takes random
    ones of those within [``low``, ``high``], and the nearest to it when they are too few."""
    if settings.candidates:
        names = rng.sample(names, min(len(names), settings.candidates * n))
    rates = {name: beliefs.sample(name, rng) for name in names}
    if settings.pick == "closest":
        return sorted(names, key=lambda name: (rates[name] - settings.target) ** 2)[:n]
    within = [name for name in names if settings.low <= rates[name] <= settings.high]
    if len(within) >= n:
        return rng.sample(within, n)

    def distance(name: str) -> float:
        return max(settings.low - rates[name], rates[name] - settings.high, 0.0)

    return sorted(names, key=distance)[:n]


class MoppsCurriculum(BeliefCurriculum):
    """The problems of ``pick_problems``; expects of each the mean of its belief."""

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._beliefs = open_beliefs(config.mopps)
        super().__init__(problems, config, seed)

    def _choose(self, n: int) -> Iterator[str]:
        names = list(self._problems)
        while n > 0:
            chosen = pick_problems(names, n, self._beliefs, self._config.mopps, self._rng)
            yield from chosen
            n -= len(chosen)
