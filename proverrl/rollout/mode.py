"""How a policy's answers become attempts: the part that ``rollout.mode`` names.

Flows in: answers of a policy. Flows out: the bodies proposed in them, and what the policy is told
of an attempt. In ``whole_proof`` and ``self_correct`` an answer holds its body itself. A plug-in
derives from ``Mode`` and changes what it must; only the policy's own tokens are learned, whatever a
mode makes of them. Not handled here: turns (``self_correct``), verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from proverrl.config import Config, LayoutName, RolloutMode
from proverrl.errors import RunError, UsageError
from proverrl.lang.records import Extraction
from proverrl.plugins import bind, refuse
from proverrl.rollout.extract import extract
from proverrl.types import Problem, Rollout


class Mode:
    """Answers that hold the body. ``engine`` says what else writes, for people to read."""

    engine = ""

    def against(self, config: Config) -> str:
        """Why a run of this configuration cannot have this mode, and what to set; empty when it
        can."""
        return ""

    def words(self, references: Sequence[tuple[Problem, str]]) -> list[str]:
        """What is written besides statements and bodies, for the tokenizer of a fresh model; each
        word of it stays in one piece."""
        return []

    async def teach(self, session: Any, references: list[Any]) -> list[Any]:
        """What the warm start of a ``proverrl.run.session.Session`` learns in place of its
        references, both as ``proverrl.run.pairs.PairSource``."""
        return references

    async def read(
        self, answers: Sequence[tuple[Problem, str]], *, layout: LayoutName, turn: int, seed: int
    ) -> list[Extraction]:
        """The body that each answer proposes to its problem, in ``turn`` (from 0) and under
        ``seed``."""
        return [extract(problem, text, layout) for problem, text in answers]

    def tell(self, rollout: Rollout, told: str, layout: LayoutName) -> str:
        """What the policy is told of the last turn, of which ``told`` says what the verifier
        said."""
        return told

    def describe(self) -> dict[str, Any]:
        """What all attempts of an evaluation share of the mode, and what a run is held to that
        continues, as JSON values."""
        return {}


PLAIN = Mode()


def open_mode(config: Config) -> Mode:
    """The mode of a configuration. Raises ``UsageError``: a plug-in cannot be used, or not with
    this configuration."""
    settings = config.rollout
    if settings.mode in get_args(RolloutMode):
        return PLAIN
    mode = bind("rollout", settings.mode, settings.options)(config)
    if not isinstance(mode, Mode):
        wanted = "an object of a subclass of proverrl.rollout.mode.Mode"
        raise refuse("rollout", settings.mode, mode, "a configuration", wanted)
    if reason := mode.against(config):
        raise UsageError(f"rollout.mode = {settings.mode!r} {reason}")
    return mode


class SameMode:
    """Holds a run to the mode that it began with."""

    def __init__(self, mode: Mode) -> None:
        self._described = mode.describe()

    def state_dict(self) -> dict[str, Any]:
        return self._described

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ``RunError``: the checkpoint describes another mode."""
        if state != self._described:
            raise RunError(
                "the mode of rollouts is not the one that this run began with: "
                f"{self._described}, not {state}; put it back, or begin another run"
            )
