"""A policy that judges its own attempts with the weights that wrote them (RISE, Liu et al. 2025,
arXiv 2505.13445).

Flows in: the judged draws of a run's source. Flows out: the same draws, then groups of judgements
on some attempts of the step, half of them proved, which join the same update; a file of them,
``judgements/step_N.jsonl``. A judgement earns 1 where it is well formed and says what the verifier
said; it costs no call of a prover, and changes no verdict. It has a role of its own and is no
attempt: proofs, curriculum, figures and rollouts of the run do not hold it. Not handled here: how
good the judgements are (``proverrl.evaluation.calibration``).
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proverrl.evaluation.calibration import ask_about
from proverrl.lang import find_language
from proverrl.policy.base import Policy
from proverrl.rollout.samples import TrainingSample
from proverrl.rollout.whole_proof import JudgedDraw, draw_groups, judge_all
from proverrl.run.pipeline import Judged, Source, make_sampling
from proverrl.run.state import RunState
from proverrl.run.tally import IdleClock, Tally
from proverrl.seeds import derive_seed
from proverrl.types import Group, Problem, Rollout, Status

FOLDER = "judgements"


@dataclass
class SelfJudging(Source):
    """Another ``Source`` with ``grpo.judgements`` groups of judgements at the end of each step."""

    state: RunState
    source: Source
    _judged: list[JudgedDraw] = field(default_factory=list)

    @property
    def usage(self) -> IdleClock:  # type: ignore[override]
        return self.source.usage

    async def draws(self) -> AsyncIterator[Judged]:
        """See ``Source.draws``."""
        seen: list[JudgedDraw] = []
        async for judged in self.source.draws():
            seen += judged.draws if judged.use == "learned" else ()
            yield judged
        self._judged = await self._judge(seen)
        yield Judged(self._judged, 0.0, use="judgements")

    async def _judge(self, seen: Sequence[JudgedDraw]) -> list[JudgedDraw]:
        session, number = self.state.session, self.state.number_draw()
        config = session.config
        rng = random.Random(derive_seed(config.seed, "own attempts", number))
        problems = choose_attempts(seen, config.grpo.judgements, rng, session.sampler)
        if not problems:
            return []
        sampling = make_sampling(config, "judgements", number)
        with self.usage.busy("generator"):
            draws = await draw_groups(
                session.sampler,
                problems,
                n=config.grpo.group_size,
                # Of a segment an answer would be the beginning.
                sampling=replace(sampling, max_new_tokens=config.sampling.max_new_tokens),
                name=f"judgement-{number}",
            )
        deadline = config.pool.deadline_seconds
        with self.usage.busy("pool"):
            judged = await judge_all(draws, session.verifier, deadline_seconds=deadline)
        return [
            replace(draw, rollouts=tuple(replace(one, role="judge") for one in draw.rollouts))
            for draw in judged
        ]

    def took(self, num_groups: int) -> None:
        self.source.took(num_groups)

    def end_step(self, groups: Sequence[Group], tally: Tally) -> Sequence[TrainingSample]:
        """See ``Source.end_step``; the judgements are written down, with their figures."""
        said = [rollout for draw in self._judged for rollout in draw.rollouts]
        tally.figures |= rate_judgements(said)
        step = self.state.progress.step + 1
        self.state.session.monitor.write_rollouts(step, map(_describe, said), FOLDER)
        return self.source.end_step(groups, tally)

    async def learned(self) -> dict[str, float]:
        return await self.source.learned()

    def state_dict(self) -> dict[str, Any]:
        return self.source.state_dict()

    async def aclose(self) -> None:
        await self.source.aclose()


def choose_attempts(
    seen: Sequence[JudgedDraw], num: int, rng: random.Random, policy: Policy
) -> list[Problem]:
    """Problems that ask whether an attempt is proved: of up to ``num`` distinct attempts, as many
    that were as that were not, so that to say the same of all earns half. What was not judged,
    holds no body or cannot be shown to ``policy`` is not asked about."""
    sides: Mapping[bool, dict[str, Problem]] = {True: {}, False: {}}
    for rollout in (rollout for draw in seen for rollout in draw.rollouts):
        turn = rollout.turns[-1]
        if turn.candidate is None or turn.verdict is None or not turn.verdict.status.judged:
            continue
        asked = ask_about(turn.candidate, policy, is_proved=turn.verdict.proved)
        if asked is not None:
            # Two that differ in comments alone are shown alike.
            sides[turn.verdict.proved].setdefault(asked.statement, asked)
    share = min(num // 2, *map(len, sides.values()))
    return [
        problem for side in sides.values() for problem in rng.sample(list(side.values()), share)
    ]


def rate_judgements(said: Sequence[Rollout]) -> dict[str, float]:
    """The shares of judgements on proved and on refused attempts that are right; an answer without
    a judgement is not."""
    rates: dict[str, float] = {}
    for name, side in (("proved", True), ("refused", False)):
        right = [one.status is Status.PROVED for one in said if _truth(one) is side]
        if right:
            rates[f"judgements_right_of_{name}"] = round(sum(right) / len(right), 4)
    return rates


def _truth(rollout: Rollout) -> bool | None:
    return find_language(rollout.problem.language).find_truth(rollout.problem)


def _describe(rollout: Rollout) -> dict[str, Any]:
    return {
        "problem_id": rollout.problem.id,
        "statement": rollout.problem.statement,
        "is_proved": _truth(rollout),
        "answer": rollout.turns[-1].completion.text,
        "is_right": rollout.status is Status.PROVED,
    }
