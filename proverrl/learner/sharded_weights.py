"""The weights that updates change when they are cut over processes, with the optimizer over them.

Flows in: a model that samples, whole on every process. Flows out: its weights after each step. What
is trained is a cut copy (``proverrl.learner.sharding``): float32 weights, gradients and optimizer
state, each process its part. After a step the whole weights are copied into the model that samples,
and log-probabilities of fixed sequences say whether they arrived. Not handled here: adapters, and
optimizers that need whole matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from proverrl.config import LearnerConfig
from proverrl.errors import UsageError, WeightSyncError
from proverrl.learner.packed_rows import PackedRow, packed_logprobs
from proverrl.learner.sharding import ShardedModel, to_part, to_whole
from proverrl.learner.weights import build_optimizers
from proverrl.parallel import World
from proverrl.policy.lora import has_adapter
from proverrl.policy.probe import TOLERANCES, PushProbe, Rows, Scores, score_rows
from proverrl.rollout.samples import build_replay_sample


class ShardedWeights:
    """What ``TrainedWeights`` is, with 16 bytes per parameter divided by the number of processes.
    ``rows`` are compared after each push, the same on every process. All methods are called by all
    processes.

    Raises:
        UsageError: the optimizer or the model cannot be cut.
        WeightSyncError: the sampler does not compute what the cut copy computes.
    """

    lockstep = True

    def __init__(self, sampler: Any, config: LearnerConfig, world: World, rows: Rows) -> None:
        if config.optimizer != "adamw":
            raise UsageError(
                f"learner.shard = 'fsdp2' cuts matrices and learner.optimizer = "
                f"{config.optimizer!r} needs them whole; set learner.optimizer = 'adamw'"
            )
        if has_adapter(sampler):
            raise UsageError("learner.shard = 'fsdp2' takes no adapters; set policy.lora.rank = 0")
        self.sampler = sampler
        self.world = world
        self.run = ShardedModel(sampler, world, store=torch.float32, trains=True)
        self.model = self.run.inner
        self.masters: list[Tensor] = list(self.model.parameters())
        self.optimizers = build_optimizers(
            config.optimizer,
            self.model,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
        )
        self._probe = PushProbe(
            partial(_score_by_learning, self.run),
            partial(score_rows, sampler),
            rows,
            limit=TOLERANCES[config.precision],
            dtype=str(sampler.dtype).removeprefix("torch."),
            remedy="use learner.shard = 'none'",
        )
        self.publish()

    def freeze(self) -> ShardedModel:
        """The sampler's model as it is now, cut, in its own dtype; no optimizer changes it."""
        return ShardedModel(self.sampler, self.world, store=self.sampler.dtype, trains=False)

    def zero_grad(self) -> None:
        for master in self.masters:
            master.grad = None

    def sum_gradients(self, world: World) -> None:
        """Nothing: every backward pass has summed its own."""

    def clip(self, max_norm: float) -> float:
        """Scale the gradients down to the norm ``max_norm`` of all parts together; returns the norm
        before."""
        return float(to_whole(torch.nn.utils.clip_grad_norm_(self.masters, max_norm)))

    def step(self) -> None:
        """One step of the optimizer on this process's part; the sampler's model does not move."""
        for optimizer in self.optimizers:
            optimizer.step()

    def publish(self) -> dict[str, float]:
        """Copy the weights into the sampler's model and compare; returns figures for the metrics.

        Raises:
            WeightSyncError: the sampler of some process does not hold the weights.
        """
        self.run.copy_to(self.sampler.parameters())
        figures, complaint = dict[str, float](), ""
        self.model.eval()
        try:
            figures = self._probe.check()
        except WeightSyncError as error:
            complaint = str(error)
        # All end here, or the others would wait for the one that did.
        for rank, text in enumerate(self.world.gather(complaint)):
            if text:
                raise WeightSyncError(f"process {rank}: {text}")
        return figures

    def state_dict(self) -> dict[str, Any]:
        """That of ``TrainedWeights``, whole, on the CPU: any number of processes can load it."""
        masters = self.sampler.dtype != torch.float32
        return {
            "optimizers": [
                _map_states(optimizer.state_dict(), lambda _, value: to_whole(value).cpu())
                for optimizer in self.optimizers
            ],
            "masters": [to_whole(m.detach()).cpu() for m in self.masters] if masters else [],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(
                _map_states(saved, lambda index, value: to_part(value, self.masters[index]))
            )
        with torch.no_grad():
            for master, whole in zip(self.masters, state["masters"], strict=False):
                master.copy_(to_part(whole, master))
        self.publish()


def _map_states(
    state: Mapping[str, Any], change: Callable[[int, Tensor], Tensor]
) -> dict[str, Any]:
    """An optimizer's state with other tensors; counters are not cut, and stay as they are."""
    return {
        "param_groups": state["param_groups"],
        "state": {
            index: {
                name: change(index, value) if value.ndim else value
                for name, value in values.items()
            }
            for index, values in state["state"].items()
        },
    }


@torch.no_grad()
def _score_by_learning(run: ShardedModel, rows: Rows) -> Scores:
    """What ``score_rows`` gives, computed as updates compute it."""
    packed = [PackedRow((build_replay_sample(row[:1], row[1:]),)) for row in rows]
    return [run(packed_logprobs, [row], temperature=1.0)[0].tolist() for row in packed]
