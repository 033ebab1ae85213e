"""Checks that the model that samples is the model that learns, measured on fixed sequences.

Flows in: log-probabilities of the same tokens from two paths, each of shape (sequences, tokens).
Flows out: their distance, and what is wrong with it. A run whose sampler stands still looks like
one that learns nothing, and a push that reports success proves nothing: engines repack weights, tie
some of them and skip others. A few forward passes reveal it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch

from proverrl.errors import UsageError, WeightSyncError
from proverrl.policy.decoding import CachedRows
from proverrl.policy.transformers import TransformersPolicy

LogProbs = Sequence[Sequence[float]]

TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 3e-2}
"""The allowed difference of sampler and learner per token, on average, in nats."""

MIN_SEQUENCES = 8


def mean_abs_difference(a: LogProbs, b: LogProbs) -> float:
    """The mean over all tokens of |a - b|. Raises ``ValueError`` if the shapes differ, or there is
    no token."""
    pairs = [
        (x, y) for row, other in zip(a, b, strict=True) for x, y in zip(row, other, strict=True)
    ]
    if not pairs:
        raise ValueError("no token to compare")
    return sum(abs(x - y) for x, y in pairs) / len(pairs)


def explain_disagreement(sampler: LogProbs, learner: LogProbs, tolerance: float) -> str:
    """The reason why sampler and learner cannot have the same weights; empty when they agree."""
    distance = mean_abs_difference(sampler, learner)
    # Written so that what is not a number disagrees.
    if distance <= tolerance:
        return ""
    return (
        f"sampler and learner disagree by {distance:.3g} nats per token on {len(sampler)} fixed "
        f"sequences, more than {tolerance:g}: the sampler does not have the learner's weights"
    )


def explain_no_effect(sampler: LogProbs, base: LogProbs, *, moved: bool) -> str:
    """The reason why an adapter has no effect on the sampler; empty when it has one or has not
    moved."""
    if not moved or mean_abs_difference(sampler, base) != 0.0:
        return ""
    return (
        f"the adapter has moved, and the sampler gives {len(sampler)} fixed sequences exactly the "
        "log-probabilities of the base model: it samples without the adapter"
    )


@torch.inference_mode()
def score_by_sampling(
    policy: TransformersPolicy, sequences: Sequence[Sequence[int]], *, tokens: int
) -> list[list[float]]:
    """Log-probabilities at temperature 1 of the last ``tokens`` of each sequence, computed as in
    generation: the rest is prefilled, padded on the left, then one token at a time from the cache.
    """
    policy.model.eval()
    prompts = [sequence[:-tokens] for sequence in sequences]
    forced = torch.tensor([sequence[-tokens:] for sequence in sequences], device=policy.device)
    rows = CachedRows(policy.model, prompts, pad_id=policy.end_id, device=policy.device)
    found = []
    for step in range(tokens):
        if step:
            rows.add(forced[:, step - 1])
        logprobs = torch.log_softmax(rows.logits.float(), dim=-1)
        found.append(logprobs.gather(-1, forced[:, step : step + 1]))
    scores: list[list[float]] = torch.cat(found, dim=1).tolist()
    return scores


Rows = Sequence[tuple[int, ...]]
Scores = list[list[float]]

STUCK_SHARE = 0.1
"""A sampler whose scores did not change in any bit is refused once the model's moved by more than
this share of the limit: far more than rounding could hide over so many tokens."""


def choose_rows(prompts: Sequence[tuple[int, ...]], *, count: int, max_tokens: int) -> Rows:
    """``count`` different sequences of 2 to ``max_tokens`` tokens, spread over ``prompts``; with
    fewer prompts than that, later windows of each are used as well. Raises ``UsageError`` if the
    prompts hold too few tokens for so many sequences."""
    rows: dict[tuple[int, ...], None] = {}
    order = [*prompts[:: max(1, len(prompts) // count)], *prompts]
    for start in range(max(map(len, prompts), default=0)):
        for prompt in order:
            row = prompt[start : start + max_tokens]
            if len(row) > 1:
                rows[row] = None
            if len(rows) == count:
                return list(rows)
    raise UsageError(
        f"the prompts give {len(rows)} different sequences to compare sampler and learner on, and "
        f"{count} are needed; add problems"
    )


@torch.inference_mode()
def score_rows(model: Any, rows: Rows) -> Scores:
    """Log-probabilities at temperature 1 of every token but a row's first, each row separately: no
    padding, no cache, no packing. This is the definition that any engine must meet."""
    device = next(model.parameters()).device
    scores = []
    for row in rows:
        ids = torch.tensor([row], device=device)
        logits = model(input_ids=ids, use_cache=False).logits[0, :-1].float()
        logprobs = torch.log_softmax(logits, dim=-1)
        scores.append(logprobs.gather(-1, ids[0, 1:, None]).squeeze(-1).tolist())
    return scores


@dataclass
class PushProbe:
    """Compares what learns and what samples on the same rows after every push. A mean difference
    above ``limit`` nats is too much for the sampler's ``dtype``; ``remedy`` says what to do then.
    """

    learner: Callable[[Rows], Scores]
    sampler: Callable[[Rows], Scores]
    rows: Rows
    _: KW_ONLY
    limit: float
    dtype: str
    remedy: str = "use policy.engine = 'transformers'"
    _moved_from: tuple[list[float], list[float]] | None = field(default=None, init=False)

    def check(self) -> dict[str, float]:
        """The difference as figures for the metrics, in nats. Raises ``WeightSyncError`` if it is
        above the limit, or the sampler stood still."""
        model = _flatten(self.learner(self.rows))
        sampler = _flatten(self.sampler(self.rows))
        if len(model) != len(sampler):
            raise WeightSyncError(
                f"the sampler scored {len(sampler)} tokens of the probe, the model {len(model)}"
            )
        mean = mean_abs_difference([model], [sampler])
        # A figure that is not a number must not pass for a small one.
        if not mean <= self.limit:
            raise WeightSyncError(
                f"after the push the sampler's log-probabilities are {mean:.3g} nats off on "
                f"average, over {len(model)} tokens of {len(self.rows)} sequences; in {self.dtype} "
                f"at most {self.limit:g} is right. The sampler does not hold the weights that were "
                f"trained; {self.remedy}, or a larger limit if the model is known to differ so much"
            )
        self._require_movement(model, sampler)
        largest = max(abs(a - b) for a, b in zip(model, sampler, strict=True))
        return {"push_mean_abs_dlogp": mean, "push_max_abs_dlogp": largest}

    def _require_movement(self, model: list[float], sampler: list[float]) -> None:
        """One small step stays below the limit, and so would a skipped push."""
        if self._moved_from is None or self._moved_from[1] != sampler:
            self._moved_from = (model, sampler)
            return
        moved = mean_abs_difference([model], [self._moved_from[0]])
        if moved > STUCK_SHARE * self.limit:
            raise WeightSyncError(
                f"the push was skipped: the model's log-probabilities moved by {moved:.3g} nats on "
                "average since the sampler's last changed, and the sampler's are the same in every "
                f"bit; {self.remedy}"
            )


def _flatten(scores: Scores) -> list[float]:
    values = [value for row in scores for value in row]
    if not all(math.isfinite(value) for value in values):
        raise WeightSyncError("a log-probability of the probe is not finite")
    return values
