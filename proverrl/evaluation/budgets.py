"""How many problems an evaluation solves for what it spends: turns, verifier calls or tokens.

Flows in: the stored attempts of evaluations on the same problems. Flows out: the share solved
against a budget a problem, so that n rollouts of T turns can be set against n T independent
samples, and the paired difference of two evaluations.
Attempts count in the order in which they are stored, one after another, as a search would make
them that stops at its first proof. Not handled here: other orders; seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from proverrl.errors import UsageError
from proverrl.evaluation.attempts import AttemptRow, TurnRow
from proverrl.statistics import Difference, compare_values, mean_interval
from proverrl.types import Status

BudgetUnit = Literal["turns", "calls", "tokens"]
"""``turns``: completions. ``calls``: candidates that their problem has not had before, since only
those go to the verifier. ``tokens``: tokens that the policy wrote, prompts not counted."""

UNITS: tuple[BudgetUnit, ...] = get_args(BudgetUnit)


@dataclass(frozen=True, slots=True)
class Spending:
    """What one problem cost: ``solved_at`` is what was spent when its first proof was in (None: no
    attempt is a proof), ``total`` what all of its attempts cost."""

    solved_at: int | None
    total: int


@dataclass(frozen=True, slots=True)
class Point:
    """The share of problems solved within ``budget`` a problem, its 95 % interval over problems,
    the mean that was spent, and the share of problems whose attempts ran out before the budget
    (counted as unsolved: more attempts might have solved them)."""

    budget: int
    solved: float
    low: float
    high: float
    spent: float
    ran_out: float


def measure_spending(rows: Sequence[AttemptRow], unit: BudgetUnit) -> dict[str, Spending]:
    """What each problem cost, in order of the problem ids.

    Attempts that were not judged are left out, cost and all.

    Raises:
        UsageError: tokens are asked for and an endpoint did not say how many there were.
    """
    by_problem: dict[str, list[AttemptRow]] = {}
    for row in rows:
        by_problem.setdefault(row["problem_id"], []).append(row)
    spending = {}
    for name, attempts in sorted(by_problem.items()):
        total, solved_at = 0, None
        seen: set[str] = set()
        for row in sorted(attempts, key=lambda row: row["attempt"]):
            if not row["status"].judged:
                continue
            total += sum(_cost(turn, unit, seen) for turn in row["turns"])
            if row["status"] is Status.PROVED and solved_at is None:
                solved_at = total
        spending[name] = Spending(solved_at, total)
    return spending


def _cost(turn: TurnRow, unit: BudgetUnit, seen: set[str]) -> int:
    """What a turn costs a problem that has had the candidates in ``seen``; adds its own."""
    if unit == "turns":
        return 1
    if unit == "tokens":
        if turn["num_tokens"] is None:
            raise UsageError(
                "the endpoint did not say how many tokens it wrote; compare turns or calls"
            )
        return turn["num_tokens"]
    key = turn["candidate"]
    if key is None or key in seen:
        return 0
    seen.add(key)
    return 1


def solve_curve(spending: Mapping[str, Spending], budgets: Sequence[int]) -> list[Point]:
    """The share of problems solved within each budget."""
    points = []
    for budget in budgets:
        solved = solved_within(spending, budget)
        low, high = mean_interval(solved)
        spent = [
            min(budget, s.total if s.solved_at is None else s.solved_at) for s in spending.values()
        ]
        ran_out = [s.solved_at is None and s.total < budget for s in spending.values()]
        num = len(spending)
        points.append(
            Point(budget, sum(solved) / num, low, high, sum(spent) / num, sum(ran_out) / num)
        )
    return points


def solved_within(spending: Mapping[str, Spending], budget: int) -> list[float]:
    """1.0 for each problem that was solved within the budget, else 0.0."""
    return [float(s.solved_at is not None and s.solved_at <= budget) for s in spending.values()]


def paired_difference(
    one: Mapping[str, Spending], other: Mapping[str, Spending], budget: int
) -> Difference:
    """``one`` less ``other`` at a budget.

    Raises:
        UsageError: they are not on the same problems.
    """
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
