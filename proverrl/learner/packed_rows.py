"""Packs sequences into rows and scores every completion token in one forward pass.

Flows in: ``TrainingSample`` records and a causal language model. Flows out: log-probabilities and
entropies per completion token, and the tensors of ``LossInputs``. Samples that share a prompt make
one row (the prompt once, then every completion, each seeing the prompt and itself), and rows lie
end to end without padding: the numbers are those of padded rows of one sample each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from proverrl.learner.packed_attention import NO_MASK, Span, plan_attention, use_packed_attention
from proverrl.learner.vocabulary import token_logprobs
from proverrl.parallel import deal
from proverrl.rollout.samples import TrainingSample


class Sized(Protocol):
    """An item that takes so many tokens of a forward pass."""

    @property
    def num_tokens(self) -> int: ...


SizedT = TypeVar("SizedT", bound=Sized)


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
        return len(self.prompt) + sum(sample.num_new for sample in self.samples)


def pack_rows(samples: Sequence[TrainingSample]) -> list[PackedRow]:
    """Put samples with the same prompt into one row, in order of first occurrence."""
    by_prompt: dict[tuple[int, ...], list[TrainingSample]] = {}
    for sample in samples:
        by_prompt.setdefault(sample.token_ids[: sample.prompt_length], []).append(sample)
    return [PackedRow(tuple(group)) for group in by_prompt.values()]


def split_rows(rows: Sequence[PackedRow], max_tokens: int) -> list[PackedRow]:
    """The same samples in rows of at most ``max_tokens`` tokens, cut between completions, each with
    its prompt (one sample that is longer goes alone)."""
    parts = []
    for row in rows:
        chosen: list[TrainingSample] = []
        for sample in row.samples:
            if chosen and PackedRow((*chosen, sample)).num_tokens > max_tokens:
                parts.append(PackedRow(tuple(chosen)))
                chosen = []
            chosen.append(sample)
        parts.append(PackedRow(tuple(chosen)))
    return parts


def balance_rows(rows: Sequence[PackedRow], shares: int) -> list[PackedRow]:
    """The same samples in rows that are dealt out to so many processes, cut between completions
    where that makes the largest share smaller by more than the mean grows: the prompt of a row that
    is cut is computed in each part."""

    def cost(cut: Sequence[PackedRow]) -> float:
        _, loads = deal([row.num_tokens for row in cut], shares)
        return max(loads) + sum(loads) / shares

    mean = sum(row.num_tokens for row in rows) / shares
    choices = [list(rows), *(split_rows(rows, math.ceil(mean / parts)) for parts in (1, 2, 4, 8))]
    return min(choices, key=cost)


def samples_of(rows: Iterable[PackedRow]) -> list[TrainingSample]:
    """The samples of all rows, in the order in which ``packed_logprobs`` scores them."""
    return [sample for row in rows for sample in row.samples]


def batch_rows(
    rows: Iterable[SizedT], max_tokens: int, *, padded: bool = False
) -> Iterator[list[SizedT]]:
    """Batches of rows of like length with at most ``max_tokens`` tokens each (one row that is
    longer goes alone); ``padded`` counts each row as the longest of its batch."""
    batch: list[SizedT] = []
    num_tokens = 0
    for row in sorted(rows, key=lambda row: row.num_tokens):
        held = len(batch) * row.num_tokens if padded else num_tokens
        if batch and held + row.num_tokens > max_tokens:
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
    samples = samples_of(rows)
    parts = torch.split(per_token, [sample.num_new for sample in samples])
    return list(zip(samples, parts, strict=True))


def packed_logprobs(
    model: Any,
    rows: Sequence[PackedRow],
    *,
    temperature: float,
    entropy_grad: bool = False,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies (nats) of every completion token, both of shape (tokens,).

    Tokens come in the order of rows, then samples, then positions. The entropies
    carry a gradient only under ``entropy_grad``.
    """
    hidden, targets = read_rows(model, rows)
    return token_logprobs(
        model, hidden, targets, temperature=temperature, entropy_grad=entropy_grad
    )


def read_rows(model: Any, rows: Sequence[PackedRow]) -> tuple[Tensor, Tensor]:
    """The decoder's output at the place before each completion token, of shape (tokens, hidden
    size), and those tokens.

    From then on the model attends through ``proverrl.learner.packed_attention``. Raises
    ``UsageError`` if the model does not look its attention up by name.
    """
    use_packed_attention(model)
    device = next(model.parameters()).device
    ids: list[int] = []
    positions: list[int] = []
    spans: list[Span] = []
    sources: list[int] = []
    targets: list[int] = []
    for row in rows:
        length = len(row.prompt)
        prompt = range(len(ids), len(ids) + length)
        ids += row.prompt
        positions += range(length)
        spans.append(Span(prompt))
        for sample in row.samples:
            new = sample.token_ids[length:]
            # A completion's last token predicts nothing and is left out.
            own = range(len(ids), len(ids) + len(new) - 1)
            ids += new[:-1]
            positions += range(length, length + len(own))
            if own:
                spans.append(Span(own, prompt))
            # The prompt's last position predicts each completion's first token.
            sources += [prompt[-1], *own]
            targets += new
    hidden = model.get_decoder()(
        input_ids=torch.tensor([ids]).to(device),
        position_ids=torch.tensor([positions]).to(device),
        attention_mask=NO_MASK,
        attention_plan=plan_attention(spans, device),
        use_cache=False,
    ).last_hidden_state
    places = torch.tensor(sources).to(device)
    return hidden[0, places], torch.tensor(targets).to(device)


def new_values(samples: Iterable[TrainingSample], name: str) -> Tensor:
    """A per-token field of the samples' tokens after their prompts, of shape (tokens,)."""
    return torch.tensor([value for s in samples for value in getattr(s, name)[s.prompt_length :]])


def gather_tokens(
    rows: Sequence[PackedRow],
    logprobs: Tensor,
    entropy: Tensor,
    old: Mapping[int, Tensor],
    reference: Mapping[int, Tensor],
    version: int,
) -> dict[str, Any]:
    """The tensors of ``LossInputs`` for the tokens in the loss.

    ``logprobs`` and ``entropy`` are those of ``packed_logprobs``; ``old`` and ``reference`` hold
    those of each sample, by ``id()``, and are empty where the sampler's values stand for the old
    policy or there is no reference.
    """
    samples = samples_of(rows)
    device = logprobs.device
    lengths = [sample.num_new for sample in samples]
    keep = new_values(samples, "loss_mask").bool().to(device)
    sampler = new_values(samples, "logprobs").to(device)[keep]
    index = torch.arange(len(samples)).repeat_interleave(torch.tensor(lengths))
    position = torch.cat([torch.arange(length) for length in lengths])
    return {
        "logprobs": logprobs[keep],
        "old_logprobs": torch.cat([old[id(s)] for s in samples])[keep] if old else sampler,
        "sampler_logprobs": sampler,
        "ref_logprobs": torch.cat([reference[id(s)] for s in samples])[keep] if reference else None,
        "entropy": entropy[keep],
        "advantages": new_values(samples, "advantages").to(device)[keep],
        "weights": torch.ones_like(sampler),
        "sample": index.to(device)[keep],
        "position": position.to(device)[keep],
        "group": torch.tensor([g for g, row in enumerate(rows) for _ in row.samples]).to(device),
        "truncated": torch.tensor([s.truncated for s in samples]).to(device),
    }
