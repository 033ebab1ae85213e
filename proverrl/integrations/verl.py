"""A reward function for verl's ``custom_reward_function`` (its documented call; verl 0.9).

``path=pkg://proverrl.integrations.verl name=compute_score``, and settings in ``reward_kwargs``.
Flows in: an answer, with the problem's JSON text as the ground truth. Flows out: the score, and
beside it what verl logs. verl knows no answer without a score, so one that could not be judged is
asked about again, and ends the run after ``patience_seconds``: it would count as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proverrl.config import LayoutName
from proverrl.errors import UsageError
from proverrl.integrations.answers import NO_ANSWER, make_rows, open_reward

DATA_SOURCE = "proverrl"
_OF_VERL = frozenset({"reward_router_address", "reward_model_tokenizer"})
"""The arguments that verl adds where it serves a reward model."""


def make_verl_rows(path: str | Path, layout: LayoutName, split: str = "train") -> list[Any]:
    """The problems of a file as rows for verl's parquet files. Raises as ``make_rows``."""
    return [
        {
            "data_source": DATA_SOURCE,
            "prompt": row["prompt"]
            if isinstance(row["prompt"], list)
            else [{"role": "user", "content": row["prompt"]}],
            "ability": "proof",
            "reward_model": {"style": "rule", "ground_truth": row["problem"]},
            "extra_info": {"split": split, "index": index},
        }
        for index, row in enumerate(make_rows(path, layout))
    ]


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    layout: LayoutName = "plain",
    servers: str | Sequence[str] = (),
    workers: int = 2,
    deadline_seconds: float = 60.0,
    patience_seconds: float = 600.0,
    confirm: str = "proved",
    **given: object,
) -> dict[str, float]:
    """1 for a proof, 0 for what was judged to be none; ``confirm`` as ``pool.confirm``. Raises
    ``VerifierError`` after ``patience_seconds`` without a verdict, ``ProblemError`` when the ground
    truth is no problem, ``UsageError`` for a setting that is not known."""
    if unknown := sorted(given.keys() - _OF_VERL):
        raise UsageError(
            f"reward_kwargs has {', '.join(unknown)}; known are layout, servers, workers, "
            "deadline_seconds, patience_seconds, confirm"
        )
    named = servers if isinstance(servers, str) else tuple(servers)
    reward = open_reward(layout, named, workers, deadline_seconds, confirm)
    score = await reward.insist(ground_truth, solution_str, patience_seconds=patience_seconds)
    assert score.reward is not None
    value = score.reward
    return {"score": value, "acc": value, "no_answer": float(score.status == NO_ANSWER)}
