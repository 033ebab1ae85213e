"""A reward function for TRL's GRPOTrainer (tried with TRL 1.16).

Flows in: what TRL hands a reward function, with the column ``problem`` of ``make_rows``. Flows out:
a reward for each completion, None where nothing was judged: TRL leaves such a completion out of its
group's mean and gives it no advantage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from proverrl.errors import ProblemError
from proverrl.integrations.answers import NO_ANSWER, ProofReward

RewardFunction = Callable[..., Coroutine[Any, Any, list[float | None]]]


def make_reward(reward: ProofReward) -> RewardFunction:
    """The function for ``GRPOTrainer(reward_funcs=...)``. It logs the shares of completions that
    are proved, hold no answer, or were not judged."""

    async def proved(
        completions: Sequence[Any],
        problem: Sequence[str] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **_: object,
    ) -> list[float | None]:
        if problem is None:
            raise ProblemError("the dataset has no column 'problem'; build it with make_rows")
        scores = await reward.ascore(problem, completions)
        if log_metric is not None and scores:
            counts = Counter(score.status for score in scores)
            num_unjudged = sum(score.reward is None for score in scores)
            log_metric("proofs/proved", counts["proved"] / len(scores))
            log_metric("proofs/no_answer", counts[NO_ANSWER] / len(scores))
            log_metric("proofs/unjudged", num_unjudged / len(scores))
        return [score.reward for score in scores]

    return proved
