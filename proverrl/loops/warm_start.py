"""Supervised training on reference bodies: the model that reinforcement learning starts from.

Flows in: sources of (prompt ids, body ids) pairs. Flows out: updated weights of the model. Also
used by expert iteration on the proofs that it kept. A batch is padded, or packed into rows of a
budget of tokens; the loss is the same. Not handled here: which pairs there are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch.nn import functional

from proverrl.config import OptimizerName
from proverrl.learner.optimizers import scale_rates
from proverrl.learner.row_packing import fill_rows, lay_out
from proverrl.learner.weights import TrainedWeights
from proverrl.policy.transformers import TransformersPolicy
from proverrl.types import Problem


@dataclass(frozen=True, slots=True)
class Pair:
    """A prompt and the completion to be learned, end token included."""

    prompt_ids: tuple[int, ...]
    target_ids: tuple[int, ...]


PairSource = Callable[[], Pair]
"""Gives a pair to learn, tokenised when it is first asked for."""


def make_source(policy: TransformersPolicy, problem: Problem, body: str) -> PairSource:
    """A proof to learn from."""

    @cache
    def tokenise() -> Pair:
        # Only when asked for: of many sources a replay draws a few.
        return Pair(policy.prompt(problem).token_ids, policy.body_ids(problem, body))

    return tokenise


@dataclass(frozen=True, slots=True)
class SftSettings:
    """Settings of one supervised phase. The rate warms up over 5 % of the steps, then falls
    linearly to a tenth. ``prompt_weight`` is the weight of a prompt token in the loss, where a
    target token has 1: a small model learns what programs look like from the prompts. With
    ``pack_tokens`` 0 batches are padded, else packed into rows of at most so many tokens."""

    steps: int
    batch_size: int
    optimizer: OptimizerName
    learning_rate: float
    weight_decay: float
    max_grad_norm: float
    prompt_weight: float
    seed: int
    pack_tokens: int = 0


def train_supervised(
    policy: TransformersPolicy,
    sources: Sequence[PairSource],
    settings: SftSettings,
    *,
    progress: Callable[[int, float], None] = lambda step, loss: None,
) -> float:
    """Minimise ``supervised_loss`` over random batches; every source once before any again.

    ``progress(step, loss)`` is called after every step. Returns the mean loss of the last tenth.
    Deterministic on CPU under ``settings.seed``.
    """
    model = policy.model
    weights = TrainedWeights(
        model,
        settings.optimizer,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
    )
    batches = draw_batches(sources, settings.batch_size, random.Random(settings.seed))
    losses: list[float] = []
    # An adapter may have dropout, which draws from torch's own generator.
    torch.manual_seed(settings.seed)
    model.train()
    for step, batch in zip(range(settings.steps), batches, strict=False):
        scale_rates(weights.optimizers, _schedule(step, settings.steps))
        weights.zero_grad()
        loss = supervised_loss(
            policy,
            batch,
            prompt_weight=settings.prompt_weight,
            pack_tokens=settings.pack_tokens,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        weights.clip(settings.max_grad_norm)
        weights.step()
        losses.append(float(loss.detach()))
        progress(step + 1, losses[-1])
    model.eval()
    weights.close()
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail) if tail else 0.0


def draw_batches(
    sources: Sequence[PairSource], batch_size: int, rng: random.Random
) -> Iterator[list[Pair]]:
    """Endless batches; every source once before any again, pairs of like length together.

    Padding is most of the cost of a mixed batch, so that eight batches at a time are drawn,
    sorted by length, cut, and given out in random order.
    """
    order: list[int] = []
    while True:
        while len(order) < 8 * batch_size:
            fresh = list(range(len(sources)))
            rng.shuffle(fresh)
            order += fresh
        chunk = [sources[i]() for i in order[: 8 * batch_size]]
        del order[: 8 * batch_size]
        chunk.sort(key=lambda pair: len(pair.prompt_ids) + len(pair.target_ids))
        batches = [chunk[i : i + batch_size] for i in range(0, len(chunk), batch_size)]
        rng.shuffle(batches)
        yield from batches


def supervised_loss(
    policy: TransformersPolicy,
    batch: Sequence[Pair],
    *,
    prompt_weight: float,
    pack_tokens: int = 0,
) -> torch.Tensor:
    """Weighted mean cross-entropy of a batch: targets weigh 1, prompt tokens ``prompt_weight``.

    Padded and packed batches give the same loss; a packed one needs a model that accepts a
    four-dimensional attention mask (every transformers decoder with sdpa or eager attention).
    """
    layout = _pack(batch, prompt_weight, pack_tokens) if pack_tokens else _pad(batch, prompt_weight)
    layout = {name: tensor.to(policy.device) for name, tensor in layout.items()}
    weights = layout.pop("weights")
    hidden = policy.model.get_decoder()(**layout, use_cache=False).last_hidden_state
    picked = weights[:, 1:] > 0
    logits = policy.model.get_output_embeddings()(hidden[:, :-1][picked])
    targets = layout["input_ids"][:, 1:][picked]
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    losses = functional.cross_entropy(logits, targets, reduction="none")
    return (losses * weights[:, 1:][picked]).sum() / weights[:, 1:].sum()


def _pad(batch: Sequence[Pair], prompt_weight: float) -> dict[str, torch.Tensor]:
    """A row per pair, the decoder's arguments and the weight of each token in the loss."""
    longest = max(len(pair.prompt_ids) + len(pair.target_ids) for pair in batch)
    ids = torch.zeros((len(batch), longest), dtype=torch.long)
    mask = torch.zeros((len(batch), longest), dtype=torch.long)
    weights = torch.zeros((len(batch), longest))
    for row, pair in enumerate(batch):
        tokens = pair.prompt_ids + pair.target_ids
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
        weights[row, : len(pair.prompt_ids)] = prompt_weight
        weights[row, len(pair.prompt_ids) : len(tokens)] = 1.0
    return {"input_ids": ids, "attention_mask": mask, "weights": weights}


def _pack(batch: Sequence[Pair], prompt_weight: float, max_tokens: int) -> dict[str, torch.Tensor]:
    """The same for rows of several pairs."""
    sequences = [pair.prompt_ids + pair.target_ids for pair in batch]
    packed = lay_out(sequences, fill_rows([len(s) for s in sequences], max_tokens))
    weights = torch.zeros(packed.ids.shape)
    for pair, (row, start) in zip(batch, packed.starts, strict=True):
        middle = start + len(pair.prompt_ids)
        weights[row, start:middle] = prompt_weight
        weights[row, middle : middle + len(pair.target_ids)] = 1.0
        # What stands before a sequence's first token is another sequence.
        weights[row, start] = 0.0
    return {
        "input_ids": packed.ids,
        "attention_mask": packed.allowed[:, None],
        "position_ids": packed.positions,
        "weights": weights,
    }


def _schedule(step: int, steps: int) -> float:
    warm = max(1, steps // 20)
    if step < warm:
        return (step + 1) / warm
    return 1.0 - 0.9 * (step - warm) / max(1, steps - warm)
