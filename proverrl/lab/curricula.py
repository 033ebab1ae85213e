"""Curricula in which every problem stands alone (``mopps``), and over difficulty (``cbrl``)."""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from proverrl.config.base import Section
from proverrl.curriculum.base import Belief, Curriculum, mean_rate, update_belief
from proverrl.types import Group, Problem

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class MoppsOptions(Section):
    """``target``: the solve rate that is looked for; ``candidates``: random ones for each place of
    a draw, 0 for all problems; ``discount``: how much of a problem's past still counts after each
    new group, 0.5 when the policy changes fast."""

    target: Share = 0.5
    candidates: Annotated[int, Field(ge=0)] = 8
    discount: Share = 1.0


class CbrlOptions(Section):
    """``target``: the solve rate that difficulty is steered towards; ``step``: how far it moves
    after a batch, in levels (ours); ``start``: the first, where a value below the easiest means
    that."""

    target: Share = 0.5
    step: Annotated[float, Field(gt=0.0)] = 0.1
    start: Annotated[float, Field(ge=0.0)] = 0.0


class MoppsCurriculum(Curriculum):
    """The problems of ``pick_problems``, by one Beta belief for each problem; expects of each the
    mean of its belief (MoPPS, Qu et al. 2025, arXiv 2507.04632)."""

    def __init__(self, problems: Sequence[Problem], seed: int, *, options: MoppsOptions) -> None:
        self._options = options
        self._beliefs: dict[str, Belief] = {}
        super().__init__(problems, seed)

    def _choose(self, n: int) -> Iterator[str]:
        names = list(self._problems)
        while n > 0:
            chosen = pick_problems(names, n, self._beliefs, self._options, self._rng)
            yield from chosen
            n -= len(chosen)

    def predict(self, problem: Problem) -> float:
        return mean_rate(self._beliefs.get(problem.id, [1.0, 1.0]))

    def _learn(self, problem: Problem, solved: int, group: Group) -> None:
        belief = self._beliefs.setdefault(problem.id, [1.0, 1.0])
        update_belief(belief, solved, len(group.rollouts), self._options.discount)

    def _dump(self) -> dict[str, Any]:
        return {"beliefs": {name: list(belief) for name, belief in self._beliefs.items()}}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._beliefs = {name: [float(a), float(b)] for name, (a, b) in state["beliefs"].items()}


def pick_problems(
    names: Sequence[str],
    n: int,
    beliefs: Mapping[str, Belief],
    options: MoppsOptions,
    rng: random.Random,
) -> list[str]:
    """``n`` of ``names``, all of them if there are fewer. ``candidates`` names for each place are
    drawn at random, a rate is sampled from the belief of each, and those nearest to ``target`` are
    taken."""
    if options.candidates:
        names = rng.sample(names, min(len(names), options.candidates * n))
    rates = {name: rng.betavariate(*beliefs.get(name, (1.0, 1.0))) for name in names}
    return sorted(names, key=lambda name: (rates[name] - options.target) ** 2)[:n]


def difficulty_of(problem: Problem) -> float:
    """``difficulty`` of the metadata where it is a number, else the level."""
    value = problem.metadata.get("difficulty")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return float(problem.level)


class CbrlCurriculum(Curriculum):
    """A closed loop on difficulty (InternGeometry's CBRL, 2025, arXiv 2512.10534). After a batch
    (what came back between two draws) the difficulty rises by ``step`` if more than ``target`` of
    its rollouts was proved, and falls by it if less was, within the difficulties that exist. A draw
    takes the two that are nearest on either side, each in proportion to its nearness. Of a
    difficulty the least visited problem is drawn; none comes twice in a draw while there are
    others. The paper's knob is the number of proof steps; ours is the level, or ``difficulty`` in a
    problem's metadata.
    """

    def __init__(self, problems: Sequence[Problem], seed: int, *, options: CbrlOptions) -> None:
        self._options = options
        self._names: dict[float, list[str]] = {}
        self._steps: list[float] = []
        self._knob = options.start
        self._solved = self._rollouts = 0
        super().__init__(problems, seed)

    @property
    def difficulty(self) -> float:
        """The difficulty where the controller stands."""
        if not self._steps:
            return self._knob
        return min(max(self._knob, self._steps[0]), self._steps[-1])

    def _choose(self, n: int) -> Iterator[str]:
        self._settle()
        shares, taken = self._share(), set[str]()
        for _ in range(n):
            left = [step for step in shares if not taken.issuperset(self._names[step])]
            if not left:
                taken.clear()
                left = list(shares)
            step = self._rng.choices(left, [shares[step] for step in left])[0]
            name = self._least_visited([name for name in self._names[step] if name not in taken])
            taken.add(name)
            yield name

    def _settle(self) -> None:
        """Learn from what came back since the last draw."""
        if not self._rollouts:
            return
        settings, rate = self._options, self._solved / self._rollouts
        self._solved = self._rollouts = 0
        self._knob = self.difficulty
        if rate != settings.target:
            self._knob += settings.step if rate > settings.target else -settings.step

    def _share(self) -> dict[float, float]:
        """The difficulties of the next draw, with their weights."""
        difficulty = self.difficulty
        place = bisect.bisect_left(self._steps, difficulty)
        above = self._steps[place]
        if above == difficulty:
            return {above: 1.0}
        below = self._steps[place - 1]
        share = (difficulty - below) / (above - below)
        return {below: 1.0 - share, above: share}

    def _admit(self, problem: Problem) -> None:
        difficulty = difficulty_of(problem)
        if difficulty not in self._names:
            bisect.insort(self._steps, difficulty)
        self._names.setdefault(difficulty, []).append(problem.id)

    def _learn(self, problem: Problem, solved: int, group: Group) -> None:
        self._solved += solved
        self._rollouts += len(group.rollouts)

    def _dump(self) -> dict[str, Any]:
        return {"knob": self._knob, "batch": [self._solved, self._rollouts]}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._knob = float(state["knob"])
        self._solved, self._rollouts = state["batch"]

    def _figures(self) -> dict[str, Any]:
        return {"curriculum_difficulty": self.difficulty}
