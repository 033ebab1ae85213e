"""Supervised training, by all processes of a run.

Flows in: sources of (prompt ids, target ids) pairs, or items of another loss. Flows out: updated
weights of the policy's model, the same on every process. Rank 0 draws the batches; each process
takes a share with a like number of tokens, in micro-batches of at most
``learner.micro_batch_tokens``, and gradients are summed before each optimizer step. Losses are
divided by the sums of the whole batch first, so that a step is that of one process. Not handled
here: which pairs there are (``pairs``), weights that are cut over processes.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from proverrl.config import Config
from proverrl.config.training import (
    ExpertIterationConfig,
    OptimizerName,
    PreferencesConfig,
    WarmStartConfig,
)
from proverrl.learner.learner import add_up, checkpoint_layers
from proverrl.learner.optimizers import scale_rates
from proverrl.learner.packed_attention import NO_MASK, Span, plan_attention, use_packed_attention
from proverrl.learner.packed_rows import Sized, batch_rows
from proverrl.learner.vocabulary import token_logprobs
from proverrl.learner.weights import TrainedWeights
from proverrl.loops.pairs import Pair, PairSource
from proverrl.loops.session import Session
from proverrl.policy.transformers import TransformersPolicy
from proverrl.seeds import derive_seed


class SupervisedLoss(Protocol):
    """What is minimised over items. It travels to the other processes, as the items do."""

    def cut(self, items: Sequence[Any], max_tokens: int) -> Iterator[list[Any]]:
        """Micro-batches of at most so many tokens; an item that is longer goes alone."""

    def compute(
        self, policy: TransformersPolicy, part: Sequence[Any], whole: Sequence[Any]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """What a micro-batch adds to the loss of the ``whole`` batch and to its figures."""

    def score(self, policy: TransformersPolicy, part: Sequence[Any]) -> torch.Tensor:
        """What the model makes of each item, of shape [items, figures]."""


@dataclass(frozen=True, slots=True)
class Imitation:
    """The weighted mean cross-entropy of pairs (``supervised_loss``)."""

    prompt_weight: float
    pack_tokens: int = 0

    def cut(self, items: Sequence[Pair], max_tokens: int) -> Iterator[list[Pair]]:
        if self.pack_tokens:
            return batch_rows(items, min(self.pack_tokens, max_tokens))
        return batch_rows(items, max_tokens, padded=True)

    def compute(
        self, policy: TransformersPolicy, part: Sequence[Pair], whole: Sequence[Pair]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        if self.pack_tokens:
            use_packed_attention(policy.model)
            layout = _pack(part, self.prompt_weight, policy.device)
        else:
            layout = _pad(part, self.prompt_weight)
        losses, picked, weights = _score_tokens(policy, layout)
        # A sequence's first token has nothing before it that could predict it.
        total = sum(sum(_weigh(pair, self.prompt_weight)[1:]) for pair in whole)
        return (losses * weights[picked]).sum() / total, {}

    def score(self, policy: TransformersPolicy, part: Sequence[Pair]) -> torch.Tensor:
        return score_targets(policy, part)[:, None]


@dataclass(frozen=True, slots=True)
class Course:
    """The optimizer of a supervised training, how its gradients are made, and its seed."""

    optimizer: OptimizerName
    learning_rate: float
    weight_decay: float
    max_grad_norm: float
    max_tokens: int
    checkpointing: bool
    seed: int


def plan_course(
    config: Config,
    settings: WarmStartConfig | ExpertIterationConfig | PreferencesConfig,
    seed: int,
) -> Course:
    """The optimizer of ``settings``, with what ``[learner]`` says of gradients and memory."""
    return Course(
        settings.optimizer,
        settings.learning_rate,
        settings.weight_decay,
        config.learner.max_grad_norm,
        config.learner.micro_batch_tokens,
        config.learner.gradient_checkpointing,
        seed,
    )


class SupervisedLearner:
    """Makes optimizer steps on batches of items. Every process of a run has one: rank 0 makes it
    and calls its methods, and the others do the same as they are told
    (``proverrl.loops.follow``). All begin with rank 0's weights."""

    def __init__(self, policy: TransformersPolicy, course: Course, loss: SupervisedLoss) -> None:
        self.policy, self.course, self.loss = policy, course, loss
        self._world = policy.world
        self._tell("supervise", course, loss)
        self._world.push(policy.model.parameters())
        self._weights = TrainedWeights(
            policy.model,
            course.optimizer,
            learning_rate=course.learning_rate,
            weight_decay=course.weight_decay,
        )
        if course.checkpointing:
            checkpoint_layers(policy.model)
        # An adapter may have dropout, which draws from torch's own generator.
        rank = self._world.rank
        torch.manual_seed(derive_seed(course.seed, "rank", rank) if rank else course.seed)

    def step(self, batch: Sequence[Sized], rate: float) -> dict[str, float]:
        """One step on the batch at a share of the learning rate; returns ``loss``, ``grad_norm``
        and the loss's own figures, those of the whole batch."""
        self._tell("teach", batch, rate)
        scale_rates(self._weights.optimizers, rate)
        self._weights.zero_grad()
        self.policy.model.train()
        values = {"loss": 0.0}
        for part in self._cut(batch):
            loss, figures = self.loss.compute(self.policy, part, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            for name, value in {"loss": loss.detach(), **figures}.items():
                values[name] = values.get(name, 0.0) + float(value)
        values = add_up(self._world.gather(values))
        self._weights.sum_gradients(self._world)
        values["grad_norm"] = self._weights.clip(self.course.max_grad_norm)
        self._weights.step()
        return values

    @torch.no_grad()
    def score(self, items: Sequence[Sized]) -> list[list[float]]:
        """The figures of each item under the weights as they are (``SupervisedLoss.score``)."""
        self._tell("score", items)
        shares = [self._cut(items, rank) for rank in range(self._world.size)]
        mine = [self.loss.score(self.policy, part) for part in shares[self._world.rank]]
        rows = [row for part in mine for row in part.tolist()]
        scored = itertools.chain(*(part for parts in shares for part in parts))
        found = {
            id(item): row
            for item, row in zip(scored, itertools.chain(*self._world.gather(rows)), strict=True)
        }
        return [found[id(item)] for item in items]

    def close(self) -> None:
        """The training is over; the model samples again."""
        self._tell("taught")
        self.policy.model.eval()
        self._weights.close()

    def _cut(self, items: Sequence[Sized], rank: int | None = None) -> list[list[Any]]:
        mine = self._world.shard(items, lambda item: item.num_tokens, rank)
        return list(self.loss.cut(mine, self.course.max_tokens))

    def _tell(self, name: str, *values: Any) -> None:
        if self._world.size > 1 and self._world.leads:
            self._world.share((name, values))


def train_supervised(
    session: Session,
    sources: Sequence[PairSource],
    settings: WarmStartConfig | ExpertIterationConfig,
    *,
    steps: int,
    seed: int,
    progress: Callable[[int, float], None],
) -> float:
    """Minimise ``supervised_loss`` over random batches. The rate warms up over 5 % of the steps,
    then falls linearly to a tenth. ``progress(step, loss)`` is called after every step. Returns the
    mean loss of the last tenth. Deterministic on CPU under ``seed`` and a number of processes.
    Called on rank 0."""
    config = session.config
    imitation = Imitation(config.warm_start.prompt_weight, settings.pack_tokens)
    learner = SupervisedLearner(session.policy, plan_course(config, settings, seed), imitation)
    batches = draw_batches(sources, settings.batch_size, random.Random(seed))
    losses: list[float] = []
    for step, batch in zip(range(steps), batches, strict=False):
        losses.append(learner.step(batch, supervised_rate(step, steps))["loss"])
        progress(step + 1, losses[-1])
    learner.close()
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail) if tail else 0.0


def draw_batches(
    sources: Sequence[PairSource], batch_size: int, rng: random.Random
) -> Iterator[list[Pair]]:
    """Endless batches; every source once before any again. Eight batches at a time are drawn,
    sorted by length, cut, and given out in random order: padding is what a mixed batch costs."""
    order: list[int] = []
    while True:
        while len(order) < 8 * batch_size:
            fresh = list(range(len(sources)))
            rng.shuffle(fresh)
            order += fresh
        chunk = [sources[i]() for i in order[: 8 * batch_size]]
        del order[: 8 * batch_size]
        chunk.sort(key=lambda pair: pair.num_tokens)
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
    """Weighted mean cross-entropy of a batch: targets weigh 1, prompt tokens ``prompt_weight``, and
    what a pair only shows 0.

    Padded and packed batches give the same loss; a packed one needs a model that
    ``proverrl.learner.packed_attention`` can attend through. Raises ``UsageError`` if it cannot
    attend through this one.
    """
    imitation = Imitation(prompt_weight, pack_tokens)
    # One row of all pairs, or rows of ``pack_tokens``: gradients are wanted of all at once.
    most = pack_tokens or sys.maxsize
    parts = [imitation.compute(policy, part, batch)[0] for part in imitation.cut(batch, most)]
    return torch.stack(parts).sum()


def score_targets(policy: TransformersPolicy, batch: Sequence[Pair]) -> torch.Tensor:
    """For each pair the log-probability of its target after its prompt, summed over the target's
    tokens. Shape [pairs]; gradients flow where they are recorded."""
    losses, picked, _ = _score_tokens(policy, _pad(batch, 0.0))
    rows = picked.nonzero()[:, 0]
    return torch.zeros(len(batch), device=losses.device).index_add(0, rows, -losses)


def _score_tokens(
    policy: TransformersPolicy, layout: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The cross-entropy of each token with a weight, where those stand ([rows, tokens - 1], true or
    false), and all weights there."""
    device = policy.device
    layout = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in layout.items()}
    weights = layout.pop("weights")[:, 1:]
    hidden = policy.model.get_decoder()(**layout, use_cache=False).last_hidden_state
    picked = weights > 0
    targets = layout["input_ids"][:, 1:][picked]
    logprobs, _ = token_logprobs(policy.model, hidden[:, :-1][picked], targets)
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


def _pack(batch: Sequence[Pair], prompt_weight: float, device: str) -> dict[str, Any]:
    """The same for one row with all pairs end to end, none of which sees another."""
    ids: list[int] = []
    positions: list[int] = []
    weights: list[float] = []
    spans: list[Span] = []
    for pair in batch:
        own = torch.arange(len(ids), len(ids) + pair.num_tokens)
        spans.append(Span(pair.num_tokens, own))
        ids += pair.prompt_ids + pair.target_ids
        positions += range(pair.num_tokens)
        own_weights = _weigh(pair, prompt_weight)
        # What stands before a sequence's first token is another sequence.
        weights += [0.0, *own_weights[1:]]
    return {
        "input_ids": torch.tensor([ids]),
        "attention_mask": NO_MASK,
        "position_ids": torch.tensor([positions]),
        "attention_plan": plan_attention(spans, torch.device(device)),
        "weights": torch.tensor([weights]),
    }


def supervised_rate(step: int, steps: int) -> float:
    """What the learning rate is multiplied with: it rises over a twentieth of the steps, and then
    falls in a straight line to a tenth."""
    warm = max(1, steps // 20)
    if step < warm:
        return (step + 1) / warm
    return 1.0 - 0.9 * (step - warm) / max(1, steps - warm)
