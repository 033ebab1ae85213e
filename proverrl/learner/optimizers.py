"""Optimizers by name, as lists of torch optimizers that step together. Their parameter groups carry
``initial_lr``, so that a schedule can scale them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from proverrl.config import OptimizerName
from proverrl.config.training import RateSchedule

BETAS = (0.9, 0.95)


def adamw(model: Any, learning_rate: float, weight_decay: float) -> list[Optimizer]:
    """AdamW on everything (Loshchilov and Hutter 2019, arXiv 1711.05101)."""
    return [
        torch.optim.AdamW(
            [p for p in model.parameters() if p.requires_grad],
            lr=learning_rate,
            weight_decay=weight_decay,
            betas=BETAS,
        )
    ]


def muon(model: Any, learning_rate: float, weight_decay: float) -> list[Optimizer]:
    """Muon on the matrices of the blocks, AdamW at a tenth of the rate on embeddings and norms
    (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"). From fresh
    weights it needs about two thirds of AdamW's steps; it is not meant for pretrained checkpoints.
    """
    outer = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.ndim == 2 and id(p) not in outer]
    others = [p for p in trained if p.ndim != 2 or id(p) in outer]
    optimizers: list[Optimizer] = [
        torch.optim.Muon(matrices, lr=learning_rate, weight_decay=weight_decay, momentum=0.95)
    ]
    if others:
        optimizers.append(
            torch.optim.AdamW(others, lr=learning_rate / 10, weight_decay=0.0, betas=BETAS)
        )
    return optimizers


OPTIMIZERS: dict[OptimizerName, Callable[[Any, float, float], list[Optimizer]]] = {
    "adamw": adamw,
    "muon": muon,
}


def build_optimizers(
    name: OptimizerName, model: Any, *, learning_rate: float, weight_decay: float
) -> list[Optimizer]:
    """The optimizers of ``name`` over all parameters that want a gradient, each in exactly one."""
    optimizers = OPTIMIZERS[name](model, learning_rate, weight_decay)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
    return optimizers


def rate_factor(schedule: RateSchedule, *, step: int, warmup_steps: int, done: float) -> float:
    """The share of the learning rate at a step (from 0), at the share ``done`` of a loop; the
    cosine is that of Loshchilov and Hutter 2017 (arXiv 1608.03983), without restarts."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "linear":
        return 1.0 - done
    return 0.5 * (1.0 + math.cos(math.pi * done)) if schedule == "cosine" else 1.0


def scale_rates(optimizers: list[Optimizer], factor: float) -> None:
    """Set every rate to ``factor`` times its initial one."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
