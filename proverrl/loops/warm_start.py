"""Supervised training on reference bodies: the model that reinforcement learning starts from.

Flows in: sources of (prompt ids, body ids) pairs. Flows out: updated weights of the model; the
warm start's are in ``warm_start/`` of the run's folder. Expert iteration trains in the same way on
the proofs that it kept. Not handled here: which pairs there are (``pairs``).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from proverrl.config.training import ExpertIterationConfig, WarmStartConfig
from proverrl.files.disk import saving
from proverrl.learner.optimizers import scale_rates
from proverrl.learner.packed_attention import NO_MASK, Span, plan_attention, use_packed_attention
from proverrl.learner.packed_rows import batch_rows
from proverrl.learner.vocabulary import token_logprobs
from proverrl.learner.weights import TrainedWeights
from proverrl.loops.pairs import Pair, PairSource, make_source, reference_sources
from proverrl.loops.session import Session
from proverrl.policy.lora import attach_adapter, merge_adapter
from proverrl.policy.transformers import TransformersPolicy
from proverrl.seeds import derive_seed
from proverrl.types import Problem


def warm_start(
    session: Session, proofs: Sequence[tuple[Problem, str]], taught: Sequence[PairSource]
) -> None:
    """Train on references, what else is ``taught`` and ``proofs`` of searches, and save the
    weights; the last file written marks the end."""
    config, monitor, policy = session.config, session.monitor, session.policy
    settings = config.warm_start
    sources = [*reference_sources(session), *taught]
    sources += [make_source(policy, problem, body) for problem, body in proofs]

    def show(step: int, loss: float) -> None:
        if step < settings.steps:
            session.check_stop(f"the warm start was at step {step} and begins again")
        monitor.phase("warm start", f"{step}/{settings.steps}, loss {loss:.3f}")
        if step % 10 == 0 or step == settings.steps:
            monitor.log("sft", step, {"loss": loss})

    if settings.steps and sources:
        seed = derive_seed(config.seed, "warm_start")
        train_supervised(session, sources, settings, steps=settings.steps, seed=seed, progress=show)
    lora = config.policy.lora
    if lora.rank:
        merge_adapter(policy.model)
    temporary = session.warm_weights.with_suffix(".tmp")
    with saving(session.warm_weights.parent):
        session.warm_weights.parent.mkdir(exist_ok=True)
        policy.save(session.warm_weights.parent / "policy")
        torch.save(policy.model.state_dict(), temporary)
        os.replace(temporary, session.warm_weights)
    if lora.rank:
        # The loop trains a new one, on top of the warm-started policy.
        attach_adapter(policy.model, lora, seed=derive_seed(config.seed, "lora"))
    session.sampler.push(policy.version)


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
    mean loss of the last tenth. Deterministic on CPU under ``seed``."""
    config, policy, model = session.config, session.policy, session.policy.model
    weights = TrainedWeights(
        model,
        settings.optimizer,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
    )
    batches = draw_batches(sources, settings.batch_size, random.Random(seed))
    losses: list[float] = []
    # An adapter may have dropout, which draws from torch's own generator.
    torch.manual_seed(seed)
    model.train()
    for step, batch in zip(range(steps), batches, strict=False):
        scale_rates(weights.optimizers, supervised_rate(step, steps))
        weights.zero_grad()
        loss = supervised_loss(
            policy,
            batch,
            prompt_weight=config.warm_start.prompt_weight,
            pack_tokens=settings.pack_tokens,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        weights.clip(config.learner.max_grad_norm)
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
    if not pack_tokens:
        loss, weight = _weighted_loss(policy, _pad(batch, prompt_weight))
        return loss / weight
    use_packed_attention(policy.model)
    parts = [
        _weighted_loss(policy, _pack(row, prompt_weight, policy.device))
        for row in batch_rows(batch, pack_tokens)
    ]
    losses, weights = zip(*parts, strict=True)
    return torch.stack(losses).sum() / torch.stack(weights).sum()


def score_targets(policy: TransformersPolicy, batch: Sequence[Pair]) -> torch.Tensor:
    """For each pair the log-probability of its target after its prompt, summed over the target's
    tokens. Shape [pairs]; gradients flow where they are recorded."""
    losses, picked, _ = _score_tokens(policy, _pad(batch, 0.0))
    rows = picked.nonzero()[:, 0]
    return torch.zeros(len(batch), device=losses.device).index_add(0, rows, -losses)


def _weighted_loss(
    policy: TransformersPolicy, layout: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The weighted sum of the cross-entropies of a layout's tokens, and the sum of the weights."""
    losses, picked, weights = _score_tokens(policy, layout)
    return (losses * weights[picked]).sum(), weights.sum()


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
        spans.append(Span(range(len(ids), len(ids) + pair.num_tokens)))
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
