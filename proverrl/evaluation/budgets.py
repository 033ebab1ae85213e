"""The share of problems that an evaluation solves within a budget of turns, calls or tokens.

Flows in: tallies of evaluations on the same problems. Flows out: the share solved against a budget
per problem, and the paired difference of two evaluations. Attempts count in the order of their
numbers, as a search would make them that stops at its first proof. Not handled here: seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from proverrl.errors import UsageError
from proverrl.evaluation.tally import ProblemTally
from proverrl.statistics import Difference, compare_values, mean_interval
from proverrl.types import Status

BudgetUnit = Literal["turns", "calls", "tokens"]
"""``turns``: completions. ``calls``: candidates that their problem has not had before, since only
those go to the verifier. ``tokens``: tokens that the policy wrote, prompts not counted."""


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of one problem: ``total`` of all attempts, ``solved_at`` up to its first proof
    (None: no attempt is a proof)."""

    solved_at: int | None
    total: int


@dataclass(frozen=True, slots=True)
class Point:
    """The share of problems ``solved`` within ``budget`` a problem, with its 95 % interval.

    ``spent`` is the mean that was spent. ``ran_out`` is the share of problems whose attempts ran
    out before the budget; they count as unsolved, and more attempts might have solved them.
    ``against_first`` is the difference from the evaluation that it is compared with.
    """

    budget: int
    solved: float
    low: float
    high: float
    spent: float
    ran_out: float
    against_first: Difference | None = None


def measure_spending(
    problems: Mapping[str, ProblemTally], unit: BudgetUnit
) -> dict[str, Spending] | None:
    """The cost of each problem, in order of the problem ids; None where an endpoint did not say how
    many tokens it wrote for one.

    Attempts that were not judged are left out, cost and all.
    """
    spending = {}
    for name, tally in sorted(problems.items()):
        found = _measure(tally, unit)
        if found is None:
            return None
        spending[name] = found
    return spending


def _measure(tally: ProblemTally, unit: BudgetUnit) -> Spending | None:
    total, solved_at = 0, None
    seen: set[int | None] = {None}
    for attempt in tally.in_order:
        if unit == "turns":
            total += len(attempt.turns)
        elif unit == "calls":
            seen.update(candidate for candidate, _ in attempt.turns)
            total = len(seen) - 1
        else:
            for _, num_tokens in attempt.turns:
                if num_tokens is None:
                    return None
                total += num_tokens
        if solved_at is None and attempt.status is Status.PROVED:
            solved_at = total
    return Spending(solved_at, total)


def solve_curve(
    spending: Mapping[str, Spending],
    budgets: Sequence[int],
    first: Mapping[str, Spending] | None = None,
) -> list[Point]:
    """The share of problems solved within each budget, and against ``first`` where it is given.
    Raises UsageError: they are not on the same problems."""
    points = []
    for budget in budgets:
        solved = solved_within(spending, budget)
        low, high = mean_interval(solved)
        spent = [
            min(budget, s.total if s.solved_at is None else s.solved_at) for s in spending.values()
        ]
        ran_out = [s.solved_at is None and s.total < budget for s in spending.values()]
        num = len(spending)
        shares = (sum(solved) / num, low, high, sum(spent) / num, sum(ran_out) / num)
        gap = paired_difference(spending, first, budget) if first is not None else None
        points.append(Point(budget, *shares, gap))
    return points


def solved_within(spending: Mapping[str, Spending], budget: int) -> list[float]:
    """1.0 for each problem that was solved within the budget, else 0.0."""
    return [float(s.solved_at is not None and s.solved_at <= budget) for s in spending.values()]


def paired_difference(
    one: Mapping[str, Spending], other: Mapping[str, Spending], budget: int
) -> Difference:
    """``one`` less ``other`` at a budget. Raises UsageError: they are not on the same problems."""
    if list(one) != list(other):
        raise UsageError("the two evaluations are not on the same problems")
    return compare_values(solved_within(other, budget), solved_within(one, budget))


def choose_budgets(spendings: Sequence[Mapping[str, Spending]]) -> list[int]:
    """Powers of two up to the largest total that every evaluation has spent on some problem, and
    that total: beyond it one of them is out of attempts everywhere."""
    most = max(1, min(max(s.total for s in spending.values()) for spending in spendings))
    budgets = [1]
    while budgets[-1] * 2 <= most:
        budgets.append(budgets[-1] * 2)
    return budgets if budgets[-1] == most else [*budgets, most]
