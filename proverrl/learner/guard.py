"""Watches the numbers of a training run, and stops or warns before an update that looks wrong.

Flows in: updates that have their gradients, groups and solve rates. Flows out: warnings, or
``GuardError`` naming a file with the offending batch. Decisions are pure functions of
numbers. Not handled here: false verdicts as such (canaries, ``proverrl.verifier``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proverrl.config import GuardConfig
from proverrl.errors import GuardError
from proverrl.files.disk import saving
from proverrl.files.lines import make_strict
from proverrl.learner.learner import Update
from proverrl.types import Group, Rollout

GUARD_FOLDER = "guard"


MAX_RATIO = 1000.0
"""The largest factor by which a token's probability may differ from the sampler's."""
MIN_ENTROPY = 0.005
"""In nats per token; below it the policy hardly samples."""
MAX_REWARD_JUMP = 0.35
"""Above the mean of the last steps: the sign of a verifier that is being cheated."""
REWARD_WINDOW = 10
"""So many last steps; before that nothing counts as a jump."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A number that is out of bounds."""

    name: str
    message: str


def find_not_finite(metrics: Mapping[str, float]) -> list[Alarm]:
    """The loss or the gradient's norm is infinite or not a number."""
    return [
        Alarm("not_finite", f"{name} is {metrics[name]}")
        for name in ("loss", "grad_norm")
        if not math.isfinite(metrics[name])
    ]


def find_ratio(metrics: Mapping[str, float]) -> list[Alarm]:
    """A token's probability is more than ``MAX_RATIO`` times the sampler's, or the reverse."""
    ratio = metrics.get("ratio_max", 1.0)
    # What is not a number is above nothing here: it is find_not_finite's to say.
    if not ratio > MAX_RATIO:
        return []
    message = f"a token's probability moved by a factor of {ratio:.4g}, more than {MAX_RATIO:g}"
    return [Alarm("ratio", message)]


def find_entropy(metrics: Mapping[str, float]) -> list[Alarm]:
    """The mean entropy per token is below ``MIN_ENTROPY``."""
    entropy = metrics.get("entropy", math.inf)
    if not entropy < MIN_ENTROPY:
        return []
    return [Alarm("entropy", f"entropy is {entropy:.4g} nats per token, less than {MIN_ENTROPY:g}")]


def find_reward_jump(rate: float, history: Sequence[float]) -> list[Alarm]:
    """The solve rate is ``MAX_REWARD_JUMP`` above its mean over the last ``REWARD_WINDOW`` steps.
    Nothing is found before the window is full: the first steps of a run may well climb."""
    if len(history) < REWARD_WINDOW:
        return []
    recent = history[-REWARD_WINDOW:]
    mean = sum(recent) / len(recent)
    if rate - mean <= MAX_REWARD_JUMP:
        return []
    message = (
        f"the solve rate jumped from {mean:.3f} to {rate:.3f}, more than "
        f"{MAX_REWARD_JUMP:g}; look whether the new proofs prove what they should"
    )
    return [Alarm("reward_jump", message)]


@dataclass
class Guard:
    """Applies the decisions in a run. ``warn`` is given what is only to be said; ``warnings``
    counts it, by name."""

    settings: GuardConfig
    folder: Path
    warn: Callable[[str], None]
    warnings: dict[str, int] = field(default_factory=dict)
    history: list[float] = field(default_factory=list)
    _groups: Sequence[Group] = ()

    def watch(self, groups: Sequence[Group], solve_rate: float | None) -> None:
        """Look at the groups that the next step learns from, and at the solve rate of all that was
        judged for it (None when nothing was). Raises ``GuardError`` if the solve rate jumped and
        the configuration says stop."""
        self._groups = groups
        if solve_rate is None:
            return
        found = find_reward_jump(solve_rate, self.history)
        self._act(found, lambda alarm: _dump_groups(alarm, groups))
        self.history = [*self.history, solve_rate][-REWARD_WINDOW:]

    def check(self, update: Update) -> None:
        """Raises ``GuardError`` if the update is not finite, which would destroy the weights, or if
        something else is out of bounds and the configuration says stop."""
        finders = (find_not_finite, find_ratio, find_entropy)
        found = [alarm for find in finders for alarm in find(update.metrics)]
        self._act(found, lambda alarm: _dump_update(alarm, update, self._groups))

    def state_dict(self) -> dict[str, Any]:
        return {"history": self.history, "warnings": self.warnings}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.history = list(state["history"])
        self.warnings = dict(state["warnings"])

    def _act(self, found: Sequence[Alarm], dump: Callable[[Alarm], dict[str, Any]]) -> None:
        for alarm in found:
            action = "stop" if alarm.name == "not_finite" else self.settings.action
            if action == "off":
                continue
            if action == "warn":
                self.warnings[alarm.name] = self.warnings.get(alarm.name, 0) + 1
                self.warn(alarm.message)
                continue
            path = self.folder / f"{alarm.name}.json"
            # What is not a number is written as null: JSON has no word for it.
            text = json.dumps(make_strict(dump(alarm)), indent=1, allow_nan=False)
            with saving(path):
                self.folder.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
            raise GuardError(f"{alarm.message}; the batch is in {path}", path)


def _dump_update(alarm: Alarm, update: Update, groups: Sequence[Group]) -> dict[str, Any]:
    """The batch of an update, token by token; the verdict of a sample is found by its rollout."""
    rollouts = {rollout.id: rollout for group in groups for rollout in group.rollouts}
    samples = []
    for sample, logprobs in zip(update.samples, update.logprobs, strict=True):
        rollout = rollouts.get(sample.rollout_id.rpartition("/")[0])
        new = slice(sample.prompt_length, None)
        samples.append(
            {
                "rollout_id": sample.rollout_id,
                "policy_version": sample.policy_version,
                "verdict": None if rollout is None else _describe_verdict(rollout),
                "prompt_ids": list(sample.token_ids[: sample.prompt_length]),
                "token_ids": list(sample.token_ids[new]),
                "loss_mask": list(sample.loss_mask[new]),
                "sampler_logprobs": list(sample.logprobs[new]),
                "logprobs": logprobs.tolist(),
                "advantages": list(sample.advantages[new]),
            }
        )
    head = {"finding": alarm.message, "version": update.version}
    return {**head, "metrics": dict(update.metrics), "samples": samples}


def _dump_groups(alarm: Alarm, groups: Sequence[Group]) -> dict[str, Any]:
    rows = [
        {
            "rollout_id": rollout.id,
            "verdict": _describe_verdict(rollout),
            "reward": reward.total,
            "text": rollout.turns[-1].completion.text,
        }
        for group in groups
        for rollout, reward in zip(group.rollouts, group.rewards, strict=True)
    ]
    return {"finding": alarm.message, "rollouts": rows}


def _describe_verdict(rollout: Rollout) -> dict[str, Any]:
    """The last turn's verdict; ``key`` is the candidate's in the verdict cache."""
    candidate = rollout.turns[-1].candidate
    return {
        "problem": rollout.problem.id,
        "status": str(rollout.status),
        "key": None if candidate is None else candidate.key,
    }
