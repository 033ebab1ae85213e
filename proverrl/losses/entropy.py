"""An entropy bonus whose coefficient follows the policy's entropy.

Flows in: the mean entropy of each update, in nats. Flows out: the coefficient for the next one,
and state for the checkpoint.
"""

from __future__ import annotations

from typing import Any

from proverrl.config import EntropyConfig


class EntropyControl:
    """The coefficient of the entropy bonus, update by update."""

    def __init__(self, settings: EntropyConfig) -> None:
        self.settings = settings
        self.coefficient = settings.coefficient
        self.target: float | None = None
        self.last: float | None = None
        """Mean entropy of the last update, None before the first."""

    @property
    def bonus(self) -> float:
        """The next update subtracts this times the mean entropy from the loss."""
        if not self.settings.adaptive:
            return self.coefficient
        if self.target is None or self.last is None or self.last > self.target:
            return 0.0
        return self.coefficient

    def observe(self, entropy: float) -> None:
        """Note the mean entropy of an update.

        Adaptive: the first one sets the target; the coefficient goes up by ``step`` while entropy
        is at most the target and down (to 0 at least) otherwise (Skywork-OR1, He et al. 2025,
        arXiv 2505.22312).
        """
        self.last = entropy
        if not self.settings.adaptive:
            return
        if self.target is None:
            self.target = entropy * self.settings.target_share
        change = self.settings.step if entropy <= self.target else -self.settings.step
        self.coefficient = max(0.0, self.coefficient + change)

    def state_dict(self) -> dict[str, Any]:
        return {"coefficient": self.coefficient, "target": self.target, "last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.coefficient = state["coefficient"]
        self.target = state["target"]
        self.last = state["last"]
