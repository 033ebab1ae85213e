"""All keys of a configuration with their texts, and the forty that are set most.

Flows in: nothing. Flows out: rows for ``docs/configuration.md`` and for what ``proverrl init``
writes.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from proverrl.config.base import Section
from proverrl.config.load import find_section
from proverrl.config.sections import Config

USUAL_KEYS = (
    *("loop", "run", "seed", "max_minutes", "max_verifier_calls"),
    *("problems.train", "problems.valid", "problems.heldout"),
    *("policy.path", "policy.engine", "policy.layout", "policy.max_rows", "policy.lora.rank"),
    *("warm_start.references_per_level", "warm_start.steps", "warm_start.batch_size"),
    *("warm_start.optimizer", "warm_start.learning_rate"),
    *("pool.workers", "pool.deadline_seconds", "pool.rlimit"),
    *("sampling.temperature", "sampling.max_new_tokens"),
    *("rollout.mode", "rollout.turns"),
    *("curriculum.name", "reward.name", "advantage.name", "loss.name"),
    *("learner.optimizer", "learner.learning_rate", "learner.epochs"),
    *("learner.micro_batch_tokens", "learner.replay_samples"),
    *("grpo.steps", "grpo.groups_per_step", "grpo.groups_per_draw", "grpo.group_size"),
    *("evaluation.samples", "evaluation.ks"),
)
"""Keys that a run of one's own sets; the others have defaults that served every measured run."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key by its whole name. ``default`` is None where one has to be given; ``text`` is one line
    of Markdown."""

    name: str
    default: Any
    text: str


def iter_keys(section: type[Section] = Config, prefix: str = "") -> Iterator[Key]:
    """Every key of a section, tables within included. Raises ``ValueError`` for one that has no
    text below it."""
    texts = _read_texts(section)
    defaults = section.model_construct().model_dump(mode="json")
    for name, info in section.model_fields.items():
        inner, named = find_section(info.annotation)
        if inner is not None:
            yield from iter_keys(inner, f"{prefix}{name}.NAME." if named else f"{prefix}{name}.")
        elif name not in texts:
            raise ValueError(f"{prefix}{name} has no text below it in {section.__module__}")
        else:
            yield Key(prefix + name, defaults.get(name), texts[name])


def write_value(value: Any) -> str:
    """A value as TOML writes it; one that may be None is empty."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{key} = {write_value(inner)}" for key, inner in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(write_value, value))}]"
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _read_texts(section: type[Section]) -> dict[str, str]:
    """The text below each field, as one line of Markdown."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    assert isinstance(made, ast.ClassDef)
    texts = {}
    for field, below in pairwise(made.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            text = ast.literal_eval(below.value)
            texts[ast.unparse(field.target)] = " ".join(text.split()).replace("``", "`")
    return texts
