"""Drafts of several levels at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice

from proverrl.generate.dafny.stream import GENERATOR
from proverrl.generate.families import CurriculumDraft
from proverrl.types import Split


def generate_drafts(
    levels: Sequence[int], num: int, seed: int, split: Split
) -> Iterator[CurriculumDraft]:
    """``num`` distinct drafts, the levels taking turns."""
    streams = [GENERATOR.stream_level(level, seed, split) for level in levels]
    return islice(chain.from_iterable(zip(*streams, strict=True)), num)
