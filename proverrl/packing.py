"""Packs training samples into rows and scores every completion token in one forward pass.

Flows in: ``TrainingSample`` records and a causal language model. Flows out: log-probabilities and
entropies, one a completion token. Samples that share a prompt are laid into one row (the prompt
once, then every completion, each seeing the prompt and itself), which saves most of the tokens of
a group and gives the numbers of padded rows of one sample each. Not handled here: losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from proverrl.types import TrainingSample


@dataclass(frozen=True, slots=True)
class PackedRow:
    """Samples with one prompt, laid end to end: the prompt, then each sample's other tokens."""

    samples: tuple[TrainingSample, ...]

    @property
    def prompt(self) -> tuple[int, ...]:
        first = self.samples[0]
        return first.token_ids[: first.prompt_length]

    @property
    def num_tokens(self) -> int:
        new = sum(len(s.token_ids) - s.prompt_length for s in self.samples)
        return len(self.prompt) + new


def pack_rows(samples: Sequence[TrainingSample]) -> list[PackedRow]:
    """Put samples with the same prompt into one row, in order of first occurrence."""
    by_prompt: dict[tuple[int, ...], list[TrainingSample]] = {}
    for sample in samples:
        by_prompt.setdefault(sample.token_ids[: sample.prompt_length], []).append(sample)
    return [PackedRow(tuple(group)) for group in by_prompt.values()]


def batch_rows(rows: Sequence[PackedRow], max_tokens: int) -> Iterator[list[PackedRow]]:
    """Batches of rows of like length with at most ``max_tokens`` padded tokens each (one row
    that is longer goes alone)."""
    batch: list[PackedRow] = []
    for row in sorted(rows, key=lambda row: row.num_tokens):
        # Rows come sorted, so the newest is the longest and sets the padded size.
        if batch and row.num_tokens * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def split_rows(rows: Sequence[PackedRow], hidden_size: int) -> list[PackedRow]:
    """The rows in parts of as many samples as cost least to compute, in the same order.

    A row of n samples with P prompt tokens and C new tokens each costs P + nC tokens, and attention
    adds a share (P + nC) / 6h of that, since the mask is computed whole. The cost a sample is least
    at n = sqrt(P^2 + 6hP) / C.
    """
    parts = []
    for row in rows:
        prompt = len(row.prompt)
        new = max(1.0, (row.num_tokens - prompt) / len(row.samples))
        best = max(1, round(math.sqrt(prompt**2 + 6 * hidden_size * prompt) / new))
        num_parts = math.ceil(len(row.samples) / best)
        size = math.ceil(len(row.samples) / num_parts)
        parts += [
            PackedRow(row.samples[start : start + size])
            for start in range(0, len(row.samples), size)
        ]
    return parts


def split_by_sample(
    rows: Sequence[PackedRow], per_token: Tensor
) -> list[tuple[TrainingSample, Tensor]]:
    """Each sample with its part of what ``packed_logprobs`` gave for the rows."""
    samples = [sample for row in rows for sample in row.samples]
    lengths = [len(s.token_ids) - s.prompt_length for s in samples]
    return list(zip(samples, torch.split(per_token, lengths), strict=True))


def packed_logprobs(
    model: Any, rows: Sequence[PackedRow], *, temperature: float, entropy_grad: bool = False
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies (nats) of every completion token, both of shape (tokens,).

    Tokens come in the order of rows, then samples, then positions. The entropies carry a gradient
    only under ``entropy_grad``.
    """
    logits, targets = packed_logits(model, rows, temperature=temperature)
    logprobs = torch.log_softmax(logits, dim=-1)
    spread = logprobs if entropy_grad else logprobs.detach()
    entropy = -(spread.exp() * spread).sum(-1)
    return logprobs.gather(-1, targets[:, None]).squeeze(-1), entropy


def packed_logits(
    model: Any, rows: Sequence[PackedRow], *, temperature: float
) -> tuple[Tensor, Tensor]:
    """Logits over the vocabulary, divided by ``temperature``, of shape (tokens, vocabulary), and
    the tokens themselves, of shape (tokens,), in the order of ``packed_logprobs``.

    The model must accept a four-dimensional attention mask (every transformers decoder with sdpa
    or eager attention).
    """
    device = next(model.parameters()).device
    parts = split_rows(rows, model.config.get_text_config(decoder=True).hidden_size)
    ids, positions, allowed, sources, targets = _layout(parts)
    hidden = model.get_decoder()(
        input_ids=ids.to(device),
        position_ids=positions.to(device),
        attention_mask=allowed.to(device)[:, None],
        use_cache=False,
    ).last_hidden_state
    picked = hidden.reshape(-1, hidden.shape[-1])[sources.to(device)]
    return model.get_output_embeddings()(picked).float() / temperature, targets.to(device)


def _layout(rows: Sequence[PackedRow]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Ids, positions, attention mask, and per completion token its source index and target."""
    width = max(row.num_tokens for row in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    positions = torch.zeros((len(rows), width), dtype=torch.long)
    # A padded position attends to itself, so that no softmax is over nothing.
    allowed = torch.eye(width, dtype=torch.bool).repeat(len(rows), 1, 1)
    sources: list[int] = []
    targets: list[int] = []
    for r, row in enumerate(rows):
        p = len(row.prompt)
        ids[r, :p] = torch.tensor(row.prompt)
        positions[r, :p] = torch.arange(p)
        allowed[r, :p, :p] = torch.ones(p, p, dtype=torch.bool).tril()
        start = p
        for sample in row.samples:
            new = sample.token_ids[p:]
            end = start + len(new)
            ids[r, start:end] = torch.tensor(new)
            positions[r, start:end] = torch.arange(p, p + len(new))
            allowed[r, start:end, :p] = True
            causal = torch.ones(len(new), len(new), dtype=torch.bool).tril()
            allowed[r, start:end, start:end] = causal
            base = r * width
            # The prompt's last position predicts each completion's first token.
            sources += [base + p - 1, *range(base + start, base + end - 1)]
            targets += new
            start = end
    return ids, positions, allowed, torch.tensor(sources), torch.tensor(targets)
