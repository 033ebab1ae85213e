"""Whole-proof rollouts: one completion, one candidate, one verdict.

Flows in: problems with their completions. Flows out: rollouts, in the order of the problems, and
groups of them; completions as JSON values. Identical bodies of one problem are verified once. Not
handled here: further turns (``proverrl.rollout.self_correct``).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, count
from typing import Any, Generic, TypeVar

from proverrl.lang.records import Extraction
from proverrl.policy.base import Policy, generate_fitting
from proverrl.rewards import RewardFn
from proverrl.rollout.completion_counts import LOST
from proverrl.rollout.extract import PLAIN, Mode
from proverrl.types import Completion, Group, Hint, Problem, Prompt, Rollout, Sampling, Turn
from proverrl.verifier.base import Verifier, verify_all


@dataclass(frozen=True, slots=True)
class Draw:
    """Completions of one problem that wait for their verdicts. The extractions are of the whole
    answers: what a hint gave, and the completion after it."""

    id: str
    problem: Problem
    completions: tuple[Completion, ...]
    extractions: tuple[Extraction, ...]
    hint: Hint | None = None


@dataclass(frozen=True, slots=True)
class JudgedDraw:
    """Rollouts of one draw, how many verifier calls they took, and how many seconds it took to
    write what came after the first turn. ``appeals`` are the candidates that were judged a second
    time, by their key: True if the failure was overturned, None if nothing was judged."""

    rollouts: tuple[Rollout, ...]
    num_calls: int
    generation_seconds: float = 0.0
    appeals: tuple[tuple[str, bool | None], ...] = ()


async def draw_groups(
    policy: Policy,
    problems: Sequence[Problem],
    *,
    n: int,
    sampling: Sampling,
    name: str,
    hints: Sequence[Hint | None] | None = None,
    mode: Mode = PLAIN,
) -> list[Draw]:
    """``n`` completions on each problem, after its hint where it has one; ``name`` begins the ids
    of the draws, and ``mode`` finds the bodies."""
    draws = name_draws(problems, hints, name=name)
    prompts = [with_hint(policy.prompt(draw.problem), draw.hint) for draw in draws]
    written = await generate_fitting(policy, prompts, n=n, sampling=sampling)
    draws = [replace(d, completions=tuple(row)) for d, row in zip(draws, written, strict=True)]
    answers = [
        (draw.problem, (draw.hint.opening if draw.hint else "") + completion.text)
        for draw in draws
        for completion in draw.completions
    ]
    found = await mode.read(answers, layout=policy.layout, turn=0, seed=sampling.seed)
    read = iter(found)
    return [replace(d, extractions=tuple(map(explain_lost, d.completions, read))) for d in draws]


def with_hint(prompt: Prompt, hint: Hint | None) -> Prompt:
    """The prompt with the hint's tokens after it; unchanged without one."""
    if hint is None:
        return prompt
    ids = prompt.token_ids + hint.token_ids
    return replace(prompt, text=prompt.text + hint.text, token_ids=ids)


def name_draws(
    problems: Sequence[Problem], hints: Sequence[Hint | None] | None, *, name: str
) -> list[Draw]:
    """A draw on each problem of which nothing is written yet; of a problem that comes again each
    has another id, by which its rollouts are told apart."""
    given = [None] * len(problems) if hints is None else list(hints)
    named: dict[str, Draw] = {}
    for problem, hint in zip(problems, given, strict=True):
        first = f"{name}-{problem.id}{'-hint' if hint else ''}"
        others = (f"{first}-again{number}" for number in count(1))
        free = next(each for each in chain((first,), others) if each not in named)
        named[free] = Draw(free, problem, (), (), hint)
    return list(named.values())


def explain_lost(completion: Completion, found: Extraction) -> Extraction:
    """The extraction of a completion, or the reason why there was no text to find it in."""
    reason = LOST.get(completion.finish_reason, "")
    return found if not reason or completion.text.strip() else Extraction(None, reason=reason)


async def judge(draw: Draw, verifier: Verifier, *, deadline_seconds: float) -> JudgedDraw:
    """Verify a draw's distinct candidates and build its rollouts. A completion that was cut off at
    the token limit is still judged as it is: a proof that verifies is a proof."""
    candidates = [extraction.candidate(draw.problem) for extraction in draw.extractions]
    distinct = {c.key: c for c in candidates if c is not None}
    verdicts = await verify_all(verifier, distinct.values(), deadline_seconds=deadline_seconds)
    by_key = dict(zip(distinct, verdicts, strict=True))
    rollouts = tuple(
        Rollout(
            id=f"{draw.id}-{index}",
            problem=draw.problem,
            role="solver",
            hint=draw.hint,
            turns=(
                Turn(
                    completion,
                    candidate,
                    None if candidate is None else by_key[candidate.key],
                    reason=extraction.reason,
                ),
            ),
        )
        for index, (completion, candidate, extraction) in enumerate(
            zip(draw.completions, candidates, draw.extractions, strict=True)
        )
    )
    return JudgedDraw(rollouts, len(distinct))


async def judge_all(
    draws: Sequence[Draw], verifier: Verifier, *, deadline_seconds: float
) -> list[JudgedDraw]:
    """``judge`` for many draws at once; the pool decides what runs when."""
    judged = (judge(draw, verifier, deadline_seconds=deadline_seconds) for draw in draws)
    return list(await asyncio.gather(*judged))


def build_group(rollouts: Sequence[Rollout], reward: RewardFn) -> Group | None:
    """Drop what was not judged (timeouts, crashes), reward the rest. None when fewer than two
    judged rollouts remain: there is nothing to compare."""
    judged = tuple(rollout for rollout in rollouts if rollout.status.judged)
    if len(judged) < 2:
        return None
    return Group(judged[0].group_key, judged, tuple(reward(rollout) for rollout in judged))


F = TypeVar("F")


class Flights(Generic[F]):
    """One ahead: while what was written is judged, the next is written. What is written and not yet
    landed is kept, the oldest first. ``write`` begins the next one, or gives None when there is no
    other; ``ahead`` are begun before the oldest is waited for."""

    def __init__(
        self,
        write: Callable[[], Awaitable[F | None]],
        *,
        ahead: int = 1,
        waiting: Iterable[F] = (),
    ) -> None:
        self.waiting = deque(waiting)
        self._write = write
        self._ahead = ahead

    async def oldest(self) -> F | None:
        """The oldest, once those after it are written as well; None when there is no other."""
        while len(self.waiting) <= self._ahead:
            written = await self._write()
            if written is None:
                break
            self.waiting.append(written)
        return self.waiting[0] if self.waiting else None

    def land(self) -> None:
        """The oldest is judged."""
        self.waiting.popleft()


_TUPLES = ("prompt_ids", "token_ids", "logprobs", "missing")


def dump_completion(completion: Completion) -> dict[str, Any]:
    """A completion as JSON values; floats survive exactly."""
    return {field.name: getattr(completion, field.name) for field in fields(completion)}


def load_completion(row: Mapping[str, Any]) -> Completion:
    """The completion that ``dump_completion`` wrote."""
    values: dict[str, Any] = {k: tuple(v) if k in _TUPLES else v for k, v in row.items()}
    return Completion(**values)
