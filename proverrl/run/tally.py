"""Counts what became of the rollouts of a step or round, and how long parts of a run were idle.

Flows in: judged draws and groups. Flows out: the figures for ``metrics.jsonl`` and the rows for
``rollouts/step_N.jsonl``. Unjudged rollouts are counted apart, never as failures;
rejected ones whose candidate ended the verifier are failures and counted apart as well.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Literal

from proverrl.advantages import Credit, GroupAdvantages, mean_credit
from proverrl.evaluation.store import verdict_fields
from proverrl.monitor.rollout_rows import describe_hint, describe_turns
from proverrl.rollout.completion_counts import CompletionCounts
from proverrl.rollout.samples import TrainingSample
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.types import Group, Reward, Rollout, Status

Component = Literal["generator", "pool", "learner", "composer"]


@dataclass
class Tally:
    """Running counts: build one per step, add draws and groups, read ``metrics`` and ``rows``.
    ``figures`` are added to the metrics as they are."""

    verifier_calls: int = 0
    appeal_calls: int = 0
    num_groups: int = 0
    num_mixed: int = 0
    num_admitted: int = 0
    num_solved: int = 0
    num_failed: int = 0
    generation_seconds: float = 0.0
    num_fatal: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    levels: dict[str, list[int]] = field(default_factory=dict)
    num_tokens: int = 0
    completions: CompletionCounts = field(default_factory=CompletionCounts)
    num_hinted: int = 0
    hinted: Counter[str] = field(default_factory=Counter)
    entries: list[tuple[Rollout, Reward | None]] = field(default_factory=list)
    advantages: dict[str, list[Credit]] = field(default_factory=dict)
    ages: list[int] = field(default_factory=list)
    num_stale: int = 0
    token_ages: Counter[int] = field(default_factory=Counter)
    figures: dict[str, Any] = field(default_factory=dict)

    def add_draw(self, judged: Sequence[JudgedDraw], generation_seconds: float) -> None:
        """Count calls, verdicts and tokens of everything that came back."""
        self.generation_seconds += generation_seconds
        for draw in judged:
            self.verifier_calls += draw.num_calls
            self.generation_seconds += draw.generation_seconds
            for rollout in draw.rollouts:
                self.verdicts[str(rollout.status)] += 1
                verdict = rollout.turns[-1].verdict
                self.num_fatal += verdict is not None and verdict.fatal
                if rollout.hint is not None:
                    self.hinted[str(rollout.status)] += 1
                for turn in rollout.turns:
                    self.num_tokens += len(turn.completion.token_ids)
                    truncated = turn.completion.finish_reason == "length"
                    self.completions.add(truncated=truncated, reason=turn.reason)

    def add_group(self, draw: JudgedDraw, group: Group | None, *, num_appeals: int) -> None:
        """Count a draw's group by its outcome, and keep its rollouts for the rows; those that are
        in no group (unjudged, or too few to compare) have no reward. ``num_solved`` and
        ``num_failed`` are groups of equal rewards. Levels leave out groups with a hint."""
        self.appeal_calls += num_appeals
        self.verifier_calls += num_appeals
        grouped = {rollout.id for rollout in group.rollouts} if group else set()
        self.entries += [(rollout, None) for rollout in draw.rollouts if rollout.id not in grouped]
        if group is None:
            return
        self.num_groups += 1
        proved = [rollout.status is Status.PROVED for rollout in group.rollouts]
        self.num_mixed += group.mixed
        self.num_solved += not group.mixed and proved[0]
        self.num_failed += not group.mixed and not proved[0]
        if group.rollouts[0].hint is None:
            counts = self.levels.setdefault(str(group.rollouts[0].problem.level), [0, 0])
            counts[0] += len(proved)
            counts[1] += sum(proved)
        else:
            self.num_hinted += 1
        self.entries += zip(group.rollouts, group.rewards, strict=True)

    def add_step(self, groups: Sequence[Group], advantages: Sequence[GroupAdvantages]) -> None:
        """Note what the rollouts of the admitted groups weigh in the update; all others weigh 0."""
        self.num_admitted += len(groups)
        for group, values in zip(groups, advantages, strict=True):
            self.advantages |= zip((r.id for r in group.rollouts), values, strict=True)

    def add_samples(self, samples: Sequence[TrainingSample], version: int) -> None:
        """Note how many versions before ``version`` each token in the loss was written."""
        for sample in samples:
            learned = compress(sample.token_versions, sample.loss_mask)
            self.token_ages.update(version - written for written in learned)

    @property
    def solve_rate(self) -> float | None:
        """Proved rollouts over judged ones, those with a hint left out; None when there is none."""
        return _solve_rate(self.verdicts - self.hinted)

    def metrics(self, seconds: float) -> dict[str, Any]:
        """The figures of a step that took ``seconds``."""
        rollouts = sum(self.verdicts.values())
        hints = {
            "hinted_solve_rate": _solve_rate(self.hinted),
            "hinted_rollouts": sum(self.hinted.values()),
            "hinted_groups": self.num_hinted,
        }
        return {
            "solve_rate": self.solve_rate,
            "groups": self.num_groups,
            "groups_mixed": self.num_mixed,
            "groups_admitted": self.num_admitted,
            "groups_solved": self.num_solved,
            "groups_failed": self.num_failed,
            "rollouts": rollouts,
            "unjudged": {name: self.verdicts[name] for name in ("timeout", "crashed")},
            "fatal": self.num_fatal,
            "verdicts": dict(self.verdicts),
            **(hints if self.hinted else {}),
            "verifier_calls": self.verifier_calls,
            "appeal_calls": self.appeal_calls,
            "verified_per_second": rollouts / seconds if seconds else 0.0,
            "calls_per_second": self.verifier_calls / seconds if seconds else 0.0,
            "tokens_per_second": (
                self.num_tokens / self.generation_seconds if self.generation_seconds else 0.0
            ),
            "completion_tokens_mean": self.num_tokens / rollouts if rollouts else 0.0,
            "turns": self.completions.num,
            **self.completions.figures(),
            "step_seconds": round(seconds, 3),
            "levels": {
                level: {"attempts": attempts, "solved": solved}
                for level, (attempts, solved) in sorted(self.levels.items())
            },
            **self.figures,
        }

    def staleness(self) -> dict[str, Any]:
        """Steps between the weights that wrote an admitted group and those that learn from it, and
        versions between those that wrote a token and learn from it."""
        num_tokens = self.token_ages.total()
        versions = sum(age * num for age, num in self.token_ages.items())
        return {
            "staleness_mean": sum(self.ages) / len(self.ages) if self.ages else 0.0,
            "staleness_max": max(self.ages, default=0),
            "groups_stale": self.num_stale,
            "token_staleness_mean": versions / num_tokens if num_tokens else 0.0,
            "token_staleness_max": max(self.token_ages, default=0),
        }

    def rows(self, step: int) -> Iterator[Mapping[str, Any]]:
        """One row per rollout, for ``rollouts/step_N.jsonl``; ``advantage`` is that of the last
        turn, null for a rollout that is in no group."""
        for rollout, reward in self.entries:
            turns = self.advantages.get(rollout.id, [0.0] * len(rollout.turns))
            turn = rollout.turns[-1]
            problem = rollout.problem
            yield {
                "step": step,
                "rollout_id": rollout.id,
                "problem": {
                    "id": problem.id,
                    "language": problem.language,
                    "level": problem.level,
                    "family": problem.family,
                    "preamble": problem.preamble,
                    "statement": problem.statement,
                },
                "completion": {
                    "text": turn.completion.text,
                    "num_tokens": len(turn.completion.token_ids),
                    "finish_reason": turn.completion.finish_reason,
                    "policy_version": turn.completion.policy_version,
                },
                "body": turn.candidate.body if turn.candidate else "",
                "hint": describe_hint(rollout),
                **verdict_fields(rollout),
                "reward": reward.total if reward else None,
                "advantage": mean_credit(turns[-1]) if reward else None,
                "turns": describe_turns(rollout, turns if reward else None),
            }


def _solve_rate(verdicts: Counter[str]) -> float | None:
    judged = sum(n for status, n in verdicts.items() if Status(status).judged)
    return verdicts["proved"] / judged if judged else None


class IdleClock:
    """Times in which each part of a run had nothing to do, in wall seconds, and rows of a
    generation. ``pool`` works while any verdict is awaited; turns after the first, their writing
    included, count for it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        parts: Sequence[Component] = ("generator", "pool", "learner"),
    ) -> None:
        self._clock = clock
        self._since = clock()
        self._depth: dict[Component, int] = dict.fromkeys(parts, 0)
        self._began: dict[Component, float] = {}
        self._busy: dict[Component, float] = dict.fromkeys(parts, 0.0)
        self._tokens = [0, 0]

    def wrote(self, lengths: Sequence[int]) -> None:
        """So many tokens were written of each of a draw's completions, which begin together."""
        self._tokens[0] += sum(lengths)
        self._tokens[1] += len(lengths) * max(lengths, default=0)

    @contextmanager
    def busy(self, part: Component) -> Iterator[None]:
        """The part is at work; scopes may lie within or beside each other."""
        if self._depth[part] == 0:
            self._began[part] = self._clock()
        self._depth[part] += 1
        try:
            yield
        finally:
            self._depth[part] -= 1
            if self._depth[part] == 0:
                self._busy[part] += self._clock() - self._began[part]

    def take_idle(self) -> dict[str, float]:
        """Idle seconds of each part since this was last asked, for the metrics; ``row_occupancy``
        is the share of rows that had a token left to write, over the steps of all generations."""
        now = self._clock()
        idle: dict[str, float] = {}
        if self._tokens[1]:
            idle["row_occupancy"] = round(self._tokens[0] / self._tokens[1], 4)
            self._tokens = [0, 0]
        for part, busy in self._busy.items():
            if self._depth[part]:
                busy += now - self._began[part]
                self._began[part] = now
            idle[f"idle_{part}_seconds"] = round(max(0.0, now - self._since - busy), 3)
            self._busy[part] = 0.0
        self._since = now
        return idle
