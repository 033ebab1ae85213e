"""Rewards: pure functions from a judged rollout to a ``Reward``. A verdict is their only source.

Rollouts that were not judged never come here: they have already left their group. The parts of a
``Reward`` add up to its total. Not handled here: comparison within a group (``advantages``).

A composer is rewarded for its statements: flows in what became of each statement of a batch, flows
out a reward for each, None where nothing was judged, and advantages. A batch is compared as a
whole, because a pair of parents gives one statement: there is no group within which to compare.

``FalseNegativeRate`` is the share of right proofs that a verifier refuses, estimated from second
looks (after Cai et al. 2025, arXiv 2510.00915); ``proverrl.run.pipeline.Reviewer`` has them made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from proverrl.config import RewardConfig
from proverrl.errors import RecordError
from proverrl.plugins import bind, refuse
from proverrl.seeds import derive_seed
from proverrl.statistics import clopper_pearson, standardize
from proverrl.types import Reward, Rollout, Status

RewardFn = Callable[[Rollout], Reward]

OVERLONG_BUFFER = 0.2
"""The share of a completion's limit within which its length costs something."""


def proved_reward(rollout: Rollout, config: RewardConfig | None = None) -> Reward:
    """1 for PROVED, 0 for every other judged status. Raises ``RecordError`` if the rollout was not
    judged (a timeout is not a wrong proof)."""
    value = float(_proved(rollout))
    return Reward(total=value, parts={"proved": value})


REWARDS: dict[str, Callable[[Rollout, RewardConfig], Reward]] = {
    "proved": proved_reward,
}


def build_reward(config: RewardConfig, *, max_new_tokens: int) -> RewardFn:
    """The configured reward, with the penalty for overlong completions if its weight is set.
    ``max_new_tokens`` is the sampler's limit for one completion."""
    earn = _choose(config)

    def reward(rollout: Rollout) -> Reward:
        earned = earn(rollout, config)
        if config.overlong_weight == 0.0:
            return earned
        longest = max(len(turn.completion.token_ids) for turn in rollout.turns)
        buffer = OVERLONG_BUFFER * max_new_tokens
        penalty = config.overlong_weight * overlong_penalty(longest, max_new_tokens, buffer)
        return Reward(earned.total + penalty, {**earned.parts, "overlong": penalty})

    return reward


def find_hook(config: RewardConfig, name: str) -> Callable[..., Any] | None:
    """A hook that a plug-in brings beside its reward: ``check(problem)``, which raises
    ``RecordError`` for a problem that it is not for, or ``review(draws, verifier,
    deadline_seconds=...)``, which gives judged draws back, asked about and marked. None where it
    brings none, as rewards of ours."""
    if config.name in REWARDS:
        return None
    found: Callable[..., Any] | None = getattr(
        bind("reward", config.name, config.options), name, None
    )
    return found


def _choose(config: RewardConfig) -> Callable[[Rollout, RewardConfig], Reward]:
    """The configured function; one of somebody's own is given judged rollouts alone, and may
    return a number. Raises ``UsageError`` where that is no finite number."""
    if config.name in REWARDS:
        return REWARDS[config.name]
    own = bind("reward", config.name, config.options)

    def earn(rollout: Rollout, settings: RewardConfig) -> Reward:
        _proved(rollout)
        value = own(rollout)
        numbers = (value.total, *value.parts.values()) if isinstance(value, Reward) else (value,)
        try:
            # Unlike float() it takes no text.
            finite = all(map(math.isfinite, numbers))
        except (TypeError, ValueError, OverflowError, RuntimeError):
            # The last is what torch says of a tensor of several numbers.
            finite = False
        if not finite:
            wanted = "a finite number, or a proverrl.types.Reward of finite numbers"
            raise refuse("reward", config.name, value, f"rollout {rollout.id!r}", wanted)
        return value if isinstance(value, Reward) else Reward(float(value), {"own": float(value)})

    return earn


def overlong_penalty(num_tokens: int, max_tokens: int, buffer: float) -> float:
    """0 up to ``max_tokens - buffer`` tokens, then down in a straight line to -1 at ``max_tokens``
    (soft overlong punishment; DAPO, Yu et al. 2025, arXiv 2503.14476, with a buffer of a fifth).
    """
    over = (num_tokens - (max_tokens - buffer)) / buffer
    return -min(1.0, max(0.0, over))


def _proved(rollout: Rollout) -> bool:
    if not rollout.status.judged:
        raise RecordError(f"rollout {rollout.id!r} was not judged ({rollout.status})")
    return rollout.status is Status.PROVED


Stage = Literal["malformed", "stopped", "tried"]

MODIFIED_LOSS = 0.5
"""GAR's number: the share of its reward that a proof loses for changing the statement."""


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """The outcome of a statement: not readable (``malformed``), refused by a filter for another
    reason (``stopped``), or ``tried`` by the solver.

    ``solved`` is p, the share of judged attempts that proved it (None: none was judged);
    ``modified`` is m, the share of attempts that changed it.
    """

    stage: Stage
    solved: float | None = None
    modified: float = 0.0

    def __post_init__(self) -> None:
        if self.stage != "tried" and self.solved is not None:
            raise RecordError(f"a {self.stage} statement has no solve rate")
        for name, share in (("solved", self.solved), ("modified", self.modified)):
            if share is not None and not 0.0 <= share <= 1.0:
                raise RecordError(f"{name} is a share in [0, 1], got {share}")


def gar_reward(solved: float, modified: float) -> float:
    """(1 - p)(1 - m) where p > 0, else 0: hard, but not too hard, and not because it was rewritten
    (GAR, 2025, arXiv 2510.11769)."""
    return (1.0 - solved) * (1.0 - modified) if solved > 0.0 else 0.0


def reward_statements(outcomes: Sequence[StatementOutcome]) -> list[float | None]:
    """GAR's batch: a statement that was refused before any attempt counts as unsolved (ours: there
    is no such statement in the paper's batch, and a policy would never learn to avoid it)."""
    return [
        (None if o.solved is None else gar_reward(o.solved, o.modified))
        if o.stage == "tried"
        else 0.0
        for o in outcomes
    ]


def compare_statements(rewards: Sequence[float | None]) -> list[float]:
    """Each statement's advantage: its reward minus the mean, divided by the deviation, of the whole
    batch, as in GRPO's groups (``standardize``); 0 where nothing was judged or all are alike."""
    judged = {i: reward for i, reward in enumerate(rewards) if reward is not None}
    standard = dict(zip(judged, standardize(list(judged.values())), strict=True))
    return [standard.get(i, 0.0) for i in range(len(rewards))]


def penalise_modified(reward: Reward, modified: bool) -> Reward:
    """GAR's solver: the reward times 1 - 0.5 m_k, m_k = 1 where the answer
    changed the statement. The paper prints only the factor; a failure must not earn it. With our
    layouts a changed statement leaves no candidate, so it has already earned nothing."""
    if not modified:
        return reward
    factor = 1.0 - MODIFIED_LOSS
    parts = {name: factor * value for name, value in reward.parts.items()}
    return replace(reward, total=factor * reward.total, parts=parts)


def is_modified(rollout: Rollout) -> bool:
    """True if the answer changed the statement that it was to prove (``extract`` says so)."""
    return "was changed" in rollout.turns[-1].reason


EMA = 0.95
"""The share of an average that stays when one more value is added."""


@dataclass
class Average:
    """A running average, corrected for the bias of its start: the weighted sum of the values, the
    sum of the weights and that of their squares."""

    total: float = 0.0
    weight: float = 0.0
    squares: float = 0.0

    def add(self, value: bool) -> None:
        self.total = EMA * self.total + (1.0 - EMA) * float(value)
        self.weight = EMA * self.weight + (1.0 - EMA)
        self.squares = EMA * EMA * self.squares + (1.0 - EMA) ** 2

    @property
    def value(self) -> float:
        return self.total / self.weight if self.weight > 0.0 else 0.0


@dataclass
class FalseNegativeRate:
    """Estimates f1, the share of right proofs that are refused, as verdicts arrive.

    Two averages, with weight 0.05 for each new value: the share p of judged candidates that are
    proved, and the share q of failures that an appeal with larger limits overturns. Among all
    candidates a share q (1 - p) is right and refused, and a share p is right and accepted when no
    wrong proof is accepted (Lean's kernel after the audit), so that
    f1 = q (1 - p) / (q (1 - p) + p).
    """

    proved: Average = field(default_factory=Average)
    overturned: Average = field(default_factory=Average)

    @property
    def rate(self) -> float:
        """The estimate of f1; 0 until something has been judged again."""
        return self._rate(self.overturned.value)

    @property
    def interval(self) -> tuple[float, float]:
        """A 95 % interval for f1: Clopper and Pearson's for q, with the number of appeals that the
        average still remembers, carried over to f1; p is taken as known. (0, 1) before the first
        appeal."""
        average = self.overturned
        if average.weight == 0.0:
            return (0.0, 1.0)
        low, high = clopper_pearson(average.value, average.weight**2 / average.squares)
        return self._rate(low), self._rate(high)

    def _rate(self, q: float) -> float:
        refused = q * (1.0 - self.proved.value)
        return refused / (refused + self.proved.value) if refused > 0.0 else 0.0

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become what ``dataclasses.asdict`` wrote."""
        self.proved, self.overturned = Average(**state["proved"]), Average(**state["overturned"])


def is_appealed(candidate_key: str, *, share: float, seed: int = 0) -> bool:
    """True if a failed candidate is to be judged again: a draw that depends on nothing but the
    candidate and the seed, so that a resumed run draws the same ones."""
    # The word is part of the draw: another one would appeal other candidates.
    return derive_seed(seed, "audit", candidate_key) < share * 2**63
