"""The quality of a critic: right and wrong statements apart, and the mean of both.

Flows in: problems whose truth is known (``find_truth``), and (judged, agreed) counts of
the attempts at each. Flows out: rows beside those of the levels. One accuracy would hide which
error a critic makes: to let wrong statements through poisons what is learned from them, to refuse
right ones only costs (CriticLean, Peng et al. 2025, arXiv 2507.06181, gives both rates).
Not handled here: how sure of itself a critic is; it does not say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from proverrl.evaluation.section import ReportSection
from proverrl.evaluation.store import find_category
from proverrl.lab.critics.language import find_truth
from proverrl.statistics import SHARES, TAILS, draw_means
from proverrl.types import Problem, Status

RIGHT = "right (TPR)"
WRONG = "wrong (TNR)"
BALANCED = "balanced"

Row = dict[str, Any]


def judgement_rows(
    problems: Sequence[Problem],
    counts: Mapping[str, tuple[int, int]],
    summarise: Callable[[Sequence[Problem]], Row],
    find_error: Callable[[Problem], str],
) -> list[Row]:
    """The rate for right statements, for wrong ones and for each kind of error, each with what
    ``summarise`` gives, and balanced accuracy: the mean of the first two, for one attempt. Nothing
    unless every problem asks whether something is right, and some is right and some is not."""
    truths = [find_truth(problem) for problem in problems]
    sides = {
        name: [p for p, truth in zip(problems, truths, strict=True) if truth is side]
        for name, side in ((RIGHT, True), (WRONG, False))
    }
    if None in truths or not all(sides.values()):
        return []
    rows = [{"level": name, **summarise(members)} for name, members in sides.items()]
    kinds: dict[str, list[Problem]] = {}
    for problem in sides[WRONG]:
        kinds.setdefault(find_error(problem), []).append(problem)
    rows += [{"level": f"wrong: {kind}", **summarise(kinds[kind])} for kind in sorted(kinds)]
    shares = [
        [agreed / judged for judged, agreed in (counts[p.id] for p in members) if judged]
        for members in sides.values()
    ]
    if all(shares):
        low, high = balanced_interval(*shares)
        figure = {
            "value": sum(sum(side) / len(side) for side in shares) / len(shares),
            "low": low,
            "high": high,
            "num_problems": sum(map(len, shares)),
        }
        whole = {name: value for name, value in summarise(problems).items() if name != "pass"}
        rows.insert(0, {"level": BALANCED, **whole, "pass": {"1": figure}})
    return rows


def balanced_interval(*groups: Sequence[float]) -> tuple[float, float]:
    """95 % interval for the mean of the groups' means, of independent shares in [0, 1]. As
    ``mean_interval``, with weights of its own for each group, however large it is."""
    ends = []
    for bound, tail in zip(SHARES, TAILS, strict=True):
        rng = np.random.default_rng(0)
        drawn = [
            draw_means(np.array([*values, bound]), np.ones(len(values) + 1), rng)
            for values in groups
        ]
        # A mean of ones may miss 1 by a hair.
        ends.append(float(np.clip(np.quantile(np.mean(drawn, axis=0), tail), *SHARES)))
    return ends[0], ends[1]


class JudgementsSection(ReportSection):
    """The figures of a critic, below those of the levels."""

    def summarise(
        self,
        problems: Sequence[Problem],
        rows: Sequence[Mapping[str, Any]],
        group: Callable[[Sequence[Problem]], Mapping[str, Any]],
    ) -> Mapping[str, Any]:
        """See ``ReportSection``."""
        judged: Counter[str] = Counter()
        agreed: Counter[str] = Counter()
        for row in rows:
            judged[row["problem_id"]] += Status(row["status"]).judged
            agreed[row["problem_id"]] += row["status"] == Status.PROVED
        counts = {problem.id: (judged[problem.id], agreed[problem.id]) for problem in problems}
        found = judgement_rows(
            problems, counts, lambda members: dict(group(members)), find_category
        )
        return {"levels": found} if found else {}
