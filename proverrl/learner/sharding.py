"""Weights that are cut over the processes of a run, each of which holds one part of every weight.

Source: Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, stage 3; torch's ``fully_shard`` (FSDP2)
does the cutting and the messages. Flows in: a model that samples, whole on every process. Flows
out: its weights after each step. What is trained is a cut copy; after a step the whole weights are
copied into the model that samples, and log-probabilities of fixed sequences say whether they
arrived. Every process must call in the same order and equally often. Not handled here: adapters,
and optimizers that need whole matrices.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from proverrl.config import LearnerConfig
from proverrl.errors import UsageError, WeightSyncError
from proverrl.learner.optimizers import build_optimizers
from proverrl.learner.packed_rows import PackedRow, packed_logprobs
from proverrl.parallel import World
from proverrl.policy.lora import has_adapter
from proverrl.policy.probe import TOLERANCES, PushProbe, Rows, Scores, score_rows
from proverrl.rollout.samples import build_replay_sample


class ShardedModel(nn.Module):
    """A copy of ``model`` of which this process holds its part, in ``store``; it computes in
    ``model``'s dtype. Gradients are summed over the processes in float32.

    ``model`` stays as it is. Whole is only one layer at a time, and what lies outside the layers.
    Raises ``UsageError`` if transformers does not say what the model's layers are, or they share
    weights.
    """

    def __init__(self, model: Any, world: World, *, store: torch.dtype, trains: bool) -> None:
        super().__init__()
        self.mesh = make_mesh(world, next(model.parameters()).device)
        empty = {
            id(p): nn.Parameter(torch.empty_like(p, device="meta"), requires_grad=trains)
            for p in model.parameters()
        }
        whole = {id(empty[id(p)]): p.detach() for p in model.parameters()}
        # With these as what has been copied already, no weight is held twice.
        self.inner: Any = copy.deepcopy(model, dict(empty))
        # Inputs are cast by nobody: what comes in is what the whole model gets.
        dtypes = MixedPrecisionPolicy(
            param_dtype=model.dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
        )
        for module in (*find_layers(self.inner), self):
            fill_weights(module, whole, store, trains=trains)
            fully_shard(module, mesh=self.mesh, reshard_after_forward=True, mp_policy=dtypes)
        for module in self.modules():
            if isinstance(module, FSDPModule):
                # Losses are divided by the whole update's counts already: a sum, and no mean.
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)
        # Experts that one process used and another did not.
        cast(FSDPModule, self).set_reduce_scatter_unused_params(True)

    def forward(
        self, function: Callable[..., tuple[Tensor, ...]], *args: Any, **settings: Any
    ) -> tuple[Tensor, ...]:
        """``function(model, *args, **settings)``: within, the weights are those of a whole model.
        A gradient must come through the tensors that it returns."""
        # What is returned gets a hook that puts the weights together again for the backward pass,
        # and a view could lose it.
        return tuple(part.clone() for part in function(self.inner, *args, **settings))

    @torch.no_grad()
    def copy_to(self, weights: Iterable[Tensor]) -> None:
        """Overwrite the weights of a whole model, in the order of its parameters, one at a time."""
        for target, part in zip(weights, self.inner.parameters(), strict=True):
            target.copy_(to_whole(part.detach().to(target.dtype)))

    def state_dict(  # type: ignore[override]
        self, *args: Any, **settings: Any
    ) -> dict[str, Any]:
        """The whole weights by the inner model's names, on the CPU; called by all processes."""
        named = self.inner.named_parameters(remove_duplicate=False)
        return {name: to_whole(part.detach()).cpu() for name, part in named}

    @torch.no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **settings: Any) -> Any:
        """Take this process's part of whole weights."""
        for name, part in self.inner.named_parameters():
            part.copy_(to_part(state_dict[name], part))


def make_mesh(world: World, device: torch.device) -> DeviceMesh:
    """All processes of the run in one row. Raises ``UsageError`` if there is only one."""
    if world.size == 1:
        raise UsageError(
            "learner.shard = 'fsdp2' needs several processes to cut the weights over and this is "
            "one; start with accelerate launch or torchrun, or set learner.shard = 'none'"
        )
    return init_device_mesh(device.type, (world.size,))


def find_layers(model: Any) -> list[nn.Module]:
    """The layers that transformers keeps in one piece. Raises ``UsageError`` if it names none."""
    names = set(getattr(model, "_no_split_modules", None) or ())
    layers = [module for module in model.modules() if type(module).__name__ in names]
    if not layers:
        raise UsageError(
            f"learner.shard = 'fsdp2': transformers does not say what the layers of "
            f"{type(model).__name__} are; set learner.shard = 'none'"
        )
    return layers


def fill_weights(
    module: nn.Module, whole: dict[int, Tensor], dtype: torch.dtype, *, trains: bool
) -> None:
    """Give the empty weights of a module their values out of ``whole``, which loses them; a tensor
    that the module uses twice stays one. Raises ``UsageError`` if another module was given the
    tensor before."""
    made: dict[int, nn.Parameter] = {}
    for child in module.modules():
        for name, empty in child._parameters.items():
            if empty is None or not empty.is_meta:
                continue
            if id(empty) not in made:
                if id(empty) not in whole:
                    raise UsageError(
                        f"learner.shard = 'fsdp2': layers share the weight {name!r}; "
                        "set learner.shard = 'none'"
                    )
                value = whole.pop(id(empty)).to(dtype, copy=True)
                made[id(empty)] = nn.Parameter(value, requires_grad=trains)
            child._parameters[name] = made[id(empty)]


def to_whole(part: Tensor) -> Tensor:
    """The tensor of which every process holds a part; one that is not cut, as it is."""
    return part.full_tensor() if isinstance(part, DTensor) else part


def to_part(whole: Tensor, like: Tensor) -> Tensor:
    """This process's part of a tensor that every process has, cut as ``like``; no message is sent,
    and nothing of ``whole`` is held on to."""
    if not isinstance(like, DTensor):
        return whole
    moved = whole.to(like.device)
    return distribute_tensor(moved, like.device_mesh, like.placements, src_data_rank=None).clone()


class ShardedWeights:
    """The counterpart of ``TrainedWeights``, with 16 bytes per parameter divided by the number of
    processes. ``rows`` are compared after each push, the same on every process. All methods are
    called by all processes. Raises ``UsageError`` if the optimizer or the model cannot be cut, and
    ``WeightSyncError`` if the sampler does not compute what the cut copy computes."""

    lockstep = True

    def __init__(
        self,
        sampler: Any,
        config: LearnerConfig,
        world: World,
        rows: Rows,
        *,
        weight_decay: float,
    ) -> None:
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
            weight_decay=weight_decay,
        )
        self._probe = PushProbe(
            partial(_score_by_learning, self.run),
            partial(score_rows, sampler),
            rows,
            limit=TOLERANCES[sampler.dtype],
            dtype=str(sampler.dtype).removeprefix("torch."),
            remedy="use learner.shard = 'none'",
        )
        self.publish()

    def freeze(self) -> ShardedModel:
        """The sampler's model as it is now, cut, in its own dtype; no optimizer changes it."""
        return ShardedModel(self.sampler, self.world, store=self.sampler.dtype, trains=False)

    def close(self) -> None:
        """Nothing: what is trained is a copy."""

    def zero_grad(self) -> None:
        for master in self.masters:
            master.grad = None

    def sum_gradients(self, world: World) -> None:
        """Nothing: every backward pass has summed its own."""

    def split_gradients(self, world: World) -> None:
        """Nothing, as ``sum_gradients``."""

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
        Raises ``WeightSyncError`` if the sampler of some process does not hold the weights."""
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
    """The scores of ``score_rows``, computed as updates compute it."""
    packed = [PackedRow((build_replay_sample(row[:1], row[1:]),)) for row in rows]
    return [run(packed_logprobs, [row], temperature=1.0)[0].tolist() for row in packed]
