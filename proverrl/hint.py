"""The record of how much of an answer a policy was given.

Draws and rollouts carry it so that no proof found with help counts as found without. Not handled
here: who gives hints (``proverrl.run.experiments``).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hint:
    """``text`` and ``token_ids`` stand after the problem's prompt and are never learned; ``ratio``
    is their share of the answer, in tokens. Except for a failed attempt, they begin the answer and
    are part of what is judged."""

    source: str
    ratio: float
    text: str
    token_ids: tuple[int, ...]

    @property
    def opening(self) -> str:
        """The text that every answer begins with."""
        return "" if self.source == "failed_attempt" else self.text
