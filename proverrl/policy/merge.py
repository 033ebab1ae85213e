"""Averages the weights of two checkpoints of one model.

Averaging a model with the one that it was trained from restores variety that training lost
(Goedel-Prover-V2, Lin et al. 2025, arXiv 2508.03613). Not handled here: which share is best
(``proverrl.loops.merge_sweep``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from proverrl.errors import UsageError
from proverrl.files.disk import saving


def merge_policies(first: Path, second: Path, *, alpha: float, out: Path) -> None:
    """Write (1 - alpha) first + alpha second to ``out``, with the second's tokenizer.

    Raises:
        UsageError: a folder cannot be loaded, the two are not of one model or vocabulary, or
            ``alpha`` is outside [0, 1].
    """
    if not 0.0 <= alpha <= 1.0:
        raise UsageError(f"alpha must be between 0 and 1, got {alpha}")
    model, tokenizer = _load(first)
    other, other_tokenizer = _load(second)
    if tokenizer.get_vocab() != other_tokenizer.get_vocab():
        raise UsageError(f"{first} and {second} have different vocabularies: no average of them")
    # Parameters, not the state: a tied weight stands there twice and would be averaged twice.
    weights, others = dict(model.named_parameters()), dict(other.named_parameters())
    shapes = {name: tuple(value.shape) for name, value in weights.items()}
    if shapes != {name: tuple(value.shape) for name, value in others.items()}:
        raise UsageError(f"{first} and {second} are not the same kind of model: no average of them")
    with torch.no_grad():
        for name, value in weights.items():
            # In double precision, so that alpha 0 and 1 give the checkpoints themselves.
            mixed = (1.0 - alpha) * value.double() + alpha * others[name].double()
            value.copy_(mixed.to(value.dtype))
    with saving(out):
        model.save_pretrained(out)
        other_tokenizer.save_pretrained(out)


def _load(folder: Path) -> tuple[Any, Any]:
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return AutoModelForCausalLM.from_pretrained(folder, dtype="auto"), tokenizer
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} cannot be loaded as a checkpoint: {error}") from error
