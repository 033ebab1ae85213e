"""Fits a value head to features, an epoch at a time, and measures how good its values are.

Flows in: features of distinct prefixes, and pairs that point at them. Flows out: a ``ValueHead``
and ``ValueMetrics``. The loss is binary cross-entropy; with ``rank_weight`` a share of it is the
logistic loss on every pair of a solved and an unsolved prefix of one problem (RankNet, Burges et
al. 2005), because a search asks which prefix of its own problem is better and not which problem is
easy. Batches are of whole problems. The head that is kept has the lowest loss on problems that were
held back. Deterministic on CPU. Not handled here: where features come from (``model``), and
intervals of the metrics: pairs of one problem are not independent, so count problems.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from proverrl.lab.value.options import ValueOptions
from proverrl.seeds import derive_seed

Side = Literal["train", "valid", "test"]
_NUM_BINS = 10


class ValueHead(nn.Module):
    """From features of shape (rows, size) to logits of shape (rows,)."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))
        self.first = nn.Linear(size, hidden)
        self.last = nn.Linear(hidden, 1)

    def forward(self, features: Tensor) -> Tensor:
        inner = torch.relu(self.first((features - self.mean) / self.scale))
        logits: Tensor = self.last(inner).squeeze(-1)
        return logits


@dataclass(frozen=True)
class ValueData:
    """``features`` of distinct prefixes, shape (prefixes, size); and for each pair the ``rows`` of
    its prefix, its ``labels`` (1 solved) and the number of its problem in ``problems``."""

    features: Tensor
    rows: Tensor
    labels: Tensor
    problems: Tensor

    def groups(self, chosen: Tensor) -> list[Tensor]:
        """The numbers of the chosen pairs (a mask), those of a problem together."""
        numbers = chosen.nonzero().squeeze(1)
        order = numbers[self.problems[numbers].argsort(stable=True)]
        _, counts = torch.unique_consecutive(self.problems[order], return_counts=True)
        return list(order.split(counts.tolist()))  # type: ignore[no-untyped-call]


def choose_side(problem_id: str, config: ValueOptions, seed: int) -> Side:
    """The use of a problem: decided by its id, so that more pairs move none."""
    place = derive_seed(seed, "value", problem_id) / 2**63
    if place < config.valid_share:
        return "valid"
    return "test" if place < config.valid_share + config.test_share else "train"


def compute_rank_loss(logits: Tensor, labels: Tensor, problems: Tensor) -> Tensor:
    """Mean of log(1 + exp(unsolved - solved)) over the pairs of one problem; 0 without any."""
    solved = labels > 0.5
    same = (problems[:, None] == problems[None]) & solved[:, None] & ~solved[None]
    if not bool(same.any()):
        return logits.sum() * 0.0
    margins = (logits[:, None] - logits[None])[same]
    return nn.functional.softplus(-margins).mean()


class HeadFit:
    """A head in training. ``best`` is the one to keep; ``done`` when no epoch is to follow."""

    def __init__(
        self, data: ValueData, train: Tensor, valid: Tensor, config: ValueOptions, seed: int
    ) -> None:
        self.data = data
        self.config = config
        self.epoch = 0
        self._waited = 0
        self._best_loss = float("inf")
        self._train = data.groups(train)
        self._valid = data.groups(valid)
        self._generator = torch.Generator().manual_seed(seed)
        self._head = ValueHead(data.features.shape[1], config.hidden)
        for parameter in self._head.parameters():
            bound = parameter.shape[-1] ** -0.5
            nn.init.uniform_(parameter, -bound, bound, generator=self._generator)
        seen = data.features[data.rows[train].unique()]  # type: ignore[no-untyped-call]
        self._head.mean.copy_(seen.mean(0))
        self._head.scale.copy_(seen.std(0).clamp(min=1e-6))
        self.best = copy.deepcopy(self._head)
        self._optimizer = torch.optim.AdamW(
            self._head.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )

    @property
    def done(self) -> bool:
        """True if ``epochs`` or ``patience`` has ended the training."""
        return self.epoch >= self.config.epochs or self._waited >= self.config.patience

    def run_epoch(self) -> dict[str, float]:
        """One pass over the training pairs; the mean losses of both sides."""
        order = torch.randperm(len(self._train), generator=self._generator).tolist()
        total = 0.0
        for batch in self._batches([self._train[i] for i in order]):
            self._optimizer.zero_grad()
            loss = self._loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            total += float(loss.detach()) * len(batch)
        with torch.inference_mode():
            held = sum(float(self._loss(b)) * len(b) for b in self._batches(self._valid))
        held /= sum(map(len, self._valid))
        self.epoch += 1
        self._waited += 1
        if held < self._best_loss:
            self.best, self._best_loss, self._waited = copy.deepcopy(self._head), held, 0
        return {"loss": total / sum(map(len, self._train)), "valid_loss": held}

    def _batches(self, groups: Sequence[Tensor]) -> Iterator[Tensor]:
        """Whole problems until ``batch_size`` pairs are together."""
        waiting: list[Tensor] = []
        for number, group in enumerate(groups, 1):
            waiting.append(group)
            if sum(map(len, waiting)) >= self.config.batch_size or number == len(groups):
                yield torch.cat(waiting)
                waiting = []

    def _loss(self, batch: Tensor) -> Tensor:
        data, weight = self.data, self.config.rank_weight
        logits = self._head(data.features[data.rows[batch]])
        labels = data.labels[batch]
        loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
        if weight == 0.0:
            return loss
        ranked = compute_rank_loss(logits, labels, data.problems[batch])
        return (1.0 - weight) * loss + weight * ranked

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides the rest of the training."""
        return {
            "epoch": self.epoch,
            "waited": self._waited,
            "best_loss": self._best_loss,
            "head": self._head.state_dict(),
            "best": self.best.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken."""
        self.epoch, self._waited = state["epoch"], state["waited"]
        self._best_loss = state["best_loss"]
        self._head.load_state_dict(state["head"])
        self.best.load_state_dict(state["best"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._generator.set_state(state["generator"])


@dataclass(frozen=True, slots=True)
class ValueMetrics:
    """``auc`` is the chance that a solved pair scores above an unsolved one, ties half. ``within``
    is the same for pairs of one problem only, weighted by their number (NaN without such pairs). A
    search in one problem needs this figure. ``brier`` is the mean squared error, ``brier_base``
    that of always saying the mean; ``calibration`` the mean distance between score and share of
    solved over ten bins of equal width, weighted by their pairs."""

    num_pairs: int
    num_problems: int
    share_solved: float
    auc: float
    within: float
    brier: float
    brier_base: float
    calibration: float


def measure_values(
    scores: Sequence[float], solved: Sequence[bool], problems: Sequence[str]
) -> ValueMetrics:
    """All figures of aligned sequences that are not empty."""
    count = len(scores)
    share = sum(solved) / count
    rows = zip(scores, solved, strict=True)
    return ValueMetrics(
        num_pairs=count,
        num_problems=len(set(problems)),
        share_solved=share,
        auc=compute_auc(scores, solved),
        within=compute_within(scores, solved, problems),
        brier=sum((score - label) ** 2 for score, label in rows) / count,
        brier_base=share * (1.0 - share),
        calibration=compute_calibration(scores, solved),
    )


def compute_auc(scores: Sequence[float], solved: Sequence[bool]) -> float:
    """The area under the ROC curve by ranks; ties count half. NaN when all labels agree."""
    return compute_within(scores, solved, [""] * len(scores))


def compute_within(
    scores: Sequence[float], solved: Sequence[bool], problems: Sequence[str]
) -> float:
    """The AUC over the pairs that share a problem."""
    rows: dict[str, list[tuple[float, bool]]] = {}
    for score, label, problem in zip(scores, solved, problems, strict=True):
        rows.setdefault(problem, []).append((score, label))
    wins = total = 0.0
    for group in rows.values():
        labels = np.array([label for _, label in group], dtype=bool)
        good = int(labels.sum())
        ranks = stats.rankdata([score for score, _ in group])
        # Less the pairs of two solved ones, each with itself too.
        wins += float(ranks[labels].sum() - good * (good + 1) / 2)
        total += good * (len(group) - good)
    return wins / total if total else math.nan


def compute_calibration(scores: Sequence[float], solved: Sequence[bool]) -> float:
    """The expected calibration error over ten bins of equal width (Guo et al. 2017, arXiv
    1706.04599)."""
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(_NUM_BINS)]
    for score, label in zip(scores, solved, strict=True):
        bins[min(_NUM_BINS - 1, int(score * _NUM_BINS))].append((score, label))
    gaps = (abs(sum(s for s, _ in rows) - sum(label for _, label in rows)) for rows in bins)
    return sum(gaps) / len(scores)
