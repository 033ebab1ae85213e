"""Rewards beside 1 for a proof. Each reads its constants from ``[reward.options]``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from proverrl.config.base import Section
from proverrl.types import Reward, Rollout, Status, Verdict

_GATED = (Status.PROVED, Status.REJECTED, Status.EXHAUSTED)


class ObligationOptions(Section):
    """``share``: the most that a failed proof can earn, below 1."""

    share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5


def obligations(rollout: Rollout, *, options: ObligationOptions) -> Reward:
    """1 for a proof, else ``share`` times the mean credit of the last verdict's entries. The share
    is below 1, so no failed proof earns as much as a proved one; a verdict that does not pass the
    gate of ``entry_credits`` earns nothing (after Re:Form, Yan et al. 2025, arXiv 2507.16331)."""
    if rollout.status is Status.PROVED:
        return Reward(total=1.0, parts={"proved": 1.0, "obligations": 0.0})
    entries = entry_credits(rollout.turns[-1].verdict)
    value = options.share * (sum(entries.values()) / len(entries) if entries else 0.0)
    return Reward(total=value, parts={"proved": 0.0, "obligations": value})


def entry_credits(verdict: Verdict | None) -> dict[str, float]:
    """Per entry of a program 1 / (1 + obligations that failed): 1 where nothing failed. Successes
    do not count, because a policy could add any number of obligations that hold (``assert true;``).
    The gate: nothing is credited unless the program is ours, was resolved and was given to the
    prover."""
    if verdict is None or verdict.status not in _GATED:
        return {}
    return {
        entry.entry: 1.0 / (1.0 + entry.total - entry.proved)
        for entry in verdict.obligations
        if entry.total > 0
    }
