"""A policy that judges its own attempts with the weights that wrote them (RISE, Liu et al. 2025,
arXiv 2505.13445).

Flows in: the judged draws of a run's source. Flows out: the same draws, then groups of judgements
on some attempts of the step, half of them proved, which join the same update. A judgement earns 1
where it is well formed and says what the verifier said; it costs no call of a prover, and changes
no verdict. Nothing of it is kept as a proof, and the curriculum does not hear of it. Not handled
here: how good the judgements are (``proverrl.evaluation.calibration``).
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.errors import ProblemError
from proverrl.lang.critique.language import ask_verdict
from proverrl.loops.pipeline import Judged, Source, make_sampling
from proverrl.loops.state import RunState
from proverrl.loops.tally import IdleClock, Tally
from proverrl.rollout.samples import TrainingSample
from proverrl.rollout.whole_proof import JudgedDraw, draw_groups, judge_all
from proverrl.seeds import derive_seed
from proverrl.types import Group, Problem


@dataclass
class SelfJudging(Source):
    """Another ``Source`` with ``grpo.judgements`` groups of judgements at the end of each step."""

    state: RunState
    source: Source

    @property
    def usage(self) -> IdleClock:  # type: ignore[override]
        return self.source.usage

    async def draws(self) -> AsyncIterator[Judged]:
        """See ``Source.draws``."""
        seen: list[JudgedDraw] = []
        async for judged in self.source.draws():
            seen += judged.draws if judged.use == "learned" else ()
            yield judged
        if (judgements := await self._judge(seen)).draws:
            yield judgements

    async def _judge(self, seen: Sequence[JudgedDraw]) -> Judged:
        session, number = self.state.session, self.state.number_draw()
        config = session.config
        rng = random.Random(derive_seed(config.seed, "own attempts", number))
        problems = choose_attempts(seen, config.grpo.judgements, rng)
        with self.usage.busy("generator"):
            draws = await draw_groups(
                session.sampler,
                problems,
                n=config.grpo.group_size,
                sampling=make_sampling(config, "judgements", number),
                name=str(number),
            ) if problems else []  # fmt: skip
        deadline = config.pool.deadline_seconds
        judged = await judge_all(draws, session.verifier, deadline_seconds=deadline)
        return Judged(judged, 0.0, use="judgements")

    def took(self, num_groups: int) -> None:
        self.source.took(num_groups)

    def end_step(self, groups: Sequence[Group], tally: Tally) -> Sequence[TrainingSample]:
        return self.source.end_step(groups, tally)

    async def learned(self) -> dict[str, float]:
        return await self.source.learned()

    def state_dict(self) -> dict[str, Any]:
        return self.source.state_dict()

    async def aclose(self) -> None:
        await self.source.aclose()


def choose_attempts(seen: Sequence[JudgedDraw], num: int, rng: random.Random) -> list[Problem]:
    """Problems that ask whether an attempt is proved: of up to ``num`` distinct attempts, as many
    that were as that were not, so that to say the same of all earns half. What was not judged,
    holds no body or cannot be shown is not asked about."""
    sides: Mapping[bool, dict[str, Problem]] = {True: {}, False: {}}
    for rollout in (rollout for draw in seen for rollout in draw.rollouts):
        turn = rollout.turns[-1]
        if turn.candidate is None or turn.verdict is None or not turn.verdict.status.judged:
            continue
        try:
            asked = ask_verdict(turn.candidate, is_proved=turn.verdict.proved)
        except ProblemError:
            continue
        # Two that differ in comments alone are shown alike.
        sides[turn.verdict.proved].setdefault(asked.statement, asked)
    share = min(num // 2, *map(len, sides.values()))
    return [
        problem for side in sides.values() for problem in rng.sample(list(side.values()), share)
    ]
