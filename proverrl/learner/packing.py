"""Packs sequences into rows and scores every completion token in one forward pass.

Flows in: ``TrainingSample`` records and a causal language model. Flows out: log-probabilities and
entropies, one a completion token. Samples that share a prompt are laid into one row (the prompt
once, then every completion, each seeing the prompt and itself) and rows end to end without
padding, which saves most of the tokens of a group and gives the numbers of padded rows of one
sample each. Not handled here: losses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from proverrl.learner.segments import NO_MASK, Span, make_segments, use_segments
from proverrl.rollout.training_sample import TrainingSample


class Sized(Protocol):
    """What takes so many tokens of a forward pass."""

    @property
    def num_tokens(self) -> int: ...


Row = TypeVar("Row", bound=Sized)


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


def batch_rows(rows: Iterable[Row], max_tokens: int) -> Iterator[list[Row]]:
    """Batches of rows of like length with at most ``max_tokens`` tokens each (one row that is
    longer goes alone)."""
    batch: list[Row] = []
    num_tokens = 0
    for row in sorted(rows, key=lambda row: row.num_tokens):
        if batch and num_tokens + row.num_tokens > max_tokens:
            yield batch
            batch, num_tokens = [], 0
        batch.append(row)
        num_tokens += row.num_tokens
    if batch:
        yield batch


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

    From then on the model attends through ``proverrl.learner.segments``.

    Raises:
        UsageError: the model does not look its attention up by name.
    """
    use_segments(model)
    device = next(model.parameters()).device
    ids, positions, sequences, sources, targets = _lay_out(rows)
    hidden = model.get_decoder()(
        input_ids=ids[None].to(device),
        position_ids=positions[None].to(device),
        attention_mask=NO_MASK,
        segments=make_segments(sequences, device),
        use_cache=False,
    ).last_hidden_state
    picked = hidden[0, sources.to(device)]
    logits = model.get_output_embeddings()(picked)
    # At least float32: a softmax over a vocabulary needs more bits than bfloat16 has.
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return wide / temperature, targets.to(device)


def _lay_out(
    rows: Sequence[PackedRow],
) -> tuple[Tensor, Tensor, list[Span], Tensor, Tensor]:
    """Ids and positions of all tokens, who attends to what, and per completion token its source's
    index and its target. A completion's last token predicts nothing and is left out."""
    ids: list[int] = []
    positions: list[int] = []
    sequences: list[Span] = []
    sources: list[int] = []
    targets: list[int] = []
    for row in rows:
        length = len(row.prompt)
        prompt = range(len(ids), len(ids) + length)
        ids += row.prompt
        positions += range(length)
        sequences.append(Span(length, torch.tensor(prompt)))
        for sample in row.samples:
            new = sample.token_ids[length:]
            own = range(len(ids), len(ids) + len(new) - 1)
            ids += new[:-1]
            positions += range(length, length + len(own))
            if own:
                sequences.append(Span(len(own), torch.tensor([*prompt, *own])))
            # The prompt's last position predicts each completion's first token.
            sources += [prompt[-1], *own]
            targets += new
    return (
        torch.tensor(ids),
        torch.tensor(positions),
        sequences,
        torch.tensor(sources),
        torch.tensor(targets),
    )
