"""Lays sequences end to end in rows, none of which sees another.

Flows in: token sequences and a budget of tokens per row. Flows out: which sequence goes into which
row, and the row's ids, positions and attention mask. Each sequence has the positions and the
context that it would have alone, so that its hidden states are those of a padded batch.
Not handled here: sequences that share a prompt (``proverrl.learner.packing``); losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Tensors of shape (rows, width), ``allowed`` of (rows, width, width): True where a position
    (second index) sees another (third). ``starts`` holds, for each sequence in the order given,
    its row and its first column."""

    ids: Tensor
    positions: Tensor
    allowed: Tensor
    starts: tuple[tuple[int, int], ...]


def fill_rows(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Indices of sequences, row by row: the longest first, each into the first row with room.

    First-fit decreasing (Johnson 1973) needs at most 11/9 of the best number of rows, and one
    more. A sequence longer than ``max_tokens`` has a row of its own.
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        need = lengths[index]
        place = next((r for r, free in enumerate(room) if free >= need), len(rows))
        if place == len(rows):
            rows.append([])
            room.append(max(max_tokens, need))
        rows[place].append(index)
        room[place] -= need
    return rows


def lay_out(sequences: Sequence[Sequence[int]], rows: Sequence[Sequence[int]]) -> PackedRows:
    """The tensors of ``rows``, which names every sequence once."""
    width = max(sum(len(sequences[i]) for i in row) for row in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    positions = torch.zeros((len(rows), width), dtype=torch.long)
    # A padded position attends to itself, so that no softmax is over nothing.
    allowed = torch.eye(width, dtype=torch.bool).repeat(len(rows), 1, 1)
    starts: dict[int, tuple[int, int]] = {}
    for r, row in enumerate(rows):
        start = 0
        for index in row:
            tokens = sequences[index]
            end = start + len(tokens)
            ids[r, start:end] = torch.tensor(tokens)
            positions[r, start:end] = torch.arange(len(tokens))
            square = torch.ones(len(tokens), len(tokens), dtype=torch.bool)
            allowed[r, start:end, start:end] = square.tril()
            starts[index] = (r, start)
            start = end
    return PackedRows(ids, positions, allowed, tuple(starts[i] for i in range(len(sequences))))
