"""The sections ``[value]``, training of a value model, and ``[samples]``, learning from searches.

Flows in: tables of TOML. Flows out: checked values. Not handled here: whether files exist.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from proverrl.config.base import Fraction, NonNegative, Positive, PositiveFloat, Section


class ValueConfig(Section):
    """A value head on a policy's hidden states; read when ``loop = "value"``.

    ``run`` is a run whose policy and rollouts are taken, of the last ``last_steps`` steps (0: all).
    ``policy.path`` names another policy. ``rollouts`` are more files of rollouts, or folders of
    them, and ``samples`` files of ``--emit-samples``. ``valid_share`` of the problems is held back;
    training ends after ``patience`` epochs in which the loss on them was not lower. Another
    ``test_share`` has no part in training at all: the figures are of these.

    ``layers`` says after how many layers the states are read, counted from the last one. With
    ``rank_weight`` that share of the loss compares the prefixes of one problem with each other.
    """

    run: str = ""
    last_steps: NonNegative = 0
    rollouts: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    layers: Positive = 1
    rank_weight: Fraction = 0.5
    hidden: Positive = 64
    learning_rate: PositiveFloat = 1e-3
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.01
    batch_size: Positive = 512
    epochs: Positive = 60
    patience: Positive = 6
    valid_share: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.2
    test_share: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.2


class SamplesConfig(Section):
    """What a run learns from searches: ``files`` are those of ``--emit-samples``.

    Each body is judged anew before it is used. With ``warm_start`` their proofs are learned beside
    the references, with ``proofs`` they join those that the loop finds (rounds of expert iteration,
    the replay of ``grpo``). ``passes`` times before its first step ``grpo`` learns all paths with
    the advantages of their stretches, ``problems_per_update`` problems per update.
    """

    files: tuple[str, ...] = ()
    warm_start: bool = False
    proofs: bool = True
    passes: NonNegative = 0
    problems_per_update: Positive = 8

    @model_validator(mode="after")
    def _has_files(self) -> SamplesConfig:
        if not self.files and (self.warm_start or self.passes):
            raise ValueError("files is empty and warm_start or passes is set; name a file")
        return self
