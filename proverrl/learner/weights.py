"""The weights that updates change, with the optimizers over them.

Weights in bfloat16 have a float32 master here: gradients of all micro-batches are summed in
float32, the optimizer works on the master, and the model gets the master rounded after each update
(mixed precision with master weights, Micikevicius et al. 2018, arXiv 1710.03740). Weights in
float32 are their own master.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

import torch
from torch import Tensor

from proverrl.config import LearnerConfig, OptimizerName
from proverrl.learner.optimizers import build_optimizers
from proverrl.learner.packed_rows import PackedRow, packed_logprobs
from proverrl.parallel import World
from proverrl.policy.probe import Rows

MAX_GRAD_NORM = 1.0
"""Gradients are scaled down to this norm, as nearly everyone does; no run needed another."""

if TYPE_CHECKING:
    from proverrl.learner.sharding import ShardedWeights


class TrainedWeights:
    """All parameters of ``model`` that want a gradient, and their optimizers.

    A master costs 4 bytes per parameter beside the model's 2, and its gradient 4 more; the model
    itself holds no gradient once a backward pass is over. ``model`` is what is trained, and ``run``
    calls functions over it: ``run(function, *args)`` is ``function(model, *args)``.
    """

    lockstep = False
    """True if all processes must run equally many forward and backward passes."""

    def __init__(
        self, model: Any, optimizer: OptimizerName, *, learning_rate: float, weight_decay: float
    ) -> None:
        self.model = model
        self.run = calls(model)
        self.weights: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
        self.optimizers = build_optimizers(
            optimizer, model, learning_rate=learning_rate, weight_decay=weight_decay
        )
        self._masters = {
            id(p): torch.nn.Parameter(p.detach().float())
            for p in self.weights
            if p.dtype != torch.float32
        }
        # Torch holds a hook for good, and this object with it if the hook were one of its methods.
        collect = WeakMethod(self._collect)

        def hand_over(weight: Tensor) -> None:
            own = collect()
            if own is not None:
                own(weight)

        self._hooks = [
            p.register_post_accumulate_grad_hook(hand_over)  # type: ignore[no-untyped-call]
            for p in self.weights
            if id(p) in self._masters
        ]
        for built in self.optimizers:
            for group in built.param_groups:
                group["params"] = [self.master(p) for p in group["params"]]

    def master(self, weight: Tensor) -> Tensor:
        """The tensor that the optimizer changes for a weight of the model: its float32 copy, or
        itself."""
        return self._masters.get(id(weight), weight)

    @property
    def masters(self) -> list[Tensor]:
        return [self.master(weight) for weight in self.weights]

    def freeze(self) -> Any:
        return freeze_copy(self.model)

    def zero_grad(self) -> None:
        for tensor in (*self.weights, *self._masters.values()):
            tensor.grad = None

    def sum_gradients(self, world: World) -> None:
        world.sum_gradients(self.masters)

    def split_gradients(self, world: World) -> None:
        """Undo the sum, as far as the next one is concerned: each process keeps an equal part."""
        for master in self.masters:
            if master.grad is not None:
                master.grad /= world.size

    def clip(self, max_norm: float) -> float:
        """Scale the gradients down to the norm ``max_norm``; returns the norm before."""
        return float(torch.nn.utils.clip_grad_norm_(self.masters, max_norm))

    def step(self) -> None:
        """One step of every optimizer; then the model has the new weights."""
        for optimizer in self.optimizers:
            optimizer.step()
        self._publish()

    def publish(self) -> dict[str, float]:
        """Nothing: the model that is trained is the one that samples."""
        return {}

    def close(self) -> None:
        """Leave the model's gradients alone from now on."""
        for hook in self._hooks:
            hook.remove()

    def state_dict(self) -> dict[str, Any]:
        """Optimizer states and masters; a weight without a master is saved with its model."""
        return {
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "masters": [master.detach() for master in self._masters.values()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        with torch.no_grad():
            for master, saved in zip(self._masters.values(), state["masters"], strict=True):
                master.copy_(saved)
        self._publish()

    @torch.no_grad()
    def _publish(self) -> None:
        for weight, master in zip(self.weights, self.masters, strict=True):
            if master is not weight:
                weight.copy_(master)

    def _collect(self, weight: Tensor) -> None:
        """Move a fresh gradient to the master: a sum in bfloat16 would lose small addends."""
        master, grad = self._masters[id(weight)], weight.grad
        assert grad is not None
        if master.grad is None:
            master.grad = grad.float()
        else:
            master.grad += grad
        weight.grad = None


def open_weights(
    model: Any, config: LearnerConfig, world: World, rows: Rows, *, weight_decay: float = 0.0
) -> TrainedWeights | ShardedWeights:
    """The weights as ``learner.shard`` says: weights that every process holds, or parts of them."""
    if config.shard == "fsdp2":
        # Here, because one process needs nothing of it.
        from proverrl.learner.sharding import ShardedWeights

        return ShardedWeights(model, config, world, rows, weight_decay=weight_decay)
    return TrainedWeights(
        model,
        config.optimizer,
        learning_rate=config.learning_rate,
        weight_decay=weight_decay,
    )


def calls(model: Any) -> Callable[..., Any]:
    """Calls of functions over a model: ``calls(model)(function, *args)``."""
    return lambda function, *args, **settings: function(model, *args, **settings)


def keep_up(run: Callable[..., Any], rows: Sequence[PackedRow], times: int) -> None:
    """Run so many passes over one short sample that teach nothing, backward as well where gradients
    are on: processes that hold parts of each other's weights must compute equally often."""
    if times == 0:
        return
    shortest = min(rows, key=lambda row: row.num_tokens)
    for _ in range(times):
        logprobs, _ = run(packed_logprobs, [PackedRow(shortest.samples[:1])], temperature=1.0)
        if torch.is_grad_enabled():
            (0.0 * logprobs.sum()).backward()


def freeze_copy(model: Any) -> Any:
    """A copy of the model as it is now that no optimizer changes."""
    return copy.deepcopy(model).eval().requires_grad_(False)
