"""Terms that a plug-in adds to the loss of an update (``proverrl.run.experiments``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class LossTerm(Protocol):
    """A term with items of its own, which are dealt out over the updates of a pass."""

    def backward(
        self, model: Any, items: Sequence[Any], *, mine: Sequence[Any], max_tokens: int
    ) -> dict[str, float]:
        """Add the term's gradient to the model's for ``mine``, a process's share of the update's
        ``items``, in passes of at most ``max_tokens`` tokens. Returns what these add to the
        figures; ``loss`` is one of them."""

    def follow(self, model: Any) -> None:
        """An update was made."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
