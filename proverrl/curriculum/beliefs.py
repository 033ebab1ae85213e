"""What is believed of solve rates: one Beta distribution per problem or family; and MoPPS, which
finds problems whose rate is thought to be near one half without spending a rollout."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proverrl.config.curriculum import MoppsConfig
from proverrl.errors import ProblemError
from proverrl.files.strict_json import load_json
from proverrl.types import Status

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

    def __contains__(self, key: str) -> bool:
        return key in self._beliefs

    def start(self, counts: Mapping[str, tuple[int, int]], weight: float) -> None:
        """Begin with counts of (proofs, attempts) from elsewhere, each worth ``weight`` of ours:
        MoPPS starts warm at [1 + 3 proofs, 1 + 3 failures]."""
        for key, (solved, total) in counts.items():
            self._beliefs[key] = [1.0 + weight * solved, 1.0 + weight * (total - solved)]

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


def read_counts(path: Path) -> dict[str, tuple[int, int]]:
    """(proofs, judged attempts) of each problem, from JSON lines of an earlier run: attempts of an
    evaluation (``evals/NAME.jsonl``), rollouts of a training (``rollouts/step_N.jsonl``), or
    ``{"id": ..., "solved": ..., "attempts": ...}``. Raises ``ProblemError`` if the file cannot be
    read, or a line is none of these."""
    found: dict[str, tuple[int, int]] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    name, solved, total = _read_line(f"{path}, line {number}", line)
                    before = found.get(name, (0, 0))
                    found[name] = (before[0] + solved, before[1] + total)
    except OSError as error:
        raise ProblemError(f"cannot read {path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path} is not UTF-8 text: {error.reason}; save it as UTF-8") from error
    return found


def _read_line(where: str, line: str) -> tuple[str, int, int]:
    try:
        row = load_json(line)
        if "attempts" in row:
            name, solved, total = str(row["id"]), row["solved"], row["attempts"]
        else:
            status = Status(row["status"])
            name = str(row["problem_id"] if "problem_id" in row else row["problem"]["id"])
            solved, total = int(status is Status.PROVED), int(status.judged)
    except (ValueError, KeyError, TypeError) as error:
        raise ProblemError(
            f"{where}: no attempt, rollout, or object with id, solved and attempts ({error}); "
            "give evals/NAME.jsonl or rollouts/step_N.jsonl of a run"
        ) from error
    if not all(type(n) is int for n in (solved, total)) or not 0 <= solved <= total:
        raise ProblemError(f"{where}: {solved!r} of {total!r} attempts solved; correct the counts")
    return name, solved, total


def open_beliefs(settings: MoppsConfig) -> Beliefs:
    """Beliefs about single problems, warm where a file of counts is given."""
    beliefs = Beliefs(settings.discount)
    if settings.warm_start:
        beliefs.start(read_counts(Path(settings.warm_start)), settings.warm_weight)
    return beliefs


def pick_problems(
    names: Sequence[str], n: int, beliefs: Beliefs, settings: MoppsConfig, rng: random.Random
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
