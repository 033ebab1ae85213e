"""The loss of supervised training: cross-entropy of targets after their prompts.

Flows in: pairs of token ids. Flows out: a scalar with gradients, over padded rows;
log-probabilities of targets. Not handled here: optimizer steps and who makes them
(``supervised``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from proverrl.learner.packed_rows import batch_rows
from proverrl.learner.vocabulary import token_logprobs
from proverrl.run.pairs import Pair


@dataclass(frozen=True, slots=True)
class Imitation:
    """The weighted mean cross-entropy of pairs: targets weigh 1, prompt tokens
    ``prompt_weight``, and what a pair only shows 0."""

    prompt_weight: float

    def cut(self, items: Sequence[Pair], max_tokens: int) -> Iterator[list[Pair]]:
        return batch_rows(items, max_tokens, padded=True)

    def denominator(self, batch: Sequence[Pair]) -> float:
        # A sequence's first token has nothing before it that could predict it.
        return sum(sum(_weigh(pair, self.prompt_weight)[1:]) for pair in batch)

    def compute(
        self, model: Any, part: Sequence[Pair], denominator: float
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """See ``SupervisedLoss.compute``."""
        losses, picked, weights = _score_tokens(model, _pad(part, self.prompt_weight))
        return (losses * weights[picked]).sum() / denominator, {}


def score_targets(model: Any, batch: Sequence[Pair]) -> torch.Tensor:
    """For each pair the log-probability of its target after its prompt, summed over the target's
    tokens. Shape [pairs]; gradients flow where they are recorded."""
    losses, picked, _ = _score_tokens(model, _pad(batch, 0.0))
    rows = picked.nonzero()[:, 0]
    return torch.zeros(len(batch), device=losses.device).index_add(0, rows, -losses)


def _score_tokens(
    model: Any, layout: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The cross-entropy of each token with a weight, where those stand ([rows, tokens - 1], true or
    false), and all weights there."""
    layout = {
        k: v.to(model.device) if isinstance(v, torch.Tensor) else v for k, v in layout.items()
    }
    weights = layout.pop("weights")[:, 1:]
    hidden = model.get_decoder()(**layout, use_cache=False).last_hidden_state
    picked = weights > 0
    targets = layout["input_ids"][:, 1:][picked]
    logprobs, _ = token_logprobs(model, hidden[:, :-1][picked], targets)
    return -logprobs, picked, weights


def _pad(batch: Sequence[Pair], prompt_weight: float) -> dict[str, Any]:
    """A row a pair, the decoder's arguments and the weight of each token in the loss."""
    longest = max(pair.num_tokens for pair in batch)
    ids = torch.zeros((len(batch), longest), dtype=torch.long)
    mask = torch.zeros((len(batch), longest), dtype=torch.long)
    weights = torch.zeros((len(batch), longest))
    for row, pair in enumerate(batch):
        tokens = pair.prompt_ids + pair.target_ids
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
        weights[row, : len(tokens)] = torch.tensor(_weigh(pair, prompt_weight))
    return {"input_ids": ids, "attention_mask": mask, "weights": weights}


def _weigh(pair: Pair, prompt_weight: float) -> list[float]:
    num_learned = len(pair.prompt_ids) - pair.num_shown
    shown = [0.0] * pair.num_shown
    return [prompt_weight] * num_learned + shown + [1.0] * len(pair.target_ids)
