"""Checks in a run that the sampler uses the adapter that the learner trains.

Flows in: a policy with an adapter. Flows out: two figures for the metrics, or an error that ends
the run. Not handled here: the comparison itself (``proverrl.policy.probe``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import torch

from proverrl.errors import ProverRLError
from proverrl.learner.packed_rows import PackedRow, batch_rows, packed_logprobs, split_by_sample
from proverrl.policy.lora import adapter_disabled, has_adapter, has_moved
from proverrl.policy.probe import (
    MIN_SEQUENCES,
    TOLERANCES,
    explain_disagreement,
    explain_no_effect,
    mean_abs_difference,
    score_by_sampling,
)
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.samples import build_replay_sample
from proverrl.types import Problem

SCORED_TOKENS = 8


def probe_adapter(policy: TransformersPolicy, problems: Iterable[Problem]) -> dict[str, float]:
    """Score the last tokens of the prompts of the first eight problems by the sampler's path and by
    the learner's, and without the adapter; returns the mean differences in nats per token. Nothing
    for a policy without an adapter. Raises ``ProverRLError``: the two paths disagree, or the
    adapter has moved and changes nothing."""
    if not has_adapter(policy.model):
        return {}
    sequences = [policy.prompt(p).token_ids for p in islice(problems, MIN_SEQUENCES)]
    sampler = score_by_sampling(policy, sequences, tokens=SCORED_TOKENS)
    learner = score_by_learning(policy, sequences, tokens=SCORED_TOKENS)
    with adapter_disabled(policy.model):
        base = score_by_sampling(policy, sequences, tokens=SCORED_TOKENS)
    dtype = policy.model.dtype
    # In bfloat16 a small adapter may be rounded away; then the learner does not see it either.
    seen = dtype == torch.float32 or mean_abs_difference(learner, base) > TOLERANCES[dtype]
    moved = has_moved(policy.model) and seen
    wrong = explain_disagreement(sampler, learner, TOLERANCES[dtype])
    wrong = wrong or explain_no_effect(sampler, base, moved=moved)
    if wrong:
        raise ProverRLError(wrong)
    return {
        "probe_sampler_learner": mean_abs_difference(sampler, learner),
        "probe_from_base": mean_abs_difference(sampler, base),
    }


@torch.no_grad()
def score_by_learning(
    policy: TransformersPolicy, sequences: Sequence[Sequence[int]], *, tokens: int
) -> list[list[float]]:
    """The scores of ``score_by_sampling``, from the learner's packed rows."""
    policy.model.eval()
    rows = [PackedRow((build_replay_sample(s[:-tokens], s[-tokens:]),)) for s in sequences]
    scores: dict[int, list[float]] = {}
    for batch in batch_rows(rows, 16_384):
        logprobs, _ = packed_logprobs(policy.model, batch, temperature=1.0)
        scores |= {id(s): part.tolist() for s, part in split_by_sample(batch, logprobs)}
    return [scores[id(row.samples[0])] for row in rows]
