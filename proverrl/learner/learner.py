"""The optimizer over training samples.

Flows in: ``TrainingSample`` records. Flows out: updated weights of the policy's model and the
metrics of the step. Before an update is made a check may refuse it. Not handled here: which
problems to learn from, generation, and what counts as a wrong update (``proverrl.learner.guard``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from proverrl.config import LearnerConfig, LossConfig
from proverrl.errors import ProverRLError, UsageError
from proverrl.files.disk import loading
from proverrl.learner.optimizers import scale_rates
from proverrl.learner.packed_rows import (
    PackedRow,
    balance_rows,
    batch_rows,
    gather_tokens,
    pack_rows,
    packed_logprobs,
    samples_of,
    split_by_sample,
    split_rows,
)
from proverrl.learner.vocabulary import check_head
from proverrl.learner.weights import MAX_GRAD_NORM, calls, keep_up, open_weights
from proverrl.losses import LossInputs, compute_loss, select_samples
from proverrl.parallel import SINGLE, World
from proverrl.policy.loading import DTYPES
from proverrl.policy.lora import adapter_disabled, has_adapter
from proverrl.policy.probe import TOLERANCES, Rows
from proverrl.rollout.samples import TrainingSample


class LossTerm(Protocol):
    """A term that a plug-in adds to the loss of an update. Its items are dealt out over the updates
    of a pass."""

    def backward(
        self, model: Any, items: Sequence[Any], *, mine: Sequence[Any], max_tokens: int
    ) -> dict[str, float]:
        """Add the term's gradient to the model's for ``mine``, a process's share of the update's
        ``items``, in passes of at most ``max_tokens`` tokens. Returns what these add to the
        figures; ``loss`` is one of them."""

    def follow(self, model: Any) -> None:
        """An update was made."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class Update:
    """An update that has its gradients and waits for a check: ``logprobs`` holds for each sample
    the policy's log-probabilities of its tokens after the prompt, of shape (new tokens,)."""

    version: int
    metrics: Mapping[str, float]
    samples: tuple[TrainingSample, ...]
    logprobs: tuple[Tensor, ...]


UpdateCheck = Callable[[Update], None]
"""An exception ends the run before the update."""


def require_finite(update: Update) -> None:
    """The check of a learner that has no other. Raises ``ProverRLError`` if the loss or the
    gradient's norm is not finite."""
    for name, words in (("loss", "the loss"), ("grad_norm", "the gradient's norm")):
        if not math.isfinite(value := update.metrics[name]):
            raise ProverRLError(f"{words} is {value} at version {update.version}; stopping")


class TorchLearner:
    """Updates over packed samples; ``model`` is shared with the policy that samples from it.

    With a KL term a frozen copy of ``model`` as it comes is kept; a model with an adapter is its
    own reference without the adapter. With ``learner.shard`` what is trained is a cut copy, and
    ``probe_rows`` are compared after each push into ``model`` (``proverrl.learner.sharding``).
    ``terms`` are further terms of the loss, by their names.
    """

    def __init__(
        self,
        model: Any,
        config: LearnerConfig,
        *,
        temperature: float,
        loss: LossConfig | None = None,
        version: int = 0,
        check: UpdateCheck = require_finite,
        world: World = SINGLE,
        probe_rows: Rows = (),
        terms: Mapping[str, LossTerm] | None = None,
    ) -> None:
        asked = config.precision
        if asked != "auto" and model.dtype != DTYPES[asked]:  # The sampler would use another one.
            raise UsageError(
                f"learner.precision is {asked!r} and the model's weights are {model.dtype}; "
                f"load it with precision={asked!r}"
            )
        check_head(model, TOLERANCES[model.dtype])
        self.model = model
        self.config = config
        self.loss = LossConfig() if loss is None else loss
        self.temperature = temperature
        self.version = version
        self.check = check
        self.world = world
        self.weights = open_weights(model, config, world, probe_rows)
        # With an adapter the model without it is the reference: no second copy.
        keeps_reference = self.loss.needs_reference and not has_adapter(model)
        self.reference = self.weights.freeze() if keeps_reference else None
        self.terms = dict(terms or {})
        self.recomputes = config.recomputes(sum(p.numel() for p in model.parameters()))
        if self.recomputes:
            enable_checkpointing(self.weights.model)

    def step(
        self,
        samples: Sequence[TrainingSample],
        replay: Callable[[], Sequence[TrainingSample]] = tuple,
        items: Mapping[str, Sequence[Any]] = MappingProxyType({}),
        rate: float = 1.0,
    ) -> dict[str, float]:
        """``epochs`` passes over the samples, ``groups_per_update`` prompts an update; returns
        metrics averaged over updates (over tokens where they are per token; those that end in
        ``_max`` are the largest of the step).

        ``replay()`` is asked once an update for proofs to imitate as well: their mean negative
        log-likelihood times ``replay_weight`` is added to the loss (VAPO, Yue et al. 2025, arXiv
        2504.05118, on fresh positives; here on all that were found). ``items`` are those of
        ``terms``, dealt out over the updates of a pass; without any other sample no update is
        made. ``rate`` is the share of the learning rate that this step has. Raises
        ``ProverRLError`` if the check refuses an update, which is then not made.
        """
        if self.world.size > 1 and self.world.leads:
            self.world.share(("step", (samples, dict(items), rate)))
        scale_rates(self.weights.optimizers, rate)
        kept, counts = select_samples(samples, self.loss)
        rows = pack_rows(kept)
        if not rows:
            return counts
        size = self.config.groups_per_update or len(rows)
        parts = [rows[i : i + size] for i in range(0, len(rows), size)]
        old = self._score(self.weights.run, parts) if self.loss.needs_old_logprobs else {}
        reference = self._score_reference(parts) if self.loss.needs_reference else {}
        updates = []
        for _ in range(self.config.epochs):
            for number, part in enumerate(parts):
                dealt = {name: given[number :: len(parts)] for name, given in items.items()}
                proofs = self.world.share(replay() if self.world.leads else None)
                updates.append(self._update(part, pack_rows(proofs), dealt, old, reference))
        return counts | _summarize(updates) | self.weights.publish()

    def _update(
        self,
        rows: Sequence[PackedRow],
        replay: Sequence[PackedRow],
        items: Mapping[str, Sequence[Any]],
        old: Mapping[int, Tensor],
        reference: Mapping[int, Tensor],
    ) -> dict[str, float]:
        samples = samples_of(rows)
        batch_tokens = max(1, sum(sum(sample.loss_mask) for sample in samples))
        values = {"loss": 0.0}
        scored: list[tuple[TrainingSample, Tensor]] = []
        self.weights.zero_grad()
        self.weights.model.eval()
        if self.recomputes:
            recompute_layers(self.weights.model)
        for batch in self._batches(self.weights.run, [rows]):
            logprobs, entropy = self.weights.run(
                packed_logprobs,
                batch,
                temperature=self.temperature,
                entropy_grad=self.loss.entropy > 0,
            )
            inputs = LossInputs(
                **gather_tokens(batch, logprobs, entropy, old, reference, self.version),
                batch_tokens=batch_tokens,
                batch_samples=len(samples),
                settings=self.loss,
            )
            loss, metrics = compute_loss(inputs)
            loss.backward()  # type: ignore[no-untyped-call]
            values["loss"] += float(loss.detach())
            metrics["entropy"] = inputs.entropy.sum().detach()
            for name, total in metrics.items():
                share = 1 if name.endswith("_max") else batch_tokens
                _add(values, name, float(total) / share)
            scored += split_by_sample(batch, logprobs.detach())
        policy_norm = self._clip_policy()
        if replay:
            values["replay_loss"] = self._imitate(replay)
            values["loss"] += self.config.replay_weight * values["replay_loss"]
        for name, given in items.items():
            if given:
                figures = self.terms[name].backward(
                    self.model,
                    given,
                    mine=self.world.shard(given, lambda item: item.num_tokens),
                    max_tokens=self.config.micro_batch_tokens,
                )
                for figure, value in figures.items():
                    _add(values, figure, value)
        self.weights.model.eval()
        values = add_up(self.world.gather(values))
        self.weights.sum_gradients(self.world)
        values |= policy_norm
        values["grad_norm"] = self.weights.clip(MAX_GRAD_NORM)
        self._check_update(rows, values, scored)
        self.weights.step()
        for term in self.terms.values():
            term.follow(self.model)
        self.version += 1
        return values

    def _clip_policy(self) -> dict[str, float]:
        """With ``learner.max_policy_norm``: clip what the policy loss alone has as a gradient, and
        say what norm it had. A loss that sums over a sequence would drown the replay otherwise."""
        if not self.config.max_policy_norm:
            return {}
        self.weights.sum_gradients(self.world)
        norm = self.weights.clip(self.config.max_policy_norm)
        self.weights.split_gradients(self.world)
        return {"policy_grad_norm": norm}

    def _check_update(
        self,
        rows: Sequence[PackedRow],
        values: Mapping[str, float],
        scored: Sequence[tuple[TrainingSample, Tensor]],
    ) -> None:
        if self.world.size > 1:
            # Samples need not travel: every process knows them all, and whose they are.
            parts = self.world.gather([logprobs.cpu() for _, logprobs in scored])
            scored = list(zip(self._scored_samples(rows), itertools.chain(*parts), strict=True))
        samples, logprobs = zip(*scored, strict=True)
        update = Update(self.version, values, samples, logprobs)
        # The others wait for rank 0's word.
        self.world.share(self.check(update) if self.world.leads else None)

    def _scored_samples(self, rows: Sequence[PackedRow]) -> list[TrainingSample]:
        """The samples of an update in the order in which the processes score them."""
        return [
            sample
            for rank in range(self.world.size)
            for batch in batch_rows(self._shard(rows, rank), self.config.micro_batch_tokens)
            for sample in samples_of(batch)
        ]

    def _shard(self, rows: Sequence[PackedRow], rank: int | None = None) -> list[PackedRow]:
        if not self.loss.needs_groups:
            rows = split_rows(rows, self.config.micro_batch_tokens)
            rows = balance_rows(rows, self.world.size) if self.world.size > 1 else rows
        return self.world.shard(rows, lambda row: row.num_tokens, rank)

    def _imitate(self, rows: Sequence[PackedRow]) -> float:
        num_tokens = sum(sum(sample.loss_mask) for sample in samples_of(rows))
        total = 0.0
        for batch in self._batches(self.weights.run, [rows]):
            logprobs, _ = self.weights.run(packed_logprobs, batch, temperature=self.temperature)
            loss = -logprobs.sum() / num_tokens
            (self.config.replay_weight * loss).backward()
            total += float(loss.detach())
        return total

    def _batches(
        self, run: Callable[..., Any], parts: Sequence[Sequence[PackedRow]]
    ) -> Iterator[list[PackedRow]]:
        """The micro-batches of this process's share of each part; what each is for must be done
        before the next is asked for, because in the end this keeps up with the other processes."""
        shares = [self._shard(part) for part in parts]
        mine = list(batch_rows(itertools.chain(*shares), self.config.micro_batch_tokens))
        # Asked before the first: from then on the others wait for this process's passes.
        most = max(self.world.gather(len(mine))) if self.weights.lockstep else 0
        yield from mine
        if self.weights.lockstep:
            keep_up(run, [row for part in parts for row in part], most - len(mine))

    def _score_reference(self, parts: Sequence[Sequence[PackedRow]]) -> dict[int, Tensor]:
        if self.reference is not None:
            run = self.reference if self.weights.lockstep else calls(self.reference)
            return self._score(run, parts)
        with adapter_disabled(self.model):
            return self._score(self.weights.run, parts)

    @torch.no_grad()
    def _score(
        self, run: Callable[..., Any], parts: Sequence[Sequence[PackedRow]]
    ) -> dict[int, Tensor]:
        """Log-probabilities of each sample's tokens after the prompt, by the sample's ``id()``
        (a sample is no dictionary key: hashing it would walk all its tokens)."""
        scores: dict[int, Tensor] = {}
        for batch in self._batches(run, parts):
            logprobs, _ = run(packed_logprobs, batch, temperature=self.temperature)
            scores |= {id(s): part for s, part in split_by_sample(batch, logprobs)}
        return scores

    def save(self, path: Path) -> None:
        """Write ``state``; called on rank 0. The policy's weights are saved by the policy."""
        if self.weights.lockstep:
            self.world.share(("state", ()))
        torch.save(self.state(), path)

    def state(self) -> dict[str, Any]:
        """The optimizer's state, that of the loss and the reference's weights, if there is one;
        where weights are cut over processes, all of them call this."""
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        return self.weights.state_dict() | {"version": self.version} | parts

    def load(self, path: Path) -> None:
        # On the CPU, or every process would put its copy onto the device that it was saved from.
        # Whole states stay on the disk where each process needs a part of them.
        with loading(path):
            state = torch.load(
                path, map_location="cpu", weights_only=True, mmap=self.weights.lockstep
            )
        self.weights.load_state_dict(state)
        self.version = state["version"]
        for name, part in self._parts().items():
            part.load_state_dict(state[name])

    def _parts(self) -> dict[str, Any]:
        """The parts that have a state beside the weights."""
        reference = {} if self.reference is None else {"reference": self.reference}
        return reference | {f"term {name}": term for name, term in self.terms.items()}


def enable_checkpointing(model: Any) -> None:
    """Layers recompute their activations in the backward pass where they are in training mode: less
    memory, about a third more time; dropout draws the same again. Raises ``UsageError`` if the
    model has no such layers."""
    if not any(isinstance(module, GradientCheckpointingLayer) for module in model.modules()):
        raise UsageError(
            f"a {type(model).__name__} has no layers that could recompute their activations; set "
            "learner.gradient_checkpointing = false"
        )
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def recompute_layers(model: Any) -> None:
    """Put the layers that ``enable_checkpointing`` prepared into training mode, and nothing within
    them, where dropout would begin."""
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.training = True


def _add(values: dict[str, float], name: str, value: float) -> None:
    """Add to a figure, of which names that end in ``_max`` keep the largest."""
    if name.endswith("_max"):
        values[name] = max(values.get(name, -math.inf), value)
    else:
        values[name] = values.get(name, 0.0) + value


def add_up(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The metrics of an update from those of its processes, each a sum over its own tokens that is
    already divided by the whole update's."""
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            _add(total, name, value)
    return total


def _summarize(updates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """One figure a name: the largest of those that end in ``_max``, the mean of the others."""
    names = dict.fromkeys(name for values in updates for name in values)
    columns = {name: [v[name] for v in updates if name in v] for name in names}
    return {
        name: max(column) if name.endswith("_max") else sum(column) / len(column)
        for name, column in columns.items()
    }
