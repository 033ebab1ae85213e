"""Changes that a plug-in may make to GRPO's steps; ``[experiments]`` names the plug-ins.

Flows in: a configuration, and what happens in the steps of a run. Flows out: problems to draw with
a part of an answer, terms of the loss, states for the checkpoint, figures. Not handled here: what
rewards, advantages, losses and curricula do, which have seams of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proverrl.config import Config
from proverrl.errors import UsageError
from proverrl.learner.learner import LossTerm
from proverrl.plugins import open_part
from proverrl.rollout.proofs import Proof
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.run.session import Session
from proverrl.types import Group, Hint, Problem


class Experiment:
    """A plug-in derives from it and changes what it must; as it stands it changes nothing."""

    def against(self, config: Config) -> str:
        """The reason why a run of this configuration cannot have this experiment, and what to set;
        empty when it can."""
        return ""

    def choose(
        self, session: Session, proofs: Mapping[str, Sequence[Proof]], num_groups: int
    ) -> Sequence[tuple[Problem, Hint]]:
        """Groups of the next draw, ``num_groups`` at most, that begin with a hint; the curriculum
        draws the others. ``proofs`` are those of the run by problem, the shortest first, to be read
        only."""
        return ()

    def observe(self, session: Session, draws: Sequence[JudgedDraw]) -> Mapping[str, float]:
        """Judged draws, in their order; returns figures for the metrics of the step."""
        return {}

    def make_term(self, model: Any, config: Config) -> LossTerm | None:
        """A term of the loss of a run that trains ``model``, on each of its processes."""
        return None

    def list_items(self, session: Session, seen: Sequence[Group], version: int) -> list[Any]:
        """The items that the term learns from in the step that makes version ``version`` + 1, of
        all groups that it has seen. Items travel to the other processes and have ``num_tokens``."""
        return []

    def state_dict(self) -> dict[str, Any]:
        """The state for the checkpoint, as JSON values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become what ``state_dict`` gave."""


Experiments = dict[str, Experiment]
"""By their names in ``[experiments]``."""


def open_experiments(config: Config) -> Experiments:
    """The experiments of a configuration. Raises ``UsageError``: one cannot be used, or not with
    this configuration."""
    opened: Experiments = {}
    for name, options in config.experiments.items():
        made = open_part("experiment", name, options, config, Experiment)
        if reason := made.against(config):
            raise UsageError(f"experiments: {name} {reason}")
        opened[name] = made
    return opened
