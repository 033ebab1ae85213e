"""The conversation of a worker with Lean: one interface over the server and single runs.

Flows in: texts. Flows out: what Lean said of each, with positions in that text. Any doubt about an
answer is a ``WorkerError``, after which the session must be killed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from proverrl.lang.lean.verify.replay import ReplayOutcome
from proverrl.lang.lean.verify.workers.messages import Elaboration, Environment
from proverrl.verifier.process_group import GroupOwner

# Without the first a theorem's body is elaborated in a task of its own, so that messages come out
# of order and cost more processor time; releases that do not know the option elaborate in order.
# Linters speak of style, and take a fifth of the time of a short proof.
LEAN_OPTIONS = ("-Dweak.Elab.async=false", "-Dlinter.all=false")
"""For every process."""


GoalsAt = Literal["", "holes", "steps"]
"""The places where goals are asked for: nowhere, at each ``sorry``, or before each tactic too."""


class LeanSession(GroupOwner):
    """A way to have texts elaborated, one at a time."""

    @abstractmethod
    async def load_header(self, header: str, options: str) -> Elaboration:
        """Make an environment by a text that may start with imports, and set options."""

    @abstractmethod
    async def run(
        self, text: str, env: Environment, *, num_shared: int = 0, goals_at: GoalsAt = ""
    ) -> Elaboration:
        """Elaborate a text without imports in an environment. Its first ``num_shared`` characters
        are likely to come again."""

    def is_warm_for(self, header: str, text: str) -> bool:
        """True if a text that begins so, after imports that were loaded, would save time here."""
        return True

    async def replay(
        self,
        env: Environment,
        theorem: str | None,
        allowed_axioms: frozenset[str],
        challenge: bytes = b"",
    ) -> ReplayOutcome | None:
        """Have the kernel check once more all that was declared, and compare it with the compiled
        file of our own statement, where there is one; None where nothing is compiled."""
        return None

    def read_compiled(self, env: Environment) -> bytes:
        """The compiled file of what was elaborated just now; empty where nothing is compiled."""
        return b""
