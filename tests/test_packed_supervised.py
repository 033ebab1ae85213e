"""Packed supervised batches against padded ones."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proverrl.config import Config
from proverrl.config.training import LearnerConfig, WarmStartConfig
from proverrl.learner.packed_rows import batch_rows
from proverrl.policy.transformers import TransformersPolicy
from proverrl.run.imitation import Imitation
from proverrl.run.pairs import Pair
from proverrl.run.supervised import train_supervised
from tests.test_policy import tiny_policy
from tests.tolerance import FLOAT64


def test_rows_are_filled_with_what_is_of_like_length() -> None:
    pairs = [Pair((1,) * (length - 1), (2,)) for length in (3, 7, 2, 6, 12, 3, 4)]
    rows = [[pair.num_tokens for pair in row] for row in batch_rows(pairs, 10)]
    # What is longer than the budget goes alone.
    assert rows == [[2, 3, 3], [4, 6], [7], [12]]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 40))
def test_every_sequence_has_a_place_and_rows_keep_the_budget(
    lengths: list[int], budget: int
) -> None:
    pairs = [Pair((number,) * (length - 1), (2,)) for number, length in enumerate(lengths)]
    rows = list(batch_rows(pairs, budget))
    assert sorted(map(id, itertools.chain(*rows))) == sorted(map(id, pairs))
    for row in rows:
        assert len(row) == 1 or sum(pair.num_tokens for pair in row) <= budget


def make_pairs(num: int = 9) -> list[Pair]:
    rng = random.Random(3)
    return [
        Pair(
            tuple(rng.randrange(5, 300) for _ in range(rng.randrange(1, 20))),
            tuple(rng.randrange(5, 300) for _ in range(rng.randrange(1, 12))),
        )
        for _ in range(num)
    ]


def sum_parts(
    policy: TransformersPolicy, batch: Sequence[Pair], prompt_weight: float, pack_tokens: int = 0
) -> torch.Tensor:
    """The loss of a batch, with the gradients of all its parts."""
    imitation = Imitation(prompt_weight, pack_tokens)
    denominator = imitation.denominator(batch)
    parts = imitation.cut(batch, pack_tokens or sys.maxsize)
    return torch.stack(
        [imitation.compute(policy.model, part, denominator)[0] for part in parts]
    ).sum()


@pytest.mark.parametrize("prompt_weight", [0.0, 0.3])
@pytest.mark.parametrize("budget", [1, 24, 64, 4096])
def test_packing_gives_the_loss_and_gradient_of_padding(budget: int, prompt_weight: float) -> None:
    policy = tiny_policy()
    policy.model.double()
    pairs = make_pairs()
    gradients = []
    losses = []
    for pack_tokens in (0, budget):
        policy.model.zero_grad()
        loss = sum_parts(policy, pairs, prompt_weight, pack_tokens)
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(float(loss.detach()))
        gradients.append(torch.cat([p.grad.flatten() for p in policy.model.parameters()]))
    assert losses[1] == pytest.approx(losses[0], abs=FLOAT64)
    largest = float(gradients[0].abs().max())
    assert largest > 1e-2
    assert float((gradients[0] - gradients[1]).abs().max()) < FLOAT64 * max(1.0, largest)


def test_neighbours_in_a_row_change_nothing() -> None:
    policy = tiny_policy()
    policy.model.double()
    one, two, other = make_pairs(3)
    with torch.no_grad():
        alone = sum_parts(policy, [one], 0.0, 4096)
        sums = []
        for neighbour in (two, other):
            pair = [one, neighbour]
            both = sum_parts(policy, pair, 0.0, 4096)
            by_itself = sum_parts(policy, [neighbour], 0.0)
            n, m = len(one.target_ids), len(neighbour.target_ids)
            sums.append((float(both) * (n + m) - float(by_itself) * m) / n)
    # (n + m) / n is 24 at most.
    assert sums == pytest.approx([float(alone)] * 2, abs=24 * FLOAT64)


def test_packed_training_repeats_exactly_and_follows_the_padded_one() -> None:
    def run(pack_tokens: int) -> tuple[float, torch.Tensor]:
        policy = tiny_policy()
        settings = WarmStartConfig(
            batch_size=4,
            optimizer="adamw",
            learning_rate=1e-3,
            weight_decay=0.0,
            pack_tokens=pack_tokens,
        )
        config = Config(warm_start=settings, learner=LearnerConfig(max_grad_norm=1.0))
        session: Any = SimpleNamespace(policy=policy, config=config, problems=None)
        loss = train_supervised(
            session,
            [partial(Pair, p.prompt_ids, p.target_ids) for p in make_pairs()],
            settings,
            steps=20,
            seed=0,
            progress=lambda step, loss: None,
        )
        return loss, torch.cat([p.detach().flatten() for p in policy.model.parameters()])

    (padded, _), (packed, weights), (_, again) = run(0), run(48), run(48)
    assert torch.equal(weights, again)
    assert packed == pytest.approx(padded, abs=1e-3)
