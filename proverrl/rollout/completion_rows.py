"""Completions as JSON values, as checkpoints hold them; floats survive exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from proverrl.types import Completion

_TUPLES = ("prompt_ids", "token_ids", "logprobs", "missing")


def dump_completion(completion: Completion) -> dict[str, Any]:
    """A completion as JSON values."""
    return {field.name: getattr(completion, field.name) for field in fields(completion)}


def load_completion(row: Mapping[str, Any]) -> Completion:
    """What ``dump_completion`` wrote; ``missing`` may be left out, as in earlier checkpoints."""
    values: dict[str, Any] = {k: tuple(v) if k in _TUPLES else v for k, v in row.items()}
    return Completion(**values)
