"""Supervised training, by all processes of a run, and the warm start that it makes.

Flows in: sources of (prompt ids, target ids) pairs, or items of another loss. Flows out: updated
weights of the policy's model, the same on every process; after a warm start they are in
``warm_start/`` of the run's folder as well. Rank 0 draws the batches; each process
takes a share with a like number of tokens, in micro-batches of at most
``learner.micro_batch_tokens``, and gradients are summed before each optimizer step. Losses are
divided by the sums of the whole batch first, so that a step is that of one process. With
``learner.shard`` the weights are cut over the processes, unless the optimizer needs them whole. Not
handled here: which pairs there are (``pairs``).
"""

from __future__ import annotations

import gc
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from proverrl.config import Config
from proverrl.config.training import (
    ExpertIterationConfig,
    LearnerConfig,
    OptimizerName,
    WarmStartConfig,
)
from proverrl.errors import UsageError
from proverrl.files.disk import appearing, saving
from proverrl.learner.learner import add_up, enable_checkpointing
from proverrl.learner.optimizers import scale_rates
from proverrl.learner.packed_rows import Sized, batch_rows
from proverrl.learner.vocabulary import token_logprobs
from proverrl.learner.weights import MAX_GRAD_NORM, open_weights
from proverrl.policy.lora import (
    ADAPTER_FOLDER,
    attach_adapter,
    merge_adapter,
    save_adapter,
)
from proverrl.policy.probe import MIN_SEQUENCES, Rows, choose_rows
from proverrl.policy.transformers import TransformersPolicy
from proverrl.run.pairs import Pair, PairSource
from proverrl.run.session import BASE_OF_CHECKPOINTS, Session, TrainingProblems
from proverrl.seeds import derive_seed

PROBE_TOKENS = 64
"""Tokens of a sequence that sampler and learner are compared on, at most."""


class SupervisedLoss(Protocol):
    """An objective, which is minimised over items. It travels to the other processes, as the items
    do."""

    def cut(self, items: Sequence[Any], max_tokens: int) -> Iterator[list[Any]]:
        """Micro-batches of at most so many tokens; an item that is longer goes alone."""

    def denominator(self, batch: Sequence[Any]) -> float:
        """The divisor of the sums over a whole batch."""

    def compute(
        self, model: Any, part: Sequence[Any], denominator: float
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The share of a micro-batch in the loss of its batch and in the batch's figures."""


ScoreFn = Callable[[Any, Sequence[Any]], torch.Tensor]
"""The model's figures for each item, of shape [items, figures]. It travels as the items do."""


OPTIMIZER_KEYS = ("optimizer", "learning_rate")
"""The keys of the sections of supervised trainings, in place of ``[learner]``."""


class SupervisedSettings(Protocol):
    """With which optimizer a supervised training is made. It travels to the other processes."""

    @property
    def optimizer(self) -> OptimizerName: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...


class SupervisedLearner:
    """Makes optimizer steps on batches of items. Every process of a run has one: rank 0 makes it
    and calls its methods, and the others do the same as they are told
    (``proverrl.run.follow``). All begin with rank 0's weights. Cut weights come into the policy's
    model at the end, where ``probe_rows`` say whether they arrived."""

    def __init__(
        self,
        policy: TransformersPolicy,
        settings: SupervisedSettings,
        learner: LearnerConfig,
        seed: int,
        loss: SupervisedLoss,
        probe_rows: Rows = (),
    ) -> None:
        self.policy, self.learner, self.loss = policy, learner, loss
        self._world = policy.world
        self._tell("supervise", settings, learner, seed, loss, probe_rows)
        self._world.push(policy.model.parameters())
        own = {name: getattr(settings, name) for name in OPTIMIZER_KEYS}
        if settings.optimizer == "muon":
            own["shard"] = "none"
        self._weights = open_weights(
            policy.model,
            learner.model_copy(update=own),
            self._world,
            probe_rows,
            weight_decay=settings.weight_decay,
        )
        if learner.recomputes(sum(p.numel() for p in policy.model.parameters())):
            enable_checkpointing(self._weights.model)
        # A checkpoint may have dropout, which draws from torch's own generator.
        rank = self._world.rank
        torch.manual_seed(derive_seed(seed, "rank", rank) if rank else seed)

    def step(self, batch: Sequence[Sized], rate: float) -> dict[str, float]:
        """One step on the batch at a share of the learning rate; returns ``loss``, ``grad_norm``
        and the loss's own figures, those of the whole batch."""
        self._tell("supervised_step", batch, rate)
        scale_rates(self._weights.optimizers, rate)
        self._weights.zero_grad()
        self._weights.model.train()
        values = {"loss": 0.0}
        denominator = self.loss.denominator(batch)
        parts = self._cut(batch)
        lockstep = self._weights.lockstep
        # Asked before the first: from then on the others wait for this process's passes.
        passes = max(self._world.gather(len(parts))) if lockstep else len(parts)
        for part in parts:
            for name, value in self._compute(part, denominator).items():
                values[name] = values.get(name, 0.0) + float(value)
        for _ in range(passes - len(parts)):
            # As many as the others make; these teach nothing.
            shortest = min(batch, key=lambda item: item.num_tokens)
            self._compute([shortest], denominator, share=0.0)
        values = add_up(self._world.gather(values))
        self._weights.sum_gradients(self._world)
        values["grad_norm"] = self._weights.clip(MAX_GRAD_NORM)
        self._weights.step()
        return values

    def _compute(
        self, part: Sequence[Any], denominator: float, share: float = 1.0
    ) -> dict[str, torch.Tensor]:
        """Add to the gradients; returns the figures of a micro-batch, ``loss`` among them."""
        figures: dict[str, torch.Tensor] = {}

        def compute(model: Any) -> tuple[torch.Tensor]:
            loss, more = self.loss.compute(model, part, denominator)
            figures.update(more)
            return (loss,)

        (loss,) = self._weights.run(compute)
        (share * loss).backward()
        return {"loss": loss.detach(), **figures}

    @torch.no_grad()
    def score(self, items: Sequence[Sized], score: ScoreFn) -> list[list[float]]:
        """The figures of each item under the policy's weights, which cut ones reach at the end."""
        self._tell("score", items, score)
        shares = [self._cut(items, rank) for rank in range(self._world.size)]
        mine = [score(self.policy.model, part) for part in shares[self._world.rank]]
        rows = [row for part in mine for row in part.tolist()]
        scored = itertools.chain(*(part for parts in shares for part in parts))
        found = {
            id(item): row
            for item, row in zip(scored, itertools.chain(*self._world.gather(rows)), strict=True)
        }
        return [found[id(item)] for item in items]

    def close(self) -> None:
        """The training is over; the model samples again."""
        self._tell("supervised_end")
        self._weights.publish()
        self.policy.model.eval()
        self._weights.close()
        # Nobody sets the policy's gradients to zero again where another copy is trained, and a cut
        # copy lies in cycles: the next learner takes as much.
        self._weights.zero_grad()
        del self._weights
        gc.collect()

    def _cut(self, items: Sequence[Sized], rank: int | None = None) -> list[list[Any]]:
        mine = self._world.shard(items, lambda item: item.num_tokens, rank)
        return list(self.loss.cut(mine, self.learner.micro_batch_tokens))

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
    """Minimise ``Imitation`` over random batches. The rate warms up over 5 % of the steps,
    then falls linearly to a tenth. ``progress(step, loss)`` is called after every step. Returns the
    mean loss of the last tenth. Deterministic on CPU under ``seed`` and a number of processes.
    Called on rank 0."""
    config = session.config
    imitation = Imitation(config.warm_start.prompt_weight)
    learner = SupervisedLearner(
        session.policy,
        settings,
        config.learner,
        seed,
        imitation,
        choose_probe_rows(config, session.policy, session.problems),
    )
    batches = draw_batches(sources, settings.batch_size, random.Random(seed))
    losses: list[float] = []
    for step, batch in zip(range(steps), batches, strict=False):
        losses.append(learner.step(batch, supervised_rate(step, steps))["loss"])
        progress(step + 1, losses[-1])
    learner.close()
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail) if tail else 0.0


def choose_probe_rows(
    config: Config, policy: TransformersPolicy, problems: TrainingProblems
) -> Rows:
    """The sequences that cut weights and the sampler's are compared on after each push; none where
    no weights are cut."""
    if config.learner.shard == "none":
        return ()
    prompts = [policy.prompt(problem).token_ids for problem in problems.all]
    return choose_rows(prompts, count=MIN_SEQUENCES, max_tokens=PROBE_TOKENS)


def draw_batches(
    sources: Sequence[PairSource], batch_size: int, rng: random.Random
) -> Iterator[list[Pair]]:
    """Endless batches of one source or more; every source once before any again. Eight batches at a
    time are drawn, sorted by length, cut, and given out in random order: padding is what a mixed
    batch costs."""
    if not sources:
        raise ValueError("there is nothing to draw")
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


def supervised_rate(step: int, steps: int) -> float:
    """The factor of the learning rate: it rises over a twentieth of the steps, and then
    falls in a straight line to a tenth."""
    warm = max(1, steps // 20)
    if step < warm:
        return (step + 1) / warm
    return 1.0 - 0.9 * (step - warm) / max(1, steps - warm)


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
        losses, picked, weights = score_tokens(model, part, self.prompt_weight)
        return (losses * weights[picked]).sum() / denominator, {}


def score_tokens(
    model: Any, batch: Sequence[Pair], prompt_weight: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The cross-entropy of each token with a weight, where those stand ([pairs, tokens - 1], true
    or false), and all weights there: 1 for a target's tokens, ``prompt_weight`` for a prompt's."""
    layout = {
        k: v.to(model.device) if isinstance(v, torch.Tensor) else v
        for k, v in _pad(batch, prompt_weight).items()
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
    num_learned = len(pair.prompt_ids) - pair.num_before - pair.num_shown
    before, shown = [0.0] * pair.num_before, [0.0] * pair.num_shown
    return before + [prompt_weight] * num_learned + shown + [1.0] * len(pair.target_ids)


def warm_start(session: Session, taught: Sequence[PairSource]) -> None:
    """Train on what is ``taught``, and save the policy; its folder marks the end."""
    config, monitor, policy = session.config, session.monitor, session.policy
    settings = config.warm_start

    def show(step: int, loss: float) -> None:
        if step < settings.steps:
            session.check_stop(f"the warm start was at step {step} and begins again")
        monitor.phase("warm start", f"{step}/{settings.steps}, loss {loss:.3f}")
        if step % 10 == 0 or step == settings.steps:
            monitor.log("sft", step, {"loss": loss})

    if settings.steps and taught:
        seed = derive_seed(config.seed, "warm_start")
        sources = [*taught]
        train_supervised(session, sources, settings, steps=settings.steps, seed=seed, progress=show)
        if not all(bool(torch.isfinite(weight).all()) for weight in policy.model.parameters()):
            raise UsageError(
                "the warm start has left weights that are no numbers, and nothing was saved; lower "
                "warm_start.learning_rate and give the command again"
            )
    lora = config.policy.lora
    with saving(session.warm_policy.parent), appearing(session.warm_policy) as unfinished:
        if lora.rank:
            save_adapter(policy.model, session.warm_policy.parent / ADAPTER_FOLDER)
            merge_adapter(policy.model)
        policy.save(unfinished)
    if lora.rank:
        # The loop trains a new one, on top of the warm-started policy.
        seed = derive_seed(config.seed, "lora")
        attach_adapter(policy.model, lora, seed=seed, base=BASE_OF_CHECKPOINTS)
    session.sampler.push(policy.version)
