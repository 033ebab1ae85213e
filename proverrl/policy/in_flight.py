"""What is drawn in one call of a sampler, and which of its rows are still being written.

Flows in: one token of each row in flight at a time; rows that begin. Flows out: which rows go on;
all that was drawn. Where a row ends, another may begin beside those that go on. The device is
waited for once at each token, and some times more where rows are dropped. Not handled here: where
the tokens come from (``proverrl.policy.decoding``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from proverrl.errors import ProverRLError
from proverrl.policy.decoding import ROOM
from proverrl.types import Sampling


class RowsInFlight:
    """Each row belongs to an owner, such as a prompt's number. ``ends_with(ids, stop)`` says
    whether a row's last token completed a stop text."""

    def __init__(
        self,
        sampling: Sampling,
        end_ids: Sequence[int],
        ends_with: Callable[[list[int], tuple[str, ...]], bool],
        device: str,
    ) -> None:
        self._sampling, self._ends_with = sampling, ends_with
        self._owners: list[int] = []
        self._ends = torch.tensor(end_ids, device=device)
        self._drawn = torch.empty((0, 0), dtype=torch.long, device=device)
        self._logprobs = torch.empty((0, 0), device=device)
        self._lengths = torch.empty((0,), dtype=torch.long, device=device)
        self._row = self._lengths
        """Those in flight, as rows of the three above."""
        self._count = self._lengths
        """How many tokens of each in flight are drawn."""
        self._writing = torch.empty((0,), dtype=torch.bool, device=device)
        self._most_drawn = 0

    @property
    def num_rows(self) -> int:
        """How many are in flight; tensors of theirs are of shape (rows,)."""
        return len(self._row)

    def open(self, owners: Iterable[int]) -> None:
        """Put a row for each of these owners in flight, behind those that are."""
        first = len(self._owners)
        self._owners.extend(owners)
        num = len(self._owners) - first
        self._drawn, self._logprobs = (
            F.pad(held, (0, 0, 0, num)) for held in (self._drawn, self._logprobs)
        )
        most = self._sampling.max_new_tokens
        self._lengths = F.pad(self._lengths, (0, num), value=most)
        new = torch.arange(first, first + num, device=self._row.device)
        self._row = torch.cat([self._row, new])
        self._count = F.pad(self._count, (0, num))
        self._writing = F.pad(self._writing, (0, num), value=True)

    def add(self, token: Tensor, logprob: Tensor, full: Tensor) -> int:
        """Add what was drawn in each row; ``full`` are those with no room for another. Returns how
        many are still being written: the one place at each token where this waits for the device.
        """
        most, stop = self._sampling.max_new_tokens, self._sampling.stop
        if self._most_drawn == self._drawn.shape[1]:
            # Room for what is written, not for all that may be.
            self._drawn, self._logprobs = (
                F.pad(held, (0, ROOM)) for held in (self._drawn, self._logprobs)
            )
        self._most_drawn += 1
        place = (self._row, self._count)
        # What is drawn in a row behind its end is cut off at last.
        self._drawn[place] = token
        self._logprobs[place] = torch.where(self._writing, logprob, 0.0)
        self._count = self._count + 1
        still = self._writing & ~torch.isin(token, self._ends) & ~full & (self._count < most)
        if stop:
            found = self._find_stops(still, stop)
            still &= torch.tensor(found, device=still.device) == 0
            num_writing = found.count(0)
        else:
            num_writing = int(still.sum())
        self._lengths[self._row] = torch.where(
            self._writing & ~still, self._count, self._lengths[self._row]
        )
        self._writing = still
        return num_writing

    def drop_ended(self) -> Tensor:
        """Take those that have ended out of flight; returns which of the rows stay, in order."""
        kept = self._writing.nonzero().squeeze(-1)
        self._row, self._count = self._row[kept], self._count[kept]
        self._writing = self._writing[kept]
        self._most_drawn = int(self._count.max()) if len(kept) else 0
        return kept

    def collect(self) -> Iterator[tuple[int, list[int], list[float]]]:
        """The owner, the token ids and their log-probabilities of every row. Raises
        ``ProverRLError`` if these are not numbers."""
        if bool(self._logprobs.isnan().any()):
            raise ProverRLError(
                "the policy's logits are not numbers (NaN), so that nothing can be drawn; its "
                "weights are spoiled, or its number type is too small for it"
            )
        tensors = (self._drawn, self._logprobs, self._lengths)
        rows = zip(self._owners, *(tensor.tolist() for tensor in tensors), strict=True)
        for owner, token_ids, logprobs, length in rows:
            yield owner, token_ids[:length], logprobs[:length]

    def _find_stops(self, writing: Tensor, stop: tuple[str, ...]) -> list[int]:
        """For each row in flight 0 where it is still being written after its last token."""
        longest = max(len(text.encode()) for text in stop)
        last = torch.arange(-longest, 0, device=writing.device)
        places = (self._count[:, None] + last).clamp(min=0)
        tails = self._drawn[self._row[:, None], places]
        rows = torch.cat([writing[:, None], self._count[:, None], tails], dim=1).tolist()
        return [
            int(not alive or self._ends_with(tail[-count:], stop)) for alive, count, *tail in rows
        ]
